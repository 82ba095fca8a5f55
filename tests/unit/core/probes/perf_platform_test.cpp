// The kernel's PMUs in sysfs, on trees like those of servers that are not here.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/pmu/implemented_events.h"
#include "core/pmu/platform_events.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::perf_platform_test {
namespace {

constexpr char kDevices[] = "/sys/bus/event_source/devices/";

void write_pmu(const TestHost& host, const std::string& pmu,
               std::initializer_list<std::pair<const char*, const char*>> files) {
  for (const auto& [file, text] : files) host.write(kDevices + pmu + '/' + file, std::string(text) + '\n');
}

void write_cpus(const TestHost& host, int cpus, int cpus_per_package, const std::string& cpuinfo) {
  host.write("/sys/devices/system/cpu/online", "0-" + std::to_string(cpus - 1) + "\n");
  for (int cpu = 0; cpu < cpus; ++cpu) {
    host.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/physical_package_id",
               std::to_string(cpu / cpus_per_package) + "\n");
  }
  host.write("/proc/cpuinfo", cpuinfo);
}

// Two sockets of Skylake-SP, as a 6.1 kernel shows them: the memory controllers' terms end at other bits than usual.
void write_intel_server(const TestHost& host) {
  write_cpus(host, 4, 2, "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nstepping\t: 4\n");
  for (int channel = 0; channel < 6; ++channel) {
    write_pmu(host, "uncore_imc_" + std::to_string(channel),
              {{"type", "20"},
               {"cpumask", "0,2"},
               {"format/event", "config:0-7"},
               {"format/umask", "config:8-15"},
               {"format/thresh", "config:24-31"},
               {"events/cas_count_read", "event=0x04,umask=0x03"},
               {"events/cas_count_read.scale", "6.103515625e-5"},
               {"events/cas_count_read.unit", "MiB"},
               {"events/cas_count_write", "event=0x04,umask=0x0c"},
               {"events/cas_count_write.scale", "6.103515625e-5"},
               {"events/cas_count_write.unit", "MiB"},
               {"events/clockticks", "event=0xff,umask=0x00"}});
  }
  write_pmu(host, "uncore_imc_free_running_0", {{"type", "90"}, {"cpumask", "0"}});
  write_pmu(host, "power",
            {{"type", "31"},
             {"cpumask", "0,2"},
             {"format/event", "config:0-7"},
             {"events/energy-pkg", "event=0x02"},
             {"events/energy-pkg.scale", "2.3283064365386962890625e-10"},
             {"events/energy-pkg.unit", "Joules"},
             {"events/energy-ram", "event=0x03"},
             {"events/energy-ram.scale", "2.3283064365386962890625e-10"},
             {"events/energy-ram.unit", "Joules"}});
  write_pmu(host, "msr",
            {{"type", "8"},
             {"format/event", "config:0-63"},
             {"events/tsc", "event=0x00"},
             {"events/aperf", "event=0x01"},
             {"events/mperf", "event=0x02"},
             {"events/smi", "event=0x04"}});
  write_pmu(
      host, "cstate_core",
      {{"type", "29"}, {"cpumask", "0-3"}, {"format/event", "config:0-63"}, {"events/c6-residency", "event=0x02"}});
  write_pmu(
      host, "cstate_pkg",
      {{"type", "30"}, {"cpumask", "0,2"}, {"format/event", "config:0-63"}, {"events/c6-residency", "event=0x02"}});
}

// Two sockets of Zen 3, with a data fabric that has events of fourteen bits without names.
void write_amd_server(const TestHost& host, const std::string& model) {
  write_cpus(host, 4, 2, "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: " + model + "\nstepping\t: 1\n");
  write_pmu(host, "amd_df",
            {{"type", "11"},
             {"cpumask", "0,2"},
             {"format/event", "config:0-7,32-35,59-60"},
             {"format/umask", "config:8-15"}});
  write_pmu(host, "amd_l3",
            {{"type", "12"}, {"cpumask", "0-3"}, {"format/event", "config:0-7"}, {"format/umask", "config:8-15"}});
  write_pmu(host, "power",
            {{"type", "13"},
             {"cpumask", "0,2"},
             {"format/event", "config:0-7"},
             {"events/energy-pkg", "event=0x02"},
             {"events/energy-pkg.scale", "2.3283064365386962890625e-10"},
             {"events/energy-pkg.unit", "Joules"}});
}

std::vector<PlatformEvent> found_on(const TestHost& host) {
  KernelTree fs(host.root());
  const Host look = Host::look(fs);
  return platform_events(fs, look.cpus_online);
}

std::vector<PlatformEvent> of_metric(const std::vector<PlatformEvent>& events, std::string_view metric) {
  std::vector<PlatformEvent> found;
  std::copy_if(events.begin(), events.end(), std::back_inserter(found),
               [&](const PlatformEvent& event) { return event.metric == metric; });
  return found;
}

TEST(EventField, PutsBitsWhereTheFormatSays) {
  const auto plain = parse_event_field("config:0-7\n");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->word, 0);
  EXPECT_EQ(plain->bits, (std::vector<std::pair<int, int>>{{0, 7}}));
  const auto split = parse_event_field("config1:0-7,32-35,59");
  ASSERT_TRUE(split);
  EXPECT_EQ(split->word, 1);
  EXPECT_EQ(split->bits, (std::vector<std::pair<int, int>>{{0, 7}, {32, 35}, {59, 59}}));
}

TEST(EventField, RefusesWhatIsNoFormat) {
  for (const std::string_view text : {"", "config", "config:", "config:x", "config:7-0", "config:0-64", "config9:0-7",
                                      "config:0-7,", "config:-3", "config3:0-7", ":0-7"}) {
    const auto field = parse_event_field(text);
    // A comma at the end may be in a cut-off text; nothing that is there is wrong.
    EXPECT_EQ(field.has_value(), text == "config:0-7,") << text;
  }
}

TEST(EventField, SurvivesAnyText) {
  std::mt19937 random(1);
  const std::string letters = "config:-,0123456789xX= \n\t";
  for (int round = 0; round < 50'000; ++round) {
    std::string text = "config1:0-7,32-35";
    for (int change = 0; change < 3; ++change) {
      const std::size_t at = random() % (text.size() + 1);
      if (random() % 2 == 0) {
        text.insert(at, 1, letters[random() % letters.size()]);
      } else if (at < text.size()) {
        text.erase(at, 1 + random() % 3);
      }
    }
    const auto field = parse_event_field(text);
    if (!field) continue;
    ASSERT_FALSE(field->bits.empty()) << text;
    for (const auto& [first, last] : field->bits) ASSERT_TRUE(0 <= first && first <= last && last <= 63) << text;
  }
}

TEST(EventSource, EncodesTermsAndRefusesUnknownOnes) {
  const TestHost host;
  write_amd_server(host, "1");
  KernelTree fs(host.root());
  const auto fabric = EventSource::look(fs, "amd_df");
  ASSERT_TRUE(fabric);
  EXPECT_EQ(fabric->type(), 11U);
  EXPECT_EQ(fabric->cpus(), (std::vector<int>{0, 2}));
  const auto event = fabric->encode("event=0x1c7,umask=0x38");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, 11U);
  EXPECT_EQ(event->config, 0x1000038c7ULL);  // bits 8-11 of the event at 32-35
  EXPECT_EQ(fabric->encode("event=0x3000")->config, 3ULL << 59);
  EXPECT_EQ(fabric->encode("umask")->config, 0x100U);  // a term alone is 1
  for (const std::string_view wrong :
       {"", "event=0x4000", "umask=0x100", "colour=1", "event=", "event=x", "event=0x", "event=1,", "event=-1"}) {
    EXPECT_EQ(fabric->encode(wrong).has_value(), wrong == "event=1,") << wrong;
  }
  EXPECT_FALSE(EventSource::look(fs, "uncore_imc_0"));
}

TEST(PlatformEvents, OfAnIntelServer) {
  const TestHost host;
  write_intel_server(host);
  const std::vector<PlatformEvent> events = found_on(host);

  const auto reads = of_metric(events, "platform.memory_read");
  ASSERT_EQ(reads.size(), 12U);  // six channels, each counted once per socket
  EXPECT_EQ(reads[0].source, "uncore_imc_0");
  EXPECT_EQ(reads[0].instance, "package0");
  EXPECT_EQ(reads[1].instance, "package1");
  EXPECT_EQ(reads[1].cpu, 2);
  EXPECT_EQ(reads[0].event.type, 20U);
  EXPECT_EQ(reads[0].event.config, 0x304U);
  EXPECT_DOUBLE_EQ(reads[0].factor, 64);  // a cache line
  EXPECT_EQ(of_metric(events, "platform.memory_written")[0].event.config, 0xc04U);

  const auto energy = of_metric(events, "platform.energy_package");
  ASSERT_EQ(energy.size(), 2U);
  EXPECT_EQ(energy[0].event.config, 2U);
  EXPECT_NEAR(energy[0].factor, 2.3283064365386962890625e-4, 1e-12);  // microjoules
  EXPECT_EQ(of_metric(events, "platform.energy_memory").size(), 2U);
  EXPECT_TRUE(of_metric(events, "platform.energy_cores").empty());

  const auto clocks = of_metric(events, "platform.aperf");
  ASSERT_EQ(clocks.size(), 4U);
  EXPECT_EQ(clocks[3].instance, "cpu3");
  EXPECT_EQ(clocks[3].cpu, 3);
  EXPECT_EQ(of_metric(events, "platform.smi").size(), 4U);
  EXPECT_EQ(of_metric(events, "platform.core_c6").size(), 4U);
  EXPECT_EQ(of_metric(events, "platform.core_c6")[2].instance, "package1");
  EXPECT_EQ(of_metric(events, "platform.package_c6").size(), 2U);
}

TEST(PlatformEvents, OfAnAmdServer) {
  const TestHost host;
  write_amd_server(host, "1");
  const std::vector<PlatformEvent> events = found_on(host);
  const auto traffic = of_metric(events, "platform.memory_traffic");
  ASSERT_EQ(traffic.size(), 16U);  // eight channels of two sockets
  EXPECT_EQ(traffic[0].event.config, 0x3807U);
  EXPECT_EQ(traffic[7].event.config, 0x1000038c7ULL);
  EXPECT_DOUBLE_EQ(traffic[0].factor, 64);
  EXPECT_EQ(of_metric(events, "platform.l3_accesses").size(), 4U);
  EXPECT_EQ(of_metric(events, "platform.l3_misses")[0].event.config, 0x104U);
  EXPECT_EQ(of_metric(events, "platform.energy_package").size(), 2U);
}

TEST(PlatformEvents, OfZen4ComeFromItsMemoryControllers) {
  const TestHost host;
  write_amd_server(host, "17");
  write_pmu(host, "amd_umc_0",
            {{"type", "15"}, {"cpumask", "0"}, {"format/event", "config:0-7"}, {"format/rdwrmask", "config:8-9"}});
  const std::vector<PlatformEvent> events = found_on(host);
  EXPECT_TRUE(of_metric(events, "platform.memory_traffic").empty());  // its fabric has other events
  ASSERT_EQ(of_metric(events, "platform.memory_read").size(), 1U);
  EXPECT_EQ(of_metric(events, "platform.memory_read")[0].event.config, 0x10aU);
  EXPECT_EQ(of_metric(events, "platform.memory_written")[0].event.config, 0x20aU);
}

TEST(PlatformEvents, OfAHostWithManyCpusAreKeptByPackage) {
  const TestHost host;
  write_intel_server(host);
  write_cpus(host, 96, 48, "");
  const auto clocks = of_metric(found_on(host), "platform.aperf");
  ASSERT_EQ(clocks.size(), 96U);
  EXPECT_EQ(clocks.front().instance, "package0");
  EXPECT_EQ(clocks.back().instance, "package1");
}

TEST(PlatformEvents, AreOnlyNamedOnACopyOfAnotherHost) {
  const TestHost host;
  write_intel_server(host);
  const ProbeBench bench(host, "perf_platform");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
  EXPECT_NE(bench.coverage().reason.find("platform.memory_read"), std::string::npos) << bench.coverage().reason;
  const TestHost empty;
  const ProbeBench nothing(empty, "perf_platform");
  EXPECT_NE(nothing.coverage().reason.find("this kernel has no PMU for"), std::string::npos);
}

TEST(ImplementedEvents, AreThoseOfTheKernelsListWhereACoreCanBeAsked) {
  using enum Microarchitecture;
  const TestHost host;
  KernelTree fs(host.root());
  std::vector<HardwareEvent> table = hardware_events_of(neoverse_n1);
  const std::size_t all = table.size();
  EXPECT_TRUE(drop_unimplemented(fs, table).empty());  // nothing is known: an open decides
  write_pmu(host, "armv8_pmuv3_0",
            {{"type", "8"},
             {"format/event", "config:0-15"},
             {"events/cpu_cycles", "event=0x0011"},
             {"events/inst_retired", "event=0x0008"},
             {"events/br_retired", "event=0x0021"}});
  const std::vector<std::string_view> dropped = drop_unimplemented(fs, table);
  EXPECT_EQ(dropped.size() + table.size(), all);
  std::vector<std::string_view> left;
  for (const HardwareEvent& event : table) left.push_back(metric_of(event.signal));
  // Loads and stores are no common events: 0x66 and 0x67.
  EXPECT_EQ(left, (std::vector<std::string_view>{"pmu.cycles", "pmu.instructions", "pmu.branches", "pmu.loads",
                                                 "pmu.stores"}));
  std::vector<HardwareEvent> intel = hardware_events_of(skylake_sp);
  const TestHost server;
  write_intel_server(server);
  KernelTree server_fs(server.root());
  EXPECT_TRUE(drop_unimplemented(server_fs, intel).empty());
}

}  // namespace
}  // namespace reveal::tests::perf_platform_test
