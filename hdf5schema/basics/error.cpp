#include "hdf5schema/basics/error.h"

#include <system_error>

namespace reveal {

Error system_error(const std::string& what, int error_number) {
  return Error(what + ": " + std::generic_category().message(error_number));
}

}  // namespace reveal
