#include "postproc/diagnose/collector_query.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/run_program.h"
#include "postproc/merge/derived_metrics.h"

namespace reveal {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kLargestAnswer = 8 << 20;
constexpr const char* kCollector = "reveal-collect";

/// Beside our own binary, else by name, which is looked up in PATH.
std::string collector_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto beside = self.parent_path() / kCollector;
    if (::access(beside.c_str(), X_OK) == 0) return beside.string();
  }
  return kCollector;
}

Json parsed(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(fmt::format("{} answered something that is not JSON: {}", kCollector, error.what()));
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
  throw Error(fmt::format("{} answered JSON without a list", kCollector));
}

std::string text_of(const Json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

constexpr std::string_view kDerivedHelp = "Computed after the run where their inputs were measured (reveal export)";

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

}  // namespace

std::string ask_collector(const std::vector<std::string>& arguments) {
  const std::string program = collector_path();
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ProgramEnd end =
      run_program({.command = std::move(words), .listen = ProgramRun::Listen::output, .most_said = kLargestAnswer});
  if (end.start_error == ENOENT) throw Error(std::string(kCollector) + " is neither beside reveal nor in PATH");
  if (end.start_error != 0) throw system_error(program, end.start_error);
  if (end.said_more) throw Error(program + " answered too much");
  if (exit_status(*end.status) != 0) throw Error(program + " could not answer");
  return std::move(end.said);
}

std::string probes_as_json() {
  Json list = parsed(ask_collector({"--list-probes", "--json"}));
  list.push_back(derived_as_json());
  return list.dump(2) + '\n';
}

std::string probes_as_markdown() {
  std::string text = ask_collector({"--list-probes", "--markdown"});
  text += fmt::format("\n## derived\n\n{}.\n\n| metric | unit | formula | after |\n|---|---|---|---|\n", kDerivedHelp);
  for (const DerivedMetric& metric : derived_metrics()) {
    std::string formula;
    for (const char letter : metric.formula)
      formula.append(letter == '*' || letter == '_' ? "\\" : "").push_back(letter);
    text += fmt::format("| {} | {} | {} | {} |\n", metric.metric, metric.unit_text, formula, metric.source);
  }
  return text;
}

std::string probes_as_text(const std::string& text) {
  const Json json = parsed(text);
  std::string out;
  std::size_t metrics = 0;
  for (const Json& probe : rows_of(json)) {
    out += fmt::format("{:<20} {}\n", text_of(probe, "name"), text_of(probe, "help"));
    if (const std::string privilege = text_of(probe, "privilege"); !privilege.empty()) {
      out += fmt::format("  needs {}\n", privilege);
    }
    if (const auto found = probe.find("metrics"); found != probe.end() && found->is_array()) {
      for (const Json& metric : *found) {
        ++metrics;
        out += fmt::format("  {:<30} {:<6} {:<8} {:<9} {}\n",
                           text_of(metric, metric.contains("name") ? "name" : "metric"), text_of(metric, "unit"),
                           text_of(metric, "kind"), text_of(metric, "scope"), text_of(metric, "source"));
      }
    }
  }
  out += fmt::format("\n{} kinds of metrics; how many channels they become depends on the node (reveal doctor).\n",
                     metrics);
  return out;
}

std::string check_as_text(const std::string& text) {
  const Json json = parsed(text);
  std::string out;
  std::size_t missing = 0;
  for (const Json& probe : rows_of(json)) {
    const std::string state = text_of(probe, "state");
    missing += state == "ok" ? 0 : 1;
    const std::string reason = text_of(probe, "reason");
    out += fmt::format("{:<20} {:<7}{}{}\n", text_of(probe, probe.contains("name") ? "name" : "probe"), state,
                       reason.empty() ? "" : " ", reason);
    if (const std::string remedy = text_of(probe, "remedy"); !remedy.empty()) {
      out += fmt::format("{:<29}to get it: {}\n", "", remedy);
    }
  }
  out += missing == 0 ? "\nEverything this version knows can be measured here.\n"
                      : fmt::format("\n{} missing: the report will name rules that could not be checked.\n", missing);
  return out;
}

}  // namespace reveal
