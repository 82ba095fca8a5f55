#include "postproc/detect/scan/claim.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>
#include <string_view>

#include "postproc/detect/scan/attribution.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/telemetry/programs.h"
#include "postproc/words/quantity.h"

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

/// "CPU time of python3 (rank 2)", "CPU time of the process of rank2".
std::string name_in_words(const Channel& channel) {
  constexpr std::string_view kProcess = "the process";
  std::string words(words_for(channel.metric));
  if (channel.instance.empty()) return words;
  const std::size_t process = words.find(kProcess);
  if (channel.program.empty() || process == std::string::npos) return words + " of " + instance_in_words(channel);
  return words.replace(process, kProcess.size(), instance_in_words(channel));
}

}  // namespace

std::string paper_claim(const Channel& channel, const Reason& reason) {
  for (const Phrase& phrase : kPhrases) {
    if (phrase.feature == reason.feature) return fmt::format(fmt::runtime(phrase.words), name_in_words(channel));
  }
  return fmt::format("{} departs from baseline in {}.", name_in_words(channel), reason.feature);
}

std::string plain_claim(const Channel& channel, const Reason& reason, double seconds) {
  const std::string unit = unit_of(channel);
  const std::string lasted = duration(std::round(seconds * 10) / 10);
  if (std::isnan(reason.expected)) {
    return fmt::format("{} was {} for {}; nothing else of it was measured.", name_in_words(channel),
                       quantity_of(channel.metric, reason.observed, unit), lasted);
  }
  const auto [now, before] = quantities_of(channel.metric, reason.observed, reason.expected, unit);
  const char* verb = reason.observed > reason.expected ? "rose to" : "fell to";
  return fmt::format("{} {} {} from {} for {}.", name_in_words(channel), verb, now, before, lasted);
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
