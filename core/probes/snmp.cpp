// /proc/net/snmp and netstat of the job's network namespaces: counters of IP, TCP and UDP.
// https://docs.kernel.org/networking/snmp_counter.html
#include <algorithm>
#include <array>

#include "core/kernel_text/key_index.h"
#include "core/probes/metric_name.h"
#include "core/probes/namespace_texts.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::snmp {
namespace {

constexpr MetricHelp kSnmp[] = {
    {"tcp.RetransSegs", "Segments sent again."},
    {"udp.RcvbufErrors", "Datagrams dropped because the receiver's buffer was full."},
    {"ip.<Field>", "Other fields, with the kernel's names (RFC 1213, RFC 4293)."},
    {"icmp.<Field>", "Control messages."},
    {"icmpmsg.<Field>", "Control messages by type."},
    {"tcp.<Field>", "Connections and segments."},
    {"udp.<Field>", "Datagrams."},
    {"udplite.<Field>", "Datagrams with partial checksums."},
};
constexpr MetricHelp kLevels[] = {{"tcp.CurrEstab", "Connections established now."},
                                  {"mptcpext.MPCurrEstab", "Multipath TCP connections established now."}};
constexpr MetricHelp kNetstat[] = {
    {"tcpext.TCPOFOQueue", "Segments received before an earlier one: packets were lost or reordered on the way."},
    {"tcpext.TCPTimeouts", "Retransmission timeouts."},
    {"tcpext.<Field>", "Other fields, with the names of Linux."},
    {"ipext.<Field>", "Packets and bytes by kind."},
    {"mptcpext.<Field>", "Multipath TCP."},
};

constexpr FamilyTable kSnmpFamilies[] = {
    {"network/snmp", Kind::counter, Unit::count, Scope::node, Subsystem::network, "IP, ICMP, TCP and UDP counters",
     "/proc/PID/net/snmp", kSnmp},
    {"network/snmp_levels", Kind::gauge, Unit::count, Scope::node, Subsystem::network, "Connections",
     "/proc/PID/net/snmp", kLevels},
};
constexpr FamilyTable kNetstatFamilies[] = {{"network/netstat", Kind::counter, Unit::count, Scope::node,
                                             Subsystem::network, "Linux extensions of the TCP and IP counters",
                                             "/proc/PID/net/netstat", kNetstat}};

struct Special {
  std::string_view protocol;
  std::string_view field;
};
constexpr std::array kLevelFields = {Special{"Tcp:", "CurrEstab"}, Special{"MPTcpExt:", "MPCurrEstab"}};
constexpr std::array kSettings = {Special{"Ip:", "Forwarding"},    Special{"Ip:", "DefaultTTL"},
                                  Special{"Tcp:", "RtoAlgorithm"}, Special{"Tcp:", "RtoMin"},
                                  Special{"Tcp:", "RtoMax"},       Special{"Tcp:", "MaxConn"}};

template <std::size_t Size>
bool contains(const std::array<Special, Size>& table, std::string_view protocol, std::string_view field) {
  return std::any_of(table.begin(), table.end(),
                     [&](const Special& each) { return each.protocol == protocol && each.field == field; });
}

// Pairs of lines: "Tcp: name name ..." and "Tcp: value value ...".
class SnmpProbe final : public Probe {
 public:
  SnmpProbe(const ProbeContext& context, std::span<const FamilyTable> tables, std::string_view file)
      : texts_(context, file, 4096, "the kernel's " + std::string(file) + " counters cannot be read"),
        counters_(context.family(tables[0])),
        levels_(tables.size() > 1 ? &context.family(tables[1]) : nullptr) {}

  void sample() noexcept override {
    if (!texts_.update()) parse();
    counters_.commit();
    if (levels_ != nullptr) levels_->commit();
  }

 private:
  struct Parsed {
    /// Keys are whole lines of names, which never change on one kernel; values by column: counter c as c, level l as
    /// -2 - l.
    KeyedValues<std::vector<std::int32_t>> headers;
  };
  using Place = NamespaceTexts<Parsed>::Place;

  void parse() {
    counters_.begin();
    if (levels_ != nullptr) levels_->begin();
    for (Place& place : texts_.places()) {
      std::string_view rest = place.text.parse();
      std::string_view names;
      std::string_view values;
      place.headers.rewind();
      while (next_line(rest, names) && next_line(rest, values)) parse_pair(place, names, values);
    }
  }

  void parse_pair(Place& place, std::string_view names, std::string_view values) {
    const std::vector<std::int32_t>& channels = place.headers.at(names, [&] { return channels_of(place, names); });
    if (cut_word(values) != cut_word(names)) return;
    for (const std::int32_t channel : channels) {
      const std::string_view word = cut_word(values);
      if (channel >= 0)
        place.text.set(word, counters_, channel);
      else if (channel != Family::kNoChannel && levels_ != nullptr)
        place.text.set(word, *levels_, -2 - channel);
    }
  }

  std::vector<std::int32_t> channels_of(const Place& place, std::string_view names) {
    std::vector<std::int32_t> channels;
    const std::string_view protocol = cut_word(names);
    if (protocol.size() < 2 || protocol.back() != ':') return channels;
    const std::string prefix = lower_case(protocol.substr(0, protocol.size() - 1));
    for (std::string_view field = cut_word(names); !field.empty(); field = cut_word(names)) {
      const std::string metric = prefix + '.' + std::string(field);
      if (contains(kSettings, protocol, field)) {
        channels.push_back(Family::kNoChannel);
      } else if (contains(kLevelFields, protocol, field)) {
        channels.push_back(levels_ == nullptr ? Family::kNoChannel : -2 - levels_->add(metric, place.instance));
      } else {
        channels.push_back(counters_.add(metric, place.instance));
      }
    }
    return channels;
  }

  NamespaceTexts<Parsed> texts_;
  Family& counters_;
  Family* levels_;
};

std::unique_ptr<Probe> open_snmp(const ProbeContext& context) {
  return std::make_unique<SnmpProbe>(context, kSnmpFamilies, "snmp");
}

std::unique_ptr<Probe> open_netstat(const ProbeContext& context) {
  return std::make_unique<SnmpProbe>(context, kNetstatFamilies, "netstat");
}

const RegisteredProbe snmp{{.name = "snmp",
                            .help = "IP, ICMP, TCP and UDP counters of the job's network namespaces",
                            .families = kSnmpFamilies,
                            .open = open_snmp,
                            .remedy = "mount /proc without hiding net/ (containers: not masked)"}};
const RegisteredProbe netstat{{.name = "netstat",
                               .help = "Linux extensions of the TCP and IP counters",
                               .families = kNetstatFamilies,
                               .open = open_netstat,
                               .remedy = "mount /proc without hiding net/ (containers: not masked)"}};

}  // namespace
}  // namespace reveal::probe::snmp
