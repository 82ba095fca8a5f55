// report.json, schema reveal.report/1. An unknown number is null, and KEY_reason beside it says why.
#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "postproc/report/report.h"
#include "postproc/report/wording.h"

namespace reveal {
namespace {

using Json = nlohmann::ordered_json;  // keys in the order of the contract, so that two reports can be read side by side

constexpr std::string_view kNotMeasured = "not measured";

/// Units of the numbers whose key does not name one.
constexpr std::pair<std::string_view, std::string_view> kUnits[] = {
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
    {"omitted", "entries left out"},
    {"oom_kills", "processes"},
    {"cpus_owned", "cpus"},
    {"cpu_used_share", "ratio"},
    {"memory_peak", "bytes"},
    {"memory_limit", "bytes"},
    {"wait_share", "seconds per second, summed over tasks"},
    {"steps", "steps of the job"},
    {"percent", "percent of the expected value, or of the run"},
    {"t", "standard errors of the difference"},
    {"p", "probability of such a difference by chance"},
};

constexpr double kLargestExactInteger = 9007199254740992.0;

// 1200, not 1200.0; null when it is not a number.
Json plain(double value) {
  if (std::trunc(value) == value && std::abs(value) <= kLargestExactInteger) return static_cast<std::int64_t>(value);
  return value;
}

// A chart needs no more than six digits, and they are most of the file.
Json thinned(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) {
    double rounded = value;
    const std::string digits = fmt::format("{:.6g}", value);
    std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
    list.push_back(plain(rounded));
  }
  return list;
}

void put_number(Json& object, const std::string& key, std::optional<double> value, std::string_view reason) {
  if (value && std::isfinite(*value)) {
    object[key] = plain(*value);
    return;
  }
  object[key] = nullptr;
  object[key + "_reason"] = reason.empty() ? kNotMeasured : reason;
}

void put_time(Json& object, const std::string& key, std::int64_t utc_ns) {
  if (utc_ns != 0) {
    object[key] = iso_time(utc_ns);
    return;
  }
  object[key] = nullptr;
  object[key + "_reason"] = "not recorded";
}

void put_word(Json& object, const std::string& key, const std::string& word) {
  object[key] = word.empty() ? Json(nullptr) : Json(word);
}

Json to_json(const TimeSpan& span) {
  Json json = Json::object();
  put_time(json, "begin", span.begin_utc_ns);
  put_time(json, "end", span.end_utc_ns);
  return json;
}

Json to_json(const ReportJob& job) {
  Json json = Json::object();
  put_word(json, "id", job.id);
  put_word(json, "array", job.array);
  put_word(json, "het", job.het);
  put_number(json, "restart", job.restart, "not recorded");
  put_word(json, "name", job.name);
  put_word(json, "user", job.user);
  put_word(json, "cluster", job.cluster);
  json["nodes"] = job.nodes;
  json["nodes_missing"] = job.nodes_missing;
  put_time(json, "begin", job.begin_utc_ns);
  put_time(json, "end", job.end_utc_ns);
  put_word(json, "state", job.state);
  put_number(json, "exit_code", job.exit_code, "not recorded");
  put_number(json, "ran_seconds", job.ran_seconds, "not recorded");
  put_number(json, "oom_kills", job.oom_kills, kNotMeasured);
  put_word(json, "command", job.command);
  put_word(json, "run_key", job.run_key);
  json["tags"] = Json::array();
  for (const auto& [key, value] : job.tags) json["tags"].push_back({{"key", key}, {"value", value}});
  return json;
}

Json to_json(const NodeCoverage& coverage) {
  Json json = Json::object();
  json["nodes"] = coverage.nodes;
  put_number(json, "samples_expected", coverage.samples_expected, coverage.note);
  put_number(json, "samples_present", coverage.samples_present, coverage.note);
  put_number(json, "clock_error_seconds", coverage.clock_error_seconds, coverage.note);
  json["probes"] = Json::array();
  for (const Coverage& probe : coverage.probes) {
    json["probes"].push_back({{"name", probe.probe}, {"state", word_of(probe.state)}, {"reason", probe.reason}});
  }
  put_word(json, "note", coverage.note);
  return json;
}

Json to_json(const JobTotals& totals) {
  Json json = Json::object();
  put_word(json, "node", totals.node);
  json["nodes_measured"] = plain(totals.nodes);
  for (const auto& [key, member] : kTotalsNumbers) {
    const auto note = totals.notes.find(key);
    const std::string said = note == totals.notes.end() ? "" : note->second;
    put_number(json, key, totals.*member, said);
    if (!said.empty() && (totals.*member)) json[std::string(key) + "_source"] = said;
  }
  return json;
}

Json to_json(const NodeOverhead& overhead) {
  Json json = Json::object();
  json["node"] = overhead.node;
  put_number(json, "cpu_percent_of_core", overhead.cpu_percent_of_core, overhead.reason);
  put_number(json, "bytes_per_second", overhead.bytes_per_second, overhead.reason);
  put_number(json, "late_ticks", overhead.late_ticks, overhead.reason);
  put_number(json, "channels", overhead.channels, overhead.reason);
  return json;
}

Json to_json(const Evidence& evidence) {
  Json json = Json::object();
  json["metric"] = evidence.metric;
  json["instance"] = evidence.instance;
  json["node"] = evidence.node;
  json["feature"] = evidence.feature;
  put_number(json, "observed", evidence.observed, kNotMeasured);
  put_number(json, "expected", evidence.expected, "no expected value is known");
  json["unit"] = evidence.unit;
  json.update(to_json(evidence.span));
  json["detectors"] = evidence.detectors;
  put_number(json, "score", evidence.score, "not found by a detector");
  return json;
}

Json to_json(const Finding& finding) {
  Json json = Json::object();
  json["id"] = finding.id;
  json["fingerprint"] = finding.fingerprint;
  json["title"] = finding.title;
  json["sentence"] = finding.sentence;
  json["severity"] = name_of(finding.severity);
  json["confidence"] = name_of(finding.confidence);
  json["kind"] = name_of(finding.kind);
  json["subsystem"] = name_of(finding.subsystem);
  json["nodes"] = finding.nodes;
  json["instances"] = finding.instances;
  json["intervals"] = Json::array();
  for (const TimeSpan& span : finding.intervals) json["intervals"].push_back(to_json(span));
  Json cost = Json::object();
  put_number(cost, "seconds", finding.impact.seconds, finding.impact.how);
  put_number(cost, "percent", finding.impact.percent, finding.impact.how);
  put_word(cost, "how", finding.impact.how);
  json["impact"] = std::move(cost);
  json["evidence"] = Json::array();
  for (const Evidence& one : finding.evidence) json["evidence"].push_back(to_json(one));
  json["runner_up"] = nullptr;
  if (!finding.runner_up.id.empty() || !finding.runner_up.why_not.empty()) {
    json["runner_up"] = {{"id", finding.runner_up.id}, {"why_not", finding.runner_up.why_not}};
  }
  json["remedy"] = {{"user", finding.remedy.user},
                    {"advice", finding.remedy.advice},
                    {"admin", finding.remedy.admin},
                    {"verify", finding.remedy.verify}};
  json["sources"] = finding.sources;
  return json;
}

Json to_json(const ReportEpisode& episode) {
  Json json = Json::object();
  json["node"] = episode.node;
  json["first_window"] = episode.first_window;
  json["last_window"] = episode.last_window;
  json.update(to_json(episode.span));
  json["methods"] = episode.methods;
  json["agreement"] = episode.agreement;
  put_number(json, "score", episode.score, kNotMeasured);
  json["tier"] = name_of(episode.tier);
  json["labels"] = names_of(episode.labels);
  json["subsystem"] = name_of(episode.subsystem);
  json["reasons"] = Json::array();
  for (const ReportEpisode::Reason& reason : episode.reasons) {
    Json one = Json::object();
    one["metric"] = reason.metric;
    one["instance"] = reason.instance;
    one["feature"] = reason.feature;
    put_number(one, "z", reason.z, kNotMeasured);
    put_number(one, "observed", reason.observed, kNotMeasured);
    put_number(one, "expected", reason.expected, kNotMeasured);
    one["unit"] = reason.unit;
    json["reasons"].push_back(std::move(one));
  }
  json["claim"] = episode.claim;
  json["detectors"] = Json::array();
  for (const ReportEpisode::DetectorView& view : episode.detectors) {
    Json one = {{"method", view.method}, {"channels", Json::array()}};
    for (const ReportEpisode::Contribution& part : view.channels) {
      Json channel = {{"metric", part.metric}, {"instance", part.instance}};
      put_number(channel, "share", part.share, kNotMeasured);
      one["channels"].push_back(std::move(channel));
    }
    json["detectors"].push_back(std::move(one));
  }
  return json;
}

Json to_json(const TimelineChannel& channel) {
  Json json = Json::object();
  json["node"] = channel.node;
  json["name"] = channel.name;
  json["unit"] = channel.unit;
  json["begin_seconds"] = plain(channel.begin_seconds);
  json["step_seconds"] = plain(channel.step_seconds);
  json["values"] = thinned(channel.values);  // NaN is written as null: a gap
  return json;
}

Json to_json(const PeerGroup& role) {
  return {{"nodes", role.nodes},
          {"compared", role.compared},
          {"reason", role.reason.empty() ? Json(nullptr) : Json(role.reason)},
          {"seconds_in_common", plain(role.seconds)},
          {"channels", role.channels}};
}

Json to_json(const PeerDeviation& deviation) {
  Json json = Json::object();
  json["node"] = deviation.node;
  json["channel"] = deviation.channel;
  json["subsystem"] = name_of(deviation.subsystem);
  put_number(json, "observed", deviation.observed, kNotMeasured);
  put_number(json, "expected", deviation.expected, kNotMeasured);
  json["unit"] = deviation.unit;
  put_number(json, "percent", four_digits(deviation.percent), kNotMeasured);
  put_number(json, "t", four_digits(deviation.t), kNotMeasured);
  put_number(json, "p", four_digits(deviation.p), kNotMeasured);
  json["telling"] = deviation.telling;
  return json;
}

Json to_json(const PeerCell& cell) {
  Json json = Json::object();
  json["node"] = cell.node;
  json["subsystem"] = name_of(cell.subsystem);
  json["channels"] = cell.channels;
  put_number(json, "percent", four_digits(cell.percent), kNotMeasured);
  return json;
}

Json to_json(const FactDifference& fact) {
  return {{"key", fact.key}, {"nodes", fact.nodes}, {"value", fact.value}, {"usual", fact.usual}};
}

Json to_json(const Straggler& straggler) {
  Json json = Json::object();
  put_word(json, "node", straggler.node);
  put_word(json, "reason", straggler.reason);
  put_word(json, "signal", straggler.signal);
  if (straggler.node.empty()) return json;
  put_number(json, "observed", straggler.observed, kNotMeasured);
  put_number(json, "expected", straggler.expected, kNotMeasured);
  json["unit"] = "cpus";
  put_number(json, "seconds", straggler.seconds, kNotMeasured);
  put_number(json, "percent", straggler.percent, kNotMeasured);
  return json;
}

Json to_json(const HistoryChange& change) {
  Json json = Json::object();
  json["what"] = name_of(change.what);
  json["name"] = change.name;
  if (change.what == HistoryChange::What::configuration) {
    put_word(json, "now", change.now);
    put_word(json, "before", change.before);
  } else {
    json["subsystem"] = name_of(change.subsystem);
    put_number(json, "observed", change.observed, kNotMeasured);
    put_number(json, "expected", change.expected, kNotMeasured);
    json["unit"] = change.unit;
    put_number(json, "percent", four_digits(change.percent), kNotMeasured);
    put_number(json, "t", four_digits(change.t), kNotMeasured);
    json["drift"] = change.drift;
  }
  put_time(json, "since", change.since_utc_ns);
  return json;
}

template <typename T>
Json list_of(const std::vector<T>& things) {
  Json json = Json::array();
  for (const T& thing : things) json.push_back(to_json(thing));
  return json;
}

/// Never compared must read differently from no difference: null and a reason, or an object.
void put_comparison(Json& json, const PeerComparison& comparison) {
  if (comparison.roles.empty()) {
    json["comparison"] = nullptr;
    json["comparison_reason"] = comparison.reason;
    return;
  }
  Json peers = Json::object();
  peers["compared"] = comparison.compared;
  put_word(peers, "reason", comparison.reason);
  peers["sentence"] = comparison.sentence;
  peers["method"] =
      "whole-job means against the median of the other nodes of the role: moderated leave-one-out t with batch-means "
      "error, Benjamini-Hochberg at 5 % over nodes and channels, effects of at least 10 %";
  peers["roles"] = list_of(comparison.roles);
  peers["tests"] = comparison.tests;
  peers["deviations"] = list_of(comparison.deviations);
  peers["deviations_left_out"] = comparison.deviations_left_out;
  peers["map"] = list_of(comparison.cells);
  peers["configuration"] = list_of(comparison.facts);
  peers["straggler"] = to_json(comparison.straggler);
  json["comparison"] = std::move(peers);
}

void put_history(Json& json, const HistoryComparison& history) {
  if (history.status == HistoryStatus::never_compared) {
    json["history"] = nullptr;
    json["history_reason"] = history.reason;
    return;
  }
  Json past = Json::object();
  past["status"] = name_of(history.status);
  put_word(past, "reason", history.reason);
  past["sentence"] = history.sentence;
  past["key"] = history.key;
  past["runs"] = history.runs;
  past["accepted"] = history.accepted;
  past["runs_needed"] = kLeastRuns;
  put_time(past, "first", history.first_utc_ns);
  put_time(past, "last", history.last_utc_ns);
  past["channels"] = history.channels;
  past["enters_baseline"] = history.enters_baseline;
  put_word(past, "why_not", history.why_not);
  past["changes"] = list_of(history.changes);
  past["changes_left_out"] = history.changes_left_out;
  json["history"] = std::move(past);
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);  // job names need not be UTF-8
}

}  // namespace

std::string render_json(const Report& report) {
  Json json = Json::object();
  json["schema"] = kReportSchema;
  put_word(json, "report_id", report.report_id);
  put_word(json, "tool_version", report.tool_version);
  put_word(json, "directory", report.directory);
  put_time(json, "created", report.created_utc_ns);
  json["partial"] = report.partial;
  put_word(json, "supersedes", report.supersedes);
  json["mode"] = {{"privileged", report.privileged}, {"shared_node", report.shared_node}};
  json["job"] = to_json(report.job);
  json["coverage"] = list_of(report.coverage);
  json["totals"] = list_of(report.totals);
  json["overhead"] = list_of(report.overhead);
  json["verdict"] = {{"status", name_of(report.verdict.status)}};
  put_word(json["verdict"], "primary", report.verdict.primary);
  json["verdict"]["sentence"] = report.verdict.sentence;
  json["verdict"]["job_failed"] = report.verdict.job_failed;
  json["findings"] = list_of(report.findings);
  json["episodes"] = list_of(report.episodes);
  put_comparison(json, report.comparison);
  put_history(json, report.history);
  json["not_checked"] = Json::array();
  for (const NotChecked& one : report.not_checked) {
    json["not_checked"].push_back({{"rule", one.rule}, {"reason", one.reason}});
  }
  json["omitted"] = Json::object();
  for (const auto& [what, count] : report.omitted) json["omitted"][what] = plain(count);
  json["files"] = Json::array();
  for (const auto& [what, path] : report.files) json["files"].push_back({{"what", what}, {"path", path}});
  for (const auto& [key, unit] : kUnits) json["units"][std::string(key)] = unit;

  // The timeline last and one channel a line: everything above it stays readable.
  std::string text = dump(json, 2);
  text.resize(text.size() - 2);  // "\n}"
  text += ",\n  \"timeline\": [";
  for (std::size_t i = 0; i < report.timeline.size(); ++i) {
    text += i == 0 ? "\n    " : ",\n    ";
    text += dump(to_json(report.timeline[i]), -1);
  }
  text += report.timeline.empty() ? "]\n}\n" : "\n  ]\n}\n";
  return text;
}

}  // namespace reveal
