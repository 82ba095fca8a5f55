#include "hdf5schema/basics/descriptor.h"

#include <gtest/gtest.h>
#include <sys/time.h>

#include <csignal>
#include <string>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/run_program.h"

namespace reveal::tests::descriptor_test {
namespace {

int g_full_pipe = -1;

/// A write that waits fails with EINTR when this returns, because there is no SA_RESTART.
void make_room(int) {
  char some[4096];
  [[maybe_unused]] const auto got = ::read(g_full_pipe, some, sizeof some);
}

bool writes_into_a_full_pipe() {
  const Pipe pipe = open_pipe(O_NONBLOCK);
  const std::string page(4096, 'x');
  while (::write(pipe.write.get(), page.data(), page.size()) > 0) {
  }
  if (::fcntl(pipe.write.get(), F_SETFL, 0) != 0) return false;
  g_full_pipe = pipe.read.get();
  struct sigaction action {};
  action.sa_handler = make_room;
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval often{.it_interval = {0, 10'000}, .it_value = {0, 10'000}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  return write_all(pipe.write.get(), page);
}

TEST(WriteAll, GoesOnAfterASignal) {
  EXPECT_EQ(exit_status(fork_child([] { return writes_into_a_full_pipe() ? 0 : 1; }).wait()), 0);
}

}  // namespace
}  // namespace reveal::tests::descriptor_test
