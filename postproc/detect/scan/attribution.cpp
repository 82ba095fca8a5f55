#include "postproc/detect/scan/attribution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

#include "postproc/numerics/present_values.h"

namespace reveal {

namespace {

constexpr double kSameEvidence = 0.98;  // |r| above which two series are one piece of evidence
constexpr std::size_t kPerSubsystem = 8;
constexpr double kCloseSecond = 0.6;

const char* feature_name(SeriesForm form, Kind kind) {
  switch (form) {
    case SeriesForm::rate:
      return kind == Kind::gauge ? "change" : "mean";
    case SeriesForm::level:
      return "level";
    case SeriesForm::contrast:
      return "contrast";
  }
  return "mean";
}

void name_subsystems(const ScanInput& input, const SeriesCorrelation& correlation, const std::vector<double>& z,
                     Attribution& result) {
  std::vector<std::size_t> order(z.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(z[a]) > std::abs(z[b]); });

  std::array<std::vector<std::size_t>, kSubsystemCount> chosen;
  std::array<double, kSubsystemCount> sum{};
  for (const std::size_t i : order) {
    const auto subsystem = static_cast<std::size_t>(input.series[i].subsystem);
    std::vector<std::size_t>& mine = chosen[subsystem];
    if (mine.size() == kPerSubsystem) continue;
    const auto same = [&](std::size_t k) { return std::abs(correlation.between(i, k)) > kSameEvidence; };
    if (std::any_of(mine.begin(), mine.end(), same)) continue;
    mine.push_back(i);
    sum[subsystem] += std::abs(z[i]);
  }
  std::tie(result.subsystem, result.second_subsystem) = leading_subsystems(sum);
}

}  // namespace

Attribution attribute(const Telemetry& telemetry, ReferenceMeans& reference, const SeriesCorrelation& correlation,
                      std::size_t offset, const ScoredInterval& interval, std::size_t filled) {
  const ScanInput& input = reference.input();
  std::vector<double> z(input.series.size());
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (!is_memory_level(input.series[i])) z[i] = reference.z(i, interval.begin, interval.end);
  }

  Attribution result;
  result.reasons.resize(telemetry.channels.size());
  for (std::size_t c = 0; c < result.reasons.size(); ++c) result.reasons[c] = {.channel = c, .feature = "mean"};
  const auto offer = [&](std::size_t channel, std::size_t series) {
    Reason& reason = result.reasons[channel];
    if (std::abs(z[series]) <= std::abs(reason.z)) return;
    reason.z = z[series];
    reason.feature = feature_name(input.series[series].form, telemetry.channels[channel].kind);
  };
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (input.series[i].form != SeriesForm::contrast) offer(input.series[i].channel, i);
  }
  // A difference of two does not show which of them moved: the stranger one is taken.
  for (std::size_t i = 0; i < z.size(); ++i) {
    const ScanSeries& series = input.series[i];
    if (series.form != SeriesForm::contrast) continue;
    const bool peer = std::abs(result.reasons[series.peer].z) > std::abs(result.reasons[series.channel].z);
    offer(peer ? series.peer : series.channel, i);
  }
  for (Reason& reason : result.reasons) reason.share = std::abs(reason.z);
  sort_by_share(result.reasons);
  name_subsystems(input, correlation, z, result);
  // A claim is about the subsystem's first reason, or one at least half as strong.
  const auto leading = std::find_if(result.reasons.begin(), result.reasons.end(), [&](const Reason& reason) {
    return telemetry.channels[reason.channel].subsystem == result.subsystem;
  });
  const double least = leading == result.reasons.end() ? 1 : kClaimShare * leading->share;
  const auto last = std::partition_point(result.reasons.begin(), result.reasons.end(),
                                         [&](const Reason& reason) { return reason.share >= least; });
  filled = std::max(filled, static_cast<std::size_t>(last - result.reasons.begin()));
  fill_levels(telemetry, offset + interval.begin, offset + interval.end,
              std::span(result.reasons).first(std::min(filled, result.reasons.size())));
  return result;
}

void fill_levels(const Telemetry& telemetry, std::size_t begin, std::size_t end, std::span<Reason> reasons) {
  for (Reason& reason : reasons) {
    const auto values = telemetry.series(reason.channel);
    end = std::min(end, values.size());
    begin = std::min(begin, end);
    const PresentValues inside = present_values(values.subspan(begin, end - begin));
    const PresentValues before = present_values(values.first(begin));
    const PresentValues after = present_values(values.subspan(end));
    const Kind kind = telemetry.channels[reason.channel].kind;
    const double per = is_counted(kind) ? telemetry.step_seconds : 1;
    reason.observed = inside.mean() / per;  // NaN where nothing was measured
    reason.expected = (before.sum + after.sum) / static_cast<double>(before.present + after.present) / per;
  }
}

std::pair<Subsystem, Subsystem> leading_subsystems(const std::array<double, kSubsystemCount>& shares) {
  const auto first = static_cast<std::size_t>(std::max_element(shares.begin(), shares.end()) - shares.begin());
  std::size_t second = first;
  double runner_up = kCloseSecond * shares[first];
  for (std::size_t s = 0; s < kSubsystemCount; ++s) {
    if (s == first || shares[s] <= runner_up) continue;
    runner_up = shares[s];
    second = s;
  }
  return {static_cast<Subsystem>(first), static_cast<Subsystem>(second)};
}

void sort_by_share(std::vector<Reason>& reasons) {
  double total = 0;
  for (const Reason& reason : reasons) total += reason.share;
  if (total > 0) {
    for (Reason& reason : reasons) reason.share /= total;
  }
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
}

}  // namespace reveal
