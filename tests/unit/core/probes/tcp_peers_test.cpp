#include "core/job/tcp_peers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/job/tcp_sockets.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/trace_reader.h"
#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/test_host.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::tcp_peers_test {
namespace {

/// The two ends of a connection of this host with itself.
struct Ends {
  Descriptor client, accepted;

  static Ends connect() {
    const Descriptor server(::socket(AF_INET, SOCK_STREAM, 0));
    Ends ends{Descriptor(::socket(AF_INET, SOCK_STREAM, 0)), Descriptor()};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* place = reinterpret_cast<sockaddr*>(&address);
    bool connected = ::bind(server.get(), place, size) == 0 && ::listen(server.get(), 1) == 0;
    connected = connected && ::getsockname(server.get(), place, &size) == 0;
    connected = connected && ::connect(ends.client.get(), place, size) == 0;
    if (connected) ends.accepted = Descriptor(::accept(server.get(), nullptr, nullptr));
    return ends;
  }
};

/// A job of one process that has an idle connection, makes another one on request, by which it sends itself 4 MB, and
/// waits to be killed.
class TalkingJob {
 public:
  TalkingJob() {
    if (::pipe2(begin_.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const Ends idle = Ends::connect();
    pid_ = ::fork();
    if (pid_ == 0) talk(begin_[0]);
  }
  ~TalkingJob() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (const int end : begin_) ::close(end);
  }
  TalkingJob(const TalkingJob&) = delete;
  TalkingJob& operator=(const TalkingJob&) = delete;

  static constexpr std::int64_t kBytes = 4'000'000;
  [[nodiscard]] int pid() const { return pid_; }
  void begin() const { ASSERT_EQ(::write(begin_[1], "b", 1), 1); }

 private:
  [[noreturn]] static void talk(int begin) {
    char letter = 0;
    if (::read(begin, &letter, 1) != 1) ::_exit(1);
    const Ends ends = Ends::connect();
    if (!ends.accepted) ::_exit(1);
    std::vector<char> block(100'000);
    for (std::int64_t sent = 0; sent < kBytes; sent += static_cast<std::int64_t>(block.size())) {
      if (::send(ends.client.get(), block.data(), block.size(), 0) != static_cast<ssize_t>(block.size())) ::_exit(1);
      std::size_t got = 0;
      while (got < block.size()) {
        const ssize_t piece = ::recv(ends.accepted.get(), block.data(), block.size() - got, 0);
        if (piece <= 0) ::_exit(1);
        got += static_cast<std::size_t>(piece);
      }
    }
    while (true) ::pause();
  }

  std::array<int, 2> begin_{};
  int pid_ = -1;
};

TEST(TcpPeersProbe, CountsWhatTheJobMoved) {
  if (const std::string why = why_no_tcp_sockets(); !why.empty()) GTEST_SKIP() << why;
  const TalkingJob job;
  KernelTree fs;
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"tcp_peers"}, .job = JobSource{.pid = job.pid()}, .own_pid = ::getpid()},
                  now());
  sampler.look_first();
  ASSERT_EQ(sampler.coverage().front().state, Coverage::State::ok) << sampler.coverage().front().reason;
  const auto value = [&sink](const std::string& family, const std::string& metric) {
    return sink.find(family)->value(metric, "127.0.0.1");
  };
  // The kernel also counts the first packet of each side.
  const auto all_there = [&value] {
    return value("network/peer_bytes", "tcp.peer.bytes_received") >= TalkingJob::kBytes &&
           value("network/peer_bytes", "tcp.peer.bytes_acked") >= TalkingJob::kBytes;
  };
  const auto look_until = [&sampler](const auto& seen) {
    for (int look = 0; look < 300 && !seen(); ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      sampler.sample({.time = now(), .number = 0});
    }
  };
  // A connection made after the first answer is counted from its begin.
  look_until([&value] { return value("network/peer_windows", "tcp.peer.connections") == 2; });
  ASSERT_EQ(value("network/peer_windows", "tcp.peer.connections"), 2);
  // Unless other programs of this host begin some, these looks are at known connections only. An answer that is late
  // leaves a row without values.
  int looks = 0;
  look_until([&] { return ++looks > 8 && value("network/peer_windows", "tcp.peer.connections") == 2; });
  EXPECT_EQ(value("network/peer_windows", "tcp.peer.connections"), 2);
  job.begin();
  look_until([&] { return all_there() && value("network/peer_windows", "tcp.peer.connections") == 4; });
  EXPECT_LE(value("network/peer_bytes", "tcp.peer.bytes_received"), TalkingJob::kBytes + 2);
  EXPECT_GE(value("network/peer_bytes", "tcp.peer.bytes_received"), TalkingJob::kBytes);
  EXPECT_GE(value("network/peer_bytes", "tcp.peer.bytes_acked"), TalkingJob::kBytes);
  EXPECT_EQ(value("network/peer_windows", "tcp.peer.connections"), 4);  // two with both ends
  EXPECT_EQ(value("network/peer_churn", "tcp.peer.opened"), 2);
  EXPECT_GT(value("network/peer_delays", "tcp.peer.rtt"), 0);
}

TEST(TcpPeersProbe, IsAbsentWhereNoConnectionCanBeAskedFor) {
  const TestHost host;
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  EXPECT_EQ(ProbeBench(host, "tcp_peers", JobSource{.pid = 50}).coverage().reason, "a copied tree has no connections");
  EXPECT_EQ(ProbeBench(host, "tcp_peers").coverage().reason, "no job was named (--job)");
}

TEST(TcpPeersProbe, IsAbsentWhereNetlinkIsRefused) {
  const TestHost host;
  const std::string why = "netlink is refused (Operation not permitted)";
  host.write("/ticks.rec", "reveal recording 1\n+ 0 @@job/roots\n$ 0 4\n4711\n+ 1 @@tcp_peers/open\n$ 1 " +
                               std::to_string(why.size()) + '\n' + why + "\n= 1000000000 1000000000\n");
  KernelTree fs(host.root());
  TraceSink sink;
  const Sampler sampler(fs, sink, {.probes = {"tcp_peers"}}, *fs.next_tick());
  EXPECT_EQ(sampler.coverage().front().state, Coverage::State::absent);
  EXPECT_EQ(sampler.coverage().front().reason, why);
}

/// An answer of the child; a change of the pace with it, "on" or "off".
struct Recorded {
  std::string answer;
  std::string faster = {};
};

/// A recording in which the child's answers are these, one in each tick.
class RecordedAnswers {
 public:
  explicit RecordedAnswers(const std::vector<std::string>& answers) : RecordedAnswers(ticks_of(answers), kSecond) {}
  RecordedAnswers(const std::vector<Recorded>& ticks, std::int64_t interval) {
    std::string text = "reveal recording 1\n";
    std::size_t next = 0;
    std::map<std::string, std::size_t> numbers;
    const auto put = [&](const std::string& key, const std::string& value) {
      const auto [at, fresh] = numbers.emplace(key, next);
      if (fresh) text += "+ " + std::to_string(next++) + ' ' + key + '\n';
      text += "$ " + std::to_string(at->second) + ' ' + std::to_string(value.size()) + '\n' + value + '\n';
    };
    put("@@tcp_peers/open", "ok");
    put("@@job/roots", "4711");
    std::int64_t time = kSecond;
    const auto tick = [&] {
      time += interval;
      text += "= " + std::to_string(time) + ' ' + std::to_string(time) + '\n';
    };
    for (const Recorded& each : ticks) {
      tick();
      put("@@tcp_peers", each.answer);
      if (!each.faster.empty()) put("@@sampler/faster", each.faster);
    }
    tick();
    host_.write("/ticks.rec", text);
  }
  [[nodiscard]] const TestHost& host() const { return host_; }

 private:
  static std::vector<Recorded> ticks_of(const std::vector<std::string>& answers) {
    std::vector<Recorded> ticks;
    for (const std::string& answer : answers) ticks.push_back({answer});
    return ticks;
  }

  TestHost host_;
};

std::string answer(const std::string& name, std::int64_t retransmits) {
  // 11 counters, 7 levels; opened, closed, connections
  return "ok 1000 0 0 0 0\n" + name + ' ' + std::to_string(retransmits) +
         " 0 - 10 10 100 100 0 0 0 0 50000 1000 40000 10 1 0 - 1 0 1\n";
}

TEST(TcpPeersProbe, LeavesARowOutWhereTheKernelDidNotAnswerWhole) {
  const RecordedAnswers recorded({answer("10.0.0.2", 3), "gap 1000 the list changed while it was read\n", "\n",
                                  "ok 1000 1 0", answer("10.0.0.2", 9)});
  KernelTree fs(recorded.host().root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"tcp_peers"}}, *fs.next_tick());
  const auto next = [&] {
    const auto time = fs.next_tick();
    if (time) sampler.sample({.time = *time, .number = 0});
    return sink.find("network/peer_segments")->value("tcp.peer.retransmits", "10.0.0.2");
  };
  sampler.look_first();
  EXPECT_EQ(sink.find("network/peer_segments")->value("tcp.peer.retransmits", "10.0.0.2"), 3);
  EXPECT_EQ(sink.find("network/peer_segments")->value("tcp.peer.duplicates", "10.0.0.2"), kMissing);
  EXPECT_EQ(sink.find("network/peer_rates")->value("tcp.peer.delivery_rate", "10.0.0.2"), kMissing);
  EXPECT_EQ(next(), kMissing);
  EXPECT_EQ(next(), kMissing);
  EXPECT_EQ(next(), kMissing);
  EXPECT_EQ(next(), 9);
  EXPECT_EQ(sampler.coverage().front().reason, "1 readings were incomplete: the list changed while it was read");
}

TEST(TcpPeersProbe, HasRowsForThePeersThatAChildChoosesAfterARestart) {
  const auto all_rows = [](const std::string& network) {
    std::string text = answer("others", 1);
    for (std::size_t i = 0; i < TcpPeers::kSlots; ++i) {
      const std::string one = answer(network + std::to_string(i), 3);
      text += one.substr(one.find('\n') + 1);
    }
    return text;
  };
  const RecordedAnswers recorded({all_rows("10.0.0."), all_rows("10.0.1."), "\n"});
  KernelTree fs(recorded.host().root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"tcp_peers"}}, *fs.next_tick());
  sampler.look_first();
  const Family& segments = *sink.find("network/peer_segments");
  EXPECT_EQ(segments.value("tcp.peer.retransmits", "10.0.0.15"), 3);
  sampler.sample({.time = *fs.next_tick(), .number = 0});
  EXPECT_EQ(segments.value("tcp.peer.retransmits", "10.0.0.15"), kMissing);
  for (std::size_t i = 0; i < TcpPeers::kSlots; ++i) {
    EXPECT_EQ(segments.value("tcp.peer.retransmits", "10.0.1." + std::to_string(i)), 3);
  }
}

TEST(TcpPeersProbe, SaysWhatItLeftOut) {
  // Twelve milliseconds of a core are four seconds at 0.3 %; then a process had ended before its network was entered.
  const RecordedAnswers recorded({"ok 12000000 0 0 0 0\n", "ok 1000 0 0 0 1\n", "\n"});
  KernelTree fs(recorded.host().root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"tcp_peers"}}, *fs.next_tick());
  sampler.look_first();
  while (const auto time = fs.next_tick()) sampler.sample({.time = *time, .number = 0});
  const std::string reason = sampler.coverage().front().reason;
  EXPECT_NE(reason.find("in 1 readings a network namespace was omitted"), std::string::npos) << reason;
  EXPECT_NE(reason.find("only every 4 s at times, because reading all of them takes 12 ms"), std::string::npos)
      << reason;
}

TEST(TcpPeersProbe, SaysWhereItSearchesForNewConnectionsSeldom) {
  // The listing of all sockets takes 180 ms and is paced by the child: 0.3 ms for the job's own are no pause.
  const std::string limits = "0 0 0 0 180000000 90000000000\n";
  const std::string first = answer("10.0.0.2", 3);
  const std::string second = answer("10.0.0.2", 9);
  const auto with_limits = [&limits](const std::string& text) {
    return "ok 300000 " + limits + text.substr(text.find('\n') + 1);
  };
  const RecordedAnswers recorded({with_limits(first), with_limits(second), "\n"});
  KernelTree fs(recorded.host().root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"tcp_peers"}}, *fs.next_tick());
  sampler.look_first();
  EXPECT_EQ(sink.find("network/peer_segments")->value("tcp.peer.retransmits", "10.0.0.2"), 3);
  sampler.sample({.time = *fs.next_tick(), .number = 0});
  EXPECT_EQ(sink.find("network/peer_segments")->value("tcp.peer.retransmits", "10.0.0.2"), 9);
  EXPECT_EQ(sampler.coverage().front().reason,
            "new connections were found only every 90 s at times, because listing all sockets of the node takes 180 "
            "ms: their segments before that are not counted");
}

TEST(TcpPeersProbe, SaysWhichShareOfTheSegmentsItCounts) {
  // 512 of 5,000 connections are counted from the second answer on; the last one lists all of them again.
  const auto of_some = [](const std::string& limits, int retransmits, const std::string& coverage) {
    std::string text = answer("10.0.0.2", retransmits);
    text = "ok 300000 0 0 0 0 15000000 7500000000 " + limits + text.substr(text.find('\n'));
    return text.insert(text.size() - 1, coverage);
  };
  const RecordedAnswers recorded({of_some("0 0 0", 0, ""), of_some("4488 5000 61", 3, " 62"),
                                  of_some("4500 5012 43", 9, " 38"), of_some("0 0 0", 9, ""), "\n"});
  KernelTree fs(recorded.host().root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"tcp_peers"}}, *fs.next_tick());
  sampler.look_first();
  const auto coverage = [&sink] { return sink.find("network/peer_coverage")->value("tcp.peer.coverage", "10.0.0.2"); };
  const auto next = [&] {
    sampler.sample({.time = *fs.next_tick(), .number = 0});
    return coverage();
  };
  EXPECT_TRUE(sink.find("network/peer_coverage")->channels().empty());
  EXPECT_EQ(next(), 62);
  EXPECT_EQ(next(), 38);
  EXPECT_EQ(sink.find("network/peer_segments")->value("tcp.peer.retransmits", "10.0.0.2"), 9);
  EXPECT_EQ(next(), kMissing);
  const std::string reason = sampler.coverage().front().reason;
  EXPECT_NE(
      reason.find("only 512 of the job's 5012 connections were counted at times: some of each peer and the busiest "
                  "others, with 43 % of the segments"),
      std::string::npos)
      << reason;
  EXPECT_NE(reason.find("new connections were found only every 7 s at times"), std::string::npos) << reason;
}

/// A connection of this process as the kernel lists it.
std::optional<TcpSocketId> id_of(int diagnosis, std::span<std::byte> buffer, int descriptor) {
  struct stat status {};
  std::optional<TcpSocketId> id;
  if (::fstat(descriptor, &status) != 0) return id;
  static_cast<void>(dump_tcp_sockets(diagnosis, buffer, [&](const TcpSocket& socket) {
    if (socket.inode == status.st_ino) id = socket.id;
  }));
  return id;
}

TEST(TcpSocketsOfThisHost, AreFoundOneByOneUntilTheyEnd) {
  const OpenedNetlink opened = open_netlink(NETLINK_SOCK_DIAG);
  std::vector<std::byte> buffer(1 << 16);
  if (const std::string why = why_no_tcp_sockets(); !why.empty()) GTEST_SKIP() << why;
  Ends ends = Ends::connect();
  ASSERT_TRUE(ends.accepted);
  const auto id = id_of(opened.socket.get(), buffer, ends.client.get());
  ASSERT_TRUE(id.has_value());
  std::size_t seen = 0;
  const auto look = [&] {
    seen = 0;
    return look_up_tcp_socket(opened.socket.get(), buffer, *id, [&](const TcpSocket& socket) {
      seen += socket.id.ends.idiag_sport == id->ends.idiag_sport && !socket.info.empty() ? 1 : 0;
    });
  };
  EXPECT_EQ(look(), "");
  EXPECT_EQ(seen, 1U);
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(ends.client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  ends.client.close();
  EXPECT_EQ(look(), "") << "it has ended";
  EXPECT_EQ(seen, 0U);
}

/// Ten ticks a second from 2 s to 9 s. The peer's counter is ten times the time of the request. From 4 s to 6 s, each
/// tick reads; otherwise each second.
RecordedAnswers recorded_with_faster_readings() {
  std::vector<Recorded> ticks;
  int asked = 0;
  for (int tick = 11; tick <= 90; ++tick) {
    const bool faster = tick >= 40 && tick < 60;
    Recorded& recorded = ticks.emplace_back();
    if (tick == 20 || tick == 40 || tick == 60) recorded.faster = faster ? "on" : "off";
    if (tick < 20 || (!faster && tick % 10 != 0)) continue;
    if (asked > 0) recorded.answer = answer("10.0.0.2", asked);
    asked = tick;
  }
  return {ticks, kSecond / 10};
}

/// Time and value of each row, in tenths, of a replay.
std::vector<std::pair<std::int64_t, std::int64_t>> replayed_rows(bool faster_reading) {
  const RecordedAnswers recorded = recorded_with_faster_readings();
  const TemporaryDirectory folder;
  const auto path = folder.path() / "n01.h5";
  {
    KernelTree fs(recorded.host().root());
    TraceWriter writer(path, sample_header(), {.waits = true});
    TraceSink sink(&writer);
    std::optional<TickTime> time = fs.next_tick();
    while (time && time->monotonic_ns < 2 * kSecond) time = fs.next_tick();
    Sampler sampler(fs, sink, {.probes = {"tcp_peers"}, .faster_reading = faster_reading}, *time);
    sampler.look_first();
    writer.start();
    while ((time = fs.next_tick())) sampler.sample({.time = *time, .number = time->monotonic_ns * 10 / kSecond});
    sampler.close();
    EXPECT_EQ(sink.rows_lost(), 0U);
    writer.close();
  }
  const TraceReader reader(path);
  for (const TraceReader::Family& family : reader.families()) {
    if (family.spec.path != "network/peer_segments") continue;
    EXPECT_EQ(family.spec.faster, std::chrono::milliseconds(faster_reading ? 100 : 0));
    EXPECT_EQ(family.channels.front().metric, "tcp.peer.retransmits");
    const std::vector<std::int64_t> values = reader.read_absolute(family);
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;
    for (std::size_t row = 0; row < family.time_ns.size(); ++row)
      rows.emplace_back(family.time_ns[row] * 10 / kSecond, values[row]);
    return rows;
  }
  return {};
}

TEST(TcpPeersProbe, IsReadFasterWhileSomethingIsUnusualAndCountsUpToOneSecondBeforeEachRow) {
  const auto rows = replayed_rows(true);
  ASSERT_EQ(rows.size(), 25U);  // at 3 s, 4 s, each tenth from 5 s to 6.9 s, and at 7, 8 and 9 s
  for (const auto& [time, value] : rows) EXPECT_EQ(value, time - 10) << time;
}

TEST(TcpPeersProbe, IsReadEachSecondWhereFasterReadingIsOff) {
  std::vector<std::int64_t> times;
  for (const auto& [time, value] : replayed_rows(false)) times.push_back(time);
  EXPECT_EQ(times, (std::vector<std::int64_t>{30, 40, 50, 60, 70, 80, 90}));
}

}  // namespace
}  // namespace reveal::tests::tcp_peers_test
