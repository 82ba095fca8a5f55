#include "postproc/history/history.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "hdf5schema/basics/enum_names.h"
#include "postproc/history/history_changes.h"
#include "postproc/history/history_words.h"
#include "postproc/peers/hardware_kinds.h"
#include "postproc/peers/node_pair.h"
#include "postproc/telemetry/snapshot_facts.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::string_view kStatuses[] = {"never_compared", "too_few_runs", "compared"};
constexpr std::string_view kWhats[] = {"run_time", "channel", "configuration"};

struct GivenResource {
  std::string_view fact;
  std::string_view differs;
};
constexpr GivenResource kGiven[] = {
    {"env.SLURM_CPUS_ON_NODE", "it had another number of cpus on a node"},
    {"env.SLURM_GPUS_ON_NODE", "it had another number of GPUs on a node"},
};

/// "it ran on other hardware (cpu.model)"; "" of two runs on the same resources, as far as these are known of both.
std::string other_resource(const RunRecord& one, const RunRecord& other) {
  for (const auto& [key, value] : one.facts) {
    const auto* const given = std::find_if(std::begin(kGiven), std::end(kGiven),
                                           [&key = key](const GivenResource& each) { return each.fact == key; });
    if (given == std::end(kGiven) && !names_the_kind(key)) continue;
    const auto theirs = fact_in(other.facts, key);
    if (!theirs || *theirs == value) continue;
    return given != std::end(kGiven) ? std::string(given->differs) : fmt::format("it ran on other hardware ({})", key);
  }
  return "";
}

/// "it failed"; "" of a run that is one of the baseline.
std::string why_no_baseline(const RunRecord& run, const RunRecord& earlier) {
  if (earlier.accepted) return other_resource(run, earlier);
  if (earlier.why_not.empty()) return "it was not accepted, for a reason that was not recorded";
  return earlier.why_not.starts_with(kHadFinding) ? "it had a finding" : earlier.why_not;
}

/// "; 41 were left out, each because it failed, and 9 for other reasons": the most frequent reason. "" if none was.
std::string left_out_words(const RunRecord& run, const std::vector<const RunRecord*>& before) {
  std::map<std::string, std::size_t> reasons;
  std::size_t all = 0;
  for (const RunRecord* earlier : before) {
    const std::string reason = why_no_baseline(run, *earlier);
    if (reason.empty()) continue;
    ++reasons[reason];
    ++all;
  }
  if (all == 0) return "";
  const auto& [reason, count] = *std::max_element(reasons.begin(), reasons.end(),
                                                  [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string words = fmt::format("; {} left out{} because {}", count == 1 ? "1 was" : fmt::format("{} were", count),
                                  count == 1 ? "" : ", each", reason);
  if (all > count) words += fmt::format(", and {} for other reasons", all - count);
  return words;
}

void compare_facts(const RunRecord& run, const RunRecord& before, HistoryComparison& history) {
  if (run.facts.empty() || before.facts.empty()) return;              // not kept, as of an old run
  std::map<std::string, std::pair<std::string, std::string>> values;  // before, now
  for (const auto& [key, value] : before.facts) values[key].first = value;
  for (const auto& [key, value] : run.facts) values[key].second = value;
  const auto is_mixed = [&](const std::string& key) {
    return std::binary_search(run.mixed_facts.begin(), run.mixed_facts.end(), key) ||
           std::binary_search(before.mixed_facts.begin(), before.mixed_facts.end(), key);
  };
  for (const auto& [key, both] : values) {
    if (is_same_setting(key, both.first, both.second) || is_mixed(key)) continue;
    HistoryChange change{.what = HistoryChange::What::configuration, .name = key};
    change.before = both.first;
    change.now = both.second;
    change.since_utc_ns = before.begin_utc_ns;
    if (history.changes.size() >= 2 * kMostChanges) {
      ++history.changes_left_out;
    } else {
      history.changes.push_back(std::move(change));
    }
  }
}

void list_earlier(const std::vector<const RunRecord*>& all, const std::vector<const RunRecord*>& baseline,
                  HistoryComparison& history) {
  const std::size_t first = all.size() - std::min(all.size(), kDrawnRuns);
  for (std::size_t i = first; i < all.size(); ++i) {
    const bool in_baseline = std::find(baseline.begin(), baseline.end(), all[i]) != baseline.end();
    history.earlier.push_back({all[i]->begin_utc_ns, all[i]->seconds, in_baseline});
  }
}

}  // namespace

std::string_view name_of(HistoryStatus status) noexcept {
  return kStatuses[static_cast<std::size_t>(status)];
}
std::optional<HistoryStatus> history_status_of(std::string_view name) noexcept {
  return enumerator_of<HistoryStatus>(kStatuses, name);
}
std::string_view name_of(HistoryChange::What what) noexcept {
  return kWhats[static_cast<std::size_t>(what)];
}
std::optional<HistoryChange::What> history_change_of(std::string_view name) noexcept {
  return enumerator_of<HistoryChange::What>(kWhats, name);
}

std::vector<const RunRecord*> runs_before(const RunRecord& run, const std::vector<RunRecord>& earlier) {
  std::vector<const RunRecord*> all;
  const std::string task = task_in_array(run.array);
  for (const RunRecord& record : earlier) {
    // A report made again long after must not be held against runs that came later.
    const bool later = record.begin_utc_ns >= run.begin_utc_ns;
    if (!later && record.key == run.key && task_in_array(record.array) == task) all.push_back(&record);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const RunRecord* a, const RunRecord* b) { return a->begin_utc_ns < b->begin_utc_ns; });
  std::set<std::string> seen{run.run_id};
  std::erase_if(all, [&](const RunRecord* record) { return !seen.insert(record->run_id).second; });
  return all;
}

bool has_same_resources(const RunRecord& one, const RunRecord& other) {
  return other_resource(one, other).empty();
}

std::vector<const RunRecord*> baseline_among(const RunRecord& run, const std::vector<const RunRecord*>& before) {
  std::vector<const RunRecord*> baseline;
  std::copy_if(before.begin(), before.end(), std::back_inserter(baseline),
               [&run](const RunRecord* one) { return why_no_baseline(run, *one).empty(); });
  return baseline;
}

HistoryComparison compare_runs(const RunRecord& run, const std::vector<RunRecord>& earlier,
                               const AnalysisSettings& settings) {
  HistoryComparison history;
  history.reason.clear();
  history.key = run.key;
  history.enters_baseline = run.accepted;
  history.why_not = run.why_not;
  const std::vector<const RunRecord*> all = runs_before(run, earlier);
  const std::vector<const RunRecord*> baseline_runs = baseline_among(run, all);
  history.runs = all.size();
  list_earlier(all, baseline_runs, history);
  history.accepted = baseline_runs.size();
  if (all.empty()) {
    history.reason = task_in_array(run.array).empty() ? "no earlier run of this command and shape is known"
                                                      : "no earlier run of this task of the array is known";
    return history;
  }
  if (baseline_runs.size() < kLeastRuns) {
    history.status = HistoryStatus::too_few_runs;
    history.reason = fmt::format(
        "{} {}; {} usable as a baseline ({} needed){}", counted(static_cast<double>(all.size()), "earlier run"),
        all.size() == 1 ? "matches" : "match", history.accepted == 1 ? "1 is" : fmt::format("{} are", history.accepted),
        kLeastRuns, left_out_words(run, all));
  } else {
    history.status = HistoryStatus::compared;
    compare_run_time(run, baseline_runs, settings, history);
    compare_channels(run, baseline_runs, history);
  }
  if (!baseline_runs.empty()) {
    history.first_utc_ns = baseline_runs.front()->begin_utc_ns;
    history.last_utc_ns = baseline_runs.back()->begin_utc_ns;
  }
  compare_facts(run, baseline_runs.empty() ? *all.back() : *baseline_runs.back(), history);
  history.sentence = sentence_of(history);
  return history;
}

}  // namespace reveal
