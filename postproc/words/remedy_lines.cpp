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

struct Heading {
  std::string_view text;
  std::string_view of_alternative;  // short enough for a column of labels
};
constexpr Heading kHeadings[] = {{"job script", "or script"},
                                 {"start with", "or start"},
                                 {"run under", "or under"},
                                 {"look", "or look"},
                                 {"to change", "or change"}};

/// Lines one below the other, the label before the first.
std::string typed_lines(std::string_view label, const std::vector<RemedyStep>& steps, StepOrder order,
                        std::size_t column, std::size_t width) {
  std::string text;
  const std::vector<std::string> marks = step_marks(kinds_of(steps), order);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string& line = steps[i].text;
    const std::string first = step_label(i == 0 ? "  " + std::string(label) : "", marks[i], column);
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

std::string_view name_of(StepKind kind) noexcept {
  constexpr std::string_view kNames[] = {"next", "or", "if"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view heading_of(LineForm form, StepKind first) {
  const Heading& heading = kHeadings[static_cast<std::size_t>(form)];
  return first == StepKind::alternative ? heading.of_alternative : heading.text;
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

void looks_first(std::vector<RemedyStep>& lines) {
  std::stable_partition(lines.begin(), lines.end(), [](const RemedyStep& step) { return !is_change(step.text); });
}

std::vector<std::string> step_marks(std::span<const StepKind> kinds, StepOrder order) {
  std::vector<std::string> marks;
  marks.reserve(kinds.size());
  const auto is_alternative = [](StepKind kind) { return kind == StepKind::alternative; };
  const bool several =
      !kinds.empty() && !std::all_of(kinds.begin() + 1, kinds.end(), is_alternative) && order == StepOrder::numbered;
  std::size_t number = 0;
  for (const StepKind kind : kinds) {
    const bool instead = is_alternative(kind) && !marks.empty();
    if (!instead) ++number;
    std::string& mark = marks.emplace_back();
    if (several) mark = std::to_string(number);
    if (instead) mark = name_of(kind);
  }
  return marks;
}

std::vector<StepKind> kinds_of(std::span<const RemedyStep> steps) {
  std::vector<StepKind> kinds;
  kinds.reserve(steps.size());
  for (const RemedyStep& step : steps) kinds.push_back(step.kind);
  return kinds;
}

std::string step_label(std::string_view label, std::string_view mark, std::size_t column) {
  if (mark.empty()) return std::string(label);
  const std::size_t room = column > mark.size() + 1 ? column - mark.size() - 1 : 0;
  return fmt::format("{:<{}}{}", label, room, mark);
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
  const StepOrder usual = remedy.possible ? StepOrder::none : StepOrder::numbered;
  const auto add = [&](LineForm form, const std::vector<RemedyStep>& steps, StepOrder order) {
    if (steps.empty()) return;
    text += typed_lines(heading_of(form, steps.front().kind), steps, order, column, width);
  };
  for (const LineForm form : kTypedForms) {
    add(form, steps_with_form(remedy.user, form), is_step(form) ? usual : StepOrder::none);
    if (form == LineForm::before_program) add(LineForm::prose, remedy.advice, usual);
  }
  return text + typed_lines("for admins", remedy.admin, usual, column, width);
}

std::vector<std::string> lines_with_form(const std::vector<std::string>& lines, LineForm form) {
  std::vector<std::string> chosen;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(chosen),
               [form](const std::string& line) { return form_of(line) == form; });
  return chosen;
}

std::vector<RemedyStep> steps_with_form(const std::vector<RemedyStep>& steps, LineForm form) {
  std::vector<RemedyStep> chosen;
  std::copy_if(steps.begin(), steps.end(), std::back_inserter(chosen),
               [form](const RemedyStep& step) { return form_of(step.text) == form; });
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
