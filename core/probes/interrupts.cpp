// /proc/interrupts and /proc/softirqs: a row per source, a column per cpu.
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
    column_instance_.clear();
    for (std::string_view word = cut_word(line); !word.empty(); word = cut_word(line)) {
      const auto cpu = parse_int(word.substr(std::min<std::size_t>(3, word.size())));
      column_instance_.push_back(cpu && word.substr(0, 3) == "CPU" ? static_cast<int>(*cpu) : -1);
    }
    for (Row& row : known_) row.channels.assign(column_instance_.size(), Family::kNoChannel);
  }

  void parse_row(std::string_view line) {
    std::string_view key = cut_word(line);
    if (key.size() < 2 || key.back() != ':') return;
    key.remove_suffix(1);
    std::size_t number = rows_.find(key);
    if (number == KeyIndex::kUnknown) {
      number = rows_.add(key);
      known_.push_back({std::string(prefix_) + std::string(key), {}});
      known_.back().channels.assign(column_instance_.size(), Family::kNoChannel);
    }
    Row& row = known_[number];
    for (std::size_t column = 0; column < column_instance_.size(); ++column) {
      std::int64_t count = 0;
      if (!parse_counter(cut_word(line), count)) return;  // ERR and MIS have one number for all cpus: column 0
      if (row.channels[column] == Family::kNoChannel) row.channels[column] = channel_of(row.metric, column);
      family_.set(row.channels[column], count);
    }
  }

  std::int32_t channel_of(const std::string& metric, std::size_t column) {
    const int cpu = column_instance_[column];
    if (cpu < 0) return Family::kNoChannel;
    const std::string instance = "cpu" + std::to_string(cpu);
    const auto& channels = family_.channels();
    for (std::size_t i = 0; i < channels.size(); ++i) {
      if (channels[i].instance == instance && channels[i].metric == metric) return static_cast<std::int32_t>(i);
    }
    return family_.add(metric, instance, context_.role_of_cpu(cpu));
  }

  struct Row {
    std::string metric;
    std::vector<std::int32_t> channels;  // by column
  };
  ProbeContext context_;
  KernelFile file_;
  std::string_view prefix_;
  Family& family_;
  std::string header_;
  std::vector<int> column_instance_;
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
