#include "postproc/compare/script_patch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kContext = 3;  // lines around a change

struct ScriptLines {
  std::vector<std::string> lines;
  bool ends_in_newline = true;
};

ScriptLines lines_of_script(const std::string& script) {
  ScriptLines split;
  split.ends_in_newline = script.ends_with('\n');
  for (std::size_t begin = 0; begin < script.size();) {
    const std::size_t end = std::min(script.find('\n', begin), script.size());
    split.lines.push_back(script.substr(begin, end - begin));
    begin = end + 1;
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

/// Whether a shell would run the text there: not a word of a text, a pattern or another command's argument.
bool is_run(const std::string& line, std::size_t column) {
  const std::string before = line.substr(0, column);
  if (before.find_first_of("\"'`<#") != std::string::npos) return false;
  const std::size_t begin = before.find_first_not_of(" \t", before.find_last_of(";&|(") + 1);  // npos + 1 is 0
  if (begin == std::string::npos) return true;
  const std::string first = before.substr(begin, before.find_first_of(" \t", begin) - begin);
  return first.find('=') != std::string::npos ||
         std::find(std::begin(kLaunchers), std::end(kLaunchers), first) != std::end(kLaunchers);
}

/// How many words of the command begin at word `first`.
std::size_t words_alike(const std::vector<WordInLine>& words, std::size_t first, std::span<const std::string> command) {
  std::size_t count = 0;
  while (count < command.size() && first + count < words.size() && words[first + count].text == command[count]) ++count;
  return count;
}

std::vector<PlaceInScript> places_of(const std::vector<std::string>& lines, std::span<const std::string> command) {
  std::vector<PlaceInScript> places;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t text = lines[i].find_first_not_of(" \t");
    if (text == std::string::npos || lines[i][text] == '#') continue;
    const std::vector<WordInLine> words = words_in(lines[i]);
    for (std::size_t k = 0; k < words.size(); ++k) {
      const std::size_t alike = words_alike(words, k, command);
      if (alike > 0 && is_run(lines[i], words[k].begin))
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

/// Returns the first line of a command that goes on over several lines.
std::size_t first_line_of(const std::vector<std::string>& lines, std::size_t line) {
  while (line > 0 && lines[line - 1].ends_with('\\')) --line;
  return line;
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
  const std::size_t insert = first_line_of(script.lines, place.line);
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
  const std::string shown = printable(name);
  return fmt::format("--- {}\n+++ {}\n{}", shown, shown, hunk.text(first));
}

}  // namespace

ScriptPatch script_patch(const std::string& name, const std::string& script, const TriedLine& line,
                         std::span<const std::string> command) {
  if (script.find(";;") != std::string::npos || script.find("<<") != std::string::npos) {
    return {"", fmt::format("{} contains case statements or here-documents; reveal inserts nothing into them", name)};
  }
  const ScriptLines split = lines_of_script(script);
  const std::vector<PlaceInScript> places = best_places(places_of(split.lines, command));
  if (places.empty()) return {"", fmt::format("no line of {} runs {}", name, command.front())};
  if (places.size() > 1) {
    return {"", fmt::format("{} runs {} in more than one place: lines {} and {}", name, command.front(),
                            places[0].line + 1, places[1].line + 1)};
  }
  return {diff_at(name, split, places.front(), line), ""};
}

}  // namespace reveal
