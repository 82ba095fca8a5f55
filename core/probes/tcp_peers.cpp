// The state of the job's TCP connections by sock_diag, summed by peer: where segments are lost, and which end waits for
// which. The kernel walks its whole table of sockets for it, so a child process does it, and less often if it takes
// long; in between, and while no connection begins, a few connections of the job are looked up one by one.
// https://man7.org/linux/man-pages/man7/sock_diag.7.html
// https://datatracker.ietf.org/doc/html/rfc4898
#include "core/job/tcp_peers.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <utility>
#include <vector>

#include "core/job/namespace_sockets.h"
#include "core/job/tcp_openings.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/kernel_text/kernel_words.h"
#include "core/probes/listing_pace.h"
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
     "row; \"others\" is the sum of the peers without own rows. tcp.peer.coverage has the share that is counted."},
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
constexpr MetricHelp kPeerCoverage[] = {
    {"tcp.peer.coverage",
     "Share of the segments, by the last list of all connections, that is on the connections that tcp.peer.* of this "
     "peer counts. Absent where all are counted."}};
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
    {"network/peer_coverage", Kind::gauge, Unit::percent, Scope::node, kNetwork,
     "Share of the TCP segments that is counted, by peer", kSource, kPeerCoverage},
};

/// The numbers of a row in the order of the child's answer, and their channels.
constexpr std::string_view kPrefix = "tcp.peer.";
constexpr std::array<std::string_view, 4> kOfSlots = {"opened", "closed", "connections", "coverage"};
constexpr std::size_t kNumbers = kTcpCounters.size() + kTcpLevels.size() + kOfSlots.size();
constexpr std::size_t kCoverage = kNumbers - 1;  // only in answers in which some connections are not counted

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
// Request: the lines of append_namespaces(), and "pids 4711 4712 ...", or "extra" for an extra look.
// Answer: "ok NANOSECONDS REFUSED UNREADABLE OVERFLOWED VANISHED LISTING EVERY UNREAD CONNECTIONS PERCENT", and a line
// for each row: its name and its numbers, "-" where one is not known; or "gap NANOSECONDS WHY". LISTING and EVERY: the
// processor time of a listing of all sockets and the time between two of them, if the child paces them itself; they are
// not part of NANOSECONDS then. UNREAD of all CONNECTIONS are not counted; the others have PERCENT of the segments.
// Otherwise zeros.
class ConnectionWatch {
 public:
  std::string answer(std::string_view request) {
    const std::int64_t begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    listed_ = false;
    chosen_ = pace_.is_apart() ? peers_.chosen() : TcpPeers::Chosen();
    const std::string problem = look(request);
    std::int64_t cost = read_clock(CLOCK_PROCESS_CPUTIME_ID) - begin;
    if (listed_) pace_.note_listing(read_clock(CLOCK_MONOTONIC), cost);
    if (listed_ && pace_.is_apart()) cost = 0;
    if (!problem.empty()) return "gap " + std::to_string(cost) + ' ' + problem;
    std::string text = "ok " + std::to_string(cost) + ' ' + std::to_string(sockets_.refused()) + ' ' +
                       std::to_string(unreadable_) + (peers_.overflowed() ? " 1 " : " 0 ") +
                       std::to_string(sockets_.vanished()) + ' ' +
                       std::to_string(pace_.is_apart() ? pace_.cost_ns() : 0) + ' ' + std::to_string(pace_.every_ns()) +
                       ' ' + std::to_string(chosen_.unread) + ' ' + std::to_string(chosen_.connections) + ' ' +
                       std::to_string(chosen_.unread > 0 ? chosen_.percent() : 0) + '\n';
    for (const TcpPeers::Row& row : peers_.rows()) append(text, row);
    return text;
  }

 private:
  static void append(std::string& text, std::int64_t number) {
    text += number == kMissing ? " -" : ' ' + std::to_string(number);
  }

  void append(std::string& text, const TcpPeers::Row& row) const {
    text += row.name;
    for (const std::int64_t counter : row.sums.counters) append(text, counter);
    for (const std::int64_t level : row.sums.levels) append(text, level);
    // The number of the others is that of the list.
    const std::int64_t unread = listed_ || chosen_.unread == 0 ? 0 : row.chosen.unread;
    for (const std::int64_t number : {row.sums.opened, row.sums.closed, row.sums.connections + unread})
      append(text, number);
    if (chosen_.unread > 0) append(text, row.chosen.percent());
    text += '\n';
  }

  std::string look(std::string_view request) {
    std::string_view words = sockets_.follow(request);
    words = words.substr(0, words.find('\n'));
    const bool extra = cut_word(words) == "extra";
    if (!extra) read_processes(words);
    if (extra) return look(TcpPeers::Look::extra, pace_.is_apart() || knows_few());
    listed_ = !pace_.is_apart() || pace_.is_due(read_clock(CLOCK_MONOTONIC));
    return listed_ ? list() : look(TcpPeers::Look::known, true);
  }

  std::string look(TcpPeers::Look how, bool one_by_one) {
    peers_.begin(std::move(inodes_), how);
    std::string problem = one_by_one ? look_up() : dump();
    inodes_ = peers_.end(problem.empty());
    if (!problem.empty()) looks_alike_ = 0;
    return problem;
  }

  /// Now and then, the descriptors of all processes are read before: a socket may have been handed to the job after it
  /// was made.
  std::string list() {
    const bool anew = pace_.is_apart() || listings_ == 0;
    const bool query_all = anew || listings_ == 1 || listings_ % kQueryAll == 0;
    ++listings_;
    const std::vector<Openings> before = std::exchange(openings_, openings_now());
    const bool none_began = !openings_.empty() && openings_ == before && !one_may_join_;
    looks_alike_ = none_began && !peers_.awaits_some() ? looks_alike_ + 1 : 0;
    if (looks_alike_ >= kAlike && !query_all && knows_few() && peers_.sockets() <= kMostAged) {
      // A listing would not find more. The walk through the kernel's table takes .3 ms, even if that is empty.
      return look(TcpPeers::Look::same, true);
    }
    peers_.begin(query_all ? inodes_of_job() : std::move(inodes_), anew ? TcpPeers::Look::anew : TcpPeers::Look::usual);
    one_may_join_ = false;
    std::string problem = dump();
    if (peers_.has_strangers() && !query_all) peers_.introduce(inodes_of_job());
    inodes_ = peers_.end(problem.empty());
    if (!problem.empty()) looks_alike_ = 0;
    return problem;
  }

  [[nodiscard]] bool knows_few() const { return peers_.are_few() && peers_.known_sockets().size() <= kFewKnown; }

  struct Openings {
    std::size_t place;
    std::string inode;
    TcpOpenings counts;
    bool operator==(const Openings&) const = default;
  };

  /// The numbers of each namespace that can be entered; nothing if one has none, or if the child paces its listings.
  std::vector<Openings> openings_now() {
    std::vector<Openings> all;
    bool whole = !pace_.is_apart();
    const std::string problem = sockets_.each([&](const NamespaceSockets::Space& space) {
      const auto counts = tcp_openings(kernel_.text(space.folder + "/snmp").value_or(""));
      whole = whole && counts.has_value();
      all.push_back({space.place, space.inode, counts.value_or(TcpOpenings{})});
      return std::string();
    });
    if (!whole || !problem.empty()) all.clear();
    return all;
  }

  void see(const TcpSocket& socket) {
    one_may_join_ = one_may_join_ || socket.begins() || socket.waits();
    if (!socket.begins()) peers_.see(socket);
  }

  std::string dump() {
    return sockets_.each([this](const NamespaceSockets::Space& space) {
      peers_.enter(space.place);
      return dump_tcp_sockets(space.netlink.get(), buffer_, see_);
    });
  }

  std::string look_up() {
    return sockets_.each([this](const NamespaceSockets::Space& space) {
      peers_.enter(space.place);
      std::string problem;
      for (const TcpPeers::Known& known : peers_.known_sockets()) {
        if (known.place != space.place) continue;
        problem = look_up_tcp_socket(space.netlink.get(), buffer_, known.id, see_);
        if (!problem.empty()) break;
      }
      return problem;
    });
  }

  void read_processes(std::string_view words) {
    pids_.clear();
    for (auto pid = cut_word(words); !pid.empty(); pid = cut_word(words)) pids_.emplace_back(pid);
  }

  std::vector<std::uint32_t> inodes_of_job() {
    std::vector<std::uint32_t> inodes;
    unreadable_ = 0;
    for (const std::string& pid : pids_) unreadable_ += add_socket_inodes("/proc/" + pid, inodes) ? 0 : 1;
    std::sort(inodes.begin(), inodes.end());
    return inodes;
  }

  static constexpr std::uint64_t kQueryAll = 32;   // listings
  static constexpr std::size_t kAnswer = 1 << 16;  // bytes; the kernel's are half as long
  static constexpr int kAlike = 2;                 // looks until a listing, too, that changed meanwhile has lacked none
  static constexpr std::size_t kFewKnown = 32;     // to look them up takes less time than to list all
  static constexpr std::size_t kMostAged = 4096;   // sockets of others that Look::same passes over

  TcpPeers peers_;
  TcpPeers::Chosen chosen_;  // whose numbers this answer has; nothing if it has those of all
  const SeeSocket see_ = [this](const TcpSocket& socket) { see(socket); };
  NamespaceSockets sockets_{NETLINK_SOCK_DIAG};
  KernelTree kernel_;
  std::vector<Openings> openings_;  // before the last look at all
  int looks_alike_ = 0;             // since a connection began or ended
  bool one_may_join_ = false;       // a connection that the last listing saw, and no opening tells when
  ListingPace pace_;
  std::vector<std::string> pids_;
  std::vector<std::uint32_t> inodes_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kAnswer);
  std::uint64_t listings_ = 0;
  int unreadable_ = 0;
  bool listed_ = false;  // all sockets, in this look
};

std::string query_connections(const std::string& /*root*/, std::string_view request) {
  static ConnectionWatch watch;  // the child's, of which there is one
  return watch.answer(request);
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
    if (listing_ns_ > 0) {
      sentences.push_back("new connections were found only every " + std::to_string(listing_every_ns_ / kSecond) +
                          " s at times, because listing all sockets of the node takes " +
                          std::to_string(listing_ns_ / 1'000'000) + " ms: their segments before that are not counted");
    }
    if (unread_ > 0) {
      sentences.push_back("only " + std::to_string(connections_ - unread_) + " of the job's " +
                          std::to_string(connections_) +
                          " connections were counted at times: some of each peer and "
                          "the busiest others, with " +
                          std::to_string(read_percent_) + " % of the segments");
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
  /// A child that was started again chooses the peers with own rows anew.
  static constexpr std::size_t kMostPlaces = 1 + (1 + AskedChild::kMostRestarts) * TcpPeers::kSlots;

  struct Place {
    std::string name;
    std::array<std::int32_t, kNumbers> channels{};
  };

  void ask() {
    request_.clear();
    append_namespaces(request_, context_.namespaces->list());
    if (context_.is_extra()) {
      request_ += "extra";
    } else {
      append_processes();
    }
    child_.ask(request_);
    if (child_.asked_ns() == context_.sink.now()) asked_early_ = context_.is_extra();
  }

  void append_processes() {
    request_ += "pids";
    std::size_t processes = 0;
    left_out_ = false;
    for (const auto& process : context_.job->processes()) {
      if (process->launcher) continue;
      left_out_ = ++processes > kMostProcesses;
      if (left_out_) break;
      request_.append(1, ' ').append(std::to_string(process->pid));  // short: it allocates nothing
    }
  }

  void take(std::string_view answer) {
    std::string_view line;
    if (!next_line(answer, line)) return;
    const std::string_view verdict = cut_word(line);
    std::int64_t cost = 0;
    if (!parse_counter(cut_word(line), cost)) return;
    readings_.longest_cost_ns = std::max(readings_.longest_cost_ns, cost);
    const bool whole = verdict == "ok" && take_limits(line);
    const double share = listing_paced_ ? ListingPace::kShareOfLookUps : kShareOfACore;
    pause_ns_ = child_.pause(static_cast<double>(cost) / share);
    if (verdict != "ok") child_.note_gap(line);
    while (whole && next_line(answer, line)) take_row(line);
  }

  /// The rest of the first line of an answer; false if it is cut off.
  bool take_limits(std::string_view line) {
    std::int64_t overflowed = 0;
    if (!parse_counter(cut_word(line), readings_.refused) || !parse_counter(cut_word(line), unreadable_) ||
        !parse_counter(cut_word(line), overflowed)) {
      return false;
    }
    overflowed_ = overflowed != 0;
    std::int64_t vanished = 0;  // this and the next ones are not in recordings of earlier versions
    std::int64_t listing = 0;
    std::int64_t every = 0;
    if (parse_counter(cut_word(line), vanished) && vanished > 0) ++readings_.not_entered;
    listing_paced_ = parse_counter(cut_word(line), listing) && parse_counter(cut_word(line), every) && every > 0;
    if (listing_paced_) {
      listing_ns_ = std::max(listing_ns_, listing);
      listing_every_ns_ = std::max(listing_every_ns_, every);
    }
    take_share(line);
    return true;
  }

  /// Keeps the smallest share.
  void take_share(std::string_view line) {
    std::int64_t unread = 0;
    std::int64_t connections = 0;
    std::int64_t percent = 0;
    const bool known = parse_counter(cut_word(line), unread) && parse_counter(cut_word(line), connections) &&
                       parse_counter(cut_word(line), percent);
    if (!known || unread <= 0 || unread >= connections || (unread_ > 0 && percent >= read_percent_)) return;
    unread_ = unread;
    connections_ = connections;
    read_percent_ = percent;
  }

  void take_row(std::string_view line) {
    const std::string_view name = cut_word(line);
    auto place = std::find_if(places_.begin(), places_.end(), [name](const Place& each) { return each.name == name; });
    if (place == places_.end()) {
      if (places_.size() == kMostPlaces || is_empty(line)) return;
      place = places_.insert(places_.end(), new_place(name));
    }
    for (std::size_t i = 0; i < kNumbers; ++i) {
      std::int64_t value = 0;
      if (!parse_counter(cut_word(line), value)) continue;
      if (i == kCoverage && place->channels[i] == Family::kNoChannel) place->channels[i] = new_channel(i, name);
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
    for (std::size_t i = 0; i < kNumbers; ++i)
      place.channels[i] = i == kCoverage ? Family::kNoChannel : new_channel(i, name);
    return place;
  }

  std::int32_t new_channel(std::size_t number, std::string_view name) {
    const auto [family, metric] = kPeerPlaces[number];
    return families_[family]->add(kPeerFamilies[family].metrics[metric].name, name, "job", 0);
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
  std::int64_t listing_ns_ = 0;        // longest listing of all sockets that the child paces itself
  std::int64_t listing_every_ns_ = 0;  // and the longest time between two of them
  bool listing_paced_ = false;         // in the last answer
  std::int64_t unread_ = 0;            // connections of the job that were not counted
  std::int64_t connections_ = 0;       // all connections of the job then
  std::int64_t read_percent_ = 0;      // share of the segments that was counted then
  bool left_out_ = false;
  bool overflowed_ = false;
};

std::unique_ptr<Probe> open_tcp_peers(const ProbeContext& context) {
  need_job(context);
  const std::string why = context.fs.fact("@tcp_peers/open", [&context] {
    if (!context.fs.live()) return std::string("a copied tree has no connections");
    const std::string refused = why_no_tcp_sockets();
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
