// /proc/net/softnet_stat: packets that the network receive path of each cpu processed and dropped.
// https://docs.kernel.org/networking/scaling.html
#include <algorithm>
#include <array>
#include <charconv>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/per_cpu.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::softnet {
namespace {

/// A column of a cpu's line, and its metric.
struct Column {
  std::size_t number = 0;
  MetricHelp metric;
};
constexpr std::array kColumns = {
    Column{0, {"softnet.processed", "Packets taken from the network card's queue."}},
    Column{1, {"softnet.dropped", "Packets dropped because this cpu's backlog was full."}},
    Column{2, {"softnet.time_squeeze", "Times the receive work was stopped with packets left."}},
    Column{9, {"softnet.received_rps", "Times another cpu asked this one to take packets (receive packet steering)."}},
    Column{10, {"softnet.flow_limited", "Packets dropped because their flow filled the backlog."}},
};
constexpr std::array kSummaries = {
    MetricHelp{"softnet.<count>_spread", "On more than 64 cpus: standard deviation over them of each of the above."},
    MetricHelp{"softnet.<count>_max", "On more than 64 cpus: value of the cpu with the highest value."},
};
constexpr auto kCounts = [] {
  std::array<MetricHelp, kColumns.size() + kSummaries.size()> metrics{};
  std::transform(kColumns.begin(), kColumns.end(), metrics.begin(), [](const Column& column) { return column.metric; });
  std::copy(kSummaries.begin(), kSummaries.end(), metrics.begin() + kColumns.size());
  return metrics;
}();
constexpr MetricHelp kBacklog[] = {
    {"softnet.backlog", "Packets waiting in this cpu's backlog (Linux 5.14)."},
    {"softnet.backlog_<summary>", "On more than 64 cpus: spread, min and max over them."},
};
constexpr MetricHelp kCountPlaces[] = {
    {"softnet.<count>_max_cpu", "On more than 64 cpus: the cpu with the highest value."}};
constexpr MetricHelp kBacklogPlaces[] = {
    {"softnet.backlog_<extreme>_cpu", "On more than 64 cpus: the cpus with the shortest and the longest backlog."}};
constexpr FamilyTable kFamilies[] = {
    {"interrupts/softnet", Kind::counter, Unit::count, Scope::cpu, Subsystem::network, "Receive path of each cpu",
     "/proc/net/softnet_stat", kCounts},
    {"interrupts/softnet_places", Kind::state, Unit::count, Scope::cpu, Subsystem::network,
     "Cpus with the most of the receive path", "/proc/net/softnet_stat", kCountPlaces},
    {"interrupts/backlog", Kind::gauge, Unit::count, Scope::cpu, Subsystem::network,
     "Packets waiting for the receive path of each cpu", "/proc/net/softnet_stat", kBacklog},
    {"interrupts/backlog_places", Kind::state, Unit::count, Scope::cpu, Subsystem::network,
     "Cpus with the longest backlog", "/proc/net/softnet_stat", kBacklogPlaces},
};
constexpr std::size_t kAtLeast = 3;         // columns every kernel has
constexpr std::size_t kBacklogColumn = 11;  // since Linux 5.14
constexpr std::size_t kCpuColumn = 12;      // since Linux 5.14; before, lines are the online cpus in order

using Columns = std::array<std::int64_t, kCpuColumn + 1>;

/// How many columns the line has; 0 if one of them is no number.
std::size_t parse_columns(std::string_view line, Columns& columns) noexcept {
  for (std::size_t count = 0; count < columns.size(); ++count) {
    const std::string_view word = cut_word(line);
    std::uint32_t value = 0;
    if (word.empty()) return count;
    if (std::from_chars(word.data(), word.data() + word.size(), value, 16).ptr != word.data() + word.size()) return 0;
    columns[count] = value;
  }
  return columns.size();
}

class SoftnetProbe final : public Probe {
 public:
  SoftnetProbe(const ProbeContext& context, KernelFile file)
      : context_(context),
        file_(std::move(file)),
        online_file_(context.fs.open("/sys/devices/system/cpu/online", 64)),
        online_(context.host.cpus_online),
        counts_(context, kFamilies[0], kFamilies[1], {.keep_busiest = true}),
        backlog_(context, kFamilies[2], kFamilies[3]) {
    for (const Column& column : kColumns) counts_.add_metric(column.metric.name);
    backlog_.add_metric(kBacklog[0].name);
  }

  void sample() noexcept override {
    counts_.begin();
    backlog_.begin();
    const std::string_view text = file_.read();
    const bool in_order = lines_are_of_online_cpus(text);
    std::string_view rest = text;
    std::string_view line;
    Columns columns{};
    for (std::size_t number = 0; next_line(rest, line); ++number) {
      const std::size_t count = parse_columns(line, columns);
      if (count > kCpuColumn) {
        store(static_cast<int>(columns[kCpuColumn]), columns, count);
      } else if (count >= kAtLeast && in_order) {
        store(online_[number], columns, count);
      }
    }
    counts_.commit();
    backlog_.commit();
  }

 private:
  // Before Linux 5.14 a line does not name its cpu, which is unknown in a tick in which the list of cpus changed.
  bool lines_are_of_online_cpus(std::string_view text) {
    const std::string_view list = online_file_.read();
    const bool changed = list != online_text_;
    const bool first = online_text_.empty();
    if (changed) {
      online_text_ = list;
      if (!list.empty()) online_ = parse_cpu_list(list);
    }
    return (first || !changed) &&
           static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == online_.size();
  }

  void store(int cpu, const Columns& columns, std::size_t count) {
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      if (kColumns[i].number < count) counts_.set(i, cpu, columns[kColumns[i].number]);
    }
    if (count > kCpuColumn) backlog_.set(0, cpu, columns[kBacklogColumn]);
  }

  ProbeContext context_;
  KernelFile file_;
  KernelFile online_file_;
  std::string online_text_;
  std::vector<int> online_;  // from the last text
  PerCpu counts_;
  PerCpu backlog_;
};

std::unique_ptr<Probe> open_softnet(const ProbeContext& context) {
  return std::make_unique<SoftnetProbe>(
      context, context.fs.require("/proc/net/softnet_stat", "the receive path cannot be observed"));
}

const RegisteredProbe entry{{.name = "softnet",
                             .help = "Packets taken, dropped and left by the receive path of each cpu",
                             .families = kFamilies,
                             .open = open_softnet,
                             .remedy = "mount /proc without hiding net/ (containers: not masked)"}};

}  // namespace
}  // namespace reveal::probe::softnet
