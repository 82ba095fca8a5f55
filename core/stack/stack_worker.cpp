#include "core/stack/stack_worker.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/job/process_slots.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/worker_process.h"
#include "core/stack/call_broker.h"
#include "core/stack/call_budget.h"
#include "core/stack/call_counters.h"
#include "core/stack/call_ledger.h"
#include "core/stack/elf_symbols.h"
#include "core/stack/first_instruction.h"
#include "core/stack/library_functions.h"
#include "core/stack/probed_process.h"
#include "core/stack/process_maps.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::int64_t kEarly = 60 * kSecond;  // first part of a process's life, in which most libraries are loaded
constexpr std::int64_t kLatePeriod = 10 * kSecond;
constexpr std::int64_t kPauseAfterLook = 100;        // times the processor time in which the mappings were read
constexpr double kLeastCostNs = 300;                 // charged for a call: a calibration may have been lucky
constexpr std::int64_t kLongestRoundMs = 10'000;     // without progress
constexpr std::int64_t kLongestSilenceMs = 150'000;  // without a request: the longest interval of a site is a minute
// ns after a link in which usually no grace period of RCU passes, for it takes a tick or more: see
// CallCounters::prepare().
constexpr std::int64_t kKernelRemembers = 1'000'000;
constexpr std::string_view kReplaced = "its code in memory is not known to be that of its file";

struct Wanted {
  std::string instance;
  int pid = 0;
  std::int64_t start_ticks = 0;
  std::int64_t cpu_ns = 0;
};

bool is_same(const Wanted& one, const Wanted& other) {
  return one.pid == other.pid && one.start_ticks == other.start_ticks && one.instance == other.instance;
}

struct FunctionPoints {
  std::size_t function = 0;
  std::vector<CallCounters::Point> all;
};

struct Links {
  std::size_t function = 0;
  CallLinks all;
};

/// A file, by device and inode.
using FileKey = std::pair<std::uint64_t, std::uint64_t>;

/// A process of the job with counted calls.
struct Tracked {
  Wanted process;
  std::size_t number = 0;  // the number by which its places are found
  bool timed = true;
  bool counts_only = false;  // it is told that it is not timed
  bool delayed = false;      // not all is attached yet
  std::int64_t since_ns = 0;
  std::int64_t next_look_ns = 0;
  std::size_t attached = 0;                                              // functions that never rested
  std::int64_t attaching_ns = 0;                                         // the time that it took to attach these
  std::set<std::tuple<FileKey, std::uint64_t, std::uint64_t>> mappings;  // offset and length
  std::map<FileKey, std::map<std::uint64_t, std::size_t>> places;        // functions that are attached, by offset
  std::vector<Links> links;
  std::vector<std::uint64_t> calls_before;  // by function, when the budget was last looked at
};

/// A library of a process, of which this part is mapped as code.
struct MappedLibrary {
  Tracked& tracked;
  int file;
  const Mapping& mapping;
  const LibraryFunctions& functions;
  std::map<std::uint64_t, std::size_t>& attached;  // those of its functions that are, by offset
  bool shown;                                      // the kernel shows the memory of the process
};

std::vector<Rests> resting_order() {
  std::vector<Rests> order;
  for (const StackFunction& function : stack_functions()) order.push_back(function.rests);
  return order;
}

/// "counting 4390 calls took 7 of 960 ms of cpu time (limit .5 %)": the text of a coverage has room for a few.
std::string words_of(const CallBudget::Excess& excess, double share) {
  const auto word = [](double number) { return std::to_string(static_cast<std::int64_t>(number)); };
  return "counting " + word(excess.calls) + " calls took " + word(excess.spent_ns / 1e6) + " of " +
         word(excess.cpu_ns / 1e6) + " ms of cpu time (limit " + percent_of(share) + ')';
}

/// With the privilege of this process, or behind the socket that it was given.
CallCounters counters_of(bool by_broker) {
  const std::size_t places = ProcessSlots::kSlots * stack_functions().size();
  if (!by_broker) return CallCounters(places);
  return CallCounters(places, std::make_unique<CallBroker>(Descriptor(WorkerProcess::kKeptFile), places));
}

struct WatchSettings {
  bool by_broker = false;
  std::chrono::milliseconds silence{kLongestSilenceMs};
  std::chrono::milliseconds longest_round{kLongestRoundMs};
  double share = CallBudget::kDefaultShare;
  std::vector<std::string> without = {};  // functions that are never attached
};

/// `words`: those behind "open"; `lines`: the lines behind these.
WatchSettings settings_of(std::string_view words, std::string_view lines) {
  WatchSettings settings{.by_broker = cut_word(words) == "broker"};
  for (std::chrono::milliseconds* const limit : {&settings.silence, &settings.longest_round}) {
    if (std::int64_t ms = 0; parse_counter(cut_word(words), ms)) *limit = std::chrono::milliseconds(ms);
  }
  std::string_view line;
  while (next_line(lines, line)) {
    const std::string_view key = cut_word(line);
    std::int64_t millionths = 0;
    if (key == "budget" && parse_counter(cut_word(line), millionths)) {
      settings.share = static_cast<double>(millionths) / 1e6;
    }
    if (key == "without") settings.without = split_words(line);
  }
  return settings;
}

std::vector<std::size_t> functions_among(std::span<const std::string> names) {
  std::vector<std::size_t> functions;
  for (std::size_t i = 0; i < stack_functions().size(); ++i) {
    if (is_among(stack_functions()[i], names)) functions.push_back(i);
  }
  return functions;
}

/// Attaches to the functions of the job's processes, and detaches functions that cost too much until their next turn,
/// in a thread of its own: both may take long.
class StackWatch {
 public:
  explicit StackWatch(const WatchSettings& settings)
      : functions_(stack_functions()),
        counters_(counters_of(settings.by_broker)),
        ledger_(counters_, WorkerProcess::kLongestAnswer),
        silence_(settings.silence),
        longest_round_(settings.longest_round),
        share_(settings.share),
        left_out_(functions_among(settings.without)),
        budget_(resting_order(), settings.share) {
    for (std::size_t i = 0; i < ProcessSlots::kSlots; ++i) free_.push_back(i);
    ledger_.leave_out(left_out_);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  [[nodiscard]] std::string opening() const {
    const auto word = [](double number) { return ' ' + std::to_string(static_cast<std::int64_t>(number)); };
    return "ok " + std::string(counters_.way()) + word(counters_.cost_ns(false)) + word(counters_.cost_ns(true)) +
           word(counters_.bias_ns());
  }

  std::string calls(std::string_view request, CallLedger::With with) {
    // A thread that hangs in a file of the job cannot keep the budget, and this process cannot end before it.
    const std::int64_t round = round_begun_ns_.load();
    if (round != 0 && read_clock(CLOCK_MONOTONIC) - round > longest_round_.count()) {
      counters_.let_go();
      ::_exit(1);
    }
    {
      const std::lock_guard lock(mutex_);
      const std::vector<Wanted> before = std::exchange(wanted_, {});
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
      tell_ended(before);
    }
    // First of all: a function that is attached again has to be attached behind the answer that has its sums.
    std::string answer = ledger_.answer(with);
    {
      const std::lock_guard lock(mutex_);
      asked_ = true;
    }
    wake_.notify_one();
    return answer;
  }

 private:
  /// Before the thread forgets what they called. Others may only have lost their places.
  void tell_ended(const std::vector<Wanted>& before) {
    for (const Wanted& each : before) {
      const bool stays =
          std::any_of(wanted_.begin(), wanted_.end(), [&each](const Wanted& other) { return is_same(each, other); });
      if (!stays && start_of(each.pid) != each.start_ticks) ledger_.process_ended(each.instance);
    }
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<Wanted> wanted;
      {
        std::unique_lock lock(mutex_);
        const bool asked = wake_.wait_for(lock, stop, silence_, [this] { return asked_; });
        if (!asked && (stop.stop_requested() || tracked_.empty())) continue;
        asked_ = false;
        if (asked) wanted = wanted_;
        // A collector that hangs or was stopped keeps no budget: nothing stays attached.
        if (!asked) ledger_.note("nothing was counted while the collector hung or was stopped");
      }
      round_begun_ns_ = read_clock(CLOCK_MONOTONIC);
      try {
        follow(wanted);
      } catch (const std::exception& error) {  // no memory, or the kernel refuses a program
        ledger_.note("not all was attached: " + std::string(error.what()));
      }
      prepared_.detach();
      round_begun_ns_ = 0;
    }
  }

  void follow(const std::vector<Wanted>& wanted) {
    const std::int64_t now = read_clock(CLOCK_MONOTONIC);
    for (auto tracked = tracked_.begin(); tracked != tracked_.end();) {
      const bool stays = std::any_of(wanted.begin(), wanted.end(),
                                     [&](const Wanted& each) { return is_same(each, tracked->process); });
      if (!stays) let_go(*tracked);
      tracked = stays ? tracked + 1 : tracked_.erase(tracked);
    }
    for (const Wanted& each : wanted) {
      const bool known = std::any_of(tracked_.begin(), tracked_.end(),
                                     [&](const Tracked& tracked) { return is_same(each, tracked.process); });
      if (known || free_.empty() || start_of(each.pid) != each.start_ticks) continue;
      Tracked fresh{.process = each, .number = free_.back()};
      fresh.timed = may_be_timed(each.pid);
      fresh.since_ns = now;
      fresh.calls_before.assign(functions_.size(), 0);
      free_.pop_back();
      tracked_.push_back(std::move(fresh));
    }
    begin_turns();
    for (Tracked& tracked : tracked_) {
      if (now < tracked.next_look_ns) continue;
      tracked.next_look_ns = now - tracked.since_ns < kEarly ? now : now + kLatePeriod;
      const bool delayed = find_libraries(tracked) == Found::not_all_attached;
      if (delayed || tracked.delayed) ledger_.delay(tracked.process.instance, delayed);
      tracked.delayed = delayed;
      if (!delayed) continue;
      tracked.next_look_ns = now;  // again when the next request comes: a second later
      break;                       // the others would be refused, too
    }
    keep_budget(wanted);
  }

  /// Attaching and detaching are slow in the kernel, and a node has many processes: a long round does not hang.
  void goes_on() { round_begun_ns_ = read_clock(CLOCK_MONOTONIC); }

  void detach(std::vector<Links> links) {
    while (!links.empty()) {
      CallLinks some;
      for (std::size_t i = 0; i < counters_.detached_together() && !links.empty(); ++i) {
        some.add(std::move(links.back().all));
        links.pop_back();
      }
      some.detach();
      goes_on();
    }
  }

  // No request waits for it, and the counts can be read meanwhile.
  void let_go(Tracked& tracked) {
    detach(std::exchange(tracked.links, {}));
    ledger_.ended(tracked.process.instance);
    counters_.reset(tracked.number * functions_.size(), functions_.size());
    free_.push_back(tracked.number);
  }

  enum class Found : std::uint8_t { all, not_all_attached, ended };
  Found find_libraries(Tracked& tracked) {
    const int pid = tracked.process.pid;
    goes_on();
    const std::int64_t begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
    const StackMaps maps = read_stack_maps("/proc/" + std::to_string(pid) + "/maps");
    tracked.next_look_ns += kPauseAfterLook * (read_clock(CLOCK_THREAD_CPUTIME_ID) - begin);
    if (maps.has_code_reader) {
      ledger_.note("processes under Valgrind, DynamoRIO, Pin or DMTCP are not measured: these read their code");
      return Found::all;
    }
    if (maps.is_cut_off) {
      ledger_.note("nothing more is attached in " + tracked.process.instance + ": its list of mappings is too long (" +
                   std::to_string(kMostMapsText >> 20U) + " MiB are read)");
      return Found::all;
    }
    if (maps.has_more) note_more_mappings(tracked);
    const std::vector<Mapping> mappings = stack_mappings(maps.lines);
    look_into_new(tracked, mappings);
    for (const Mapping& mapping : mappings) {
      const FileKey key(mapping.device, mapping.inode);
      const auto [known, fresh] = tracked.mappings.emplace(key, mapping.offset, mapping.end - mapping.begin);
      if (!fresh) continue;
      if (tracked.mappings.size() > kMostStackMappings) {
        tracked.mappings.erase(known);
        note_more_mappings(tracked);
        break;
      }
      goes_on();
      const Descriptor file = open_mapped(pid, mapping);
      const int error = errno;
      if (start_of(pid) != tracked.process.start_ticks) break;  // it ended, and these may be another one's
      const std::string name(file_name_of(mapping));
      if (!file) {
        ledger_.note(name + " cannot be read (" + why_not_opened(error) + ')');
        continue;
      }
      tracked.timed = tracked.timed && may_be_timed(pid);
      const Found found = attach(tracked, file.get(), mapping, name);
      keep_budget(wanted_now());  // attaching takes its time, in which functions are called
      if (found != Found::not_all_attached) continue;
      tracked.mappings.erase(known);
      return found;
    }
    return Found::all;
  }

  /// Before functions of the first library are attached: to read the next one may take longer than the time in which
  /// the kernel does not wait once more for its links.
  void look_into_new(const Tracked& tracked, std::span<const Mapping> mappings) {
    std::size_t known = tracked.mappings.size();
    for (const Mapping& mapping : mappings) {
      const FileKey key(mapping.device, mapping.inode);
      if (tracked.mappings.contains({key, mapping.offset, mapping.end - mapping.begin})) continue;
      if (++known > kMostStackMappings) break;
      if (looked_into_.size() == kMostStackMappings) looked_into_.clear();
      if (!looked_into_.insert(key).second) continue;
      goes_on();
      const Descriptor file = open_mapped(tracked.process.pid, mapping);
      if (file) static_cast<void>(libraries_.look_into(file.get(), std::string(file_name_of(mapping))));
    }
    goes_on();
  }

  [[nodiscard]] bool is_left_out(std::size_t function) const {
    return std::find(left_out_.begin(), left_out_.end(), function) != left_out_.end();
  }

  void note_more_mappings(const Tracked& tracked) {
    ledger_.note("functions of some libraries of " + tracked.process.instance + " are not counted: only its first " +
                 std::to_string(kMostStackMappings) + " mappings of libraries that may have any are looked into");
  }

  std::vector<Wanted> wanted_now() {
    const std::lock_guard lock(mutex_);
    return wanted_;
  }

  Found attach(Tracked& tracked, int file, const Mapping& mapping, const std::string& name) {
    const LibraryFunctions& library = libraries_.look_into(file, name);
    if (!library.problem.empty()) ledger_.note(name + " is not measured: " + library.problem);
    ledger_.slow(library.slow);
    if (!tracked.timed && !library.places.empty() && !std::exchange(tracked.counts_only, true)) {
      ledger_.untimed_process();
    }
    // A file may be mapped as code in several parts, and these may overlap.
    const MappedLibrary mapped{.tracked = tracked,
                               .file = file,
                               .mapping = mapping,
                               .functions = library,
                               .attached = tracked.places[{mapping.device, mapping.inode}],
                               .shown = shows_memory(tracked.process.pid, mapping.begin)};
    std::vector<FunctionPoints> wanted;
    for (std::size_t function = 0; function < functions_.size(); ++function) {
      if (ledger_.rests(function)) continue;
      FunctionPoints points{.function = function, .all = {}};
      for (const LibraryFunctions::Place& place : library.places) {
        if (place.function != function || !is_open(mapped, place)) continue;
        points.all.push_back({.offset = place.offset,
                              .index = tracked.number * functions_.size() + function,
                              .counter = place.counter,
                              .place = place.place});
      }
      if (points.all.empty()) continue;
      std::stable_partition(points.all.begin(), points.all.end(),
                            [](const CallCounters::Point& point) { return point.place == CallPlace::end; });
      wanted.push_back(std::move(points));
    }
    if (!drop_replaced(mapped, wanted)) return Found::ended;  // reads what may lie on a disk, and saves needless waits
    if (wanted.empty()) return Found::all;
    std::int64_t begin = read_clock(CLOCK_MONOTONIC);
    if (prepare(tracked.timed) == EAGAIN) return Found::not_all_attached;  // the broker's limit of attaching
    // One by one, so that each is compared just before it is attached. If the kernel only tells which pages were
    // written to, all are compared first: to attach one writes to its page.
    const std::size_t together = mapped.shown && !counters_.asks_broker() ? 1 : wanted.size();
    for (std::span<const FunctionPoints> rest = wanted; !rest.empty(); rest = rest.subspan(together)) {
      const Found found = attach_together(mapped, rest.first(together), begin);
      if (found != Found::all) return found;
      begin = read_clock(CLOCK_MONOTONIC);
    }
    return Found::all;
  }

  [[nodiscard]] bool is_open(const MappedLibrary& library, const LibraryFunctions::Place& place) const {
    return has_place(library.mapping, place.offset) && !library.attached.contains(place.offset) &&
           !is_left_out(place.function);
  }

  /// Before it counts as attached.
  [[nodiscard]] bool is_replaced(const MappedLibrary& library, std::size_t function) {
    const std::vector<LibraryFunctions::Place>& places = library.functions.places;
    return std::any_of(places.begin(), places.end(), [&](const LibraryFunctions::Place& place) {
      if (place.function != function || !is_open(library, place)) return false;
      goes_on();  // code that was not read before may lie on a slow server
      return !is_as_in_file(library.tracked.process.pid, library.file, library.mapping, place);
    });
  }

  /// False: the process has ended, so that nothing of its code could be read.
  [[nodiscard]] bool tell_replaced(const Tracked& tracked, std::span<const std::size_t> functions) {
    if (functions.empty()) return true;
    if (start_of(tracked.process.pid) != tracked.process.start_ticks) return false;
    for (const std::size_t function : functions) ledger_.failed(function, kReplaced);
    return true;
  }

  /// Leaves out those that the program has replaced. False: the process has ended.
  [[nodiscard]] bool drop_replaced(const MappedLibrary& library, std::vector<FunctionPoints>& functions) {
    std::vector<std::size_t> replaced;
    std::erase_if(functions, [&](const FunctionPoints& each) {
      if (!is_replaced(library, each.function)) return false;
      replaced.push_back(each.function);
      return true;
    });
    return tell_replaced(library.tracked, replaced);
  }

  /// The kernel's wait happens here, not between a comparison and its link: once for a library, because more of these
  /// links take longer to end than they save. Returns an errno. Behind the broker, a request may wait its turn, so that
  /// the newest link tells nothing there. Perf events end one by one, a tenth of a second each, so that one of them has
  /// to do for a round.
  int prepare(bool timed) {
    const bool remembered = !counters_.asks_broker() && read_clock(CLOCK_MONOTONIC) - linked_ns_ < kKernelRemembers;
    const bool has_to_do = !counters_.is_multi() && !prepared_.empty();
    if (loaded_.contains(timed) && (remembered || has_to_do)) return 0;
    if (prepared_.size() >= counters_.detached_together()) prepared_.detach();
    goes_on();
    CallCounters::Attached attached = counters_.prepare(timed);
    goes_on();
    if (attached.error != 0) return attached.error;
    loaded_.insert(timed);
    linked_ns_ = attached.since_ns;
    prepared_.add(std::move(attached.links));
    return 0;
  }

  /// The kernel compares nothing: it puts the breakpoint into whatever code is there, and removes it by writing the
  /// byte of the file. A function that the program replaces between the comparison and the link is broken, and its next
  /// call ends the process: to detach it does not mend it. One that is replaced later only loses its breakpoint, but
  /// gets it back, into the new code, if functions in neighbouring pages are replaced, so that the kernel joins the
  /// mappings of these pages (vma_complete(), uprobe_mmap(); both were tried on Linux 6.18). The comparison behind the
  /// link can only prevent that last step. `begin`: since when the time is told as theirs.
  Found attach_together(const MappedLibrary& library, std::span<const FunctionPoints> wanted, std::int64_t begin) {
    Tracked& tracked = library.tracked;
    const std::int64_t cpu_begin = counters_.cpu_ns();
    std::vector<FunctionPoints> now(wanted.begin(), wanted.end());
    if (!drop_replaced(library, now)) return Found::ended;
    if (now.empty()) return Found::all;
    std::vector<CallCounters::Function> functions;
    functions.reserve(now.size());
    for (const FunctionPoints& each : now) {
      functions.push_back({.shape = shape_of(functions_[each.function], tracked.timed), .points = each.all});
    }
    std::vector<CallCounters::Attached> links = counters_.attach(library.file, tracked.process.pid, functions);
    const std::int64_t took_ns = read_clock(CLOCK_MONOTONIC) - begin;
    const double cpu_ns = static_cast<double>(counters_.cpu_ns() - cpu_begin) / static_cast<double>(now.size());
    for (const FunctionPoints& each : now) budget_.spend_on_turn(each.function, cpu_ns);
    goes_on();
    for (const CallCounters::Attached& each : links) {
      if (each.error == 0) linked_ns_ = std::max(linked_ns_, each.since_ns);
    }
    const bool ended = std::any_of(links.begin(), links.end(), [](const auto& each) { return each.error == ESRCH; });
    if (ended || start_of(tracked.process.pid) != tracked.process.start_ticks) {
      std::vector<Links> others(links.size());  // they may belong to another process by now
      for (std::size_t i = 0; i < links.size(); ++i) others[i].all = std::move(links[i].links);
      detach(std::move(others));
      return Found::ended;
    }
    return take_in(library, now, std::move(links), took_ns);
  }

  /// Keeps the links that were just made, and detaches those of functions that were replaced meanwhile. `took_ns`: to
  /// make them.
  Found take_in(const MappedLibrary& library, std::span<const FunctionPoints> functions,
                std::vector<CallCounters::Attached> links, std::int64_t took_ns) {
    Tracked& tracked = library.tracked;
    Found found = Found::all;
    std::size_t fresh = 0;
    std::vector<Links> late;
    std::vector<std::size_t> replaced;
    for (std::size_t i = 0; i < functions.size(); ++i) {
      const std::size_t function = functions[i].function;
      if (links[i].error == EAGAIN) {  // the broker's limit of attaching
        found = Found::not_all_attached;
        continue;
      }
      if (links[i].error != 0) {
        ledger_.failed(function, std::strerror(links[i].error));
        continue;
      }
      if (library.shown && is_replaced(library, function)) {
        late.push_back({.function = function, .all = std::move(links[i].links)});
        replaced.push_back(function);
        continue;
      }
      for (const CallCounters::Point& point : functions[i].all) library.attached.emplace(point.offset, function);
      tracked.links.push_back({.function = function, .all = std::move(links[i].links)});
      ledger_.attached(tracked.process.instance, function, tracked.number,
                       shape_of(functions_[function], tracked.timed).timed, links[i].since_ns);
      if (!rested_.contains(function)) ++fresh;
    }
    detach(std::move(late));
    for (const std::size_t function : replaced) {
      counters_.forget_calls(tracked.number * functions_.size() + function);
    }
    if (!tell_replaced(tracked, replaced)) found = Found::ended;
    if (fresh == 0) return found;
    tracked.attached += fresh;
    tracked.attaching_ns += took_ns;
    ledger_.attaching_took(tracked.process.instance, tracked.attached, tracked.attaching_ns);
    return found;
  }

  /// From the begin of the function on: where that is replaced by a jump, no call comes to a place behind it.
  static bool is_as_in_file(int pid, int file, const Mapping& mapping, const LibraryFunctions::Place& place) {
    const std::uint64_t begin = std::max(place.begin, mapping.offset);
    const std::uint64_t end =
        std::min(place.offset + kFirstInstructions, mapping.offset + (mapping.end - mapping.begin));
    std::vector<std::byte> code(end - begin);
    return reader_of(file)(begin, code) && has_code_of_file(pid, mapping.begin + (begin - mapping.offset), code);
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
    for (Tracked& tracked : tracked_) {
      for (const Links& links : tracked.links) {
        const std::uint64_t so_far = counters_.calls(tracked.number * functions_.size() + links.function);
        const auto more = static_cast<double>(so_far - tracked.calls_before[links.function]);
        tracked.calls_before[links.function] = so_far;
        const CallShape shape = shape_of(functions_[links.function], tracked.timed);
        budget_.spend(links.function, more, std::max(kLeastCostNs, counters_.cost_ns(shape)));
      }
    }
    for (const CallBudget::Excess& excess : budget_.end()) put_to_rest(excess);
  }

  void put_to_rest(const CallBudget::Excess& excess) {
    const std::size_t function = excess.function;
    rested_.insert(function);
    ledger_.rest(function, words_of(excess, share_));
    const std::int64_t begin = counters_.cpu_ns();
    std::vector<Links> links;
    std::vector<std::size_t> indexes;  // its counts, where it is attached
    for (Tracked& tracked : tracked_) {
      const auto others = std::stable_partition(tracked.links.begin(), tracked.links.end(),
                                                [function](const Links& each) { return each.function != function; });
      if (others != tracked.links.end()) indexes.push_back(tracked.number * functions_.size() + function);
      std::move(others, tracked.links.end(), std::back_inserter(links));
      tracked.links.erase(others, tracked.links.end());
      for (auto& [file, places] : tracked.places) {
        std::erase_if(places, [function](const auto& place) { return place.second == function; });
      }
    }
    detach(std::move(links));
    for (const std::size_t index : indexes) counters_.forget_calls(index);
    budget_.spend_on_turn(function, static_cast<double>(counters_.cpu_ns() - begin));
  }

  /// Once a round: a turn begins behind the answer with which its counts begin. Where answers were given since, as in a
  /// slow round, it is announced again. The libraries are looked into again, as after a function was refused.
  void begin_turns() {
    const auto resumed = std::erase_if(due_, [this](std::size_t function) {
      if (!ledger_.is_told(function)) return false;
      ledger_.resume(function);
      return true;
    });
    const std::vector<std::size_t> more = budget_.next_turn();
    due_.insert(due_.end(), more.begin(), more.end());
    ledger_.announce(due_);
    if (resumed == 0) return;
    for (Tracked& tracked : tracked_) {
      tracked.mappings.clear();
      tracked.next_look_ns = 0;
    }
  }

  std::span<const StackFunction> functions_;
  CallCounters counters_;
  CallLedger ledger_;
  std::chrono::milliseconds silence_;
  std::chrono::nanoseconds longest_round_;
  double share_;                       // part of the cpu time that counting may take
  std::vector<std::size_t> left_out_;  // functions that are never attached

  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool asked_ = false;
  std::vector<Wanted> wanted_;

  std::atomic<std::int64_t> round_begun_ns_ = 0;  // or when it made progress; 0: none is under way

  // The thread's own.
  std::vector<Tracked> tracked_;
  std::vector<std::size_t> free_;  // numbers
  KnownLibraries libraries_;
  std::set<FileKey> looked_into_;  // in some process; that a file changed since costs time only
  CallBudget budget_;
  std::set<std::size_t> rested_;  // functions that did so at least once
  std::vector<std::size_t> due_;  // functions whose turn begins once they are told
  CallLinks prepared_;            // made by prepare(), and detached together: that takes long
  std::int64_t linked_ns_ = 0;    // when the newest link was made
  std::set<bool> loaded_;         // programs for functions that are timed, and for others
  std::jthread thread_;           // last: it uses everything above
};

}  // namespace

std::string query_stack(const std::string& /*root*/, std::string_view request) {
  static std::unique_ptr<StackWatch> watch;  // the child's, of which there is one
  std::string_view line;
  if (!next_line(request, line)) return "";
  try {
    const bool opens = cut_word(line) == "open";
    if (!watch) watch = std::make_unique<StackWatch>(settings_of(line, opens ? request : std::string_view()));
    if (opens) return watch->opening();
    return watch->calls(request, cut_word(line) == "durations" ? CallLedger::With::durations : CallLedger::With::sums);
  } catch (const std::exception& error) {
    return "none " + std::string(error.what());
  }
}

}  // namespace reveal
