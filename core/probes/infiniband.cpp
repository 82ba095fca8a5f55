// Counters of InfiniBand and RoCE ports: of the link (counters/) and of the transport (hw_counters/). They belong to
// the adapter: the traffic of the whole node is in them. Read by a child process, because most reads are a command to
// the adapter's firmware, which takes up to a millisecond, and a minute where the firmware is ill.
// https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/kernel_text/kernel_words.h"
#include "core/kernel_text/physical_first.h"
#include "core/sampler/asked_child.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::infiniband {
namespace {

constexpr std::string_view kFolder = "/sys/class/infiniband";
constexpr std::size_t kMostPorts = 32;
constexpr int kMostKept = 768;                          // files; the usual limit is 1024
constexpr std::chrono::nanoseconds kErrorPeriod = 10s;  // each of them is a command of its own

constexpr MetricHelp kBytes[] = {
    {"ib.rcv_bytes",
     "Bytes the port received for the whole node; like all metrics of this probe, of the previous row."},
    {"ib.xmit_bytes", "Bytes the port sent."},
};
constexpr MetricHelp kPackets[] = {
    {"ib.rcv_packets", "Packets the port received."},
    {"ib.xmit_packets", "Packets the port sent."},
};
constexpr MetricHelp kWaiting[] = {
    {"ib.xmit_wait", "Ticks in which the port had data but could not send; the vendor defines the length of a tick."}};
constexpr MetricHelp kErrors[] = {
    {"ib.link_downed", "Times the link went down."},
    {"ib.link_error_recovery", "Times the link recovered from an error by training again."},
    {"ib.symbol_error", "Errors of the physical link."},
    {"ib.rcv_errors", "Packets received with an error."},
    {"ib.rcv_remote_physical_errors",
     "Packets received that were already marked bad, because of a fault of another link."},
    {"ib.rcv_switch_relay_errors", "Packets received that could not be forwarded."},
    {"ib.rcv_constraint_errors", "Packets received and refused, for example because of their partition."},
    {"ib.xmit_discards", "Packets dropped before sending: the port was down, or they waited too long."},
    {"ib.xmit_constraint_errors", "Packets refused before sending."},
    {"ib.local_link_integrity_errors", "Bursts of physical errors beyond the port's limit."},
    {"ib.excessive_buffer_overrun_errors", "Number of repeated overruns of the receive buffers."},
    {"ib.vl15_dropped", "Management packets dropped for lack of a buffer."},
};
constexpr MetricHelp kTransport[] = {
    {"rdma.<counter>",
     "Counters with the driver's names: rdma.packet_seq_err, rdma.out_of_sequence, rdma.np_cnp_sent, ..."}};
constexpr MetricHelp kTransportBytes[] = {
    {"rdma.<counter>", "Bytes, if the driver counts them: rdma.tx_bytes, rdma.rx_bytes, ..."}};

enum FamilyNumber : std::size_t { bytes, packets, waiting, errors, transport, transport_bytes };
constexpr FamilyTable kFamilies[] = {
    {"network/ib_bytes", Kind::counter, Unit::bytes, Scope::device, Subsystem::network, "Bytes of each RDMA port",
     "/sys/class/infiniband/*/ports/*/counters", kBytes},
    {"network/ib_packets", Kind::counter, Unit::count, Scope::device, Subsystem::network, "Packets of each RDMA port",
     "/sys/class/infiniband/*/ports/*/counters", kPackets},
    {"network/ib_waiting", Kind::counter, Unit::count, Scope::device, Subsystem::network,
     "Waiting for credits of each RDMA port", "/sys/class/infiniband/*/ports/*/counters", kWaiting},
    {"network/ib_errors", Kind::event, Unit::count, Scope::device, Subsystem::network, "Errors of each RDMA port",
     "/sys/class/infiniband/*/ports/*/counters", kErrors},
    {"network/rdma", Kind::counter, Unit::count, Scope::device, Subsystem::network,
     "Events of the RDMA transport of each port", "/sys/class/infiniband/*/ports/*/hw_counters", kTransport},
    {"network/rdma_bytes", Kind::counter, Unit::bytes, Scope::device, Subsystem::network,
     "Bytes of the RDMA transport of each port", "/sys/class/infiniband/*/ports/*/hw_counters", kTransportBytes},
};

// Counters of the link stop at the highest number of their field; those of newer adapters have 64 bits, and go on.
constexpr std::int64_t kMostOf4 = 0xf;
constexpr std::int64_t kMostOf8 = 0xff;
constexpr std::int64_t kMostOf16 = 0xffff;
constexpr std::int64_t kMostOf32 = 0xffff'ffff;
constexpr std::int64_t kWord = 4;  // the specification counts data in words

struct PortCounter {
  std::string_view file;
  FamilyNumber family;
  std::int32_t metric;
  std::int64_t most;
  std::int64_t scale = 1;
};
constexpr std::array kTraffic = {
    PortCounter{"port_rcv_data", bytes, 0, kMostOf32, kWord}, PortCounter{"port_xmit_data", bytes, 1, kMostOf32, kWord},
    PortCounter{"port_rcv_packets", packets, 0, kMostOf32},   PortCounter{"port_xmit_packets", packets, 1, kMostOf32},
    PortCounter{"port_xmit_wait", waiting, 0, kMostOf32},
};
constexpr std::array kErrorCounters = {
    PortCounter{"link_downed", errors, 0, kMostOf8},
    PortCounter{"link_error_recovery", errors, 1, kMostOf8},
    PortCounter{"symbol_error", errors, 2, kMostOf16},
    PortCounter{"port_rcv_errors", errors, 3, kMostOf16},
    PortCounter{"port_rcv_remote_physical_errors", errors, 4, kMostOf16},
    PortCounter{"port_rcv_switch_relay_errors", errors, 5, kMostOf16},
    PortCounter{"port_rcv_constraint_errors", errors, 6, kMostOf8},
    PortCounter{"port_xmit_discards", errors, 7, kMostOf16},
    PortCounter{"port_xmit_constraint_errors", errors, 8, kMostOf8},
    PortCounter{"local_link_integrity_errors", errors, 9, kMostOf4},
    PortCounter{"excessive_buffer_overrun_errors", errors, 10, kMostOf4},
    PortCounter{"VL15_dropped", errors, 11, kMostOf16},
};

/// Beside counters, hw_counters/ has a setting and, of some drivers, levels.
bool counts(std::string_view name) {
  return name != "lifespan" && !name.starts_with("active_") && !name.starts_with("watermark_");
}

bool counts_bytes(std::string_view name) {
  return name.ends_with("_bytes") || name.ends_with("Octets");
}

// The answer of the child: lines that begin with one of these and the port, "mlx5_0:1". A number that could not be read
// is a dash.
constexpr std::string_view kTrafficLine = "traffic";      // in the order of kTraffic
constexpr std::string_view kErrorLine = "errors";         // in the order of kErrorCounters
constexpr std::string_view kNamesLine = "names";          // names of the transport's counters, once
constexpr std::string_view kTransportLine = "transport";  // in the order of these names
constexpr std::string_view kAskTraffic = "traffic";
constexpr std::string_view kAskAll = "traffic errors";

/// The counters of one port; in the child.
struct PortNames {
  std::vector<std::string> link, transport;

  PortNames(KernelTree& fs, const std::string& folder)
      : link(fs.list(folder + "/counters")), transport(fs.list(folder + "/hw_counters")) {
    std::erase_if(transport, [](const std::string& name) { return !counts(name); });
  }
  bool operator==(const PortNames&) const = default;
};

/// Its open files.
class PortFiles {
 public:
  PortFiles(KernelTree& fs, std::string name, const std::string& folder, PortNames names)
      : name_(std::move(name)), names_(std::move(names)) {
    open(fs, folder, kTraffic, traffic_);
    open(fs, folder, kErrorCounters, errors_);
    for (const std::string& counter : names_.transport) {
      transport_.push_back(fs.open(folder + "/hw_counters/" + counter, 64));
    }
  }

  [[nodiscard]] const PortNames& names() const noexcept { return names_; }

  /// False where nothing could be read: the device has gone, or is another one.
  [[nodiscard]] bool answer(bool with_errors, std::string& text) {
    bool any = append(kTrafficLine, traffic_, text);
    if (with_errors) any = append(kErrorLine, errors_, text) || any;
    if (transport_.empty()) return any;
    announced_ = announced_ || announce(text);
    return announced_ ? append(kTransportLine, transport_, text) || any : true;
  }

 private:
  void open(KernelTree& fs, const std::string& folder, std::span<const PortCounter> counters,
            std::vector<KernelFile>& files) const {
    for (const PortCounter& counter : counters) {
      const bool exists = std::find(names_.link.begin(), names_.link.end(), counter.file) != names_.link.end();
      files.push_back(exists ? fs.open(folder + "/counters/" + std::string(counter.file), 64) : KernelFile());
    }
  }

  bool announce(std::string& text) const {
    std::string line = std::string(kNamesLine) + ' ' + name_;
    for (const std::string& counter : names_.transport) line += ' ' + counter;
    return add_line(text, line);
  }

  /// A part of a line would be a wrong number.
  static bool add_line(std::string& text, const std::string& line) {
    if (text.size() + line.size() + 1 > WorkerProcess::kLongestAnswer) return false;
    text.append(line).append(1, '\n');
    return true;
  }

  bool append(std::string_view kind, std::vector<KernelFile>& files, std::string& text) const {
    std::string line = std::string(kind) + ' ' + name_;
    bool any = false;
    for (KernelFile& file : files) {
      std::int64_t value = 0;
      const bool known = file && parse_number_file(file.read(), value);  // else "N/A (no PMA)", EINVAL, ENODEV
      line += known ? ' ' + std::to_string(value) : " -";
      any = any || known;
    }
    if (any) add_line(text, line);
    return any;
  }

  std::string name_;
  PortNames names_;
  bool announced_ = false;
  std::vector<KernelFile> traffic_, errors_, transport_;
};

/// The work of the child, which keeps the files open between requests.
std::string query_ports(const std::string& root, std::string_view request) {
  static KernelTree fs(root);
  static std::map<std::string, PortFiles> ports;
  if (ports.empty()) fs.limit_kept_files(kMostKept);
  const bool all = request == kAskAll;
  std::string text;
  std::set<std::string> there;
  std::vector<std::string> devices = fs.list(kFolder);
  if (devices.size() > kMostPorts) devices = physical_first(fs, std::move(devices), kFolder, "/device/physfn");
  for (const std::string& device : devices) {
    const std::string parent = std::string(kFolder) + '/' + device + "/ports/";
    for (const std::string& port : fs.list(parent)) {
      if (there.size() == kMostPorts) break;
      std::string name = device + ':' + port;
      auto known = ports.find(name);
      if (known == ports.end() || all) {  // a driver may still have been at it when the port was first seen
        PortNames names(fs, parent + port);
        if (known == ports.end() || known->second.names() != names) {
          known = ports.insert_or_assign(name, PortFiles(fs, name, parent + port, std::move(names))).first;
        }
      }
      if (known->second.answer(all, text)) there.insert(std::move(name));
    }
  }
  std::erase_if(ports, [&](const auto& port) { return !there.contains(port.first); });
  return text;
}

class InfinibandProbe final : public Probe {
 public:
  explicit InfinibandProbe(const ProbeContext& context)
      : context_(context),
        error_period_((kErrorPeriod + context.period - 1ns) / context.period * context.period),
        child_(context, query_ports, {.probe = "infiniband", .object = "rdma adapters"}) {
    std::size_t ports = 0;
    std::size_t counters = 0;
    for (const std::string& device : context.fs.list(kFolder)) {
      const std::string folder = std::string(kFolder) + '/' + device + "/ports";
      for (const std::string& port : context.fs.list(folder)) {
        ++ports;
        counters += context.fs.list(folder + '/' + port + "/hw_counters").size();
      }
    }
    if (ports == 0) throw Unavailable("this host has no InfiniBand or RoCE adapter (/sys/class/infiniband)");
    child_.need();
    ports_of_node_ = ports;
    for (std::size_t i = 0; i < families_.size(); ++i) {
      families_[i] =
          i == errors ? &context.sink.add_family(kFamilies[i], error_period_) : &context.family(kFamilies[i]);
      // Another adapter may come.
      families_[i]->expect(i == transport ? counters + counters / ports : (ports + 1) * kFamilies[i].metrics.size());
    }
  }

  void sample() noexcept override {
    for (Family* family : families_) family->begin();
    got_errors_ = false;
    take(child_.answer());
    for (std::size_t i = 0; i < families_.size(); ++i) {
      if (i != errors || got_errors_) families_[i]->commit();
    }
    hangs_ = child_.hangs();
    ask();
  }

  [[nodiscard]] std::string caveat() const override {
    std::string text = child_.gaps();
    const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
    if (hangs_) add("an adapter does not answer");
    if (ports_of_node_ > kMostPorts) {
      add("only " + std::to_string(kMostPorts) + " of " + std::to_string(ports_of_node_) + " ports are measured");
    }
    if (!saturated_.empty()) {
      add(saturated_ + " has reached its maximum value and no longer counts (reset: perfquery -R)");
    }
    return text;
  }

 private:
  struct Value {
    Family* family = nullptr;
    std::int32_t channel = Family::kNoChannel;
  };
  struct Port {
    std::array<std::int32_t, kTraffic.size()> traffic;
    std::array<std::int32_t, kErrorCounters.size()> errors;
    std::vector<Value> transport;
    Port() {
      traffic.fill(Family::kNoChannel);
      errors.fill(Family::kNoChannel);
    }
  };

  void ask() {
    const std::int64_t now = context_.sink.now();
    const bool with_errors = now >= next_errors_ns_;
    if (child_.ask(with_errors ? kAskAll : kAskTraffic) && with_errors) next_errors_ns_ = now + error_period_.count();
  }

  void take(std::string_view answer) {
    std::string_view line;
    while (next_line(answer, line)) {
      const std::string_view kind = cut_word(line);
      const std::string_view name = cut_word(line);
      if (kind.empty() || name.empty()) continue;
      auto found = ports_.find(name);
      if (found == ports_.end()) {
        if (ports_.size() == kMostPorts) continue;
        found = ports_.emplace(std::string(name), Port()).first;
      }
      Port& port = found->second;
      if (kind == kTrafficLine) take_counters(found->first, line, kTraffic, port.traffic);
      if (kind == kErrorLine) take_counters(found->first, line, kErrorCounters, port.errors);
      if (kind == kNamesLine) name_transport(found->first, line, port);
      if (kind == kTransportLine) take_transport(line, port);
      got_errors_ = got_errors_ || kind == kErrorLine;
    }
  }

  void take_counters(const std::string& port, std::string_view line, std::span<const PortCounter> counters,
                     std::span<std::int32_t> channels) {
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const PortCounter& counter = counters[i];
      std::int64_t value = 0;
      if (!parse_counter(cut_word(line), value)) continue;
      Family& family = *families_[counter.family];
      if (channels[i] == Family::kNoChannel) {
        channels[i] =
            family.add(kFamilies[counter.family].metrics[static_cast<std::size_t>(counter.metric)].name, port);
      }
      if (value != counter.most) {
        family.set(channels[i], scaled(value, counter.scale));
      } else if (saturated_.empty()) {
        saturated_ = std::string(counter.file) + " of " + port;
      }
    }
  }

  /// Again where the adapter has gone and another one has come: counters with the same name go on in its rows.
  void name_transport(const std::string& port, std::string_view line, Port& places) {
    places.transport.clear();
    for (std::string_view name = cut_word(line); !name.empty(); name = cut_word(line)) {
      Family& family = *families_[counts_bytes(name) ? transport_bytes : transport];
      const auto [known, fresh] = transport_channels_.try_emplace(std::string(name) + ' ' + port, Family::kNoChannel);
      if (fresh) known->second = family.add("rdma." + std::string(name), port);
      places.transport.push_back({&family, known->second});
    }
  }

  static void take_transport(std::string_view line, const Port& places) {
    for (const Value& place : places.transport) {
      std::int64_t value = 0;
      if (parse_counter(cut_word(line), value)) place.family->set(place.channel, value);
    }
  }

  ProbeContext context_;
  std::chrono::nanoseconds error_period_;
  AskedChild child_;
  std::array<Family*, std::size(kFamilies)> families_{};
  std::map<std::string, Port, std::less<>> ports_;
  std::map<std::string, std::int32_t> transport_channels_;  // by name and port
  std::int64_t next_errors_ns_ = 0;
  std::size_t ports_of_node_ = 0;
  bool got_errors_ = false;
  bool hangs_ = false;
  std::string saturated_;
};

std::unique_ptr<Probe> open_infiniband(const ProbeContext& context) {
  return std::make_unique<InfinibandProbe>(context);
}

const RegisteredProbe entry{{.name = "infiniband",
                             .help = "Traffic, waiting, errors and retransmissions of InfiniBand and RoCE ports",
                             .period = 1s,
                             .may_block = true,
                             .families = kFamilies,
                             .open = open_infiniband,
                             .remedy = "not needed without such an adapter; containers: mount /sys of the host, and "
                                       "rdma system set netns shared"}};

}  // namespace
}  // namespace reveal::probe::infiniband
