// /proc/interrupts and /proc/softirqs: a row per source, a column per cpu.
#include "core/job/cpu_set.h"
#include "core/root/key_index.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// Walking all interrupt numbers costs the kernel milliseconds on large hosts.
constexpr std::size_t kManyCpus = 16;

constexpr MetricHelp kInterrupts[] = {
    {"irq.<name>", "Interrupts of this source served by this cpu (irq.41, irq.LOC)."}};
constexpr MetricHelp kSoftirqs[] = {{"softirq.<name>", "Soft interrupts run by this cpu (softirq.NET_RX)."}};

constexpr FamilyTable kInterruptFamilies[] = {{"interrupts/per_cpu", Kind::counter, Unit::count, Scope::cpu,
                                               Subsystem::cpu, "Interrupts by source and cpu", "/proc/interrupts",
                                               kInterrupts}};
constexpr FamilyTable kSoftirqFamilies[] = {{"interrupts/softirqs", Kind::counter, Unit::count, Scope::cpu,
                                             Subsystem::cpu, "Soft interrupts by type and cpu", "/proc/softirqs",
                                             kSoftirqs}};

class MatrixProbe final : public Probe {
 public:
  MatrixProbe(const ProbeContext& context, KernelFile file, const FamilyTable& table, std::string_view prefix)
      : context_(context), file_(std::move(file)), prefix_(prefix), family_(context.family(table)) {}

  void sample() noexcept override {
    family_.begin();
    rows_.rewind();
    std::string_view rest = file_.read();
    std::string_view line;
    if (next_line(rest, line)) {
      if (line != header_) read_header(line);
      while (next_line(rest, line)) parse_row(line);
    }
    family_.commit();
  }

 private:
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
      known_.push_back({std::string(prefix_) + std::string(key), key == "ERR" || key == "MIS", {}});
    }
    Row& row = known_[number];
    std::int64_t count = 0;
    if (row.total) {
      if (parse_counter(cut_word(line), count)) store(row, 0, count);
      return;
    }
    for (const int cpu : column_cpu_) {
      if (!parse_counter(cut_word(line), count)) return;
      if (cpu >= 0) store(row, static_cast<std::size_t>(cpu), count);
    }
  }

  struct Row {
    std::string metric;
    bool total = false;                  // one number for all cpus
    std::vector<std::int32_t> channels;  // by cpu
  };

  // What never happened makes no channel: most sources of a large host are served by one of its cpus.
  void store(Row& row, std::size_t cpu, std::int64_t count) {
    if (cpu >= row.channels.size()) {
      if (count == 0) return;
      row.channels.resize(cpu + 1, Family::kNoChannel);
    }
    std::int32_t& channel = row.channels[cpu];
    if (channel == Family::kNoChannel) {
      if (count == 0) return;
      channel = row.total
                    ? family_.add(row.metric)
                    : family_.add(row.metric, "cpu" + std::to_string(cpu), context_.role_of_cpu(static_cast<int>(cpu)));
    }
    family_.set(channel, count);
  }

  ProbeContext context_;
  KernelFile file_;
  std::string_view prefix_;
  Family& family_;
  std::string header_;
  std::vector<int> column_cpu_;  // -1: a column of something else
  KeyIndex rows_;
  std::vector<Row> known_;
};

std::unique_ptr<Probe> open_interrupts(const ProbeContext& context) {
  return std::make_unique<MatrixProbe>(context, context.fs.require("/proc/interrupts", "interrupts cannot be read"),
                                       kInterruptFamilies[0], "irq.");
}

std::unique_ptr<Probe> open_softirqs(const ProbeContext& context) {
  return std::make_unique<MatrixProbe>(context, context.fs.require("/proc/softirqs", "soft interrupts cannot be read"),
                                       kSoftirqFamilies[0], "softirq.");
}

std::chrono::nanoseconds interrupts_period(const Host& host) {
  return host.cpus_online.size() <= kManyCpus ? 100ms : 1000ms;
}

const RegisteredProbe interrupts{{.name = "interrupts",
                                  .help = "Interrupts by source and cpu (every second on more than 16 cpus)",
                                  .families = kInterruptFamilies,
                                  .open = open_interrupts,
                                  .period_on = interrupts_period}};
const RegisteredProbe softirqs{{.name = "softirqs",
                                .help = "Soft interrupts by type and cpu",
                                .families = kSoftirqFamilies,
                                .open = open_softirqs}};

}  // namespace
}  // namespace reveal
