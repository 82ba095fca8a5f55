// What does not change about the observed host: constants every parser needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/root/root_fs.h"
#include "hdf5schema/vocabulary.h"

namespace reveal {

struct Host {
  std::int64_t tick_ns = 10'000'000;  // of USER_HZ, in which /proc counts cpu time
  std::int64_t page_bytes = 4096;
  std::vector<int> cpus_online;

  static Host look(RootFs& fs);
};

}  // namespace reveal
