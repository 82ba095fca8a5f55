// The state of the job's TCP connections by sock_diag, summed by peer: where segments are lost, and which end waits for
// which. The kernel walks its whole table of sockets for it, so a child process does it, and less often if it takes
// long.
// https://man7.org/linux/man-pages/man7/sock_diag.7.html
// https://datatracker.ietf.org/doc/html/rfc4898
#include "core/job/tcp_peers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <limits>
#include <vector>

#include "core/job/namespace_sockets.h"
#include "core/kernel_text/kernel_words.h"
#include "core/probes/namespace_answer.h"
#include "core/sampler/asked_child.h"
#include "core/sampler/pace.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::tcp_peers {
namespace {

constexpr std::string_view kSource = "sock_diag: INET_DIAG_INFO";

constexpr MetricHelp kPeerSegments[] = {
    {"tcp.peer.retransmits",
     "Segments sent again to this peer. All tcp.peer.* cover connections of at least one second, as of the previous "
     "row; \"others\" is the sum of the peers without own rows."},
    {"tcp.peer.out_of_order",
     "Segments from it that came before one it had sent earlier: some were lost on the way "
     "here."},
    {"tcp.peer.duplicates", "Segments that the peer reported as duplicates (DSACK): they were sent again too early."},
    {"tcp.peer.segments_sent", "Segments with data sent to the peer."},
    {"tcp.peer.segments_received", "Segments with data received from the peer."},
};
constexpr MetricHelp kPeerBytes[] = {
    {"tcp.peer.bytes_acked", "Bytes that the peer has acknowledged."},
    {"tcp.peer.bytes_received", "Bytes received from the peer."},
    {"tcp.peer.bytes_retransmitted", "Bytes sent again to the peer."},
};
constexpr MetricHelp kPeerTimes[] = {
    {"tcp.peer.busy_time", "Time with data on the way, over all connections."},
    {"tcp.peer.receiver_limited_time", "Time in which the peer's receive window was the limit."},
    {"tcp.peer.buffer_limited_time", "Time in which the local send buffer was the limit."},
};
constexpr MetricHelp kPeerChurn[] = {
    {"tcp.peer.opened", "Connections that began."},
    {"tcp.peer.closed", "Connections that ended."},
};
constexpr MetricHelp kPeerDelays[] = {
    {"tcp.peer.rtt", "Smoothed round trip, mean of the connections by their segments."},
    {"tcp.peer.rtt_variation", "Mean deviation of the round trip."},
    {"tcp.peer.rtt_least", "Shortest round trip of the last minutes."},
};
constexpr MetricHelp kPeerWindows[] = {
    {"tcp.peer.cwnd", "Congestion windows of all connections, in segments."},
    {"tcp.peer.unacked", "Segments sent and not yet acknowledged."},
    {"tcp.peer.lost", "Segments currently considered lost."},
    {"tcp.peer.connections", "Connections."},
};
constexpr MetricHelp kPeerRates[] = {
    {"tcp.peer.delivery_rate", "Bytes per second that the path to the peer delivered."}};

constexpr Subsystem kNetwork = Subsystem::network;
constexpr FamilyTable kPeerFamilies[] = {
    {"network/peer_segments", Kind::counter, Unit::count, Scope::node, kNetwork, "TCP segments by peer", kSource,
     kPeerSegments},
    {"network/peer_bytes", Kind::counter, Unit::bytes, Scope::node, kNetwork, "TCP bytes by peer", kSource, kPeerBytes},
    {"network/peer_times", Kind::counter, Unit::nanoseconds, Scope::node, kNetwork,
     "What limits TCP connections, by peer", kSource, kPeerTimes},
    {"network/peer_churn", Kind::counter, Unit::count, Scope::node, kNetwork, "TCP connections made and ended, by peer",
     kSource, kPeerChurn},
    {"network/peer_delays", Kind::gauge, Unit::nanoseconds, Scope::node, kNetwork, "Round trips by peer", kSource,
     kPeerDelays},
    {"network/peer_windows", Kind::gauge, Unit::count, Scope::node, kNetwork, "Segments on the way by peer", kSource,
     kPeerWindows},
    {"network/peer_rates", Kind::gauge, Unit::bytes, Scope::node, kNetwork, "Delivery rate by peer", kSource,
     kPeerRates},
};

/// The numbers of a row in the order of the child's answer, and their channels.
constexpr std::string_view kPrefix = "tcp.peer.";
constexpr std::array<std::string_view, 3> kOfSlots = {"opened", "closed", "connections"};
constexpr std::size_t kNumbers = kTcpCounters.size() + kTcpLevels.size() + kOfSlots.size();

constexpr std::string_view name_of_number(std::size_t number) {
  if (number < kTcpCounters.size()) return kTcpCounters[number].name;
  number -= kTcpCounters.size();
  if (number < kTcpLevels.size()) return kTcpLevels[number].field.name;
  return kOfSlots[number - kTcpLevels.size()];
}

struct PeerPlace {
  std::size_t family = 0;
  std::size_t metric = 0;
};
constexpr PeerPlace place_of_number(std::string_view name) {
  for (std::size_t family = 0; family < std::size(kPeerFamilies); ++family) {
    for (std::size_t metric = 0; metric < kPeerFamilies[family].metrics.size(); ++metric) {
      if (kPeerFamilies[family].metrics[metric].name.substr(kPrefix.size()) == name) return {family, metric};
    }
  }
  return {std::size(kPeerFamilies), 0};
}
constexpr auto kPeerPlaces = [] {
  std::array<PeerPlace, kNumbers> places{};
  for (std::size_t i = 0; i < kNumbers; ++i) places[i] = place_of_number(name_of_number(i));
  return places;
}();
static_assert(std::all_of(kPeerPlaces.begin(), kPeerPlaces.end(),
                          [](const PeerPlace& place) { return place.family < std::size(kPeerFamilies); }));

// Runs in the child.
// Request: the lines of append_namespaces(), and "pids 4711 4712 ...", or "extra pids 4711 ..." for an extra look.
// Answer: "ok NANOSECONDS REFUSED UNREADABLE OVERFLOWED VANISHED", and a line for each row: its name and its numbers,
// "-" where one is not known; or "gap NANOSECONDS WHY".
class ConnectionWatch {
 public:
  std::string answer(std::string_view request) {
    const std::int64_t begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    const std::string problem = look(request);
    const std::int64_t cost = read_clock(CLOCK_PROCESS_CPUTIME_ID) - begin;
    if (!problem.empty()) return "gap " + std::to_string(cost) + ' ' + problem;
    std::string text = "ok " + std::to_string(cost) + ' ' + std::to_string(sockets_.refused()) + ' ' +
                       std::to_string(unreadable_) + (peers_.overflowed() ? " 1 " : " 0 ") +
                       std::to_string(sockets_.vanished()) + '\n';
    for (const TcpPeers::Row& row : peers_.rows()) {
      text += row.name;
      for (const std::int64_t counter : row.sums.counters) append(text, counter);
      for (const std::int64_t level : row.sums.levels) append(text, level);
      for (const std::int64_t number : {row.sums.opened, row.sums.closed, row.sums.connections}) append(text, number);
      text += '\n';
    }
    return text;
  }

 private:
  static void append(std::string& text, std::int64_t number) {
    text += number == kMissing ? " -" : ' ' + std::to_string(number);
  }

  std::string look(std::string_view request) {
    const TcpPeers::Look kind = list_processes(sockets_.follow(request));
    // Now and then of all sockets: one may have been handed to the job after it was made.
    const bool query_all = kind == TcpPeers::Look::usual && looks_++ % kQueryAll == 0;
    peers_.begin(query_all ? inodes_of_job() : std::move(inodes_), kind);
    const std::string problem = sockets_.each([this](const NamespaceSockets::Space& space) {
      peers_.enter(space.place);
      return dump_tcp_sockets(space.netlink.get(), buffer_, [this](const TcpSocket& socket) { peers_.see(socket); });
    });
    if (peers_.has_strangers() && !query_all) peers_.introduce(inodes_of_job());
    inodes_ = peers_.end(problem.empty());
    return problem;
  }

  TcpPeers::Look list_processes(std::string_view words) {
    pids_.clear();
    words = words.substr(0, words.find('\n'));
    const bool extra = cut_word(words) == "extra";
    if (extra) static_cast<void>(cut_word(words));  // "pids"
    for (auto pid = cut_word(words); !pid.empty(); pid = cut_word(words)) pids_.emplace_back(pid);
    return extra ? TcpPeers::Look::extra : TcpPeers::Look::usual;
  }

  std::vector<std::uint32_t> inodes_of_job() {
    std::vector<std::uint32_t> inodes;
    unreadable_ = 0;
    for (const std::string& pid : pids_) unreadable_ += add_socket_inodes("/proc/" + pid, inodes) ? 0 : 1;
    std::sort(inodes.begin(), inodes.end());
    return inodes;
  }

  static constexpr std::uint64_t kQueryAll = 32;   // usual looks
  static constexpr std::size_t kAnswer = 1 << 16;  // bytes; the kernel's are half as long

  TcpPeers peers_;
  NamespaceSockets sockets_{NETLINK_SOCK_DIAG};
  std::vector<std::string> pids_;
  std::vector<std::uint32_t> inodes_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kAnswer);
  std::uint64_t looks_ = 0;
  int unreadable_ = 0;
};

std::string query_connections(const std::string& /*root*/, std::string_view request) {
  static ConnectionWatch watch;  // the child's, of which there is one
  return watch.answer(request);
}

/// "" if connections can be read.
std::string why_no_connections() {
  const OpenedNetlink opened = open_netlink(NETLINK_SOCK_DIAG);
  if (!opened.socket) return std::string("netlink is refused (") + std::strerror(opened.error) + ')';
  std::vector<std::byte> buffer(1 << 16);
  const std::string why = dump_tcp_sockets(opened.socket.get(), buffer, [](const TcpSocket&) {});
  return why.empty() ? "" : "the kernel does not report the state of TCP connections (" + why + ')';
}

class TcpPeersProbe final : public Probe {
 public:
  explicit TcpPeersProbe(const ProbeContext& context)
      : context_(context), child_(context, query_connections, {.probe = "tcp_peers"}) {
    for (std::size_t i = 0; i < families_.size(); ++i) {
      families_[i] = &context.faster_family(kPeerFamilies[i]);
      families_[i]->expect(TcpPeers::kSlots / 2 * kPeerFamilies[i].metrics.size());
    }
  }

  void sample() noexcept override {
    for (Family* family : families_) family->begin();
    const std::string_view answer = child_.answer();
    take(answer);
    commit(!answer.empty());
    if (!context_.is_extra()) usual_ns_ = context_.sink.now();
    if (child_.is_due() && is_before_next_usual()) ask();
  }

  [[nodiscard]] std::string caveat() const override {
    std::vector<std::string> sentences;
    readings_.add_gaps("connections", context_, sentences);
    if (unreadable_ > 0) {
      sentences.push_back("connections of " + std::to_string(unreadable_) +
                          " processes cannot be distinguished from those of others: their descriptors cannot be read");
    }
    if (left_out_) {
      sentences.push_back("only the connections of the job's first " + std::to_string(kMostProcesses) +
                          " processes are measured");
    }
    if (overflowed_) {
      sentences.push_back("only " + std::to_string(TcpPeers::kMostSockets) + " connections are measured");
    }
    readings_.add_pauses("connections", child_, context_, sentences);
    return as_caveat(sentences);
  }

 private:
  /// Rows count up to one period before their time, also those of a faster reading: otherwise the first of these would
  /// have the events of two periods.
  void commit(bool answered) {
    const bool early = context_.is_extra() || asked_early_;
    const std::int64_t now = context_.sink.now();
    const std::int64_t time = answered && early ? std::max(now, child_.asked_ns() + context_.period.count()) : now;
    if ((!answered && context_.is_extra()) || (context_.faster.count() > 0 && time <= row_ns_)) return;
    row_ns_ = time;
    for (Family* family : families_) family->commit_at(time);
  }

  /// An extra look is left out if it would put off the next usual one: only usual ones see connections begin and end.
  [[nodiscard]] bool is_before_next_usual() const {
    return !context_.is_extra() || context_.sink.now() + pause_ns_ <= usual_ns_ + context_.period.count();
  }

  static constexpr std::size_t kMostProcesses = 768;  // processes that fit into a request

  struct Place {
    std::string name;
    std::array<std::int32_t, kNumbers> channels{};
  };

  void ask() {
    request_.clear();
    append_namespaces(request_, context_.namespaces->list());
    request_ += context_.is_extra() ? "extra pids" : "pids";
    std::size_t processes = 0;
    left_out_ = false;
    for (const auto& process : context_.job->processes()) {
      if (process->launcher) continue;
      left_out_ = ++processes > kMostProcesses;
      if (left_out_) break;
      request_.append(1, ' ').append(std::to_string(process->pid));  // short: it allocates nothing
    }
    child_.ask(request_);
    if (child_.asked_ns() == context_.sink.now()) asked_early_ = context_.is_extra();
  }

  void take(std::string_view answer) {
    std::string_view line;
    if (!next_line(answer, line)) return;
    const std::string_view verdict = cut_word(line);
    std::int64_t cost = 0;
    if (!parse_counter(cut_word(line), cost)) return;
    const double pause = static_cast<double>(cost) / kShareOfACore;
    child_.pause(pause);
    pause_ns_ = static_cast<std::int64_t>(std::clamp(pause, 0.0, 3600e9));
    readings_.longest_cost_ns = std::max(readings_.longest_cost_ns, cost);
    if (verdict != "ok") {
      child_.note_gap(line);
      return;
    }
    std::int64_t overflowed = 0;
    if (!parse_counter(cut_word(line), readings_.refused) || !parse_counter(cut_word(line), unreadable_) ||
        !parse_counter(cut_word(line), overflowed)) {
      return;
    }
    overflowed_ = overflowed != 0;
    std::int64_t vanished = 0;  // not in recordings of earlier versions
    if (parse_counter(cut_word(line), vanished) && vanished > 0) ++readings_.not_entered;
    while (next_line(answer, line)) take_row(line);
  }

  void take_row(std::string_view line) {
    const std::string_view name = cut_word(line);
    auto place = std::find_if(places_.begin(), places_.end(), [name](const Place& each) { return each.name == name; });
    if (place == places_.end()) {
      if (places_.size() > TcpPeers::kSlots || is_empty(line)) return;
      place = places_.insert(places_.end(), new_place(name));
    }
    for (std::size_t i = 0; i < kNumbers; ++i) {
      std::int64_t value = 0;
      if (!parse_counter(cut_word(line), value)) continue;
      families_[kPeerPlaces[i].family]->set(place->channels[i], value);
    }
  }

  /// No process has used it so far.
  static bool is_empty(std::string_view numbers) {
    for (auto word = cut_word(numbers); !word.empty(); word = cut_word(numbers)) {
      if (word != "0" && word != "-") return false;
    }
    return true;
  }

  Place new_place(std::string_view name) {
    Place place{.name = std::string(name)};
    for (std::size_t i = 0; i < kNumbers; ++i) {
      const auto [family, metric] = kPeerPlaces[i];
      place.channels[i] = families_[family]->add(kPeerFamilies[family].metrics[metric].name, name, "job", 0);
    }
    return place;
  }

  ProbeContext context_;
  AskedChild child_;
  std::array<Family*, std::size(kPeerFamilies)> families_{};
  std::vector<Place> places_;
  std::string request_;        // kept, so that nothing is allocated
  bool asked_early_ = false;   // by a reading between two usual ones
  std::int64_t pause_ns_ = 0;  // after the last answer
  std::int64_t usual_ns_ = 0;  // the last usual reading
  std::int64_t row_ns_ = std::numeric_limits<std::int64_t>::min();
  NamespaceReadings readings_;
  std::int64_t unreadable_ = 0;
  bool left_out_ = false;
  bool overflowed_ = false;
};

std::unique_ptr<Probe> open_tcp_peers(const ProbeContext& context) {
  need_job(context);
  const std::string why = context.fs.fact("@tcp_peers/open", [&context] {
    if (!context.fs.live()) return std::string("a copied tree has no connections");
    const std::string refused = why_no_connections();
    return refused.empty() ? std::string("ok") : refused;
  });
  if (why != "ok") throw Unavailable(why.empty() ? "it was not recorded" : why);
  return std::make_unique<TcpPeersProbe>(context);
}

const RegisteredProbe entry{{.name = "tcp_peers",
                             .help = "Losses, round trips and limits of the job's TCP connections by peer",
                             .period = 1s,
                             .may_block = true,
                             .families = kPeerFamilies,
                             .open = open_tcp_peers,
                             .remedy = "run the command under reveal-run or srun --reveal, on a kernel with "
                                       "CONFIG_INET_DIAG",
                             .privilege = "connections in network namespaces of their own (CAP_SYS_ADMIN)",
                             .faster_while_unusual = 100ms}};

}  // namespace
}  // namespace reveal::probe::tcp_peers
