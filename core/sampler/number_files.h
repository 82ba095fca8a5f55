// Files that hold one number each, as channels of one family.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/kernel_text/kernel_tree.h"
#include "core/sampler/probe.h"

namespace reveal {

struct NumberFile {
  std::size_t metric = 0;  // row in the family's table
  std::string instance;
  KernelFile file;
  std::int64_t scale = 1;
};

/// Measures them. A file that cannot be read has no value.
[[nodiscard]] std::unique_ptr<Probe> open_number_files(const ProbeContext& context, const FamilyTable& table,
                                                       std::vector<NumberFile> files);

}  // namespace reveal
