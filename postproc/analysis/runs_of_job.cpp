#include "postproc/analysis/runs_of_job.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "postproc/analysis/slurm_job_record.h"
#include "postproc/telemetry/job_files.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFolders = 5000;  // entries of a folder with job directories
constexpr std::size_t kMostOfOneJob = 1000;
constexpr std::string_view kDecimalDigits = "0123456789";

enum class JobMatch : std::uint8_t { none, part, exact };  // part: a task of the array, or a component

JobMatch job_match(const RunRecord& run, std::string_view number) {
  if (run.job == number || run.array == number || run.het == number) return JobMatch::exact;
  const auto is_part = [number](const std::string& name, char mark) {
    return name.size() > number.size() + 1 && name.starts_with(number) && name[number.size()] == mark;
  };
  return is_part(run.array, '_') || is_part(run.het, '+') ? JobMatch::part : JobMatch::none;
}

class JobMatches {
 public:
  void add(const fs::path& directory, JobMatch how) {
    if (how == JobMatch::exact) exact_.push_back(directory);
    if (how == JobMatch::part) parts_.push_back(directory);
  }
  [[nodiscard]] std::vector<fs::path> take() {
    std::vector<fs::path>& found = exact_.empty() ? parts_ : exact_;
    std::sort(found.begin(), found.end());
    return std::move(found);
  }

 private:
  std::vector<fs::path> exact_, parts_;
};

bool is_own_directory(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}

/// The numbers in the record of Slurm, which a run has before its report; else those in the record of the run.
RunRecord numbers_in(const fs::path& directory) {
  RunRecord run;
  if (const auto record = read_slurm_job_record(directory)) {
    ReportJob job;
    apply(*record, job);
    run.job = job.id;
    run.array = job.array;
    run.het = job.het;
    return run;
  }
  try {
    return parse_run(read_text_file(directory / kRunRecordFile, kLargestRunRecord, FileOf::ours));
  } catch (const Error&) {
    return run;  // it has no record, or a damaged one
  }
}

}  // namespace

bool is_number_of_job(std::string_view text) noexcept {
  constexpr std::size_t kLongest = 32;
  const auto is_number = [](std::string_view word) {
    return !word.empty() && word.find_first_not_of(kDecimalDigits) == std::string_view::npos;
  };
  const std::size_t mark = text.find_first_of("_+");
  if (text.size() > kLongest || !is_number(text.substr(0, mark))) return false;
  return mark == std::string_view::npos || is_number(text.substr(mark + 1));
}

const std::string& job_number(const RunRecord& run) noexcept {
  return !run.array.empty() ? run.array : !run.het.empty() ? run.het : run.job;
}

bool is_of_job(const RunRecord& run, std::string_view number) {
  return job_match(run, number) != JobMatch::none;
}

std::vector<fs::path> runs_of_job(const std::string& number, const fs::path& folder) {
  JobMatches matches;
  std::error_code error;
  std::size_t seen = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end && seen < kMostFolders;
       entry.increment(error), ++seen) {
    if (is_own_directory(entry->path())) matches.add(entry->path(), job_match(numbers_in(entry->path()), number));
  }
  return matches.take();
}

std::vector<fs::path> runs_of_job(const std::string& number, const StatePlace& history) {
  std::error_code error;
  if (history.directory.empty() || !fs::exists(history.directory, error)) return {};
  JobMatches matches;
  try {
    RunIndex index(history.directory);
    const auto wanted = [&](const RunRecord& run) { return is_of_job(run, number); };
    for (const auto& [directory, run] : index.newest(kMostOfOneJob, wanted, "\"" + number)) {
      if (is_own_directory(directory)) matches.add(directory, job_match(run, number));
    }
  } catch (const Error&) {  // in use, damaged or not readable: the user can name the directory
    return {};
  }
  return matches.take();
}

}  // namespace reveal
