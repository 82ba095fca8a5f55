#include "postproc/deliver/report_job.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "hdf5schema/basics/request.h"
#include "hdf5schema/basics/run_program.h"
#include "hdf5schema/basics/user_memory.h"
#include "postproc/analysis/merge_part.h"
#include "postproc/deliver/deliver.h"
#include "postproc/words/lists.h"

namespace reveal {
namespace {

/// A word of a command has at most 128 KiB. https://man7.org/linux/man-pages/man2/execve.2.html
constexpr std::size_t kLongestNodeList = 100'000;

using namespace std::chrono_literals;

constexpr auto kSubmitLimit = 10s;
constexpr std::size_t kMostTasks = 64;
constexpr double kMergeMargin = 2;    // summaries of nodes with more channels and findings are larger
constexpr double kPartBytes = 100e6;  // a task with its 256 nodes; measured 67 MB for 125 and 339 MB for 1,250

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

/// By sbatch, which was started and has answered.
bool is_refused(int status) {
  return status > 0 && status < 127;
}

/// The exit status of sbatch. Its options begin with --reveal=off, because the report job gets no report; the option
/// does not exist if the plugin is not loaded on the submit side.
int submit(std::vector<std::string> words, const std::string& script) {
  const int status = run_silently(words, script);
  if (!is_refused(status)) return status;
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

std::uint64_t megabytes_of_report(std::size_t nodes, std::size_t tasks) {
  constexpr double kMegabyte = 1 << 20;
  const double parts = tasks > 1 ? kPartBytes * static_cast<double>(tasks) : 0;  // they may all be on one node
  const double most = std::max({static_cast<double>(kMostUserMemory), kMergeMargin * merge_bytes(nodes), parts});
  return static_cast<std::uint64_t>(std::ceil(most / kMegabyte));
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
  const std::size_t nodes = job.place.nodes.size();
  std::vector<std::size_t> tasks_to_try{tasks_of_report(nodes)};
  if (tasks_to_try.front() > 1) tasks_to_try.push_back(1);
  int status = 1;
  // The account may not be allowed as many cpus: one does the same, later.
  for (const std::size_t tasks : tasks_to_try) {
    std::vector<std::string> size{"--ntasks=" + std::to_string(tasks)};
    if (tasks == 1) size.insert(size.begin(), "--nodes=1");
    // Neither may a partition have as much memory, or any that Slurm knows of: then its default has to do.
    const std::string memory = "--mem=" + std::to_string(megabytes_of_report(nodes, tasks)) + "M";
    if (is_refused(status)) status = submit(with_words(words, with_words(size, {memory})), script);
    if (is_refused(status)) status = submit(with_words(words, size), script);
  }
  if (status == 0) return "";
  if (status == 127) return "sbatch: not found";
  return status < 0 ? "sbatch did not answer in 10 s" : "sbatch ended with status " + std::to_string(status);
}

}  // namespace reveal
