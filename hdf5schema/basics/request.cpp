#include "hdf5schema/basics/request.h"

#include <algorithm>

#include "hdf5schema/basics/text.h"

namespace reveal {

std::string requested(std::string_view request, std::string_view key) {
  std::string value;
  for (const std::string& part : split_names(request, ",")) {
    const std::size_t equals = std::min(part.find('='), part.size());
    if (part.substr(0, equals) == key) value = equals < part.size() ? part.substr(equals + 1) : "yes";
  }
  return value;
}

}  // namespace reveal
