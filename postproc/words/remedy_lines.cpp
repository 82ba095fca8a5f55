#include "postproc/words/remedy_lines.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "hdf5schema/basics/fold.h"

namespace reveal {
namespace {

struct FirstWord {
  std::string_view word;
  LineForm form;
};
constexpr FirstWord kFirstWords[] = {
    {"#SBATCH", LineForm::job_script},
    {"export", LineForm::job_script},
    {"unset", LineForm::job_script},
    {"module", LineForm::job_script},
    {"srun", LineForm::before_program},
    {"mpirun", LineForm::before_program},
    {"mpiexec", LineForm::before_program},
    {"torchrun", LineForm::before_program},
    {"taskset", LineForm::before_program},
    {"numactl", LineForm::before_program},
    {"hwloc-bind", LineForm::before_program},
    {"nice", LineForm::before_program},
    {"ionice", LineForm::before_program},
    {"chrt", LineForm::before_program},
    {"setarch", LineForm::before_program},
    {"prlimit", LineForm::before_program},
    {"stdbuf", LineForm::before_program},
    {"env", LineForm::before_program},
    {"compute-sanitizer", LineForm::run_under},
    {"heaptrack", LineForm::run_under},
    {"nsys", LineForm::run_under},
    {"strace", LineForm::run_under},
    {"check", LineForm::prose},
    {"look", LineForm::prose},
};

std::optional<LineForm> known_form(std::string_view word) {
  const auto* known = std::find_if(std::begin(kFirstWords), std::end(kFirstWords),
                                   [word](const FirstWord& one) { return one.word == word; });
  return known == std::end(kFirstWords) ? std::nullopt : std::optional(known->form);
}

bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}

/// Lines one below the other, the label before the first; several `steps` have numbers.
std::string typed_lines(std::string_view label, const std::vector<std::string>& lines, bool steps, std::size_t column,
                        std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const std::string first =
        step_label(i == 0 ? "  " + std::string(label) : "", steps && lines.size() > 1 ? i + 1 : 0, column);
    if (form_of(line) == LineForm::prose) {
      text += folded(first, line, column, width);
      continue;
    }
    const TypedLine typed = typed_line(line);
    if (typed.comment.empty() || column + line.size() <= width) {
      text += fmt::format("{:<{}}{}\n", first, column, line);
      continue;
    }
    text += commented(first, typed.comment, column, width);
    text += fmt::format("{:<{}}{}\n", "", column, typed.command);
  }
  return text;
}

}  // namespace

LineForm form_of(std::string_view line) {
  const std::string_view word = line.substr(0, line.find(' '));
  if (const auto known = known_form(word)) return *known;
  if (word.find('=') != std::string_view::npos && is_capital(word.front()))
    return LineForm::before_program;  // NAME=value
  // A sentence, or a file and its line.
  const bool sentence = word.size() > 2 && is_capital(word[0]) && word.find_first_of("/-_=(") == std::string_view::npos;
  return sentence || word.ends_with(':') || line.ends_with('.') ? LineForm::prose : LineForm::look;
}

bool is_launcher(std::string_view program) {
  return known_form(program) == LineForm::before_program;
}

std::string_view heading_of(LineForm form) {
  switch (form) {
    case LineForm::job_script:
      return "job script";
    case LineForm::before_program:
      return "start with";
    case LineForm::run_under:
      return "run under";
    case LineForm::look:
      return "look";
    case LineForm::prose:
      break;
  }
  return "to change";
}

bool is_step(LineForm form) {
  return form == LineForm::run_under || form == LineForm::look;
}

bool is_change(std::string_view line) {
  constexpr std::string_view kLooks[] = {"Check ", "Find ", "Look "};
  if (form_of(line) != LineForm::prose) return typed_line(line).comment.starts_with("changes ");
  return std::none_of(std::begin(kLooks), std::end(kLooks),
                      [line](std::string_view look) { return line.starts_with(look); });
}

void looks_first(std::vector<std::string>& lines) {
  std::stable_partition(lines.begin(), lines.end(), [](const std::string& line) { return !is_change(line); });
}

std::string step_label(std::string_view label, std::size_t number, std::size_t column) {
  if (number == 0) return std::string(label);
  const std::string digits = std::to_string(number);
  const std::size_t room = column > digits.size() + 1 ? column - digits.size() - 1 : 0;
  return fmt::format("{:<{}}{}", label, room, digits);
}

std::string commented(std::string_view label, std::string_view comment, std::size_t column, std::size_t width) {
  const std::string padded =
      fmt::format("{:<{}}#", label, label.empty() || label.size() < column ? column : label.size() + 1);
  std::string text = folded(padded, comment, column + 2, width);
  for (std::size_t at = text.find('\n') + 1; at < text.size(); at = text.find('\n', at) + 1) text[at + column] = '#';
  return text;
}

std::string remedy_as_text(const RemedyTexts& remedy, std::size_t column, std::size_t width) {
  std::string text;
  for (const LineForm form : kTypedForms) {
    const bool steps = is_step(form) && !remedy.possible;
    text += typed_lines(heading_of(form), lines_with_form(remedy.user, form), steps, column, width);
    if (form != LineForm::before_program) continue;
    const bool several = remedy.advice.size() > 1 && !remedy.possible;
    for (std::size_t i = 0; i < remedy.advice.size(); ++i) {
      const std::string label = i == 0 ? "  " + std::string(heading_of(LineForm::prose)) : "";
      text += folded(step_label(label, several ? i + 1 : 0, column), remedy.advice[i], column, width);
    }
  }
  return text + typed_lines("for admins", remedy.admin, !remedy.possible, column, width);
}

std::vector<std::string> lines_with_form(const std::vector<std::string>& lines, LineForm form) {
  std::vector<std::string> chosen;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(chosen),
               [form](const std::string& line) { return form_of(line) == form; });
  return chosen;
}

TypedLine typed_line(std::string_view line) {
  const std::size_t sign = line.find("  # ");
  const std::size_t other = sign == std::string_view::npos ? line.find(" # ") : sign;
  if (other == std::string_view::npos) return {std::string(line), ""};
  const std::string_view command = line.substr(0, other);
  const std::string_view comment = line.substr(line.find('#', other) + 1);
  return {std::string(command.substr(0, command.find_last_not_of(' ') + 1)),
          std::string(comment.substr(std::min(comment.find_first_not_of(' '), comment.size())))};
}

}  // namespace reveal
