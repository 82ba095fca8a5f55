#include "postproc/detect/scan/claim.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>
#include <string_view>

#include "postproc/detect/scan/attribution.h"

namespace reveal {

namespace {

struct Phrase {
  std::string_view feature;
  std::string_view words;  // {} is the metric
};

constexpr std::array<Phrase, 17> kPhrases{{
    {"mean", "{} shows a different mean level versus baseline."},
    {"standard_deviation", "{} shows a different standard deviation versus baseline."},
    {"variance", "{} shows different within-window variance relative to baseline."},
    {"minimum", "{}'s minimum departs from the baseline reference, reflecting a single-window dip."},
    {"maximum", "{}'s maximum exceeds the baseline reference, reflecting a single-window spike."},
    {"median", "{} shows a different median versus baseline."},
    {"skewness", "{} is distributed with a different skewness within the window versus baseline."},
    {"kurtosis", "{} has heavier or lighter tails within the window versus baseline."},
    {"linear_trend_slope", "{} follows a different linear trend within the window versus baseline."},
    {"linear_trend_r", "{} follows a straight line within the window to a different degree versus baseline."},
    {"autocorrelation_lag_1", "{} exhibits different lag-1 autocorrelation with the baseline."},
    {"autocorrelation_lag_5", "{} exhibits different lag-5 autocorrelation with the baseline."},
    {"mean_abs_change", "{} changes from sample to sample by a different amount versus baseline."},
    {"kpss_lag_4", "{} departs from stationarity (KPSS) relative to baseline."},
    {"adf_lag_1", "{} shows different unit-root behaviour (ADF) relative to baseline."},
    {"adf_lag_1_p", "{} shows a different significance of its unit root (ADF) relative to baseline."},
    {"sum", "{} events within the window depart from baseline."},
}};

struct MetricWords {
  std::string_view metric;
  std::string_view words;
};

/// Where the metric's own name would puzzle the reader; everything else is shown under its name.
constexpr std::array<MetricWords, 26> kMetricWords{{
    {"cpu.user", "CPU user time"},
    {"cpu.system", "CPU system time"},
    {"cpu.idle", "CPU idle time"},
    {"cpu.iowait", "CPU time waiting for io"},
    {"cpu.softirq", "CPU time in softirqs"},
    {"cpu.steal", "CPU time taken by the hypervisor"},
    {"mem.dirty", "Dirty page cache"},
    {"mem.writeback", "Page cache under writeback"},
    {"mem.free", "Free memory"},
    {"mem.available", "Available memory"},
    {"disk.reads", "Disk reads"},
    {"disk.rsectors", "Disk read sectors"},
    {"disk.writes", "Disk writes"},
    {"disk.read_bytes", "Disk read volume"},
    {"disk.write_bytes", "Disk write volume"},
    {"disk.queue_time", "Waiting time in the disk's queue"},
    {"disk.flushes", "Disk flushes (fsync)"},
    {"net.rx_bytes", "Network receive throughput"},
    {"net.tx_bytes", "Network transmit throughput"},
    {"tcp.RetransSegs", "TCP segments sent again"},
    {"process.cpu_time", "CPU time of the process"},
    {"process.wait_time", "Time the process was ready but had no cpu"},
    {"process.migrations", "Migrations of the process between cpus"},
    {"pressure.cpu_some", "Time in which a task waited for a cpu"},
    {"pressure.io_some", "Time in which a task waited for io"},
    {"pressure.memory_some", "Time in which a task waited for memory"},
}};

std::string words_for(const Channel& channel) {
  std::string words = channel.metric;
  for (const MetricWords& row : kMetricWords) {
    if (row.metric == channel.metric) words = row.words;
  }
  return channel.instance.empty() ? words : words + " of " + channel.instance;
}

struct Scaled {
  double factor;
  std::string_view unit;
};

/// The largest step of the unit that leaves `value` at 1 or more.
Scaled readable(double value, Unit unit) {
  constexpr std::array<Scaled, 4> kBytes{{{1.0 / (1 << 30), "GiB"}, {1.0 / (1 << 20), "MiB"}, {1.0 / 1024, "KiB"}}};
  constexpr std::array<Scaled, 3> kTime{{{1e-9, "s"}, {1e-6, "ms"}, {1e-3, "us"}}};
  constexpr std::array<Scaled, 3> kHertz{{{1e-9, "GHz"}, {1e-6, "MHz"}, {1, "Hz"}}};
  const auto pick = [&](const auto& steps) {
    for (const Scaled& step : steps) {
      if (std::abs(value) * step.factor >= 1) return step;
    }
    return Scaled{1, name_of(unit)};
  };
  switch (unit) {
    case Unit::bytes:
      return pick(std::span(kBytes).first(3));
    case Unit::nanoseconds:
      return pick(kTime);
    case Unit::hertz:
      return pick(kHertz);
    case Unit::count:
      return {1, ""};
    default:
      return {1, name_of(unit)};
  }
}

std::string number(double value) {
  if (std::isnan(value)) return "an unknown value";
  const double size = std::abs(value);
  if (size >= 100 || value == std::round(value)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, size >= 10 ? 1 : size >= 0.1 ? 2 : 4);
}

}  // namespace

std::string paper_claim(const Channel& channel, const Reason& reason) {
  for (const Phrase& phrase : kPhrases) {
    if (phrase.feature == reason.feature) return fmt::format(fmt::runtime(phrase.words), words_for(channel));
  }
  return fmt::format("{} departs from baseline in {}.", words_for(channel), reason.feature);
}

std::string plain_claim(const Channel& channel, const Reason& reason, double seconds) {
  const bool rate = channel.kind == Kind::counter || channel.kind == Kind::event;
  const double larger = std::max(std::abs(reason.observed), std::abs(reason.expected));
  const Scaled scaled = readable(std::isnan(larger) ? 0 : larger, channel.unit);
  std::string unit(scaled.unit);
  if (rate) unit += "/s";
  if (!unit.empty() && unit.front() != '/') unit.insert(0, " ");
  const char* verb = reason.observed > reason.expected ? "rose to" : "fell to";
  return fmt::format("{} {} {}{} from {}{} for {} s.", words_for(channel), verb,
                     number(reason.observed * scaled.factor), unit, number(reason.expected * scaled.factor), unit,
                     number(std::round(seconds * 10) / 10));
}

std::string claim_of(const Episode& episode, std::span<const Channel> channels, double step_seconds) {
  const Reason* chosen = nullptr;
  for (const Reason& reason : episode.reasons) {
    if (channels[reason.channel].subsystem != episode.subsystem) continue;
    if (chosen == nullptr) chosen = &reason;
    const bool plain = reason.feature == "mean" || reason.feature == "level";
    if (!plain || std::isnan(reason.expected) || reason.share < kClaimShare * chosen->share) continue;
    chosen = &reason;
    break;
  }
  if (chosen == nullptr) return {};
  const double seconds = static_cast<double>(episode.end - episode.begin) * step_seconds;
  return plain_claim(channels[chosen->channel], *chosen, seconds);
}

}  // namespace reveal
