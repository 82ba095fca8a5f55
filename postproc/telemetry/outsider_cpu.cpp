#include "postproc/telemetry/outsider_cpu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>

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

/// Per cpu the channels of the given metrics; cpus that lack one are left out.
std::map<std::string, std::vector<std::size_t>> per_cpu(const Telemetry& telemetry,
                                                        std::span<const std::string_view> metrics) {
  std::map<std::string, std::vector<std::size_t>> cpus;
  for (const std::string_view metric : metrics) {
    for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
      const Channel& channel = telemetry.channels[i];
      if (channel.metric == metric && !channel.instance.empty()) cpus[channel.instance].push_back(i);
    }
  }
  std::erase_if(cpus, [&](const auto& cpu) { return cpu.second.size() != metrics.size(); });
  return cpus;
}

// Guest time is already inside user.
constexpr std::array<std::string_view, 3> kBusy{"cpu.user", "cpu.nice", "cpu.system"};
constexpr std::array<std::string_view, 2> kInterrupts{"cpu.irq", "cpu.softirq"};
constexpr std::string_view kAllowed = "job.cpu_allowed";
constexpr std::string_view kOfJob = "job.cpu_time";
constexpr std::string_view kOurs = "self.cpu_time";

/// Nobody can use less than nothing: a level below this, over whole seconds, proves that the job is charged more than
/// what /proc/stat calls busy.
constexpr double kBelowZero = -0.05;
constexpr double kLowQuantile = 0.1;

/// Adds the given cpu time of every cpu the job may use, in cpus. False when it is not known which these are.
bool add_allowed(const Telemetry& telemetry, std::span<const std::string_view> metrics, Values& sum) {
  const double to_cpus = 1e-9 / telemetry.step_seconds;
  bool any = false;
  for (const auto& [cpu, channels] : per_cpu(telemetry, metrics)) {
    const auto allowed = find(telemetry, kAllowed, cpu);
    if (!allowed) continue;
    any = true;
    const auto member = telemetry.series(*allowed);
    for (std::size_t t = 0; t < telemetry.samples; ++t) {
      if (std::isnan(member[t])) {
        sum[t] = kNaN;
      } else if (member[t] > 0) {
        for (const std::size_t channel : channels) sum[t] += telemetry.series(channel)[t] * to_cpus;
      }
    }
  }
  return any;
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

}  // namespace

std::vector<double> outsider_cpu(const Telemetry& telemetry, DerivedState& state) {
  const auto job = find(telemetry, kOfJob, "");
  if (!job) return {};
  Values outsider(telemetry.samples, 0.0);
  if (!add_allowed(telemetry, kBusy, outsider)) return {};
  const double to_cpus = 1e-9 / telemetry.step_seconds;
  const auto own = find(telemetry, kOurs, "");
  const auto used = telemetry.series(*job);
  for (std::size_t t = 0; t < telemetry.samples; ++t) {
    outsider[t] -= used[t] * to_cpus;
    if (own) outsider[t] -= telemetry.series(*own)[t] * to_cpus;
  }
  if (!state.interrupts_are_charged) {
    state.interrupts_are_charged = low_level(outsider, telemetry.step_seconds) < kBelowZero;
  }
  if (*state.interrupts_are_charged) {
    Values charged = outsider;
    if (add_allowed(telemetry, kInterrupts, charged)) return charged;
  }
  return outsider;
}

}  // namespace reveal
