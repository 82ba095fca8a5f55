// The infiniband probe on trees as the kernel shows them: a node of four HCAs, and a soft-RoCE device, which has no
// counters of a link.
#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::infiniband_test {
namespace {

const std::string kClass = "/sys/class/infiniband/";

void counter(const TestHost& host, const std::string& port, const std::string& name, const std::string& value) {
  const std::size_t colon = port.find(':');
  host.write(kClass + port.substr(0, colon) + "/ports/" + port.substr(colon + 1) + '/' + name, value + '\n');
}

/// A ConnectX port: link counters by the specification, transport counters by the driver.
void adapter(const TestHost& host, const std::string& port, std::int64_t words) {
  for (const auto& [name, value] : std::map<std::string, std::int64_t>{{"port_rcv_data", words},
                                                                       {"port_xmit_data", words + 1},
                                                                       {"port_rcv_packets", 500},
                                                                       {"port_xmit_packets", 600},
                                                                       {"port_xmit_wait", 77},
                                                                       {"symbol_error", 3},
                                                                       {"link_downed", 1},
                                                                       {"VL15_dropped", 2},
                                                                       {"unicast_rcv_packets", 499}}) {
    counter(host, port, "counters/" + name, std::to_string(value));
  }
  for (const auto& [name, value] : std::map<std::string, std::int64_t>{{"lifespan", 10},
                                                                       {"out_of_sequence", 5},
                                                                       {"packet_seq_err", 6},
                                                                       {"local_ack_timeout_err", 7},
                                                                       {"np_cnp_sent", 8}}) {
    counter(host, port, "hw_counters/" + name, std::to_string(value));
  }
}

TEST(Infiniband, MeasuresBytesPacketsWaitingErrorsAndTheTransportOfEachPort) {
  const TestHost host;
  for (int i = 0; i < 4; ++i) adapter(host, "mlx5_" + std::to_string(i) + ":1", 1000 * (i + 1));
  ProbeBench bench(host, "infiniband");
  ASSERT_EQ(bench.coverage().state, Coverage::State::ok) << bench.coverage().reason;
  EXPECT_EQ(bench.answered("network/ib_bytes", "ib.rcv_bytes", "mlx5_3:1"), 4 * 4000);
  EXPECT_EQ(bench.value("network/ib_bytes", "ib.xmit_bytes", "mlx5_0:1"), 4 * 1001);
  EXPECT_EQ(bench.value("network/ib_packets", "ib.rcv_packets", "mlx5_0:1"), 500);
  EXPECT_EQ(bench.value("network/ib_packets", "ib.xmit_packets", "mlx5_0:1"), 600);
  EXPECT_EQ(bench.value("network/ib_waiting", "ib.xmit_wait", "mlx5_1:1"), 77);
  EXPECT_EQ(bench.value("network/rdma", "rdma.packet_seq_err", "mlx5_2:1"), 6);
  EXPECT_EQ(bench.value("network/rdma", "rdma.np_cnp_sent", "mlx5_2:1"), 8);
  EXPECT_EQ(bench.value("network/rdma", "rdma.lifespan", "mlx5_2:1"), kMissing) << "a setting";
  EXPECT_EQ(bench.answered("network/ib_errors", "ib.symbol_error", "mlx5_1:1"), 3);
  EXPECT_EQ(bench.value("network/ib_errors", "ib.link_downed", "mlx5_1:1"), 1);
  EXPECT_EQ(bench.value("network/ib_errors", "ib.vl15_dropped", "mlx5_1:1"), 2);
  EXPECT_EQ(bench.family("network/ib_errors").channels().size(), 4 * 3U) << "only those that the adapter has";
  EXPECT_EQ(bench.family("network/ib_errors").spec().period, std::chrono::seconds(10));
  EXPECT_EQ(bench.family("network/rdma").channels().size(), 4 * 4U);
}

TEST(Infiniband, MeasuresASoftwareDeviceThatHasNoLink) {
  const TestHost host;
  counter(host, "rxe0:1", "hw_counters/sent_pkts", "1000");
  counter(host, "rxe0:1", "hw_counters/completer_retry_err", "4");
  ProbeBench bench(host, "infiniband");
  EXPECT_EQ(bench.answered("network/rdma", "rdma.completer_retry_err", "rxe0:1"), 4);
  EXPECT_TRUE(bench.family("network/ib_bytes").channels().empty());
}

TEST(Infiniband, MeasuresBytesOfTheTransportAsBytesAndLevelsNotAtAll) {
  const TestHost host;
  counter(host, "bnxt_re0:1", "hw_counters/tx_bytes", "4096");
  counter(host, "bnxt_re0:1", "hw_counters/active_qps", "12");
  counter(host, "bnxt_re0:1", "hw_counters/watermark_qps", "15");
  counter(host, "bnxt_re0:1", "hw_counters/seq_err_naks_rcvd", "1");
  ProbeBench bench(host, "infiniband");
  EXPECT_EQ(bench.answered("network/rdma_bytes", "rdma.tx_bytes", "bnxt_re0:1"), 4096);
  EXPECT_EQ(bench.value("network/rdma", "rdma.seq_err_naks_rcvd", "bnxt_re0:1"), 1);
  EXPECT_EQ(bench.family("network/rdma").channels().size(), 1U);
}

TEST(Infiniband, MeasuresNothingWhereACounterIsNotThereOrHasStopped) {
  const TestHost host;
  adapter(host, "mlx5_0:1", 1000);
  counter(host, "mlx5_0:1", "counters/port_xmit_wait", "N/A (no PMA)");
  counter(host, "mlx5_0:1", "counters/link_downed", "255");
  counter(host, "mlx5_0:1", "counters/port_rcv_data", "4294967295");
  counter(host, "mlx5_0:1", "counters/port_xmit_data", "9223372036854775807");  // as bytes, no counter came that far
  ProbeBench bench(host, "infiniband");
  EXPECT_EQ(bench.answered("network/ib_packets", "ib.rcv_packets", "mlx5_0:1"), 500);
  EXPECT_TRUE(bench.family("network/ib_waiting").channels().empty());
  EXPECT_EQ(bench.value("network/ib_bytes", "ib.rcv_bytes", "mlx5_0:1"), kMissing);
  EXPECT_EQ(bench.value("network/ib_bytes", "ib.xmit_bytes", "mlx5_0:1"), kMissing);
  EXPECT_EQ(bench.answered("network/ib_errors", "ib.symbol_error", "mlx5_0:1"), 3);
  EXPECT_EQ(bench.value("network/ib_errors", "ib.link_downed", "mlx5_0:1"), kMissing);
  EXPECT_NE(bench.coverage().reason.find("of mlx5_0:1 has reached its maximum value"), std::string::npos)
      << bench.coverage().reason;
}

TEST(Infiniband, FollowsAdaptersThatGoAndComeWithoutNewRows) {
  const TestHost host;
  adapter(host, "mlx5_0:1", 1000);
  adapter(host, "mlx5_1:1", 2000);
  ProbeBench bench(host, "infiniband");
  EXPECT_EQ(bench.answered("network/ib_bytes", "ib.rcv_bytes", "mlx5_1:1"), 8000);
  const std::size_t channels = bench.family("network/rdma").channels().size();
  host.remove(kClass + "mlx5_1");
  adapter(host, "mlx5_2:1", 3000);  // answered by the child once it has looked for ports again
  EXPECT_EQ(bench.answered("network/ib_bytes", "ib.rcv_bytes", "mlx5_2:1"), 12000);
  EXPECT_EQ(bench.value("network/ib_bytes", "ib.rcv_bytes", "mlx5_1:1"), kMissing);
  EXPECT_EQ(bench.value("network/ib_bytes", "ib.rcv_bytes", "mlx5_0:1"), 4000);
  adapter(host, "mlx5_1:1", 50);  // its counters began anew
  EXPECT_EQ(bench.answered("network/ib_bytes", "ib.rcv_bytes", "mlx5_1:1"), 200);
  EXPECT_EQ(bench.answered("network/rdma", "rdma.packet_seq_err", "mlx5_1:1"), 6);
  EXPECT_EQ(bench.answered("network/rdma", "rdma.packet_seq_err", "mlx5_2:1"), 6);
  EXPECT_EQ(bench.family("network/rdma").channels().size(), channels / 2 * 3);
}

TEST(Infiniband, SeesCountersThatADriverAddsLater) {
  const TestHost host;
  counter(host, "mlx5_0:1", "counters/port_rcv_data", "100");
  ProbeBench bench(host, "infiniband");
  EXPECT_EQ(bench.answered("network/ib_bytes", "ib.rcv_bytes", "mlx5_0:1"), 400);
  counter(host, "mlx5_0:1", "hw_counters/packet_seq_err", "6");
  counter(host, "mlx5_0:1", "counters/port_xmit_wait", "7");
  EXPECT_EQ(bench.answered("network/rdma", "rdma.packet_seq_err", "mlx5_0:1"), 6);
  EXPECT_EQ(bench.answered("network/ib_waiting", "ib.xmit_wait", "mlx5_0:1"), 7);
}

TEST(Infiniband, MeasuresCardsBeforeTheirVirtualFunctions) {
  const TestHost host;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "mlx5_" + std::to_string(i);
    counter(host, name + ":1", "counters/port_rcv_data", std::to_string(100 + i));
    if (i >= 2 && i < 39) host.write(kClass + name + "/device/physfn/vendor", "0x15b3\n");
  }
  ProbeBench bench(host, "infiniband");
  EXPECT_EQ(bench.answered("network/ib_bytes", "ib.rcv_bytes", "mlx5_39:1"), 4 * 139) << "the 35th in the list";
  EXPECT_EQ(bench.coverage().reason, "only 32 of 40 ports are measured");
}

TEST(Infiniband, TellsNoPieceOfAnAnswerThatIsTooLong) {
  const TestHost host;
  for (int device = 0; device < 30; ++device) {
    for (int i = 0; i < 60; ++i) {
      counter(host, "mlx5_" + std::to_string(device) + ":1",
              "hw_counters/a_counter_with_quite_a_long_name_" + std::to_string(i), "12345678901234");
    }
  }
  ProbeBench bench(host, "infiniband");
  const std::string last = "rdma.a_counter_with_quite_a_long_name_9";
  EXPECT_EQ(bench.answered("network/rdma", last, "mlx5_0:1"), 12345678901234);
  for (int i = 0; i < 20; ++i) bench.answered("network/rdma", last, "mlx5_0:1");  // names come by and by
  const Family& family = bench.family("network/rdma");
  EXPECT_GT(family.channels().size(), 1000U);
  for (std::size_t i = 0; i < family.channels().size(); ++i) {
    EXPECT_TRUE(family.row()[i] == 12345678901234 || family.row()[i] == kMissing) << family.row()[i];
  }
}

TEST(Infiniband, IsAbsentWhereThereIsNoAdapter) {
  const TestHost host;
  const ProbeBench bench(host, "infiniband");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
  EXPECT_NE(bench.coverage().reason.find("/sys/class/infiniband"), std::string::npos);
}

TEST(Infiniband, ReplaysWhatAnAdapterAnswered) {
  const TestHost host;
  const std::string answer =
      "names mlx5_0:1 out_of_sequence packet_seq_err\ntransport mlx5_0:1 5 -\ntraffic mlx5_0:1 10 20 30 40 -\n"
      "nonsense\nerrors\nerrors mlx5_0:1 0 0 9 x\ntransport unknown:1 1 2\n";
  host.write(
      "/ticks.rec",
      "reveal recording 1\n+ 0 D/sys/class/infiniband\n$ 0 7\nmlx5_0\n\n+ 1 D/sys/class/infiniband/mlx5_0/ports\n$ 1 "
      "2\n1\n\n+ 2 @@infiniband\n$ 2 " +
          std::to_string(answer.size()) + "\n" + answer + "\n= 1 1\n");
  ProbeBench bench(host, "infiniband");
  bench.sample();
  EXPECT_EQ(bench.value("network/ib_bytes", "ib.xmit_bytes", "mlx5_0:1"), 80);
  EXPECT_EQ(bench.value("network/rdma", "rdma.out_of_sequence", "mlx5_0:1"), 5);
  EXPECT_EQ(bench.value("network/rdma", "rdma.packet_seq_err", "mlx5_0:1"), kMissing);
  EXPECT_EQ(bench.value("network/ib_errors", "ib.symbol_error", "mlx5_0:1"), 9);
}

}  // namespace
}  // namespace reveal::tests::infiniband_test
