#include "hdf5schema/basics/config_keys.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

struct ConfigCheck {
  const ConfigKey* key;
  std::string (*mistake)(const std::vector<std::string>&);
};

std::vector<ConfigCheck>& config_checks() {
  static std::vector<ConfigCheck> checks;
  return checks;
}

std::vector<ConfigSubjects>& all_config_subjects() {
  static std::vector<ConfigSubjects> subjects;
  return subjects;
}

std::string as_word(std::string_view value) {
  return "\"" + std::string(value) + "\"";
}

std::string listed_choices(std::string_view choices) {
  std::string text;
  std::string_view rest = choices;
  for (std::string_view word = next_word(rest); !word.empty();) {
    const std::string_view next = next_word(rest);
    if (!text.empty()) text += next.empty() ? " or " : ", ";
    text += word;
    word = next;
  }
  return text;
}

bool is_choice(std::string_view value, std::string_view choices) {
  for (std::string_view word = next_word(choices); !word.empty(); word = next_word(choices)) {
    if (word == value) return true;
  }
  return false;
}

/// An empty bound accepts every value.
template <typename Parse>
bool within(const ConfigKey& key, std::string_view value, Parse parse) {
  const auto given = parse(value);
  return given && (key.least.empty() || *given >= *parse(key.least)) &&
         (key.most.empty() || *given <= *parse(key.most));
}

bool is_pattern(const std::string& value) {
  try {
    static_cast<void>(expand_pattern(value, [](const char*) { return std::string(); }));
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool is_retention(std::string_view value) {
  constexpr std::string_view kRolling = "rolling=";
  if (value == "full" || value == "summary") return true;
  return value.starts_with(kRolling) && parse_duration(value.substr(kRolling.size())).value_or(0s) >= 1min;
}

bool is_label(const std::string& value) {
  const std::size_t equals = value.find('=');
  return equals != 0 && equals != std::string::npos;
}

bool fits(const ConfigKey& key, const std::string& value) {
  switch (key.form) {
    case ConfigForm::truth:
      return parse_truth(value).has_value();
    case ConfigForm::whole:
      return within(key, value, parse_int);
    case ConfigForm::number:
      return within(key, value, parse_number);
    case ConfigForm::time:
      return within(key, value, parse_duration);
    case ConfigForm::size:
      return parse_bytes(value).value_or(0) > 0;
    case ConfigForm::choice:
      return is_choice(value, key.words);
    case ConfigForm::path:
      return value.empty() || value.front() == '/';
    case ConfigForm::readable:
      return value.empty() || ::access(value.c_str(), R_OK) == 0;
    case ConfigForm::pattern:
      return is_pattern(value);
    case ConfigForm::retention:
      return is_retention(value);
    case ConfigForm::labels:
      return is_label(value);
    // The PATH of the user is not searched for the site's program.
    case ConfigForm::command:
      return value.starts_with('/');
    case ConfigForm::text:
    case ConfigForm::names:
    case ConfigForm::list:
      return true;
  }
  return false;
}

bool takes_several(ConfigForm form) noexcept {
  return form == ConfigForm::names || form == ConfigForm::list || form == ConfigForm::labels ||
         form == ConfigForm::command;
}

}  // namespace

RegisteredConfigSubjects::RegisteredConfigSubjects(const ConfigSubjects& subjects) {
  all_config_subjects().push_back(subjects);
}

const ConfigSubjects* config_subjects(std::string_view section) noexcept {
  for (const ConfigSubjects& subjects : all_config_subjects()) {
    if (subjects.section == section) return &subjects;
  }
  return nullptr;
}

RegisteredConfigCheck::RegisteredConfigCheck(const ConfigKey& key,
                                             std::string (*mistake)(const std::vector<std::string>&)) {
  config_checks().push_back({&key, mistake});
}

std::string expected(const ConfigKey& key) {
  const std::string range = key.most.empty() ? "" : " from " + std::string(key.least) + " to " + std::string(key.most);
  switch (key.form) {
    case ConfigForm::truth:
      return "true or false";
    case ConfigForm::whole:
      return "a whole number" + range;
    case ConfigForm::number:
      return "a number" + range + ", in " + std::string(key.words);
    case ConfigForm::time:
      return "a time" + range;
    case ConfigForm::size:
      return "a size such as 2GB";
    case ConfigForm::choice:
      return listed_choices(key.words);
    case ConfigForm::path:
      return "the full path of a file";
    case ConfigForm::readable:
      return "a file that can be read";
    case ConfigForm::pattern:
      return "a directory, of whose name Slurm's %j, %x, %u, %A and %a may be a part";
    case ConfigForm::retention:
      return "full, summary or rolling=TIME of at least 1min";
    case ConfigForm::labels:
      return "KEY=VALUE";
    case ConfigForm::command:
      return "a command that begins with the full path of a program";
    case ConfigForm::text:
      return "one value";
    case ConfigForm::names:
    case ConfigForm::list:
      return "a list of words";
  }
  return "";
}

std::string mistake_in(const ConfigKey& key, const std::vector<std::string>& values) {
  if (values.size() != 1 && !takes_several(key.form)) return " takes one value";
  if (values.empty() && key.form == ConfigForm::command) return " is " + expected(key);
  for (const std::string& value : values) {
    const bool argument = key.form == ConfigForm::command && &value != &values.front();
    if (!argument && !fits(key, value)) return " is " + expected(key) + ", not " + as_word(value);
  }
  for (const ConfigCheck& check : config_checks()) {
    if (check.key->section != key.section || check.key->key != key.key) continue;
    if (std::string mistake = check.mistake(values); !mistake.empty()) return ": " + mistake;
  }
  return "";
}

std::optional<bool> parse_truth(std::string_view word) noexcept {
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return std::nullopt;
}

std::optional<double> parse_number(std::string_view word) noexcept {
  constexpr double kMost = 1e18;
  double number = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (failure != std::errc() || end != word.data() + word.size() || !(number >= 0 && number < kMost)) return {};
  return number;
}

std::string variable_of(const ConfigKey& key) {
  if (key.section != config_key("run", "interval").section) return "";
  std::string name = "REVEAL_" + std::string(key.key);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name;
}

std::string written(const ConfigKey& key, const std::vector<std::string>& values) {
  std::string text;
  if (key.form == ConfigForm::command) {
    for (const std::string& value : values) text += (text.empty() ? "" : " ") + value;
    return as_word(text);
  }
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + as_word(value);
  if (key.form == ConfigForm::list || key.form == ConfigForm::labels) return "[" + text + "]";
  const bool bare = key.form == ConfigForm::truth || key.form == ConfigForm::whole || key.form == ConfigForm::number;
  if (bare && values.size() == 1) return values.front();
  if (values.empty()) return "\"\"";
  return values.size() == 1 ? text : "[" + text + "]";
}

}  // namespace reveal
