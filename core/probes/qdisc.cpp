// Packets that wait in, and are dropped from, the queue behind each interface, by rtnetlink: a sender that is faster
// than its own link, or shaped, drops here. TCP slows down for it without a retransmission, so no other counter has it.
// Read by a child process: the kernel answers under the lock of its network configuration, which the reset of a card
// holds for seconds.
// https://man7.org/linux/man-pages/man7/rtnetlink.7.html
// https://man7.org/linux/man-pages/man8/tc.8.html
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/kernel_text/queue_list.h"
#include "core/sampler/asked_child.h"
#include "core/sampler/instances.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::qdisc {
namespace {

constexpr MetricHelp kQdiscCounts[] = {
    {"net.qdisc_drops",
     "Packets dropped from the queue of the interface before they were sent; like all metrics of this probe, of the "
     "previous row."},
    {"net.qdisc_overlimits", "Times the queue was over its limit or its rate."},
    {"net.qdisc_requeues", "Packets put back because the driver's queue was full."},
};
constexpr MetricHelp kQdiscLevels[] = {{"net.qdisc_length", "Packets that wait in the queue."}};
constexpr FamilyTable kQdiscFamilies[] = {
    {"network/qdisc", Kind::counter, Unit::count, Scope::interface, Subsystem::network, "Queueing of each interface",
     "rtnetlink: RTM_GETQDISC", kQdiscCounts},
    {"network/qdisc_length", Kind::gauge, Unit::count, Scope::interface, Subsystem::network,
     "Packets waiting for each interface", "rtnetlink: RTM_GETQDISC", kQdiscLevels},
};
using QdiscColumn = Instances::Column;
constexpr std::array kQdiscColumns = {QdiscColumn{0, 0}, QdiscColumn{0, 1}, QdiscColumn{0, 2}, QdiscColumn{1, 0}};

/// The work of the child: lines "eth0 DROPS OVERLIMITS REQUEUES LENGTH KIND"; nothing where its answer was not
/// complete.
std::string query_queues(const std::string& /*root*/, std::string_view /*request*/) {
  constexpr std::size_t kLongestLine = 96;
  const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  // The kernel answers within the call: a longer wait is useless.
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  struct {
    nlmsghdr header;
    tcmsg body;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETQDISC;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
      ::send(socket.get(), &request, sizeof request, 0) < 0) {
    return "";
  }
  std::string text;
  const auto add = [&text](const InterfaceQueue& queue) {
    std::array<char, IF_NAMESIZE> name{};
    if (::if_indextoname(static_cast<unsigned>(queue.interface), name.data()) == nullptr) return;
    if (text.size() + kLongestLine > WorkerProcess::kLongestAnswer) return;
    text.append(name.data());
    const gnet_stats_queue& counts = queue.counts;
    for (const std::uint32_t number : {counts.drops, counts.overlimits, counts.requeues, counts.qlen}) {
      text.append(1, ' ').append(std::to_string(number));
    }
    text.append(1, ' ').append(queue.kind).append(1, '\n');
  };
  std::vector<std::byte> buffer(1 << 16);
  QueueList list = QueueList::goes_on;
  while (list == QueueList::goes_on) {
    const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || static_cast<std::size_t>(got) > buffer.size()) return "";
    list = read_queues(std::span<const std::byte>(buffer).first(static_cast<std::size_t>(got)), add);
  }
  return list == QueueList::ended ? text : "";
}

class QdiscProbe final : public Probe {
 public:
  explicit QdiscProbe(const ProbeContext& context)
      : child_(context, query_queues, {.probe = "qdisc"}), queues_(context, kQdiscFamilies, kQdiscColumns, 4) {
    constexpr std::chrono::milliseconds kForTheStart{500};
    const std::string_view first = child_.open("queues", kForTheStart);
    if (child_.state() == AskedChild::State::idle && first.find_first_not_of('\n') == std::string_view::npos) {
      throw Unavailable("no interface has a queue, or the kernel does not report it");
    }
  }

  void sample() noexcept override {
    if (!text_.update(child_.answer())) parse();
    queues_.commit();
    child_.ask("queues");
  }

  [[nodiscard]] std::string caveat() const override { return queues_.caveat("interfaces with queues"); }

  [[nodiscard]] Snapshot facts() const override {
    Snapshot all;
    for (const auto& [name, kind] : kinds_) all.emplace_back("net." + name + ".qdisc", kind);
    return all;
  }

 private:
  static constexpr std::size_t kMostInterfaces = 64;
  static constexpr std::size_t kLongestList = 64;

  /// All kinds that an interface had, once each: a shaper may be there for a while only.
  void remember(std::string_view interface, std::string_view kind) {
    if (kind.empty() || kind == "noqueue") return;
    auto found = kinds_.find(interface);
    if (found == kinds_.end()) {
      if (kinds_.size() < kMostInterfaces) kinds_.emplace(interface, kind);
    } else if (!has_word(found->second, kind) && found->second.size() + kind.size() < kLongestList) {
      found->second.append(1, ' ').append(kind);
    }
  }

  void parse() {
    queues_.begin();
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) {
      const std::string_view name = cut_word(line);
      if (name.empty()) continue;
      std::array<std::string_view, kQdiscColumns.size()> words;
      for (std::string_view& word : words) word = cut_word(line);
      if (LastingInstances::Member* member = queues_.see(name)) queues_.store(*member, name, text_, words);
      remember(name, cut_word(line));
    }
    queues_.end();
  }

  AskedChild child_;
  DiffedText text_;
  Instances queues_;
  std::map<std::string, std::string, std::less<>> kinds_;  // by interface
};

std::unique_ptr<Probe> open_qdisc(const ProbeContext& context) {
  if (!context.fs.live() && !context.fs.recorded()) throw Unavailable("a copied tree has no queues");
  return std::make_unique<QdiscProbe>(context);
}

const RegisteredProbe entry{{.name = "qdisc",
                             .help = "Drops and packets waiting in the queue of each interface of this network",
                             .period = 10s,
                             .may_block = true,
                             .families = kQdiscFamilies,
                             .open = open_qdisc,
                             .remedy = "not needed if no interface has a queue (tc qdisc show)"}};

}  // namespace
}  // namespace reveal::probe::qdisc
