#include "postproc/compare/earlier_runs.h"

#include <algorithm>
#include <set>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

constexpr std::size_t kMostEarlierRuns = 20;  // an older run was of another machine, or of another version

std::vector<RunRecord> runs_known_of(const std::string& key, const StatePlace& state) {
  std::error_code error;
  if (state.directory.empty() || !std::filesystem::exists(state.directory, error)) return {};
  try {
    return RunIndex(state.directory).runs(key);
  } catch (const Error&) {
    return {};  // then nothing is known of them, and the page reports that
  }
}

bool shows_the_spread(const RunRecord& run) {
  return run.accepted || run.why_not.starts_with(std::string(kHadFinding) + "history.");
}

}  // namespace

std::vector<double> seconds_of_earlier_runs(const std::vector<ComparedRun>& before,
                                            const std::vector<ComparedRun>& after, const StatePlace& state) {
  std::set<std::string> keys;
  std::set<std::int64_t> begins;
  for (const std::vector<ComparedRun>* side : {&before, &after}) {
    for (const ComparedRun& run : *side) {
      keys.insert(run.report.history.key);
      begins.insert(run.report.job.begin_utc_ns);
    }
  }
  if (keys.size() != 1 || keys.begin()->empty()) return {};
  std::vector<RunRecord> runs = runs_known_of(*keys.begin(), state);
  std::erase_if(runs,
                [&](const RunRecord& run) { return !shows_the_spread(run) || begins.count(run.begin_utc_ns) > 0; });
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
