#include "hdf5schema/basics/call_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "hdf5schema/basics/child_process.h"

namespace reveal::tests::call_filter_test {
namespace {

constexpr int kNoFilters = 250;

/// The errno of a call in a child process with the filter; 0: it succeeds.
int error_with(const std::function<void(CallFilter&)>& compose, const std::function<long()>& call) {
  ChildProcess child = fork_child([&] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    CallFilter filter;
    compose(filter);
    if (!filter.install()) return kNoFilters;
    return call() < 0 ? errno : 0;
  });
  return WEXITSTATUS(child.wait());
}

bool has_filters() {
  return error_with([](CallFilter&) {}, [] { return 0L; }) != kNoFilters;
}

TEST(CallFilter, RefusesCallsByTheirNumber) {
  if (!has_filters()) GTEST_SKIP() << "this kernel, or this architecture, has no filters";
  static constexpr int kNumbers[] = {SYS_getppid, SYS_chroot};
  const auto compose = [](CallFilter& filter) { filter.refuse(kNumbers); };
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_chroot, "/"); }), EPERM);
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_getppid); }), EPERM);
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_getpid); }), 0);
}

TEST(CallFilter, RefusesACallWithFlagsOnly) {
  if (!has_filters()) GTEST_SKIP() << "this kernel, or this architecture, has no filters";
  const auto compose = [](CallFilter& filter) { filter.refuse_with_flags(SYS_openat, 2, O_WRONLY | O_RDWR, EACCES); };
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY); }), EACCES);
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY); }), 0);
}

TEST(CallFilter, AllowsACallWithListedValuesOnly) {
  if (!has_filters()) GTEST_SKIP() << "this kernel, or this architecture, has no filters";
  static constexpr std::uint32_t kMasks[] = {0, 7, 9};
  const auto compose = [](CallFilter& filter) { filter.allow_only(SYS_umask, 0, kMasks); };
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_umask, 0); }), 0);
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_umask, 9); }), 0);
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_umask, 8); }), EPERM);
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_getpid); }), 0);
}

TEST(CallFilter, AllowsACallWithItsFlagOnly) {
  if (!has_filters()) GTEST_SKIP() << "this kernel, or this architecture, has no filters";
  const auto compose = [](CallFilter& filter) { filter.allow_only_with_flags(SYS_umask, 0, 4); };
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_umask, 4 + 2); }), 0);
  EXPECT_EQ(error_with(compose, [] { return ::syscall(SYS_umask, 2); }), EPERM);
}

TEST(CallFilter, TakesCallsForUnknownFromANumberOn) {
  if (!has_filters()) GTEST_SKIP() << "this kernel, or this architecture, has no filters";
  static constexpr int kKnown[] = {439};  // faccessat2
  const auto compose = [](CallFilter& filter) { filter.refuse_newer(434, kKnown); };
  EXPECT_EQ(error_with(compose, [] { return ::syscall(434, ::getpid(), 0); }), ENOSYS);  // pidfd_open
  const auto asks = [] { return ::syscall(439, AT_FDCWD, "/", R_OK, 0); };
  EXPECT_EQ(error_with(compose, asks), error_with([](CallFilter&) {}, asks));
}

}  // namespace
}  // namespace reveal::tests::call_filter_test
