#include "core/job/tcp_peers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/kernel_text/kernel_words.h"

namespace reveal {
namespace {

constexpr std::uint64_t kUnknownTime = 0xffff'ffff;  // value of rtt_least before there was a round trip

std::int64_t number_at(std::span<const std::byte> info, const TcpInfoField& field) {
  if (info.size() < field.offset + field.bytes) return kMissing;
  std::uint64_t value = 0;
  std::memcpy(&value, info.data() + field.offset, field.bytes);  // little end first
  if (field.bytes == 4 && field.factor != 1 && value == kUnknownTime) return kMissing;
  return scaled(static_cast<std::int64_t>(value & 0x7fff'ffff'ffff'ffffULL), field.factor);
}

constexpr std::size_t counter_named(std::string_view name) {
  for (std::size_t i = 0; i < kTcpCounters.size(); ++i) {
    if (kTcpCounters[i].name == name) return i;
  }
  return kTcpCounters.size();
}
constexpr std::size_t kAcked = counter_named("bytes_acked");
constexpr std::size_t kReceived = counter_named("bytes_received");
constexpr std::size_t kSentSegments = counter_named("segments_sent");
constexpr std::size_t kReceivedSegments = counter_named("segments_received");
constexpr std::size_t kRoundTrip = 0;
constexpr std::int64_t kWeightOfSegment = 16;  // an idle connection weighs 1
static_assert(kTcpLevels[kRoundTrip].field.name == "rtt");

/// Adds two counters; the sum is missing where one of them is.
std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  return a == kMissing || b == kMissing ? kMissing : wrapping_sum(a, b);
}

/// Counters of four bytes wrap at 2^32; an increase by half of that or more counts as a fall.
std::int64_t increase(const TcpInfoField& field, std::int64_t before, std::int64_t now) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 31;
  if (field.bytes != 4) return now - before;
  const auto more = static_cast<std::int64_t>(static_cast<std::uint32_t>(now) - static_cast<std::uint32_t>(before));
  return more < kHalf ? more : 0;
}
static_assert(std::all_of(kTcpCounters.begin(), kTcpCounters.end(),
                          [](const TcpInfoField& field) { return field.bytes == 8 || field.factor == 1; }));

std::int64_t known(std::int64_t value) {
  return value == kMissing ? 0 : value;
}

std::int64_t least_of(std::int64_t a, std::int64_t b) {
  if (a == kMissing || b == kMissing) return a == kMissing ? b : a;
  return std::min(a, b);
}

}  // namespace

void TcpPeers::Sums::add(const Sums& more) noexcept {
  for (std::size_t i = 0; i < counters.size(); ++i) counters[i] = sum_of(counters[i], more.counters[i]);
  opened += more.opened;
  closed += more.closed;
  if (more.connections == 0) return;
  const bool first = connections == 0;
  connections += more.connections;
  weight += more.weight;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    weighted[i] = first ? more.weighted[i] : weighted[i] + more.weighted[i];
    switch (kTcpLevels[i].how) {
      case Merged::sum:
        levels[i] = first ? more.levels[i] : sum_of(levels[i], more.levels[i]);
        break;
      case Merged::least:
        levels[i] = first ? more.levels[i] : least_of(levels[i], more.levels[i]);
        break;
      case Merged::mean:
        levels[i] = weight > 0 ? weighted[i] / weight : kMissing;
        break;
    }
  }
}

void TcpPeers::Chosen::add(const Chosen& more) noexcept {
  connections += more.connections;
  unread += more.unread;
  weight += more.weight;
  read_weight += more.read_weight;
}

std::int64_t TcpPeers::Chosen::percent() const noexcept {
  if (weight <= 0) return kMissing;
  const std::int64_t part = std::llround(100.0 * static_cast<double>(read_weight) / static_cast<double>(weight));
  return read_weight > 0 ? std::max<std::int64_t>(part, 1) : 0;
}

TcpPeers::Seen TcpPeers::read(std::span<const std::byte> info) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  Seen seen;
  for (std::size_t i = 0; i < kTcpCounters.size(); ++i) seen.counters[i] = number_at(info, kTcpCounters[i]);
  for (std::size_t i = 0; i < kTcpLevels.size(); ++i) seen.levels[i] = number_at(info, kTcpLevels[i].field);
  return seen;
}

void TcpPeers::begin(std::vector<std::uint32_t> inodes, Look look) {
  ++looks_;
  look_ = look;
  if (ends_some()) ++usual_looks_;
  if (sees_all()) candidates_.clear();
  if (look_ == Look::same) {
    for (auto& [key, socket] : sockets_) {
      if (!socket.last) ++socket.usual_look;  // nobody looks for those of others
    }
  }
  inodes_ = std::move(inodes);
  strangers_.clear();
  entered_.clear();
  for (Peer& peer : peers_) peer.now = {};
}

void TcpPeers::enter(std::uint64_t place) {
  entered_.push_back(place);
}

void TcpPeers::see(const TcpSocket& socket_seen) {
  const Key key{entered_.back(), socket_seen.cookie};
  auto found = sockets_.find(key);
  if (found == sockets_.end()) {
    if (!sees_all()) return;
    // Connections of other programs leave room for the job's own.
    const auto is_ours = [&] { return std::binary_search(inodes_.begin(), inodes_.end(), socket_seen.inode); };
    if (sockets_.size() >= kMostSockets && (sockets_.size() >= 2 * kMostSockets || !is_ours())) {
      overflowed_ = true;
      return;
    }
    found = sockets_.emplace(key, Socket()).first;
    found->second.born = std::find(watched_.begin(), watched_.end(), key.place) != watched_.end();
  }
  Socket& socket = found->second;
  if (socket.look == looks_) return;  // a list that changes while it is read may have one twice
  socket.look = looks_;
  socket.usual_look = usual_looks_;
  if (socket.last) {
    if (look_ == Look::same) socket.chosen_look = usual_looks_;
    socket.settled = socket.settled || look_ != Look::extra;
    const Seen again = read(socket_seen.info);
    remember(socket, {key.place, socket_seen.id}, again);
    take(socket, again);
    return;
  }
  if (!sees_all()) return;
  // Most sockets of a busy node are not the job's: nothing but their inode is read.
  const std::uint32_t inode = socket_seen.inode;
  const bool is_of_job = inode != 0 && std::binary_search(inodes_.begin(), inodes_.end(), inode);
  if (!is_of_job && (inode == 0 || socket.asked_about == inode)) return;
  if (!is_of_job && look_ == Look::anew) {
    socket.asked_about = inode;
    return;
  }
  const Seen seen = read(socket_seen.info);
  if (is_of_job) {
    own(socket, socket_seen.peer, seen);
    remember(socket, {key.place, socket_seen.id}, seen);
  } else {
    strangers_.push_back({key, inode, socket_seen.peer, socket_seen.id, seen});
  }
}

void TcpPeers::introduce(std::vector<std::uint32_t> inodes) {
  inodes_ = std::move(inodes);
  for (const Stranger& stranger : strangers_) {
    Socket& socket = sockets_.find(stranger.key)->second;
    socket.asked_about = stranger.inode;
    if (!std::binary_search(inodes_.begin(), inodes_.end(), stranger.inode)) continue;
    own(socket, stranger.peer, stranger.seen);
    remember(socket, {stranger.key.place, stranger.id}, stranger.seen);
  }
  strangers_.clear();
}

void TcpPeers::remember(Socket& socket, const Known& identity, const Seen& seen) {
  if (!sees_all()) return;
  const auto segments =
      static_cast<std::uint32_t>(known(seen.counters[kSentSegments]) + known(seen.counters[kReceivedSegments]));
  candidates_.push_back({&socket, identity, segments - std::exchange(socket.segments, segments)});
}

void TcpPeers::own(Socket& socket, const IpAddress& address, const Seen& seen) {
  // The counters of a socket before its first look, or before it belonged to the job, are not part of this recording.
  const bool counts_from_birth = socket.born && look_ != Look::anew;
  socket.last = std::make_unique<Counters>(counts_from_birth ? Counters{} : seen.counters);
  socket.peer = peer_at(address);
  peers_[socket.peer].now.opened += socket.born ? 1 : 0;
  take(socket, seen);
}

void TcpPeers::take(Socket& socket, const Seen& seen) {
  Sums one{.levels = seen.levels, .connections = 1};
  const bool counts = socket.settled || look_ != Look::extra;
  const bool was_unread = look_ == Look::anew && socket.chosen_look + 1 != usual_looks_;
  Counters& last = *socket.last;
  for (std::size_t i = 0; i < seen.counters.size(); ++i) {
    if (seen.counters[i] == kMissing) {
      one.counters[i] = kMissing;
    } else if (was_unread) {
      last[i] = seen.counters[i];
    } else if (const std::int64_t more = increase(kTcpCounters[i], last[i], seen.counters[i]); more > 0 && counts) {
      one.counters[i] = more;
      last[i] = seen.counters[i];
    }
  }
  // An idle connection has the round trip of its last segment, long ago; a new one has none.
  if (known(seen.levels[kRoundTrip]) > 0) {
    one.weight = 1 + known(one.counters[kSentSegments]) + known(one.counters[kReceivedSegments]);
    for (std::size_t i = 0; i < seen.levels.size(); ++i) one.weighted[i] = one.weight * known(seen.levels[i]);
  }
  peers_[socket.peer].now.add(one);
}

std::uint32_t TcpPeers::peer_at(const IpAddress& address) {
  if (const auto found = by_address_.find(address); found != by_address_.end()) return found->second;
  if (peers_.size() >= kMostPeers) return kOthers;
  const auto number = static_cast<std::uint32_t>(peers_.size());
  peers_.emplace_back().address = address;
  by_address_.emplace(address, number);
  return number;
}

std::vector<std::uint32_t> TcpPeers::end(bool whole) {
  if (whole && ends_some()) {
    close_unseen();
    watched_ = entered_;
  }
  give_slots();
  sum_rows();
  if (sees_all()) choose_known();
  // The levels are those of all connections, and those of the next rows of the ones that are read.
  if (look_ == Look::anew && !are_few()) {
    for (Row& row : rows_) row.sums.levels.fill(kMissing);
  }
  return std::move(inodes_);
}

void TcpPeers::sum_rows() {
  for (Row& row : rows_) {
    row.sums.connections = row.sums.weight = 0;
    row.sums.levels.fill(kMissing);
    row.chosen = {};
  }
  for (const Peer& peer : peers_) {
    rows_[peer.row].sums.add(peer.now);
    rows_[peer.row].chosen.add(peer.chosen);
  }
}

/// Each row gets the same number of its busiest connections, and the rest are the busiest of all.
void TcpPeers::choose_known() {
  const auto row_of = [this](const Candidate& one) { return peers_[one.socket->peer].row; };
  const auto is_busier = [](const Candidate& a, const Candidate& b) { return a.segments > b.segments; };
  if (candidates_.size() > kMostRead) {
    std::stable_sort(candidates_.begin(), candidates_.end(), is_busier);
    const std::size_t each = kMostRead / rows_.size();
    std::vector<std::size_t> of_row(rows_.size());
    std::stable_partition(candidates_.begin(), candidates_.end(),
                          [&](const Candidate& one) { return of_row[row_of(one)]++ < each; });
  }
  known_.clear();
  chosen_ = {};
  for (Peer& peer : peers_) peer.chosen = {};
  for (const Candidate& one : candidates_) {
    const bool is_read = known_.size() < kMostRead;
    const std::int64_t weight = 1 + kWeightOfSegment * one.segments;
    peers_[one.socket->peer].chosen.add({1, is_read ? 0 : 1, weight, is_read ? weight : 0});
    if (!is_read) continue;
    known_.push_back(one.known);
    one.socket->chosen_look = usual_looks_;
  }
  for (const Peer& peer : peers_) chosen_.add(peer.chosen);
  if (candidates_.size() > kMostRead) std::vector<Candidate>().swap(candidates_);  // they may be many megabytes
}

void TcpPeers::close_unseen() {
  awaited_ = 0;
  std::erase_if(sockets_, [this](const auto& entry) {
    const Socket& socket = entry.second;
    const std::uint32_t missed = usual_looks_ - socket.usual_look;
    awaited_ += socket.last && missed > 0 && missed < kPatience ? 1 : 0;
    if (missed < kPatience) return false;
    if (socket.last) ++peers_[socket.peer].now.closed;
    return true;
  });
}

/// The busiest first; a peer keeps its slot.
void TcpPeers::give_slots() {
  std::vector<std::uint32_t> waiting;
  for (std::uint32_t i = 1; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    peer.moved += known(peer.now.counters[kAcked]) + known(peer.now.counters[kReceived]);
    if (peer.row == kOthers && peer.now.connections > 0) waiting.push_back(i);
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return peers_[a].moved > peers_[b].moved; });
  for (const std::uint32_t each : waiting) {
    const std::size_t taken = rows_.size() - 1;
    if (taken >= kSlots || (taken >= kSlotsForAll && peers_[each].moved < kWorthASlot)) return;
    peers_[each].row = static_cast<std::uint32_t>(rows_.size());
    rows_.push_back({.name = text_of(peers_[each].address), .sums = {}});
  }
}

}  // namespace reveal
