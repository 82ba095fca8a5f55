// Speed of network interfaces, and how often their ports were paused: by a switch that could not take more (rx), or by
// this node, which could not (tx). Read by a child process: a card answers from its firmware, under a lock of the
// kernel's network configuration. Only interfaces with a device of their own in the collector's network namespace,
// where the job lives there, too.
// https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/asked_child.h"
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
};

enum Column : std::size_t { speed, rx_frames, tx_frames, rx_time, tx_time, carrier_down };
constexpr std::size_t kColumns = 6;
constexpr std::int64_t kMegabit = 1'000'000;
constexpr std::int64_t kMicrosecond = 1000;

struct Target {
  std::size_t family;
  std::size_t metric;
  std::int64_t scale;
};
constexpr Target kTargets[kColumns] = {{0, 0, kMegabit},     {1, 0, 1}, {1, 1, 1}, {2, 0, kMicrosecond},
                                       {2, 1, kMicrosecond}, {3, 0, 1}};

/// A statistic of a driver; '#' is the number of a priority. All that a driver has are summed.
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
};
/// Statistics of mlx5 that count the same frames again; where flow control is off, only these count.
constexpr Statistic kOtherwise[] = {{"rx_pause_ctrl_phy", rx_frames}, {"tx_pause_ctrl_phy", tx_frames}};

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

/// One request to a driver; the layout is that of <linux/ethtool.h>.
bool ethtool(int socket, const std::string& interface, void* request) {
  ifreq command{};
  if (interface.size() >= sizeof(command.ifr_name)) return false;
  std::memcpy(command.ifr_name, interface.data(), interface.size());
  command.ifr_data = static_cast<char*>(request);
  return ::ioctl(socket, SIOCETHTOOL, &command) == 0;
}

template <typename Head>
std::vector<std::byte> with_head(const Head& head, std::size_t size) {
  std::vector<std::byte> buffer(sizeof(Head) + size);
  std::memcpy(buffer.data(), &head, sizeof(Head));
  return buffer;
}

/// The driver's counters, as add_statistics() reads them.
std::string driver_statistics(int socket, const std::string& interface) {
  constexpr std::uint32_t kMostStatistics = 65536;
  ethtool_sset_info set{};
  set.cmd = ETHTOOL_GSSET_INFO;
  set.sset_mask = 1ULL << ETH_SS_STATS;
  std::vector<std::byte> size = with_head(set, sizeof(std::uint32_t));
  if (!ethtool(socket, interface, size.data())) return "";
  std::uint32_t count = 0;
  std::memcpy(&count, size.data() + sizeof(set), sizeof(count));
  if (count == 0 || count > kMostStatistics) return "";
  // The kernel writes as many as there are, also if there are more of them by now: queues are added at any time.
  const std::size_t room = 2 * std::size_t{count} + 1024;
  ethtool_gstrings strings{};
  strings.cmd = ETHTOOL_GSTRINGS;
  strings.string_set = ETH_SS_STATS;
  strings.len = count;
  std::vector<std::byte> names = with_head(strings, room * ETH_GSTRING_LEN);
  ethtool_stats statistics{};
  statistics.cmd = ETHTOOL_GSTATS;
  statistics.n_stats = count;
  std::vector<std::byte> values = with_head(statistics, room * sizeof(std::uint64_t));
  if (!ethtool(socket, interface, names.data()) || !ethtool(socket, interface, values.data())) return "";
  std::memcpy(&strings, names.data(), sizeof(strings));
  std::memcpy(&statistics, values.data(), sizeof(statistics));
  if (strings.len != statistics.n_stats || strings.len > room) return "";  // changed in between
  std::string text;
  for (std::size_t i = 0; i < strings.len; ++i) {
    const char* name = reinterpret_cast<const char*>(names.data()) + sizeof(strings) + i * ETH_GSTRING_LEN;
    std::uint64_t value = 0;
    std::memcpy(&value, values.data() + sizeof(statistics) + i * sizeof(value), sizeof(value));
    text.append(name, ::strnlen(name, ETH_GSTRING_LEN)).append(": ").append(std::to_string(value)).append(1, '\n');
  }
  return text;
}

/// Packets that the card can hold until the node takes them, and how many it could: "256 1024", or dashes.
std::string receive_ring(int socket, const std::string& interface) {
  ethtool_ringparam rings{};
  rings.cmd = ETHTOOL_GRINGPARAM;
  if (socket < 0 || !ethtool(socket, interface, &rings) || rings.rx_max_pending == 0) return "- -";
  return std::to_string(rings.rx_pending) + ' ' + std::to_string(rings.rx_max_pending);
}

/// The work of the child: a line for each interface: its name, the columns and its ring; a dash is not known. In a
/// copied tree, /ethtool/eth0 may hold the output of `ethtool -S eth0`.
std::string query_links(const std::string& root, std::string_view /*request*/) {
  KernelTree fs(root);
  const int socket = root.empty() ? ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
  std::string text;
  std::size_t interfaces = 0;
  for (const std::string& name : fs.list(kFolder)) {
    const std::string folder = std::string(kFolder) + '/' + name;
    // The speed of a virtual interface is a constant of its driver.
    if (fs.list(folder + "/device").empty() && fs.list(folder + "/bonding").empty()) continue;
    if (++interfaces > kMostInterfaces) break;
    Values values;
    std::int64_t number = 0;
    if (parse_counter(fs.word(folder + "/speed"), number) && number > 0) values[speed] = number;  // -1: not known
    if (parse_counter(fs.word(folder + "/carrier_down_count"), number)) values[carrier_down] = number;
    add_statistics(socket >= 0 ? driver_statistics(socket, name) : fs.text("/ethtool/" + name).value_or(""), values);
    text += name;
    for (const auto& value : values) text += value ? ' ' + std::to_string(*value) : " -";
    text += ' ' + receive_ring(socket, name) + '\n';
  }
  if (socket >= 0) ::close(socket);
  return text;
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
    find_namespace();
    take(child_.answer());
    for (Family* family : families_) family->commit();
    if (ours_ != nullptr) child_.ask("links");
  }

  [[nodiscard]] std::string caveat() const override {
    return ours_ == nullptr ? "the job's network interfaces are in a namespace of its own" : "";
  }

  [[nodiscard]] Snapshot facts() const override {
    Snapshot all;
    for (const auto& [name, ring] : rings_) {
      all.emplace_back("net." + name + ".rx_ring", std::to_string(ring.now));
      all.emplace_back("net." + name + ".rx_ring_most", std::to_string(ring.most));
    }
    return all;
  }

 private:
  using Places = std::array<std::int32_t, kColumns>;
  struct Ring {
    std::int64_t now = 0;
    std::int64_t most = 0;
  };

  /// A process can read a driver only in its own namespace.
  void find_namespace() {
    ours_ = nullptr;
    for (const NetNamespace& space : context_.namespaces->list()) {
      if (space.folder == "/proc/net") ours_ = &space;
    }
  }

  void take(std::string_view answer) {
    std::string_view line;
    while (ours_ != nullptr && next_line(answer, line)) {
      const std::string_view name = cut_word(line);
      if (name.empty()) continue;
      instance_ = ours_->name;
      if (!instance_.empty()) instance_ += '/';
      instance_ += name;
      auto found = places_.find(instance_);
      if (found == places_.end()) {
        if (places_.size() == kMostInterfaces) continue;
        found = places_.emplace(instance_, Places()).first;
        found->second.fill(Family::kNoChannel);
      }
      for (std::size_t i = 0; i < kColumns; ++i) set(i, found->second[i], cut_word(line));
      Ring ring;
      if (parse_counter(cut_word(line), ring.now) && parse_counter(cut_word(line), ring.most)) remember(name, ring);
    }
  }

  /// Keeps the first answer: it is a setting, not a level.
  void remember(std::string_view interface, const Ring& ring) {
    if (rings_.find(interface) == rings_.end()) rings_.emplace(interface, ring);
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
  const NetNamespace* ours_ = nullptr;
  std::array<Family*, std::size(kFamilies)> families_{};
  std::map<std::string, Places> places_;
  std::map<std::string, Ring, std::less<>> rings_;
  std::string instance_;  // kept, so that nothing is allocated
};

std::unique_ptr<Probe> open_network_link(const ProbeContext& context) {
  return std::make_unique<NetworkLinkProbe>(context);
}

const RegisteredProbe entry{{.name = "network_link",
                             .help = "Speed of network interfaces, pause frames, and links that went down",
                             .period = 10s,
                             .may_block = true,
                             .families = kFamilies,
                             .open = open_network_link,
                             .remedy = "containers: share the host's network (--network=host) and mount its /sys"}};

}  // namespace
}  // namespace reveal::probe::network_link
