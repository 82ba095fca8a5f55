// Counters that fall, and numbers that are none.
#include "core/sampler/trace_sink.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/trace_reader.h"
#include "test_host.h"

namespace reveal::tests::trace_sink_test {
namespace {

constexpr MetricHelp kMetrics[] = {{"disk.reads", "Reads completed."}};
constexpr FamilyTable kTable{"storage/disk",     Kind::counter,           Unit::count,       Scope::device,
                             Subsystem::storage, "Requests of each disk", "/proc/diskstats", kMetrics};

TEST(TraceSink, ACounterThatFellIsAnEventAndHasNoIncrement) {
  const TestHost host;
  host.write("/traces/here", "");
  const std::filesystem::path path = host.root() / "traces" / "node.h5";
  {
    TraceHeader header;
    header.node = "here";
    header.interval = std::chrono::milliseconds(100);
    TraceWriter writer(path, header);
    TraceSink sink(&writer);
    Family& family = sink.add_family(kTable, std::chrono::milliseconds(100));
    const std::int32_t first = family.add("disk.reads", "sda");
    const std::int32_t second = family.add("disk.reads", "sdb");
    writer.start();
    std::int64_t now = 1'000'000'000;
    using Values = std::pair<std::int64_t, std::int64_t>;
    for (const auto& [of_sda, of_sdb] : {Values{100, 7}, {110, 8}, {109, 8}, {3, kMissing}, {5, 2}, {1, 1}}) {
      sink.set_now(now += 100'000'000);
      family.begin();
      family.set(first, of_sda);
      family.set(second, of_sdb);
      family.commit();
    }
    writer.close();
  }
  TraceReader reader(path);
  std::vector<std::string> resets;
  for (const Event& event : reader.events()) {
    if (event.code == "counter_reset") resets.push_back(event.object + ": " + event.text);
  }
  // A fall by a little is the kernel's own rounding, and the later ones are of the same minute.
  EXPECT_EQ(resets, std::vector<std::string>{"family storage/disk: disk.reads/sda fell"});
}

TEST(TraceSink, ACounterThatFellIsFoundAmongManyThatWereNotSet) {
  const TestHost host;
  host.write("/traces/here", "");
  const std::filesystem::path path = host.root() / "traces" / "node.h5";
  constexpr std::int32_t kChannels = 1100;
  constexpr std::int64_t kMinute = 60'000'000'000;
  {
    TraceWriter writer(path, {.node = "here", .interval = std::chrono::milliseconds(100)});
    TraceSink sink(&writer);
    Family& family = sink.add_family(kTable, std::chrono::milliseconds(100));
    for (std::int32_t channel = 0; channel < kChannels; ++channel) {
      family.add("disk.reads", "d" + std::to_string(channel));
      family.set(channel, 100);
    }
    writer.start();
    std::int64_t now = 0;
    for (const std::int32_t fallen : {-1, 35, 1050, -1, 3}) {
      sink.set_now(now += kMinute);
      family.set(fallen, 10);
      family.commit();
    }
    writer.close();
  }
  const TraceReader reader(path);
  std::vector<std::string> resets;
  for (const Event& event : reader.events()) {
    if (event.code == "counter_reset") resets.push_back(event.text);
  }
  EXPECT_EQ(resets, (std::vector<std::string>{"disk.reads/d35 fell", "disk.reads/d1050 fell", "disk.reads/d3 fell"}));
}

TEST(TraceSink, KeepsABoundedNumberOfEventsOfOneKindAndCountsTheOthers) {
  const TestHost host;
  host.write("/traces/here", "");
  const std::filesystem::path path = host.root() / "traces" / "node.h5";
  {
    TraceWriter writer(path, {.node = "here", .interval = std::chrono::milliseconds(100)});
    TraceSink sink(&writer);
    writer.start();
    sink.set_now(1'000'000'000);
    for (int i = 0; i < 600; ++i) sink.event("process " + std::to_string(i), "process_begin");
    sink.event("step 0", "step_begin");
    sink.set_now(12'000'000'000);
    for (int i = 0; i < 5; ++i) sink.event("process 700", "process_begin");
    writer.close();
  }
  const TraceReader reader(path);
  EXPECT_EQ(reader.events().size(), 512U + 1U + 1U);
  EXPECT_EQ(reader.events().back().text, "(88 before it left out)");
}

TEST(Counters, BeyondSixtyFourBitsAreNone) {
  std::int64_t value = 0;
  EXPECT_TRUE(parse_counter("18446744073709551615", value));
  EXPECT_EQ(value, INT64_MAX);  // its low 63 bits
  EXPECT_FALSE(parse_counter("18446744073709551616", value));
  EXPECT_FALSE(parse_counter("99999999999999999999", value));
  EXPECT_FALSE(parse_counter("100000000000000000000", value));
  EXPECT_FALSE(parse_counter("12x", value));
  EXPECT_FALSE(parse_counter("", value));
  EXPECT_TRUE(parse_counter("00000000000000000012", value));
  EXPECT_EQ(value, 12);
}

std::size_t open_files() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count += entry.exists() ? 1 : 0;
  return count;
}

TEST(OpenFiles, AreNotHeldForWhatExistsOncePerCpu) {
  constexpr int kCpus = 400;
  TestHost host;
  host.write("/sys/devices/system/cpu/online", "0-" + std::to_string(kCpus - 1) + '\n');
  for (int cpu = 0; cpu < kCpus; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    host.write(folder + "/cpufreq/scaling_cur_freq", "2600000\n");
    host.write(folder + "/cpufreq/scaling_max_freq", "2600000\n");
    host.write(folder + "/thermal_throttle/core_throttle_count", "0\n");
  }
  KernelTree fs(host.root());
  TraceSink sink;
  const std::size_t before = open_files();
  Sampler sampler(fs, sink, {.probes = {"cpu_frequency", "cpu_frequency_limits", "thermal_throttle"}}, {1, 1});
  sampler.look_first();
  sampler.sample({.time = {2, 2}, .number = 0});
  EXPECT_LE(open_files(), before + 4);
  EXPECT_EQ(sink.find("cpu/frequency")->value("cpu.frequency", "other_cpus"), 2'600'000'000);
}

TEST(OpenFiles, BeyondTheLimitAreOpenedForEachRead) {
  TestHost host;
  for (int i = 0; i < 100; ++i) host.write("/f" + std::to_string(i), std::to_string(i));
  KernelTree fs(host.root());
  fs.limit_kept_files(10);
  const std::size_t before = open_files();
  std::vector<KernelFile> files;
  for (int i = 0; i < 100; ++i) files.push_back(fs.open("/f" + std::to_string(i)));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(files[static_cast<std::size_t>(i)].read(), std::to_string(i));
  EXPECT_LE(open_files(), before + 10);
}

}  // namespace
}  // namespace reveal::tests::trace_sink_test
