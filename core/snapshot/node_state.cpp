// The changing state of a node: its clock, and the counts of its hardware since it was started.
#include <sys/timex.h>

#include "core/job/cpu_set.h"
#include "core/kernel_text/kernel_words.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// "UNSYNCHRONISED MAXERROR OFFSET", the last two in nanoseconds. https://man7.org/linux/man-pages/man2/adjtimex.2.html
std::string clock_words() {
  constexpr std::int64_t kMicrosecond = 1000;
  timex state{};
  if (::adjtimex(&state) < 0) return "";
  const std::int64_t offset_unit = (state.status & STA_NANO) != 0 ? 1 : kMicrosecond;
  return std::to_string((state.status & STA_UNSYNC) != 0 ? 1 : 0) + ' ' +
         std::to_string(state.maxerror * kMicrosecond) + ' ' + std::to_string(state.offset * offset_unit);
}

std::string sum_over_controllers(KernelTree& fs, std::string_view file) {
  constexpr std::string_view kFolder = "/sys/devices/system/edac/mc";
  std::int64_t sum = 0;
  bool any = false;
  for (const std::string& name : fs.list(kFolder)) {
    std::int64_t count = 0;
    const std::string text = fs.word(std::string(kFolder) + '/' + name + '/' + std::string(file));
    if (!name.starts_with("mc") || !parse_counter(text, count)) continue;
    sum = wrapping_sum(sum, count);
    any = true;
  }
  return any ? std::to_string(sum) : "";
}

constexpr std::size_t kCoresPerFact = 24;  // as many fit into a value, with four threads each

}  // namespace

Snapshot clock_state(KernelTree& fs) {
  const std::string words = fs.fact("@clock", [&fs] { return fs.live() ? clock_words() : std::string(); });
  std::string_view rest = words;
  const auto unsynchronised = parse_int(next_word(rest));
  const auto error = parse_int(next_word(rest));
  const auto offset = parse_int(next_word(rest));
  if (!unsynchronised || !error || !offset) return {};
  return {{"clock.synchronised", *unsynchronised == 0 ? "yes" : "no"},
          {"clock_state.max_error_ns", std::to_string(*error)},
          {"clock_state.offset_ns", std::to_string(*offset)}};
}

Snapshot counted_since_start(KernelTree& fs) {
  const std::string uptime = fs.word("/proc/uptime");
  std::string_view rest = uptime;
  const std::string_view first = next_word(rest);
  return {{"since_start.seconds", std::string(first.substr(0, first.find('.')))},
          {"since_start.memory_errors_corrected", sum_over_controllers(fs, "ce_count")},
          {"since_start.memory_errors_uncorrected", sum_over_controllers(fs, "ue_count")}};
}

Snapshot core_threads(KernelTree& fs, const std::vector<int>& cpus) {
  if (fs.word("/sys/devices/system/cpu/smt/active") == "0") return {};
  Snapshot facts;
  CpuSet seen;
  std::size_t cores = 0;
  std::string text;
  const auto put = [&] {
    if (!text.empty()) facts.emplace_back("cpu_threads." + std::to_string((cores - 1) / kCoresPerFact), text);
    text.clear();
  };
  for (const int cpu : cpus) {
    if (seen.contains(cpu)) continue;
    const std::vector<int> threads =
        parse_cpu_list(fs.word("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list"));
    for (const int thread : threads) seen.insert(thread);
    if (threads.size() < 2) continue;
    ++cores;
    text += (text.empty() ? "" : " ") + format_cpu_list(threads);
    if (cores % kCoresPerFact == 0) put();
  }
  put();
  return facts;
}

}  // namespace reveal
