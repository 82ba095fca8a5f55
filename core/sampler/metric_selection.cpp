#include "core/sampler/metric_selection.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/sampler/probe.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

bool is_pattern(std::string_view name) {
  return name.find_first_of("*?") != std::string_view::npos;
}

/// "vmstat.<key>" of a probe's table as a pattern: "vmstat.*".
std::string pattern_of(std::string_view table_name) {
  std::string pattern;
  bool inside = false;
  for (const char c : table_name) {
    if (c == '<') pattern += '*';
    inside = c == '<' || (inside && c != '>');
    if (!inside && c != '>') pattern += c;
  }
  return pattern;
}

bool is_known(std::string_view metric) {
  for (const ProbeSpec& probe : probes()) {
    for (const FamilyTable& family : probe.families) {
      for (const MetricHelp& help : family.metrics) {
        const std::string pattern = pattern_of(help.name);
        if (pattern != "*" && patterns_meet(metric, pattern)) return true;
      }
    }
  }
  return false;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const ProbeSpec& probe : probes()) {
    for (const FamilyTable& family : probe.families) {
      for (const MetricHelp& help : family.metrics) names.emplace_back(help.name);
    }
  }
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const auto near = nearest(word, names);
  return near ? "; did you mean \"" + *near + "\"?" : "";
}

}  // namespace

bool patterns_meet(std::string_view a, std::string_view b) {
  // meet[j]: the rest of a from i on and of b from j on have a text in common.
  std::vector<char> meet(b.size() + 1), next;
  for (std::size_t i = a.size() + 1; i-- > 0;) {
    next = meet;  // entry i + 1
    for (std::size_t j = b.size() + 1; j-- > 0;) {
      const bool a_ends = i == a.size();
      const bool b_ends = j == b.size();
      const bool a_any = !a_ends && a[i] == '*';
      const bool b_any = !b_ends && b[j] == '*';
      bool here = a_ends && b_ends;
      if (a_any) here = next[j] != 0 || (!b_ends && meet[j + 1] != 0);
      if (b_any) here = here || meet[j + 1] != 0 || (!a_ends && next[j] != 0);
      if (!a_any && !b_any && !a_ends && !b_ends) {
        here = (a[i] == b[j] || a[i] == '?' || b[j] == '?') && next[j + 1] != 0;
      }
      meet[j] = static_cast<char>(here);
    }
  }
  return meet[0] != 0;
}

MetricSelection MetricSelection::read(const std::string& file) {
  std::ifstream text(file);
  if (!text || std::filesystem::is_directory(file)) throw Error(file + ": the metrics of --metrics cannot be read");
  MetricSelection selection;
  selection.file_ = file;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    std::string_view rest = std::string_view(line).substr(0, line.find('#'));
    const std::string_view name = next_word(rest);
    if (name.empty()) continue;
    if (next_word(rest).empty()) {
      selection.add(number, name);
    } else {
      selection.own_.emplace_back(name);
    }
  }
  for (const Line& each : selection.lines_) {
    const auto is_own = [&](const std::string& own) { return patterns_meet(each.metric, own); };
    if (is_known(each.metric) || std::any_of(selection.own_.begin(), selection.own_.end(), is_own)) continue;
    throw Error(file + ':' + std::to_string(each.number) + ": unknown metric \"" + each.metric + '"' +
                did_you_mean(each.metric, known_names()));
  }
  return selection;
}

void MetricSelection::add(int number, std::string_view name) {
  const std::size_t slash = name.find('/');
  Line line{.number = number, .metric = std::string(name.substr(0, slash)), .instance = {}};
  if (slash != std::string_view::npos) line.instance = name.substr(slash + 1);
  if (is_pattern(name)) {
    patterns_.push_back(lines_.size());
  } else {
    if (!exact_.emplace(line.name(), lines_.size()).second) return;  // named before
  }
  lines_.push_back(std::move(line));
}

bool MetricSelection::take(std::string_view metric, std::string_view instance) {
  if (everything() || std::find(own_.begin(), own_.end(), metric) != own_.end()) return true;
  seen_.emplace_back(metric);
  bool taken = false;
  const std::string name(metric);
  for (const std::string& wanted : {name, name + '/' + std::string(instance)}) {
    const auto found = exact_.find(wanted);
    if (found == exact_.end()) continue;
    lines_[found->second].found = taken = true;
  }
  for (const std::size_t place : patterns_) {
    Line& line = lines_[place];
    if (!patterns_meet(line.metric, metric)) continue;
    if (!line.instance.empty() && !patterns_meet(line.instance, instance)) continue;
    line.found = taken = true;
  }
  return taken;
}

bool MetricSelection::meets(const FamilyTable& family) const {
  if (everything() || family.subsystem == Subsystem::self) return true;
  return std::any_of(family.metrics.begin(), family.metrics.end(), [&](const MetricHelp& help) {
    const std::string pattern = pattern_of(help.name);
    return std::any_of(lines_.begin(), lines_.end(),
                       [&](const Line& line) { return patterns_meet(line.metric, pattern); });
  });
}

std::string MetricSelection::source() const {
  return std::to_string(lines_.size()) + " names of " + std::filesystem::path(file_).filename().string();
}

std::optional<std::string> MetricSelection::missing() const {
  const auto not_found = [](const Line& line) { return !line.found; };
  const auto first = std::find_if(lines_.begin(), lines_.end(), not_found);
  if (first == lines_.end()) return std::nullopt;
  const auto count = std::count_if(lines_.begin(), lines_.end(), not_found);
  return file_ + ": " + std::to_string(count) + " of " + std::to_string(lines_.size()) +
         " lines match no metric of this node so far, the first in line " + std::to_string(first->number) + ": \"" +
         first->name() + '"' + did_you_mean(first->metric, seen_);
}

}  // namespace reveal
