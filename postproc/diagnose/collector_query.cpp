#include "postproc/diagnose/collector_query.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/run_program.h"
#include "hdf5schema/basics/text.h"
#include "postproc/json/json_fields.h"
#include "postproc/telemetry/derived.h"

namespace reveal {
namespace {

constexpr std::size_t kLargestAnswer = 8 << 20;
constexpr const char* kCollector = "reveal-collect";

/// Inside a job, too, the node is looked at, and not that job.
std::vector<std::string> environment_without_job() {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("SLURM_")) kept.emplace_back(*entry);
  }
  return kept;
}

Json parsed(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(fmt::format("the answer of {} is not JSON: {}", kCollector, error.what()));
  }
}

/// The list itself, or the only list inside an object.
const Json& rows_of(const Json& json) {
  if (json.is_array()) return json;
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if (value.is_array()) return value;
    }
  }
  throw Error(fmt::format("the answer of {} has no list", kCollector));
}

std::string text_of(const Json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return {};
  return found->is_string() ? found->get<std::string>() : json_text(*found);
}

/// The probe's metrics; an empty list where there are none.
const Json& metrics_of(const Json& probe) {
  static const Json none = Json::array();
  const auto found = probe.find("metrics");
  return found != probe.end() && found->is_array() ? *found : none;
}

/// The probe of this name, or with this metric.
const Json& probe_named(const Json& all, const std::string& name) {
  std::vector<std::string> known;
  for (const Json& probe : rows_of(all)) {
    known.push_back(text_of(probe, "name"));
    if (known.back() == name) return probe;
  }
  for (const Json& probe : rows_of(all)) {
    for (const Json& metric : metrics_of(probe)) {
      known.push_back(text_of(metric, "name"));
      if (known.back() == name) return probe;
    }
  }
  const auto near = nearest(name, known);
  throw Error("no probe \"" + name + "\"; " + (near ? "did you mean \"" + *near + "\"?" : "see reveal probes"));
}

constexpr std::string_view kDerivedHelp = "Computed after the run if their inputs were measured (reveal export)";

Json derived_as_json() {
  Json metrics = Json::array();
  std::string_view last;
  for (const DerivedMetric& metric : derived_metrics()) {
    if (metric.metric == last) continue;  // the same from other inputs, where those are not measured
    last = metric.metric;
    metrics.push_back(
        {{"name", metric.metric},
         {"unit", metric.unit_text},
         {"kind", name_of(Kind::gauge)},
         {"scope", metric.over == DerivedMetric::Over::each_instance ? "its inputs" : name_of(Scope::node)},
         {"subsystem", name_of(metric.subsystem)},
         {"source", metric.inputs},
         {"help", metric.formula},
         {"after", metric.source}});
  }
  return {{"name", "derived"}, {"help", kDerivedHelp}, {"privilege", ""}, {"metrics", std::move(metrics)}};
}

using MissingProbes = std::vector<ProbeCheck::Missing> ProbeCheck::*;

/// The list of a probe's "absence"; another word is that of a newer collector.
MissingProbes list_of(std::string_view absence) {
  constexpr std::pair<std::string_view, MissingProbes> kLists[] = {{"needs_job", &ProbeCheck::needs_job},
                                                                   {"off", &ProbeCheck::off},
                                                                   {"obtainable", &ProbeCheck::obtainable},
                                                                   {"hardware", &ProbeCheck::obtainable}};
  for (const auto& [word, list] : kLists) {
    if (word == absence) return list;
  }
  return &ProbeCheck::not_here;
}

}  // namespace

std::string query_collector(const std::vector<std::string>& arguments) {
  const std::string program = beside_us(kCollector);
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ProgramEnd end =
      run_program({.command = std::move(words), .listen = ProgramRun::Listen::output, .output_limit = kLargestAnswer});
  if (end.start_error == ENOENT) throw Error(std::string(kCollector) + " is neither in reveal's directory nor in PATH");
  if (end.start_error != 0) throw system_error(program, end.start_error);
  if (end.truncated) throw Error(program + " printed too much");
  if (exit_status(*end.status) != 0) throw Error(program + " failed");
  return std::move(end.output);
}

void record_node(const NodeRecording& recording) {
  const std::string program = beside_us(kCollector);
  const ProgramEnd end =
      run_program({.command = {program, "--output", recording.trace.string(), "--root", recording.root.string(),
                               "--duration", fmt::format("{}ms", recording.duration.count())},
                   .environment = environment_without_job(),
                   .listen = ProgramRun::Listen::errors,
                   .limit = recording.limit});
  if (end.start_error == ENOENT) throw Error(std::string(kCollector) + " is neither in reveal's directory nor in PATH");
  if (end.start_error != 0) throw system_error(program, end.start_error);
  if (!end.status) throw Error(fmt::format("{} did not end within {} s", kCollector, recording.limit.count() / 1000));
  if (exit_status(*end.status) == 0) return;
  const std::string said = end.output.substr(0, end.output.find('\n'));
  throw Error(said.empty() ? fmt::format("{} ended with status {}", kCollector, exit_status(*end.status)) : said);
}

std::string probes_as_json() {
  Json list = parsed(query_collector({"--list-probes", "--json"}));
  list.push_back(derived_as_json());
  return json_text(list, 2) + '\n';
}

std::string probes_as_markdown() {
  std::string text = query_collector({"--list-probes", "--markdown"});
  text += fmt::format("\n## derived\n\n{}.\n\n| metric | unit | formula | after |\n|---|---|---|---|\n", kDerivedHelp);
  for (const DerivedMetric& metric : derived_metrics()) {
    std::string formula;
    for (const char letter : metric.formula)
      formula.append(letter == '*' || letter == '_' ? "\\" : "").push_back(letter);
    text += fmt::format("| {} | {} | {} | {} |\n", metric.metric, metric.unit_text, formula, metric.source);
  }
  return text;
}

std::string probes_as_text(const std::string& text, std::size_t width) {
  const Json json = parsed(text);
  std::string out;
  std::size_t metrics = 0;
  for (const Json& probe : rows_of(json)) {
    std::string help = text_of(probe, "help");
    if (const std::string privilege = text_of(probe, "privilege"); !privilege.empty()) help += "; needs " + privilege;
    out += folded(text_of(probe, "name"), help, 21, width);
    metrics += metrics_of(probe).size();
  }
  out += "\n" + folded("",
                       fmt::format("{} kinds of metrics; the number of their channels depends on the node (reveal "
                                   "doctor). `reveal probes NAME` explains a probe with its metrics; NAME may also be "
                                   "a metric: `reveal probes cpu.iowait`.",
                                   metrics),
                       0, width);
  return out;
}

std::string probe_as_json(const std::string& json, const std::string& name) {
  return json_text(Json::array({probe_named(parsed(json), name)}), 2) + '\n';
}

std::string probe_as_text(const std::string& json, const std::string& name, std::size_t width) {
  const Json all = parsed(json);
  const Json& probe = probe_named(all, name);
  std::string out = folded(text_of(probe, "name") + ":", text_of(probe, "help"), 2, width);
  if (const auto period = probe.find("period_seconds"); period != probe.end() && period->is_number()) {
    out += fmt::format("  read every {:g} s", period->get<double>());
    const auto slower = probe.find("period_seconds_on_1152_cpus");
    if (slower != probe.end() && *slower != *period) {
      out += fmt::format(", less often on many cpus (1152: {:g} s)", slower->get<double>());
    }
    out += '\n';
  }
  if (const std::string need = text_of(probe, "privilege"); !need.empty()) out += folded("  needs", need, 8, width);
  if (const std::string remedy = text_of(probe, "remedy"); !remedy.empty()) {
    out += folded("  where it is missing:", remedy, 4, width);
  }
  for (const Json& metric : metrics_of(probe)) {
    out += fmt::format("\n  {}  [{}, {}, per {}]\n", text_of(metric, "name"), text_of(metric, "unit"),
                       text_of(metric, "kind"), text_of(metric, "scope"));
    out += folded("", text_of(metric, "help"), 6, width);
    if (const std::string source = text_of(metric, "source"); !source.empty()) {
      out += folded("      from", source, 11, width);
    }
  }
  return out;
}

Snapshot facts_of_node(const std::string& text) {
  const Json json = parsed(text);
  if (!json.is_object()) throw Error(fmt::format("the answer of {} has no facts", kCollector));
  Snapshot facts;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) facts.emplace_back(key, value.get<std::string>());
  }
  return facts;
}

ProbeCheck sorted_check(const std::string& text, bool virtual_machine) {
  const Json json = parsed(text);
  ProbeCheck check;
  for (const Json& probe : rows_of(json)) {
    std::string name = text_of(probe, "name");
    if (text_of(probe, "state") == "ok") {
      check.working.push_back(std::move(name));
      continue;
    }
    const std::string absence = text_of(probe, "absence");
    auto& list = check.*list_of(virtual_machine && absence == "hardware" ? "not_here" : absence);
    list.push_back({std::move(name), text_of(probe, "reason"), text_of(probe, "remedy")});
  }
  return check;
}

}  // namespace reveal
