#include "postproc/history/history_words.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "postproc/words/quantity.h"
#include "postproc/words/times.h"

namespace reveal {

std::string fact_words(const HistoryChange& change) {
  // All of the environment that is compared is read at once; any other fact may not have been readable.
  const char* const missing = change.name.starts_with("env.") ? "not set" : "not recorded";
  const auto word = [missing](const std::string& value) { return value.empty() ? missing : value; };
  return fmt::format("{} is {}, was {}", change.name, word(change.now), word(change.before));
}

namespace {

/// "25 % longer than usual (600 s)"
std::string run_time_words(const HistoryChange& change) {
  return fmt::format("{:.0f} % {} than {} ({})", std::abs(change.percent), change.percent > 0 ? "longer" : "shorter",
                     change.drift ? "its first runs" : "usual", duration(change.expected.value_or(0)));
}

/// "12 runs", "the last 20 of 57 runs"
std::string baseline_words(std::size_t accepted) {
  const std::string runs = counted(static_cast<double>(accepted), "run");
  return accepted > kRecentRuns ? fmt::format("the last {} of {}", kRecentRuns, runs) : runs;
}

}  // namespace

std::string sentence_of(const HistoryComparison& history) {
  std::size_t channels = 0;
  std::size_t facts = 0;
  std::string run_time;
  for (const HistoryChange& change : history.changes) {
    channels += change.what == HistoryChange::What::channel ? 1 : 0;
    facts += change.what == HistoryChange::What::configuration ? 1 : 0;
    if (change.what == HistoryChange::What::run_time) run_time = run_time_words(change);
  }
  std::string text;
  if (history.status == HistoryStatus::too_few_runs) {
    text = history.reason + "; only the configuration was compared";
  } else {
    text = fmt::format("compared with {} since {}: ", baseline_words(history.accepted),
                       date_and_time(history.first_utc_ns));
    std::vector<std::string> parts;
    if (!run_time.empty()) parts.push_back(run_time);
    if (channels > 0) parts.push_back(fmt::format("{} of {} channels changed", channels, history.channels));
    if (parts.empty()) parts.emplace_back("no change");
    for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
  }
  if (facts > 0) {
    const auto first = std::find_if(history.changes.begin(), history.changes.end(), [](const HistoryChange& change) {
      return change.what == HistoryChange::What::configuration;
    });
    text += fmt::format("; new since the run of {}: {}", date_and_time(first->since_utc_ns), fact_words(*first));
    if (facts > 1) text += fmt::format(" and {} more", counted(static_cast<double>(facts - 1), "fact"));
  }
  return text;
}

}  // namespace reveal
