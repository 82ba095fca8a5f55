#include "core/python/python_worker.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "core/python/interpreter.h"
#include "core/python/main_thread.h"
#include "core/sampler/worker_process.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// A process becomes another program early, if at all: it is searched again when it is older by this part.
constexpr std::int64_t kOlder = 4;
constexpr std::int64_t kSearchAgain = 600 * kSecond;
constexpr int kMostTorn = 30;  // looks; it may be another program at the same addresses
constexpr std::size_t kLongestPlace = 150;
constexpr std::size_t kMostSampled = 64;
constexpr std::size_t kLongestCost = 32;  // the last line of an answer

/// A process with a sampled main thread.
struct Sampled {
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;
  std::int64_t since_ns = 0;
  std::int64_t next_search_ns = 0;
  int torn = 0;  // looks, one after the other
  std::string command;
  std::string why_not;
  std::string refused_as;  // its command then: the kernel's log has a line for each refusal
  std::optional<MainThread> thread;
};

bool still_runs(Sampled& process) {
  const std::string text = file_text("/proc/" + std::to_string(process.pid) + "/stat");
  const auto stat = parse_process_stat(text);
  if (!stat || stat->start_ticks != process.start_ticks) return false;
  process.command = stat->command;
  return true;
}

void search(Sampled& process, std::int64_t now) {
  if (now < process.next_search_ns) return;
  process.next_search_ns = now + std::min((now - process.since_ns) / kOlder, kSearchAgain);
  const auto pid = static_cast<pid_t>(process.pid);
  const ReadMemory read = memory_of(pid);
  const FoundInterpreter found = find_interpreter(pid, read);
  process.why_not = found.problem;
  if (found.refused) process.refused_as = process.command;
  if (found.interpreter) process.thread.emplace(read, *found.interpreter);
}

std::string answer_of(const std::string& instance, Sampled& process) {
  const auto said = [&instance](std::string_view what, const std::string& more = {}) {
    return std::string(what) + ' ' + instance + (more.empty() ? "" : ' ' + more) + '\n';
  };
  if (!still_runs(process)) return said("torn");
  if (!process.refused_as.empty()) {
    if (process.refused_as == process.command) return said("why", process.why_not);
    process.refused_as.clear();
    process.next_search_ns = 0;
  }
  if (!process.thread) search(process, read_clock(CLOCK_MONOTONIC));
  const StackSample stack = process.thread ? process.thread->look() : StackSample{};
  // Files are slow to read at times: the number may be another process's by now.
  if (!still_runs(process)) {
    process.thread.reset();
    process.why_not.clear();
    return said("torn");
  }
  if (!process.thread) return said("why", process.why_not);
  process.torn = stack.state == StackSample::State::torn ? process.torn + 1 : 0;
  switch (stack.state) {
    case StackSample::State::known: {
      const std::string place = place_of(stack.frames);
      return said("at", place.size() <= kLongestPlace ? place : place_of(std::span(stack.frames).first(1)));
    }
    case StackSample::State::no_frame:
      return said("idle");
    case StackSample::State::refused:
      process.thread.reset();
      process.refused_as = process.command;
      process.why_not = why_refused();
      return said("why", process.why_not);
    case StackSample::State::unmapped:  // it may be another program by now
      process.thread.reset();
      process.next_search_ns = 0;
      break;
    case StackSample::State::torn:
      if (process.torn < kMostTorn) break;
      process.thread.reset();
      process.next_search_ns = 0;
      process.torn = 0;
      break;
    case StackSample::State::lost:
      process.thread.reset();
      process.next_search_ns = read_clock(CLOCK_MONOTONIC) + kSearchAgain;
      process.why_not = "it has more threads than are looked through";
      return said("why", process.why_not);
    case StackSample::State::gone:
      break;
  }
  return said("torn");
}

}  // namespace

std::string query_python(const std::string& /*root*/, std::string_view request) {
  static std::map<std::string, Sampled, std::less<>> known;  // the child's, by instance
  const std::int64_t begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
  std::map<std::string, Sampled, std::less<>> asked;
  std::string answer;
  std::string_view line;
  while (next_line(request, line) && asked.size() < kMostSampled) {
    const std::string instance(cut_word(line));
    Sampled process{.since_ns = read_clock(CLOCK_MONOTONIC)};
    if (!parse_counter(cut_word(line), process.pid) || !parse_counter(cut_word(line), process.start_ticks)) continue;
    const auto before = known.find(instance);
    if (before != known.end() && before->second.pid == process.pid &&
        before->second.start_ticks == process.start_ticks) {
      process = std::move(before->second);
    }
    std::string more = answer_of(instance, process);
    if (answer.size() + more.size() <= WorkerProcess::kLongestAnswer - kLongestCost) answer += more;
    asked.emplace(instance, std::move(process));
  }
  known = std::move(asked);
  return answer + "cost " + std::to_string(read_clock(CLOCK_PROCESS_CPUTIME_ID) - begin) + '\n';
}

}  // namespace reveal
