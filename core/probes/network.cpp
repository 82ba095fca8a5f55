// /proc/net/dev of the job's network namespaces: bytes, packets and errors of each interface.
#include <array>

#include "core/probes/namespace_texts.h"
#include "core/root/key_index.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
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

struct Column {
  std::size_t family;
  std::int32_t metric;
};
constexpr std::array kColumns = {
    Column{0, 0}, Column{1, 0}, Column{2, 0}, Column{2, 1}, Column{2, 2}, Column{2, 3}, Column{1, 3}, Column{1, 2},
    Column{0, 1}, Column{1, 1}, Column{2, 4}, Column{2, 5}, Column{2, 6}, Column{2, 7}, Column{2, 8}, Column{1, 4},
};

class NetworkProbe final : public Probe {
 public:
  explicit NetworkProbe(const ProbeContext& context)
      : texts_(context, "dev", 4096, "network interfaces cannot be read") {
    for (std::size_t i = 0; i < std::size(kFamilies); ++i) families_[i] = &context.family(kFamilies[i]);
  }

  void sample() noexcept override {
    if (!texts_.update()) parse();
    for (Family* family : families_) family->commit();
  }

 private:
  using First = std::array<std::int32_t, std::size(kFamilies)>;
  struct Parsed {
    KeyIndex names;
    std::vector<First> first;
  };
  using Place = NamespaceTexts<Parsed>::Place;

  void parse() {
    for (Family* family : families_) family->begin();
    for (Place& place : texts_.places()) {
      place.names.rewind();
      std::string_view rest = place.text.parse();
      std::string_view line;
      while (next_line(rest, line)) parse_line(place, line);
    }
  }

  void parse_line(Place& place, std::string_view line) {
    const std::size_t colon = line.rfind(':');  // an alias has one in its name
    if (colon == std::string_view::npos) return;
    std::string_view head = line.substr(0, colon);
    const std::string_view name = cut_word(head);
    line.remove_prefix(colon + 1);
    std::array<std::string_view, kColumns.size()> words;
    std::size_t count = 0;
    bool ever_used = false;
    std::int64_t value = 0;
    for (; count < kColumns.size() && parse_counter(words[count] = cut_word(line), value); ++count) {
      ever_used = ever_used || value != 0;
    }
    if (name.empty() || count < 2) return;
    std::size_t number = place.names.find(name);
    if (number == KeyIndex::kUnknown) {
      number = place.names.add(name);
      place.first.push_back({Family::kNoChannel, Family::kNoChannel, Family::kNoChannel});
    }
    First& first = place.first[number];
    if (first[0] == Family::kNoChannel) {
      if (!ever_used) return;  // becomes a channel with its first packet
      const std::string instance = (place.instance.empty() ? "" : place.instance + '/') + std::string(name);
      for (std::size_t i = 0; i < families_.size(); ++i) {
        first[i] = static_cast<std::int32_t>(families_[i]->channels().size());
        for (const MetricHelp& metric : kFamilies[i].metrics) families_[i]->add(metric.name, instance);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      place.text.set(words[i], *families_[kColumns[i].family], first[kColumns[i].family] + kColumns[i].metric);
    }
  }

  NamespaceTexts<Parsed> texts_;
  std::array<Family*, std::size(kFamilies)> families_{};
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
}  // namespace reveal
