// How the lines of a remedy are used: in a job script, before the program, or to look for the cause.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reveal {

enum class LineForm : std::uint8_t {
  job_script,      // a directive or a setting: "#SBATCH --exclude=n03", "export NCCL_NSOCKS_PERTHREAD=4"
  before_program,  // a launcher with its options: "srun --cpu-bind=cores ./train"
  run_under,       // a tool that runs the program once to examine it: "nsys profile -t cuda,nvtx"
  look,            // shows more, changes nothing: "nstat -az"
  prose,           // for people: "Reseat the cable of mlx5_0", "cgroup.conf: ConstrainCores=yes"
};
inline constexpr LineForm kTypedForms[] = {LineForm::job_script, LineForm::before_program, LineForm::run_under,
                                           LineForm::look};

[[nodiscard]] LineForm form_of(std::string_view line);
/// True for programs that start the command given after their options: srun, numactl, nice ...
[[nodiscard]] bool is_launcher(std::string_view program);
/// The relation of a line to the one before it.
enum class StepKind : std::uint8_t {
  next,         // to be done after it, or together with it
  alternative,  // to be done instead of it
  condition,    // the next one, but only where its text says so: "if it is always the same port"
};
/// "next", "or", "if"
[[nodiscard]] std::string_view name_of(StepKind kind) noexcept;

struct RemedyStep {
  RemedyStep(std::string line, StepKind relation = StepKind::next) : text(std::move(line)), kind(relation) {}
  RemedyStep(const char* line, StepKind relation = StepKind::next) : text(line), kind(relation) {}

  std::string text;
  StepKind kind;
};

/// The text of a report before such a line for the job's owner: "job script", "start with", "run under", "look"; with
/// an alternative to the lines above: "or start", "or look".
[[nodiscard]] std::string_view heading_of(LineForm form, StepKind first = StepKind::next);
/// True for forms whose lines are steps, to be done in their order; those of a script or before a program belong
/// together, or replace each other.
[[nodiscard]] bool is_step(LineForm form);

/// A line for administrators changes something: its comment begins with "changes", or it is a sentence that does not
/// begin with "Check", "Find" or "Look". All others only show something.
[[nodiscard]] bool is_change(std::string_view line);
/// Puts the lines that only show something before those that change something.
void looks_first(std::vector<std::string>& lines);
void looks_first(std::vector<RemedyStep>& lines);

enum class StepOrder : std::uint8_t { numbered, none };
/// The marks before the lines of a list: "1" and "2" for several steps in an order, "or" for an alternative. One in the
/// first line has none: the heading tells it.
[[nodiscard]] std::vector<std::string> step_marks(std::span<const StepKind> kinds, StepOrder order);
[[nodiscard]] std::vector<StepKind> kinds_of(std::span<const RemedyStep> steps);

/// "for admins 1": a label with the mark of its step, which ends before the column at which the text begins.
[[nodiscard]] std::string step_label(std::string_view label, std::string_view mark, std::size_t column);

struct RemedyTexts {
  std::vector<RemedyStep> user;    // lines that the job's owner can type
  std::vector<RemedyStep> advice;  // prose
  std::vector<RemedyStep> admin;   // lines and prose for the site
  bool possible = false;           // those that a finding may have: there is no order in which all are done
};
/// Each line under its label, from `column` on. A command stays on its line, because half a command is worse than a
/// long line; its comment comes before it.
[[nodiscard]] std::string remedy_as_text(const RemedyTexts& remedy, std::size_t column, std::size_t width);
/// "LABEL  # COMMENT" in lines of `width`; every line is a comment of a shell and of a configuration file.
[[nodiscard]] std::string commented(std::string_view label, std::string_view comment, std::size_t column,
                                    std::size_t width);

/// The lines of a form, in their order.
[[nodiscard]] std::vector<std::string> lines_with_form(const std::vector<std::string>& lines, LineForm form);
[[nodiscard]] std::vector<RemedyStep> steps_with_form(const std::vector<RemedyStep>& steps, LineForm form);

/// "nstat -az  # on n03": the command, and the comment behind it without the sign; "" where there is none.
struct TypedLine {
  std::string command, comment;
};
[[nodiscard]] TypedLine typed_line(std::string_view line);

}  // namespace reveal
