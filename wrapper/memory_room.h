// How much memory the control groups of this process leave it: programs started after the command are charged to the
// job, and a report that is killed for lack of memory counts as the job's failure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace reveal {

/// Bytes below the tightest limit of version 1 or 2, page cache that the kernel can drop counted as free. Nothing where
/// no limit is set or none can be read. `root` is "/" but in tests.
[[nodiscard]] std::optional<std::uint64_t> memory_room(const std::filesystem::path& root);

}  // namespace reveal
