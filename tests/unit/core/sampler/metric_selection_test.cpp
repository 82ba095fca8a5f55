// The selection by the file of --metrics, and the reads that it saves.
#include "core/sampler/metric_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/sampler/sampler.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/trace_reader.h"
#include "test_host.h"

namespace reveal::tests::metric_selection_test {
namespace {

constexpr const char* kMeminfo = "MemTotal: 5 kB\nMemFree: 4 kB\nDirty: 3 kB\nHugePages_Free: 2\n";

TEST(Patterns, MeetWhereOneTextFitsBoth) {
  EXPECT_TRUE(patterns_meet("mem.dirty", "mem.dirty"));
  EXPECT_TRUE(patterns_meet("mem.*", "mem.dirty"));
  EXPECT_TRUE(patterns_meet("mem.d*", "mem.*"));
  EXPECT_TRUE(patterns_meet("*y", "mem.*"));
  EXPECT_TRUE(patterns_meet("cpu?", "cpu3"));
  EXPECT_TRUE(patterns_meet("*", ""));
  EXPECT_TRUE(patterns_meet("", ""));
  EXPECT_TRUE(patterns_meet("a*c", "ab*"));
  EXPECT_FALSE(patterns_meet("mem.d*", "mem.f*"));
  EXPECT_FALSE(patterns_meet("mem", "mem.dirty"));
  EXPECT_FALSE(patterns_meet("mem.dirty", "mem"));
  EXPECT_FALSE(patterns_meet("cpu?", "cpu"));
  EXPECT_FALSE(patterns_meet("", "a"));
}

MetricSelection selection(const TestHost& host, const std::string& text) {
  host.write("/selected", text);
  return MetricSelection::read(host.root().string() + "/selected");
}

std::string refusal(const std::string& text) {
  const TestHost host;
  try {
    static_cast<void>(selection(host, text));
    return "nothing";
  } catch (const Error& error) {
    return std::string(error.what()).substr(host.root().string().size());
  }
}

TEST(MetricSelection, TakesNamesInstancesAndPatterns) {
  const TestHost host;
  MetricSelection some =
      selection(host, "# a comment\n\nmem.dirty  # why\ncpu.user/cpu3\nvmstat.nr_*\ncpu.idle/cpu?\n");
  EXPECT_FALSE(some.everything());
  EXPECT_TRUE(some.take("mem.dirty", ""));
  EXPECT_FALSE(some.take("mem.free", ""));
  EXPECT_TRUE(some.take("cpu.user", "cpu3"));
  EXPECT_FALSE(some.take("cpu.user", "cpu33"));
  EXPECT_FALSE(some.take("cpu.user", ""));
  EXPECT_TRUE(some.take("vmstat.nr_dirty", ""));
  EXPECT_TRUE(some.take("cpu.idle", "cpu7"));
  EXPECT_FALSE(some.take("cpu.idle", "cpu12"));
  EXPECT_FALSE(some.missing());
  EXPECT_EQ(some.source(), "4 names of selected");
}

TEST(MetricSelection, TakesEverythingWhereNoLineSelects) {
  const TestHost host;
  EXPECT_TRUE(MetricSelection().take("mem.free", ""));
  MetricSelection empty = selection(host, "# nothing\n");
  EXPECT_TRUE(empty.everything());
  MetricSelection own = selection(host, "room.level gauge count /level\n");
  EXPECT_TRUE(own.everything());
  EXPECT_TRUE(own.take("mem.free", ""));
}

TEST(MetricSelection, AlwaysTakesTheSitesOwn) {
  const TestHost host;
  MetricSelection both = selection(host, "mem.dirty\nroom.level gauge count /level\n");
  EXPECT_TRUE(both.take("room.level", ""));
  EXPECT_FALSE(both.take("mem.free", ""));
}

TEST(MetricSelection, RefusesWhatNoProbeHas) {
  EXPECT_EQ(refusal("mem.dirty\ncpu.usr\n"), "/selected:2: unknown metric \"cpu.usr\"; did you mean \"cpu.user\"?");
  EXPECT_EQ(refusal("cgroup.cpu_usge\n"),
            "/selected:1: unknown metric \"cgroup.cpu_usge\"; did you mean \"cgroup.cpu_usage\"?");
  EXPECT_EQ(refusal("quite.unlikely.*\n"), "/selected:1: unknown metric \"quite.unlikely.*\"");
  EXPECT_EQ(refusal("room.*\nroom.level gauge count /level\n"), "nothing");
}

TEST(MetricSelection, SaysWhatThisNodeDoesNotHave) {
  const TestHost host;
  MetricSelection some = selection(host, "mem.dirty\nmem.dirtty\nvmstat.nr_*\n");
  EXPECT_TRUE(some.take("mem.dirty", ""));
  EXPECT_EQ(some.missing().value_or("").substr(host.root().string().size()),
            "/selected: 2 of 3 lines match no metric of this node so far, the first in line 2: \"mem.dirtty\"; did "
            "you mean \"mem.dirty\"?");
}

TEST(MetricSelection, SparesTheProbesOfWhichNothingIsSelected) {
  TestHost host;
  host.write("/proc/meminfo", kMeminfo);
  host.write("/proc/vmstat", "nr_dirty 4\n");
  host.write("/selected", "mem.dirty\n");
  KernelTree fs(host.root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.metrics_file = host.root().string() + "/selected"}, {1, 1});
  sampler.look_first();
  EXPECT_NE(sink.find("memory/meminfo"), nullptr);
  EXPECT_EQ(sink.find("memory/vmstat"), nullptr);
  for (const Coverage& fact : sampler.coverage()) {
    const bool opened = fact.probe == "memory" || fact.probe == "self" || fact.probe == "lateness";
    EXPECT_EQ(fact.state == Coverage::State::ok, opened) << fact.probe;
    if (fact.probe == "vmstat") {
      EXPECT_EQ(fact.reason, "none of its metrics was selected (--metrics)");
    }
  }
}

TEST(MetricSelection, StoresOnlyWhatIsSelectedWithItsOwnValues) {
  TestHost host;
  host.write("/proc/meminfo", kMeminfo);
  host.write("/selected", "mem.dirty\nmem.total\n");
  const std::filesystem::path path = host.root() / "selected.h5";
  {
    KernelTree fs(host.root());
    TraceHeader header;
    header.node = "here";
    header.interval = std::chrono::milliseconds(100);
    TraceWriter writer(path, header);
    TraceSink sink(&writer);
    Sampler sampler(fs, sink, {.probes = {"memory"}, .metrics_file = host.root().string() + "/selected"},
                    {1'000'000'000, 1'700'000'000'000'000'000});
    sampler.look_first();
    writer.start();
    for (std::int64_t i = 0; i < 3; ++i) {
      sampler.sample({.time = {2'000'000'000 + i * 100'000'000, 1'700'000'001'000'000'000}, .number = 10 + i});
    }
    EXPECT_EQ(sink.channels(), 2U);
    writer.close();
  }
  const TraceReader reader(path);
  std::vector<std::string> stored;
  for (const TraceReader::Family& family : reader.families()) {
    const std::vector<double> values = reader.read(family);
    for (std::size_t c = 0; c < family.channels.size(); ++c) {
      const double last = values.at((c + 1) * family.time_ns.size() - 1);
      stored.push_back(family.channels[c].metric + ' ' + std::to_string(static_cast<int>(last)));
    }
  }
  EXPECT_EQ(stored, (std::vector<std::string>{"mem.total 5120", "mem.dirty 3072"}));
}

// Otherwise a name that is recorded could be refused as unknown.
TEST(Probes, HaveEveryMetricOfThisHostInTheirTables) {
  if (!std::filesystem::exists("/proc/self/stat")) GTEST_SKIP() << "no /proc";
  KernelTree fs;
  TraceSink sink;
  Sampler sampler(fs, sink, {.job = JobSource{.pid = ::getpid()}}, SystemClock().now());
  sampler.look_first();
  const TestHost host;
  std::string names;
  for (const Family& family : sink.families()) {
    for (const ChannelKey& key : family.channels()) names += key.metric + '\n';
  }
  ASSERT_FALSE(names.empty());
  EXPECT_NO_THROW(static_cast<void>(selection(host, names)));
}

}  // namespace
}  // namespace reveal::tests::metric_selection_test
