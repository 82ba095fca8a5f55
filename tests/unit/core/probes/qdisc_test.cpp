#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "core/kernel_text/queue_list.h"
#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::qdisc_test {
namespace {

std::string fact(const std::string& text) {
  return "$ 0 " + std::to_string(text.size()) + '\n' + text + '\n';
}

TEST(Qdisc, CountsDropsOfEachInterfaceAndLeavesOutIdleOnes) {
  const TestHost host;
  host.write("/ticks.rec", "reveal recording 1\n+ 0 @@qdisc\n" + fact("eth0 3 10 0 0 fq_codel\nib0 0 0 0 0\n") +
                               "= 1000000000 1000000000\n= 2000000000 2000000000\n" +
                               fact("eth0 8 15 1 7 tbf\nib0 0 0 0 0 noqueue\n") + "= 3000000000 3000000000\n" +
                               fact("") + "= 4000000000 4000000000\n");
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
  EXPECT_EQ(sampler.facts(), (Snapshot{{"net.eth0.qdisc", "fq_codel tbf"}})) << "ib0 has no queue";
}

/// A message of rtnetlink with these counts of the queue at the root of interface 3.
std::vector<std::byte> message_of(std::uint16_t type, std::uint16_t flags, const gnet_stats_queue& counts) {
  struct {
    nlmsghdr header;
    tcmsg body;
    rtattr kind;
    std::array<char, 4> name;
    rtattr statistics, queue;
    gnet_stats_queue counts;
  } whole{};
  whole.header.nlmsg_len = sizeof whole;
  whole.header.nlmsg_type = type;
  whole.header.nlmsg_flags = flags;
  whole.body.tcm_ifindex = 3;
  whole.body.tcm_parent = TC_H_ROOT;
  whole.kind = {sizeof(rtattr) + sizeof whole.name, TCA_KIND};
  whole.name = {'t', 'b', 'f', '\0'};
  whole.statistics = {sizeof(rtattr) + sizeof(rtattr) + sizeof counts, TCA_STATS2 | NLA_F_NESTED};
  whole.queue = {sizeof(rtattr) + sizeof counts, TCA_STATS_QUEUE};
  whole.counts = counts;
  const auto bytes = std::as_bytes(std::span(&whole, 1));
  return {bytes.begin(), bytes.end()};
}

TEST(QueueMessages, AreReadThoughTheyMayBeCutOffAnywhere) {
  const auto whole =
      message_of(RTM_NEWQDISC, 0, {.qlen = 7, .backlog = 0, .drops = 8, .requeues = 1, .overlimits = 15});
  std::vector<InterfaceQueue> seen;
  const auto see = [&seen](const InterfaceQueue& queue) { seen.push_back(queue); };
  EXPECT_EQ(read_queues(whole, see), QueueList::goes_on);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].interface, 3);
  EXPECT_EQ(seen[0].kind, "tbf");
  EXPECT_EQ(seen[0].counts.drops, 8U);
  EXPECT_EQ(seen[0].counts.qlen, 7U);
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_EQ(read_queues(std::span(whole).first(size), see), QueueList::broken) << size;
    auto shorter = std::vector(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    if (size < sizeof(nlmsghdr)) continue;
    const auto length = static_cast<std::uint32_t>(size);
    std::memcpy(shorter.data(), &length, sizeof length);  // the header's length ends here
    EXPECT_EQ(read_queues(shorter, see), QueueList::goes_on) << size;
  }
  EXPECT_EQ(seen.size(), 1U) << "half a queue is none";
}

TEST(QueueMessages, HaveNoKindThatIsNoWord) {
  const auto kind = [](std::string_view name) { return kind_of_queue(std::as_bytes(std::span(name))); };
  EXPECT_EQ(kind(std::string_view("pfifo_fast\0", 11)), "pfifo_fast");
  EXPECT_EQ(kind("fq"), "fq") << "without its end";
  EXPECT_EQ(kind("f q"), "");
  EXPECT_EQ(kind("\n"), "");
  EXPECT_EQ(kind("a_name_of_sixteen"), "");
  EXPECT_EQ(kind(""), "");
}

TEST(QueueMessages, AreNotAllThereWhereTheListChangedOrTheKernelRefused) {
  const auto see = [](const InterfaceQueue&) {};
  EXPECT_EQ(read_queues(message_of(RTM_NEWQDISC, NLM_F_DUMP_INTR, {}), see), QueueList::broken);
  EXPECT_EQ(read_queues(message_of(NLMSG_ERROR, 0, {}), see), QueueList::broken);
  EXPECT_EQ(read_queues(message_of(NLMSG_DONE, 0, {}), see), QueueList::ended);
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
}  // namespace reveal::tests::qdisc_test
