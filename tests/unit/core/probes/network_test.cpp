#include <gtest/gtest.h>

#include <cmath>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/trace_reader.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::network_test {
namespace {

TEST(Network, ReadsInterfacesThatEverMovedAByte) {
  TestHost host;
  host.write(
      "/proc/net/dev",
      "Inter-|   Receive                |  Transmit\n face |bytes    packets errs drop fifo frame compressed "
      "multicast|bytes    packets errs drop fifo colls carrier compressed\n"
      "  eth0:183676327    3544    1    2    3     4          5         6   136657    1897    7    8    9     10 "
      "      11          12\n  ifb0:       0       0    0    0    0     0          0         0        0       0    0 "
      "   0    0     0       0          0\n");
  ProbeBench bench(host, "network");
  bench.sample();
  EXPECT_EQ(bench.family("network/bytes").channels().size(), 2U);
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "eth0"), 183676327);
  EXPECT_EQ(bench.value("network/bytes", "net.tx_bytes", "eth0"), 136657);
  EXPECT_EQ(bench.value("network/packets", "net.rx_multicast", "eth0"), 6);
  EXPECT_EQ(bench.value("network/packets", "net.rx_compressed", "eth0"), 5);
  EXPECT_EQ(bench.value("network/packets", "net.tx_compressed", "eth0"), 12);
  EXPECT_EQ(bench.value("network/errors", "net.rx_dropped", "eth0"), 2);
  EXPECT_EQ(bench.value("network/errors", "net.tx_carrier", "eth0"), 11);
}

/// Increments of net.rx_bytes/eth0 in the rows of a trace; the first text is that of the first look, before all rows.
std::vector<double> recorded_increments(const std::vector<std::string>& texts) {
  const TestHost host;
  host.write("/traces/here", "");
  const std::filesystem::path path = host.root() / "traces" / "node.h5";
  KernelTree fs(host.root());
  fs.limit_kept_files(0);
  {
    TraceWriter writer(path, {.node = "here", .interval = std::chrono::milliseconds(100)}, {.waits = true});
    TraceSink sink(&writer);
    host.write("/proc/net/dev", texts.front());
    Sampler sampler(fs, sink, {.probes = {"network"}}, {kSecond, kSecond});
    sampler.look_first();
    writer.start();
    for (std::size_t row = 1; row < texts.size(); ++row) {
      host.write("/proc/net/dev", texts[row]);
      const auto tick = static_cast<std::int64_t>(row);
      sampler.sample({.time = {kSecond + tick * 100'000'000, kSecond}, .number = tick});
    }
    sampler.close();
    writer.close();
  }
  const TraceReader reader(path);
  for (const TraceReader::Family& family : reader.families()) {
    if (family.spec.path != "network/bytes") continue;
    std::vector<double> values = reader.read(family);
    values.resize(family.time_ns.size());  // the first channel's
    return values;
  }
  return {};
}

TEST(Network, HasNoIncreaseWhereTheCountersOfACardBeganAnew) {
  const auto text = [](int received) {
    return "h\nh\n eth0: " + std::to_string(received) + " 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n";
  };
  const std::vector<double> increments = recorded_increments({text(9000), text(9100), text(9500), text(40), text(60)});
  ASSERT_EQ(increments.size(), 4U);
  EXPECT_EQ(increments[1], 400);
  EXPECT_TRUE(std::isnan(increments[2])) << increments[2];
  EXPECT_EQ(increments[3], 20);
}

TEST(Namespaces, MeasureEachNetworkOfTheJobOnce) {
  TestHost host;
  host.last_pid(520);
  const std::string header = "h\nh\n";
  for (const int pid : {500, 510, 520}) {
    host.process(pid, pid == 500 ? 1 : 500, "rank", 1, 0);
    const std::filesystem::path folder = host.root() / "proc" / std::to_string(pid) / "ns";
    std::filesystem::create_directories(folder);
    std::filesystem::create_symlink(pid == 520 ? "net:[2]" : "net:[1]", folder / "net");
    host.write("/proc/" + std::to_string(pid) + "/net/dev",
               header + " eth0: " + std::to_string(pid) + " 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n");
  }
  ProbeBench bench(host, "network", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "eth0"), 500);
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "ns2/eth0"), 520);
  EXPECT_EQ(bench.family("network/bytes").channels().size(), 4U);
  host.remove("/proc/520/stat");  // its namespace lives on
  bench.sample();
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "ns2/eth0"), kMissing);
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "eth0"), 500);
}

TEST(Namespaces, ThatHaveNoPlaceAreNoticed) {
  TestHost host;
  host.last_pid(600);
  for (int pid = 500; pid < 509; ++pid) {
    host.process(pid, pid == 500 ? 1 : 500, "rank", 1, 0);
    const std::filesystem::path folder = host.root() / "proc" / std::to_string(pid) / "ns";
    std::filesystem::create_directories(folder);
    std::filesystem::create_symlink("net:[" + std::to_string(pid) + ']', folder / "net");
  }
  KernelTree fs(host.root());
  const Host machine = Host::look(fs);
  Job job(fs, machine, JobSource{.pid = 500}, 1);
  job.update({1'000'000'000, 0});
  NetNamespaces namespaces(fs, &job);
  EXPECT_EQ(namespaces.list().size(), 4U);
  EXPECT_FALSE(namespaces.overflowed());
  for (std::int64_t second = 2; second < 30; ++second) namespaces.update(second * 1'000'000'000);
  EXPECT_EQ(namespaces.list().size(), 8U);
  EXPECT_TRUE(namespaces.overflowed()) << "there are nine";
}

TEST(Namespaces, ThatAProcessEntersLongAfterItBeganAreFound) {
  TestHost host;
  host.last_pid(500);
  host.process(500, 1, "rank", 1, 0);
  const std::filesystem::path link = host.root() / "proc/500/ns/net";
  std::filesystem::create_directories(link.parent_path());
  std::filesystem::create_symlink("net:[1]", link);
  KernelTree fs(host.root());
  const Host machine = Host::look(fs);
  Job job(fs, machine, JobSource{.pid = 500}, 1);
  job.update({kSecond, 0});
  NetNamespaces namespaces(fs, &job);
  for (std::int64_t second = 2; second < 30; ++second) namespaces.update(second * kSecond);
  ASSERT_EQ(namespaces.list().size(), 1U);
  std::filesystem::remove(link);
  std::filesystem::create_symlink("net:[2]", link);  // setns(2): no process began or ended
  for (std::int64_t second = 30; second < 60; ++second) namespaces.update(second * kSecond);
  ASSERT_EQ(namespaces.list().size(), 2U);
  EXPECT_EQ(namespaces.list()[0].folder, "") << "the job has left it";
  EXPECT_EQ(namespaces.list()[1].folder, "/proc/500/net");
}

TEST(Namespaces, AreReachedByAProcessThatIsThereHoweverManyThereAre) {
  TestHost host;
  constexpr int kFirst = 500;
  constexpr int kLast = 640;
  host.last_pid(kLast);
  const auto move = [&host](int pid, int space) {
    const std::filesystem::path folder = host.root() / "proc" / std::to_string(pid) / "ns";
    std::filesystem::create_directories(folder);
    std::filesystem::remove(folder / "net");
    std::filesystem::create_symlink("net:[" + std::to_string(space) + ']', folder / "net");
  };
  for (int pid = kFirst; pid <= kLast; ++pid) {
    host.process(pid, pid == kFirst ? 1 : kFirst, "rank", 1, 0);
    move(pid, pid < kLast - 1 ? 1 : 2);
  }
  KernelTree fs(host.root());
  const Host machine = Host::look(fs);
  Job job(fs, machine, JobSource{.pid = kFirst}, 1);
  job.update({1'000'000'000, 0});
  NetNamespaces namespaces(fs, &job);
  std::int64_t second = 2;
  const auto look = [&] {
    for (int i = 0; i < 8; ++i, ++second) {
      job.update({second * 1'000'000'000, 0});
      namespaces.update(second * 1'000'000'000);
    }
  };
  look();
  ASSERT_EQ(namespaces.list().size(), 2U) << "the last two of 141 processes";
  EXPECT_EQ(namespaces.list()[1].folder, "/proc/639/net");
  host.write("/proc/639/stat", "");
  host.remove("/proc/639/ns");
  look();
  EXPECT_EQ(namespaces.list()[1].folder, "/proc/640/net");
}

}  // namespace
}  // namespace reveal::tests::network_test
