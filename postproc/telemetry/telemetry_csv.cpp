#include "postproc/telemetry/telemetry_csv.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/left_out_traces.h"
#include "postproc/telemetry/python_samples.h"
#include "postproc/telemetry/telemetry_table.h"
#include "postproc/telemetry/trace_stream.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kTextAtOnce = 1 << 20;

std::string header_line(const TelemetryTable& table, bool names_node) {
  std::string line = names_node ? "time,node" : "time";
  for (const TableColumn& column : table.columns()) line += ',' + csv_field(column.name);
  return line + '\n';
}

std::string python_lines(const ListedTrace& listed, LeftOutTraces& left_out) {
  const TraceStream stream(listed.path);
  const std::string& named = stream.trace().telemetry.node;
  left_out.need_first_of(named.empty() ? listed.node : named, listed.path);
  const std::string node = csv_field(printable(named.empty() ? listed.node : named));
  const std::int64_t offset =
      std::clamp(stream.trace().utc_minus_monotonic_ns, -PythonSamples::kFarthest, PythonSamples::kFarthest);
  std::string text;
  for (const PythonSamples& process : python_samples(stream.trace().events)) {
    for (const PythonSamples::Sample& sample : process.samples) {
      const bool named_place = sample.place != PythonSamples::kElsewhere;
      text += fmt::format("{},{},{},{},{:.4g}\n", iso_milliseconds(sample.time_ns + offset), node,
                          csv_field(printable(process.process)),
                          named_place ? csv_field(process.places[static_cast<std::size_t>(sample.place)]) : "",
                          sample.weight);
    }
  }
  return text;
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

std::vector<std::string> write_python_csv(const std::vector<ListedTrace>& traces,
                                          const std::function<void(std::string_view)>& out) {
  bool any = false;
  LeftOutTraces left_out(traces.size());
  for (const ListedTrace& trace : traces) {
    left_out.take([&] {
      std::string text = python_lines(trace, left_out);
      if (!text.empty() && !std::exchange(any, true)) text.insert(0, "time,node,process,place,weight\n");
      left_out.give([&] { out(text); });
    });
  }
  if (any) return left_out.sentences();
  if (!left_out.sentences().empty()) throw left_out.error();
  throw Error(traces.front().path.parent_path().string() +
              ": the main threads of Python were not measured (reveal-run --stack)");
}

}  // namespace reveal
