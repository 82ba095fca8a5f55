#include <gtest/gtest.h>

#include <ctime>

#include "hdf5schema/basics/clocks.h"
#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::self_test {
namespace {

TEST(Self, MeasuresThisProcessAndTellsWhatTheTickerTold) {
  KernelTree fs;
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"self", "lateness"}}, now());
  sampler.look_first();
  const std::int64_t before = read_clock(CLOCK_PROCESS_CPUTIME_ID);
  sampler.sample({.time = now(), .number = 0, .late_ns = 1234, .missed = 2});
  sampler.sample({.time = now(), .number = 10, .late_ns = 56, .missed = 1});
  EXPECT_EQ(sink.find("self/lateness")->value("self.tick_lateness"), 56);
  EXPECT_EQ(sink.find("self/losses")->value("self.ticks_missed"), 3);
  EXPECT_EQ(sink.find("self/losses")->value("self.rows_lost"), 0);
  const Family& times = *sink.find("self/time");
  EXPECT_GE(times.value("self.cpu_time"), before);
  EXPECT_LE(times.value("self.cpu_time"), read_clock(CLOCK_PROCESS_CPUTIME_ID));
  EXPECT_GT(times.value("self.probe_time", "self"), 0);
  EXPECT_GT(sink.find("self/memory")->value("self.rss"), 1'000'000);
  EXPECT_EQ(sink.find("self/output")->value("self.bytes_written"), kMissing) << "nothing is written here";
}

TEST(Self, HasNoMemoryInACopiedTree) {
  const TestHost host;
  host.write("/proc/self/statm", "100 50 20 1 0 30 0\n");
  ProbeBench bench(host, "self");
  bench.sample();
  EXPECT_EQ(bench.value("self/memory", "self.rss"), kMissing);
}

}  // namespace
}  // namespace reveal::tests::self_test
