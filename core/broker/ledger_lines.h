// The lines of a job for the ledger of this node: the deliverer, which runs as the job's user, writes them, and a
// program of root's reads them when the deliverer has ended. So root opens no file of the user.
#pragma once

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

/// A file in memory of a fixed size, full of zeros. Empty where the kernel refuses it: errno has the reason.
/// https://man7.org/linux/man-pages/man2/memfd_create.2.html
[[nodiscard]] Descriptor make_ledger_lines() noexcept;

[[nodiscard]] bool has_ledger_lines(const Descriptor& file) noexcept;

}  // namespace reveal
