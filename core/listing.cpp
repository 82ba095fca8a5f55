#include "core/listing.h"

#include <nlohmann/json.hpp>

#include "hdf5schema/basics/enum_names.h"

namespace reveal {
namespace {

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

constexpr std::size_t kSmallHost = 2;
constexpr std::size_t kLargeHost = 1152;

std::chrono::nanoseconds period_on(const ProbeSpec& spec, std::size_t cpus) {
  Host host;
  host.cpus_online.resize(cpus);
  return spec.period_on != nullptr ? spec.period_on(host) : spec.period;
}

std::string padded(std::string_view text, std::size_t width) {
  std::string out(text);
  if (out.size() < width) out.append(width - out.size(), ' ');
  return out;
}

std::string_view remedy_of(std::string_view probe) {
  for (const ProbeSpec& spec : probes()) {
    if (spec.name == probe) return spec.remedy;
  }
  return "";
}

std::string time_text(std::chrono::nanoseconds period) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(period).count();
  return milliseconds % 1000 == 0 ? std::to_string(milliseconds / 1000) + " s" : std::to_string(milliseconds) + " ms";
}

std::string period_text(std::chrono::nanoseconds period) {
  return period <= kDefaultInterval ? "tick (100 ms)" : time_text(period);  // a tick, whatever the interval
}

/// "1 s", "1 s, at times 100 ms", or "tick (100 ms) to 2 s" where hosts of more cpus are read less often.
std::string periods_of(const ProbeSpec& spec) {
  const bool faster = spec.faster_while_unusual.count() > 0;
  if (faster) return period_text(spec.period) + ", at times " + time_text(spec.faster_while_unusual);
  if (spec.period_on == nullptr) return period_text(spec.period);
  const std::string small = period_text(period_on(spec, kSmallHost));
  const std::string large = period_text(period_on(spec, kLargeHost));
  return small == large ? small : small + " to " + large;
}

std::string probes_as_text() {
  std::string text;
  for (const ProbeSpec& spec : probes()) {
    text += padded(spec.name, 20) + ' ' + padded(periods_of(spec), 20) + ' ' + std::string(spec.help) + '\n';
    if (!spec.privilege.empty()) text += "  needs " + std::string(spec.privilege) + '\n';
    for (const FamilyTable& table : spec.families) {
      text += "  " + std::string(table.path) + " (" + std::string(name_of(table.kind)) + ", " +
              std::string(name_of(table.unit)) + ", per " + std::string(name_of(table.scope)) + ") from " +
              std::string(table.source) + '\n';
      for (const MetricHelp& metric : table.metrics) {
        text += "    " + padded(metric.name, 30) + ' ' + std::string(metric.help) + '\n';
      }
    }
  }
  return text;
}

nlohmann::ordered_json metric_as_json(const FamilyTable& table, const MetricHelp& metric) {
  return {{"name", metric.name},
          {"unit", name_of(table.unit)},
          {"kind", name_of(table.kind)},
          {"scope", name_of(table.scope)},
          {"subsystem", name_of(table.subsystem)},
          {"source", table.source},
          {"family", table.path},
          {"help", metric.help}};
}

std::string probes_as_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ProbeSpec& spec : probes()) {
    nlohmann::ordered_json families = nlohmann::ordered_json::array();
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const FamilyTable& table : spec.families) {
      nlohmann::ordered_json metrics = nlohmann::ordered_json::array();
      for (const MetricHelp& metric : table.metrics) {
        metrics.push_back({{"name", metric.name}, {"help", metric.help}});
        all.push_back(metric_as_json(table, metric));
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
                    {"period_seconds", seconds_of(period_on(spec, kSmallHost))},
                    {"period_seconds_on_1152_cpus", seconds_of(period_on(spec, kLargeHost))},
                    {"privilege", spec.privilege},
                    {"remedy", spec.remedy},
                    {"families", families},
                    {"metrics", all}});
  }
  return list.dump(2) + '\n';
}

// A bar would end the cell, and <key> be taken for a tag.
std::string cell(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '|' || letter == '<' || letter == '*' || letter == '_') out += '\\';
    out += letter;
  }
  return out;
}

std::string probes_as_markdown() {
  std::string text = "# What reveal measures\n";
  for (const ProbeSpec& spec : probes()) {
    text += "\n## " + std::string(spec.name) + "\n\n" + cell(spec.help) + ". Every " + periods_of(spec) +
            "; privilege: " + cell(spec.privilege.empty() ? "none" : spec.privilege) + ".\n\n" +
            "| metric | unit | kind | per | source | meaning |\n|---|---|---|---|---|---|\n";
    for (const FamilyTable& table : spec.families) {
      for (const MetricHelp& metric : table.metrics) {
        text += "| " + cell(metric.name) + " | " + std::string(name_of(table.unit)) + " | " +
                std::string(name_of(table.kind)) + " | " + std::string(name_of(table.scope)) + " | " +
                cell(table.source) + " | " + cell(metric.help) + " |\n";
      }
    }
  }
  return text;
}

}  // namespace

std::string list_probes(Form form) {
  if (form == Form::json) return probes_as_json();
  return form == Form::markdown ? probes_as_markdown() : probes_as_text();
}

std::string list_facts(const Snapshot& facts, Form form) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  std::string text;
  for (const auto& [key, value] : facts) {
    text.append(key).append(" = ").append(value).append(1, '\n');
    all[key] = value;
  }
  return form == Form::json ? all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n' : text;
}

std::string list_coverage(std::span<const CheckedProbe> checked, Form form) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string text;
  for (const auto& [fact, absence] : checked) {
    const std::string_view state = name_in(kCoverageStates, fact.state);
    text += padded(fact.probe, 20) + ' ' + padded(state, 7) + ' ' + fact.reason + '\n';
    list.push_back({{"name", fact.probe}, {"state", state}, {"reason", fact.reason}});
    if (fact.state == Coverage::State::ok) continue;
    list.back()["absence"] = name_of(absence);
    const std::string_view remedy = remedy_of(fact.probe);
    if (remedy.empty()) continue;
    text += padded("", 29) + "to enable it: " + std::string(remedy) + '\n';
    list.back()["remedy"] = remedy;
  }
  return form == Form::json ? list.dump(2) + '\n' : text;
}

}  // namespace reveal
