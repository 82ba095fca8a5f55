#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::network_link_test {
namespace {

void interface(const TestHost& host, const std::string& name, const std::string& speed) {
  host.write("/sys/class/net/" + name + "/speed", speed + '\n');
  host.write("/sys/class/net/" + name + "/device/vendor", "0x15b3\n");
}

TEST(NetworkLink, MeasuresSpeedAndPausesInBaseUnits) {
  const TestHost host;
  interface(host, "eth0", "100000");
  host.write("/sys/class/net/eth0/carrier_down_count", "2\n");
  host.write("/ethtool/eth0",
             "NIC statistics:\n     rx_packets: 9\n     rx_pause_ctrl_phy: 31\n     tx_pause_ctrl_phy: 7\n"
             "     rx_prio3_pause: 20\n     rx_prio3_pause_duration: 1500\n     rx_prio3_pause_transition: 10\n"
             "     rx_prio4_pause: 11\n     rx_prio4_pause_duration: 500\n     rx_prio3_packets: 4\n");
  ProbeBench bench(host, "network_link");
  ASSERT_EQ(bench.coverage().state, Coverage::State::ok) << bench.coverage().reason;
  EXPECT_EQ(bench.answered("network/speed", "net.speed", "eth0"), 100'000'000'000);
  EXPECT_EQ(bench.value("network/pause_frames", "net.rx_pause", "eth0"), 31) << "of both priorities, once";
  EXPECT_EQ(bench.value("network/pause_frames", "net.tx_pause", "eth0"), 7) << "no priority counts them";
  EXPECT_EQ(bench.value("network/pause_time", "net.rx_pause_time", "eth0"), 2'000'000) << "microseconds";
  EXPECT_EQ(bench.value("network/pause_time", "net.tx_pause_time", "eth0"), kMissing);
  EXPECT_EQ(bench.value("network/carrier", "net.carrier_down", "eth0"), 2);
}

TEST(NetworkLink, KnowsTheNamesOfOtherDrivers) {
  const TestHost host;
  const auto frames = [&](const std::string& statistics) {
    interface(host, "eth0", "25000");
    host.write("/ethtool/eth0", statistics);
    ProbeBench bench(host, "network_link");
    const std::int64_t received = bench.answered("network/pause_frames", "net.rx_pause", "eth0");
    return std::pair(received, bench.value("network/pause_frames", "net.tx_pause", "eth0"));
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(frames("rx_flow_control_xon: 9\nrx_flow_control_xoff: 3\nrx_pb_0_pxoff: 1\ntx_flow_control_xoff: 2\n"),
            Pair(4, 2));
  EXPECT_EQ(frames("port.link_xoff_rx: 3\nport.rx_priority_7_xoff: 1\nport.link_xoff_tx: 0\n"), Pair(4, 0));
  EXPECT_EQ(frames("link_xoff_rx.nic: 5\nrx_priority_0_xoff.nic: 1\ntx_priority_0_xoff.nic: 6\n"), Pair(6, 6));
  EXPECT_EQ(frames("rx_pause_frames: 5\nrx_pfc_frames: 2\nrx_pfc_ena_frames_pri0: 2\ntx_pause_frames: 1\n"),
            Pair(7, 1));
  EXPECT_EQ(frames("rx_pause_prio_0: 5\nrx_pause: 1\ntx_pause_prio_12: 1\ntx_pause_prio_x: 8\n"), Pair(6, 1));
}

TEST(NetworkLink, MeasuresNoSpeedThatIsNotOne) {
  const TestHost host;
  interface(host, "eth0", "-1");
  host.write("/sys/class/net/eth0/carrier_down_count", "0\n");
  host.write("/sys/class/net/veth7/speed", "10000\n");  // a constant of its driver
  host.write("/sys/class/net/lo/mtu", "65536\n");
  host.write("/ethtool/eth0", "rx_prio3_pause: many\nrx_prio_pause: 3\n: 4\nrx_prio3_pause\n");
  ProbeBench bench(host, "network_link");
  EXPECT_EQ(bench.answered("network/carrier", "net.carrier_down", "eth0"), 0);
  EXPECT_TRUE(bench.family("network/speed").channels().empty());
  EXPECT_TRUE(bench.family("network/pause_frames").channels().empty());
}

TEST(NetworkLink, SaysNothingOfInterfacesInAnotherNamespaceThanTheJobs) {
  const TestHost host;
  interface(host, "eth0", "100000");
  host.process(500, 1, "rank", 1, 0);
  host.last_pid(500);
  std::filesystem::create_directories(host.root() / "proc/500/ns");
  std::filesystem::create_symlink("net:[2]", host.root() / "proc/500/ns/net");
  std::filesystem::create_directories(host.root() / "proc/self/ns");
  std::filesystem::create_symlink("net:[1]", host.root() / "proc/self/ns/net");
  ProbeBench bench(host, "network_link", JobSource{.pid = 500});
  for (int i = 0; i < 5; ++i) bench.sample();
  EXPECT_TRUE(bench.family("network/speed").channels().empty());
  EXPECT_EQ(bench.coverage().reason, "the job's network interfaces are in a namespace of its own");
}

TEST(NetworkLink, KnowsTheRingsForTheSnapshot) {
  const TestHost host;
  const auto fact = [](const std::string& text) { return "$ 2 " + std::to_string(text.size()) + '\n' + text + '\n'; };
  host.write("/ticks.rec",
             "reveal recording 1\n+ 0 D/sys/class/net\n$ 0 5\neth0\n\n+ 1 D/sys/class/net/eth0/device\n$ 1 7\n"
             "vendor\n\n+ 2 @@network_link\n" +
                 fact("eth0 25000 - - - - 0 512 4096\neth1 25000 - - - - 0 - -\neth2 25000 - - - - 0\n") +
                 "= 1000000000 1000000000\n= 2000000000 2000000000\n" + fact("eth0 25000 - - - - 0 1024 4096\n") +
                 "= 3000000000 3000000000\n");
  KernelTree fs(host.root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"network_link"}}, *fs.next_tick());
  ASSERT_EQ(sampler.coverage().front().state, Coverage::State::ok) << sampler.coverage().front().reason;
  sampler.look_first();
  sampler.sample({.time = *fs.next_tick(), .number = 0});
  EXPECT_EQ(sampler.facts(), (Snapshot{{"net.eth0.rx_ring", "512"}, {"net.eth0.rx_ring_most", "4096"}}));
}

TEST(NetworkLink, IsAbsentWithoutARealInterface) {
  const TestHost host;
  host.write("/sys/class/net/lo/mtu", "65536\n");
  const ProbeBench bench(host, "network_link");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
}

}  // namespace
}  // namespace reveal::tests::network_link_test
