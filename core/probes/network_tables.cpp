// /proc/net/stat: the kernel's tables of neighbours, of tracked connections and of routes. They have limits; beyond
// them packets are lost without any other sign: a neighbour table that is too small for the cluster's nodes, a
// connection table that is too small for the job's connections.
// https://docs.kernel.org/networking/nf_conntrack-sysctl.html
#include <array>
#include <charconv>

#include "core/kernel_text/key_index.h"
#include "core/sampler/diffed_text.h"
#include "core/sampler/pace.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::network_tables {
namespace {

constexpr MetricHelp kCounters[] = {
    {"arp_cache.table_fulls",
     "Neighbours refused because the table was full: net.ipv4.neigh.default.gc_thresh3 is too small."},
    {"arp_cache.forced_gc_runs", "Times the table was cleaned because it was nearly full."},
    {"arp_cache.unresolved_discards", "Packets dropped because their neighbour did not answer."},
    {"arp_cache.<column>", "Other columns, with the kernel's names."},
    {"ndisc_cache.<column>", "Neighbours by IPv6."},
    {"nf_conntrack.drop", "Packets dropped because the table of tracked connections was full (nf_conntrack_max)."},
    {"nf_conntrack.<column>", "Tracked connections, of a firewall or of address translation."},
    {"rt_cache.<column>", "Look-ups of routes: out_slow_tot, in_no_route, in_martian_src."},
};
constexpr MetricHelp kLevels[] = {
    {"arp_cache.entries", "Neighbours known."},
    {"ndisc_cache.entries", "Neighbours known by IPv6."},
    {"nf_conntrack.entries", "Connections tracked now."},
    {"rt_cache.entries", "Routes remembered."},
};
constexpr FamilyTable kFamilies[] = {
    {"network/tables", Kind::counter, Unit::count, Scope::node, Subsystem::network,
     "Events of neighbours, tracked connections and routes", "/proc/net/stat", kCounters},
    {"network/table_entries", Kind::gauge, Unit::count, Scope::node, Subsystem::network,
     "Neighbours, tracked connections and routes", "/proc/net/stat", kLevels},
};
constexpr std::array<std::string_view, 4> kTables = {"arp_cache", "ndisc_cache", "nf_conntrack", "rt_cache"};
constexpr std::string_view kEntries = "entries";  // the same in the lines of all cpus

class NetworkTablesProbe final : public Probe {
 public:
  explicit NetworkTablesProbe(const ProbeContext& context) {
    for (const std::string_view name : kTables) {
      Table table;
      table.name = name;
      table.file = context.fs.open("/proc/net/stat/" + std::string(name), 1024);
      if (!table.file.read().empty()) tables_.push_back(std::move(table));
    }
    if (tables_.empty()) throw Unavailable("this kernel has no counters of its network tables (/proc/net/stat)");
    counters_ = &context.family(kFamilies[0]);
    levels_ = &context.family(kFamilies[1]);
  }

  void sample() noexcept override {
    if (!update_all(tables_)) parse();
    counters_->commit();
    levels_->commit();
  }

 private:
  struct Column {
    Family* family = nullptr;
    std::int32_t channel = Family::kNoChannel;
    std::int64_t sum = kMissing;  // over the cpus
    bool cut = false;             // not in the line of each cpu
  };
  struct Table {
    std::string_view name;
    KernelFile file;
    DiffedText text;  // sets no number: the text is unchanged, or it is parsed
    KeyIndex names;
    std::vector<Column> columns;
    std::vector<std::size_t> order;  // order of the columns in this text
  };

  void parse() {
    counters_->begin();
    levels_->begin();
    for (Table& table : tables_) {
      std::string_view rest = table.text.parse();
      std::string_view line;
      if (!next_line(rest, line)) continue;
      read_names(table, line);
      for (Column& column : table.columns) {
        column.sum = kMissing;
        column.cut = false;
      }
      while (next_line(rest, line)) add_cpu(table, line);
      for (const Column& column : table.columns) column.family->set(column.channel, column.sum);
    }
  }

  void read_names(Table& table, std::string_view names) {
    table.order.clear();
    table.names.rewind();
    for (std::string_view name = cut_word(names); !name.empty(); name = cut_word(names)) {
      std::size_t number = table.names.find(name);
      if (number == KeyIndex::kUnknown) {
        number = table.names.add(name);
        Family* family = name == kEntries ? levels_ : counters_;
        table.columns.push_back({family, family->add(std::string(table.name) + '.' + std::string(name))});
      }
      table.order.push_back(number);
    }
  }

  /// "00000003 0000025f 000002c8"; one that is cut off has nothing from there on, and then no cpu has.
  void add_cpu(Table& table, std::string_view numbers) const {
    bool whole = true;
    for (const std::size_t number : table.order) {
      const std::string_view word = cut_word(numbers);
      std::uint64_t value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, 16);
      whole = whole && !word.empty() && error == std::errc() && end == word.data() + word.size();
      Column& column = table.columns[number];
      if (!whole) column.cut = true;
      if (column.sum != kMissing && column.family == counters_) value += static_cast<std::uint64_t>(column.sum);
      column.sum = column.cut ? kMissing : static_cast<std::int64_t>(value & 0x7fff'ffff'ffff'ffffULL);
    }
  }

  Family* counters_ = nullptr;
  Family* levels_ = nullptr;
  std::vector<Table> tables_;
};

std::unique_ptr<Probe> open_network_tables(const ProbeContext& context) {
  return std::make_unique<NetworkTablesProbe>(context);
}

std::chrono::nanoseconds period_on(const Host& host) {
  constexpr auto kCostPerCpu = 2us;  // a line of each table
  return paced(host.cpus_online.size(), kCostPerCpu, kShareOfACore / 3);
}

const RegisteredProbe entry{{.name = "network_tables",
                             .help = "Neighbours, tracked connections and routes: tables that lose packets when full",
                             .families = kFamilies,
                             .open = open_network_tables,
                             .period_on = period_on,
                             .remedy = "containers without the host's network do not show them"}};

}  // namespace
}  // namespace reveal::probe::network_tables
