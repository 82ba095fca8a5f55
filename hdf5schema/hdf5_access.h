// All calls of the HDF5 library, which is not thread-safe as Debian builds it, are made while an Hdf5Access is held.
// https://support.hdfgroup.org/documentation/hdf5/latest/thread-safe-lib.html
#pragma once

#include <mutex>
#include <new>
#include <string>

#include "hdf5schema/basics/error.h"

namespace reveal {

/// May be nested. The first one silences the library's own printing, and std::cerr.
class Hdf5Access {
 public:
  Hdf5Access();
  /// For destructors: they close objects opened with the other constructor.
  explicit Hdf5Access(std::nothrow_t) noexcept;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// Returns the reason of this thread's last failed call.
[[nodiscard]] const std::string& last_hdf5_reason();

/// Inside a catch block: the failure, without a place.
[[nodiscard]] std::string failure_reason();

/// Inside a catch block: the exception as one line that begins with `place`; an Error passes unchanged.
[[nodiscard]] Error as_error(const std::string& place);

/// Throws Error with the library's own reason when a C call failed.
void check_hdf5(long long result, const char* what);

}  // namespace reveal
