#include "postproc/compare/tried_line.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/shell_word.h"
#include "postproc/diagnose/rule.h"
#include "postproc/words/remedy_lines.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::string_view kOnlyAShellCan = "|&;<>()$`*?[]{}\n";
constexpr std::string_view kOnlyAShellCanInQuotes = "$`";

constexpr std::string_view kTorchrun = "torchrun";

[[noreturn]] void needs_a_shell(std::string_view line, char c) {
  throw Error(fmt::format("\"{}\": {} needs a shell; quote it if it is meant literally, or put the line into a script",
                          printable(line, 100), c == '\n' ? std::string("a line break") : std::string(1, c)));
}

/// Cuts the text in quotes off `rest`, which begins with the quote.
std::string quoted_text(std::string_view& rest, std::string_view line) {
  const char quote = rest.front();
  std::string text;
  for (rest.remove_prefix(1); !rest.empty() && rest.front() != quote; rest.remove_prefix(1)) {
    if (rest.front() == '\n') needs_a_shell(line, '\n');  // a patch has one line for each variable
    if (quote == '"') {
      if (kOnlyAShellCanInQuotes.find(rest.front()) != std::string_view::npos) needs_a_shell(line, rest.front());
      const bool escaped = rest.front() == '\\' && rest.size() > 1 && (rest[1] == '"' || rest[1] == '\\');
      if (escaped) rest.remove_prefix(1);
    }
    text += rest.front();
  }
  if (rest.empty()) throw Error(fmt::format("\"{}\": a quote is not closed", printable(line, 100)));
  rest.remove_prefix(1);
  return text;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::string next_shell_word(std::string_view& rest, std::string_view line) {
  std::string word;
  while (!rest.empty() && !is_blank(rest.front())) {
    // A shell puts a home directory there.
    if (rest.front() == '~' && (word.empty() || word.back() == '=' || word.back() == ':')) needs_a_shell(line, '~');
    if (rest.front() == '\'' || rest.front() == '"') {
      word += quoted_text(rest, line);
      continue;
    }
    if (kOnlyAShellCan.find(rest.front()) != std::string_view::npos) needs_a_shell(line, rest.front());
    if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
    if (rest.front() == '\n') needs_a_shell(line, '\n');
    word += rest.front();
    rest.remove_prefix(1);
  }
  return word;
}

bool is_name(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  constexpr std::string_view kDigits = "0123456789";
  return !name.empty() && kDigits.find(name.front()) == std::string_view::npos &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return kLetters.find(c) != std::string_view::npos || kDigits.find(c) != std::string_view::npos;
         });
}

bool is_assignment(std::string_view word) {
  const std::size_t sign = word.find('=');
  return sign != std::string_view::npos && is_name(word.substr(0, sign));
}

std::pair<std::string, std::string> assignment(const std::string& word) {
  const std::size_t sign = word.find('=');
  return {word.substr(0, sign), word.substr(sign + 1)};
}

/// Takes the names behind `export` or `unset`.
void take_names(const std::vector<std::string>& words, std::string_view line, TriedLine& tried) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words.front() == "export" && is_assignment(words[i])) {
      tried.set.push_back(assignment(words[i]));
    } else if (words.front() == "unset" && is_name(words[i])) {
      tried.unset.push_back(words[i]);
    } else {
      throw Error(fmt::format("\"{}\": \"{}\" is no {}", printable(line, 100), printable(words[i], 40),
                              words.front() == "export" ? "NAME=VALUE" : "name of a variable"));
    }
  }
}

bool begins_the_command(const std::string& word, const std::string& command) {
  return word == "..." || word == "COMMAND" || (!command.empty() && word == command);
}

/// torchrun runs a script of Python, and no interpreter. Other programs (ps, df, nsys) show or change something
/// themselves.
bool can_wrap(std::string_view program, std::string_view command) {
  return is_launcher(program) && (program != kTorchrun || command.ends_with(".py"));
}

bool is_own_launcher(const std::string& word, std::string_view command) {
  return is_launcher(word) && word == command.substr(command.rfind('/') + 1);  // npos + 1 is 0
}

/// Options behind a launcher with which the command begins, too. Of words behind them only the report's name of the
/// program may stand there: "-n 4" cannot be distinguished from an option and a program.
std::vector<std::string> options_of(std::vector<std::string>::const_iterator word,
                                    std::vector<std::string>::const_iterator end, std::string_view line) {
  const auto dots = std::find_if(word, end, [](const std::string& one) { return one == "..." || one == "COMMAND"; });
  const auto last = std::find_if(word, dots, [](const std::string& one) { return !one.starts_with('-'); });
  if (dots - last > 1) {
    throw Error(fmt::format("\"{}\": the command begins with this program itself; give only options, as --name=value",
                            printable(line, 100)));
  }
  return {word, last};
}

}  // namespace

std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  std::string_view rest = line;
  while (true) {
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    if (rest.empty() || rest.front() == '#') return words;
    words.push_back(next_shell_word(rest, line));
  }
}

TriedLine parse_tried_line(std::string_view line, const std::string& command) {
  if (line.starts_with("#SBATCH")) {
    throw Error(
        fmt::format("\"{}\" is for the batch system: submit two jobs, then reveal compare", printable(line, 100)));
  }
  const std::vector<std::string> words = shell_words(line);
  if (words.empty()) throw Error("an empty line cannot be tried");
  TriedLine tried;
  if (words.front() == "export" || words.front() == "unset") {
    take_names(words, line, tried);
  } else {
    auto word = words.begin();
    for (; word != words.end() && is_assignment(*word); ++word) tried.set.push_back(assignment(*word));
    if (word != words.end() && is_own_launcher(*word, command)) {
      tried.options = options_of(word + 1, words.end(), line);
      word = words.end();
    }
    const auto end = std::find_if(word, words.end(), [&](const auto& one) { return begins_the_command(one, command); });
    tried.prefix.assign(word, end);
  }
  if (tried.empty()) throw Error(fmt::format("\"{}\" changes nothing", printable(line, 100)));
  return tried;
}

TriedLine joined(const std::vector<TriedLine>& lines) {
  TriedLine all;
  for (const TriedLine& line : lines) {
    all.set.insert(all.set.end(), line.set.begin(), line.set.end());
    all.unset.insert(all.unset.end(), line.unset.begin(), line.unset.end());
    all.prefix.insert(all.prefix.end(), line.prefix.begin(), line.prefix.end());
    all.options.insert(all.options.end(), line.options.begin(), line.options.end());
  }
  return all;
}

std::string line_to_try(const Finding& finding, const std::string& command) {
  const RuleSpec* rule = find_rule(finding.id);
  for (const std::string& line : finding.remedy.user) {
    if (rule == nullptr || !is_one_of(line, rule->user_remedy)) continue;
    try {
      const TriedLine tried = parse_tried_line(line, command);
      if (tried.prefix.empty() || can_wrap(tried.prefix.front(), command)) return line;
    } catch (const Error&) {
      continue;  // a line that is typed elsewhere: sbatch, ps, a pipe
    }
  }
  throw Error(fmt::format("{} has no line that can be put before a command; give one yourself: --with 'LINE'",
                          printable(finding.id, 80)));
}

std::string option_word(const std::string& word) {
  if (word.empty()) return "''";
  std::string quoted = shell_word("_" + word);  // which would take an option for a file
  return quoted.erase(quoted.find('_'), 1);
}

namespace {

void append(std::string& text, const std::string& word) {
  text += (text.empty() ? "" : " ") + word;
}

std::string typed_environment(const TriedLine& line) {
  std::string text;
  for (const std::string& name : line.unset) append(text, "env -u " + name);
  for (const auto& [name, value] : line.set) append(text, name + "=" + (value.empty() ? "" : option_word(value)));
  return text;
}

}  // namespace

std::string as_typed(const TriedLine& line) {
  std::string text = typed_environment(line);
  for (const std::string& word : line.prefix) append(text, option_word(word));
  if (!line.options.empty()) append(text, "...");
  for (const std::string& word : line.options) append(text, option_word(word));
  return text;
}

std::vector<std::string> command_with(const TriedLine& line, std::span<const std::string> command) {
  std::vector<std::string> words = line.prefix;
  words.push_back(command.front());
  words.insert(words.end(), line.options.begin(), line.options.end());
  words.insert(words.end(), command.begin() + 1, command.end());
  return words;
}

std::string as_typed(const TriedLine& line, std::span<const std::string> command) {
  std::string text = typed_environment(line);
  for (const std::string& word : command_with(line, command)) append(text, option_word(word));
  return text;
}

std::vector<std::string> environment_with(const TriedLine& line, std::span<const std::string> environment) {
  std::vector<std::string> changed;
  const auto is_changed = [&line](std::string_view name) {
    return std::any_of(line.set.begin(), line.set.end(), [&](const auto& one) { return one.first == name; }) ||
           std::find(line.unset.begin(), line.unset.end(), name) != line.unset.end();
  };
  for (const std::string& variable : environment) {
    if (!is_changed(std::string_view(variable).substr(0, variable.find('=')))) changed.push_back(variable);
  }
  for (auto one = line.set.begin(); one != line.set.end(); ++one) {
    const bool again =
        std::any_of(one + 1, line.set.end(), [&](const auto& later) { return later.first == one->first; });
    if (!again) changed.push_back(one->first + "=" + one->second);
  }
  return changed;
}

}  // namespace reveal
