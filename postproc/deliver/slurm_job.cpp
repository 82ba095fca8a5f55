#include "postproc/deliver/slurm_job.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/node_list.h"
#include "hdf5schema/basics/program_name.h"
#include "hdf5schema/basics/run_key.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/trace_reader.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/telemetry/job.h"

namespace reveal {
namespace {

std::string first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

// The texts a controller may add, by the key of their line.
struct TextField {
  std::string_view key;
  std::string JobNames::*member;
};
constexpr TextField kTextFields[] = {
    {"array_job", &JobNames::array_job}, {"array_task", &JobNames::array_task},
    {"het_job", &JobNames::het_job},     {"het_offset", &JobNames::het_offset},
    {"name", &JobNames::name},           {"account", &JobNames::account},
    {"partition", &JobNames::partition}, {"cluster", &JobNames::cluster},
    {"work_dir", &JobNames::work_dir},   {"mail_user", &JobNames::mail_user},
    {"state", &JobNames::state},         {"command", &JobNames::command},
};

/// 128 + n for signal n. Slurm's OUT_OF_MEMORY is 0:125, and there is no signal 125.
/// https://slurm.schedmd.com/job_exit_code.html
std::optional<int> exit_code_of(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
  if (WTERMSIG(wait_status) >= NSIG) return std::nullopt;
  return 128 + WTERMSIG(wait_status);
}

}  // namespace

SlurmJob slurm_job_of_environment(const std::string& id, const Environment& environment) {
  JobPlace place;
  place.id = id;
  place.user = environment("SLURM_JOB_USER");
  place.cluster = environment("SLURM_CLUSTER_NAME");
  place.work_dir = first_of(environment, {"SLURM_JOB_WORK_DIR", "SPANK_REVEAL_DIR"});
  place.restart = static_cast<int>(
      parse_int(first_of(environment, {"SLURM_JOB_RESTART_COUNT", "SLURM_RESTART_COUNT"})).value_or(0));
  place.nodes = expand_node_list(first_of(environment, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}));
  place.watched = place.nodes;
  place.inner = !environment("SLURM_STEP_NODELIST").empty();
  if (place.inner) {
    const std::vector<std::string> step = expand_node_list(environment("SLURM_STEP_NODELIST"));
    std::erase_if(place.watched,
                  [&](const std::string& node) { return std::find(step.begin(), step.end(), node) == step.end(); });
    if (place.watched.empty()) place.watched = step;
  }
  JobNames names;
  names.name = environment("SLURM_JOB_NAME");
  names.array_job = environment("SLURM_ARRAY_JOB_ID");
  names.array_task = environment("SLURM_ARRAY_TASK_ID");
  names.het_job = environment("SLURM_HET_JOB_ID");
  names.het_offset = environment("SLURM_HET_JOB_OFFSET");
  names.account = environment("SLURM_JOB_ACCOUNT");
  names.partition = environment("SLURM_JOB_PARTITION");
  names.cluster = place.cluster;
  return {std::move(place), std::move(names)};
}

void add_recorded_names(JobNames& names, const std::filesystem::path& spool) {
  constexpr struct {
    std::string_view fact;
    std::string JobNames::*member;
  } kNames[] = {{"env.SLURM_JOB_NAME", &JobNames::name},
                {"env.SLURM_ARRAY_JOB_ID", &JobNames::array_job},
                {"env.SLURM_ARRAY_TASK_ID", &JobNames::array_task}};
  for (const ListedTrace& trace : list_traces(spool)) {
    try {
      const TraceReader reader(trace.path, TraceReader::Check::names);
      for (const Snapshot& snapshot : {reader.snapshot_begin(), reader.snapshot_end()}) {
        for (const auto& [key, value] : snapshot) {
          for (const auto& known : kNames) {
            if (key == known.fact && (names.*known.member).empty()) names.*known.member = value;
          }
        }
      }
    } catch (const Error&) {  // cut off before it was known
    }
  }
}

void add_controller_answer(JobNames& names, const std::string& answer, int restart) {
  std::string_view rest = answer;
  std::int64_t newest = 0;
  std::optional<int> exit_code;
  std::vector<std::string> nodes;
  std::string_view row;
  while (next_line(rest, row)) {
    const std::size_t blank = std::min(row.find(' '), row.size());
    const std::string_view key = row.substr(0, blank);
    const std::string_view value = row.substr(std::min(blank + 1, row.size()));
    for (const TextField& field : kTextFields) {
      if (key == field.key) names.*field.member = value;
    }
    if (key == "wait_status") exit_code = exit_code_of(static_cast<int>(parse_int(value).value_or(0)));
    if (key == "nodes") nodes = expand_node_list(value);
    if (key == "restarts") newest = parse_int(value).value_or(0);
  }
  if (newest > restart) {
    // A Slurm that does not tell the prolog of restarts lets the newest run pass for an earlier one.
    const bool goes_on = names.state == "PENDING" || names.state == "RUNNING" || names.state == "SUSPENDED";
    names.state = goes_on ? "REQUEUED" : "";
    return;
  }
  if (exit_code) names.exit_code = exit_code;
  if (!nodes.empty()) names.nodes = std::move(nodes);
}

JobPlace place_of_one_node(JobPlace place, const JobNames& names) {
  if (!names.cluster.empty()) place.cluster = names.cluster;
  if (!names.work_dir.empty()) place.work_dir = names.work_dir;
  if (place.nodes.empty()) place.watched = place.nodes = names.nodes;
  return place;
}

std::string run_key_of(const JobNames& names) {
  std::string_view rest = names.command;
  const std::string_view program = next_word(rest);
  const std::string_view name = program.substr(program.rfind('/') + 1);
  if (name.empty() || runs_something_unknown(split_words(names.command))) return "";
  const bool named = !names.name.empty() && names.name != name;
  return text_hash(names.command) + text_hash(named ? names.name : "");
}

Environment pattern_environment(const SlurmJob& job) {
  return [job](const char* name) -> std::string {
    const std::string_view asked = name;
    if (asked == "SLURM_JOB_ID") return job.place.id;
    if (asked == "SLURM_ARRAY_JOB_ID") return job.names.array_job;
    if (asked == "SLURM_ARRAY_TASK_ID") return job.names.array_task;
    if (asked == "SLURM_JOB_NAME") return job.names.name;
    if (asked == "SLURM_JOB_USER") return job.place.user;
    return "";
  };
}

SlurmJobRecord record_of(const SlurmJob& job) {
  const JobNames& names = job.names;
  return {.id = job.place.id,
          .restart = job.place.restart,
          .array_job = names.array_job,
          .array_task = names.array_task,
          .het_job = names.het_job,
          .het_offset = names.het_offset,
          .name = job_name(names.name, split_words(names.command), words_by_their_looks()),
          .account = names.account,
          .partition = names.partition,
          .cluster = names.cluster,
          .state = names.state,
          .run_key = run_key_of(names),
          .exit_code = names.exit_code};
}

}  // namespace reveal
