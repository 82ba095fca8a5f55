// report.json, schema reveal.report/1.
#include "postproc/report/report_json.h"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "postproc/report/fields.h"

namespace reveal {

const Json& units_of_keys() {
  static const Json kUnits = [] {
    Json units = {
        {"samples_expected", "samples"},
        {"samples_present", "samples"},
        {"late_ticks", "ticks more than 10 ms late"},
        {"channels", "channels"},
        {"agreement", "detectors that agree"},
        {"score", "the detectors' own scale, higher is stranger"},
        {"z", "the channel's own noise over the job"},
        {"first_window", "index of the window"},
        {"last_window", "index of the window"},
        {"observed", "the unit beside it"},
        {"expected", "the unit beside it"},
        {"mean_before", "the unit beside it"},
        {"mean_after", "the unit beside it"},
        {"change_low", "the unit beside it"},
        {"change_high", "the unit beside it"},
        {"omitted", "entries left out"},
        {"oom_kills", "processes"},
        {"numa_node", "index of the NUMA node"},
        {"percent", "percent of the expected value, or of the run"},
        {"t", "standard errors of the difference"},
        {"p", "probability of such a difference by chance"},
    };
    for (const TotalsNumber& total : kTotalsNumbers) {
      if (!total.unit.empty()) units[total.key] = total.unit;
    }
    return units;
  }();
  return kUnits;
}

void fields(JsonWriter& writer, const Report& report) {
  fields<JsonWriter>(writer, report);
}

void fields(JsonReader& reader, Report& report) {
  fields<JsonReader>(reader, report);
}

std::string render_json(const Report& report) {
  Json json = JsonWriter::whole(report);
  // Series last and each on a line of its own: everything above them stays readable.
  std::string series;
  for (const char* key : {"across", "timeline"}) {
    if (!json.contains(key)) continue;
    series += fmt::format(",\n  \"{}\": [", key);
    std::string_view before = "\n    ";
    for (const Json& one : json[key]) series += std::string(std::exchange(before, ",\n    ")) + json_text(one);
    series += json[key].empty() ? "]" : "\n  ]";
    json.erase(key);
  }
  std::string text = json_text(json, 2);
  text.resize(text.size() - 2);  // "\n}"
  return text + series + "\n}\n";
}

Report parse_report(const std::string& text) {
  const Json json = parse_json(text, "report.json");
  JsonReader reader(json, "report.json");
  Report report;
  fields(reader, report);
  return report;
}

}  // namespace reveal
