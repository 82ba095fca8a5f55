#include "postproc/telemetry/telemetry_csv.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/python_samples.h"
#include "postproc/telemetry/telemetry_table.h"
#include "postproc/telemetry/trace_stream.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kTextAtOnce = 1 << 20;

std::string header_line(const TelemetryTable& table, bool names_node) {
  std::string line = names_node ? "time,node" : "time";
  for (const TableColumn& column : table.columns()) line += ',' + csv_field(column.name);
  return line + '\n';
}

}  // namespace

std::string csv_field(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
  std::string text = "\"";
  for (const char letter : name) text.append(letter == '"' ? 2 : 1, letter);
  return text + '"';
}

std::vector<std::string> write_csv(const std::vector<ListedTrace>& traces, const std::vector<std::string>& metrics,
                                   const std::function<void(std::string_view)>& out) {
  TelemetryTable table(traces, metrics);
  const bool names_node = traces.size() > 1;
  out(header_line(table, names_node));
  table.read([&](const TelemetryTable::Rows& rows) {
    const std::string node = names_node ? ',' + csv_field(rows.node) : "";
    std::string text;
    for (std::size_t row = 0; row < rows.count(); ++row) {
      text += iso_milliseconds(rows.utc_ns(row));
      text += node;
      for (std::size_t column = 0; column < table.columns().size(); ++column) {
        text += ',';
        const std::span<const double> values = rows.values(column);
        if (!values.empty() && !std::isnan(values[row])) fmt::format_to(std::back_inserter(text), "{}", values[row]);
      }
      text += '\n';
      if (text.size() >= kTextAtOnce) out(std::exchange(text, {}));
    }
    out(text);
  });
  return table.left_out();
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
