// /proc/net/snmp6 of the job's network namespaces: counters of IPv6, ICMPv6 and UDP over IPv6. TCP is in snmp, over
// either.
// https://www.rfc-editor.org/rfc/rfc4293
#include "core/kernel_text/key_index.h"
#include "core/probes/metric_name.h"
#include "core/probes/namespace_texts.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::snmp6 {
namespace {

constexpr MetricHelp kCounters[] = {
    {"udp6.RcvbufErrors", "Datagrams over IPv6 dropped because the receiver's buffer was full."},
    {"ip6.InDiscards", "Packets dropped for lack of memory."},
    {"ip6.<Field>", "Other fields, with the kernel's names (RFC 4293)."},
    {"icmp6.<Field>", "Control messages."},
    {"udp6.<Field>", "Datagrams."},
    {"udplite6.<Field>", "Datagrams with partial checksums."},
};
constexpr FamilyTable kFamilies[] = {{"network/snmp6", Kind::counter, Unit::count, Scope::node, Subsystem::network,
                                      "IPv6, ICMPv6 and UDP counters", "/proc/PID/net/snmp6", kCounters}};

/// "Ip6InReceives" -> "ip6.InReceives"; "" for other names.
std::string metric_of(std::string_view key) {
  const std::size_t six = key.find('6');
  if (six == std::string_view::npos || six == 0 || six + 1 == key.size()) return "";
  return lower_case(key.substr(0, six + 1)) + '.' + std::string(key.substr(six + 1));
}

class Snmp6Probe final : public Probe {
 public:
  explicit Snmp6Probe(const ProbeContext& context)
      : texts_(context, "snmp6", 4096, "this kernel has no IPv6, or its counters are hidden"),
        counters_(context.family(kFamilies[0])) {}

  void sample() noexcept override {
    if (!texts_.update()) parse();
    counters_.commit();
  }

 private:
  struct Parsed {
    KeyedValues<std::int32_t> channels;
  };

  void parse() {
    counters_.begin();
    for (auto& place : texts_.places()) {
      place.channels.rewind();
      std::string_view rest = place.text.parse();
      std::string_view line;
      while (next_line(rest, line)) {
        const std::string_view key = cut_word(line);
        const std::string_view word = cut_word(line);
        std::int64_t value = 0;
        if (!parse_counter(word, value)) continue;
        const std::int32_t channel = place.channels.at(key, [&] {
          const std::string metric = metric_of(key);
          return metric.empty() ? Family::kNoChannel : counters_.add(metric, place.instance);
        });
        place.text.set(word, counters_, channel);
      }
    }
  }

  NamespaceTexts<Parsed> texts_;
  Family& counters_;
};

std::unique_ptr<Probe> open_snmp6(const ProbeContext& context) {
  return std::make_unique<Snmp6Probe>(context);
}

const RegisteredProbe entry{{.name = "snmp6",
                             .help = "IPv6, ICMPv6 and UDP counters of the job's network namespaces",
                             .families = kFamilies,
                             .open = open_snmp6,
                             .remedy = "not needed if IPv6 is not used"}};

}  // namespace
}  // namespace reveal::probe::snmp6
