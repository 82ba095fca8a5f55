// /proc/interrupts and /proc/softirqs: a row per source, a column per cpu.
// https://man7.org/linux/man-pages/man5/proc_interrupts.5.html
#include <algorithm>

#include "core/job/cpu_set.h"
#include "core/kernel_text/key_index.h"
#include "core/sampler/diffed_text.h"
#include "core/sampler/pace.h"
#include "core/sampler/per_cpu.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::interrupts {
namespace {

// Walking all interrupt numbers costs the kernel milliseconds on large hosts.
constexpr std::size_t kManyCpus = 16;
constexpr auto kCostPerCpu = std::chrono::microseconds(30);  // reading /proc/interrupts: 1 to 4 ms on 96 cores
constexpr auto kSoftirqCostPerCpu = std::chrono::microseconds(1);

// A limit for large hosts, where every disk and network card has a queue per cpu.
constexpr std::size_t kMostSources = 256;
constexpr std::string_view kPool = "irq.others";

constexpr MetricHelp kInterrupts[] = {
    {"irq.<name>", "Interrupts of this source served by this cpu (irq.41, irq.LOC)."},
    {"irq.<name>_spread", "On more than 64 cpus: standard deviation over them."},
    {"irq.<name>_max", "On more than 64 cpus: value of the busiest cpu."},
    {"irq.others", "On more than 64 cpus: sum of all sources except the 256 most frequent ones."},
};
constexpr MetricHelp kInterruptPlaces[] = {{"irq.<name>_max_cpu", "On more than 64 cpus: the busiest cpu."}};
constexpr MetricHelp kSoftirqs[] = {
    {"softirq.<name>", "Soft interrupts run by this cpu (softirq.NET_RX)."},
    {"softirq.<name>_spread", "On more than 64 cpus: standard deviation over them."},
    {"softirq.<name>_max", "On more than 64 cpus: value of the busiest cpu."},
};
constexpr MetricHelp kSoftirqPlaces[] = {{"softirq.<name>_max_cpu", "On more than 64 cpus: the busiest cpu."}};

constexpr FamilyTable kInterruptFamilies[] = {
    {"interrupts/per_cpu", Kind::counter, Unit::count, Scope::cpu, Subsystem::cpu, "Interrupts by source and cpu",
     "/proc/interrupts", kInterrupts},
    {"interrupts/places", Kind::state, Unit::count, Scope::cpu, Subsystem::cpu, "Busiest cpu of each source",
     "/proc/interrupts", kInterruptPlaces},
};
constexpr FamilyTable kSoftirqFamilies[] = {
    {"interrupts/softirqs", Kind::counter, Unit::count, Scope::cpu, Subsystem::cpu, "Soft interrupts by type and cpu",
     "/proc/softirqs", kSoftirqs},
    {"interrupts/softirq_places", Kind::state, Unit::count, Scope::cpu, Subsystem::cpu,
     "Busiest cpu of each soft interrupt", "/proc/softirqs", kSoftirqPlaces},
};

class MatrixProbe final : public Probe {
 public:
  MatrixProbe(const ProbeContext& context, KernelFile file, std::span<const FamilyTable> tables,
              std::string_view prefix)
      : file_(std::move(file)),
        prefix_(prefix),
        counts_(context, tables[0], tables[1],
                {.only_what_happened = true, .most_metrics = kMostSources, .pool = kPool, .keep_busiest = true}),
        text_(!counts_.summarised()) {}

  void sample() noexcept override {
    if (text_.update(file_.read())) {
      counts_.family().commit();
      return;
    }
    counts_.begin();
    parse();
    counts_.commit();
  }

 private:
  void parse() {
    rows_.rewind();
    std::string_view rest = text_.parse();
    std::string_view line;
    if (!next_line(rest, line)) return;
    if (line != header_) read_header(line);
    while (next_line(rest, line)) parse_row(line);
  }

  // A cpu that goes off line takes its column with it; its channels stay and are missing.
  void read_header(std::string_view line) {
    header_ = line;
    column_cpu_.clear();
    for (std::string_view word = cut_word(line); !word.empty(); word = cut_word(line)) {
      const auto cpu = parse_int(word.substr(std::min<std::size_t>(3, word.size())));
      const bool known = cpu && word.substr(0, 3) == "CPU" && *cpu >= 0 && *cpu < static_cast<int>(CpuSet::kMost);
      column_cpu_.push_back(known ? static_cast<int>(*cpu) : -1);
    }
  }

  void parse_row(std::string_view line) {
    std::string_view key = cut_word(line);
    if (key.size() < 2 || key.back() != ':') return;
    key.remove_suffix(1);
    std::size_t number = rows_.find(key);
    if (number == KeyIndex::kUnknown) {
      number = rows_.add(key);
      Row row{.metric = std::string(prefix_) + std::string(key), .total = key == "ERR" || key == "MIS"};
      if (!row.total) row.place = counts_.add_metric(row.metric);
      known_.push_back(std::move(row));
    }
    Row& row = known_[number];
    std::int64_t count = 0;
    if (row.total) {
      if (parse_counter(cut_word(line), count)) store_total(row, count);
      return;
    }
    for (const int cpu : column_cpu_) {
      const std::string_view word = cut_word(line);
      if (!parse_counter(word, count)) return;
      const std::int32_t channel = counts_.set(row.place, cpu, count);
      if (channel != Family::kNoChannel && !counts_.summarised()) text_.set(word, counts_.family(), channel);
    }
  }

  struct Row {
    std::string metric;
    bool total = false;                         // one number for all cpus
    std::int32_t channel = Family::kNoChannel;  // channel of the total
    std::size_t place = 0;                      // place of the other channels
  };

  void store_total(Row& row, std::int64_t count) {
    if (row.channel == Family::kNoChannel) {
      if (count == 0) return;
      row.channel = counts_.family().add(row.metric);
    }
    counts_.family().set(row.channel, count);
  }

  KernelFile file_;
  std::string_view prefix_;
  PerCpu counts_;
  DiffedText text_;
  std::string header_;
  std::vector<int> column_cpu_;  // -1: a column of something else
  KeyIndex rows_;
  std::vector<Row> known_;
};

std::unique_ptr<Probe> open_interrupts(const ProbeContext& context) {
  return std::make_unique<MatrixProbe>(context, context.fs.require("/proc/interrupts", "interrupts cannot be read"),
                                       kInterruptFamilies, "irq.");
}

std::unique_ptr<Probe> open_softirqs(const ProbeContext& context) {
  return std::make_unique<MatrixProbe>(context, context.fs.require("/proc/softirqs", "soft interrupts cannot be read"),
                                       kSoftirqFamilies, "softirq.");
}

std::chrono::nanoseconds interrupts_period(const Host& host) {
  const std::size_t cpus = host.cpus_online.size();
  return cpus <= kManyCpus ? 100ms : std::max<std::chrono::nanoseconds>(1s, paced(cpus, kCostPerCpu));
}

std::chrono::nanoseconds softirqs_period(const Host& host) {
  return paced(host.cpus_online.size(), kSoftirqCostPerCpu);
}

const RegisteredProbe interrupts{{.name = "interrupts",
                                  .help = "Interrupts by source and cpu (every second on more than 16 cpus)",
                                  .families = kInterruptFamilies,
                                  .open = open_interrupts,
                                  .period_on = interrupts_period}};
const RegisteredProbe softirqs{{.name = "softirqs",
                                .help = "Soft interrupts by type and cpu",
                                .families = kSoftirqFamilies,
                                .open = open_softirqs,
                                .period_on = softirqs_period}};

}  // namespace
}  // namespace reveal::probe::interrupts
