// Speed of network interfaces, packets that the card or its driver dropped on arrival, and how often their ports were
// paused: by a switch that could not take more (rx), or by this node, which could not (tx). Read in each network
// namespace of the job by a child process: a card answers from its firmware, under a lock of the kernel's network
// configuration. Only interfaces with a device of their own.
// https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html
#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/kernel_text/ethtool.h"
#include "core/kernel_text/kernel_words.h"
#include "core/kernel_text/link_list.h"
#include "core/kernel_text/physical_first.h"
#include "core/probes/namespace_answer.h"
#include "core/sampler/asked_child.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::network_link {
namespace {

constexpr std::string_view kFolder = "/sys/class/net";
constexpr std::size_t kMostInterfaces = 32;

constexpr MetricHelp kSpeed[] = {
    {"net.speed", "Bits per second of the link; like all metrics of this probe, read in the previous row."}};
constexpr MetricHelp kFrames[] = {
    {"net.rx_pause", "Pause frames received, of all priorities: requests to stop sending (not requests to resume)."},
    {"net.tx_pause", "Pause frames sent."},
};
constexpr MetricHelp kTime[] = {
    {"net.rx_pause_time", "Time for which sending was paused; with several priorities, the sum over the priorities."},
    {"net.tx_pause_time", "Time for which the other side was asked to pause."},
};
constexpr MetricHelp kDrops[] = {
    {"net.rx_no_buffer",
     "Packets dropped because the node had not given the card a free buffer for them, as the driver counts them; "
     "net.rx_dropped may include them."},
    {"net.rx_overrun",
     "Packets dropped because they did not fit into the card's own memory, as the driver counts them; net.rx_dropped "
     "may include them."},
};
constexpr MetricHelp kCarrier[] = {{"net.carrier_down", "Times the link went down."}};
constexpr FamilyTable kFamilies[] = {
    {"network/speed", Kind::gauge, Unit::count, Scope::interface, Subsystem::network, "Speed of each interface",
     "/sys/class/net/*/speed", kSpeed},
    {"network/pause_frames", Kind::counter, Unit::count, Scope::interface, Subsystem::network,
     "Pause frames of each interface", "ioctl SIOCETHTOOL, ETHTOOL_GSTATS", kFrames},
    {"network/pause_time", Kind::counter, Unit::nanoseconds, Scope::interface, Subsystem::network,
     "Paused time of each interface", "ioctl SIOCETHTOOL, ETHTOOL_GSTATS", kTime},
    {"network/carrier", Kind::event, Unit::count, Scope::interface, Subsystem::network, "Links that went down",
     "/sys/class/net/*/carrier_down_count", kCarrier},
    {"network/card_drops", Kind::event, Unit::count, Scope::interface, Subsystem::network,
     "Packets that each card dropped on arrival", "ioctl SIOCETHTOOL, ETHTOOL_GSTATS", kDrops},
};

enum Column : std::size_t { speed, rx_frames, tx_frames, rx_time, tx_time, carrier_down, no_buffer, overrun };
constexpr std::size_t kColumns = 8;
constexpr std::size_t kColumnsBeforeRing = 6;  // in an answer; earlier versions had no others, and no second ring
constexpr std::int64_t kMegabit = 1'000'000;
constexpr std::int64_t kMicrosecond = 1000;

struct Target {
  std::size_t family;
  std::size_t metric;
  std::int64_t scale;
};
constexpr Target kTargets[kColumns] = {{0, 0, kMegabit},     {1, 0, 1}, {1, 1, 1}, {2, 0, kMicrosecond},
                                       {2, 1, kMicrosecond}, {3, 0, 1}, {4, 0, 1}, {4, 1, 1}};

/// A statistic of a driver; '#' is the number of a priority or of a queue. All that a driver has are summed. The names
/// are those in the tables of strings of the drivers: https://github.com/torvalds/linux/tree/master/drivers/net
struct Statistic {
  std::string_view name;
  Column column;
};
constexpr Statistic kStatistics[] = {
    {"rx_prio#_pause", rx_frames},  // mlx5, of the priorities that have flow control
    {"tx_prio#_pause", tx_frames},
    {"rx_prio#_pause_duration", rx_time},
    {"tx_prio#_pause_duration", tx_time},
    {"rx_global_pause", rx_frames},
    {"tx_global_pause", tx_frames},
    {"rx_global_pause_duration", rx_time},
    {"tx_global_pause_duration", tx_time},
    {"rx_pause_prio_#", rx_frames},  // mlx4
    {"tx_pause_prio_#", tx_frames},
    {"rx_pause_duration_prio_#", rx_time},
    {"tx_pause_duration_prio_#", tx_time},
    {"rx_pause", rx_frames},
    {"tx_pause", tx_frames},
    {"rx_pause_duration", rx_time},
    {"tx_pause_duration", tx_time},
    {"rx_pause_frames", rx_frames},  // bnxt, and others
    {"tx_pause_frames", tx_frames},
    {"rx_pfc_frames", rx_frames},
    {"tx_pfc_frames", tx_frames},
    {"pfc_pri#_rx_duration_us", rx_time},
    {"pfc_pri#_tx_duration_us", tx_time},
    {"rx_flow_control_xoff", rx_frames},  // ixgbe, igb, e1000e
    {"tx_flow_control_xoff", tx_frames},
    {"rx_pb_#_pxoff", rx_frames},
    {"tx_pb_#_pxoff", tx_frames},
    {"port.link_xoff_rx", rx_frames},  // i40e
    {"port.link_xoff_tx", tx_frames},
    {"port.rx_priority_#_xoff", rx_frames},
    {"port.tx_priority_#_xoff", tx_frames},
    {"link_xoff_rx.nic", rx_frames},  // ice
    {"link_xoff_tx.nic", tx_frames},
    {"rx_priority_#_xoff.nic", rx_frames},
    {"tx_priority_#_xoff.nic", tx_frames},
    // rx_no_buffer_count of the Intel drivers is none of these: such a packet may still wait in the card's memory.
    {"rx_out_of_buffer", no_buffer},  // mlx5
    {"rx_discards_phy", overrun},
    {"rx_no_dma_resources", no_buffer},    // ixgbe
    {"rx_queue_#_drops", no_buffer},       // igb; virtio_net until Linux 6.9
    {"rx#_drops", no_buffer},              // virtio_net
    {"rx_total_discard_pkts", no_buffer},  // bnxt
    {"rx_total_ring_discards", no_buffer},
    {"port.rx_dropped", overrun},  // i40e
    {"port.rx_discards", overrun},
    {"rx_dropped.nic", overrun},  // ice
};
/// Statistics that count the same again where a driver has one of those above.
constexpr Statistic kOtherwise[] = {
    {"rx_pause_ctrl_phy", rx_frames},  // mlx5, without flow control
    {"tx_pause_ctrl_phy", tx_frames},
    {"rx_missed_errors", overrun},  // e1000e, igb, ixgbe
    {"rx_drops", no_buffer},        // ena
};

bool fits(std::string_view pattern, std::string_view name) noexcept {
  const std::size_t number = pattern.find('#');
  if (number == std::string_view::npos) return pattern == name;
  const std::string_view before = pattern.substr(0, number);
  const std::string_view after = pattern.substr(number + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return false;
  const std::string_view digits = name.substr(before.size(), name.size() - before.size() - after.size());
  return digits.find_first_not_of("0123456789") == std::string_view::npos;
}

using Values = std::array<std::optional<std::int64_t>, kColumns>;

void add(std::span<const Statistic> table, std::string_view name, std::int64_t value, Values& values) {
  for (const Statistic& known : table) {
    if (fits(known.name, name)) values[known.column] = wrapping_sum(values[known.column].value_or(0), value);
  }
}

/// Text as `ethtool -S` prints it: "     rx_prio3_pause: 12".
void add_statistics(std::string_view text, Values& values) {
  Values otherwise;
  std::string_view line;
  while (next_line(text, line)) {
    const std::size_t colon = line.rfind(':');
    if (colon == std::string_view::npos) continue;
    std::string_view head = line.substr(0, colon);
    line.remove_prefix(colon + 1);
    const std::string_view name = cut_word(head);
    std::int64_t value = 0;
    if (!parse_counter(cut_word(line), value)) continue;
    add(kStatistics, name, value, values);
    add(kOtherwise, name, value, otherwise);
  }
  for (std::size_t i = 0; i < kColumns; ++i) {
    if (!values[i]) values[i] = otherwise[i];
  }
}

/// The line of an interface: its name, the columns and its rings; a dash is not known.
std::string line_of(const std::string& name, const Values& values, const std::optional<CardRings>& rings) {
  std::string line = name;
  const auto add = [&line](std::optional<std::int64_t> value) { line += value ? ' ' + std::to_string(*value) : " -"; };
  const auto add_ring = [&](CardRing CardRings::*which) {
    const bool is_known = rings && ((*rings).*which).most > 0;
    add(is_known ? std::optional<std::int64_t>(((*rings).*which).now) : std::nullopt);
    add(is_known ? std::optional<std::int64_t>(((*rings).*which).most) : std::nullopt);
  };
  for (std::size_t i = 0; i < kColumnsBeforeRing; ++i) add(values[i]);
  add_ring(&CardRings::receive);
  for (std::size_t i = kColumnsBeforeRing; i < kColumns; ++i) add(values[i]);
  add_ring(&CardRings::send);
  return line + '\n';
}

// Runs in the child. Request: the lines of append_namespaces(). Answer: first_line_of(), and a line for each interface.
class LinkWatch {
 public:
  explicit LinkWatch(const std::string& root) : fs_(root) {}

  std::string answer(std::string_view request) {
    const std::int64_t begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    static_cast<void>(sockets_.follow(request));
    lines_.clear();
    interfaces_ = 0;
    const std::string why = sockets_.each([this](const NamespaceSockets::Space& space) { return list(space); });
    sockets_.close_others();
    const std::size_t omitted = interfaces_ - std::min(interfaces_, kMostInterfaces);
    return first_line_of(read_clock(CLOCK_PROCESS_CPUTIME_ID) - begin, sockets_, omitted, why) + lines_;
  }

  /// In a copied tree, /ethtool/eth0 may hold the output of `ethtool -S eth0`.
  std::string lines_of_tree() {
    lines_.clear();
    interfaces_ = 0;
    for (const std::string& name : devices()) {
      Values values = values_of_sysfs(name);
      add_statistics(fs_.text("/ethtool/" + name).value_or(""), values);
      if (++interfaces_ <= kMostInterfaces) lines_ += line_of(name, values, std::nullopt);
    }
    return lines_;
  }

 private:
  std::string list(const NamespaceSockets::Space& space) {
    if (space.folder != "/proc/net") return list_other(space);
    for (const std::string& name : devices()) add(space, name, values_of_sysfs(name));
    return "";
  }

  /// The speed of a virtual interface is a constant of its driver.
  std::vector<std::string> devices() {
    std::vector<std::string> names = fs_.list(kFolder);
    std::erase_if(names, [this](const std::string& name) {
      const std::string folder = std::string(kFolder) + '/' + name;
      return fs_.list(folder + "/device").empty() && fs_.list(folder + "/bonding").empty();
    });
    return names.size() > kMostInterfaces ? physical_first(fs_, std::move(names), kFolder, "/device/physfn") : names;
  }

  Values values_of_sysfs(const std::string& name) {
    const std::string folder = std::string(kFolder) + '/' + name;
    Values values;
    std::int64_t number = 0;
    if (parse_counter(fs_.word(folder + "/speed"), number) && number > 0) values[speed] = number;  // -1: not known
    if (parse_counter(fs_.word(folder + "/carrier_down_count"), number)) values[carrier_down] = number;
    return values;
  }

  /// /sys shows the interfaces of another namespace only where it was mounted in it.
  std::string list_other(const NamespaceSockets::Space& space) {
    const LinkRequest request = request_for_links();
    std::vector<NetworkLink> links;
    std::string why = receive_dump(
        space.netlink.get(), std::as_bytes(std::span(&request, 1)), buffer_,
        [&links](std::uint16_t, std::span<const std::byte> body) {
          auto link = link_of_message(body);
          if (link && is_device(*link)) links.push_back(*std::move(link));
        },
        kMostPieces);
    if (!why.empty()) return why;
    for (const NetworkLink& link : links) {
      if (interfaces_ >= kMostInterfaces) {
        ++interfaces_;
        continue;
      }
      Values values;
      values[speed] = link_speed(space.control.get(), link.name);
      if (link.carrier_down) values[carrier_down] = *link.carrier_down;
      add(space, link.name, values);
    }
    return "";
  }

  static bool is_device(const NetworkLink& link) {
    constexpr std::string_view kKinds[] = {"", "bond", "ipoib"};
    return !link.loopback && std::find(std::begin(kKinds), std::end(kKinds), link.kind) != std::end(kKinds);
  }

  void add(const NamespaceSockets::Space& space, const std::string& name, Values values) {
    if (++interfaces_ > kMostInterfaces) return;
    const int socket = space.control.get();
    add_statistics(driver_statistics(socket, name), values);
    lines_ += line_of(name_in(space, name), values, card_rings(socket, name));
  }

  /// A user can make any number of interfaces in a namespace of his own.
  static constexpr std::size_t kMostPieces = 64;  // a piece has 32 KiB

  KernelTree fs_;
  NamespaceSockets sockets_{NETLINK_ROUTE};
  std::vector<std::byte> buffer_ = std::vector<std::byte>(1 << 16);
  std::string lines_;
  std::size_t interfaces_ = 0;
};

std::string query_links(const std::string& root, std::string_view request) {
  static LinkWatch watch(root.empty() ? "/" : root);  // the child's, of which there is one
  return root.empty() ? watch.answer(request) : watch.lines_of_tree();
}

class NetworkLinkProbe final : public Probe {
 public:
  explicit NetworkLinkProbe(const ProbeContext& context)
      : context_(context), child_(context, query_links, {.probe = "network_link"}) {
    const std::vector<std::string> names = context.fs.list(kFolder);
    const auto has_device = [&](const std::string& name) {
      return !context.fs.list(std::string(kFolder) + '/' + name + "/device").empty();
    };
    const auto devices = static_cast<std::size_t>(std::count_if(names.begin(), names.end(), has_device));
    if (devices == 0) throw Unavailable("no network interface here belongs to a hardware device");
    child_.need();
    for (std::size_t i = 0; i < families_.size(); ++i) {
      families_[i] = &context.family(kFamilies[i]);
      families_[i]->expect((devices + 1) * kFamilies[i].metrics.size());
    }
  }

  void sample() noexcept override {
    for (Family* family : families_) family->begin();
    take(answered_.take(child_.answer(), child_));
    for (Family* family : families_) family->commit();
    if (child_.is_due() && is_readable()) ask();
  }

  [[nodiscard]] std::string caveat() const override {
    if (!is_readable()) return "the job's network interfaces are in a namespace of its own";
    if (places_.empty() && !is_in_own_namespace()) {
      return "the job's network interfaces are in a namespace of its own, in which no card was found";
    }
    return answered_.caveat("cards", child_, context_);
  }

  [[nodiscard]] Snapshot facts() const override {
    Snapshot all;
    add_facts(receive_rings_, ".rx_ring", all);
    add_facts(send_rings_, ".tx_ring", all);
    return all;
  }

 private:
  using Places = std::array<std::int32_t, kColumns>;
  struct Ring {
    std::int64_t now = 0;
    std::int64_t most = 0;
  };
  using Rings = std::map<std::string, Ring>;

  static void add_facts(const Rings& rings, const std::string& key, Snapshot& facts) {
    for (const auto& [name, ring] : rings) {
      facts.emplace_back("net." + name + key, std::to_string(ring.now));
      facts.emplace_back("net." + name + key + "_most", std::to_string(ring.most));
    }
  }

  /// A copied tree has the interfaces of the namespace in which it was copied.
  [[nodiscard]] bool is_readable() const {
    return context_.fs.live() || context_.fs.recorded() || is_in_own_namespace();
  }
  /// Some process of the job is in the namespace of this one.
  [[nodiscard]] bool is_in_own_namespace() const {
    const std::vector<NetNamespace>& spaces = context_.namespaces->list();
    return std::any_of(spaces.begin(), spaces.end(), [](const auto& space) { return space.folder == "/proc/net"; });
  }

  void ask() {
    request_.clear();
    append_namespaces(request_, context_.namespaces->list());
    child_.ask(request_);
  }

  void take(std::string_view lines) {
    std::string_view line;
    while (next_line(lines, line)) {
      instance_ = cut_word(line);
      if (instance_.empty()) continue;
      auto found = places_.find(instance_);
      if (found == places_.end()) {
        if (places_.size() == kMostInterfaces) continue;
        found = places_.emplace(instance_, Places()).first;
        found->second.fill(Family::kNoChannel);
      }
      for (std::size_t i = 0; i < kColumnsBeforeRing; ++i) set(i, found->second[i], cut_word(line));
      take_ring(line, receive_rings_);
      for (std::size_t i = kColumnsBeforeRing; i < kColumns; ++i) set(i, found->second[i], cut_word(line));
      take_ring(line, send_rings_);
    }
  }

  /// Keeps the first answer: it is a setting, not a level.
  void take_ring(std::string_view& line, Rings& rings) {
    Ring ring;
    const bool is_known = parse_counter(cut_word(line), ring.now);
    if (parse_counter(cut_word(line), ring.most) && is_known) rings.try_emplace(instance_, ring);
  }

  void set(std::size_t column, std::int32_t& channel, std::string_view word) {
    std::int64_t value = 0;
    if (!parse_counter(word, value)) return;
    const Target& target = kTargets[column];
    if (channel == Family::kNoChannel) {
      channel = families_[target.family]->add(kFamilies[target.family].metrics[target.metric].name, instance_);
    }
    families_[target.family]->set(channel, scaled(value, target.scale));
  }

  ProbeContext context_;
  AskedChild child_;
  NamespaceAnswer answered_;
  std::string request_;  // kept, so that nothing is allocated
  std::array<Family*, std::size(kFamilies)> families_{};
  std::map<std::string, Places> places_;
  Rings receive_rings_;
  Rings send_rings_;
  std::string instance_;  // likewise
};

std::unique_ptr<Probe> open_network_link(const ProbeContext& context) {
  return std::make_unique<NetworkLinkProbe>(context);
}

const RegisteredProbe entry{{.name = "network_link",
                             .help = "Speed of network interfaces, packets that cards dropped, pause frames, and links "
                                     "that went down",
                             .period = 10s,
                             .may_block = true,
                             .families = kFamilies,
                             .open = open_network_link,
                             .remedy = "containers: share the host's network (--network=host) and mount its /sys",
                             .privilege = "cards in network namespaces of their own (CAP_SYS_ADMIN)"}};

}  // namespace
}  // namespace reveal::probe::network_link
