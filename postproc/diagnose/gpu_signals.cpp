#include "postproc/diagnose/gpu_signals.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/numerics/percentile.h"
#include "postproc/telemetry/snapshot_facts.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr double kBusy = 50;      // percent
constexpr double kLeastWork = 5;  // percent; a GPU that only shows a desktop has less
constexpr double kMega = 1e6;

bool names_gpu(const Snapshot& facts, std::string_view prefix) {
  return std::any_of(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first.starts_with(prefix); });
}

std::string fact_of_gpu(const Snapshot& begin, const Snapshot& end, const std::string& gpu, std::string_view key) {
  const std::string name = "gpu." + gpu + '.' + std::string(key);
  const std::string_view value = fact_in(end, name).value_or("");
  return std::string(value.empty() ? fact_in(begin, name).value_or("") : value);
}

/// Mean over the steps for which `chosen` holds; nothing where there is none.
template <typename Chosen>
std::optional<double> mean_where(std::span<const double> series, const Chosen& chosen) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t t = 0; t < series.size(); ++t) {
    if (std::isnan(series[t]) || !chosen(t)) continue;
    sum += series[t];
    ++count;
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

/// The level that 95 % of the values do not exceed; NaN where there is none.
double usual_high(std::span<const double> series) {
  constexpr double kUsualHigh = 95;  // percent
  std::vector<double> values;
  std::copy_if(series.begin(), series.end(), std::back_inserter(values),
               [](double value) { return !std::isnan(value); });
  return values.empty() ? std::nan("") : lower_percentile(values, kUsualHigh);
}

std::optional<double> megahertz(std::optional<double> hertz) {
  return hertz ? std::optional(*hertz / kMega) : std::nullopt;
}

HeldBack look_at(const RuleContext& context, const std::string& gpu, std::span<const std::string_view> reasons,
                 std::string_view unless) {
  HeldBack held{.gpu = gpu};
  const std::span<const double> use = gpu_series(context, "gpu.utilization", gpu);
  const std::span<const double> excuse = unless.empty() ? std::span<const double>() : gpu_series(context, unless, gpu);
  std::vector<bool> is_held(use.size(), false);
  std::vector<bool> is_free(use.size(), false);
  std::vector<bool> is_known(use.size(), false);
  double most = 0;
  for (const std::string_view reason : reasons) {
    const std::span<const double> set = gpu_series(context, reason, gpu);
    double seconds = 0;
    for (std::size_t t = 0; t < set.size(); ++t) {
      if (std::isnan(use[t]) || std::isnan(set[t])) continue;
      is_known[t] = true;
      if (use[t] < kBusy) continue;
      is_free[t] = true;
      if (set[t] < 1 || (!excuse.empty() && excuse[t] >= 1)) continue;
      is_held[t] = true;
      seconds += context.telemetry.step_seconds;
    }
    if (seconds > most) {
      most = seconds;
      held.metric = reason;
    }
  }
  std::size_t row = 0;
  std::size_t longest = 0;
  for (std::size_t t = 0; t < use.size(); ++t) {
    held.busy_seconds += is_free[t] ? context.telemetry.step_seconds : 0;
    if (is_known[t]) row = is_held[t] ? row + 1 : 0;  // with many GPUs, they are not asked each second
    longest = std::max(longest, row);
    is_free[t] = is_free[t] && !is_held[t];
    if (!is_held[t]) continue;
    held.seconds += context.telemetry.step_seconds;
    if (held.at.length() == 0) held.at.begin = t;
    held.at.end = t + 1;
  }
  held.longest = context.seconds(longest);
  const std::span<const double> clock = gpu_series(context, "gpu.sm_clock", gpu);
  held.clock = megahertz(mean_where(clock, [&](std::size_t t) { return is_held[t]; }));
  held.clock_otherwise = megahertz(mean_where(clock, [&](std::size_t t) { return is_free[t]; }));
  return held;
}

/// Bytes a second of both counters of one direction.
std::vector<double> through_network(const RuleContext& context, std::string_view of_interface,
                                    std::string_view of_port) {
  std::map<std::string, std::vector<double>> ways;
  const auto moved_by = [&](std::size_t channel) {
    std::vector<double> moved = channel_rate(context, channel, 1, "bytes/s").values;
    for (double& value : moved) value = std::isnan(value) ? 0 : value;
    return moved;
  };
  for (const std::size_t channel : channels_that_lead_out(context, of_interface)) {
    ways[context.telemetry.channels[channel].instance] = moved_by(channel);
  }
  for (const std::size_t channel : context.channels(of_port)) {
    const std::string& port = context.telemetry.channels[channel].instance;  // "mlx5_0:1"
    std::vector<double> moved = moved_by(channel);
    std::string key = "rdma." + port;
    std::replace(key.begin(), key.end(), ':', '.');
    const std::string interface = context.snapshot_value(key + ".interface");
    if (!interface.empty() && !ways.contains(interface)) {
      // That of a bond: its members have a part of these bytes.
      for (const std::size_t bond : context.channels(of_interface, interface)) {
        const std::vector<double> counted = moved_by(bond);
        for (std::size_t t = 0; t < moved.size(); ++t) moved[t] = std::max(0.0, moved[t] - counted[t]);
      }
    }
    std::vector<double>& way = ways[interface.empty() ? port : interface];
    way.resize(moved.size(), 0);
    for (std::size_t t = 0; t < moved.size(); ++t) way[t] = std::max(way[t], moved[t]);
  }
  std::vector<double> sum;
  for (const auto& [name, moved] : ways) {
    sum.resize(moved.size(), 0);
    for (std::size_t t = 0; t < moved.size(); ++t) sum[t] += moved[t];
  }
  return sum;
}

}  // namespace

bool is_gpu_of_job(const Snapshot& begin, const Snapshot& end, const std::string& gpu) {
  const bool at_end = names_gpu(end, "gpu.gpu");
  const bool named = at_end || names_gpu(begin, "gpu.gpu");
  return !named || names_gpu(at_end ? end : begin, "gpu." + gpu + '.');
}

std::vector<std::string> gpus_measured(const RuleContext& context) {
  std::vector<std::string> gpus;
  for (const std::size_t channel : context.channels("gpu.utilization")) {
    const std::string& gpu = context.telemetry.channels[channel].instance;
    if (is_gpu_of_job(context.begin, context.end, gpu)) gpus.push_back(gpu);
  }
  if (gpus.empty()) throw Unavailable("not measured: gpu.utilization (no GPU, or it could not be read)");
  return gpus;
}

std::span<const double> gpu_series(const RuleContext& context, std::string_view metric, const std::string& gpu) {
  const auto channels = context.channels(metric, gpu);
  return channels.empty() ? std::span<const double>() : context.telemetry.series(channels.front());
}

std::string gpu_fact(const RuleContext& context, const std::string& gpu, std::string_view key) {
  return fact_of_gpu(context.begin, context.end, gpu, key);
}

std::optional<double> gpu_number(const RuleContext& context, const std::string& gpu, std::string_view key) {
  const std::string text = gpu_fact(context, gpu, key);
  double value = 0;
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return !text.empty() && read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

JobValues gpu_values(const RuleContext& context, const std::string& gpu) {
  const std::string address = gpu_fact(context, gpu, "address");
  JobValues values{{"gpu", address.empty() ? gpu.substr(std::min<std::size_t>(3, gpu.size())) : address}};
  const std::string vendor = gpu_fact(context, gpu, "vendor");  // the probe of NVIDIA's GPUs has no such fact
  values[vendor == "AMD" ? "amd" : vendor == "Intel" ? "intel" : "nvidia"] = "yes";
  return values;
}

int gpu_numa_node(const RuleContext& context, const std::string& gpu) {
  return static_cast<int>(parse_int(gpu_fact(context, gpu, "numa_node")).value_or(-1));
}

bool is_divided(const RuleContext& context, const std::string& gpu) {
  return is_divided(context.begin, context.end, gpu);
}

bool is_divided(const Snapshot& begin, const Snapshot& end, const std::string& gpu) {
  const std::string partition = fact_of_gpu(begin, end, gpu, "partition");
  return fact_of_gpu(begin, end, gpu, "mig") == "enabled" || (!partition.empty() && partition != "SPX");
}

std::string gpu_name(const RuleContext& context, const std::string& gpu) {
  const std::string address = gpu_fact(context, gpu, "address");
  if (address.empty()) return gpu;
  const bool amd = gpu_fact(context, gpu, "vendor") == "AMD";
  const char* divided = !is_divided(context, gpu) ? "" : amd ? ", divided into partitions" : ", divided by MIG";
  return fmt::format("{} ({}{})", gpu, address, divided);
}

GpuWords gpu_words(const RuleContext& context) {
  const bool one = gpus_measured(context).size() == 1;
  return {fmt::format("The job's GPU{} on node {}", one ? "" : "s", context.telemetry.node), one ? "it" : "they",
          one ? "its" : "their", one ? "was" : "were"};
}

Finding gpu_finding(const RuleContext& context, const std::string& gpu, const JobValues& more) {
  JobValues values = gpu_values(context, gpu);
  values.insert(more.begin(), more.end());
  Finding finding = context.finding(values);
  finding.confidence = Confidence::certain;
  finding.instances = {gpu};
  finding.intervals = {context.span(0, context.telemetry.samples)};
  return finding;
}

Interval working_phase(std::span<const double> use) {
  const Interval any = active_phase(use, kLeastWork);
  if (any.length() == 0) return any;
  const double high = usual_high(use.subspan(any.begin, any.length()));
  return active_phase(use, std::clamp(high / 2, kLeastWork, kGpuWorks));
}

Interval active_phase(std::span<const double> series, double level) {
  Interval phase;
  for (std::size_t t = 0; t < series.size(); ++t) {
    if (!(series[t] >= level)) continue;
    if (phase.length() == 0) phase.begin = t;
    phase.end = t + 1;
  }
  return phase;
}

std::optional<double> HeldBack::lost_seconds() const {
  if (!clock || !clock_otherwise || *clock_otherwise <= 0 || *clock >= *clock_otherwise) return std::nullopt;
  return seconds * (1 - *clock / *clock_otherwise);
}

std::vector<HeldBack> held_back(const RuleContext& context, std::span<const std::string_view> reasons,
                                std::string_view unless) {
  std::vector<HeldBack> all;
  bool known = false;
  for (const std::string& gpu : gpus_measured(context)) {
    for (const std::string_view reason : reasons) known = known || !gpu_series(context, reason, gpu).empty();
    HeldBack held = look_at(context, gpu, reasons, unless);
    if (held.seconds > 0) all.push_back(std::move(held));
  }
  if (!known) throw Unavailable("not measured: " + std::string(reasons.front()) + " (the driver does not report it)");
  std::stable_sort(all.begin(), all.end(), [](const HeldBack& a, const HeldBack& b) { return a.seconds > b.seconds; });
  return all;
}

Finding held_back_finding(const RuleContext& context, const HeldBack& held, const JobValues& more) {
  Finding finding = gpu_finding(context, held.gpu, more);
  finding.intervals = {context.span(held.at.begin, held.at.end)};
  finding.impact.seconds = held.lost_seconds();
  if (finding.impact.seconds) finding.impact.percent = 100 * *finding.impact.seconds / job_seconds(context);
  finding.impact.at_most = finding.impact.seconds.has_value();  // work that waits for memory does not follow the clock
  finding.impact.how =
      finding.impact.seconds
          ? fmt::format("its multiprocessors ran at {} MHz instead of {} MHz, if its work depends on their clock",
                        number(*held.clock), number(*held.clock_otherwise))
          : "not known: its clocks without this limit were not measured";
  Evidence reason = fact(context, held.metric, held.gpu, "share of the time it worked", held.share(), 0, "ratio");
  reason.span = finding.intervals.front();
  finding.evidence.push_back(std::move(reason));
  if (held.clock) {
    constexpr double kHertz = kMega;
    const auto otherwise = held.clock_otherwise ? std::optional(*held.clock_otherwise * kHertz) : std::nullopt;
    finding.evidence.push_back(fact(context, "gpu.sm_clock", held.gpu, "mean", *held.clock * kHertz, otherwise, "Hz"));
  }
  return finding;
}

std::string more_gpus(std::size_t held) {
  return held > 1 ? fmt::format(" {} more GPUs of the job had the same problem.", held - 1) : "";
}

std::vector<std::string> working_gpus(const RuleContext& context) {
  std::vector<std::string> full;
  std::vector<std::string> partly;
  for (const std::string& gpu : gpus_measured(context)) {
    const auto use = gpu_series(context, "gpu.utilization", gpu);
    if (active_phase(use, kGpuWorks).length() > 0) {
      full.push_back(gpu);
    } else if (working_phase(use).length() > 0) {
      partly.push_back(gpu);
    }
  }
  return full.empty() ? partly : full;
}

std::vector<double> mean_gpu_use(const RuleContext& context, std::string& first) {
  std::vector<double> sum(context.telemetry.samples, 0);
  std::vector<double> count(context.telemetry.samples, 0);
  for (const std::string& gpu : working_gpus(context)) {
    if (is_divided(context, gpu)) continue;
    if (first.empty()) first = gpu;
    const auto use = gpu_series(context, "gpu.utilization", gpu);
    for (std::size_t t = 0; t < use.size(); ++t) {
      if (std::isnan(use[t])) continue;
      sum[t] += use[t];
      count[t] += 1;
    }
  }
  for (std::size_t t = 0; t < sum.size(); ++t) sum[t] = count[t] > 0 ? sum[t] / count[t] : std::nan("");
  return sum;
}

std::optional<Standstill> standstill(const RuleContext& context) {
  Standstill found;
  const std::vector<double> use = mean_gpu_use(context, found.gpu);
  found.phase = working_phase(use);
  found.never_full = active_phase(use, kGpuWorks).length() == 0;
  const double seconds = context.seconds(found.phase.length());
  const double least = context.threshold("min_seconds");
  if (found.phase.length() == 0) return std::nullopt;
  if (seconds < least) {
    throw Unavailable(
        fmt::format("the GPUs worked within {} only, and {} are needed", duration(seconds), duration(least)));
  }
  found.idle.assign(use.size(), false);
  std::size_t known = 0;
  std::size_t idle = 0;
  double sum = 0;
  for (std::size_t t = found.phase.begin; t < found.phase.end; ++t) {
    if (std::isnan(use[t])) continue;
    ++known;
    sum += use[t];
    found.idle[t] = use[t] < context.threshold("max_use");
    idle += found.idle[t] ? 1 : 0;
  }
  found.use = sum / static_cast<double>(known);
  const double idle_share = static_cast<double>(idle) / static_cast<double>(known);
  const double unused = 1 - found.use / 100;
  if (idle_share < context.threshold("min_idle")) {
    // Waits that are shorter than a look at the GPU show as a part of each look.
    if (unused < 2 * context.threshold("min_idle")) return std::nullopt;
    for (std::size_t t = found.phase.begin; t < found.phase.end; ++t) found.idle[t] = !std::isnan(use[t]);
  }
  found.seconds = unused * context.seconds(found.phase.length());
  return found;
}

double mean_then(const Standstill& still, std::span<const double> series) {
  return mean_where(series, [&still](std::size_t t) { return still.idle[t]; }).value_or(std::nan(""));
}

Meanwhile meanwhile(const RuleContext& context, const Standstill& still) {
  Meanwhile now;
  const auto cpu = rate(context, "job.cpu_time", 1e-9, "cpus");
  now.cpus = cpu ? mean_then(still, cpu->values) : std::nan("");
  now.cpus_allowed = static_cast<double>(parse_cpu_list(context.snapshot_value("job.cpus_allowed")).size());
  for (const std::size_t channel : context.channels("process.cpu_time")) {
    const double used = mean_then(still, channel_rate(context, channel, 1e-9, "cpus").values);
    if (!(used > now.busiest)) {
      now.second = std::fmax(now.second, used);
      continue;
    }
    now.second = std::exchange(now.busiest, used);
    now.process = context.telemetry.channels[channel].instance;
  }
  const auto wait = pressure_wait(context, Pressure::io_some);
  now.io_wait = wait ? mean_then(still, wait->values) : std::nan("");
  if (wait) now.io_wait_metric = wait->metric;
  const auto blocked = context.channels("job.blocked");
  now.blocked = blocked.empty() ? std::nan("") : mean_then(still, context.telemetry.series(blocked.front()));
  return now;
}

Finding standstill_finding(const RuleContext& context, const Standstill& still, const JobValues& more) {
  Finding finding = context.finding(more);
  finding.confidence = Confidence::likely;
  finding.intervals = {context.span(still.phase.begin, still.phase.end)};
  set_most_loss(context, finding, still.seconds, std::string(still.how));
  if (still.never_full) {
    finding.severity = Severity::notice;
    finding.confidence = Confidence::possible;
  }
  Evidence use = fact(context, "gpu.utilization", still.gpu, "mean", still.use, std::nullopt, "percent");
  use.span = finding.intervals.front();
  finding.evidence.push_back(std::move(use));
  return finding;
}

Evidence fact_then(const RuleContext& context, const Finding& finding, std::string metric, const std::string& instance,
                   double observed, std::optional<double> of, std::string unit) {
  Evidence evidence =
      fact(context, std::move(metric), instance, "mean while the GPUs were idle", observed, of, std::move(unit));
  evidence.span = finding.intervals.front();
  return evidence;
}

std::vector<double> sent_away(const RuleContext& context) {
  return through_network(context, "net.tx_bytes", "ib.xmit_bytes");
}

std::vector<double> came_in(const RuleContext& context) {
  return through_network(context, "net.rx_bytes", "ib.rcv_bytes");
}

std::vector<double> mean_gpu_power(const RuleContext& context) {
  std::vector<double> sum;
  double count = 0;
  for (const std::string& gpu : working_gpus(context)) {
    const auto power = gpu_series(context, "gpu.power", gpu);
    if (power.empty()) continue;
    sum.resize(context.telemetry.samples, 0);
    for (std::size_t t = 0; t < sum.size(); ++t) sum[t] += power[t];
    count += 1;
  }
  for (double& value : sum) value /= count;
  return sum;
}

double usual_gpu_power(std::span<const double> power, Interval phase) {
  return usual_high(power.subspan(phase.begin, phase.length()));
}

}  // namespace reveal
