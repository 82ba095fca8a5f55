#include <gtest/gtest.h>

#include "tests/unit/core/live_probe.h"

namespace reveal::tests::perf_hardware_test {
namespace {

TEST(PerfHardware, IsAbsentWithTheKernelsReasonWithoutAPmu) {
  const PerfOpened cycles = open_perf_event({.event = {.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CPU_CYCLES},
                                             .target = {.task = ::getpid()},
                                             .user_only = true});
  if (cycles.fd) GTEST_SKIP() << "this machine has a PMU";
  if (!perf_is_here()) GTEST_SKIP() << "perf_event_open is denied here";
  const LiveProbe probe("perf_hardware", ::getpid());
  EXPECT_EQ(probe.coverage().state, Coverage::State::absent);
  EXPECT_NE(probe.coverage().reason.find("no such counter"), std::string::npos) << probe.coverage().reason;
}

}  // namespace
}  // namespace reveal::tests::perf_hardware_test
