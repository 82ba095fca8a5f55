// When probes are read faster (core/sampler/faster_reading.h) in recorded runs of tests/lab/scenario.py: as the
// collectors of these runs decided, and as this build decides from the counters that they recorded.
//   faster_onsets_bench RUN...
// Prints how many nodes were read faster, how often and for how long: where nothing begins (no fault, or one from the
// begin to the end), where something begins that is no fault, in faults that begin once the check knows the job, and
// outside of faults.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/kernel_text/kernel_tree.h"
#include "core/sampler/faster_reading.h"
#include "core/sampler/trace_sink.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/trace_reader.h"

using namespace reveal;

namespace {

constexpr double kAtBegin = 3;  // seconds; an earlier fault begins with the job
constexpr double kKnown = 21;   // seconds until the check knows a job
constexpr double kAfter = 2;    // seconds after a fault that still belong to it: a window is judged at its end

struct Span {
  double begin = 0;  // seconds since the first row
  double end = 0;
};

struct Node {
  Span whole;
  Span disturbed;
  std::vector<Span> recorded;
  std::vector<Span> decided;
};

struct Tally {
  int nodes = 0;
  int read_faster = 0;
  int onsets = 0;
  double seconds = 0;
  double of_seconds = 0;
};

struct TimeGroup {
  const char* name = "";
  Tally recorded = {};
  Tally decided = {};
};

/// A family of the recording, and its place in the sink.
struct Copied {
  const TraceReader::Family* from = nullptr;
  Family* into = nullptr;
  std::vector<std::int64_t> values;  // [channel][row]
  std::size_t next = 0;              // row
};

std::vector<Copied> copy_families(const TraceReader& reader, TraceSink& sink) {
  std::vector<Copied> all;
  sink.mute(true);  // channels are no late ones
  for (const TraceReader::Family& family : reader.families()) {
    const FamilySpec& spec = family.spec;
    if (!is_counted(spec.kind) || spec.real || family.channels.empty() || family.time_ns.empty()) continue;
    const FamilyTable table{.path = spec.path,
                            .kind = spec.kind,
                            .unit = spec.unit,
                            .scope = spec.scope,
                            .subsystem = spec.subsystem,
                            .long_name = spec.long_name,
                            .source = spec.source,
                            .metrics = {}};
    Family& into = sink.add_family(table, spec.period, spec.faster, spec.clock);
    for (const ChannelKey& key : family.channels) into.add(key.metric, key.instance, key.role);
    all.push_back({.from = &family, .into = &into, .values = reader.read_absolute(family)});
  }
  sink.mute(false);
  return all;
}

/// Fills the row with the newest values until a time.
void fill(Copied& copied, std::int64_t time_ns) {
  const std::span<const std::int64_t> times = copied.from->time_ns;
  const std::size_t before = copied.next;
  while (copied.next < times.size() && times[copied.next] <= time_ns) ++copied.next;
  if (copied.next == before) return;
  copied.into->begin();
  for (std::size_t channel = 0; channel < copied.from->channels.size(); ++channel) {
    copied.into->set(static_cast<std::int32_t>(channel), copied.values[channel * times.size() + copied.next - 1]);
  }
}

std::int64_t missed_until(const std::vector<Event>& events, std::size_t& next, std::int64_t time_ns) {
  std::int64_t missed = 0;
  for (; next < events.size() && events[next].time_ns <= time_ns; ++next) {
    if (events[next].code == "ticks_missed") missed += parse_int(events[next].text).value_or(1);
  }
  return missed;
}

double seconds_between(std::int64_t from_ns, std::int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / kSecond;
}

Node replay(const std::filesystem::path& path, std::int64_t begin_utc_ns, std::int64_t end_utc_ns) {
  const TraceReader reader(path, TraceReader::Check::names);
  const ClockPair clock = reader.clocks().at(0);
  const std::int64_t offset = clock.utc_ns - clock.monotonic_ns;
  TraceSink sink;
  std::vector<Copied> families = copy_families(reader, sink);
  if (families.empty()) return {};
  const Copied& finest = *std::max_element(families.begin(), families.end(), [](const Copied& a, const Copied& b) {
    return a.from->time_ns.size() < b.from->time_ns.size();
  });
  const std::span<const std::int64_t> ticks = finest.from->time_ns;
  const std::int64_t interval = finest.from->spec.period.count();
  const std::int64_t first = ticks.front();

  Node node{.whole = {0, seconds_between(first, ticks.back())},
            .disturbed = {seconds_between(first, begin_utc_ns - offset), seconds_between(first, end_utc_ns - offset)},
            .recorded = {},
            .decided = {}};
  const std::vector<Event> events = reader.events();
  for (const Event& event : events) {
    if (event.code == "faster_begin") node.recorded.push_back({seconds_between(first, event.time_ns), node.whole.end});
    if (event.code == "faster_end" && !node.recorded.empty())
      node.recorded.back().end = seconds_between(first, event.time_ns);
  }
  KernelTree fs;
  FasterReading reading(fs, sink, "", std::max<std::int64_t>(1, kSecond / interval), {first, first + offset});
  bool on = false;
  std::size_t event = 0;
  for (const std::int64_t time : ticks) {
    const bool was_on = on;
    on = reading.look({.time = {time, time + offset},
                       .number = (time + offset + interval / 2) / interval,
                       .missed = missed_until(events, event, time)});
    if (on && !was_on) node.decided.push_back({seconds_between(first, time), node.whole.end});
    if (was_on && !on) node.decided.back().end = seconds_between(first, time);
    for (Copied& family : families) fill(family, time);
  }
  return node;
}

void count(Tally& tally, const std::vector<Span>& faster, const std::vector<Span>& times) {
  int onsets = 0;
  for (const Span& time : times) {
    tally.of_seconds += std::max(0.0, time.end - time.begin);
    for (const Span& span : faster) {
      onsets += span.begin >= time.begin && span.begin < time.end ? 1 : 0;
      tally.seconds += std::max(0.0, std::min(span.end, time.end) - std::max(span.begin, time.begin));
    }
  }
  ++tally.nodes;
  tally.read_faster += onsets > 0 ? 1 : 0;
  tally.onsets += onsets;
}

void count(TimeGroup& group, const Node& node, const std::vector<Span>& times) {
  count(group.recorded, node.recorded, times);
  count(group.decided, node.decided, times);
}

void print(const char* name, const char* build, const Tally& tally) {
  fmt::print("{:28} {:10} {:5} nodes, {:4} read faster, {:4} times, {:6.1f} s = {:5.2f} % of {:.0f} s\n", name, build,
             tally.nodes, tally.read_faster, tally.onsets, tally.seconds,
             tally.of_seconds > 0 ? 100 * tally.seconds / tally.of_seconds : 0, tally.of_seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || !std::filesystem::exists(std::filesystem::path(argv[1]) / "truth.json")) {
    fmt::print(stderr, "usage: faster_onsets_bench RUN...   folders with truth.json and job/*.h5\n");
    return 2;
  }
  TimeGroup nothing{.name = "nothing begins"};
  TimeGroup alike{.name = "what begins is no fault"};
  TimeGroup fault{.name = "in faults"};
  TimeGroup outside{.name = "outside of faults"};
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path run = argv[i];
    try {
      std::ifstream text(run / "truth.json");
      const nlohmann::json truth = nlohmann::json::parse(text);
      for (const auto& entry : std::filesystem::directory_iterator(run / "job")) {
        if (entry.path().extension() != ".h5") continue;
        const Node node = replay(entry.path(), truth.at("begin_utc_ns").get<std::int64_t>(),
                                 truth.at("end_utc_ns").get<std::int64_t>());
        const Span disturbed{node.disturbed.begin, std::min(node.whole.end, node.disturbed.end + kAfter)};
        if (disturbed.begin < kAtBegin) {
          count(nothing, node, {node.whole});
        } else if (truth.at("rule").is_null()) {
          count(alike, node, {node.whole});
        } else {
          if (disturbed.begin >= kKnown) count(fault, node, {disturbed});
          count(outside, node, {{0, disturbed.begin}, {disturbed.end, node.whole.end}});
        }
      }
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", run.string(), error.what());
    }
  }
  for (const TimeGroup& group : {nothing, alike, fault, outside}) {
    print(group.name, "recorded", group.recorded);
    print("", "this build", group.decided);
  }
  return EXIT_SUCCESS;
}
