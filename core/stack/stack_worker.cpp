#include "core/stack/stack_worker.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/job/process_slots.h"
#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/worker_process.h"
#include "core/stack/call_counters.h"
#include "core/stack/elf_symbols.h"
#include "core/stack/first_instruction.h"
#include "core/stack/process_maps.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::int64_t kEarly = 60 * kSecond;  // of a process's life: in it most libraries are loaded
constexpr std::int64_t kLatePeriod = 10 * kSecond;
constexpr std::size_t kMostFilesKnown = 64;
constexpr std::size_t kMostFilesOfProcess = 32;
constexpr double kLeastCostNs = 300;  // charged for a call: a calibration may have been lucky
constexpr std::int64_t kLongestRound = 10 * kSecond;

struct Wanted {
  std::string instance;
  int pid = 0;
  std::int64_t start_ticks = 0;
  std::int64_t cpu_ns = 0;
};

/// A function in one file.
struct Place {
  std::size_t function = 0;
  std::uint64_t offset = 0;
};

/// Which functions a file has that can be probed, and which it has that cannot.
struct KnownFile {
  std::vector<Place> places;
  std::vector<std::size_t> slow;
  std::string problem;
};

struct Links {
  std::size_t function = 0;
  std::vector<Descriptor> all;
};

/// A process of the job whose calls are counted.
struct Tracked {
  Wanted process;
  std::size_t first_index = 0;
  bool timed = true;
  std::int64_t since_ns = 0;
  std::int64_t next_look_ns = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> files;  // device and inode
  std::vector<Links> links;
  std::vector<std::uint64_t> calls_before;  // by function, when the budget was last looked at
};

/// What one instance has of one function.
struct Row {
  bool counted = false;
  bool timed = false;
  std::optional<std::size_t> index;  // of its process, while that is attached
  CallCounts ended;                  // of its earlier processes
};

std::optional<std::int64_t> start_of(int pid) {
  const std::string text = file_text("/proc/" + std::to_string(pid) + "/stat");
  const auto stat = parse_process_stat(text);
  return stat ? std::optional(stat->start_ticks) : std::nullopt;
}

/// A timed function returns by a system call of the kernel's own (Linux 6.11), which it passed through a process's
/// seccomp filter at first: a container's filter refuses it, and the process crashes. Let through since 6.14. A filter
/// may come at any time, so on the kernels between nothing is timed.
bool kernel_times_safely() {
  utsname system{};
  unsigned major = 0;
  unsigned minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%u.%u", &major, &minor) != 2) return false;
  return major != 6 || minor < 11 || minor > 13;
}

/// Nor is a process timed that has a filter, or whose return addresses the processor checks (a shadow stack).
bool may_be_timed(int pid) {
  static const bool safely = kernel_times_safely();
  const std::string text = file_text("/proc/" + std::to_string(pid) + "/status");
  return safely && field_of(text, "Seccomp") == "0" &&
         field_of(text, "x86_Thread_features").find("shstk") == std::string_view::npos;
}

/// At most so much of /proc/PID/maps: a process may have as many mappings as it likes.
std::string maps_of(int pid) {
  constexpr std::size_t kMost = 4 << 20;
  constexpr std::size_t kPiece = 64 << 10;
  const Descriptor file(::open(("/proc/" + std::to_string(pid) + "/maps").c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  while (file && text.size() < kMost) {
    const std::size_t begin = text.size();
    text.resize(begin + kPiece);
    const ssize_t got = ::read(file.get(), text.data() + begin, kPiece);
    text.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) break;
  }
  return text;
}

KnownFile look_into(int file, std::string_view name) {
  KnownFile known;
  std::vector<std::string_view> symbols;
  std::vector<std::size_t> functions;
  const std::span<const StackFunction> table = stack_functions();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!belongs_to(table[i], name)) continue;
    for (const std::string_view symbol : table[i].symbols) {
      if (symbol.empty()) continue;
      symbols.push_back(symbol);
      functions.push_back(i);
    }
  }
  const auto read = [file](std::uint64_t offset, std::span<std::byte> into) {
    while (!into.empty()) {
      if (offset > static_cast<std::uint64_t>(INT64_MAX)) return false;
      const ssize_t got = ::pread(file, into.data(), into.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      into = into.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
    return true;
  };
  FoundFunctions found = find_functions(read, symbols);
  known.problem = std::move(found.problem);
  for (std::size_t i = 0; i < found.offsets.size(); ++i) {
    if (found.offsets[i] == 0) continue;
    std::array<std::byte, kFirstInstructions> code{};
    const auto at = read(found.offsets[i], code) ? cheap_probe_at(code) : std::nullopt;
    if (!at) {
      known.slow.push_back(functions[i]);
      continue;
    }
    const Place place{.function = functions[i], .offset = found.offsets[i] + *at};
    const bool twice = std::any_of(known.places.begin(), known.places.end(), [&place](const Place& other) {
      return other.offset == place.offset;  // one function with two names
    });
    if (!twice) known.places.push_back(place);
  }
  return known;
}

void add(CallCounts& sum, const CallCounts& more) {
  sum.calls += more.calls;
  sum.bytes += more.bytes;
  sum.unsized += more.unsized;
  sum.returned += more.returned;
  sum.time_ns += more.time_ns;
  sum.longest_ns = std::max(sum.longest_ns, more.longest_ns);
  sum.errors += more.errors;
  sum.last_error = more.errors > 0 ? more.last_error : sum.last_error;
  sum.untimed += more.untimed;
}

class StackWatch {
 public:
  StackWatch() : functions_(stack_functions()), counters_(ProcessSlots::kSlots * functions_.size()) {
    for (std::size_t i = 0; i < ProcessSlots::kSlots; ++i) free_.push_back(i * functions_.size());
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  [[nodiscard]] std::string opening() const {
    const auto word = [](double number) { return ' ' + std::to_string(static_cast<std::int64_t>(number)); };
    return "ok " + std::string(counters_.way()) + word(counters_.cost_ns(false)) + word(counters_.cost_ns(true)) +
           word(counters_.bias_ns());
  }

  std::string calls(std::string_view request) {
    // Who hangs in a file of the job keeps no budget: without this process, nothing is attached any more.
    const std::int64_t round = round_begun_ns_.load();
    if (round != 0 && read_clock(CLOCK_MONOTONIC) - round > kLongestRound) ::_exit(1);
    const std::lock_guard lock(mutex_);
    wanted_.clear();
    std::string_view line;
    while (next_line(request, line)) {
      Wanted wanted{.instance = std::string(cut_word(line))};
      std::int64_t pid = 0;
      if (!parse_counter(cut_word(line), pid) || !parse_counter(cut_word(line), wanted.start_ticks) ||
          !parse_counter(cut_word(line), wanted.cpu_ns)) {
        continue;
      }
      wanted.pid = static_cast<int>(pid);
      wanted_.push_back(std::move(wanted));
    }
    asked_ = true;
    wake_.notify_one();
    return text();
  }

 private:
  // With the lock held.
  std::string text() {
    std::string text = "functions";
    for (const std::size_t function : attached_) text.append(1, ' ').append(functions_[function].name);
    text += '\n';
    std::string counts;
    std::uint64_t unsized = 0;
    std::uint64_t untimed = 0;
    const std::map<std::size_t, std::int64_t> pending = counters_.pending();
    for (auto& [instance, rows] : rows_) {
      for (std::size_t function = 0; function < rows.size(); ++function) {
        if (!rows[function].counted || off_.contains(function)) continue;
        const CallCounts sum = sum_of(rows[function]);
        unsized += sum.unsized;
        untimed += sum.untimed;
        if (sum.calls > 0) append(counts, instance, function, rows[function], sum, pending);
      }
    }
    const auto add_note = [&text](const std::string& sentence) { text += "note " + sentence + '\n'; };
    for (const std::string& sentence : notes_) add_note(sentence);
    if (!slow_.empty()) {
      std::string names;
      for (const std::size_t function : slow_) names.append(1, ' ').append(functions_[function].name);
      add_note("not measured, because their first instruction would be single-stepped:" + names);
    }
    if (untimed_processes_ > 0) {
      add_note("calls of " + std::to_string(untimed_processes_) +
               " processes are counted and not timed: they are under a seccomp filter");
    }
    if (unsized > 0)
      add_note("the bytes of " + std::to_string(unsized) + " calls are not known, because their datatype is not known");
    if (untimed > 0) add_note(std::to_string(untimed) + " calls were not timed: too many were under way at once");
    std::string_view rest = counts;
    std::string_view line;
    std::size_t left_out = 0;
    while (next_line(rest, line)) {
      constexpr std::size_t kForTheNote = 100;
      if (text.size() + line.size() + kForTheNote > WorkerProcess::kLongestAnswer) {
        ++left_out;
      } else {
        text.append(line).append(1, '\n');
      }
    }
    if (left_out > 0) add_note(std::to_string(left_out) + " functions of processes are left out: there are too many");
    return text;
  }

  CallCounts sum_of(Row& row) {
    CallCounts sum = row.ended;
    row.ended.longest_ns = 0;
    if (row.index) add(sum, counters_.take(*row.index));
    return sum;
  }

  void append(std::string& text, const std::string& instance, std::size_t function, const Row& row,
              const CallCounts& sum, const std::map<std::size_t, std::int64_t>& pending) const {
    const auto word = [&text](bool known, std::uint64_t number) {
      text += known ? ' ' + std::to_string(number) : " -";
    };
    const auto begun = row.index ? pending.find(*row.index) : pending.end();
    const std::int64_t age = begun == pending.end() ? 0 : read_clock(CLOCK_MONOTONIC) - begun->second;
    text += "count " + instance + ' ' + std::string(functions_[function].name);
    word(true, sum.calls);
    word(functions_[function].rule != ByteRule::none && sum.unsized == 0, sum.bytes);
    word(row.timed, sum.time_ns);
    word(row.timed && sum.longest_ns > 0, sum.longest_ns);
    word(row.timed && row.index, static_cast<std::uint64_t>(std::max<std::int64_t>(age, 0)));
    word(row.timed, sum.errors);
    word(row.timed, sum.last_error);
    text += '\n';
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<Wanted> wanted;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, stop, [this] { return asked_; });
        asked_ = false;
        wanted = wanted_;
      }
      round_begun_ns_ = read_clock(CLOCK_MONOTONIC);
      try {
        follow(wanted);
      } catch (const std::exception& error) {  // no memory, or the kernel refuses a program
        note("not all was attached: " + std::string(error.what()));
      }
      round_begun_ns_ = 0;
    }
  }

  void note(std::string sentence, bool always = false) {  // which may have the name of a user's file in it
    for (char& letter : sentence) {
      if (std::isprint(static_cast<unsigned char>(letter)) == 0) letter = '?';
    }
    const std::lock_guard lock(mutex_);
    constexpr std::size_t kMostNotes = 16;
    if (always || notes_.size() < kMostNotes) notes_.insert(std::move(sentence));
  }

  void follow(const std::vector<Wanted>& wanted) {
    const std::int64_t now = read_clock(CLOCK_MONOTONIC);
    const auto same = [](const Wanted& one, const Wanted& other) {
      return one.pid == other.pid && one.start_ticks == other.start_ticks && one.instance == other.instance;
    };
    for (auto tracked = tracked_.begin(); tracked != tracked_.end();) {
      const bool stays =
          std::any_of(wanted.begin(), wanted.end(), [&](const Wanted& each) { return same(each, tracked->process); });
      if (!stays) let_go(*tracked);
      tracked = stays ? tracked + 1 : tracked_.erase(tracked);
    }
    for (const Wanted& each : wanted) {
      const bool known = std::any_of(tracked_.begin(), tracked_.end(),
                                     [&](const Tracked& tracked) { return same(each, tracked.process); });
      if (known || free_.empty() || start_of(each.pid) != each.start_ticks) continue;
      Tracked fresh{.process = each, .first_index = free_.back()};
      fresh.timed = may_be_timed(each.pid);
      fresh.since_ns = now;
      fresh.calls_before.assign(functions_.size(), 0);
      free_.pop_back();
      tracked_.push_back(std::move(fresh));
    }
    for (Tracked& tracked : tracked_) {
      if (now < tracked.next_look_ns) continue;
      tracked.next_look_ns = now - tracked.since_ns < kEarly ? now : now + kLatePeriod;
      find_libraries(tracked);
    }
    keep_budget(wanted);
  }

  // The kernel takes its time to detach: nobody waits for it, and the counts can be read meanwhile.
  void let_go(Tracked& tracked) {
    tracked.links.clear();
    {
      const std::lock_guard lock(mutex_);
      for (Row& row : rows_[tracked.process.instance]) {
        if (!row.index) continue;
        add(row.ended, counters_.take(*row.index));
        row.index.reset();
      }
    }
    counters_.reset(tracked.first_index, functions_.size());
    free_.push_back(tracked.first_index);
  }

  void find_libraries(Tracked& tracked) {
    const int pid = tracked.process.pid;
    const std::string maps = maps_of(pid);
    for (const Mapping& mapping : stack_mappings(maps)) {
      if (tracked.files.size() == kMostFilesOfProcess) return;
      if (!tracked.files.emplace(mapping.device, mapping.inode).second) continue;
      const Descriptor file = open_mapped(pid, mapping);
      const int error = errno;
      if (start_of(pid) != tracked.process.start_ticks) return;  // it ended, and these may be another one's
      const std::string name(file_name_of(mapping));
      if (!file) {
        note(name + " cannot be read (" + std::strerror(error) + ')');
        continue;
      }
      tracked.timed = tracked.timed && may_be_timed(pid);
      attach(tracked, file.get(), mapping, name);
      keep_budget(wanted_now());  // attaching takes its time, in which functions are called
    }
  }

  std::vector<Wanted> wanted_now() {
    const std::lock_guard lock(mutex_);
    return wanted_;
  }

  void attach(Tracked& tracked, int file, const Mapping& mapping, const std::string& name) {
    const KnownFile& known = known_file(file, name);
    if (!known.problem.empty()) note(name + " is not measured: " + known.problem);
    {
      const std::lock_guard lock(mutex_);
      slow_.insert(known.slow.begin(), known.slow.end());
      if (!tracked.timed && !known.places.empty()) untimed_processes_ += tracked.links.empty() ? 1 : 0;
    }
    for (std::size_t function = 0; function < functions_.size(); ++function) {
      if (off_.contains(function)) continue;
      std::vector<CallCounters::Point> points;
      for (const Place& place : known.places) {
        const bool mapped =
            place.offset >= mapping.offset && place.offset - mapping.offset < mapping.end - mapping.begin;
        if (place.function != function || !mapped) continue;
        points.push_back({.offset = place.offset, .index = tracked.first_index + function});
      }
      if (points.empty()) continue;
      const CallShape shape = shape_of(functions_[function], tracked.timed);
      CallCounters::Attached attached = counters_.attach(file, tracked.process.pid, shape, points);
      // If the number belongs to another process by now, the counter is detached at once.
      if (attached.error == ESRCH || start_of(tracked.process.pid) != tracked.process.start_ticks) return;
      if (attached.error != 0) {
        note(std::string(functions_[function].name) + " is not measured: " + std::strerror(attached.error));
        continue;
      }
      tracked.links.push_back({.function = function, .all = std::move(attached.links)});
      const std::lock_guard lock(mutex_);
      std::vector<Row>& rows = rows_[tracked.process.instance];
      rows.resize(functions_.size());
      rows[function].timed = shape.timed && (rows[function].timed || !rows[function].counted);
      rows[function].counted = true;
      rows[function].index = tracked.first_index + function;
      attached_.insert(function);
    }
  }

  const KnownFile& known_file(int file, const std::string& name) {
    struct stat status {};
    static_cast<void>(::fstat(file, &status));
    const auto key = std::tuple(static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
                                static_cast<std::int64_t>(status.st_size),
                                status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec, name);
    const auto known = files_.find(key);
    if (known != files_.end()) return known->second;
    if (files_.size() == kMostFilesKnown) files_.clear();
    return files_.emplace(key, look_into(file, name)).first->second;
  }

  void keep_budget(const std::vector<Wanted>& wanted) {
    double cpu_ns = 0;
    for (Tracked& tracked : tracked_) {
      for (const Wanted& each : wanted) {
        if (each.pid != tracked.process.pid || each.instance != tracked.process.instance) continue;
        cpu_ns += static_cast<double>(std::max<std::int64_t>(0, each.cpu_ns - tracked.process.cpu_ns));
        tracked.process.cpu_ns = each.cpu_ns;
      }
    }
    budget_.begin(cpu_ns);
    std::vector<double> calls(functions_.size(), 0);
    for (Tracked& tracked : tracked_) {
      for (const Links& links : tracked.links) {
        const std::uint64_t so_far = counters_.calls(tracked.first_index + links.function);
        const auto more = static_cast<double>(so_far - tracked.calls_before[links.function]);
        tracked.calls_before[links.function] = so_far;
        calls[links.function] += more;
        const bool timed = shape_of(functions_[links.function], tracked.timed).timed;
        budget_.spend(static_cast<int>(links.function), more, std::max(kLeastCostNs, counters_.cost_ns(timed)));
      }
    }
    const int dearest = budget_.end();
    if (dearest < 0) return;
    const auto function = static_cast<std::size_t>(dearest);
    for (Tracked& tracked : tracked_) {
      std::erase_if(tracked.links, [function](const Links& links) { return links.function == function; });
    }
    const double cost = calls[function] * counters_.cost_ns(functions_[function].ending != Ending::may_throw);
    note(std::string(functions_[function].name) + " was detached: counting " +
             std::to_string(static_cast<std::int64_t>(calls[function])) + " calls took " +
             std::to_string(static_cast<std::int64_t>(cost / 1e6)) + " ms while the processes used " +
             std::to_string(static_cast<std::int64_t>(cpu_ns / 1e6)) + " ms of cpu time (limit .5 %)",
         true);
    const std::lock_guard lock(mutex_);
    off_.insert(function);
    attached_.erase(function);
  }

  std::span<const StackFunction> functions_;
  CallCounters counters_;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool asked_ = false;
  std::vector<Wanted> wanted_;
  std::map<std::string, std::vector<Row>> rows_;  // by instance, and function
  std::set<std::size_t> attached_, slow_;         // functions
  std::set<std::size_t> off_;                     // only the thread changes it
  std::set<std::string> notes_;
  int untimed_processes_ = 0;

  std::atomic<std::int64_t> round_begun_ns_ = 0;  // 0: none is under way

  // The thread's own.
  std::vector<Tracked> tracked_;
  std::vector<std::size_t> free_;  // first indices
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::string>, KnownFile> files_;
  CallBudget budget_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace

void CallBudget::begin(double cpu_ns) noexcept {
  const double earned = kShare * cpu_ns;
  left_ns_ = std::min(std::max(kBurstNs, earned), left_ns_ + earned);
  most_ns_ = 0;
  dearest_ = -1;
}

void CallBudget::spend(int function, double calls, double cost_ns) noexcept {
  const double spent = calls * cost_ns;
  left_ns_ -= spent;
  if (spent <= most_ns_) return;
  most_ns_ = spent;
  dearest_ = function;
}

int CallBudget::end() noexcept {
  if (left_ns_ >= 0) return -1;
  left_ns_ = kBurstNs;  // the others begin anew: of what they cost nothing was too much
  return dearest_;
}

std::string ask_stack(const std::string& /*root*/, std::string_view request) {
  static std::unique_ptr<StackWatch> watch;  // the child's, of which there is one
  std::string_view line;
  if (!next_line(request, line)) return "";
  try {
    if (!watch) watch = std::make_unique<StackWatch>();
    return line == "open" ? watch->opening() : watch->calls(request);
  } catch (const std::exception& error) {
    return "none " + std::string(error.what());
  }
}

}  // namespace reveal
