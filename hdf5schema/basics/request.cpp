#include "hdf5schema/basics/request.h"

#include <algorithm>

namespace reveal {

std::string requested(std::string_view request, std::string_view key) {
  std::string value;
  while (!request.empty()) {
    const std::size_t comma = std::min(request.find(','), request.size());
    const std::string_view part = request.substr(0, comma);
    const std::size_t equals = std::min(part.find('='), part.size());
    if (part.substr(0, equals) == key) value = equals < part.size() ? part.substr(equals + 1) : "yes";
    request.remove_prefix(std::min(comma + 1, request.size()));
  }
  return value;
}

}  // namespace reveal
