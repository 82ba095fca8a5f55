// Packets that wait in, and are dropped from, the queue behind each interface, by rtnetlink: a sender that is faster
// than its own link, or shaped, drops here. TCP slows down for it without a retransmission, so no other counter has it.
// Read in each network namespace of the job by a child process: the kernel answers under the lock of its network
// configuration, which the reset of a card holds for seconds.
// https://man7.org/linux/man-pages/man7/rtnetlink.7.html
// https://man7.org/linux/man-pages/man8/tc.8.html
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <ctime>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/kernel_text/queue_list.h"
#include "core/probes/namespace_answer.h"
#include "core/sampler/asked_child.h"
#include "core/sampler/instances.h"
#include "hdf5schema/basics/clocks.h"
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

struct QueueRequest {
  nlmsghdr header;
  tcmsg body;
};

/// "" if it has gone since.
std::string interface_numbered(int control, int number) {
  ifreq request{};
  request.ifr_ifindex = number;
  return ::ioctl(control, SIOCGIFNAME, &request) == 0 ? std::string(request.ifr_name) : "";
}

// Runs in the child. Request: the lines of append_namespaces(). Answer: first_line_of(), and a line for each interface:
// "eth0 DROPS OVERLIMITS REQUEUES LENGTH KIND"; none of a namespace whose list was not complete.
class QueueWatch {
 public:
  std::string answer(std::string_view request) {
    const std::int64_t begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    static_cast<void>(sockets_.follow(request));
    lines_.clear();
    omitted_ = 0;
    const std::string why = sockets_.each([this](const NamespaceSockets::Space& space) { return list(space); });
    return first_line_of(read_clock(CLOCK_PROCESS_CPUTIME_ID) - begin, sockets_, omitted_, why) + lines_;
  }

 private:
  /// A user can make any number of interfaces in a namespace of his own.
  static constexpr std::size_t kMostPieces = 64;  // a piece has 32 KiB
  static constexpr std::size_t kFirstLine = 256;

  std::string list(const NamespaceSockets::Space& space) {
    QueueRequest request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = RTM_GETQDISC;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    const std::size_t before = lines_.size();
    std::string why = receive_dump(
        space.netlink.get(), std::as_bytes(std::span(&request, 1)), buffer_,
        [&](std::uint16_t, std::span<const std::byte> body) {
          if (const auto queue = root_queue(body)) add(space, *queue);
        },
        kMostPieces);
    if (!why.empty()) lines_.resize(before);
    return why;
  }

  void add(const NamespaceSockets::Space& space, const InterfaceQueue& queue) {
    const std::string interface = interface_numbered(space.control.get(), queue.interface);
    if (interface.empty()) return;
    std::string line = name_in(space, interface);
    for (const std::uint32_t number :
         {queue.counts.drops, queue.counts.overlimits, queue.counts.requeues, queue.counts.qlen}) {
      line.append(1, ' ').append(std::to_string(number));
    }
    line.append(1, ' ').append(queue.kind).append(1, '\n');
    if (lines_.size() + line.size() + kFirstLine > WorkerProcess::kLongestAnswer) {
      ++omitted_;
    } else {
      lines_ += line;
    }
  }

  NamespaceSockets sockets_{NETLINK_ROUTE};
  std::vector<std::byte> buffer_ = std::vector<std::byte>(1 << 16);
  std::string lines_;
  std::size_t omitted_ = 0;
};

std::string query_queues(const std::string& /*root*/, std::string_view request) {
  static QueueWatch watch;  // the child's, of which there is one
  return watch.answer(request);
}

class QdiscProbe final : public Probe {
 public:
  explicit QdiscProbe(const ProbeContext& context)
      : context_(context),
        child_(context, query_queues, {.probe = "qdisc"}),
        queues_(context, kQdiscFamilies, kQdiscColumns, 4) {
    constexpr std::chrono::milliseconds kForTheStart{500};
    append_namespaces(request_, context.namespaces->list());
    const std::string_view first = answered_.take(child_.open(request_, kForTheStart), child_);
    const bool silent = first.find_first_not_of('\n') == std::string_view::npos;
    if (child_.state() == AskedChild::State::idle && silent && answered_.refused() == 0) {
      throw Unavailable("no interface has a queue, or the kernel does not report it");
    }
  }

  void sample() noexcept override {
    const std::string_view lines = answered_.take(child_.answer(), child_);
    const bool repeats = text_.update(lines);
    if (lines.empty()) {
      static_cast<void>(text_.parse());  // what follows is not compared with the text before
      queues_.skip();
    } else if (!repeats) {
      parse();
    }
    queues_.commit();
    if (child_.is_due()) ask();
  }

  [[nodiscard]] std::string caveat() const override {
    const std::string shared = queues_.caveat("interfaces with queues");
    const std::string missing = answered_.caveat("queues", child_, context_);
    return shared + (shared.empty() || missing.empty() ? "" : "; ") + missing;
  }

  [[nodiscard]] Snapshot facts() const override {
    Snapshot all;
    for (const auto& [name, kind] : kinds_) all.emplace_back("net." + name + ".qdisc", kind);
    return all;
  }

 private:
  static constexpr std::size_t kMostInterfaces = 64;
  static constexpr std::size_t kLongestList = 64;

  void ask() {
    request_.clear();
    append_namespaces(request_, context_.namespaces->list());
    child_.ask(request_);
  }

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
      if (LastingInstances::Member* member = queues_.see(name)) {
        member->awaited = name.find('/') != std::string_view::npos;  // a namespace of the job's own begins later
        queues_.store(*member, name, text_, words);
      }
      remember(name, cut_word(line));
    }
    queues_.end();
  }

  ProbeContext context_;
  AskedChild child_;
  NamespaceAnswer answered_;
  std::string request_;  // kept, so that nothing is allocated
  DiffedText text_;
  Instances queues_;
  std::map<std::string, std::string, std::less<>> kinds_;  // by interface
};

std::unique_ptr<Probe> open_qdisc(const ProbeContext& context) {
  if (!context.fs.live() && !context.fs.recorded()) throw Unavailable("a copied tree has no queues");
  return std::make_unique<QdiscProbe>(context);
}

const RegisteredProbe entry{{.name = "qdisc",
                             .help = "Drops and packets waiting in the queue of each interface the job can use",
                             .period = 1s,
                             .may_block = true,
                             .families = kQdiscFamilies,
                             .open = open_qdisc,
                             .remedy = "not needed if no interface has a queue (tc qdisc show)",
                             .privilege = "queues in network namespaces of their own (CAP_SYS_ADMIN)"}};

}  // namespace
}  // namespace reveal::probe::qdisc
