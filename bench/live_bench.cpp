// Replays recorded traces through live detection, second by second, and compares with the report's detection:
//   live_bench [--share PERCENT] TRACE.h5...
// For each trace: the published alerts with their times (seconds of the job), the processor time of the detection runs,
// and for every clear episode of the report whether it was published live, and how far begin and end differ.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "hdf5schema/trace_reader.h"
#include "hdf5schema/utc_offset.h"
#include "postproc/detect/pipeline.h"
#include "postproc/live/live_detector.h"
#include "postproc/telemetry/load.h"

using namespace reveal;

namespace {

struct PublishedAlert {
  AlertChange change;
  double at_seconds;
};

std::string line_of(const PublishedAlert& published, std::int64_t first_ns) {
  const Alert& alert = published.change.alert;
  const auto seconds = [&](std::int64_t time_ns) { return static_cast<double>(time_ns - first_ns) * 1e-9; };
  return fmt::format("  at {:6.1f} s {:9} #{} {:6.1f} to {:6.1f} s {} score {:.1f} {}: {}\n", published.at_seconds,
                     name_of(published.change.news), alert.number, seconds(alert.begin_ns), seconds(alert.end_ns),
                     name_of(alert.episode.tier), alert.episode.score, name_of(alert.episode.subsystem),
                     alert.episode.claim);
}

void replay(const std::string& path, double share) {
  const TraceReader reader(path);
  const NodeTrace trace = load_trace(path);
  RowStore rows(kLiveBlock);
  struct Source {
    std::size_t place;
    const TraceReader::Family* family;
    std::vector<double> values;
    std::size_t next = 0;
  };
  std::vector<Source> sources;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  for (const auto& family : reader.families()) {
    if (family.time_ns.empty() || family.channels.empty()) continue;
    sources.push_back({rows.learn(family.spec, family.channels), &family, reader.read(family)});
    if (first_ns == 0 || family.time_ns.front() < first_ns) first_ns = family.time_ns.front();
    last_ns = std::max(last_ns, family.time_ns.back());
  }
  const std::int64_t offset = utc_offset_ns(reader.clocks(), reader.header(), first_ns);
  LiveDetector detector;
  CpuBudget budget(share);
  std::vector<PublishedAlert> all;
  double most_cost = 0;
  constexpr std::int64_t kStep = 500'000'000;
  for (std::int64_t now = first_ns + kStep; now < last_ns + 2 * kStep; now += kStep) {
    for (Source& source : sources) {
      const auto& times = source.family->time_ns;
      const std::size_t channels = source.family->channels.size();
      const std::size_t begin = source.next;
      while (source.next < times.size() && times[source.next] <= now) ++source.next;
      std::vector<double> values;
      for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t r = begin; r < source.next; ++r) values.push_back(source.values[c * times.size() + r]);
      }
      rows.append(source.place, std::span(times).subspan(begin, source.next - begin), values);
    }
    const bool ended = now > last_ns;
    for (AlertChange& change :
         detector.advance(rows, reader.header(), offset, static_cast<double>(now) * 1e-9, ended, budget)) {
      all.push_back({std::move(change), static_cast<double>(now - first_ns) * 1e-9});
    }
    most_cost = std::max(most_cost, detector.last_cost_seconds());
  }
  const double seconds = static_cast<double>(last_ns - first_ns) * 1e-9;
  fmt::print(
      "{}: {:.0f} s, {} detection runs, {} skipped, {} alarms of the pre-filter, {:.1f} % of a core, costliest {:.2f} "
      "s\n",
      path, seconds, budget.runs(), budget.skipped(), detector.alarms(), 100 * budget.spent_seconds() / seconds,
      most_cost);
  for (const PublishedAlert& published : all) fmt::print("{}", line_of(published, first_ns));

  const Detection report = find_pipeline("reveal").run(trace.telemetry, {.keep_windows = false});
  const std::vector<Alert> published = detector.book().published();
  for (const Episode& episode : report.episodes) {
    if (episode.tier == Tier::none) continue;
    const double begin = static_cast<double>(episode.begin) * trace.telemetry.step_seconds;
    const double end = static_cast<double>(episode.end) * trace.telemetry.step_seconds;
    std::string live = "not told live";
    for (const Alert& alert : published) {
      const double b = static_cast<double>(alert.begin_ns - first_ns) * 1e-9;
      const double e = static_cast<double>(alert.end_ns - first_ns) * 1e-9;
      if (alert.state == AlertState::withdrawn || b >= end || begin >= e) continue;
      live = fmt::format("live #{}: begin {:+.1f} s, end {:+.1f} s", alert.number, b - begin, e - end);
    }
    fmt::print("  report: {:.1f} to {:.1f} s {} {}; {}\n", begin, end, name_of(episode.tier),
               name_of(episode.subsystem), live);
  }
}

}  // namespace

int main(int argc, char** argv) {
  double share = 0.1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--share" && i + 1 < argc) {
      share = std::atof(argv[++i]) / 100;
    } else {
      replay(word, share);
    }
  }
}
