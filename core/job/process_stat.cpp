#include "core/job/process_stat.h"

#include <array>

#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// Field numbers as in proc(5); the first after the command is 3.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
struct Field {
  int number;
  std::int64_t ProcessStat::*value;
};
constexpr std::array kFields = {
    Field{9, &ProcessStat::flags},
    Field{10, &ProcessStat::minor_faults},
    Field{12, &ProcessStat::major_faults},
    Field{14, &ProcessStat::user_ticks},
    Field{15, &ProcessStat::system_ticks},
    Field{16, &ProcessStat::reaped_user_ticks},
    Field{17, &ProcessStat::reaped_system_ticks},
    Field{20, &ProcessStat::threads},
    Field{22, &ProcessStat::start_ticks},
    Field{24, &ProcessStat::resident_pages},
    Field{38, &ProcessStat::exit_signal},
    Field{39, &ProcessStat::last_cpu},
};

/// 63 years of one cpu at 100 ticks a second. Beyond it, the text is damaged, and sums in nanoseconds would overflow.
constexpr std::int64_t kMostTicks = 200'000'000'000;

bool believable(const ProcessStat& stat) noexcept {
  for (const std::int64_t value : {stat.user_ticks, stat.system_ticks, stat.reaped_user_ticks, stat.reaped_system_ticks,
                                   stat.start_ticks, stat.resident_pages, stat.threads, stat.last_cpu}) {
    if (value > kMostTicks || value < -kMostTicks) return false;
  }
  return true;
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) noexcept {
  ProcessStat stat;
  // The command may contain blanks and brackets: it ends at the last one.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  std::string_view head = text.substr(0, open);
  std::int64_t number = 0;
  if (!parse_counter(cut_word(head), number)) return std::nullopt;
  stat.pid = static_cast<int>(number);
  stat.command = text.substr(open + 1, close - open - 1);
  std::string_view rest = text.substr(close + 1);
  if (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  const std::string_view state = cut_word(rest);
  if (state.size() != 1) return std::nullopt;
  stat.state = state.front();
  if (!parse_counter(cut_word(rest), number)) return std::nullopt;
  stat.parent = static_cast<int>(number);
  int at = 5;
  for (const Field& field : kFields) {
    std::string_view word = cut_word(rest);
    for (; at < field.number; ++at) word = cut_word(rest);
    ++at;
    if (parse_counter(word, number))
      stat.*field.value = number;
    else if (field.number == 38 && word == "-1")
      stat.exit_signal = -1;
    // cutime is signed in the kernel and may be shown as -1 by old ones; the rest must be there up to the start time.
    else if (word.empty() && field.number <= 22)
      return std::nullopt;
  }
  if (!believable(stat)) return std::nullopt;
  return stat;
}

std::optional<SchedStat> parse_schedstat(std::string_view text) noexcept {
  SchedStat stat;
  if (!parse_counter(cut_word(text), stat.run_ns)) return std::nullopt;
  if (!parse_counter(cut_word(text), stat.wait_ns)) return std::nullopt;
  return stat;
}

std::string_view field_of(std::string_view text, std::string_view key) noexcept {
  std::string_view line;
  while (next_line(text, line)) {
    if (line.substr(0, key.size()) != key) continue;
    std::string_view rest = line.substr(key.size());
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    if (rest.empty() || rest.front() != ':') continue;
    rest.remove_prefix(1);
    return next_word(rest);
  }
  return {};
}

}  // namespace reveal
