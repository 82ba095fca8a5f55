#include "hdf5schema/hdf5_access.h"

#include <H5Cpp.h>

#include <cstdlib>
#include <iostream>
#include <new>
#include <string_view>
#include <system_error>

namespace reveal {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// Of the last call that failed. Kept at the time of the failure: destructors on the way to a catch block call the
/// library again, which forgets it. Each thread reads its own, after it has left the library.
std::string& last_reason() {
  thread_local std::string reason;
  return reason;
}

/// "file write failed: time = ..., errno = 28, error message = ..., buf = 0x55d0, ..." is "No space left on device".
std::string without_addresses(const std::string& reason) {
  constexpr std::string_view kErrno = "errno = ";
  const std::size_t at = reason.find(kErrno);
  if (at == std::string::npos) return reason;
  return std::generic_category().message(std::atoi(reason.c_str() + at + kErrno.size()));
}

/// What the library complained about deepest in its call stack: that is where the cause is named.
herr_t keep_reason(hid_t stack, void* /*unused*/) {
  std::string reason;
  const auto take = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    auto& text = *static_cast<std::string*>(into);
    if (text.empty() && error->desc != nullptr) text = error->desc;
    return 0;
  };
  H5Ewalk2(stack, H5E_WALK_UPWARD, take, &reason);
  for (char& c : reason) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  last_reason() = without_addresses(reason);
  return 0;
}

}  // namespace

Hdf5Access::Hdf5Access() : lock_(library_mutex()) {
  // Debian builds the library with an error stack for each thread.
  thread_local const bool listening = H5Eset_auto2(H5E_DEFAULT, keep_reason, nullptr) >= 0;
  static const bool prepared = [] {
    std::cerr.rdbuf(nullptr);                  // where destructors of the C++ interface print; nobody else does
    H5set_free_list_limits(0, 0, 0, 0, 0, 0);  // memory it does not use is malloc's, not its own
    // At exit the library closes itself and, where a damaged file left something behind, says "infinite loop closing
    // library" if anybody listens to its errors.
    return std::atexit([] { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }) == 0;
  }();
  static_cast<void>(listening && prepared);
}

Error as_error(const std::string& place) {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const H5::Exception&) {
    return Error(place + ": " + (last_reason().empty() ? "HDF5 refused without a reason" : last_reason()));
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
