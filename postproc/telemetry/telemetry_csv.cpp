#include "postproc/telemetry/telemetry_csv.h"

#include <fnmatch.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/telemetry/derived.h"
#include "postproc/telemetry/python_samples.h"
#include "postproc/telemetry/trace_stream.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kValuesAtOnce = 4'000'000;
constexpr std::size_t kTextAtOnce = 1 << 20;

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
    if (!each(piece)) return;
  }
}

/// A node's place in the table.
struct NodeRows {
  const ListedTrace* trace = nullptr;
  std::string node;
  std::size_t at_once = 1;             // samples
  std::vector<std::size_t> channels;   // chosen
  std::vector<std::string> names;      // names of their columns
  std::vector<std::size_t> in_column;  // for each column of the table, 1 + its channel; 0: the node has none
};

NodeRows node_rows(const ListedTrace& trace, const std::vector<std::string>& patterns, std::set<std::string>& met) {
  NodeRows rows{.trace = &trace, .node = trace.node};
  read_pieces(trace.path, 1, [&](const Telemetry& first) {
    if (!first.node.empty()) rows.node = first.node;
    rows.at_once = std::max<std::size_t>(1, kValuesAtOnce / std::max<std::size_t>(1, first.channels.size()));
    for (std::size_t i = 0; i < first.channels.size(); ++i) {
      bool wanted = patterns.empty();
      for (const std::string& pattern : patterns) {
        if (!meets_pattern(pattern, first.channels[i])) continue;
        met.insert(pattern);
        wanted = true;
      }
      if (!wanted) continue;
      rows.channels.push_back(i);
      rows.names.push_back(csv_field(column_name(first.channels[i], first.step_seconds)));
    }
    return false;
  });
  return rows;
}

/// The columns of all nodes, those of the first node first.
std::vector<std::string> columns_of(std::vector<NodeRows>& nodes) {
  std::vector<std::string> columns;
  std::map<std::string, std::size_t> known;
  for (const NodeRows& node : nodes) {
    for (const std::string& name : node.names) {
      if (known.emplace(name, columns.size()).second) columns.push_back(name);
    }
  }
  for (NodeRows& node : nodes) {
    node.in_column.assign(columns.size(), 0);
    for (std::size_t i = 0; i < node.names.size(); ++i) {
      std::size_t& place = node.in_column[known.at(node.names[i])];
      if (place == 0) place = 1 + node.channels[i];
    }
  }
  return columns;
}

void write_rows(const NodeRows& rows, const std::string& node, const std::function<void(std::string_view)>& out) {
  std::string text;
  read_pieces(rows.trace->path, rows.at_once, [&](const Telemetry& piece) {
    for (std::size_t t = 0; t < piece.samples; ++t) {
      text += iso_milliseconds(piece.begin_utc_ns + std::llround(static_cast<double>(t) * piece.step_seconds * 1e9));
      text += node;
      for (const std::size_t channel : rows.in_column) {
        text += ',';
        const double value = channel == 0 ? kNaN : piece.series(channel - 1)[t];
        if (!std::isnan(value)) fmt::format_to(std::back_inserter(text), "{}", value);
      }
      text += '\n';
      if (text.size() < kTextAtOnce) continue;
      out(text);
      text.clear();
    }
    return true;
  });
  out(text);
}

/// The error of a single trace is that of the table; without one of several, the others are in it.
template <typename Read>
void take_trace(const std::vector<ListedTrace>& traces, std::vector<std::string>& left_out, const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (traces.size() == 1) throw;
    left_out.emplace_back(error.what());
  }
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

std::vector<std::string> write_csv(const std::vector<ListedTrace>& traces, const std::vector<std::string>& metrics,
                                   const std::function<void(std::string_view)>& out) {
  std::vector<std::string> left_out;
  std::set<std::string> met;
  std::vector<NodeRows> nodes;
  for (const ListedTrace& trace : traces) {
    take_trace(traces, left_out, [&] { nodes.push_back(node_rows(trace, metrics, met)); });
  }
  if (nodes.empty()) throw Error(left_out.empty() ? "no trace to export" : left_out.front());
  const std::vector<std::string> columns = columns_of(nodes);
  const std::string without = traces.size() == 1 ? "this trace has no channel \"" : "no node has a channel \"";
  for (const std::string& pattern : metrics) {
    if (!met.contains(pattern)) left_out.push_back(without + pattern + '"');
  }
  if (columns.empty() && !metrics.empty()) {
    throw Error(without + metrics.front() + "\"; without --metrics, the first line names all channels");
  }
  std::string header = traces.size() == 1 ? "time" : "time,node";
  for (const std::string& column : columns) header += ',' + column;
  out(header + '\n');
  for (const NodeRows& rows : nodes) {
    const std::string node = traces.size() == 1 ? "" : ',' + csv_field(rows.node);
    take_trace(traces, left_out, [&] { write_rows(rows, node, out); });
  }
  return left_out;
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
