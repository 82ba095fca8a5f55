#include "postproc/diagnose/main_threads.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kThreadsOfNode = 64;  // threads of a node
constexpr std::size_t kPlacesOfThread = 5;
constexpr std::size_t kSentencesOfFinding = 4;
constexpr std::size_t kFewestSamples = 8;  // while the finding lasted
constexpr double kMostlyThere = 0.5;       // share of the samples in one place
constexpr double kAlways = 0.9;            // where there is no other time
constexpr double kMoreThanElse = 0.25;     // than of those at other times
constexpr double kClear = 3;               // standard errors, so that chance does not look like a difference
constexpr double kMostUnread = 1.0 / 3;

/// Weights of the samples by place; the last one is of those without a name.
using SamplesByPlace = std::vector<double>;

std::size_t index_of(const PythonSamples& process, std::int32_t place) {
  return place == PythonSamples::kElsewhere ? process.places.size() : static_cast<std::size_t>(place);
}

double samples_in(const SamplesByPlace& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0.0);
}

/// The most frequent place that has a name.
std::size_t most_frequent(const SamplesByPlace& counts) {
  return static_cast<std::size_t>(std::max_element(counts.begin(), counts.end() - 1) - counts.begin());
}

/// `spans`: united().
bool lasted_at(const std::vector<TimeSpan>& spans, std::int64_t utc_ns) {
  const auto after = std::upper_bound(spans.begin(), spans.end(), utc_ns,
                                      [](std::int64_t at, const TimeSpan& span) { return at < span.begin_utc_ns; });
  return after != spans.begin() && utc_ns < std::prev(after)->end_utc_ns;
}

/// Whether a place has a larger part of these samples than of those at other times, beyond chance. Samples that follow
/// each other fast are no more independent for that: a second of them counts as one.
bool is_more(double there, double all, double elsewhere_there, double elsewhere) {
  if (elsewhere == 0) return there >= kAlways * all;
  const double both = (there + elsewhere_there) / (all + elsewhere);
  const double error = std::sqrt(both * (1 - both) * (1 / all + 1 / elsewhere));
  return there / all - elsewhere_there / elsewhere >= std::max(kMoreThanElse, kClear * error);
}

/// Processes that stood in the same place, and in the same other one at other times.
struct StandingTogether {
  std::vector<std::string> processes;
  double there = 0;
  double all = 0;
  std::size_t read = 0;  // samples, of whatever weight
};

/// "27 of 30 samples", or "82 % of the time (66 samples)" where they do not weigh the same.
std::string part_of_samples(const StandingTogether& group) {
  constexpr double kRounding = 1e-6;
  if (std::abs(group.all - static_cast<double>(group.read)) < kRounding) {
    return fmt::format("{} of {} samples", number(group.there), number(group.all));
  }
  return fmt::format("{:.0f} % of the time ({} samples)", 100 * group.there / group.all, group.read);
}

std::string group_sentence(const std::pair<std::string, std::string>& places, const StandingTogether& group) {
  const auto& [inside, outside] = places;
  const bool several = group.processes.size() > 1;
  std::string sentence =
      fmt::format("the main thread{} of {} {} in {} in {}", several ? "s" : "", node_list(group.processes),
                  several ? "were" : "was", inside, part_of_samples(group));
  if (!outside.empty()) sentence += fmt::format("; at other times mostly in {}", outside);
  return sentence;
}

std::vector<std::string> place_sentences(std::span<const PythonSamples> processes, std::int64_t utc_minus_monotonic_ns,
                                         const Finding& finding) {
  std::map<std::pair<std::string, std::string>, StandingTogether> groups;
  const std::vector<TimeSpan> spans = united(finding.intervals);
  const auto lasts = [&](std::int64_t time_ns) { return lasted_at(spans, time_ns + utc_minus_monotonic_ns); };
  for (const PythonSamples& process : processes) {
    if (process.places.empty()) continue;
    SamplesByPlace inside(process.places.size() + 1, 0);
    SamplesByPlace outside = inside;
    std::size_t read = 0;
    for (const PythonSamples::Sample& sample : process.samples) {
      const bool is_inside = lasts(sample.time_ns);
      (is_inside ? inside : outside)[index_of(process, sample.place)] += sample.weight;
      read += is_inside ? 1 : 0;
    }
    const auto unread = static_cast<double>(std::count_if(process.unread.begin(), process.unread.end(), lasts));
    const std::size_t place = most_frequent(inside);
    const double samples = inside[place];
    const double all = samples_in(inside);
    const bool mostly_read = unread <= kMostUnread * (static_cast<double>(read) + unread);
    if (read < kFewestSamples || samples <= 0 || samples < kMostlyThere * all || !mostly_read) continue;
    if (!is_more(samples, all, outside[place], samples_in(outside))) continue;
    const std::size_t elsewhere = most_frequent(outside);
    const bool known = outside[elsewhere] > 0 && elsewhere != place;
    StandingTogether& group = groups[{process.places[place], known ? process.places[elsewhere] : ""}];
    group.processes.push_back(process.process);
    group.there += samples;
    group.all += all;
    group.read += read;
  }
  std::vector<std::pair<double, std::string>> ordered;
  ordered.reserve(groups.size());
  for (const auto& [places, group] : groups) ordered.emplace_back(group.there, group_sentence(places, group));
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
    SamplesByPlace counts(process.places.size() + 1, 0);
    for (const PythonSamples::Sample& sample : process.samples)
      counts[index_of(process, sample.place)] += sample.weight;
    PythonThread thread{.node = node, .process = process.process, .samples = samples_in(counts), .places = {}};
    while (thread.places.size() < std::min(kPlacesOfThread, process.places.size())) {
      const std::size_t place = most_frequent(counts);
      if (counts[place] == 0) break;
      thread.places.push_back({process.places[place], counts[place]});
      counts[place] = 0;
    }
    threads.push_back(std::move(thread));
  }
  return threads;
}

void add_main_threads(std::span<const PythonSamples> processes, std::int64_t utc_minus_monotonic_ns,
                      std::span<Finding> findings) {
  const std::int64_t offset = std::clamp(utc_minus_monotonic_ns, -PythonSamples::kFarthest,
                                         PythonSamples::kFarthest);  // a trace may hold anything
  for (Finding& finding : findings) {
    const bool lasts = finding.kind == FindingKind::anomaly || finding.kind == FindingKind::peer;
    if (!lasts || finding.intervals.empty()) continue;
    if (!finding.main_threads.empty()) continue;  // the rule has set them, with the node of each rank
    finding.main_threads = place_sentences(processes, offset, finding);
  }
}

}  // namespace reveal
