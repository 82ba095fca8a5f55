#include "postproc/deliver/report_job.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr auto kSubmitLimit = 10s;

/// The exit status; -1 if it did not end in time, 127 if it could not be started.
int run_silently(std::vector<std::string> words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return 127;
  const auto end = std::chrono::steady_clock::now() + kSubmitLimit;
  int raw = 0;
  while (::waitpid(child, &raw, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &raw, 0);
      return -1;
    }
    std::this_thread::sleep_for(20ms);
  }
  return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

}  // namespace

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

std::string submit_report_job(const SlurmJob& job, const std::filesystem::path& directory, const std::string& config,
                              const std::string& mail_command) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string nodes;
  for (const std::string& node : job.nodes) nodes += (nodes.empty() ? "" : ",") + node;
  std::string script = shell_quoted(self) + " report " + shell_quoted(directory.string());
  if (!nodes.empty()) script += " --expect " + shell_quoted(nodes);
  if (!config.empty()) script += " --config " + shell_quoted(config);
  if (!mail_command.empty()) script += " && " + mail_command;
  std::vector<std::string> words{"sbatch",
                                 "--parsable",
                                 "--dependency=afterany:" + job.id,
                                 "--job-name=reveal-report",
                                 "--nodes=1",
                                 "--ntasks=1",
                                 "--time=15",
                                 "--output=/dev/null",
                                 "--chdir=" + directory.string(),
                                 "--export=NONE",
                                 "--wrap=" + script};
  if (!job.partition.empty()) words.push_back("--partition=" + job.partition);
  if (!job.account.empty()) words.push_back("--account=" + job.account);
  // Never a report of the report; where the plug-in is not loaded on the submit side, the option does not exist.
  words.insert(words.begin() + 1, "--reveal=off");
  int status = run_silently(words);
  if (status > 0 && status < 127) {
    words.erase(words.begin() + 1);
    status = run_silently(words);
  }
  if (status == 0) return "";
  if (status == 127) return "sbatch: not found";
  return status < 0 ? "sbatch did not answer in 10 s" : "sbatch ended with status " + std::to_string(status);
}

}  // namespace reveal
