// Cost of the collector's rough check for status.json (core/sampler/usual_ranges.h): microseconds of processor time per
// pass over the channels, which comes every 3 s, and per tick between two passes.
//   usual_ranges_bench [CHANNELS...]
#include <spdlog/fmt/fmt.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/sampler/usual_ranges.h"
#include "hdf5schema/basics/clocks.h"

using namespace reveal;

namespace {

constexpr MetricHelp kHelp[] = {{"bench.count", "A counter."}};
constexpr FamilyTable kCounts{"cpu/counts",   Kind::counter,   Unit::count,    Scope::node,
                              Subsystem::cpu, "Some counters", "/proc/counts", kHelp};
constexpr int kPasses = 2000;
constexpr int kTicksOfPass = 30;

std::int64_t processor_ns() {
  return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void measure(int channels) {
  TraceSink sink;
  Family& counts = sink.add_family(kCounts, std::chrono::milliseconds(100));
  for (int i = 0; i < channels; ++i) counts.add("bench.count", "c" + std::to_string(i));
  UsualRanges ranges(sink);
  std::vector<std::int64_t> counted(static_cast<std::size_t>(channels));
  std::int64_t now = kSecond;
  std::int64_t in_passes = 0;
  std::int64_t between = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    counts.begin();
    for (std::size_t i = 0; i < counted.size(); ++i) {
      counted[i] += 500 + (pass * 7 + static_cast<int>(i) * 13) % 50;
      counts.set(static_cast<std::int32_t>(i), counted[i]);
    }
    for (int tick = 0; tick < kTicksOfPass; ++tick) {
      const std::int64_t before = processor_ns();
      ranges.look({now, now});
      (tick == 0 ? in_passes : between) += processor_ns() - before;
      now += kSecond / 10;
    }
  }
  const double pass_us = static_cast<double>(in_passes) / kPasses / 1000;
  const double tick_us = static_cast<double>(between) / kPasses / (kTicksOfPass - 1) / 1000;
  // A measurement of nothing takes as long as a tick between two passes.
  fmt::print("{} channels: {:.1f} us per pass, {:.2f} us per tick between (with the clock); {:.5f} % of a core\n",
             channels, pass_us - tick_us, tick_us, (pass_us - tick_us) / 3e6 * 100);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) {
    for (const int channels : {300, 1000, 3000}) measure(channels);
  }
  for (int i = 1; i < argc; ++i) measure(std::atoi(argv[i]));
}
