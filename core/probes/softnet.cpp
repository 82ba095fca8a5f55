// /proc/net/softnet_stat: what the network receive path of each cpu did and dropped.
#include <array>
#include <charconv>

#include "core/root/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr MetricHelp kMetrics[] = {
    {"softnet.processed", "Packets taken from the network card's queue."},
    {"softnet.dropped", "Packets dropped because this cpu's backlog was full."},
    {"softnet.time_squeeze", "Times the receive work was cut off with packets left."},
};
constexpr FamilyTable kFamilies[] = {{"interrupts/softnet", Kind::counter, Unit::count, Scope::cpu, Subsystem::network,
                                      "Receive path of each cpu", "/proc/net/softnet_stat", kMetrics}};
constexpr std::size_t kCpuColumn = 12;  // since Linux 5.10; before, lines are the online cpus in order

class SoftnetProbe final : public Probe {
 public:
  SoftnetProbe(const ProbeContext& context, KernelFile file)
      : context_(context), file_(std::move(file)), family_(context.family(kFamilies[0])) {}

  void sample() noexcept override {
    family_.begin();
    std::string_view rest = file_.read();
    std::string_view line;
    for (std::size_t number = 0; next_line(rest, line); ++number) {
      std::array<std::int64_t, kCpuColumn + 1> columns{};
      std::size_t count = 0;
      for (; count < columns.size(); ++count) {
        const std::string_view word = cut_word(line);
        std::uint32_t value = 0;
        if (word.empty()) break;
        if (std::from_chars(word.data(), word.data() + word.size(), value, 16).ptr != word.data() + word.size()) return;
        columns[count] = value;
      }
      if (count < std::size(kMetrics)) continue;
      const auto& online = context_.host.cpus_online;
      const std::int64_t in_order = number < online.size() ? online[number] : static_cast<int>(number);
      store(count > kCpuColumn ? columns[kCpuColumn] : in_order, columns);
    }
    family_.commit();
  }

 private:
  void store(std::int64_t cpu, const std::array<std::int64_t, kCpuColumn + 1>& columns) {
    if (cpu >= 65'536) return;
    const auto place = static_cast<std::size_t>(cpu);
    if (place >= first_.size()) first_.resize(place + 1, Family::kNoChannel);
    if (first_[place] == Family::kNoChannel) {
      first_[place] = static_cast<std::int32_t>(family_.channels().size());
      const std::string instance = "cpu" + std::to_string(cpu);
      for (const MetricHelp& metric : kMetrics) {
        family_.add(metric.name, instance, context_.role_of_cpu(static_cast<int>(cpu)));
      }
    }
    for (std::size_t i = 0; i < std::size(kMetrics); ++i) {
      family_.set(first_[place] + static_cast<std::int32_t>(i), columns[i]);
    }
  }

  ProbeContext context_;
  KernelFile file_;
  Family& family_;
  std::vector<std::int32_t> first_;  // by cpu
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
}  // namespace reveal
