#include "postproc/compare/script_patch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "hdf5schema/basics/program_name.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kContext = 3;  // lines around a change

struct ScriptLines {
  std::vector<std::string> lines;
  std::vector<bool> inside;  // lines that begin inside quotes or an array: they are words
  bool ends_in_newline = true;
};

/// Quotes and parentheses that are open behind a line.
struct OpenInScript {
  char quote = 0;               // 0: none
  std::size_t parentheses = 0;  // those of arrays: A=(...)
};

OpenInScript open_behind(const std::string& line, OpenInScript open) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && open.quote != '\'') {
      ++i;
    } else if (open.quote != 0) {
      open.quote = c == open.quote ? '\0' : open.quote;
    } else if (c == '\'' || c == '"') {
      open.quote = c;
    } else if (c == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      break;
    } else if (c == '(' && (open.parentheses > 0 || (i > 0 && line[i - 1] == '='))) {
      ++open.parentheses;
    } else if (c == ')' && open.parentheses > 0) {
      --open.parentheses;
    }
  }
  return open;
}

ScriptLines lines_of_script(const std::string& script) {
  ScriptLines split;
  split.ends_in_newline = script.ends_with('\n');
  for (std::size_t begin = 0; begin < script.size();) {
    const std::size_t end = std::min(script.find('\n', begin), script.size());
    split.lines.push_back(script.substr(begin, end - begin));
    begin = end + 1;
  }
  OpenInScript open;
  for (const std::string& line : split.lines) {
    split.inside.push_back(open.quote != 0 || open.parentheses > 0);
    open = open_behind(line, open);
  }
  return split;
}

struct WordInLine {
  std::size_t begin = 0;
  std::string text;
};

std::vector<WordInLine> words_in(const std::string& line) {
  constexpr std::string_view kBetween = " \t;&|()";
  std::vector<WordInLine> words;
  for (std::size_t at = line.find_first_not_of(kBetween); at != std::string::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBetween, at), line.size());
    words.push_back({at, line.substr(at, end - at)});
    at = line.find_first_not_of(kBetween, end);
  }
  return words;
}

struct PlaceInScript {
  std::size_t line = 0;
  std::size_t column = 0;
  std::size_t first_word = 0;  // its length
  std::size_t alike = 0;       // words of the command that stand there one after the other
};

/// Words that start the command behind them.
constexpr std::string_view kLaunchers[] = {"srun", "mpirun",  "mpiexec", "exec",       "time",      "nohup",
                                           "env",  "numactl", "taskset", "reveal-run", "apptainer", "singularity"};

/// Programs whose arguments are files that they do not run.
constexpr std::string_view kOnFiles[] = {"cat",    "chmod", "cmp",  "cp",    "diff", "du",   "echo",
                                         "file",   "ldd",   "ln",   "ls",    "mv",   "rm",   "rsync",
                                         "sbcast", "scp",   "stat", "strip", "tar",  "test", "touch"};

/// A line that begins with one of these goes on with the command above: nothing may stand between them.
constexpr std::string_view kInsideCompound[] = {"do", "elif", "else", "then"};

template <std::size_t count>
bool is_among(const std::string& word, const std::string_view (&words)[count]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

bool is_blank_or_comment(const std::string& line) {
  const std::size_t text = line.find_first_not_of(" \t");
  return text == std::string::npos || line[text] == '#';
}

/// The line up to the column, behind the lines that go on with it after a backslash.
std::string text_before(const std::vector<std::string>& lines, std::size_t line, std::size_t column) {
  std::size_t first = line;
  while (first > 0 && lines[first - 1].ends_with('\\') && !is_blank_or_comment(lines[first - 1])) --first;
  std::string text;
  for (std::size_t i = first; i < line; ++i) text += lines[i].substr(0, lines[i].size() - 1) + " ";
  return text + lines[line].substr(0, column);
}

/// Whether a shell would run the text there: not a word of a text, a pattern or another command's argument.
bool is_run(const std::vector<std::string>& lines, std::size_t line, std::size_t column) {
  if (lines[line].substr(0, column).find_first_of("\"'`<#") != std::string::npos) return false;
  const std::string before = text_before(lines, line, column);
  const std::size_t begin = before.find_first_not_of(" \t", before.find_last_of(";&|(") + 1);  // npos + 1 is 0
  if (begin == std::string::npos) return true;
  if (before.find('>', begin) != std::string::npos) return false;  // a file that is written
  const std::vector<WordInLine> words = words_in(before.substr(begin));
  const auto is_on_files = [](const WordInLine& word) { return is_among(word.text, kOnFiles); };
  if (words.empty() || std::any_of(words.begin(), words.end(), is_on_files)) return false;
  const std::string& first = words.front().text;
  return first.find('=') != std::string::npos || is_among(first, kLaunchers);
}

/// How many words of the command begin at word `first`.
std::size_t words_alike(const std::vector<WordInLine>& words, std::size_t first, std::span<const std::string> command) {
  std::size_t count = 0;
  while (count < command.size() && first + count < words.size() && words[first + count].text == command[count]) ++count;
  return count;
}

/// `python prepare.py` begins like `python train.py`, and is another program.
bool is_same_program(const std::vector<WordInLine>& words, std::size_t first, std::span<const std::string> command) {
  const std::string_view name = std::string_view(command.front()).substr(command.front().rfind('/') + 1);
  const std::string wanted = is_interpreter(name) ? program_name(command, words_by_their_looks()) : "";
  if (wanted.empty()) return true;
  std::vector<std::string> theirs;
  for (std::size_t k = first; k < words.size(); ++k) theirs.push_back(words[k].text);
  return program_name(theirs, words_by_their_looks()) == wanted;
}

/// The line, and those with which it goes on behind a backslash.
std::string whole_line(const std::vector<std::string>& lines, std::size_t line) {
  std::string text = lines[line];
  while (text.ends_with('\\') && ++line < lines.size()) {
    text.back() = ' ';
    text += lines[line];
  }
  return text;
}

std::vector<PlaceInScript> places_of(const ScriptLines& script, std::span<const std::string> command) {
  std::vector<PlaceInScript> places;
  for (std::size_t i = 0; i < script.lines.size(); ++i) {
    const std::string& line = script.lines[i];
    if (script.inside[i] || is_blank_or_comment(line)) continue;
    const std::vector<WordInLine> words = words_in(whole_line(script.lines, i));
    for (std::size_t k = 0; k < words.size() && words[k].begin < line.size(); ++k) {
      if (k == 0 && is_among(words[k].text, kInsideCompound)) break;
      const std::size_t alike = words_alike(words, k, command);
      if (alike > 0 && is_run(script.lines, i, words[k].begin) && is_same_program(words, k, command))
        places.push_back({i, words[k].begin, words[k].text.size(), alike});
    }
  }
  return places;
}

/// The places where most words of the command stand: a shorter run for the trial has other arguments.
std::vector<PlaceInScript> best_places(std::vector<PlaceInScript> places) {
  std::size_t most = 0;
  for (const PlaceInScript& place : places) most = std::max(most, place.alike);
  std::erase_if(places, [most](const PlaceInScript& place) { return place.alike < most; });
  return places;
}

/// Whether the command of this line goes on in the next one.
bool goes_on(const std::string& line) {
  if (is_blank_or_comment(line)) return false;
  const std::string_view text = std::string_view(line).substr(0, line.find_last_not_of(" \t") + 1);
  return line.ends_with('\\') || text.ends_with("&&") || text.ends_with('|') || text.ends_with("|&");
}

/// Returns the first line of a command that goes on over several lines, with comments between them.
std::size_t first_line_of(const ScriptLines& script, std::size_t line) {
  std::size_t first = line;
  for (std::size_t i = line; i-- > 0;) {
    if (goes_on(script.lines[i]) || script.inside[i + 1]) {
      first = i;
    } else if (!is_blank_or_comment(script.lines[i])) {
      break;
    }
  }
  return first;
}

/// Whether the word sets the variable: "A=1", "--export=ALL,A=1".
bool sets(const std::string& word, const std::string& variable) {
  const std::size_t at = word.find(variable + "=");
  return at != std::string::npos && (at == 0 || word[at - 1] == ',' || word[at - 1] == '=');
}

/// Why a variable of the line does not reach the program if it is set before the command: "sets A itself"; "" if it
/// does.
std::string what_overrides(const ScriptLines& script, const PlaceInScript& place, const TriedLine& line) {
  std::vector<std::string> variables = line.unset;
  for (const auto& [name, value] : line.set) variables.push_back(name);
  std::string before;
  for (std::size_t i = first_line_of(script, place.line); i < place.line; ++i) before += script.lines[i] + " ";
  before += script.lines[place.line].substr(0, place.column);
  for (const WordInLine& word : words_in(before)) {
    for (const std::string& variable : variables) {
      if (sets(word.text, variable)) return "sets " + variable + " itself";
    }
    const bool passes_few = word.text.starts_with("--export=") && word.text.find("ALL") == std::string::npos;
    if (passes_few && !variables.empty()) return "passes only some variables on: " + word.text;
  }
  return "";
}

std::vector<std::string> variable_lines(const TriedLine& line, const std::string& like) {
  const std::string indent = like.substr(0, std::min(like.find_first_not_of(" \t"), like.size()));
  std::vector<std::string> lines;
  for (const std::string& name : line.unset) lines.push_back(indent + "unset " + name);
  for (const auto& [name, value] : line.set) {
    lines.push_back(fmt::format("{}export {}={}", indent, name, value.empty() ? "" : option_word(value)));
  }
  return lines;
}

/// The line of the script with more words before the command at `column`, and behind its first word.
std::string with_words(const std::string& text, const PlaceInScript& place, const TriedLine& line) {
  std::string before;
  for (const std::string& word : line.prefix) before += option_word(word) + " ";
  std::string behind;
  for (const std::string& word : line.options) behind += " " + option_word(word);
  const std::size_t end = place.column + place.first_word;
  return text.substr(0, place.column) + before + text.substr(place.column, place.first_word) + behind +
         text.substr(end);
}

/// Lines of the hunk, each behind its sign.
class Hunk {
 public:
  explicit Hunk(const ScriptLines& script) : script_(script) {}

  void keep(std::size_t line) {
    put(' ', line);
    ++before_, ++after_;
  }
  void remove(std::size_t line) {
    put('-', line);
    ++before_;
  }
  /// `instead`: the script's line with the line end to use.
  void add(const std::string& text, std::size_t instead) {
    text_ += "+" + text + "\n" + note_about_end(instead);
    ++after_;
  }
  [[nodiscard]] std::string text(std::size_t first) const {
    return fmt::format("@@ -{},{} +{},{} @@\n{}", first + 1, before_, first + 1, after_, text_);
  }

 private:
  void put(char sign, std::size_t line) {
    text_ += std::string(1, sign) + script_.lines[line] + "\n" + note_about_end(line);
  }
  [[nodiscard]] std::string note_about_end(std::size_t line) const {
    const bool open = line + 1 == script_.lines.size() && !script_.ends_in_newline;
    return open ? "\\ No newline at end of file\n" : "";
  }

  const ScriptLines& script_;
  std::string text_;
  std::size_t before_ = 0;
  std::size_t after_ = 0;
};

std::string diff_at(const std::string& name, const ScriptLines& script, const PlaceInScript& place,
                    const TriedLine& line) {
  const std::size_t insert = first_line_of(script, place.line);
  const std::size_t first = insert - std::min(insert, kContext);
  const std::size_t end = std::min(place.line + 1 + kContext, script.lines.size());
  const std::size_t before_all = script.lines.size();  // no line of the script: it ends in a line break
  Hunk hunk(script);
  for (std::size_t i = first; i < end; ++i) {
    if (i == insert) {
      for (const std::string& more : variable_lines(line, script.lines[i])) hunk.add(more, before_all);
    }
    if (i == place.line && !(line.prefix.empty() && line.options.empty())) {
      hunk.remove(i);
      hunk.add(with_words(script.lines[i], place, line), i);
    } else {
      hunk.keep(i);
    }
  }
  // patch(1) takes a blank for the end of a name unless a tab comes behind it.
  const std::string shown = printable(name) + (name.find(' ') == std::string::npos ? "" : "\t");
  return fmt::format("--- {}\n+++ {}\n{}", shown, shown, hunk.text(first));
}

}  // namespace

ScriptPatch script_patch(const std::string& name, const std::string& script, const TriedLine& line,
                         std::span<const std::string> command) {
  if (script.find(";;") != std::string::npos || script.find("<<") != std::string::npos) {
    return {"", fmt::format("{} contains case statements or here-documents; reveal inserts nothing into them", name)};
  }
  const ScriptLines split = lines_of_script(script);
  const std::vector<PlaceInScript> places = best_places(places_of(split, command));
  if (places.empty()) return {"", fmt::format("no line of {} was found that runs {}", name, command.front())};
  if (places.size() > 1) {
    return {"", fmt::format("{} runs {} in more than one place: lines {} and {}", name, command.front(),
                            places[0].line + 1, places[1].line + 1)};
  }
  if (const std::string overrides = what_overrides(split, places.front(), line); !overrides.empty()) {
    return {"", fmt::format("line {} of {} {}", places.front().line + 1, name, overrides)};
  }
  return {diff_at(name, split, places.front(), line), ""};
}

}  // namespace reveal
