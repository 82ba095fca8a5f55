#include "hdf5schema/hdf5_access.h"

#include <H5Cpp.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): on_exit
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string_view>

namespace reveal {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// The reason of the last failed call. It is kept when the call fails: destructors on the way to a catch block call the
/// library again, which clears its error stack. Each thread reads its own, after it has left the library.
/// https://docs.hdfgroup.org/hdf5/v1_14/_h5_e__u_g.html
std::string& last_reason() {
  thread_local std::string reason;
  return reason;
}

/// The library names a failed system call with all its arguments, addresses included: the error text of the system is
/// enough.
std::string without_arguments(const std::string& reason) {
  constexpr std::string_view kMessage = "error message = '";
  const std::size_t begin = reason.find(kMessage);
  const std::size_t end = begin == std::string::npos ? begin : reason.find('\'', begin + kMessage.size());
  if (end == std::string::npos) return reason;
  return reason.substr(begin + kMessage.size(), end - begin - kMessage.size());
}

/// The deepest error in the library's call stack, because it names the cause.
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
  last_reason() = without_arguments(reason);
  return 0;
}

/// At exit the library closes itself. Where it could not close a file (the disk is full, the file damaged), it reads
/// memory that it has freed, or loops.
void leave_broken_files(int status, void* /*unused*/) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // this thread's reason is gone
  if (H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_FILE) <= 0) return;
  std::fflush(nullptr);
  ::_exit(status);
}

/// The author of a file could link it to any other file that its reader may open. Files of this project are read
/// without external links; links are only written (job.h5).
void follow_no_external_links() {
  H5L_class_t links{};
  links.version = H5L_LINK_CLASS_T_VERS;
  links.id = H5L_TYPE_EXTERNAL;
  links.comment = "external link, not followed";
  links.trav_func = [](const char*, hid_t, const void*, size_t, hid_t, hid_t) -> hid_t { return -1; };
  if (H5Lregister(&links) < 0) throw Error("HDF5 cannot be kept from following links into other files");
}

}  // namespace

Hdf5Access::Hdf5Access() : lock_(library_mutex()) {
  // Debian builds the library with an error stack for each thread.
  thread_local const bool listening = H5Eset_auto2(H5E_DEFAULT, keep_reason, nullptr) >= 0;
  static const bool prepared = [] {
    std::cerr.rdbuf(nullptr);                  // where destructors of the C++ interface print; no other code does
    H5set_free_list_limits(0, 0, 0, 0, 0, 0);  // memory it does not use is malloc's, not its own
    H5PLset_loading_state(0);                  // a file cannot load plugins
    follow_no_external_links();
    return ::on_exit(leave_broken_files, nullptr) == 0;
  }();
  static_cast<void>(listening && prepared);
}

Hdf5Access::Hdf5Access(std::nothrow_t /*unused*/) noexcept : lock_(library_mutex()) {}

const std::string& last_hdf5_reason() {
  return last_reason();
}

std::string failure_reason() {
  try {
    throw;
  } catch (const H5::Exception&) {
    return last_reason().empty() ? "HDF5 refused without a reason" : last_reason();
  } catch (const std::bad_alloc&) {
    return "not enough memory to read it";
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

Error as_error(const std::string& place) {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (...) {
    return Error(place + ": " + failure_reason());
  }
}

void check_hdf5(long long result, const char* what) {
  if (result < 0) throw H5::Exception(what, "failed");
}

}  // namespace reveal
