#include "postproc/telemetry/telemetry_table.h"

#include <fnmatch.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/derived.h"
#include "postproc/telemetry/trace_stream.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kTableValuesAtOnce = 4'000'000;

/// Calls `each` with the trace's pieces of at most `most` samples, derived channels included.
template <typename Each>
void read_pieces(const std::filesystem::path& trace, std::size_t most, const Each& each) {
  TraceStream stream(trace);
  if (stream.samples() == 0) throw Error(trace.string() + ": holds no samples");
  DerivedChannels derived(DerivedChannels::Which::others);
  Telemetry piece;
  for (std::size_t begin = 0; begin < stream.samples(); begin += most) {
    stream.read(begin, std::min(most, stream.samples() - begin), piece);
    derived.append_to(piece);
    if (!each(piece, stream)) return;
  }
}

const DerivedMetric* derived_metric_of(const Channel& channel) {
  for (const DerivedMetric& derived : derived_metrics()) {
    if (derived.metric == channel.metric) return &derived;
  }
  return nullptr;
}

std::string column_unit(const Channel& channel, double step_seconds) {
  if (const DerivedMetric* derived = derived_metric_of(channel)) return std::string(derived->unit_text);
  const std::string_view unit = name_of(channel.unit);
  return is_counted(channel.kind) ? fmt::format("{} per {:g} s", unit, step_seconds) : std::string(unit);
}

std::string description_of(const Channel& channel, const TraceStream& stream) {
  if (const DerivedMetric* derived = derived_metric_of(channel)) return fmt::format("computed: {}", derived->formula);
  return printable(fmt::format("{}; {}{}", stream.long_name(channel.family), name_of(channel.kind),
                               is_counted(channel.kind) ? ", increase until the next row" : ""));
}

/// Whether one of the patterns meets it, or there are none; adds those that do to `met`.
bool is_chosen(const Channel& channel, const std::vector<std::string>& patterns, std::set<std::string>& met) {
  bool chosen = patterns.empty();
  for (const std::string& pattern : patterns) {
    if (!meets_pattern(pattern, channel)) continue;
    met.insert(pattern);
    chosen = true;
  }
  return chosen;
}

}  // namespace

bool meets_pattern(const std::string& pattern, const Channel& channel) {
  return ::fnmatch(pattern.c_str(), channel.metric.c_str(), 0) == 0 ||
         ::fnmatch(pattern.c_str(), channel.name().c_str(), 0) == 0;
}

std::string column_name(const Channel& channel, double step_seconds) {
  return fmt::format("{} [{}]", channel.name(), column_unit(channel, step_seconds));
}

std::int64_t TelemetryTable::Rows::utc_ns(std::size_t row) const {
  return telemetry.begin_utc_ns + std::llround(static_cast<double>(row) * telemetry.step_seconds * 1e9);
}

std::span<const double> TelemetryTable::Rows::values(std::size_t column) const {
  const std::size_t place = in_column[column];
  return place == 0 ? std::span<const double>() : telemetry.series(place - 1);
}

TelemetryTable::TelemetryTable(const std::vector<ListedTrace>& traces, const std::vector<std::string>& metrics)
    : left_out_(traces.size()) {
  std::set<std::string> met;
  Places places;
  for (const ListedTrace& trace : traces) {
    left_out_.take([&] { nodes_.push_back(opened(trace, metrics, met, places)); });
  }
  if (nodes_.empty()) throw left_out_.error();
  for (Node& node : nodes_) node.in_column.resize(columns_.size());
  const std::string without = left_out_.single() ? "this trace has no channel \"" : "no node has a channel \"";
  for (const std::string& pattern : metrics) {
    if (!met.contains(pattern)) left_out_.add(without + pattern + '"');
  }
  if (columns_.empty() && !metrics.empty()) {
    throw Error(without + metrics.front() + "\"; the first line of --format csv without --metrics names all channels");
  }
}

TelemetryTable::Node TelemetryTable::opened(const ListedTrace& trace, const std::vector<std::string>& metrics,
                                            std::set<std::string>& met, Places& places) {
  Node node{.trace = trace, .name = trace.node};
  read_pieces(trace.path, 1, [&](const Telemetry& first, const TraceStream& stream) {
    if (!first.node.empty()) node.name = first.node;
    left_out_.need_first_of(node.name, trace.path);
    node.channels = first.channels.size();
    for (std::size_t i = 0; i < node.channels; ++i) {
      const Channel& channel = first.channels[i];
      if (!is_chosen(channel, metrics, met)) continue;
      const std::string name = printable(column_name(channel, first.step_seconds));
      const auto [known, fresh] = places.emplace(name, columns_.size());
      if (fresh) columns_.push_back({name, column_unit(channel, first.step_seconds), description_of(channel, stream)});
      node.in_column.resize(columns_.size());
      std::size_t& place = node.in_column[known->second];
      if (place == 0) place = 1 + i;
    }
    return false;
  });
  node.name = printable(node.name);
  return node;
}

void TelemetryTable::read(const std::function<void(const Rows&)>& each) {
  for (const Node& node : nodes_) {
    left_out_.take([&] {
      const std::size_t samples =
          std::max<std::size_t>(1, kTableValuesAtOnce / std::max<std::size_t>(1, node.channels));
      read_pieces(node.trace.path, samples, [&](const Telemetry& piece, const TraceStream&) {
        if (piece.channels.size() != node.channels) {
          throw Error(node.trace.path.string() + ": it has changed while it was exported");
        }
        left_out_.give([&] { each({node.name, piece, node.in_column}); });
        return true;
      });
    });
  }
}

}  // namespace reveal
