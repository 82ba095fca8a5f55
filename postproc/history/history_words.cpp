#include "postproc/history/history_words.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "postproc/words/quantity.h"
#include "postproc/words/times.h"

namespace reveal {

std::string fact_words(const HistoryChange& change) {
  const auto word = [](const std::string& value) { return value.empty() ? std::string("not set") : value; };
  return fmt::format("{} is {}, was {}", change.name, word(change.now), word(change.before));
}

std::string sentence_of(const HistoryComparison& history) {
  std::size_t channels = 0;
  std::size_t facts = 0;
  std::string run_time;
  for (const HistoryChange& change : history.changes) {
    channels += change.what == HistoryChange::What::channel ? 1 : 0;
    facts += change.what == HistoryChange::What::configuration ? 1 : 0;
    if (change.what == HistoryChange::What::run_time) {
      run_time = fmt::format("{:.0f} % {} than usual ({})", std::abs(change.percent),
                             change.percent > 0 ? "longer" : "shorter", duration(change.expected.value_or(0)));
    }
  }
  std::string text;
  if (history.status == HistoryStatus::too_few_runs) {
    text =
        fmt::format("{} {}; {} usable as a baseline ({} needed), so only the configuration was compared",
                    counted(static_cast<double>(history.runs), "earlier run"), history.runs == 1 ? "matches" : "match",
                    history.accepted == 1 ? "1 is" : fmt::format("{} are", history.accepted), kLeastRuns);
  } else {
    text = fmt::format("compared with {} since {}: ", counted(static_cast<double>(history.accepted), "run"),
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
