#include "postproc/telemetry/telemetry_csv.h"

#include <fnmatch.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/derived.h"
#include "postproc/telemetry/python_samples.h"
#include "postproc/telemetry/trace_stream.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kValuesAtOnce = 4'000'000;
constexpr std::size_t kTextAtOnce = 1 << 20;

std::vector<std::size_t> chosen(const Telemetry& telemetry, const std::vector<std::string>& patterns,
                                std::vector<std::string>& unmatched) {
  std::vector<std::size_t> channels;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const auto wanted = [&](const std::string& pattern) { return meets_pattern(pattern, telemetry.channels[i]); };
    if (patterns.empty() || std::any_of(patterns.begin(), patterns.end(), wanted)) channels.push_back(i);
  }
  for (const std::string& pattern : patterns) {
    const auto met = [&](const Channel& channel) { return meets_pattern(pattern, channel); };
    if (std::none_of(telemetry.channels.begin(), telemetry.channels.end(), met)) unmatched.push_back(pattern);
  }
  if (channels.empty() && !unmatched.empty()) {
    throw Error("this trace has no channel \"" + unmatched.front() +
                "\"; without --metrics, the first line names all channels");
  }
  return channels;
}

}  // namespace

std::string csv_field(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
  std::string text = "\"";
  for (const char letter : name) text.append(letter == '"' ? 2 : 1, letter);
  return text + '"';
}

std::string column_name(const Channel& channel, double step_seconds) {
  for (const DerivedMetric& derived : derived_metrics()) {
    if (derived.metric == channel.metric) return fmt::format("{} [{}]", channel.name(), derived.unit_text);
  }
  return is_counted(channel.kind)
             ? fmt::format("{} [{} per {:g} s]", channel.name(), name_of(channel.unit), step_seconds)
             : fmt::format("{} [{}]", channel.name(), name_of(channel.unit));
}

bool meets_pattern(const std::string& pattern, const Channel& channel) {
  return ::fnmatch(pattern.c_str(), channel.metric.c_str(), 0) == 0 ||
         ::fnmatch(pattern.c_str(), channel.name().c_str(), 0) == 0;
}

std::vector<std::string> write_csv(const std::filesystem::path& trace, const std::vector<std::string>& metrics,
                                   const std::function<void(std::string_view)>& out) {
  TraceStream stream(trace);
  if (stream.samples() == 0) throw Error(trace.string() + ": holds no samples");
  const std::size_t width = std::max<std::size_t>(1, stream.trace().telemetry.channels.size());
  const std::size_t at_once = std::max<std::size_t>(1, kValuesAtOnce / width);
  std::vector<std::size_t> columns;
  std::vector<std::string> unmatched;
  std::string text;
  DerivedChannels derived(DerivedChannels::Which::others);
  Telemetry piece;
  for (std::size_t begin = 0; begin < stream.samples(); begin += at_once) {
    stream.read(begin, std::min(at_once, stream.samples() - begin), piece);
    derived.append_to(piece);
    if (begin == 0) {
      columns = chosen(piece, metrics, unmatched);
      text = "time";
      for (const std::size_t column : columns)
        text += ',' + csv_field(column_name(piece.channels[column], piece.step_seconds));
      text += '\n';
    }
    for (std::size_t t = 0; t < piece.samples; ++t) {
      text += iso_milliseconds(piece.begin_utc_ns + std::llround(static_cast<double>(t) * piece.step_seconds * 1e9));
      for (const std::size_t column : columns) {
        text += ',';
        const double value = piece.series(column)[t];
        if (!std::isnan(value)) fmt::format_to(std::back_inserter(text), "{}", value);
      }
      text += '\n';
      if (text.size() < kTextAtOnce) continue;
      out(text);
      text.clear();
    }
  }
  out(text);
  return unmatched;
}

void write_python_csv(const std::filesystem::path& trace, const std::function<void(std::string_view)>& out) {
  const TraceStream stream(trace);
  const std::vector<PythonSamples> processes = python_samples(stream.trace().events);
  if (processes.empty()) {
    throw Error(trace.string() + ": the main threads of Python were not measured (reveal-run --stack)");
  }
  const std::int64_t offset =
      std::clamp(stream.trace().utc_minus_monotonic_ns, -PythonSamples::kFarthest, PythonSamples::kFarthest);
  out("time,process,place\n");
  for (const PythonSamples& process : processes) {
    std::string text;
    for (const PythonSamples::Sample& sample : process.samples) {
      const bool named = sample.place != PythonSamples::kElsewhere;
      text += iso_milliseconds(sample.time_ns + offset) + ',' + csv_field(process.process) + ',' +
              (named ? csv_field(process.places[static_cast<std::size_t>(sample.place)]) : "") + '\n';
    }
    out(text);
  }
}

}  // namespace reveal
