// A card may have hundreds of virtual functions (SR-IOV), which the kernel lists like cards. Where only so many devices
// are read, these are the last. https://docs.kernel.org/PCI/pci-iov-howto.html
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernel_text/kernel_tree.h"

namespace reveal {

/// The names in a folder, those of virtual functions last. `link`: leads from one to the function's card ("/physfn").
[[nodiscard]] inline std::vector<std::string> physical_first(KernelTree& fs, std::vector<std::string> names,
                                                             std::string_view folder, std::string_view link) {
  std::stable_partition(names.begin(), names.end(), [&](const std::string& name) {
    return fs.list(std::string(folder).append(1, '/').append(name).append(link)).empty();
  });
  return names;
}

}  // namespace reveal
