#include "postproc/live/queued_job.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/analysis/runs_of_job.h"
#include "postproc/words/lists.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::string_view kDigitsOfNumber = "0123456789";
constexpr std::size_t kMostTasksListed = 100'000;  // an array may have many tasks
constexpr std::size_t kMostNodesOfJob = 100'000;
constexpr std::size_t kMostErrors = 3;
constexpr std::size_t kLongestWords = 400;

std::size_t digits_of(std::string_view text) {
  return std::min(text.find_first_not_of(kDigitsOfNumber), text.size());
}

/// "4711.0", "4711.batch"
bool is_step(std::string_view text) {
  return is_job_number(text) && text.find('.') != std::string_view::npos;
}

std::vector<std::string> lines_of_slurm(std::string_view printed) {
  constexpr std::string_view kOwnName = "srun: ";
  std::vector<std::string> lines;
  std::string_view line;
  while (next_line(printed, line)) {
    std::string text = printable(line.starts_with(kOwnName) ? line.substr(kOwnName.size()) : line, 200);
    if (!text.empty()) lines.push_back(std::move(text));
  }
  return lines;
}

std::string on_one_line(std::vector<std::string> lines) {
  lines.resize(std::min(lines.size(), kMostErrors));
  return printable(joined(lines, "; "), kLongestWords);
}

[[noreturn]] void refuse_several(const std::string& number, const std::vector<QueuedJob>& running) {
  std::vector<std::string> numbers;
  numbers.reserve(running.size());
  for (const QueuedJob& job : running) numbers.push_back(job.number);
  throw Error(fmt::format("{} has {} jobs that run: {}; watch one of them: reveal watch {}", number, running.size(),
                          listed(numbers), numbers.front()));
}

}  // namespace

bool is_job_number(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (!is_number_of_job(text.substr(0, dot))) return false;
  if (dot == std::string_view::npos) return true;
  const std::string_view step = text.substr(dot + 1);
  return !step.empty() && (digits_of(step) == step.size() || step == "batch" || step == "extern");
}

void need_whole_job(const std::string& number) {
  if (!is_step(number)) return;
  throw Error(number + " is a step, and only whole jobs are watched: reveal watch " +
              number.substr(0, number.find('.')));
}

std::vector<std::string> squeue_options(const std::string& number) {
  return {"--noheader", "--array", "--states=all", "--jobs=" + number, "--format=%A|%i|%T|%D|%r"};
}

std::vector<QueuedJob> parse_queue(std::string_view text) {
  std::vector<QueuedJob> jobs;
  std::string_view line;
  while (jobs.size() < kMostTasksListed && next_line(text, line)) {
    std::array<std::string_view, 5> fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::size_t end = i + 1 < fields.size() ? line.find('|') : line.size();
      fields[i] = line.substr(0, end);
      line.remove_prefix(std::min(fields[i].size() + 1, line.size()));
    }
    const auto nodes = parse_int(fields[3]);
    const bool whole = !fields[0].empty() && digits_of(fields[0]) == fields[0].size();
    if (!whole || !nodes || *nodes < 0) continue;
    jobs.push_back({std::string(fields[0]), printable(fields[1], 40), printable(fields[2], 40),
                    std::min(static_cast<std::size_t>(*nodes), kMostNodesOfJob), printable(fields[4], 100)});
  }
  return jobs;
}

QueuedJob running_job(const std::string& number, std::vector<QueuedJob> listed) {
  // squeue lists all components for 4711+1.
  std::vector<QueuedJob> named;
  for (const QueuedJob& job : listed) {
    if (job.number == number) named.push_back(job);
  }
  if (!named.empty() && number.find_first_not_of(kDigitsOfNumber) != std::string::npos) listed = named;
  if (listed.empty()) throw Error("job " + number + ": squeue does not list it");
  const QueuedJob first = listed.front();
  std::erase_if(listed, [](const QueuedJob& job) { return !job.runs(); });
  if (listed.size() == 1) return listed.front();
  if (!listed.empty()) refuse_several(number, listed);
  if (first.waits()) {
    throw Error("job " + number + " has not started (" + first.state + ", " + first.reason +
                "): watch it when it runs");
  }
  throw Error("job " + number + " has ended (" + first.state + "); its report: reveal show " + first.id);
}

std::string errors_of_slurm(std::string_view printed) {
  std::vector<std::string> errors = lines_of_slurm(printed);
  std::erase_if(errors, [](const std::string& line) {
    return line.find("error:") == std::string::npos && line.find("fatal:") == std::string::npos;
  });
  return on_one_line(std::move(errors));
}

std::string words_of_slurm(std::string_view printed) {
  std::string errors = errors_of_slurm(printed);
  return errors.empty() ? on_one_line(lines_of_slurm(printed)) : errors;
}

}  // namespace reveal
