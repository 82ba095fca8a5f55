#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "core/kernel_text/queue_list.h"
#include "hdf5schema/basics/descriptor.h"
#include "tests/unit/core/forked_job.h"
#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::qdisc_test {
namespace {

std::string fact(const std::string& text) {
  return "$ 0 " + std::to_string(text.size()) + '\n' + text + '\n';
}

/// A recording in which the child's answers are these, the first one before the first tick.
class RecordedQueues {
 public:
  explicit RecordedQueues(const std::vector<std::string>& answers) {
    std::string text = "reveal recording 1\n+ 0 @@qdisc\n" + fact(answers.front()) + tick(1);
    for (std::size_t i = 1; i < answers.size(); ++i) text += tick(i + 1) + fact(answers[i]);
    text += tick(answers.size() + 1);
    host_.write("/ticks.rec", text);
    fs_ = std::make_unique<KernelTree>(host_.root());
    sampler_ = std::make_unique<Sampler>(*fs_, sink_, Sampler::Options{.probes = {"qdisc"}}, *fs_->next_tick());
    sampler_->look_first();
  }
  void next() { sampler_->sample({.time = *fs_->next_tick(), .number = 0}); }
  [[nodiscard]] std::int64_t drops(const std::string& interface) const {
    return value("network/qdisc", "net.qdisc_drops", interface);
  }
  [[nodiscard]] std::int64_t value(const std::string& family, const std::string& metric,
                                   const std::string& interface) const {
    return sink_.find(family)->value(metric, interface);
  }
  [[nodiscard]] const Sampler& sampler() const { return *sampler_; }

 private:
  static std::string tick(std::size_t second) {
    const std::string time = std::to_string(second) + "000000000";
    return "= " + time + ' ' + time + '\n';
  }

  TestHost host_;
  std::unique_ptr<KernelTree> fs_;
  TraceSink sink_;
  std::unique_ptr<Sampler> sampler_;
};

TEST(Qdisc, CountsDropsOfEachInterfaceAndLeavesOutIdleOnes) {
  RecordedQueues queues({"eth0 3 10 0 0 fq_codel\nib0 0 0 0 0\n", "eth0 8 15 1 7 tbf\nib0 0 0 0 0 noqueue\n", ""});
  ASSERT_EQ(queues.sampler().coverage().front().state, Coverage::State::ok)
      << queues.sampler().coverage().front().reason;
  EXPECT_EQ(queues.drops("eth0"), 3);
  queues.next();
  EXPECT_EQ(queues.drops("eth0"), 8);
  EXPECT_EQ(queues.value("network/qdisc", "net.qdisc_overlimits", "eth0"), 15);
  EXPECT_EQ(queues.value("network/qdisc_length", "net.qdisc_length", "eth0"), 7);
  EXPECT_EQ(queues.drops("ib0"), kMissing);
  queues.next();
  EXPECT_EQ(queues.drops("eth0"), kMissing) << "the kernel did not tell";
  EXPECT_EQ(queues.sampler().facts(), (Snapshot{{"net.eth0.qdisc", "fq_codel tbf"}})) << "ib0 has no queue";
}

TEST(Qdisc, ReadsCountersThatDidNotChangeWhileAnAnswerWasMissed) {
  const std::string answer = "eth0 8 15 1 7 tbf\n";
  RecordedQueues queues({answer, answer, "", answer});
  for (int i = 0; i < 2; ++i) queues.next();
  EXPECT_EQ(queues.drops("eth0"), kMissing);
  queues.next();
  EXPECT_EQ(queues.drops("eth0"), 8);
  EXPECT_EQ(queues.value("network/qdisc_length", "net.qdisc_length", "eth0"), 7);
}

TEST(Qdisc, KeepsInterfacesOfOneNameInTwoNamespacesApart) {
  RecordedQueues queues({"/ 40000 0 0 0\neth0 3 10 0 0 fq_codel\nns2/eth0 0 0 0 0 noqueue\n",
                         "/ 50000 0 0 0\neth0 3 10 0 0 fq_codel\nns2/eth0 50 60 0 4 tbf\n"});
  EXPECT_EQ(queues.drops("eth0"), 3);
  queues.next();
  EXPECT_EQ(queues.drops("eth0"), 3);
  EXPECT_EQ(queues.drops("ns2/eth0"), 50) << "at once, though it came later";
  EXPECT_EQ(queues.sampler().coverage().front().reason, "");
  EXPECT_EQ(queues.sampler().facts(), (Snapshot{{"net.eth0.qdisc", "fq_codel"}, {"net.ns2/eth0.qdisc", "tbf"}}));
}

TEST(Qdisc, SaysWhatItCouldNotRead) {
  RecordedQueues queues({"/ 40000 0 0 0\neth0 3 10 0 0 fq\n",
                         "/ 12000000 2 1 7 the list changed while it was read\neth0 4 10 0 0 fq\n",
                         "/ 12000000 2 0 5\neth0 5 10 0 0 fq\n"});
  queues.next();
  EXPECT_EQ(queues.drops("eth0"), 4) << "of the other namespaces";
  queues.next();
  EXPECT_EQ(queues.drops("eth0"), 5);
  EXPECT_EQ(queues.sampler().coverage().front().reason,
            "queues in 2 network namespaces of the job are not measured: entering them needs CAP_SYS_ADMIN; in 1 "
            "readings a network namespace was omitted, because the process that identified it had ended; queues of 7 "
            "interfaces are not measured: there are too many interfaces; queues were read only every 4 s at times, "
            "because reading all of them takes 12 ms: values counted over more than 3 s are not in the report; 1 "
            "readings were incomplete: the list changed while it was read");
}

TEST(Qdisc, OpensWhereNoNamespaceOfTheJobMayBeEntered) {
  EXPECT_EQ(RecordedQueues({"/ 40000 1 0 0\n"}).sampler().coverage().front().state, Coverage::State::ok);
  EXPECT_EQ(RecordedQueues({"/ 40000 0 0 0\n"}).sampler().coverage().front().reason,
            "no interface has a queue, or the kernel does not report it");
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

/// Its queues; `problem` and `ended` as of read_dump().
std::vector<InterfaceQueue> queues_in(std::span<const std::byte> messages, std::string& problem, bool& ended) {
  std::vector<InterfaceQueue> seen;
  const SeeMessage see = [&seen](std::uint16_t, std::span<const std::byte> body) {
    if (const auto queue = root_queue(body)) seen.push_back(*queue);
  };
  ended = read_dump(messages, see, problem);
  return seen;
}

TEST(QueueMessages, AreReadThoughTheyMayBeCutOffAnywhere) {
  const auto whole =
      message_of(RTM_NEWQDISC, 0, {.qlen = 7, .backlog = 0, .drops = 8, .requeues = 1, .overlimits = 15});
  std::string problem;
  bool ended = true;
  const auto seen = queues_in(whole, problem, ended);
  EXPECT_FALSE(ended);
  EXPECT_EQ(problem, "");
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].interface, 3);
  EXPECT_EQ(seen[0].kind, "tbf");
  EXPECT_EQ(seen[0].counts.drops, 8U);
  EXPECT_EQ(seen[0].counts.qlen, 7U);
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_TRUE(queues_in(std::span(whole).first(size), problem, ended).empty()) << size;
    EXPECT_EQ(problem, "the kernel's answer was cut off") << size;
    auto shorter = std::vector(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    if (size < sizeof(nlmsghdr)) continue;
    const auto length = static_cast<std::uint32_t>(size);
    std::memcpy(shorter.data(), &length, sizeof length);  // the header's length ends here
    EXPECT_TRUE(queues_in(shorter, problem, ended).empty()) << "half a queue is none: " << size;
  }
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

bool make_shaper() {
  constexpr const char* kShaper =
      "ip link set dev lo up && tc qdisc add dev lo root tbf rate 8kbit burst 2000 limit 2000";
  return ::unshare(CLONE_NEWNET) == 0 && std::system(kShaper) == 0;
}

void send_packet() {
  static const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = ::htons(9);
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  const std::array<char, 1000> packet{};
  static_cast<void>(::sendto(socket.get(), packet.data(), packet.size(), 0, reinterpret_cast<const sockaddr*>(&address),
                             sizeof address));
  ::usleep(1000);
}

TEST(Qdisc, CountsWhatAQueueInTheJobsOwnNamespaceDrops) {
  if (::geteuid() != 0) GTEST_SKIP() << "a network namespace and its queue need root";
  const ForkedJob job(make_shaper, send_packet);  // it sends more than the queue in its namespace passes on
  if (!job.is_ready()) GTEST_SKIP() << "no network namespace with a shaper could be made (unshare, ip, tc)";
  KernelTree fs;
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"qdisc"}, .job = JobSource{.pid = job.pid()}, .own_pid = ::getpid()}, now());
  sampler.look_first();
  ASSERT_EQ(sampler.coverage().front().state, Coverage::State::ok) << sampler.coverage().front().reason;
  const auto drops = [&sink] { return sink.find("network/qdisc")->value("net.qdisc_drops", "lo"); };
  for (int look = 0; look < 300 && drops() < 10; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    sampler.sample({.time = now(), .number = 0});
  }
  EXPECT_GE(drops(), 10) << sampler.coverage().front().reason;
  EXPECT_EQ(sampler.facts(), (Snapshot{{"net.lo.qdisc", "tbf"}}));
}

}  // namespace
}  // namespace reveal::tests::qdisc_test
