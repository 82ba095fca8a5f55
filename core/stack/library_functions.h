// The functions of the table that a library's file contains, and their addresses for probes. Results are kept: the
// ranks of a job have the same files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/stack/stack_functions.h"

namespace reveal {

struct LibraryFunctions {
  struct Place {
    std::size_t function = 0;   // in the table
    std::uint64_t offset = 0;   // in the file
    std::uint64_t counter = 0;  // offset of the counter that makes the program reach a mark; 0: none
    CallPlace place = CallPlace::function;
    std::uint64_t begin = 0;  // offset of the function, or of the mark
  };
  std::vector<Place> places;
  std::vector<std::size_t> slow;  // functions that it has, but with a probe that would be single-stepped
  std::string problem;            // why the file could not be read as a library; ""
};

class KnownLibraries {
 public:
  /// `name` is the file's own, which limits the functions to look for. Valid until the next call.
  const LibraryFunctions& look_into(int file, const std::string& name);

 private:
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::string>;
  std::map<Key, LibraryFunctions> files_;
};

}  // namespace reveal
