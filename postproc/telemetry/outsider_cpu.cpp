#include "postproc/telemetry/outsider_cpu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdf5schema/basics/not_measured.h"

namespace reveal {
namespace {

using Values = std::vector<double>;

std::optional<std::size_t> find(const Telemetry& telemetry, std::string_view metric, std::string_view instance) {
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric == metric && telemetry.channels[i].instance == instance) return i;
  }
  return std::nullopt;
}

// Guest time is already inside user.
constexpr std::array<std::string_view, 3> kBusy{"cpu.user", "cpu.nice", "cpu.system"};
constexpr std::array<std::string_view, 2> kInterrupts{"cpu.irq", "cpu.softirq"};
constexpr std::string_view kAllowed = "job.cpu_allowed";
constexpr std::string_view kOfJob = "job.cpu_time";
constexpr std::string_view kOurs = "self.cpu_time";

/// Cpu time cannot be negative: a level below this, over whole seconds, proves that the job is charged more than the
/// busy time of /proc/stat.
constexpr double kBelowZero = -0.05;
constexpr double kLowQuantile = 0.1;

/// A cpu that the job may use for some time, and the work on it.
struct Cpu {
  std::size_t allowed;
  std::vector<std::size_t> times;
};

/// The cpus of which all these metrics are there; none where it is not known which ones the job may use.
std::vector<Cpu> cpus_of_job(const Telemetry& telemetry, std::span<const std::string_view> metrics) {
  std::map<std::string, std::vector<std::size_t>> times;
  for (const std::string_view metric : metrics) {
    for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
      const Channel& channel = telemetry.channels[i];
      if (channel.metric == metric && !channel.instance.empty()) times[channel.instance].push_back(i);
    }
  }
  std::vector<Cpu> cpus;
  for (auto& [cpu, channels] : times) {
    const auto allowed = find(telemetry, kAllowed, cpu);
    if (allowed && channels.size() == metrics.size()) cpus.push_back({*allowed, std::move(channels)});
  }
  return cpus;
}

/// Adds the cpu time, in cpus, while the job might use them.
void add_allowed(const Telemetry& telemetry, const std::vector<Cpu>& cpus, Values& sum) {
  const double to_cpus = 1e-9 / telemetry.step_seconds;
  for (const Cpu& cpu : cpus) {
    const auto member = telemetry.series(cpu.allowed);
    for (std::size_t t = 0; t < telemetry.samples; ++t) {
      if (std::isnan(member[t])) {
        sum[t] = kNaN;
      } else if (member[t] > 0) {
        for (const std::size_t channel : cpu.times) sum[t] += telemetry.series(channel)[t] * to_cpus;
      }
    }
  }
}

double low_level(const Values& values, double step_seconds) {
  const auto second = static_cast<std::size_t>(std::max(1.0, std::round(1 / step_seconds)));
  Values means;
  for (std::size_t begin = 0; begin + second <= values.size(); begin += second) {
    double sum = 0;
    for (std::size_t t = begin; t < begin + second; ++t) sum += values[t];
    if (!std::isnan(sum)) means.push_back(sum / static_cast<double>(second));
  }
  if (means.empty()) return 0;
  std::sort(means.begin(), means.end());
  return means[static_cast<std::size_t>(kLowQuantile * static_cast<double>(means.size()))];
}

class OutsiderCpu {
 public:
  explicit OutsiderCpu(const Telemetry& job)
      : job_(find(job, kOfJob, "")),
        own_(find(job, kOurs, "")),
        busy_(cpus_of_job(job, kBusy)),
        interrupts_(cpus_of_job(job, kInterrupts)) {}

  [[nodiscard]] bool measured() const { return job_ && !busy_.empty(); }

  Values operator()(const Telemetry& piece) {
    Values outsider(piece.samples, 0.0);
    add_allowed(piece, busy_, outsider);
    const double to_cpus = 1e-9 / piece.step_seconds;
    const auto used = piece.series(*job_);
    for (std::size_t t = 0; t < piece.samples; ++t) {
      outsider[t] -= used[t] * to_cpus;
      if (own_) outsider[t] -= piece.series(*own_)[t] * to_cpus;
    }
    if (!charged_) charged_ = low_level(outsider, piece.step_seconds) < kBelowZero;
    if (*charged_) add_allowed(piece, interrupts_, outsider);
    return outsider;
  }

 private:
  std::optional<std::size_t> job_;
  std::optional<std::size_t> own_;
  std::vector<Cpu> busy_;
  std::vector<Cpu> interrupts_;
  std::optional<bool> charged_;  // interrupts, to the task that was running
};

}  // namespace

DerivedSeries outsider_cpu(const Telemetry& first_piece) {
  OutsiderCpu outsider(first_piece);
  return outsider.measured() ? DerivedSeries(std::move(outsider)) : DerivedSeries();
}

}  // namespace reveal
