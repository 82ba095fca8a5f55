// /proc/net/dev of the job's network namespaces: bytes, packets and errors of each interface.
// https://docs.kernel.org/networking/statistics.html
#include <array>

#include "core/probes/namespace_texts.h"
#include "core/sampler/instances.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::network {
namespace {

constexpr MetricHelp kBytes[] = {{"net.rx_bytes", "Bytes received."}, {"net.tx_bytes", "Bytes sent."}};
constexpr MetricHelp kPackets[] = {
    {"net.rx_packets", "Packets received."},
    {"net.tx_packets", "Packets sent."},
    {"net.rx_multicast", "Multicast packets received."},
    {"net.rx_compressed", "Compressed packets received."},
    {"net.tx_compressed", "Compressed packets sent."},
};
constexpr MetricHelp kErrors[] = {
    {"net.rx_errors", "Bad packets received."},
    {"net.rx_dropped", "Packets received but dropped."},
    {"net.rx_fifo", "Receive queue overruns."},
    {"net.rx_frame", "Framing errors."},
    {"net.tx_errors", "Packets that could not be sent."},
    {"net.tx_dropped", "Packets dropped before sending."},
    {"net.tx_fifo", "Send queue underruns."},
    {"net.tx_collisions", "Collisions."},
    {"net.tx_carrier", "Carrier losses."},
};

constexpr FamilyTable kFamilies[] = {
    {"network/bytes", Kind::counter, Unit::bytes, Scope::interface, Subsystem::network, "Bytes of each interface",
     "/proc/PID/net/dev", kBytes},
    {"network/packets", Kind::counter, Unit::count, Scope::interface, Subsystem::network, "Packets of each interface",
     "/proc/PID/net/dev", kPackets},
    {"network/errors", Kind::event, Unit::count, Scope::interface, Subsystem::network,
     "Errors and drops of each interface", "/proc/PID/net/dev", kErrors},
};

using Column = Instances::Column;
constexpr std::array kColumns = {
    Column{0, 0}, Column{1, 0}, Column{2, 0}, Column{2, 1}, Column{2, 2}, Column{2, 3}, Column{1, 3}, Column{1, 2},
    Column{0, 1}, Column{1, 1}, Column{2, 4}, Column{2, 5}, Column{2, 6}, Column{2, 7}, Column{2, 8}, Column{1, 4},
};
constexpr std::size_t kExpectedLater = 8;

class NetworkProbe final : public Probe {
 public:
  explicit NetworkProbe(const ProbeContext& context)
      : texts_(context, "dev", 4096, "network interfaces cannot be read"),
        interfaces_(context, kFamilies, kColumns, kExpectedLater),
        has_fabric_(!context.fs.list("/sys/class/infiniband").empty()) {}

  void sample() noexcept override {
    if (!texts_.update()) parse();
    interfaces_.commit();
  }

  [[nodiscard]] std::string caveat() const override {
    const std::string came = interfaces_.caveat("network interfaces");
    if (!has_fabric_) return came;
    return "traffic of InfiniBand and Omni-Path adapters is not included" + (came.empty() ? "" : "; " + came);
  }

 private:
  struct Parsed {};
  using Place = NamespaceTexts<Parsed>::Place;

  void parse() {
    interfaces_.begin();
    for (Place& place : texts_.places()) {
      std::string_view rest = place.text.parse();
      std::string_view line;
      while (next_line(rest, line)) parse_line(place, line);
    }
    interfaces_.end();
  }

  void parse_line(Place& place, std::string_view line) {
    const std::size_t colon = line.rfind(':');  // an alias has one in its name
    if (colon == std::string_view::npos) return;
    std::string_view head = line.substr(0, colon);
    const std::string_view name = cut_word(head);
    line.remove_prefix(colon + 1);
    std::array<std::string_view, kColumns.size()> words;
    std::size_t count = 0;
    std::int64_t value = 0;
    while (count < kColumns.size() && parse_counter(words[count] = cut_word(line), value)) ++count;
    if (name.empty() || count < 2) return;
    instance_ = place.instance;
    if (!instance_.empty()) instance_ += '/';
    instance_ += name;
    LastingInstances::Member* member = interfaces_.see(instance_);
    if (member == nullptr) return;
    member->awaited = !place.instance.empty();  // a namespace of the job's own begins after the first look
    interfaces_.store(*member, instance_, place.text, std::span(words).first(count));
  }

  NamespaceTexts<Parsed> texts_;
  Instances interfaces_;
  bool has_fabric_;
  std::string instance_;  // kept, so that nothing is allocated
};

std::unique_ptr<Probe> open_network(const ProbeContext& context) {
  return std::make_unique<NetworkProbe>(context);
}

const RegisteredProbe entry{{.name = "network",
                             .help = "Bytes, packets, errors and drops of each interface the job can use",
                             .families = kFamilies,
                             .open = open_network,
                             .remedy = "mount /proc without hiding net/ (containers: not masked)"}};

}  // namespace
}  // namespace reveal::probe::network
