#include "core/job/tcp_peers.h"

#include <gtest/gtest.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "hdf5schema/vocabulary.h"

namespace reveal::tests::tcp_peers_test {
namespace {

IpAddress address(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
}

std::size_t counter(std::string_view name) {
  for (std::size_t i = 0; i < kTcpCounters.size(); ++i) {
    if (kTcpCounters[i].name == name) return i;
  }
  throw std::out_of_range(std::string(name));
}

std::size_t level(std::string_view name) {
  for (std::size_t i = 0; i < kTcpLevels.size(); ++i) {
    if (kTcpLevels[i].field.name == name) return i;
  }
  throw std::out_of_range(std::string(name));
}

/// The kernel's data of one connection to 10.0.0.`peer`; its inode is also its cookie.
struct Connection {
  std::uint64_t cookie;
  std::uint8_t peer = 1;
  std::uint32_t retransmits = 0;
  std::uint64_t acked = 0;
  std::uint32_t rtt_us = 100;
  std::uint32_t data_segments = 0;
};

class Watched {
 public:
  explicit Watched(std::vector<std::uint32_t> owned) : owned_(std::move(owned)) {}

  void look(const std::vector<Connection>& connections, bool whole = true, std::size_t bytes = sizeof(tcp_info),
            TcpPeers::Look kind = TcpPeers::Look::usual) {
    peers_.begin(kind == TcpPeers::Look::anew ? owned_ : inodes_, kind);
    peers_.enter(0);
    for (const Connection& each : connections) {
      tcp_info info{};
      info.tcpi_total_retrans = each.retransmits;
      info.tcpi_bytes_acked = each.acked;
      info.tcpi_rtt = each.rtt_us;
      info.tcpi_min_rtt = each.rtt_us / 2;
      info.tcpi_data_segs_out = each.data_segments;
      info.tcpi_snd_cwnd = 10;
      peers_.see({.cookie = each.cookie,
                  .inode = static_cast<std::uint32_t>(each.cookie),
                  .peer = address(each.peer),
                  .info = std::as_bytes(std::span(&info, 1)).first(bytes),
                  .id = id_of(each.cookie)});
    }
    if (peers_.has_strangers()) peers_.introduce(owned_);
    inodes_ = peers_.end(whole);
  }

  void look_as(TcpPeers::Look kind, const std::vector<Connection>& connections) {
    look(connections, true, sizeof(tcp_info), kind);
  }
  void look_extra(const std::vector<Connection>& connections) { look_as(TcpPeers::Look::extra, connections); }

  [[nodiscard]] const TcpPeers::Sums& of(std::string_view name) const {
    for (const TcpPeers::Row& row : peers_.rows()) {
      if (row.name == name) return row.sums;
    }
    throw std::out_of_range(std::string(name));
  }
  [[nodiscard]] std::int64_t retransmits(std::string_view name) const {
    return of(name).counters[counter("retransmits")];
  }
  [[nodiscard]] const TcpPeers& peers() const { return peers_; }

 private:
  static TcpSocketId id_of(std::uint64_t cookie) {
    TcpSocketId id;
    id.ends.idiag_cookie[0] = static_cast<std::uint32_t>(cookie);
    return id;
  }

  TcpPeers peers_;
  std::vector<std::uint32_t> owned_;
  std::vector<std::uint32_t> inodes_;
};

TEST(TcpPeers, ReadTheFieldsWhereTheKernelHasThem) {
  const auto offset = [](std::string_view name) {
    for (const TcpInfoField& field : kTcpCounters) {
      if (field.name == name) return field.offset;
    }
    for (const TcpLevel& each : kTcpLevels) {
      if (each.field.name == name) return each.field.offset;
    }
    return std::size_t{0};
  };
  EXPECT_EQ(offset("retransmits"), offsetof(tcp_info, tcpi_total_retrans));
  EXPECT_EQ(offset("out_of_order"), offsetof(tcp_info, tcpi_rcv_ooopack));
  EXPECT_EQ(offset("duplicates"), offsetof(tcp_info, tcpi_dsack_dups));
  EXPECT_EQ(offset("segments_sent"), offsetof(tcp_info, tcpi_data_segs_out));
  EXPECT_EQ(offset("segments_received"), offsetof(tcp_info, tcpi_data_segs_in));
  EXPECT_EQ(offset("bytes_acked"), offsetof(tcp_info, tcpi_bytes_acked));
  EXPECT_EQ(offset("bytes_received"), offsetof(tcp_info, tcpi_bytes_received));
  EXPECT_EQ(offset("bytes_retransmitted"), offsetof(tcp_info, tcpi_bytes_retrans));
  EXPECT_EQ(offset("busy_time"), offsetof(tcp_info, tcpi_busy_time));
  EXPECT_EQ(offset("receiver_limited_time"), offsetof(tcp_info, tcpi_rwnd_limited));
  EXPECT_EQ(offset("buffer_limited_time"), offsetof(tcp_info, tcpi_sndbuf_limited));
  EXPECT_EQ(offset("rtt"), offsetof(tcp_info, tcpi_rtt));
  EXPECT_EQ(offset("rtt_variation"), offsetof(tcp_info, tcpi_rttvar));
  EXPECT_EQ(offset("rtt_least"), offsetof(tcp_info, tcpi_min_rtt));
  EXPECT_EQ(offset("cwnd"), offsetof(tcp_info, tcpi_snd_cwnd));
  EXPECT_EQ(offset("unacked"), offsetof(tcp_info, tcpi_unacked));
  EXPECT_EQ(offset("lost"), offsetof(tcp_info, tcpi_lost));
  EXPECT_EQ(offset("delivery_rate"), offsetof(tcp_info, tcpi_delivery_rate));
}

TEST(TcpPeers, CountFromTheFirstLookAndOfLaterConnectionsFromTheirBirth) {
  Watched watched({7, 8});
  watched.look({{.cookie = 7, .retransmits = 100}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 0);
  EXPECT_EQ(watched.of("10.0.0.1").opened, 0);
  watched.look({{.cookie = 7, .retransmits = 103}, {.cookie = 8, .retransmits = 5}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 8);
  EXPECT_EQ(watched.of("10.0.0.1").opened, 1);
  EXPECT_EQ(watched.of("10.0.0.1").connections, 2);
}

TEST(TcpPeers, CountTheFirstConnectionOfANamespaceThatHadNoneFromItsBirth) {
  Watched watched({7});
  watched.look({});
  watched.look({{.cookie = 7, .retransmits = 3}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 3);
}

TEST(TcpPeers, NeverFallWhenConnectionsEnd) {
  Watched watched({7, 8});
  watched.look({});
  watched.look({{.cookie = 7, .retransmits = 40}});
  for (int look = 0; look < 3; ++look) watched.look({{.cookie = 8, .retransmits = 2}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 42);
  EXPECT_EQ(watched.of("10.0.0.1").closed, 1);
  EXPECT_EQ(watched.of("10.0.0.1").connections, 1);
  EXPECT_EQ(watched.peers().sockets(), 1U);
}

TEST(TcpPeers, CountOnWhereTheKernelsCountersBeginAnew) {
  Watched watched({7});
  watched.look({{.cookie = 7, .retransmits = 0xffff'fff0}});
  watched.look({{.cookie = 7, .retransmits = 0x10}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 0x20);
  watched.look({{.cookie = 7, .retransmits = 0x8}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 0x20) << "a fall is no turn";
}

TEST(TcpPeers, LeaveOutTheSocketsOfOthers) {
  Watched watched({7});
  watched.look({});
  watched.look({{.cookie = 7, .peer = 1, .retransmits = 1}, {.cookie = 9, .peer = 2, .retransmits = 50}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 1);
  EXPECT_EQ(watched.retransmits("others"), 0);
  EXPECT_EQ(watched.peers().rows().size(), 2U);
}

TEST(TcpPeers, TakeASocketThatIsHandedToTheJobFromThenOn) {
  TcpPeers peers;
  tcp_info info{};
  const auto look = [&](std::vector<std::uint32_t> of_job, std::uint32_t retransmits) {
    info.tcpi_total_retrans = retransmits;
    peers.begin(of_job);
    peers.enter(0);
    peers.see({.cookie = 9, .inode = 9, .peer = address(1), .info = std::as_bytes(std::span(&info, 1))});
    if (peers.has_strangers()) peers.introduce(std::move(of_job));
    static_cast<void>(peers.end(true));
    return peers.rows().size();
  };
  EXPECT_EQ(look({}, 40), 1U) << "of another program";
  EXPECT_EQ(look({}, 50), 1U);
  EXPECT_EQ(look({9}, 60), 2U);
  EXPECT_EQ(peers.rows()[1].sums.counters[counter("retransmits")], 0);
  EXPECT_EQ(peers.rows()[1].sums.connections, 1);
  EXPECT_EQ(look({9}, 63), 2U);
  EXPECT_EQ(peers.rows()[1].sums.counters[counter("retransmits")], 3);
}

TEST(TcpPeers, TakeNothingForClosedWhereTheListWasNotWhole) {
  Watched watched({7});
  watched.look({{.cookie = 7}});
  for (int look = 0; look < 5; ++look) watched.look({}, false);
  EXPECT_EQ(watched.of("10.0.0.1").closed, 0);
  watched.look({{.cookie = 7, .retransmits = 6}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 6);
  EXPECT_EQ(watched.of("10.0.0.1").opened, 0);
}

TEST(TcpPeers, CountShortConnectionsAsOftenWhereThereAreExtraLooks) {
  Watched watched({7, 8, 9});
  watched.look({});
  watched.look({{.cookie = 7, .retransmits = 10}, {.cookie = 8, .retransmits = 3}});
  watched.look_extra({{.cookie = 7, .retransmits = 12}, {.cookie = 8, .retransmits = 5}, {.cookie = 9}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 13) << "one usual look has seen them";
  EXPECT_EQ(watched.of("10.0.0.1").connections, 2);
  EXPECT_EQ(watched.of("10.0.0.1").opened, 2) << "9 began and ended between two usual looks";
  watched.look({{.cookie = 7, .retransmits = 14}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 17);
  watched.look_extra({{.cookie = 7, .retransmits = 15}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 18) << "it has lasted for a period";
  EXPECT_EQ(watched.of("10.0.0.1").opened, 2);
}

TEST(TcpPeers, CountFromThenOnWhereTheLastLookAtAllWasLongAgo) {
  Watched watched({7, 8});
  watched.look_as(TcpPeers::Look::anew, {{.cookie = 7, .retransmits = 90}, {.cookie = 12, .retransmits = 1}});
  EXPECT_FALSE(watched.peers().has_strangers()) << "12 is known as the socket of another program";
  watched.look_as(TcpPeers::Look::anew, {{.cookie = 7, .retransmits = 93}, {.cookie = 8, .retransmits = 500}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 3) << "8 may have sent again a minute ago";
  EXPECT_EQ(watched.of("10.0.0.1").opened, 1);
  watched.look_as(TcpPeers::Look::known, {{.cookie = 7, .retransmits = 93}, {.cookie = 8, .retransmits = 502}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 5);
}

TEST(TcpPeers, NeitherBeginNorEndConnectionsWhereKnownOnesAreLookedUp) {
  Watched watched({7, 8, 9});
  watched.look({{.cookie = 7, .retransmits = 1}, {.cookie = 8}});
  for (std::uint32_t look = 2; look < 6; ++look) {
    watched.look_as(TcpPeers::Look::known, {{.cookie = 7, .retransmits = look}, {.cookie = 9, .retransmits = 70}});
  }
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 4);
  EXPECT_EQ(watched.of("10.0.0.1").connections, 1);
  EXPECT_EQ(watched.of("10.0.0.1").opened, 0);
  EXPECT_EQ(watched.of("10.0.0.1").closed, 0);
  watched.look_as(TcpPeers::Look::anew, {{.cookie = 7, .retransmits = 5}});
  watched.look_as(TcpPeers::Look::anew, {{.cookie = 7, .retransmits = 5}});
  EXPECT_EQ(watched.of("10.0.0.1").closed, 1);
}

TEST(TcpPeers, EndWhatALookAtTheSameConnectionsDoesNotSee) {
  Watched watched({7, 8});
  watched.look({{.cookie = 7}, {.cookie = 8, .retransmits = 1}, {.cookie = 12, .peer = 2}});
  watched.look_as(TcpPeers::Look::same, {{.cookie = 7, .retransmits = 2}, {.cookie = 9, .retransmits = 70}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 2) << "9 is not known";
  EXPECT_EQ(watched.peers().known_sockets().size(), 2U);
  EXPECT_EQ(watched.of("10.0.0.1").closed, 0) << "of two looks, one did not see 8";
  EXPECT_TRUE(watched.peers().awaits_some());
  watched.look_as(TcpPeers::Look::same, {{.cookie = 7, .retransmits = 3}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 3);
  EXPECT_EQ(watched.of("10.0.0.1").closed, 1);
  EXPECT_EQ(watched.of("10.0.0.1").connections, 1);
  EXPECT_FALSE(watched.peers().awaits_some());
}

TEST(TcpPeers, KeepTheSocketsOfOthersWhileOnlyKnownOnesAreSeen) {
  Watched watched({7});
  watched.look({{.cookie = 7}, {.cookie = 12, .peer = 2}});
  for (int look = 0; look < 5; ++look) watched.look_as(TcpPeers::Look::same, {{.cookie = 7}});
  EXPECT_EQ(watched.peers().sockets(), 2U);
  watched.look({{.cookie = 7}});
  EXPECT_EQ(watched.peers().sockets(), 2U) << "a list that changes while it is read may lack one";
  watched.look({{.cookie = 7}});
  EXPECT_EQ(watched.peers().sockets(), 1U);
}

TEST(TcpPeers, TakeAConnectionForSettledAfterALookAtTheSame) {
  Watched watched({7});
  watched.look({});
  watched.look({{.cookie = 7, .retransmits = 1}});
  watched.look_as(TcpPeers::Look::same, {{.cookie = 7, .retransmits = 2}});
  watched.look_extra({{.cookie = 7, .retransmits = 4}});
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 4);
}

TEST(TcpPeers, KnowTheJobsConnectionsWhileTheyAreFew) {
  std::vector<std::uint32_t> owned;
  std::vector<Connection> connections = {{.cookie = 4711}};
  for (std::uint32_t i = 1; i <= TcpPeers::kMostRead; ++i) {
    owned.push_back(i);
    connections.push_back({.cookie = i});
  }
  owned.push_back(1000);
  Watched watched(owned);
  watched.look(connections);
  EXPECT_TRUE(watched.peers().are_few());
  EXPECT_EQ(watched.peers().known_sockets().size(), 512U);
  watched.look_as(TcpPeers::Look::known, connections);
  EXPECT_EQ(watched.peers().known_sockets().size(), 512U);
  connections.push_back({.cookie = 1000});
  watched.look(connections);
  EXPECT_FALSE(watched.peers().are_few());
  EXPECT_EQ(watched.peers().known_sockets().size(), 512U);
}

/// A job with 1,000 connections to 10.0.0.1, which are all as busy, and 200 to 10.0.0.2, of which the first is busier.
class ManyConnections {
 public:
  static constexpr std::uint64_t kFirstOfTwo = 1001;

  ManyConnections() {
    owned_.reserve(1200);
    all_.reserve(1200);
    for (std::uint64_t i = 1; i <= 1200; ++i) {
      owned_.push_back(static_cast<std::uint32_t>(i));
      all_.push_back({.cookie = i, .peer = static_cast<std::uint8_t>(i < kFirstOfTwo ? 1 : 2)});
    }
    watched_.emplace(owned_);
    watched_->look_as(TcpPeers::Look::anew, all_);
  }

  /// Each connection has sent so many segments more, and one of them again; then all are listed.
  void list_after(std::uint32_t to_one, std::uint32_t to_two, std::uint32_t by_the_first) {
    for (Connection& each : all_) {
      each.data_segments += each.cookie == kFirstOfTwo ? by_the_first : each.peer == 1 ? to_one : to_two;
      ++each.retransmits;
    }
    watched_->look_as(TcpPeers::Look::anew, all_);
  }
  /// Each has sent one segment again; those that are known are looked up.
  void look_up() {
    for (Connection& each : all_) ++each.retransmits;
    std::vector<Connection> known;
    known.reserve(watched_->peers().known_sockets().size());
    for (const TcpPeers::Known& one : watched_->peers().known_sockets())
      known.push_back(all_.at(one.id.ends.idiag_cookie[0] - 1));
    watched_->look_as(TcpPeers::Look::known, known);
  }
  [[nodiscard]] const Watched& watched() const { return *watched_; }
  [[nodiscard]] std::size_t known_to(std::uint8_t peer) const {
    std::size_t known = 0;
    for (const TcpPeers::Known& one : watched_->peers().known_sockets())
      known += all_.at(one.id.ends.idiag_cookie[0] - 1).peer == peer ? 1 : 0;
    return known;
  }

 private:
  std::vector<std::uint32_t> owned_;
  std::vector<Connection> all_;
  std::optional<Watched> watched_;
};

TEST(TcpPeers, ReadSomeOfEachPeerAndTheBusiestWhereTheJobHasMany) {
  ManyConnections job;
  job.list_after(9, 1, 20);
  ASSERT_EQ(job.watched().peers().known_sockets().size(), 512U);
  EXPECT_EQ(job.known_to(2), 170U) << "a third of 512: the first row is that of others";
  EXPECT_EQ(job.known_to(1), 342U);
  job.look_up();
  EXPECT_EQ(job.watched().retransmits("10.0.0.2"), 170 + 170);
  EXPECT_EQ(job.watched().of("10.0.0.2").connections, 170);
  const TcpPeers::Row& two = job.watched().peers().rows()[2];
  ASSERT_EQ(two.name, "10.0.0.2");
  EXPECT_EQ(two.chosen.unread, 30);
  EXPECT_EQ(two.chosen.percent(), 86) << "321 and 169 x 17 of 321 and 199 x 17";
  EXPECT_EQ(job.watched().peers().rows()[1].chosen.percent(), 34);
  EXPECT_EQ(job.watched().peers().rows()[0].chosen.percent(), kMissing) << "others has none";
  EXPECT_EQ(job.watched().peers().chosen().connections, 1200);
  EXPECT_EQ(job.watched().peers().chosen().unread, 688);
}

TEST(TcpPeers, CountNothingInALookAtAllOfThoseThatWereNotReadBefore) {
  ManyConnections job;
  for (int listing = 1; listing <= 3; ++listing) job.list_after(1, 1, 1);
  const std::int64_t all = job.watched().retransmits("10.0.0.1") + job.watched().retransmits("10.0.0.2");
  EXPECT_EQ(all, 3 * 512);
  EXPECT_EQ(job.watched().of("10.0.0.1").levels[level("cwnd")], kMissing) << "it would be that of all";
  EXPECT_EQ(job.watched().of("10.0.0.1").connections, 1000);
  EXPECT_EQ(job.watched().of("10.0.0.1").opened, 0);
}

TEST(TcpPeers, FollowNoMoreSocketsThanThereIsRoomFor) {
  TcpPeers peers;
  tcp_info info{};
  const auto look = [&](std::uint32_t retransmits) {
    peers.begin({1, 2}, TcpPeers::Look::anew);
    peers.enter(0);
    for (std::uint32_t i = 1; i <= TcpPeers::kMostSockets + 10; ++i) {
      info.tcpi_total_retrans = i <= 2 ? retransmits : 0;
      peers.see({.cookie = i, .inode = i, .peer = address(1), .info = std::as_bytes(std::span(&info, 1))});
    }
    static_cast<void>(peers.end(true));
  };
  look(10);
  look(17);
  EXPECT_TRUE(peers.overflowed());
  EXPECT_EQ(peers.sockets(), 131'072U);
  ASSERT_EQ(peers.rows().size(), 2U);
  EXPECT_EQ(peers.rows()[1].sums.counters[counter("retransmits")], 14);
  EXPECT_EQ(peers.rows()[1].sums.connections, 2);
}

TEST(TcpPeers, TakeConnectionsForClosedAfterUsualLooksOnly) {
  Watched watched({7});
  watched.look({{.cookie = 7}});
  for (int look = 0; look < 5; ++look) watched.look_extra({});
  watched.look({});
  watched.look_extra({});
  EXPECT_EQ(watched.of("10.0.0.1").closed, 0);
  watched.look({});
  EXPECT_EQ(watched.of("10.0.0.1").closed, 1);
}

TEST(TcpPeers, GiveSlotsToTheBusiestAndSumTheRest) {
  std::vector<std::uint32_t> owned;
  std::vector<Connection> connections;
  for (std::uint8_t i = 1; i <= 40; ++i) {
    owned.push_back(i);
    connections.push_back({.cookie = i, .peer = i, .retransmits = 1, .acked = std::uint64_t{i} << 20});
  }
  Watched watched(owned);
  watched.look({});
  watched.look(connections);
  EXPECT_EQ(watched.peers().rows().size(), 1 + TcpPeers::kSlots);
  EXPECT_EQ(watched.retransmits("others"), 24);
  EXPECT_EQ(watched.retransmits("10.0.0.40"), 1);
  EXPECT_EQ(watched.retransmits("10.0.0.25"), 1);
  EXPECT_THROW(static_cast<void>(watched.of("10.0.0.24")), std::out_of_range);
  for (Connection& each : connections) each.acked += each.peer == 1 ? 1'000'000'000 : 0;
  watched.look(connections);
  EXPECT_THROW(static_cast<void>(watched.of("10.0.0.1")), std::out_of_range) << "a row changed its peer";
}

TEST(TcpPeers, KeepHalfOfTheSlotsForPeersWithTraffic) {
  std::vector<std::uint32_t> owned;
  std::vector<Connection> idle;
  for (std::uint8_t i = 1; i <= 40; ++i) {
    owned.push_back(i);
    idle.push_back({.cookie = i, .peer = i});
  }
  Watched watched(owned);
  watched.look(idle);
  EXPECT_EQ(watched.peers().rows().size(), 1 + TcpPeers::kSlotsForAll);
  idle.back().acked = TcpPeers::kWorthASlot;
  watched.look(idle);
  EXPECT_EQ(watched.of("10.0.0.40").connections, 1);
}

TEST(TcpPeers, WeightTheRoundTripBySegments) {
  Watched watched({7, 8});
  watched.look({});
  watched.look({{.cookie = 7, .rtt_us = 100, .data_segments = 98}, {.cookie = 8, .rtt_us = 1100}});
  EXPECT_EQ(watched.of("10.0.0.1").levels[level("rtt")], 110'000);
  EXPECT_EQ(watched.of("10.0.0.1").levels[level("rtt_least")], 50'000);
  EXPECT_EQ(watched.of("10.0.0.1").levels[level("cwnd")], 20);
  watched.look({});
  EXPECT_EQ(watched.of("10.0.0.1").levels[level("rtt")], kMissing);
}

TEST(TcpPeers, LeaveOutWhatAnOlderKernelDoesNotCount) {
  Watched watched({7});
  watched.look({}, true);
  watched.look({{.cookie = 7, .retransmits = 3}}, true, offsetof(tcp_info, tcpi_dsack_dups));
  EXPECT_EQ(watched.of("10.0.0.1").counters[counter("out_of_order")], kMissing);
  EXPECT_EQ(watched.retransmits("10.0.0.1"), 3);
}

TEST(TcpPeers, WriteAddressesAsPeopleDo) {
  EXPECT_EQ(text_of(address(9)), "10.0.0.9");
  EXPECT_EQ(text_of({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}), "fe80::1");
}

/// One message of the kernel: a header, a body, and the attribute INET_DIAG_INFO.
std::vector<std::byte> message(std::uint16_t type, std::uint16_t flags, const inet_diag_msg& body, std::size_t info) {
  std::vector<std::byte> bytes(NLMSG_HDRLEN + sizeof body + sizeof(nlattr) + info);
  const nlmsghdr header{.nlmsg_len = static_cast<std::uint32_t>(bytes.size()),
                        .nlmsg_type = type,
                        .nlmsg_flags = flags,
                        .nlmsg_seq = 0,
                        .nlmsg_pid = 0};
  const nlattr attribute{static_cast<std::uint16_t>(sizeof(nlattr) + info), INET_DIAG_INFO};
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + NLMSG_HDRLEN, &body, sizeof body);
  std::memcpy(bytes.data() + NLMSG_HDRLEN + sizeof body, &attribute, sizeof attribute);
  return bytes;
}

std::size_t sockets_in(std::span<const std::byte> bytes, std::string& problem, bool& done) {
  std::size_t seen = 0;
  done = read_diagnosis(
      bytes, [&seen](const TcpSocket&) { ++seen; }, problem);
  return seen;
}

TEST(TcpSockets, AreReadFromMessagesThatMayBeCutOffAnywhere) {
  const auto whole = message(SOCK_DIAG_BY_FAMILY, 0, {}, sizeof(tcp_info));
  std::string problem;
  bool done = true;
  EXPECT_EQ(sockets_in(whole, problem, done), 1U);
  EXPECT_FALSE(done);
  EXPECT_EQ(problem, "");
  for (std::size_t size = 1; size < whole.size(); ++size) {
    problem.clear();
    EXPECT_EQ(sockets_in(std::span(whole).first(size), problem, done), 0U) << size;
    EXPECT_EQ(problem, "the kernel's answer was cut off") << size;
  }
}

TEST(TcpSockets, AreSeenWithoutNumbersOnlyWhileTheyBegin) {
  std::string problem;
  bool done = true;
  for (const auto& [state, seen] : {std::pair{1, 0U}, {2, 1U}, {3, 1U}, {8, 0U}}) {
    inet_diag_msg body{};
    body.idiag_state = static_cast<std::uint8_t>(state);
    EXPECT_EQ(sockets_in(message(SOCK_DIAG_BY_FAMILY, 0, body, 0), problem, done), seen) << state;
  }
}

TEST(TcpSockets, WaitForAProcessWhileTheyHaveNoInode) {
  constexpr std::uint8_t kEstablished = 1;
  constexpr std::uint8_t kFinWait = 4;
  EXPECT_TRUE((TcpSocket{.inode = 0, .state = kEstablished}.waits()));
  EXPECT_FALSE((TcpSocket{.inode = 7, .state = kEstablished}.waits()));
  EXPECT_FALSE((TcpSocket{.inode = 0, .state = kFinWait}.waits())) << "its process has closed it";
}

TEST(TcpSockets, AreLookedUpByOneMessageThatMayBeCutOffAnywhere) {
  std::size_t seen = 0;
  const SeeMessage see = [&seen](std::uint16_t, std::span<const std::byte>) { ++seen; };
  const auto whole = message(SOCK_DIAG_BY_FAMILY, 0, {}, sizeof(tcp_info));
  EXPECT_EQ(read_answer(whole, see), 0);
  EXPECT_EQ(seen, 1U);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(read_answer(std::span(whole).first(size), see), EPROTO) << size;
  }
  inet_diag_msg refusal{};
  const int error = -ENOENT;
  std::memcpy(&refusal, &error, sizeof error);
  EXPECT_EQ(read_answer(message(NLMSG_ERROR, 0, refusal, 0), see), ENOENT);
  EXPECT_EQ(seen, 1U);
}

TEST(TcpSockets, AreNotAllThereWhereTheListChangedOrTheKernelRefused) {
  std::string problem;
  bool done = false;
  EXPECT_EQ(sockets_in(message(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP_INTR, {}, 200), problem, done), 1U);
  EXPECT_EQ(problem, "the list changed while it was read");
  inet_diag_msg refusal{};
  const int error = -EPERM;
  std::memcpy(&refusal, &error, sizeof error);
  EXPECT_EQ(sockets_in(message(NLMSG_ERROR, 0, refusal, 0), problem, done), 0U);
  EXPECT_TRUE(done);
  EXPECT_EQ(problem, "Operation not permitted");
  problem.clear();
  EXPECT_EQ(sockets_in(message(NLMSG_DONE, 0, refusal, 0), problem, done), 0U);
  EXPECT_TRUE(done);
  EXPECT_EQ(problem, "Operation not permitted") << "the end of the list says that it is not whole";
  problem.clear();
  EXPECT_EQ(sockets_in(message(NLMSG_DONE, 0, {}, 0), problem, done), 0U);
  EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace reveal::tests::tcp_peers_test
