#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "core/kernel_text/link_list.h"
#include "core/sampler/ticker.h"
#include "tests/unit/core/forked_job.h"
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

TEST(NetworkLink, MeasuresCardsBeforeTheirVirtualFunctions) {
  const TestHost host;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "ens1f0v" + std::to_string(i);
    interface(host, name, "100000");
    host.write("/sys/class/net/" + name + "/device/physfn/vendor", "0x15b3\n");
  }
  interface(host, "ens2f0np0", "400000");
  ProbeBench bench(host, "network_link");
  EXPECT_EQ(bench.answered("network/speed", "net.speed", "ens2f0np0"), 400'000'000'000);
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

struct DriverCase {
  std::string_view driver;
  std::string_view statistics;
  std::int64_t no_buffer;
  std::int64_t overrun;
};

TEST(NetworkLink, KnowsTheDropsThatEachDriverCountsUnderNamesOfItsOwn) {
  constexpr DriverCase kDrivers[] = {
      {"mlx5",
       "     rx_packets: 900\n     rx_xdp_drop: 5\n     rx_steer_missed_packets: 6\n     rx_out_of_buffer: 12\n"
       "     rx_discards_phy: 30\n     tx_discards_phy: 4\n     rx_prio0_discards: 30\n     rx_prio0_buf_discard: 1\n",
       12, 30},
      {"ixgbe", "     rx_no_buffer_count: 7\n     rx_missed_errors: 3\n     rx_no_dma_resources: 11\n", 11, 3},
      {"igb",
       "     rx_no_buffer_count: 7\n     rx_missed_errors: 3\n     rx_queue_0_drops: 1\n     rx_queue_1_drops: 2\n", 3,
       3},
      {"e1000e", "     rx_no_buffer_count: 7\n     rx_missed_errors: 3\n", kMissing, 3},
      {"i40e", "     rx_dropped: 8\n     port.rx_dropped: 8\n     port.tx_dropped_link_down: 2\n", kMissing, 8},
      {"i40e, later", "     rx_missed_errors: 8\n     port.rx_discards: 8\n", kMissing, 8},
      {"ice", "     rx_dropped: 1\n     rx_dropped.nic: 9\n     tx_dropped_link_down.nic: 2\n", kMissing, 9},
      {"bnxt", "     [0]: rx_discards: 4\n     rx_total_discard_pkts: 4\n     tx_total_discard_pkts: 1\n", 4, kMissing},
      {"bnxt, later", "     rx_total_ring_discards: 4\n     rx_total_netpoll_discards: 3\n", 4, kMissing},
      {"virtio_net until 6.9", "     rx_queue_0_drops: 2\n     rx_queue_0_xdp_drops: 5\n     rx_queue_1_drops: 1\n", 3,
       kMissing},
      {"virtio_net", "     rx_drops: 3\n     rx0_drops: 2\n     rx1_drops: 1\n     rx0_xdp_drops: 5\n", 3, kMissing},
      {"ena", "     rx_drops: 6\n     tx_drops: 2\n     queue_0_rx_cnt: 7\n", 6, kMissing},
  };
  const TestHost host;
  for (const DriverCase& each : kDrivers) {
    interface(host, "eth0", "25000");
    host.write("/ethtool/eth0", std::string(each.statistics));
    ProbeBench bench(host, "network_link");
    EXPECT_EQ(bench.answered("network/speed", "net.speed", "eth0"), 25'000'000'000) << each.driver;
    EXPECT_EQ(bench.value("network/card_drops", "net.rx_no_buffer", "eth0"), each.no_buffer) << each.driver;
    EXPECT_EQ(bench.value("network/card_drops", "net.rx_overrun", "eth0"), each.overrun) << each.driver;
  }
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

TEST(NetworkLink, FollowsCardsThatGoAndComeAndWhoseCountersBeganAnew) {
  const TestHost host;
  const auto received = [](int frames) { return "     rx_pause: " + std::to_string(frames) + "\n"; };
  for (const char* name : {"eth0", "eth1"}) {
    interface(host, name, "25000");
    host.write(std::string("/ethtool/") + name, received(900));
  }
  ProbeBench bench(host, "network_link");
  EXPECT_EQ(bench.answered("network/pause_frames", "net.rx_pause", "eth1"), 900);
  host.remove("/sys/class/net/eth1");
  interface(host, "eth2", "40000");  // answered once the child has listed the cards again
  EXPECT_EQ(bench.answered("network/speed", "net.speed", "eth2"), 40'000'000'000);
  EXPECT_EQ(bench.value("network/pause_frames", "net.rx_pause", "eth1"), kMissing);
  EXPECT_EQ(bench.value("network/pause_frames", "net.rx_pause", "eth0"), 900);
  const std::size_t channels = bench.family("network/pause_frames").channels().size();
  interface(host, "eth1", "25000");
  host.write("/ethtool/eth1", received(3));
  EXPECT_EQ(bench.answered("network/pause_frames", "net.rx_pause", "eth1"), 3);
  EXPECT_EQ(bench.family("network/pause_frames").channels().size(), channels) << "it has its rows again";
}

TEST(NetworkLink, KnowsTheRingsForTheSnapshot) {
  const TestHost host;
  const auto fact = [](const std::string& text) { return "$ 2 " + std::to_string(text.size()) + '\n' + text + '\n'; };
  host.write("/ticks.rec",
             "reveal recording 1\n+ 0 D/sys/class/net\n$ 0 5\neth0\n\n+ 1 D/sys/class/net/eth0/device\n$ 1 7\n"
             "vendor\n\n+ 2 @@network_link\n" +
                 fact("eth0 25000 - - - - 0 512 4096 - - 256 2048\neth1 25000 - - - - 0 - -\neth2 25000 - - - - 0\n") +
                 "= 1000000000 1000000000\n= 2000000000 2000000000\n" + fact("eth0 25000 - - - - 0 1024 4096\n") +
                 "= 3000000000 3000000000\n");
  KernelTree fs(host.root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"network_link"}}, *fs.next_tick());
  ASSERT_EQ(sampler.coverage().front().state, Coverage::State::ok) << sampler.coverage().front().reason;
  sampler.look_first();
  sampler.sample({.time = *fs.next_tick(), .number = 0});
  EXPECT_EQ(sampler.facts(), (Snapshot{{"net.eth0.rx_ring", "512"},
                                       {"net.eth0.rx_ring_most", "4096"},
                                       {"net.eth0.tx_ring", "256"},
                                       {"net.eth0.tx_ring_most", "2048"}}));
}

TEST(NetworkLink, KeepsCardsOfOneNameInTwoNamespacesApart) {
  const TestHost host;
  const auto fact = [](const std::string& text) { return "$ 2 " + std::to_string(text.size()) + '\n' + text + '\n'; };
  host.write("/ticks.rec",
             "reveal recording 1\n+ 0 D/sys/class/net\n$ 0 5\neth0\n\n+ 1 D/sys/class/net/eth0/device\n$ 1 7\n"
             "vendor\n\n+ 2 @@network_link\n= 1000000000 1000000000\n= 2000000000 2000000000\n" +
                 fact("/ 40000 1 0 0\neth0 25000 - - - - 0 512 4096 3 4\nns2/eth0 100000 9 - - - 0 256 8192 - 7\n") +
                 "= 3000000000 3000000000\n");
  KernelTree fs(host.root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"network_link"}}, *fs.next_tick());
  sampler.look_first();
  sampler.sample({.time = *fs.next_tick(), .number = 0});
  EXPECT_EQ(sink.find("network/speed")->value("net.speed", "ns2/eth0"), 100'000'000'000);
  EXPECT_EQ(sink.find("network/pause_frames")->value("net.rx_pause", "ns2/eth0"), 9);
  EXPECT_EQ(sink.find("network/card_drops")->value("net.rx_overrun", "ns2/eth0"), 7);
  EXPECT_EQ(sink.find("network/card_drops")->value("net.rx_overrun", "eth0"), 4);
  EXPECT_EQ(sink.find("network/card_drops")->value("net.rx_no_buffer", "eth0"), 3);
  EXPECT_EQ(sampler.facts(), (Snapshot{{"net.eth0.rx_ring", "512"},
                                       {"net.eth0.rx_ring_most", "4096"},
                                       {"net.ns2/eth0.rx_ring", "256"},
                                       {"net.ns2/eth0.rx_ring_most", "8192"}}));
  EXPECT_EQ(sampler.coverage().front().reason,
            "cards in 1 network namespaces of the job are not measured: entering them needs CAP_SYS_ADMIN");
}

/// A message RTM_NEWLINK of an interface of this kind; "": of a hardware device.
std::vector<std::byte> link_message(const std::string& name, const std::string& kind, std::uint32_t carrier_down) {
  std::vector<std::byte> bytes(sizeof(nlmsghdr) + sizeof(ifinfomsg));
  const auto append = [&bytes](std::uint16_t type, std::span<const std::byte> value) {
    const nlattr head{static_cast<std::uint16_t>(sizeof(nlattr) + value.size()), type};
    const auto begin = std::as_bytes(std::span(&head, 1));
    bytes.insert(bytes.end(), begin.begin(), begin.end());
    bytes.insert(bytes.end(), value.begin(), value.end());
    bytes.resize(NLA_ALIGN(bytes.size()));
  };
  append(IFLA_IFNAME, std::as_bytes(std::span(name.c_str(), name.size() + 1)));
  append(IFLA_CARRIER_DOWN_COUNT, std::as_bytes(std::span(&carrier_down, 1)));
  if (!kind.empty()) {
    std::vector<std::byte> inner(sizeof(nlattr) + kind.size() + 1);
    const nlattr head{static_cast<std::uint16_t>(inner.size()), IFLA_INFO_KIND};
    std::memcpy(inner.data(), &head, sizeof head);
    std::memcpy(inner.data() + sizeof head, kind.data(), kind.size());
    append(IFLA_LINKINFO | NLA_F_NESTED, inner);
  }
  const nlmsghdr header{.nlmsg_len = static_cast<std::uint32_t>(bytes.size()),
                        .nlmsg_type = RTM_NEWLINK,
                        .nlmsg_flags = 0,
                        .nlmsg_seq = 0,
                        .nlmsg_pid = 0};
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

TEST(LinkMessages, AreReadThoughTheyMayBeCutOffAnywhere) {
  const auto whole = link_message("eth0", "veth", 3);
  const std::span<const std::byte> body = std::span(whole).subspan(sizeof(nlmsghdr));
  const auto link = link_of_message(body);
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->name, "eth0");
  EXPECT_EQ(link->kind, "veth");
  EXPECT_FALSE(link->loopback);
  EXPECT_EQ(link->carrier_down.value_or(0), 3U);
  const auto card = link_message("ib0", "", 0);
  EXPECT_EQ(link_of_message(std::span(card).subspan(sizeof(nlmsghdr)))->kind, "");
  for (std::size_t size = 0; size < body.size(); ++size) {
    const auto part = link_of_message(body.first(size));  // whole attributes may be missing
    EXPECT_TRUE(!part || (part->name == "eth0" && (part->kind.empty() || part->kind == "veth"))) << size;
  }
}

TEST(NetworkLink, ReadsTheLinksOfTheJobsOwnNamespace) {
  if (::geteuid() != 0) GTEST_SKIP() << "a network namespace needs root";
  const ForkedJob job(
      [] { return ::unshare(CLONE_NEWNET) == 0 && std::system("ip link add bond7 type bond 2>/dev/null") == 0; });
  if (!job.is_ready()) GTEST_SKIP() << "no network namespace with a bond could be made (unshare, ip, bonding)";
  KernelTree fs;
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"network_link"}, .job = JobSource{.pid = job.pid()}, .own_pid = ::getpid()},
                  SystemClock().now());
  sampler.look_first();
  const Coverage coverage = sampler.coverage().front();
  if (coverage.state != Coverage::State::ok) GTEST_SKIP() << coverage.reason;
  const auto down = [&sink] { return sink.find("network/carrier")->value("net.carrier_down", "bond7"); };
  for (int look = 0; look < 300 && down() == kMissing; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    sampler.sample({.time = SystemClock().now(), .number = 0});
  }
  EXPECT_GE(down(), 0) << sampler.coverage().front().reason;
}

TEST(NetworkLink, IsAbsentWithoutARealInterface) {
  const TestHost host;
  host.write("/sys/class/net/lo/mtu", "65536\n");
  const ProbeBench bench(host, "network_link");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
}

}  // namespace
}  // namespace reveal::tests::network_link_test
