// The size of a trace on disk: bytes per channel-sample and per changed value, and how long it takes to rewrite it.
//
//   trace_size TRACE...              the figures of each
//   trace_size --rewrite COPY TRACE  also of a rewritten copy, and the seconds that took

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/layout.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace_reader.h"

namespace {

using namespace reveal;

struct Samples {
  std::uint64_t channels = 0;
  std::uint64_t channels_changed = 0;
  std::uint64_t all = 0;      // channel-samples
  std::uint64_t known = 0;    // values that are not missing
  std::uint64_t changed = 0;  // increments other than 0, levels other than the one before
  double seconds = 0;
};

void count(const TraceReader& reader, const TraceReader::Family& family, Samples& samples) {
  const std::size_t rows = family.time_ns.size();
  const bool increments = is_counted(family.spec.kind);
  const std::vector<double> values = reader.read(family);
  for (std::size_t channel = 0; channel < family.channels.size(); ++channel) {
    std::uint64_t changed = 0;
    double before = increments ? 0 : NAN;
    for (std::size_t row = 0; row < rows; ++row) {
      const double value = values[channel * rows + row];
      if (std::isnan(value)) continue;
      ++samples.known;
      if (!std::isnan(before) && value != before) ++changed;
      if (!increments) before = value;
    }
    samples.changed += changed;
    samples.channels_changed += changed > 0 ? 1 : 0;
  }
  samples.channels += family.channels.size();
  samples.all += family.channels.size() * rows;
  if (rows > 1) {
    const double seconds = static_cast<double>(family.time_ns.back() - family.time_ns.front()) / 1e9;
    samples.seconds = std::max(samples.seconds, seconds);
  }
}

void print(const std::filesystem::path& path) {
  const TraceReader reader(path);
  Samples samples;
  for (const TraceReader::Family& family : reader.families()) count(reader, family, samples);
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  const auto per = [bytes](std::uint64_t number) { return number > 0 ? bytes / static_cast<double>(number) : NAN; };
  std::printf("%s: %.0f bytes, %.0f s, %zu families, %llu channels (%llu changed), %llu channel-samples\n",
              path.c_str(), bytes, samples.seconds, reader.families().size(),
              static_cast<unsigned long long>(samples.channels),
              static_cast<unsigned long long>(samples.channels_changed), static_cast<unsigned long long>(samples.all));
  std::printf(
      "  bytes per channel-sample %.4f (per known one %.4f), per changed value %.2f; %.1f %% changed; %.0f B/s\n",
      per(samples.all), per(samples.known), per(samples.changed),
      100.0 * static_cast<double>(samples.changed) / static_cast<double>(samples.all), bytes / samples.seconds);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Bytes per channel-sample of a trace", "trace_size");
  std::vector<std::filesystem::path> traces;
  std::filesystem::path copy;
  app.add_option("TRACE", traces, "Closed or .part")->required();
  app.add_option("--rewrite", copy, "Write the first one anew here, as at the end of a recording");
  CLI11_PARSE(app, argc, argv);
  try {
    for (const std::filesystem::path& trace : traces) print(trace);
    if (copy.empty()) return 0;
    const auto begin = std::chrono::steady_clock::now();
    const bool small_enough = compact(traces.front(), copy);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (!small_enough) throw Error(traces.front().string() + ": is too large to be rewritten");
    print(copy);
    std::printf("  rewritten in %.3f s\n", took.count());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trace_size: %s\n", error.what());
    return 1;
  }
}
