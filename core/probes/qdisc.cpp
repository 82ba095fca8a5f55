// Packets that wait in, and are dropped from, the queue behind each interface, by rtnetlink: a sender that is faster
// than its own link, or shaped, drops here. TCP slows down for it without a retransmission, so no other counter tells.
// https://man7.org/linux/man-pages/man7/rtnetlink.7.html
// https://man7.org/linux/man-pages/man8/tc.8.html
#include <linux/gen_stats.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "core/sampler/instances.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr MetricHelp kQdiscCounts[] = {
    {"net.qdisc_drops", "Packets dropped from the queue of the interface before they were sent."},
    {"net.qdisc_overlimits", "Times the queue was over its limit or its rate."},
    {"net.qdisc_requeues", "Packets put back because the driver had no room."},
};
constexpr MetricHelp kQdiscLevels[] = {{"net.qdisc_length", "Packets that wait in it."}};
constexpr FamilyTable kQdiscFamilies[] = {
    {"network/qdisc", Kind::counter, Unit::count, Scope::interface, Subsystem::network, "Queueing of each interface",
     "rtnetlink: RTM_GETQDISC", kQdiscCounts},
    {"network/qdisc_length", Kind::gauge, Unit::count, Scope::interface, Subsystem::network,
     "Packets waiting for each interface", "rtnetlink: RTM_GETQDISC", kQdiscLevels},
};
using QdiscColumn = Instances::Column;
constexpr std::array kQdiscColumns = {QdiscColumn{0, 0}, QdiscColumn{0, 1}, QdiscColumn{0, 2}, QdiscColumn{1, 0}};

template <typename T>
std::optional<T> part_of(std::span<const char> bytes) {
  T value{};
  if (bytes.size() < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// The attribute of this type in a list of them; empty if there is none.
std::span<const char> attribute_of(std::span<const char> list, std::uint16_t type) {
  while (const auto attribute = part_of<rtattr>(list)) {
    if (attribute->rta_len < sizeof(rtattr) || attribute->rta_len > list.size()) return {};
    if ((attribute->rta_type & NLA_TYPE_MASK) == type)
      return list.subspan(sizeof(rtattr), attribute->rta_len - sizeof(rtattr));
    list = list.subspan(std::min<std::size_t>(list.size(), RTA_ALIGN(attribute->rta_len)));
  }
  return {};
}

/// The state of the queues as lines "eth0 DROPS OVERLIMITS REQUEUES LENGTH".
class QueueDiagnosis {
 public:
  QueueDiagnosis() : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)), buffer_(1 << 16) {}

  /// False if the kernel did not tell all of them.
  bool read(std::string& text) {
    text.clear();
    struct {
      nlmsghdr header;
      tcmsg body;
    } request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = RTM_GETQDISC;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.header.nlmsg_seq = ++sequence_;
    if (!socket_ || ::send(socket_.get(), &request, sizeof request, 0) < 0) return false;
    while (true) {
      const ssize_t got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_TRUNC | MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || static_cast<std::size_t>(got) > buffer_.size()) return false;
      if (const auto whole = take({buffer_.data(), static_cast<std::size_t>(got)}, text)) return *whole;
    }
  }

 private:
  /// Nothing as long as more is to come.
  std::optional<bool> take(std::span<const char> messages, std::string& text) const {
    while (const auto header = part_of<nlmsghdr>(messages)) {
      if (header->nlmsg_len < sizeof(nlmsghdr) || header->nlmsg_len > messages.size()) return false;
      const auto body = messages.subspan(sizeof(nlmsghdr), header->nlmsg_len - sizeof(nlmsghdr));
      if (header->nlmsg_seq == sequence_) {
        if (header->nlmsg_type == NLMSG_DONE) return true;
        if (header->nlmsg_type == NLMSG_ERROR || (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0) return false;
        add_queue(body, text);
      }
      messages = messages.subspan(std::min<std::size_t>(messages.size(), NLMSG_ALIGN(header->nlmsg_len)));
    }
    return std::nullopt;
  }

  static void add_queue(std::span<const char> body, std::string& text) {
    const auto message = part_of<tcmsg>(body);
    // One for each interface: that at its root has the sums of those below it.
    if (!message || message->tcm_parent != TC_H_ROOT) return;
    const auto attributes = body.subspan(std::min<std::size_t>(body.size(), NLMSG_ALIGN(sizeof(tcmsg))));
    const auto queue = part_of<gnet_stats_queue>(attribute_of(attribute_of(attributes, TCA_STATS2), TCA_STATS_QUEUE));
    std::array<char, IF_NAMESIZE> name{};
    if (!queue || ::if_indextoname(static_cast<unsigned>(message->tcm_ifindex), name.data()) == nullptr) return;
    text.append(name.data());
    for (const std::uint32_t number : {queue->drops, queue->overlimits, queue->requeues, queue->qlen}) {
      text.append(1, ' ').append(std::to_string(number));
    }
    text.append(1, '\n');
  }

  Descriptor socket_;
  std::vector<char> buffer_;
  std::uint32_t sequence_ = 0;
};

class QdiscProbe final : public Probe {
 public:
  explicit QdiscProbe(const ProbeContext& context)
      : fs_(context.fs), queues_(context, kQdiscFamilies, kQdiscColumns, 4) {
    if (!fs_.live() && !fs_.recorded()) throw Unavailable("a copied tree has no queues");
    if (next().empty()) throw Unavailable("no interface has a queue, or the kernel does not tell of it");
  }

  void sample() noexcept override {
    if (!text_.update(next())) parse();
    queues_.commit();
  }

  [[nodiscard]] std::string caveat() const override { return queues_.caveat("interfaces with queues"); }

 private:
  std::string_view next() {
    if (fs_.live() && !diagnosis_.read(now_)) now_.clear();
    if (!fs_.live() || fs_.recording()) now_ = fs_.fact("@qdisc", [this] { return now_; });
    return now_;
  }

  void parse() {
    queues_.begin();
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) {
      const std::string_view name = cut_word(line);
      std::array<std::string_view, kQdiscColumns.size()> words;
      for (std::string_view& word : words) word = cut_word(line);
      if (Residents::Member* member = queues_.see(name)) queues_.store(*member, name, text_, words);
    }
    queues_.end();
  }

  KernelTree& fs_;
  QueueDiagnosis diagnosis_;
  std::string now_;  // kept, so that nothing is allocated
  DiffedText text_;
  Instances queues_;
};

std::unique_ptr<Probe> open_qdisc(const ProbeContext& context) {
  return std::make_unique<QdiscProbe>(context);
}

const RegisteredProbe entry{{.name = "qdisc",
                             .help = "Drops and packets waiting in the queue of each interface of this network",
                             .period = 1s,
                             .families = kQdiscFamilies,
                             .open = open_qdisc,
                             .remedy = "nothing is lost where interfaces have no queues (tc qdisc show)"}};

}  // namespace
}  // namespace reveal
