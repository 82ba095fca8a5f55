#include "hdf5schema/basics/config_file.h"

#include <algorithm>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kLineBlanks = " \t\r";

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t begin = text.find_first_not_of(kLineBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kLineBlanks) - begin + 1);
}

constexpr bool is_quote(char c) noexcept {
  return c == '"' || c == '\'';
}

std::string_view unquoted(std::string_view text) noexcept {
  if (text.size() >= 2 && is_quote(text.front()) && text.back() == text.front()) {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

std::string in_quotes(std::string_view word) {
  return "\"" + std::string(word) + "\"";
}

/// Cuts a comment off; '#' between quotes is none.
std::string_view without_comment(std::string_view line) noexcept {
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != '\0') {
      if (line[i] == quote) quote = '\0';
    } else if (is_quote(line[i])) {
      quote = line[i];
    } else if (line[i] == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

/// Cuts the first of comma-separated words off `rest`. False for a quote that does not end or for text beside one.
bool next_value(std::string_view& rest, std::string& value) {
  rest = trimmed(rest);
  std::size_t end = 0;
  if (!rest.empty() && is_quote(rest.front())) {
    end = rest.find(rest.front(), 1);
    if (end == std::string_view::npos) return false;
    value = rest.substr(1, end - 1);
    rest = trimmed(rest.substr(end + 1));
    if (!rest.empty() && rest.front() != ',') return false;
  } else {
    end = std::min(rest.find(','), rest.size());
    value = trimmed(rest.substr(0, end));
    rest = rest.substr(end);
    if (value.empty() || value.find_first_of("\"'[]") != std::string::npos) return false;
  }
  return true;
}

/// Reads the text right of "key =". There are no escapes: the text between the quotes is the value.
bool read_values(std::string_view text, std::vector<std::string>& values) {
  std::string value;
  if (text.empty()) return false;
  if (text.front() != '[') {
    // A comma in a bare value belongs to it: probes = cpu,memory
    if (!is_quote(text.front()) && text.find_first_of("\"'") == std::string_view::npos) {
      values.emplace_back(text);
      return true;
    }
    if (!next_value(text, value) || !text.empty()) return false;
    values.push_back(std::move(value));
    return true;
  }
  if (text.back() != ']' || text.size() < 2) return false;
  text = trimmed(text.substr(1, text.size() - 2));
  while (!text.empty()) {
    if (!next_value(text, value)) return false;
    values.push_back(std::move(value));
    text = trimmed(text);
    if (!text.empty()) text = trimmed(text.substr(1));  // the comma; one after the last member is allowed
  }
  return true;
}

class Reader {
 public:
  explicit Reader(const std::string& file) { config_.file = file; }

  void line(std::string_view text) {
    ++line_;
    text = trimmed(without_comment(text));
    if (text.empty()) return;
    if (text.front() == '[') {
      heading(text);
    } else {
      entry(text);
    }
  }

  [[nodiscard]] ConfigFile result() && { return std::move(config_); }

 private:
  void problem(const std::string& section, const std::string& what) {
    config_.problems.push_back({section, config_.place(line_) + ": " + what});
  }

  void heading(std::string_view text) {
    inside_ = false;
    if (text.back() != ']') {
      problem("", "a section ends in ]");
      return;
    }
    section_ = trimmed(text.substr(1, text.size() - 2));
    inside_ = true;
    config_.headings.push_back({section_, line_});
  }

  void entry(std::string_view text) {
    const std::size_t equals = text.find('=');
    const std::string_view key = trimmed(text.substr(0, equals));
    if (!inside_) {
      // Below a heading that could not be read, every problem would be reported twice.
      if (config_.problems.empty()) problem("", in_quotes(key) + " stands above the first [section]");
      return;
    }
    if (equals == std::string_view::npos || key.empty()) {
      problem(section_, "expected key = value");
      return;
    }
    ConfigEntry entry{section_, std::string(key), {}, line_};
    if (!read_values(trimmed(text.substr(equals + 1)), entry.values)) {
      problem(section_, in_quotes(key) + " has no value that can be read; expected a word, \"text\" or [\"a\", \"b\"]");
      return;
    }
    config_.entries.push_back(std::move(entry));
  }

  ConfigFile config_;
  std::string section_;
  bool inside_ = false;
  int line_ = 0;
};

}  // namespace

std::string ConfigFile::place(int line) const {
  return file + ":" + std::to_string(line);
}

ConfigFile parse_config(std::string_view text, const std::string& file) {
  Reader reader(file);
  std::string_view line;
  while (next_line(text, line)) reader.line(line);
  return std::move(reader).result();
}

std::string_view config_family(std::string_view section) noexcept {
  return section.substr(0, section.find('.'));
}

std::string_view config_subject(std::string_view section) noexcept {
  const std::size_t dot = section.find('.');
  return dot == std::string_view::npos ? std::string_view() : unquoted(trimmed(section.substr(dot + 1)));
}

}  // namespace reveal
