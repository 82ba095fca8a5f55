#include <gtest/gtest.h>

#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/test_host.h"

namespace reveal {
namespace {

std::string fact(const std::string& text) {
  return "$ 0 " + std::to_string(text.size()) + '\n' + text + '\n';
}

TEST(Qdisc, CountsDropsOfEachInterfaceAndLeavesOutIdleOnes) {
  const TestHost host;
  host.write("/ticks.rec", "reveal recording 1\n+ 0 @@qdisc\n" + fact("eth0 3 10 0 0\nib0 0 0 0 0\n") +
                               "= 1000000000 1000000000\n= 2000000000 2000000000\n" +
                               fact("eth0 8 15 1 7\nib0 0 0 0 0\n") + "= 3000000000 3000000000\n" + fact("") +
                               "= 4000000000 4000000000\n");
  KernelTree fs(host.root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"qdisc"}}, *fs.next_tick());
  ASSERT_EQ(sampler.coverage().front().state, Coverage::State::ok) << sampler.coverage().front().reason;
  const auto value = [&sink](const std::string& family, const std::string& metric) {
    return sink.find(family)->value(metric, "eth0");
  };
  sampler.look_first();
  EXPECT_EQ(value("network/qdisc", "net.qdisc_drops"), 3);
  sampler.sample({.time = *fs.next_tick(), .number = 0});
  EXPECT_EQ(value("network/qdisc", "net.qdisc_drops"), 8);
  EXPECT_EQ(value("network/qdisc", "net.qdisc_overlimits"), 15);
  EXPECT_EQ(value("network/qdisc_length", "net.qdisc_length"), 7);
  EXPECT_EQ(sink.find("network/qdisc")->value("net.qdisc_drops", "ib0"), kMissing);
  sampler.sample({.time = *fs.next_tick(), .number = 0});
  EXPECT_EQ(value("network/qdisc", "net.qdisc_drops"), kMissing) << "the kernel did not tell";
}

TEST(Qdisc, IsAbsentInACopiedTree) {
  const TestHost host;
  EXPECT_EQ(ProbeBench(host, "qdisc").coverage().reason, "a copied tree has no queues");
}

TEST(Qdisc, ReadsTheQueuesOfThisHost) {
  KernelTree fs;
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"qdisc"}}, now());
  sampler.look_first();
  if (sampler.coverage().front().state != Coverage::State::ok) GTEST_SKIP() << sampler.coverage().front().reason;
  for (const auto& channel : sink.find("network/qdisc")->channels()) {
    EXPECT_TRUE(std::filesystem::exists("/sys/class/net/" + channel.get().instance)) << channel.get().instance;
  }
}

}  // namespace
}  // namespace reveal
