#include "postproc/compare/earlier_runs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "postproc/history/history.h"

namespace reveal {
namespace {

constexpr std::size_t kMostEarlierRuns = 20;  // an older run was of another machine, or of another version

std::vector<RunRecord> runs_known_of(const std::string& key, const std::string& array_task, const StatePlace& state) {
  std::error_code error;
  if (state.directory.empty() || !std::filesystem::exists(state.directory, error)) return {};
  try {
    return RunIndex(state.directory).runs(key, array_task);
  } catch (const Error&) {
    return {};  // then nothing is known of them, and the page reports that
  }
}

bool shows_the_spread(const RunRecord& run) {
  return run.accepted || run.why_not.starts_with(std::string(kHadFinding) + "history.");
}

/// The same task of an array, on the resources of the newest compared run: runs on several differ by more.
bool is_like(const RunRecord& run, const std::string& array_task, const std::vector<RunRecord>& compared) {
  return task_in_array(run.array) == array_task && (compared.empty() || has_same_resources(compared.front(), run));
}

}  // namespace

std::vector<double> seconds_of_earlier_runs(const std::vector<ComparedRun>& before,
                                            const std::vector<ComparedRun>& after, const StatePlace& state) {
  std::set<std::pair<std::string, std::string>> keys;  // with the task of an array
  std::set<std::int64_t> begins;
  for (const std::vector<ComparedRun>* side : {&before, &after}) {
    for (const ComparedRun& run : *side) {
      keys.emplace(run.report.history.key, task_in_array(run.report.job.array));
      begins.insert(run.report.job.begin_utc_ns);
    }
  }
  if (keys.size() != 1 || keys.begin()->first.empty()) return {};
  const auto& [key, task] = *keys.begin();
  std::vector<RunRecord> runs = runs_known_of(key, task, state);
  const auto others = std::stable_partition(
      runs.begin(), runs.end(), [&begins](const RunRecord& run) { return begins.count(run.begin_utc_ns) > 0; });
  const std::vector<RunRecord> compared(runs.begin(), others);
  runs.erase(runs.begin(), others);
  std::erase_if(runs, [&, &task = task](const RunRecord& run) {
    return !shows_the_spread(run) || !is_like(run, task, compared);
  });
  std::sort(runs.begin(), runs.end(),
            [](const RunRecord& a, const RunRecord& b) { return a.begin_utc_ns > b.begin_utc_ns; });
  if (runs.size() > kMostEarlierRuns) runs.resize(kMostEarlierRuns);
  std::reverse(runs.begin(), runs.end());
  std::vector<double> seconds;
  seconds.reserve(runs.size());
  for (const RunRecord& run : runs) seconds.push_back(run.seconds);
  return seconds;
}

}  // namespace reveal
