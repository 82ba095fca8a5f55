#include "core/python/python_worker.h"

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

constexpr std::int64_t kYoung = 60 * kSecond;  // a process becomes another program early, if at all
constexpr std::int64_t kSearchAgain = 10 * kSecond;
constexpr std::size_t kLongestPlace = 150;
constexpr std::size_t kMostSampled = 64;

/// A process whose main thread is looked at.
struct Sampled {
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;
  std::int64_t since_ns = 0;
  std::int64_t next_search_ns = 0;
  std::string why_not;
  std::optional<MainThread> thread;
};

bool still_runs(const Sampled& process) {
  const std::string text = file_text("/proc/" + std::to_string(process.pid) + "/stat");
  const auto stat = parse_process_stat(text);
  return stat && stat->start_ticks == process.start_ticks;
}

void search(Sampled& process, std::int64_t now) {
  if (now < process.next_search_ns) return;
  process.next_search_ns = now - process.since_ns < kYoung ? now : now + kSearchAgain;
  const auto pid = static_cast<pid_t>(process.pid);
  const ReadMemory read = memory_of(pid);
  const FoundInterpreter found = find_interpreter(pid, read);
  process.why_not = found.problem;
  if (found.interpreter) process.thread.emplace(read, *found.interpreter);
}

std::string answer_of(const std::string& instance, Sampled& process) {
  const auto said = [&instance](std::string_view what, const std::string& more = {}) {
    return std::string(what) + ' ' + instance + (more.empty() ? "" : ' ' + more) + '\n';
  };
  if (!still_runs(process)) return said("torn");
  if (!process.thread) search(process, read_clock(CLOCK_MONOTONIC));
  if (!process.thread) return said("why", process.why_not);
  const StackSample stack = process.thread->look();
  switch (stack.state) {
    case StackSample::State::known: {
      const std::string place = place_of(stack.frames);
      return said("at", place.size() <= kLongestPlace ? place : place_of(std::span(stack.frames).first(1)));
    }
    case StackSample::State::no_frame:
      return said("idle");
    case StackSample::State::refused:
      return said("why", why_refused());
    case StackSample::State::unmapped:  // it may be another program by now
      process.thread.reset();
      break;
    case StackSample::State::torn:
    case StackSample::State::gone:
      break;
  }
  return said("torn");
}

}  // namespace

std::string ask_python(const std::string& /*root*/, std::string_view request) {
  static std::map<std::string, Sampled, std::less<>> known;  // the child's, by instance
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
    if (answer.size() + more.size() <= WorkerProcess::kLongestAnswer) answer += more;
    asked.emplace(instance, std::move(process));
  }
  known = std::move(asked);
  return answer;
}

}  // namespace reveal
