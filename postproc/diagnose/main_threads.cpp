#include "postproc/diagnose/main_threads.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kThreadsOfNode = 64;  // of a node
constexpr std::size_t kPlacesOfThread = 5;
constexpr std::size_t kSentencesOfFinding = 4;
constexpr double kFewestSamples = 5;    // while the finding lasted
constexpr double kMostlyThere = 0.5;    // of them in one place
constexpr double kAlways = 0.9;         // where there is no other time
constexpr double kMoreThanElse = 0.25;  // than of those at other times

using SamplesByPlace = std::map<std::int32_t, double>;  // samples by place

double samples_in(const SamplesByPlace& counts) {
  double sum = 0;
  for (const auto& [place, samples] : counts) sum += samples;
  return sum;
}

/// The most frequent place that has a name.
std::pair<std::int32_t, double> most_frequent(const SamplesByPlace& counts) {
  std::pair<std::int32_t, double> most{PythonSamples::kElsewhere, 0};
  for (const auto& [place, samples] : counts) {
    if (place != PythonSamples::kElsewhere && samples > most.second) most = {place, samples};
  }
  return most;
}

bool lasted_at(const Finding& finding, std::int64_t utc_ns) {
  return std::any_of(finding.intervals.begin(), finding.intervals.end(), [utc_ns](const TimeSpan& span) {
    return utc_ns >= span.begin_utc_ns && utc_ns < span.end_utc_ns;
  });
}

/// Processes that stood in the same place, and in the same other one at other times.
struct StandingTogether {
  std::vector<std::string> processes;
  double there = 0;
  double all = 0;
};

std::string told_of(const std::pair<std::string, std::string>& places, const StandingTogether& group) {
  const auto& [inside, outside] = places;
  const bool several = group.processes.size() > 1;
  std::string sentence =
      fmt::format("the main thread{} of {} {} in {} in {} of {} samples", several ? "s" : "",
                  node_list(group.processes), several ? "were" : "was", inside, number(group.there), number(group.all));
  if (!outside.empty()) sentence += fmt::format("; at other times mostly in {}", outside);
  return sentence;
}

std::vector<std::string> told_all(std::span<const PythonSamples> processes, std::int64_t utc_minus_monotonic_ns,
                                  const Finding& finding) {
  std::map<std::pair<std::string, std::string>, StandingTogether> groups;
  for (const PythonSamples& process : processes) {
    SamplesByPlace inside;
    SamplesByPlace outside;
    for (const PythonSamples::Sample& sample : process.samples) {
      const bool lasts = lasted_at(finding, sample.time_ns + utc_minus_monotonic_ns);
      ++(lasts ? inside : outside)[sample.place];
    }
    const auto [place, samples] = most_frequent(inside);
    const double all = samples_in(inside);
    if (place == PythonSamples::kElsewhere || all < kFewestSamples || samples < kMostlyThere * all) continue;
    const double others = samples_in(outside);
    const bool unlike =
        others > 0 ? samples / all - outside[place] / others >= kMoreThanElse : samples >= kAlways * all;
    if (!unlike) continue;
    const auto elsewhere = most_frequent(outside);
    const bool known = elsewhere.second > 0 && elsewhere.first != place;
    StandingTogether& group = groups[{process.places[static_cast<std::size_t>(place)],
                                      known ? process.places[static_cast<std::size_t>(elsewhere.first)] : ""}];
    group.processes.push_back(process.process);
    group.there += samples;
    group.all += all;
  }
  std::vector<std::pair<double, std::string>> ordered;
  ordered.reserve(groups.size());
  for (const auto& [places, group] : groups) ordered.emplace_back(group.there, told_of(places, group));
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> sentences;
  for (auto& [samples, sentence] : ordered) {
    if (sentences.size() < kSentencesOfFinding) sentences.push_back(std::move(sentence));
  }
  return sentences;
}

}  // namespace

std::vector<PythonThread> python_threads(std::span<const PythonSamples> processes, const std::string& node) {
  std::vector<PythonThread> threads;
  for (const PythonSamples& process : processes.first(std::min(processes.size(), kThreadsOfNode))) {
    SamplesByPlace counts;
    for (const PythonSamples::Sample& sample : process.samples) ++counts[sample.place];
    PythonThread thread{
        .node = node, .process = process.process, .samples = static_cast<double>(process.samples.size()), .places = {}};
    counts.erase(PythonSamples::kElsewhere);
    while (!counts.empty() && thread.places.size() < kPlacesOfThread) {
      const auto [place, samples] = most_frequent(counts);
      thread.places.push_back({process.places[static_cast<std::size_t>(place)], samples});
      counts.erase(place);
    }
    threads.push_back(std::move(thread));
  }
  return threads;
}

void add_main_threads(std::span<const PythonSamples> processes, std::int64_t utc_minus_monotonic_ns,
                      std::span<Finding> findings) {
  for (Finding& finding : findings) {
    const bool lasts = finding.kind == FindingKind::anomaly || finding.kind == FindingKind::peer;
    if (!lasts || finding.intervals.empty()) continue;
    finding.main_threads = told_all(processes, utc_minus_monotonic_ns, finding);
  }
}

}  // namespace reveal
