#include "hdf5schema/basics/config.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

std::string quoted_word(std::string_view word) {
  return "\"" + std::string(word) + "\"";
}

std::string meant(std::string_view word, const std::vector<std::string>& known, const std::string& before,
                  const std::string& after) {
  const auto near = nearest(word, known);
  return near ? "; did you mean " + before + *near + after + "?" : "";
}

const ConfigSection* find_section(std::string_view family) {
  const auto* known = std::find_if(std::begin(kConfigSections), std::end(kConfigSections),
                                   [&](const ConfigSection& each) { return each.name == family; });
  return known == std::end(kConfigSections) ? nullptr : known;
}

/// None for sections that this program has no rows for, and for unknown ones.
std::vector<const ConfigKey*> keys_of_section(const std::string& section) {
  std::vector<const ConfigKey*> keys;
  const std::string subject(config_subject(section));
  const ConfigSubjects* subjects = config_subjects(config_family(section));
  if (subjects != nullptr && !subject.empty()) {
    for (const ConfigKey& key : subjects->keys(subject)) keys.push_back(&key);
  }
  for (const ConfigKey& key : kConfigKeys) {
    if (key.section == section) keys.push_back(&key);
  }
  return keys;
}

const ConfigKey* find_in(const std::vector<const ConfigKey*>& keys, std::string_view name) {
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const ConfigKey* each) { return each->key == name; });
  return key == keys.end() ? nullptr : *key;
}

std::vector<std::string> names_of_keys(const std::vector<const ConfigKey*>& keys) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const ConfigKey* key : keys) names.emplace_back(key->key);
  return names;
}

/// Why a section is none of reveal's; "" if it is.
std::string mistake_in_section(const std::string& section) {
  const std::string family(config_family(section));
  const std::string subject(config_subject(section));
  if (const ConfigSection* known = find_section(family)) {
    if (known->subject.empty() == subject.empty()) {
      const ConfigSubjects* subjects = config_subjects(family);
      if (subject.empty() || subjects == nullptr || !subjects->keys(subject).empty()) return "";
      return "unknown " + std::string(known->subject) + " " + quoted_word(subject) +
             meant(subject, subjects->names(), "\"", "\"");
    }
    return subject.empty()
               ? "[" + section + "] names no " + std::string(known->subject) + "; expected [" + family + ".\"ID\"]"
               : "unknown section [" + section + "]; did you mean [" + family + "]?";
  }
  // Sections of the same shape come first: [rul."cpu.outsider"] is nearer to a rule than to [run].
  std::vector<std::string> alike;
  std::vector<std::string> all;
  for (const ConfigSection& each : kConfigSections) {
    all.emplace_back(each.name);
    if (each.subject.empty() == subject.empty()) alike.emplace_back(each.name);
  }
  std::string near = meant(family, alike, "[", section.substr(family.size()) + "]");
  if (near.empty()) near = meant(family, all, "[", "]");
  return "unknown section [" + section + "]" + near;
}

std::vector<std::string> fallback_of(const ConfigKey& key) {
  if (key.form == ConfigForm::command) return split_words(key.fallback);
  if (key.fallback.empty()) return {};
  return {std::string(key.fallback)};
}

/// Labels of weaker sources stay where a stronger one has none of that key.
void add_labels(std::vector<std::string>& labels, const std::vector<std::string>& stronger) {
  for (const std::string& label : stronger) {
    const std::string start = label.substr(0, label.find('=') + 1);
    std::erase_if(labels, [&](const std::string& old) { return old.starts_with(start); });
    labels.push_back(label);
  }
}

}  // namespace

void Config::read(std::string_view text, const std::string& file, ConfigOwner owner) {
  const std::size_t before = problems_.size();
  const ConfigFile parsed = parse_config(text, file);
  problems_.insert(problems_.end(), parsed.problems.begin(), parsed.problems.end());
  for (const ConfigHeading& heading : parsed.headings) read_section(parsed, heading, owner);
  for (const ConfigEntry& entry : parsed.entries) read_entry(parsed, entry, owner);
  if (owner == ConfigOwner::site) doubt_defaults(file, before);
}

void Config::read_file(const std::filesystem::path& file, ConfigOwner owner) {
  // Files in a directory that this user may not enter are ignored, such as a build in another home.
  if (::access(file.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) return;
  try {
    read(read_text_file(file, kLargestConfig, FileOf::anybody, Follow::yes), file.string(), owner);
  } catch (const Error& error) {
    problems_.push_back({"", std::string(error.what()) + "; its settings do not apply"});
    if (owner == ConfigOwner::site) doubt_defaults(file.string(), problems_.size() - 1);
  }
}

/// A line that cannot be understood may have been meant for a key with a harmful default.
void Config::doubt_defaults(const std::string& file, std::size_t problems_before) {
  for (const ConfigKey& key : kConfigKeys) {
    const auto hides = [&](const ConfigProblem& problem) {
      return !problem.of_key && (problem.section.empty() || problem.section == key.section);
    };
    const auto first = problems_.begin() + static_cast<std::ptrdiff_t>(problems_before);
    if (std::any_of(first, problems_.end(), hides)) doubt(key, file);
  }
}

void Config::doubt(const ConfigKey& key, const std::string& place) {
  const std::pair name{std::string(key.section), std::string(key.key)};
  if (!key.mistaken || values_.contains(name)) return;
  values_[name] = {{std::string(*key.mistaken)}, place};
  problems_.push_back({name.first,
                       place + ": perhaps " + quoted_word(key.key) + " in [" + name.first + "] was meant; " +
                           written(key, list(key)) + " is used",
                       true});
}

void Config::read_section(const ConfigFile& file, const ConfigHeading& heading, ConfigOwner owner) {
  const std::string family(config_family(heading.name));
  const ConfigSection* known = find_section(family);
  std::string mistake = mistake_in_section(heading.name);
  const bool mine = known == nullptr || known->owner == ConfigOwner::user || owner == ConfigOwner::site;
  if (mistake.empty() && !mine) mistake = "[" + family + "] is the site's to set; it is not read from here";
  if (mistake.empty()) return;
  // A program without rules does not report a rule that does not exist.
  problems_.push_back({known != nullptr && mine && !known->subject.empty() ? family : "",
                       file.place(heading.line) + ": " + mistake, true});
}

void Config::read_entry(const ConfigFile& file, const ConfigEntry& entry, ConfigOwner owner) {
  const ConfigSection* section = find_section(config_family(entry.section));
  if (section == nullptr && owner == ConfigOwner::site) {
    for (const ConfigKey& key : kConfigKeys) {
      if (key.key == entry.key) doubt(key, file.place(entry.line));  // below a mistyped heading
    }
  }
  if (section == nullptr || (section->owner == ConfigOwner::site && owner == ConfigOwner::user)) return;
  const auto keys = keys_of_section(entry.section);
  if (keys.empty()) return;  // reported for its heading, or no row of this program
  if (const ConfigKey* key = find_in(keys, entry.key)) {
    const std::string place = file.place(entry.line);
    return set_or_report(*key, entry.values, place, place + ": " + quoted_word(key->key), owner);
  }
  problems_.push_back({entry.section,
                       file.place(entry.line) + ": unknown key " + quoted_word(entry.key) + " in [" + entry.section +
                           "]" + meant(entry.key, names_of_keys(keys), "\"", "\""),
                       true});
  const auto near = nearest(entry.key, names_of_keys(keys));
  if (near && owner == ConfigOwner::site) doubt(*find_in(keys, *near), file.place(entry.line));
}

void Config::set_or_report(const ConfigKey& key, const std::vector<std::string>& values, const std::string& place,
                           const std::string& name, ConfigOwner owner) {
  const std::string mistake = set(key, values, place);
  if (mistake.empty()) return;
  if (key.mistaken && owner == ConfigOwner::site) {
    values_[{std::string(key.section), std::string(key.key)}] = {{std::string(*key.mistaken)}, place};
  }
  problems_.push_back({std::string(key.section), name + mistake + "; " + written(key, list(key)) + " is used", true});
}

void Config::read_environment(const Environment& environment, std::span<const std::string> names) {
  constexpr std::string_view kPrefix = "REVEAL_";
  std::vector<std::string> known;
  for (const ConfigKey& key : kConfigKeys) {
    const std::string variable = variable_of(key);
    if (!variable.empty()) known.push_back(variable.substr(kPrefix.size()));
    const std::string value = variable.empty() ? "" : environment(variable.c_str());
    if (value.empty()) continue;
    const bool several = key.form == ConfigForm::labels;
    set_or_report(key, several ? split_names(value, ",") : std::vector<std::string>{value}, variable, variable,
                  ConfigOwner::user);
  }
  for (const std::string& name : names) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string own = name.substr(kPrefix.size());
    if (std::find(known.begin(), known.end(), own) != known.end()) continue;
    const std::string near = meant(own, known, std::string(kPrefix), "");
    if (!near.empty()) problems_.push_back({"run", "no setting has the name " + name + near, true});
  }
}

std::string Config::set(const ConfigKey& key, const std::vector<std::string>& values, const std::string& place) {
  std::string mistake = mistake_in(key, values);
  if (!mistake.empty()) return mistake;
  Value& value = values_[{std::string(key.section), std::string(key.key)}];
  value.place = place;
  if (key.form == ConfigForm::labels) {
    add_labels(value.values, values);
  } else if (key.form == ConfigForm::command) {
    value.values.clear();
    for (const std::string& part : values) {
      const auto words = split_words(part);
      value.values.insert(value.values.end(), words.begin(), words.end());
    }
  } else {
    value.values = values;
  }
  return "";
}

const Config::Value* Config::find(const ConfigKey& key) const {
  const auto value = values_.find({std::string(key.section), std::string(key.key)});
  return value == values_.end() ? nullptr : &value->second;
}

std::vector<std::string> Config::list(const ConfigKey& key) const {
  const Value* value = find(key);
  std::vector<std::string> values = value == nullptr ? fallback_of(key) : value->values;
  std::erase(values, "");
  return values;
}

std::string Config::text(const ConfigKey& key) const {
  std::string text;
  for (const std::string& value : list(key)) text += (text.empty() ? "" : ",") + value;
  return text;
}

bool Config::truth(const ConfigKey& key) const {
  return parse_truth(text(key)).value_or(false);
}

std::int64_t Config::whole(const ConfigKey& key) const {
  return parse_int(text(key)).value_or(0);
}

double Config::number(const ConfigKey& key) const {
  return parse_number(text(key)).value_or(0);
}

std::chrono::nanoseconds Config::time(const ConfigKey& key) const {
  return parse_duration(text(key)).value_or(std::chrono::nanoseconds(0));
}

std::uint64_t Config::size(const ConfigKey& key) const {
  return parse_bytes(text(key)).value_or(0);
}

std::string Config::place(const ConfigKey& key) const {
  const Value* value = find(key);
  return value == nullptr ? "" : value->place;
}

std::vector<std::string> Config::problems_of(std::initializer_list<std::string_view> sections) const {
  std::vector<std::string> texts;
  for (const ConfigProblem& problem : problems_) {
    const bool mine = problem.section.empty() ||
                      std::find(sections.begin(), sections.end(), config_family(problem.section)) != sections.end();
    if (mine) texts.push_back(problem.text);
  }
  return texts;
}

std::vector<ConfigPlace> config_places(const std::filesystem::path& program, const Environment& environment) {
  std::vector<ConfigPlace> places{{kSiteConfig}};
  const auto installed = (program.parent_path() / "../etc/reveal/reveal.conf").lexically_normal();
  if (program.has_parent_path() && installed != kSiteConfig) places.push_back({installed});
  if (::geteuid() == 0) return places;
  std::string base = environment("XDG_CONFIG_HOME");
  if (base.empty() && !environment("HOME").empty()) base = environment("HOME") + "/.config";
  if (!base.empty()) places.push_back({base + "/reveal/reveal.conf", ConfigOwner::user});
  return places;
}

std::vector<const ConfigKey*> all_config_keys() {
  std::vector<const ConfigKey*> all;
  for (const ConfigSection& section : kConfigSections) {
    std::vector<std::string> names{std::string(section.name)};
    if (const ConfigSubjects* subjects = config_subjects(section.name)) {
      names = subjects->names();
      for (std::string& name : names) name = std::string(section.name) + "." + name;
    }
    for (const std::string& name : names) {
      const auto keys = keys_of_section(name);
      all.insert(all.end(), keys.begin(), keys.end());
    }
  }
  return all;
}

const ConfigKey& find_config_key(std::string_view name) {
  std::vector<std::string> known;
  for (const ConfigKey* key : all_config_keys()) {
    known.push_back(std::string(key->section) + "." + std::string(key->key));
    std::erase(known.back(), '"');
    if (known.back() == name) return *key;
  }
  throw Error("no key " + quoted_word(name) + meant(name, known, "\"", "\""));
}

std::string config_template() {
  constexpr std::size_t kWidth = 118;
  constexpr std::string_view kSampleSubject = "cpu.outsider";
  const auto comment = [](std::string_view text) {
    std::string lines;
    for (std::string_view part; next_line(text, part);) {
      const std::string whole = folded("", part, 0, kWidth);
      std::string_view rest = whole;
      for (std::string_view line; next_line(rest, line);) lines += "# " + std::string(line) + "\n";
    }
    return lines;
  };
  std::string text = comment(
      "reveal.conf: one file for all programs of reveal. All values here are the defaults; uncomment the lines that "
      "you change. `reveal config` prints the current settings, and where each one is set.\n"
      "The site's file is /etc/reveal/reveal.conf; a user's ~/.config/reveal/reveal.conf is read after it and may set "
      "[run], [report] and [rule]. Stronger than both: REVEAL_* in the environment, then the command line. Programs "
      "that "
      "run as root read only the site's file.\n"
      "A key that does not exist or a value that cannot be understood is reported with its line; everything else "
      "applies.\n");
  for (const ConfigSection& section : kConfigSections) {
    const bool sample = !section.subject.empty();
    std::string name(section.name);
    if (sample) name += ".\"" + std::string(kSampleSubject) + "\"";
    const auto keys = keys_of_section(name);
    text += "\n" + (sample ? comment(section.help) + "# [" + name + "]\n" : "[" + name + "]\n" + comment(section.help));
    for (const ConfigKey* key : keys) {
      text += (sample ? "" : "\n") + comment(key->help) + "# " + std::string(key->key) + " = " +
              written(*key, fallback_of(*key)) + "\n";
    }
  }
  return text;
}

}  // namespace reveal
