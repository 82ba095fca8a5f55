// The remedies of a finding: the lines of the rule table that fit this job, filled with its values.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/finding.h"
#include "postproc/words/remedy_lines.h"

namespace reveal {

/// Values of a job by name: "job" (its id under Slurm), "command", "process" (by which pgrep -x finds it), "python"
/// (the interpreter's name), "torch", "nccl", "node", "nodes" (as Slurm writes them), "profile_delay" (the second from
/// which a tool records a part of the run), ... An absent one is not known, or is not so. One of several lines stands
/// for as many values: each of them makes a line of its own.
using JobValues = std::map<std::string, std::string, std::less<>>;

/// One line of a remedy in the rule table. "{name}" in it stands for a value; a line with one that is not known is left
/// out, as is one whose `needs` do not hold: "job" (it is known: only under Slurm), "!job" (only without Slurm), or
/// several of these with commas between them.
///
/// Lines to type can be pasted as they are, and a comment behind one ("  # on {node}, in the next run") gives place and
/// time. Lines for users are "#SBATCH", "export" and "unset" of the job script; launchers (srun, taskset, numactl ...)
/// and tools (nsys, strace ...) with their options, without the program; and commands that only show something. Lines
/// for administrators are commands, "file.conf: Key=value", and sentences, which begin with a capital letter and end
/// with a full stop.
///
/// `kind` tells steps, which are done one after the other, from alternatives to the line before and from lines that
/// are only for some jobs: their text has the condition. If no line of `advice` comes before an alternative, it is one
/// to the lines of the user that change the job.
struct RemedyLine {
  constexpr RemedyLine(const char* line, const char* condition = "", StepKind relation = StepKind::next)
      : text(line), needs(condition), kind(relation) {}
  constexpr RemedyLine(const char* line, StepKind relation) : RemedyLine(line, "", relation) {}

  std::string_view text;
  std::string_view needs;
  StepKind kind;
};
/// Advice where the user can leave the node out, and only administrators can repair it.
inline constexpr const char* kShowAdministrators = "Show your administrators this report.";
inline constexpr StepKind kOr = StepKind::alternative;
inline constexpr StepKind kIf = StepKind::condition;

[[nodiscard]] std::vector<std::string> lines_for(std::span<const RemedyLine> lines, const JobValues& values);

/// Writes the values of `job_wide` ("node", "nodes", "peer") into the lines that name them and that a row of the table
/// made; one that can no longer be filled is erased.
void fill_again(std::vector<std::string>& lines, std::span<const RemedyLine> table, const JobValues& job_wide);

/// The line was made of one of these by filling in values as lines_for() does; a file may hold anything else.
[[nodiscard]] bool is_one_of(std::string_view line, std::span<const RemedyLine> lines);

struct RuleSpec;
[[nodiscard]] Remedy remedy_for(const RuleSpec& rule, const JobValues& values);

/// The lines of the finding's remedy with the relations that the rule table has for them. An alternative to a line that
/// the finding does not have is a step; so are all lines of an unknown rule.
[[nodiscard]] RemedyTexts steps_of(const Finding& finding);

/// Names of the whole job that the lines of a finding may contain.
struct RemedyNames {
  std::string_view id;
  std::string_view command;
  std::span<const std::string> nodes;
};
/// `more` and these names, among them "peer": a node that the finding is not about, unless `more` has one.
[[nodiscard]] JobValues job_values(const Finding& finding, const RemedyNames& job, JobValues more = {});

/// The name by which pgrep -x finds the job's processes: of a shell or a launcher there may be others.
[[nodiscard]] std::string process_name(std::string_view command);

}  // namespace reveal
