// Constants of the observed host that parsers need.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/kernel_text/kernel_tree.h"
#include "hdf5schema/vocabulary.h"

namespace reveal {

struct Host {
  /// kMissing if a copied tree does not have it: then the result of scaled() is missing, too.
  std::int64_t tick_ns = kMissing;  // period of USER_HZ, in which /proc counts cpu time
  std::int64_t page_bytes = kMissing;
  std::vector<int> cpus_online;
  std::string caveat;  // which of them is missing, for the probes that need it

  static Host look(KernelTree& fs);
};

}  // namespace reveal
