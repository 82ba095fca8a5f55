#include "hdf5schema/hdf5_access.h"

#include <H5Cpp.h>

#include <new>

namespace reveal {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// What the library complained about deepest in its call stack: that is where the cause is named.
std::string hdf5_reason() {
  std::string reason;
  const auto take = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    auto& text = *static_cast<std::string*>(into);
    if (text.empty() && error->desc != nullptr) text = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take, &reason);
  for (char& c : reason) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return reason.empty() ? "HDF5 refused without a reason" : reason;
}

}  // namespace

Hdf5Access::Hdf5Access() : lock_(library_mutex()) {
  static const bool silenced = [] {
    H5::Exception::dontPrint();
    return true;
  }();
  static_cast<void>(silenced);
}

Error as_error(const std::string& place) {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const H5::Exception& exception) {
    const std::string reason = hdf5_reason();
    H5Eclear2(H5E_DEFAULT);
    return Error(place + ": " + reason);
  } catch (const std::bad_alloc&) {
    return Error(place + ": not enough memory to read it");
  } catch (const std::exception& exception) {
    return Error(place + ": " + exception.what());
  }
}

void check_hdf5(long long result, const char* what) {
  if (result < 0) throw H5::Exception(what, "failed");
}

}  // namespace reveal
