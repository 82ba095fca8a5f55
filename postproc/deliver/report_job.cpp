#include "postproc/deliver/report_job.h"

#include <chrono>
#include <vector>

#include "hdf5schema/basics/run_program.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr auto kSubmitLimit = 10s;

/// The exit status; -1 if it did not end in time, 127 if it could not be started.
int run_silently(const std::vector<std::string>& words) {
  const ProgramEnd end = run_program({.command = words, .limit = kSubmitLimit});
  if (end.start_error != 0) return 127;
  return end.status ? exit_status(*end.status) : -1;
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

std::string submit_report_job(const SlurmJob& job, const std::filesystem::path& directory, const std::string& command,
                              std::chrono::seconds not_before) {
  std::vector<std::string> words{"sbatch",
                                 "--parsable",
                                 "--dependency=afterany:" + job.place.id,
                                 "--job-name=reveal-report",
                                 "--nodes=1",
                                 "--ntasks=1",
                                 "--time=15",
                                 "--output=/dev/null",
                                 "--chdir=" + directory.string(),
                                 "--export=NONE",
                                 "--wrap=" + command};
  if (not_before.count() > 0) words.push_back("--begin=now+" + std::to_string(not_before.count()));
  if (!job.names.partition.empty()) words.push_back("--partition=" + job.names.partition);
  if (!job.names.account.empty()) words.push_back("--account=" + job.names.account);
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
