#include "postproc/deliver/report_job.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "hdf5schema/basics/request.h"
#include "hdf5schema/basics/run_program.h"
#include "postproc/analysis/merge_part.h"
#include "postproc/words/lists.h"

namespace reveal {
namespace {

/// A word of a command has at most 128 KiB. https://man7.org/linux/man-pages/man2/execve.2.html
constexpr std::size_t kLongestNodeList = 100'000;

using namespace std::chrono_literals;

constexpr auto kSubmitLimit = 10s;
constexpr std::size_t kMostTasks = 64;

/// The exit status; -1 if it did not end in time, 127 if it could not be started. The script is on its standard input:
/// every user of the node can read a command line.
int run_silently(const std::vector<std::string>& words, const std::string& script) {
  const ProgramEnd end = run_program({.command = words, .environment = {}, .input = script, .limit = kSubmitLimit});
  if (end.start_error != 0) return 127;
  return end.status ? exit_status(*end.status) : -1;
}

struct CommandOption {
  const char* name;
  std::string value;  // "": not given
};

/// The exit status of sbatch. Its options begin with --reveal=off, because the report job gets no report; the option
/// does not exist if the plugin is not loaded on the submit side.
int submit(std::vector<std::string> words, const std::string& script) {
  const int status = run_silently(words, script);
  if (status <= 0 || status >= 127) return status;
  words.erase(words.begin() + 1);
  return run_silently(words, script);
}

std::vector<std::string> with_words(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string with_options(std::string words, const std::vector<CommandOption>& options) {
  for (const CommandOption& option : options) {
    if (!option.value.empty()) words += std::string(" ") + option.name + " " + shell_quoted(option.value);
  }
  return words;
}

/// Variables of a command.
std::string with_variables(const std::vector<CommandOption>& variables, const std::string& command) {
  std::string words;
  for (const CommandOption& variable : variables) {
    if (!variable.value.empty()) words += std::string(variable.name) + "=" + shell_quoted(variable.value) + " ";
  }
  return words + command;
}

/// Steps that read the summaries at the same time. Where they fail, the report reads all of them itself.
std::string parts_text(const ReportJobCommand& command, const std::string& place) {
  return "[ \"${SLURM_NTASKS:-1}\" -gt 1 ] && srun --mpi=none --kill-on-bad-exit=0 --time=10 " +
         with_options(shell_quoted(command.program) + " merge-part" + place, {{"--config", command.config}}) + "; ";
}

}  // namespace

std::size_t tasks_of_report(std::size_t nodes) {
  return std::clamp<std::size_t>((nodes + kNodesOfPart - 1) / kNodesOfPart, 1, kMostTasks);
}

std::string shell_text(const ReportJobCommand& command, const SlurmJob& job, const std::filesystem::path& directory) {
  const std::string program = shell_quoted(command.program);
  const std::string place = " " + shell_quoted(directory.string());
  std::string nodes = slurm_node_list(job.place.nodes);
  if (nodes.size() > kLongestNodeList) nodes.clear();  // the summaries have it as well
  const std::string parts = tasks_of_report(job.place.nodes.size()) > 1 ? parts_text(command, place) : "";
  return parts +
         with_options(program + " report" + place, {{"--config", command.config},
                                                    {"--expect", nodes},
                                                    {"--retain", command.downsample_traces ? "summary" : ""}}) +
         " && " +
         with_variables(
             {{"REVEAL_MAIL_TO", requested(command.request, "mail")}, {"REVEAL_MAIL_USER", job.names.mail_user}},
             program) +
         with_options(" mail" + place, {{"--config", command.config},
                                        {"--user", job.place.user},
                                        {"--array", job.names.array_job},
                                        {"--state", command.mail_state}});
}

std::string shell_quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

std::string submit_report_job(const SlurmJob& job, const std::filesystem::path& directory, const std::string& command,
                              std::chrono::seconds not_before) {
  std::vector<std::string> words{"sbatch",
                                 "--reveal=off",
                                 "--parsable",
                                 "--dependency=afterany:" + job.place.id,
                                 "--job-name=reveal-report",
                                 "--time=15",
                                 "--output=/dev/null",
                                 "--chdir=" + directory.string(),
                                 "--export=NONE"};
  const std::string script = "#!/bin/sh\n" + command + "\n";
  if (not_before.count() > 0) words.push_back("--begin=now+" + std::to_string(not_before.count()));
  if (!job.names.partition.empty()) words.push_back("--partition=" + job.names.partition);
  if (!job.names.account.empty()) words.push_back("--account=" + job.names.account);
  const std::size_t tasks = tasks_of_report(job.place.nodes.size());
  int status = tasks > 1 ? submit(with_words(words, {"--ntasks=" + std::to_string(tasks)}), script) : 1;
  // The account may not be allowed as many cpus: one does the same, later.
  if (status > 0 && status < 127) status = submit(with_words(words, {"--nodes=1", "--ntasks=1"}), script);
  if (status == 0) return "";
  if (status == 127) return "sbatch: not found";
  return status < 0 ? "sbatch did not answer in 10 s" : "sbatch ended with status " + std::to_string(status);
}

}  // namespace reveal
