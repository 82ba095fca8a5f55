#include "core/listing.h"

#include <nlohmann/json.hpp>

#include "core/sampler/probe.h"

namespace reveal {
namespace {

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string padded(std::string_view text, std::size_t width) {
  std::string out(text);
  if (out.size() < width) out.append(width - out.size(), ' ');
  return out;
}

std::string_view name_of_state(Coverage::State state) {
  switch (state) {
    case Coverage::State::ok:
      return "ok";
    case Coverage::State::absent:
      return "absent";
    case Coverage::State::failed:
      return "failed";
  }
  return "";
}

std::string_view remedy_of(std::string_view probe) {
  for (const ProbeSpec& spec : probes()) {
    if (spec.name == probe) return spec.remedy;
  }
  return "";
}

}  // namespace

std::string list_probes(Form form) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string text;
  for (const ProbeSpec& spec : probes()) {
    nlohmann::ordered_json families = nlohmann::ordered_json::array();
    const std::string period = std::to_string(static_cast<int>(seconds_of(spec.period) * 1000)) + " ms";
    text += padded(spec.name, 16) + ' ' + padded(period, 8) + ' ' + std::string(spec.help) + '\n';
    for (const FamilyTable& table : spec.families) {
      nlohmann::ordered_json metrics = nlohmann::ordered_json::array();
      text += "  " + std::string(table.path) + " (" + std::string(name_of(table.kind)) + ", " +
              std::string(name_of(table.unit)) + ", per " + std::string(name_of(table.scope)) + ") from " +
              std::string(table.source) + '\n';
      for (const MetricHelp& metric : table.metrics) {
        text += "    " + padded(metric.name, 30) + ' ' + std::string(metric.help) + '\n';
        metrics.push_back({{"name", metric.name}, {"help", metric.help}});
      }
      families.push_back({{"path", table.path},
                          {"kind", name_of(table.kind)},
                          {"unit", name_of(table.unit)},
                          {"scope", name_of(table.scope)},
                          {"subsystem", name_of(table.subsystem)},
                          {"source", table.source},
                          {"metrics", metrics}});
    }
    list.push_back({{"name", spec.name},
                    {"help", spec.help},
                    {"period_seconds", seconds_of(spec.period)},
                    {"families", families}});
  }
  return form == Form::json ? list.dump(2) + '\n' : text;
}

std::string list_coverage(std::span<const Coverage> coverage, Form form) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string text;
  for (const Coverage& fact : coverage) {
    const std::string_view state = name_of_state(fact.state);
    text += padded(fact.probe, 16) + ' ' + padded(state, 7) + ' ' + fact.reason + '\n';
    list.push_back({{"name", fact.probe}, {"state", state}, {"reason", fact.reason}});
    if (fact.state == Coverage::State::ok) continue;
    const std::string_view remedy = remedy_of(fact.probe);
    if (remedy.empty()) continue;
    text += padded("", 25) + "to get it: " + std::string(remedy) + '\n';
    list.back()["remedy"] = remedy;
  }
  return form == Form::json ? list.dump(2) + '\n' : text;
}

}  // namespace reveal
