// An environment of the test's own making.
#pragma once

#include <map>
#include <string>

#include "hdf5schema/basics/file_pattern.h"

namespace reveal {

inline Environment with(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

}  // namespace reveal
