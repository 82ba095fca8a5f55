// Calls of the job's processes into CUDA, NCCL, gloo, MPI, PyTorch and Python, counted in the kernel by uprobes: the
// training steps, collectives and copies of an unchanged program. Off unless requested.
// https://docs.kernel.org/trace/uprobetracer.html
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "core/pmu/profiler_watch.h"
#include "core/sampler/asked_child.h"
#include "core/stack/bpf_programs.h"
#include "core/stack/call_budget.h"
#include "core/stack/stack_functions.h"
#include "core/stack/stack_worker.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::stack {
namespace {

static_assert(kDefaultStackBudget / 100 == CallBudget::kDefaultShare);

constexpr std::chrono::milliseconds kForTheCalibration{3000};
constexpr std::chrono::seconds kHistogramPeriod{5};
constexpr std::int64_t kForAPlace = 10 * kSecond;   // a process that is measured from its begin on has one by then
constexpr std::chrono::milliseconds kForCounts{5};  // it takes a fifth of one; otherwise the next row has them

constexpr MetricHelp kCalls[] = {
    {"stack.calls", "Calls of a function by a process (instance \"rank0/ncclAllReduce\")."},
    {"stack.steps", "Backward passes of PyTorch in a process: one or several for each training step."},
};
constexpr MetricHelp kTime[] = {
    {"stack.time", "Time in calls that returned, of all threads; on the CPU's side, not the GPU's."},
    {"stack.communication", "Time with a collective of gloo under way in a process; threads side by side count once."},
};
constexpr MetricHelp kBytes[] = {{"stack.bytes", "Bytes that calls were asked to move or to allocate."}};
constexpr MetricHelp kErrors[] = {{"stack.errors", "Calls that returned an error."}};
constexpr MetricHelp kDurations[] = {
    {"stack.longest", "Longest call that returned since the previous row."},
    {"stack.in_flight", "Duration so far of the oldest call that has not returned; 0: no such call."},
    {"stack.step_time", "Mean time from one backward pass to the next, of those that ended since the row before."},
};
constexpr MetricHelp kHistogram[] = {
    {"stack.histogram",
     "Timed calls by duration (instance \"rank0/ncclAllReduce/2^20ns\": at least 2^19 and less than 2^20 ns; "
     "\"2^10ns\": all below; \"2^41ns\": all above, too)."},
};

constexpr const char* kStackSource = "BPF uprobes";
constexpr FamilyTable kFamilies[] = {
    {"stack/calls", Kind::counter, Unit::count, Scope::process, Subsystem::process, "Calls into the software stack",
     kStackSource, kCalls},
    {"stack/bytes", Kind::counter, Unit::bytes, Scope::process, Subsystem::process, "Bytes of calls", kStackSource,
     kBytes},
    {"stack/time", Kind::counter, Unit::nanoseconds, Scope::process, Subsystem::process, "Time in calls", kStackSource,
     kTime},
    {"stack/durations", Kind::gauge, Unit::nanoseconds, Scope::process, Subsystem::process, "Durations of calls",
     kStackSource, kDurations},
    {"stack/errors", Kind::event, Unit::count, Scope::process, Subsystem::process, "Errors that calls returned",
     kStackSource, kErrors},
    // No detector compares it: the others have the time of the calls already.
    {"stack/histogram", Kind::counter, Unit::count, Scope::process, Subsystem::self, "Calls by duration", kStackSource,
     kHistogram},
};
constexpr std::size_t kHistogramFamily = std::size(kFamilies) - 1;

/// The numbers of a line of the worker's answer, in its order: where they go.
struct Column {
  std::size_t family;
  std::string_view metric;
};
constexpr std::array kColumns = {Column{0, "stack.calls"},   Column{1, "stack.bytes"},     Column{2, "stack.time"},
                                 Column{3, "stack.longest"}, Column{3, "stack.in_flight"}, Column{4, "stack.errors"}};

class StackProbe final : public Probe {
 public:
  StackProbe(const ProbeContext& context, std::unique_ptr<AskedChild> child, std::string_view opening)
      : context_(context),
        child_(std::move(child)),
        histogram_period_((kHistogramPeriod + context.period - 1ns) / context.period * context.period) {
    for (std::size_t i = 0; i < families_.size(); ++i) {
      families_[i] = i == kHistogramFamily
                         ? &context.sink.add_family(kFamilies[i], histogram_period_, {}, context.probe)
                         : &context.family_of_turns(kFamilies[i]);
      families_[i]->expect(kExpected * kFamilies[i].metrics.size());
    }
    static_cast<void>(cut_word(opening));  // "ok"
    opening.remove_prefix(std::min<std::size_t>(1, opening.size()));
    facts_.emplace_back("stack.way", opening);
  }

  void sample() noexcept override try {
    for (Family* family : families_) family->begin();
    got_durations_ = false;
    bool answered = take(child_->answer());  // one that came late
    if (ask()) answered = take(child_->answer_within(kForCounts)) || answered;
    if (answered) look_for_copies();
    if (child_->state() == AskedChild::State::lost) miss_steps("the probe's process was killed");
    for (std::size_t i = 0; i < families_.size(); ++i) {
      if (i != kHistogramFamily || got_durations_) families_[i]->commit();
    }
  } catch (const std::exception& error) {  // no memory
    gap_ = error.what();
  }

  [[nodiscard]] std::string caveat() const override {
    std::string text = gap_.empty() ? child_->gaps() : gap_;
    const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
    if (stepped_back_) add("while the job's own profiler ran, no function was attached");
    if (functions_.empty()) add("no process has loaded a library whose calls are counted");
    if (places_are_missing_) {
      add("only the first " + std::to_string(kMostPlaces) + " functions of processes are measured");
    }
    if (histogram_is_full_) {
      add("only the first " + std::to_string(kMostBuckets) + " counts by duration are recorded");
    }
    if (!notes_.empty()) add(notes_);
    if (most_copies_ > 0) {
      add("calls of processes that measured ones forked are in no count and not in the limit of " +
          percent_of(context_.stack_budget / 100) + ": " + std::to_string(most_copies_) +
          " at once had no place of their own");
    }
    return text;
  }

  [[nodiscard]] Snapshot facts() const override {
    Snapshot facts = facts_;
    if (!functions_.empty()) facts.emplace_back("stack.functions", functions_);
    if (std::string text = words_of_attaching(); !text.empty()) facts.emplace_back("stack.attaching", std::move(text));
    return facts;
  }

 private:
  /// "rank0: 31 functions in 212 ms"
  [[nodiscard]] std::string words_of_attaching() const {
    std::string_view rest = attaching_;
    const std::string process(cut_word(rest));
    std::int64_t functions = 0;
    std::int64_t ns = 0;
    if (!parse_counter(cut_word(rest), functions) || !parse_counter(cut_word(rest), ns)) return "";
    return process + ": " + std::to_string(functions) + " functions in " + std::to_string(ns / 1'000'000) + " ms";
  }

  static constexpr std::size_t kExpected = 64;  // functions of processes
  static constexpr std::size_t kMostPlaces = 512;
  static constexpr std::size_t kMostCodes = 16;  // errors of a function
  static constexpr std::size_t kMostBuckets = Family::kMostLater;
  static constexpr std::size_t kMostCopies = 64;

  using ProcessKey = std::pair<int, std::int64_t>;  // its number and its start

  struct Place {
    std::string instance;
    std::array<std::int32_t, kColumns.size()> channels{};
    std::array<std::int32_t, CallCounts::kBuckets> buckets{};  // channels
    std::int64_t calls = 0;
    ProcessKey caller = {};  // made the newest calls
    bool counted = false;    // by the newest answer
    std::int64_t errors = 0;
    std::map<std::int64_t, std::int64_t> codes = {};  // calls by status
  };

  /// The training steps of a process.
  struct Clock {
    std::string instance;
    std::int32_t count = Family::kNoChannel, time = Family::kNoChannel;
    std::int64_t steps = 0;
    std::int64_t sum_ns = 0, ended = 0;  // calls in one answer
  };

  /// The process that an instance counts.
  struct Occupant {
    std::string instance;
    int pid = 0;
    std::int64_t start_ticks = 0;
    bool late = false;   // its earlier calls are not counted
    bool fresh = false;  // the next counts may be those of the one before
  };

  /// From now on the count of steps is too low. Reported once.
  void miss_steps(std::string_view why) {
    if (!std::exchange(steps_missed_, true)) context_.sink.event("probe stack", "steps_incomplete", std::string(why));
  }

  /// Steps of a process are missed that lost its place, or waited for it.
  void follow(const ProcessSlot& slot) {
    auto known = std::find_if(occupants_.begin(), occupants_.end(),
                              [&slot](const Occupant& each) { return each.instance == slot.instance; });
    if (known == occupants_.end()) {
      occupants_.push_back({.instance = slot.instance});
      known = occupants_.end() - 1;
    }
    known->fresh = known->pid != slot.pid || known->start_ticks != slot.start_ticks;
    if (!known->fresh) return;
    const JobProcess* before = context_.job->find(known->pid);
    const bool had_steps = std::any_of(clocks_.begin(), clocks_.end(), [&slot](const Clock& clock) {
      return clock.instance == slot.instance && clock.steps > 0;
    });
    if (had_steps && before != nullptr && before->start_ticks == known->start_ticks) {
      miss_steps("a process that made some lost its place to a busier one");
    }
    known->pid = slot.pid;
    known->start_ticks = slot.start_ticks;
    known->late = context_.sink.now() - slot.process->found_ns > kForAPlace;
  }

  [[nodiscard]] bool is_late(std::string_view instance) const {
    return std::any_of(occupants_.begin(), occupants_.end(),
                       [instance](const Occupant& each) { return each.late && each.instance == instance; });
  }

  bool ask() {
    const bool with_durations = context_.sink.now() >= next_durations_ns_;
    request_ = with_durations ? "calls durations\n" : "calls\n";
    const bool step_back = watch_.step_back(context_.sink.now(), context_.job, -1);
    stepped_back_ = stepped_back_ || step_back;
    if (step_back) miss_steps("the job's own profiler ran");
    for (const ProcessSlot& slot : context_.slots->slots()) {
      if (slot.process == nullptr || step_back) continue;
      follow(slot);
      const std::int64_t ticks = slot.process->stat.user_ticks + slot.process->stat.system_ticks;
      const std::int64_t cpu_ns = std::max<std::int64_t>(0, scaled(ticks, context_.host.tick_ns));
      request_ += slot.instance + ' ' + std::to_string(slot.pid) + ' ' + std::to_string(slot.start_ticks) + ' ' +
                  std::to_string(cpu_ns) + '\n';
    }
    if (!child_->ask(request_)) return false;
    // Half a row earlier: after a row that was late, the next one that is not has them.
    if (with_durations) next_durations_ns_ = context_.sink.now() + (histogram_period_ - context_.period / 2).count();
    return true;
  }

  /// A process that a measured one forked has copies of its breakpoints. Without a place of its own, its calls stop at
  /// these, and nothing counts them. One that is seen in a single row is about to execute another program, or to get
  /// its place.
  void look_for_copies() {
    copied_.clear();
    for (const ProcessSlot& slot : context_.slots->slots()) {
      const auto is_its = [&slot](const Place& place) {
        return place.counted && place.caller == ProcessKey(slot.pid, slot.start_ticks);
      };
      if (slot.process != nullptr && std::any_of(places_.begin(), places_.end(), is_its)) copied_.push_back(slot.pid);
    }
    const std::size_t measured = copied_.size();
    const std::set<ProcessKey> before = std::exchange(copies_, {});
    const auto has_place = [this](int pid) {
      const auto& slots = context_.slots->slots();
      return std::any_of(slots.begin(), slots.end(), [pid](const ProcessSlot& slot) { return slot.pid == pid; });
    };
    const auto is_copied = [this](int pid) { return std::find(copied_.begin(), copied_.end(), pid) != copied_.end(); };
    for (const auto& process : context_.job->processes()) {  // parents come before their children
      if ((process->stat.flags & kForkedOnly) == 0 || copied_.size() == measured + kMostCopies) continue;
      if (!is_copied(process->stat.parent) || has_place(process->pid)) continue;
      copied_.push_back(process->pid);
      copies_.emplace(process->pid, process->start_ticks);
    }
    const auto stays = std::count_if(copies_.begin(), copies_.end(),
                                     [&before](const ProcessKey& copy) { return before.contains(copy); });
    most_copies_ = std::max(most_copies_, static_cast<std::size_t>(stays));
  }

  /// False if it is no answer with counts.
  bool take(std::string_view answer) {
    std::string_view line;
    bool any = false;
    new_notes_.clear();
    if (!answer.empty()) {
      for (Place& place : places_) place.counted = false;
    }
    for (Clock& clock : clocks_) clock.sum_ns = clock.ended = 0;
    while (next_line(answer, line)) {
      const std::string_view what = cut_word(line);
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      any = any || what == "functions";
      if (what == "functions") take_functions(line);
      if (what == "note") new_notes_.append(new_notes_.empty() ? "" : "; ").append(line);
      if (what == "attaching") attaching_ = line;
      if (what == "none") miss_steps(gap_ = line);
      if (what == "count") take_counts(line);
      if (what == "steps") take_step_count(line);
      if (what == "step") take_step(line);
      if (what == "called") take_collective(line);
      if (what == "communication") take_communication(line);
      if (what == "standing") take_standing(line);
      if (what == "rare") take_rare_call(line);
      if (what == "durations") take_durations(line);
    }
    for (Clock& clock : clocks_) tell_step_time(clock);
    if (any) notes_.swap(new_notes_);
    return any;
  }

  void take_functions(std::string_view line) {
    static const std::string clock = ' ' + std::string(stack_functions()[step_function()].name) + ' ';
    const bool detached = (' ' + std::string(line) + ' ').find(clock) == std::string::npos;
    if (detached && !clocks_.empty()) miss_steps("it was detached, because counting cost too much");
    if (!line.empty()) functions_ = line;
    tell_turns(line);
  }

  /// From this row on a function is counted, or rests.
  void tell_turns(std::string_view line) {
    if (line == counted_line_) return;
    counted_line_ = line;
    std::set<std::string, std::less<>> counted;
    for (std::string_view name = cut_word(line); !name.empty(); name = cut_word(line)) counted.emplace(name);
    const auto tell = [this](const auto& some, const auto& others, std::string_view code) {
      for (const std::string& name : some) {
        if (!others.contains(name)) context_.sink.event(name, std::string(code), "", TraceSink::Budget::of_object);
      }
    };
    tell(counted_, counted, "function_rests");
    tell(counted, counted_, "function_counted");
    counted_.swap(counted);
  }

  void take_counts(std::string_view line) {
    const std::string_view process = cut_word(line);
    const std::string_view function = cut_word(line);
    Place* place = place_of(process, function);
    if (place == nullptr) return;
    place->counted = true;
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      std::int64_t value = 0;
      if (!parse_counter(cut_word(line), value)) continue;
      std::int32_t& channel = place->channels[i];
      Family& family = *families_[kColumns[i].family];
      // They are counted from the moment in which they were attached.
      if (channel == Family::kNoChannel) channel = family.add(kColumns[i].metric, place->instance, role_of(process), 0);
      family.set(channel, value);
      if (i == 0 && value > std::exchange(place->calls, value)) tell_caller(*place, process);
      if (i + 1 == kColumns.size()) tell_errors(*place, process, function, value, line);
    }
  }

  /// The sums of an instance go on over its processes: only growth is by the one that is measured now.
  void tell_caller(Place& place, std::string_view process) const {
    for (const Occupant& each : occupants_) {
      if (each.instance == process && !each.fresh) place.caller = {each.pid, each.start_ticks};
    }
  }

  void take_step_count(std::string_view line) {
    std::int64_t count = 0;
    Clock* clock = clock_of(cut_word(line));
    if (clock == nullptr || !parse_counter(cut_word(line), count)) return;
    Family& family = *families_[0];
    if (clock->count == Family::kNoChannel) {
      clock->count = family.add("stack.steps", clock->instance, role_of(clock->instance), 0);
    }
    family.set(clock->count, count);
    if (count > clock->steps && is_late(clock->instance)) {
      miss_steps("a process waited for a place before its calls were counted");
    }
    clock->steps = count;
  }

  void take_step(std::string_view line) {
    Clock* clock = clock_of(cut_word(line));
    TrainingStep step;
    if (clock == nullptr || !parse_counter(cut_word(line), step.number) ||
        !parse_counter(cut_word(line), step.begin_ns))
      return;
    for (std::int64_t* const part : {&step.duration_ns, &step.waiting_ns, &step.bytes, &step.gc_ns}) {
      if (!parse_counter(cut_word(line), *part)) *part = kMissing;
    }
    step.rank = clock->instance;
    context_.sink.step(step);
    if (step.duration_ns == kMissing) return;
    clock->sum_ns = wrapping_sum(clock->sum_ns, step.duration_ns);
    ++clock->ended;
  }

  void take_collective(std::string_view line) {
    SampledCollective collective;
    collective.rank = cut_word(line);
    collective.function = cut_word(line);
    for (std::int64_t* const number : {&collective.communicator, &collective.ranks, &collective.id, &collective.number,
                                       &collective.begin_ns, &collective.last}) {
      if (!parse_counter(cut_word(line), *number)) return;
    }
    context_.sink.collective(collective);
  }

  void take_communication(std::string_view line) {
    const std::string_view process = cut_word(line);
    std::int64_t time_ns = 0;
    if (process.empty() || !parse_counter(cut_word(line), time_ns)) return;
    auto known = communication_.find(process);
    if (known == communication_.end()) {
      if (communication_.size() == kMostPlaces) return;
      const std::int32_t channel = families_[2]->add("stack.communication", std::string(process), role_of(process), 0);
      known = communication_.emplace(process, channel).first;
    }
    families_[2]->set(known->second, time_ns);
  }

  void take_standing(std::string_view line) {
    const std::string_view process = cut_word(line);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (process.empty() || line.empty()) return;
    context_.sink.event(std::string(process), std::string(kLastCollectives), std::string(line),
                        TraceSink::Budget::of_object);
  }

  void take_rare_call(std::string_view line) {
    const std::string_view process = cut_word(line);
    const std::string_view code = cut_word(line);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (process.empty() || (code != kGcPause && code != kCommunicatorBegin && code != kCommunicatorEnd)) return;
    context_.sink.event(std::string(process), std::string(code), std::string(line), TraceSink::Budget::of_object);
  }

  void take_durations(std::string_view line) {
    const std::string_view process = cut_word(line);
    Place* place = place_of(process, cut_word(line));
    if (place == nullptr) return;
    Family& family = *families_[kHistogramFamily];
    for (std::string_view word = cut_word(line); !word.empty(); word = cut_word(line)) {
      const std::size_t mark = std::min(word.find(':'), word.size());
      std::int64_t bits = 0;
      std::int64_t count = 0;
      if (mark == word.size() || !parse_counter(word.substr(0, mark), bits) ||
          !parse_counter(word.substr(mark + 1), count))
        continue;
      const std::int64_t bucket = bits - CallCounts::kFirstBucketBits;
      if (bucket < 0 || bucket >= std::ssize(place->buckets)) continue;
      std::int32_t& channel = place->buckets[static_cast<std::size_t>(bucket)];
      if (channel == Family::kNoChannel) {
        histogram_is_full_ = histogram_is_full_ || family.channels().size() == kMostBuckets;
        if (histogram_is_full_) continue;
        channel =
            family.add("stack.histogram", place->instance + "/2^" + std::to_string(bits) + "ns", role_of(process), 0);
      }
      family.set(channel, count);
      got_durations_ = true;
    }
  }

  void tell_step_time(Clock& clock) {
    if (clock.ended == 0) return;
    Family& family = *families_[3];
    if (clock.time == Family::kNoChannel) {
      clock.time = family.add("stack.step_time", clock.instance, role_of(clock.instance));
    }
    family.set(clock.time, clock.sum_ns / clock.ended);
  }

  // Null where there are more than any job has.
  Clock* clock_of(std::string_view process) {
    for (Clock& clock : clocks_) {
      if (clock.instance == process) return &clock;
    }
    if (clocks_.size() == kMostPlaces || process.empty()) return nullptr;
    return &clocks_.emplace_back(Clock{.instance = std::string(process)});
  }

  /// `rest`: the last status, and the calls by status; recordings of earlier versions have only the last one.
  void tell_errors(Place& place, std::string_view process, std::string_view function, std::int64_t errors,
                   std::string_view rest) {
    const std::string_view last = cut_word(rest);
    const bool more = errors > std::exchange(place.errors, errors);
    const auto tell = [&](std::string_view status) {
      context_.sink.event(std::string(process), "call_error",
                          std::string(function).append(" returned ").append(status));
    };
    bool by_status = false;
    for (std::string_view word = cut_word(rest); !word.empty(); word = cut_word(rest)) {
      const std::size_t mark = std::min(word.find(':'), word.size());
      std::int64_t status = 0;
      std::int64_t calls = 0;
      if (!parse_counter(word.substr(0, mark), status) || mark == word.size() ||
          !parse_counter(word.substr(mark + 1), calls))
        continue;
      by_status = true;
      if (place.codes.size() == kMostCodes && !place.codes.contains(status)) continue;
      if (std::exchange(place.codes[status], calls) >= calls) continue;
      tell(std::to_string(status) + " (" + std::to_string(calls) + " calls so far)");
    }
    if (more && !by_status) tell(last);
  }

  [[nodiscard]] std::string_view role_of(std::string_view process) const {
    for (const ProcessSlot& slot : context_.slots->slots()) {
      if (slot.instance == process) return slot.role;
    }
    return "job";
  }

  // Null where there are more than any job has: a recording may hold anything.
  Place* place_of(std::string_view process, std::string_view function) {
    for (Place& place : places_) {
      const std::string_view instance = place.instance;
      if (instance.size() == process.size() + 1 + function.size() && instance.starts_with(process) &&
          instance[process.size()] == '/' && instance.ends_with(function)) {
        return &place;
      }
    }
    if (process.empty() || function.empty()) return nullptr;
    places_are_missing_ = places_are_missing_ || places_.size() == kMostPlaces;
    if (places_.size() == kMostPlaces) return nullptr;
    Place fresh;
    fresh.instance.append(process).append(1, '/').append(function);
    fresh.channels.fill(Family::kNoChannel);
    fresh.buckets.fill(Family::kNoChannel);
    places_.push_back(std::move(fresh));
    return &places_.back();
  }

  ProbeContext context_;
  std::unique_ptr<AskedChild> child_;
  ProfilerWatch watch_;
  std::chrono::nanoseconds histogram_period_;
  std::int64_t next_durations_ns_ = 0;
  bool got_durations_ = false;
  bool histogram_is_full_ = false;
  std::array<Family*, std::size(kFamilies)> families_{};
  std::vector<Place> places_;
  std::vector<Clock> clocks_;
  std::map<std::string, std::int32_t, std::less<>> communication_;  // channels by process
  std::vector<Occupant> occupants_;
  std::vector<int> copied_;      // measured processes, and those that were forked from them
  std::set<ProcessKey> copies_;  // the latter, in the newest row
  std::size_t most_copies_ = 0;
  std::string request_;
  std::string functions_;
  std::string attaching_;  // the process that took longest
  std::string counted_line_;
  std::set<std::string, std::less<>> counted_;  // functions
  std::string notes_, new_notes_;
  std::string gap_;
  Snapshot facts_;
  bool stepped_back_ = false;
  bool steps_missed_ = false;
  bool places_are_missing_ = false;
};

/// The first request to the worker: see query_stack().
std::string opening_request(const ProbeContext& context, bool by_broker) {
  std::string request = by_broker ? "open broker\n" : "open\n";
  request += "budget " + std::to_string(std::llround(context.stack_budget * 1e4)) + '\n';
  if (!context.stack_without.empty()) request += "without";
  for (const std::string& name : context.stack_without) request += ' ' + name;
  return request;
}

std::unique_ptr<Probe> open_stack(const ProbeContext& context) {
  if (!context.stack && !context.fs.recorded()) {
    throw Absent("it is off by default (reveal-run --stack, srun --reveal=stack=on)", Absence::off);
  }
  need_job(context);
  if (!context.fs.live() && !context.fs.recorded()) throw Unavailable("a copied tree has no processes to attach to");
  const Descriptor broker(context.call_broker);  // the child's alone: at its end nothing may be attached any more
  auto child = std::make_unique<AskedChild>(
      context, query_stack, AskedChildWords{.probe = "stack", .kept = broker.get(), .starts_again = false});
  const std::string opening = context.fs.fact("@stack/open", [&] {
    static_cast<void>(child->ask(opening_request(context, static_cast<bool>(broker))));
    const std::string answer(child->answer_within(kForTheCalibration));
    return answer.substr(0, answer.find('\n'));
  });
  std::string_view rest = opening;
  const std::string_view verdict = cut_word(rest);
  if (verdict == "ok") return std::make_unique<StackProbe>(context, std::move(child), opening);
  if (context.fs.recorded()) throw Unavailable("it was not recorded");
  if (verdict != "none") throw Unavailable("its child process did not answer");
  rest.remove_prefix(std::min<std::size_t>(1, rest.size()));
  const bool on_its_own = context.job->of_slurm() && !broker;
  throw Unavailable(std::string(rest) +
                    (on_its_own ? "; in jobs of Slurm's plugin, stack in [slurm] must allow it" : ""));
}

const RegisteredProbe entry{
    {.name = "stack",
     .help = "Calls, time, bytes and errors of CUDA, NCCL, gloo, MPI and PyTorch by process; off by default",
     .period = 1s,
     .may_block = true,
     .families = kFamilies,
     .open = open_stack,
     .remedy =
         "srun --reveal=stack=on, on Linux 6.6 or newer; or reveal-run --stack -- COMMAND, as root or with CAP_BPF and "
         "CAP_PERFMON, on Linux 5.15 or newer (x86-64)",
     .privilege = "calls into libraries (CAP_BPF and CAP_PERFMON)"}};

}  // namespace
}  // namespace reveal::probe::stack
