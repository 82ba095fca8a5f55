// Reads report.json back. Keys we do not know are left alone, missing ones keep their default: minor additions are
// allowed by the contract, in both directions.
#include <limits>
#include <nlohmann/json.hpp>

#include "hdf5schema/basics/enum_names.h"
#include "hdf5schema/basics/error.h"
#include "postproc/report/report.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/shallow_json.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 40;  // of what is wrong

const Json& member(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto at = object.find(key);
  return at == object.end() ? kNull : *at;
}

const Json& list(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json& found = member(object, key);
  if (found.is_null()) return kEmpty;
  if (!found.is_array()) throw Error(std::string("report.json: \"") + key + "\" is not a list");
  return found;
}

template <typename T>
T value(const Json& object, const char* key, T otherwise = {}) {
  const Json& found = member(object, key);
  if (found.is_null()) return otherwise;
  try {
    return found.get<T>();
  } catch (const Json::exception&) {
    throw Error(std::string("report.json: \"") + key + "\" is a " + found.type_name() + ", which it must not be");
  }
}

template <typename T>
std::optional<T> optional_value(const Json& object, const char* key) {
  if (member(object, key).is_null()) return std::nullopt;
  return value<T>(object, key);
}

/// Casting a number that does not fit would be undefined.
template <typename T>
T integer(const Json& object, const char* key) {
  const double number = value<double>(object, key);
  const bool fits = number >= static_cast<double>(std::numeric_limits<T>::min()) &&
                    number < static_cast<double>(std::numeric_limits<T>::max());
  if (!fits) throw Error(std::string("report.json: \"") + key + "\" is out of range");
  return static_cast<T>(number);
}

template <typename T>
std::optional<T> optional_integer(const Json& object, const char* key) {
  if (member(object, key).is_null()) return std::nullopt;
  return integer<T>(object, key);
}

std::string word(const Json& object, const char* key) {
  return value<std::string>(object, key);
}

std::vector<std::string> words(const Json& object, const char* key) {
  return value<std::vector<std::string>>(object, key);
}

template <typename Enum>
Enum named(const Json& object, const char* key, std::optional<Enum> (*find)(std::string_view) noexcept) {
  const std::string name = word(object, key);
  const std::optional<Enum> found = find(name);
  if (!found) throw Error(std::string("report.json: unknown ") + key + " \"" + printable(name, kShown) + "\"");
  return *found;
}

std::int64_t time(const Json& object, const char* key) {
  const std::string text = word(object, key);
  if (text.empty()) return 0;
  const auto utc_ns = parse_iso_time(text);
  if (!utc_ns)
    throw Error(std::string("report.json: \"") + key + "\" is not a time: \"" + printable(text, kShown) + "\"");
  return *utc_ns;
}

TimeSpan span(const Json& object) {
  return {time(object, "begin"), time(object, "end")};
}

ReportJob parse_job(const Json& json) {
  ReportJob job;
  job.id = word(json, "id");
  job.array = word(json, "array");
  job.het = word(json, "het");
  job.restart = optional_integer<int>(json, "restart");
  job.name = word(json, "name");
  job.user = word(json, "user");
  job.cluster = word(json, "cluster");
  job.nodes = words(json, "nodes");
  job.nodes_missing = words(json, "nodes_missing");
  job.begin_utc_ns = time(json, "begin");
  job.end_utc_ns = time(json, "end");
  job.state = word(json, "state");
  job.exit_code = optional_integer<int>(json, "exit_code");
  job.ran_seconds = optional_value<double>(json, "ran_seconds");
  job.oom_kills = optional_value<double>(json, "oom_kills");
  job.command = word(json, "command");
  job.run_key = word(json, "run_key");
  for (const Json& tag : list(json, "tags")) job.tags.emplace_back(word(tag, "key"), word(tag, "value"));
  return job;
}

NodeCoverage parse_coverage(const Json& json) {
  NodeCoverage coverage;
  coverage.nodes = words(json, "nodes");
  coverage.samples_expected = optional_value<double>(json, "samples_expected");
  coverage.samples_present = optional_value<double>(json, "samples_present");
  coverage.clock_error_seconds = optional_value<double>(json, "clock_error_seconds");
  for (const Json& probe : list(json, "probes")) {
    coverage.probes.push_back({word(probe, "name"), named(probe, "state", &coverage_state_of), word(probe, "reason")});
  }
  coverage.note = word(json, "note");
  return coverage;
}

JobTotals parse_totals(const Json& json) {
  JobTotals totals;
  totals.node = word(json, "node");
  totals.nodes = value<double>(json, "nodes_measured", 1);
  for (const auto& [key, member] : kTotalsNumbers) {
    totals.*member = optional_value<double>(json, key);
    const std::string note = word(json, (std::string(key) + (totals.*member ? "_source" : "_reason")).c_str());
    if (!note.empty()) totals.notes[key] = note;
  }
  return totals;
}

NodeOverhead parse_overhead(const Json& json) {
  NodeOverhead overhead;
  overhead.node = word(json, "node");
  overhead.cpu_percent_of_core = optional_value<double>(json, "cpu_percent_of_core");
  overhead.bytes_per_second = optional_value<double>(json, "bytes_per_second");
  overhead.late_ticks = optional_value<double>(json, "late_ticks");
  overhead.channels = optional_value<double>(json, "channels");
  for (const char* key :
       {"cpu_percent_of_core_reason", "bytes_per_second_reason", "late_ticks_reason", "channels_reason"}) {
    if (overhead.reason.empty()) overhead.reason = word(json, key);
  }
  return overhead;
}

Evidence parse_evidence(const Json& json) {
  Evidence evidence;
  evidence.metric = word(json, "metric");
  evidence.instance = word(json, "instance");
  evidence.node = word(json, "node");
  evidence.feature = word(json, "feature");
  evidence.observed = optional_value<double>(json, "observed");
  evidence.expected = optional_value<double>(json, "expected");
  evidence.unit = word(json, "unit");
  evidence.span = span(json);
  evidence.detectors = words(json, "detectors");
  evidence.score = optional_value<double>(json, "score");
  return evidence;
}

Finding parse_finding(const Json& json) {
  Finding finding;
  finding.id = word(json, "id");
  finding.fingerprint = word(json, "fingerprint");
  finding.title = word(json, "title");
  finding.sentence = word(json, "sentence");
  finding.severity = named(json, "severity", &severity_of);
  finding.confidence = named(json, "confidence", &confidence_of);
  finding.kind = named(json, "kind", &finding_kind_of);
  finding.subsystem = named(json, "subsystem", &subsystem_of);
  finding.nodes = words(json, "nodes");
  finding.instances = words(json, "instances");
  for (const Json& one : list(json, "intervals")) finding.intervals.push_back(span(one));
  const Json& cost = member(json, "impact");
  finding.impact = {optional_value<double>(cost, "seconds"), optional_value<double>(cost, "percent"),
                    word(cost, "how")};
  for (const Json& one : list(json, "evidence")) finding.evidence.push_back(parse_evidence(one));
  const Json& runner_up = member(json, "runner_up");
  finding.runner_up = {word(runner_up, "id"), word(runner_up, "why_not")};
  const Json& remedy = member(json, "remedy");
  finding.remedy = {words(remedy, "user"), words(remedy, "advice"), words(remedy, "admin"), word(remedy, "verify")};
  finding.sources = words(json, "sources");
  return finding;
}

ReportEpisode parse_episode(const Json& json) {
  ReportEpisode episode;
  episode.node = word(json, "node");
  episode.first_window = integer<std::size_t>(json, "first_window");
  episode.last_window = integer<std::size_t>(json, "last_window");
  episode.span = span(json);
  episode.methods = words(json, "methods");
  episode.agreement = integer<int>(json, "agreement");
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  episode.score = value<double>(json, "score", unknown);
  episode.tier = named(json, "tier", &tier_of);
  for (const std::string& name : words(json, "labels")) {
    if (const auto label = label_of(name)) episode.labels.push_back(*label);  // a later version may know more
  }
  episode.subsystem = named(json, "subsystem", &subsystem_of);
  for (const Json& one : list(json, "reasons")) {
    ReportEpisode::Reason reason;
    reason.metric = word(one, "metric");
    reason.instance = word(one, "instance");
    reason.feature = word(one, "feature");
    reason.unit = word(one, "unit");
    reason.z = value<double>(one, "z", unknown);
    reason.observed = optional_value<double>(one, "observed");
    reason.expected = optional_value<double>(one, "expected");
    episode.reasons.push_back(std::move(reason));
  }
  episode.claim = word(json, "claim");
  for (const Json& one : list(json, "detectors")) {
    ReportEpisode::DetectorView view{word(one, "method"), {}};
    for (const Json& channel : list(one, "channels")) {
      view.channels.push_back(
          {word(channel, "metric"), word(channel, "instance"), value<double>(channel, "share", unknown)});
    }
    episode.detectors.push_back(std::move(view));
  }
  return episode;
}

TimelineChannel parse_channel(const Json& json) {
  TimelineChannel channel;
  channel.node = word(json, "node");
  channel.name = word(json, "name");
  channel.unit = word(json, "unit");
  channel.begin_seconds = value<double>(json, "begin_seconds");
  channel.step_seconds = value<double>(json, "step_seconds");
  for (const Json& point : list(json, "values")) {
    channel.values.push_back(point.is_number() ? point.get<double>() : std::numeric_limits<double>::quiet_NaN());
  }
  return channel;
}

PeerComparison parse_comparison(const Json& report) {
  const Json& json = member(report, "comparison");
  PeerComparison comparison;
  if (json.is_null()) {
    if (!word(report, "comparison_reason").empty()) comparison.reason = word(report, "comparison_reason");
    return comparison;
  }
  comparison.compared = value<bool>(json, "compared");
  comparison.reason = word(json, "reason");
  comparison.sentence = word(json, "sentence");
  comparison.tests = integer<std::size_t>(json, "tests");
  comparison.deviations_left_out = integer<std::size_t>(json, "deviations_left_out");
  for (const Json& one : list(json, "roles")) {
    comparison.roles.push_back({words(one, "nodes"), value<bool>(one, "compared"), word(one, "reason"),
                                value<double>(one, "seconds_in_common"), integer<std::size_t>(one, "channels")});
  }
  for (const Json& one : list(json, "deviations")) {
    comparison.deviations.push_back({.node = word(one, "node"),
                                     .channel = word(one, "channel"),
                                     .unit = word(one, "unit"),
                                     .subsystem = named(one, "subsystem", &subsystem_of),
                                     .observed = value<double>(one, "observed"),
                                     .expected = value<double>(one, "expected"),
                                     .percent = value<double>(one, "percent"),
                                     .t = value<double>(one, "t"),
                                     .p = value<double>(one, "p", 1),
                                     .telling = value<bool>(one, "telling")});
  }
  for (const Json& one : list(json, "map")) {
    comparison.cells.push_back({word(one, "node"), named(one, "subsystem", &subsystem_of),
                                integer<std::size_t>(one, "channels"), value<double>(one, "percent")});
  }
  for (const Json& one : list(json, "configuration")) {
    comparison.facts.push_back({word(one, "key"), words(one, "nodes"), word(one, "value"), word(one, "usual")});
  }
  const Json& straggler = member(json, "straggler");
  comparison.straggler = {word(straggler, "node"),
                          word(straggler, "signal"),
                          value<double>(straggler, "observed"),
                          value<double>(straggler, "expected"),
                          value<double>(straggler, "seconds"),
                          value<double>(straggler, "percent"),
                          word(straggler, "reason")};
  return comparison;
}

HistoryComparison parse_history(const Json& report) {
  const Json& json = member(report, "history");
  HistoryComparison history;
  if (json.is_null()) {
    if (!word(report, "history_reason").empty()) history.reason = word(report, "history_reason");
    return history;
  }
  history.status = named(json, "status", &history_status_of);
  history.reason = word(json, "reason");
  history.sentence = word(json, "sentence");
  history.key = word(json, "key");
  history.runs = integer<std::size_t>(json, "runs");
  history.accepted = integer<std::size_t>(json, "accepted");
  history.channels = integer<std::size_t>(json, "channels");
  history.first_utc_ns = time(json, "first");
  history.last_utc_ns = time(json, "last");
  history.enters_baseline = value<bool>(json, "enters_baseline");
  history.why_not = word(json, "why_not");
  history.changes_left_out = integer<std::size_t>(json, "changes_left_out");
  for (const Json& one : list(json, "changes")) {
    HistoryChange change;
    change.what = named(one, "what", &history_change_of);
    change.name = word(one, "name");
    change.unit = word(one, "unit");
    if (!word(one, "subsystem").empty()) change.subsystem = named(one, "subsystem", &subsystem_of);
    change.observed = optional_value<double>(one, "observed");
    change.expected = optional_value<double>(one, "expected");
    change.percent = value<double>(one, "percent");
    change.t = value<double>(one, "t");
    change.now = word(one, "now");
    change.before = word(one, "before");
    change.since_utc_ns = time(one, "since");
    change.drift = value<bool>(one, "drift");
    history.changes.push_back(std::move(change));
  }
  return history;
}

Json parse_text(const std::string& text) {
  try {
    return Json::parse(shallow(text));
  } catch (const Json::parse_error& error) {
    throw Error("report.json: not JSON from byte " + std::to_string(error.byte) + " on (cut off?)");
  } catch (const Json::out_of_range&) {
    throw Error("report.json: a number in it is too large");  // 1e999
  }
}

}  // namespace

Report parse_report(const std::string& text) {
  const Json json = parse_text(text);
  const std::string schema = word(json, "schema");
  if (schema != kReportSchema) {
    throw Error(
        "report.json: " + (schema.empty() ? "names no schema" : "schema \"" + printable(schema, kShown) + "\"") +
        "; this reveal reads " + std::string(kReportSchema));
  }
  Report report;
  report.report_id = word(json, "report_id");
  report.tool_version = word(json, "tool_version");
  report.directory = word(json, "directory");
  report.created_utc_ns = time(json, "created");
  report.partial = value<bool>(json, "partial");
  report.supersedes = word(json, "supersedes");
  report.privileged = value<bool>(member(json, "mode"), "privileged");
  report.shared_node = value<bool>(member(json, "mode"), "shared_node");
  report.job = parse_job(member(json, "job"));
  for (const Json& one : list(json, "coverage")) report.coverage.push_back(parse_coverage(one));
  for (const Json& one : list(json, "totals")) report.totals.push_back(parse_totals(one));
  for (const Json& one : list(json, "overhead")) report.overhead.push_back(parse_overhead(one));
  const Json& verdict = member(json, "verdict");
  report.verdict = {named(verdict, "status", &verdict_status_of), word(verdict, "primary"), word(verdict, "sentence"),
                    value<bool>(verdict, "job_failed")};
  for (const Json& one : list(json, "findings")) report.findings.push_back(parse_finding(one));
  for (const Json& one : list(json, "episodes")) report.episodes.push_back(parse_episode(one));
  report.comparison = parse_comparison(json);
  report.history = parse_history(json);
  for (const Json& one : list(json, "not_checked")) {
    report.not_checked.push_back({word(one, "rule"), word(one, "reason")});
  }
  report.omitted = value<std::map<std::string, double>>(json, "omitted");
  for (const Json& one : list(json, "files")) report.files.emplace_back(word(one, "what"), word(one, "path"));
  for (const Json& one : list(json, "timeline")) report.timeline.push_back(parse_channel(one));
  return report;
}

}  // namespace reveal
