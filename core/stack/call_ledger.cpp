#include "core/stack/call_ledger.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::size_t kMostNotes = 16;
constexpr std::size_t kForANote = 100;       // bytes
constexpr std::size_t kMostWaiting = 4'096;  // calls of an instance that wait to be reported
constexpr std::size_t kMostStanding = 6;     // communicators of an instance
constexpr std::size_t kForStanding = 1'536;  // bytes: for all of these

void add_codes(CallCounts& sum, const CallCounts& more) {
  for (const ErrorCode& code : more.codes) {
    auto* const place = std::find_if(std::begin(sum.codes), std::end(sum.codes), [&code](const ErrorCode& each) {
      return each.status == code.status || each.status == 0;
    });
    if (code.status == 0 || place == std::end(sum.codes)) continue;
    place->status = code.status;
    place->calls += code.calls;
  }
}

void add_counts(CallCounts& sum, const CallCounts& more) {
  add_codes(sum, more);
  sum.calls += more.calls;
  sum.bytes += more.bytes;
  sum.unsized += more.unsized;
  sum.returned += more.returned;
  sum.time_ns += more.time_ns;
  sum.longest_ns = std::max(sum.longest_ns, more.longest_ns);
  sum.errors += more.errors;
  sum.last_error = more.errors > 0 ? more.last_error : sum.last_error;
  sum.untimed += more.untimed;
  std::transform(std::begin(sum.buckets), std::end(sum.buckets), std::begin(more.buckets), std::begin(sum.buckets),
                 std::plus<>());
}

void append_number(std::string& text, std::optional<std::uint64_t> number) {
  text += number ? ' ' + std::to_string(*number) : " -";
}

/// " ranks=4 rank=2 id=7994", without unknown ones.
void append_members(std::string& text, std::uint64_t ranks, std::uint64_t rank, std::uint64_t id) {
  if (ranks > 0) text += " ranks=" + std::to_string(ranks) + " rank=" + std::to_string(rank);
  if (id != 0) text += " id=" + std::to_string(id);
}

/// "gc_pause begin=5000 duration=2500000", "communicator_begin at=5000 ranks=4 rank=2 id=7994".
std::string words_of(const StackFunction& function, const RareCall& call) {
  if (function.part == PartOfStep::gc) {
    return std::string(kGcPause) + " begin=" + std::to_string(call.time_ns - std::min(call.about, call.time_ns)) +
           " duration=" + std::to_string(call.about);
  }
  std::string text(function.communicator == kMadeByCall ? kCommunicatorBegin : kCommunicatorEnd);
  text += " at=" + std::to_string(call.time_ns);
  append_members(text, call.about >> 32U, call.about & 0xffff'ffffU, call.id);
  return text;
}

/// "comm=0 ranks=4 rank=2 id=7994 calls=812 begin=5000 ncclAllReduce=4096x3,- ncclBroadcast=8": the newest call first.
std::string words_of(const CallCounters::Communicator& one) {
  constexpr std::size_t kLongest = 180;  // bytes: the text of an event has 192
  std::string text = "comm=" + std::to_string(one.order);
  append_members(text, one.ranks, one.rank, one.id);
  text += " calls=" + std::to_string(one.calls) + " begin=" + std::to_string(one.begin_ns);
  std::optional<std::size_t> function;
  for (std::size_t i = 0; i < one.newest.size();) {
    const CallCounters::Communicator::Call& call = one.newest[i];
    std::size_t times = 0;
    for (; i < one.newest.size() && one.newest[i].function == call.function && one.newest[i].bytes == call.bytes; ++i) {
      ++times;
    }
    std::string more = function == call.function ? "," : ' ' + std::string(stack_functions()[call.function].name) + '=';
    more += call.bytes ? std::to_string(*call.bytes) : "-";
    if (times > 1) more += 'x' + std::to_string(times);
    if (text.size() + more.size() > kLongest) break;
    text += more;
    function = call.function;
  }
  return text;
}

/// Its time or its bytes are a part of those of each step.
bool is_summed(const StackFunction& function) {
  return function.part == PartOfStep::waiting || function.part == PartOfStep::gc || exchanges(function);
}

/// "c10d.work was counted in turns, 23 % of the time"
std::string words_of(std::string_view function, double share) {
  const auto percent = static_cast<int>(100 * share);
  return std::string(function) + " was counted in turns, " + (percent < 1 ? "less than 1" : std::to_string(percent)) +
         " % of the time";
}

std::optional<std::uint64_t> grown(bool known, std::uint64_t from, std::uint64_t to) {
  return known && to >= from ? std::optional(to - from) : std::nullopt;
}

}  // namespace

CallLedger::CallLedger(CallCounters& counters, std::size_t longest)
    : counters_(counters), functions_(stack_functions()), longest_(longest) {}

void CallLedger::attached(const std::string& instance, std::size_t function, std::size_t process, bool timed,
                          std::int64_t since_ns) {
  const std::lock_guard lock(mutex_);
  Instance& known = instances_[instance];
  known.rows.resize(functions_.size());
  Row& row = known.rows[function];
  // A process that began in a rest of the function was not counted before, either.
  if (row.rests || (!row.counted && has_rested(function))) {
    resume_row(known, function, static_cast<std::uint64_t>(since_ns));
  }
  row.timed = timed && (row.timed || !row.counted);
  row.counted = true;
  row.index = process * functions_.size() + function;
  if (functions_[function].part == PartOfStep::clock) known.process = process;
  if (functions_[function].communicator != 0) {
    known.communicating = process;
    known.sampled_since_ns = static_cast<std::uint64_t>(read_clock(CLOCK_MONOTONIC));
    counters_.begin_sampling(process);
  }
  if (tells_calls(shape_of(functions_[function], timed))) known.telling = process;
  attached_.insert(function);
  turns_.try_emplace(function, Turns{.since_ns = since_ns, .why = {}});
}

void CallLedger::process_ended(const std::string& instance) {
  const std::lock_guard lock(mutex_);
  const auto known = instances_.find(instance);
  if (known != instances_.end()) known->second.is_over = true;
}

void CallLedger::ended(const std::string& instance) {
  const std::lock_guard lock(mutex_);
  const auto known = instances_.find(instance);
  if (known == instances_.end()) return;
  Instance& its = known->second;
  take_steps(its);
  take_collectives(its);
  take_rare_calls(its);
  if (its.begun) end_step(its, nullptr);
  its.process.reset();
  its.communicating.reset();
  its.telling.reset();
  its.next_step = its.next_rare = 0;
  its.recorded_since_ns = its.sampled_since_ns = its.next_sample = 0;
  its.has_gap = its.is_over = false;
  its.told_calls.clear();
  its.delayed = its.partly_counted = its.partly_sized = false;
  its.unsized = 0;
  for (Row& row : its.rows) {
    if (!row.index) continue;
    row.communication_ns = communication_of(row);
    add_counts(row.ended, counters_.take(*row.index));
    row.index.reset();
  }
  if (!its.rows.empty()) its.steps_before = its.rows[step_function()].ended.calls;
}

void CallLedger::rest(std::size_t function, std::string why) {
  const std::lock_guard lock(mutex_);
  const bool clock = functions_[function].part == PartOfStep::clock;
  for (auto& [name, instance] : instances_) {
    if (instance.rows.empty() || !instance.rows[function].counted) continue;
    take_steps(instance);  // those that ended before
    if (functions_[function].communicator != 0) {
      take_collectives(instance);
      instance.has_gap = true;
    }
    if (clock && instance.begun) end_step(instance, nullptr);
    instance.rows[function].rests = true;
    instance.partly_counted = instance.partly_counted || (is_summed(functions_[function]) && instance.begun);
  }
  attached_.erase(function);
  Turns& turns = turns_[function];
  turns.rest_begin_ns = read_clock(CLOCK_MONOTONIC);
  turns.why = std::move(why);
}

void CallLedger::announce(std::span<const std::size_t> functions) {
  const std::lock_guard lock(mutex_);
  for (const std::size_t function : functions) turns_[function].announced = true;
}

bool CallLedger::is_told(std::size_t function) const {
  const std::lock_guard lock(mutex_);
  const auto turns = turns_.find(function);
  return turns != turns_.end() && turns->second.told;
}

void CallLedger::resume(std::size_t function) {
  const std::lock_guard lock(mutex_);
  Turns& turns = turns_[function];
  turns.rested_ns += read_clock(CLOCK_MONOTONIC) - turns.rest_begin_ns;
  turns.rest_begin_ns = 0;
  turns.announced = turns.told = false;
}

/// The step under way began while it rested.
void CallLedger::resume_row(Instance& instance, std::size_t function, std::uint64_t since_ns) {
  take_steps(instance);
  instance.rows[function].rests = false;
  if (functions_[function].part == PartOfStep::clock && instance.process) {
    // Steps begun while it was being detached: the first one since it is attached does not follow them.
    for (const CallCounters::NumberedStep& each : counters_.take_steps(*instance.process, instance.next_step)) {
      if (each.step.begin_ns >= since_ns) {
        take_step(instance, each);
      } else {
        instance.next_step = each.number + 1;
      }
    }
  }
  instance.partly_counted = instance.partly_counted || (is_summed(functions_[function]) && instance.begun);
  if (is_recorded(shape_of(functions_[function], true))) {
    instance.recorded_since_ns = since_ns;
  }
}

bool CallLedger::rests(std::size_t function) const {
  const std::lock_guard lock(mutex_);
  return is_resting(function);
}

bool CallLedger::is_resting(std::size_t function) const {
  const auto turns = turns_.find(function);
  return turns != turns_.end() && turns->second.rest_begin_ns != 0;
}

bool CallLedger::is_announced(std::size_t function) const {
  const auto turns = turns_.find(function);
  return turns != turns_.end() && turns->second.announced;
}

bool CallLedger::has_rested(std::size_t function) const {
  const auto turns = turns_.find(function);
  return turns != turns_.end() && !turns->second.why.empty();
}

void CallLedger::note(std::string sentence) {
  for (char& letter : sentence) {
    if (std::isprint(static_cast<unsigned char>(letter)) == 0) letter = '?';
  }
  const std::lock_guard lock(mutex_);
  if (notes_.size() < kMostNotes) notes_.insert(std::move(sentence));
}

void CallLedger::untimed_process() {
  const std::lock_guard lock(mutex_);
  ++untimed_processes_;
}

void CallLedger::slow(std::span<const std::size_t> functions) {
  const std::lock_guard lock(mutex_);
  slow_.insert(functions.begin(), functions.end());
}

void CallLedger::failed(std::size_t function, std::string_view why) {
  note(std::string(functions_[function].name) + " is not measured: " + std::string(why));
  const std::lock_guard lock(mutex_);
  failed_.insert(function);
}

void CallLedger::leave_out(std::span<const std::size_t> functions) {
  const std::lock_guard lock(mutex_);
  left_out_.insert(functions.begin(), functions.end());
}

void CallLedger::attaching_took(const std::string& instance, std::size_t functions, std::int64_t ns) {
  const std::lock_guard lock(mutex_);
  if (ns <= longest_attaching_ns_) return;
  longest_attaching_ns_ = ns;
  longest_attaching_ = instance + ' ' + std::to_string(functions) + ' ' + std::to_string(ns);
}

void CallLedger::delay(const std::string& instance, bool delayed) {
  const std::lock_guard lock(mutex_);
  Instance& its = instances_[instance];
  its.rows.resize(functions_.size());
  take_steps(its);  // those that ended before
  its.delayed = delayed;
  its.partly_counted = delayed || (its.partly_counted && its.begun);
}

std::string CallLedger::answer(With with) {
  const std::lock_guard lock(mutex_);
  std::string text = "functions";
  for (const std::size_t function : attached_) text.append(1, ' ').append(functions_[function].name);
  text += '\n';
  std::string counts;
  std::uint64_t unsized = 0;
  std::uint64_t untimed = 0;
  const std::map<std::size_t, std::int64_t> pending = counters_.pending();
  for (auto& [name, instance] : instances_) {
    take_steps(instance);
    take_collectives(instance);
    take_rare_calls(instance);
    for (std::size_t function = 0; function < instance.rows.size(); ++function) {
      Row& row = instance.rows[function];
      if (!row.counted || (row.rests && !is_announced(function))) continue;
      const CallCounts sum = sum_of(row);
      unsized += sum.unsized;
      untimed += sum.untimed;
      if (sum.calls > 0) append_count(counts, name, function, row, sum, pending);
    }
  }
  for (auto& [function, turns] : turns_) turns.told = std::exchange(turns.announced, false);
  append_notes(text, unsized, untimed);
  if (!longest_attaching_.empty()) text += "attaching " + longest_attaching_ + '\n';
  std::string_view rest = counts;
  std::string_view line;
  std::size_t left_out = 0;
  const std::size_t room = longest_ - (has_steps() ? longest_ / 4 : 0);
  while (next_line(rest, line)) {
    if (text.size() + line.size() + kForANote > room) {
      ++left_out;
    } else {
      text.append(line).append(1, '\n');
    }
  }
  if (left_out > 0) {
    text += "note " + std::to_string(left_out) + " functions of processes are left out: there are too many\n";
  }
  for (auto& [name, instance] : instances_) {
    if (text.size() + kForStanding < room) append_standing(text, name, instance);
  }
  append_steps(text);
  append_lines(text, "called ", &Instance::calls);
  append_lines(text, "rare ", &Instance::rare);
  if (with == With::durations) append_durations(text);
  ++answers_;
  return text;
}

bool TimeWithoutCall::is_long(std::uint64_t newest_ns, std::uint64_t now_ns) {
  constexpr auto kShortest = static_cast<std::uint64_t>(3 * kSecond);
  constexpr auto kLongest = static_cast<std::uint64_t>(60 * kSecond);
  // A communicator that has ended takes its calls with it: an older one is no new call.
  if (newest_ns > newest_ns_) {
    longest_ns_ = std::max(longest_ns_, std::exchange(age_ns_, 0));
    newest_ns_ = newest_ns;
    told_ = false;
  }
  age_ns_ = now_ns > newest_ns_ ? now_ns - newest_ns_ : 0;
  if (told_ || age_ns_ < std::clamp(longest_ns_ / 2 * 3, kShortest, kLongest)) return false;
  told_ = true;
  return true;
}

/// None of the functions by which its collectives are recorded rests.
bool CallLedger::records_collectives(const Instance& instance) const {
  for (std::size_t function = 0; function < instance.rows.size(); ++function) {
    const bool rests = instance.rows[function].rests || is_resting(function);
    if (rests && functions_[function].communicator != 0) return false;
  }
  return true;
}

/// All calls of NCCL's communicators were counted, from the first one on, and on the right communicator. One that was
/// made unseen has no id.
bool CallLedger::numbers_collectives() const {
  for (std::size_t function = 0; function < functions_.size(); ++function) {
    const StackFunction& each = functions_[function];
    const bool numbers = each.communicator != 0 && each.communicator != kMadeByCall && each.name.starts_with("nccl");
    if (numbers && (is_missed(function) || has_rested(function))) return false;
  }
  return true;
}

/// Once for each time in which no collective was begun for long, against such times before: what the newest ones were.
void CallLedger::append_standing(std::string& text, const std::string& name, Instance& instance) const {
  if (!instance.communicating || !records_collectives(instance)) return;
  std::vector<CallCounters::Communicator> all = counters_.communicators(*instance.communicating);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin_ns > b.begin_ns; });
  const auto now = static_cast<std::uint64_t>(read_clock(CLOCK_MONOTONIC));
  if (all.empty() || all.front().begin_ns < instance.recorded_since_ns) return;
  if (!instance.without_call.is_long(all.front().begin_ns, now)) return;
  if (all.size() > kMostStanding) all.resize(kMostStanding);
  if (!numbers_collectives()) {
    for (CallCounters::Communicator& one : all) one.id = 0;
  }
  for (const CallCounters::Communicator& one : all) text += "standing " + name + ' ' + words_of(one) + '\n';
}

double CallLedger::counted_share(const Turns& turns) {
  const std::int64_t now = read_clock(CLOCK_MONOTONIC);
  const std::int64_t rested = turns.rested_ns + (turns.rest_begin_ns != 0 ? now - turns.rest_begin_ns : 0);
  return 1 - static_cast<double>(rested) / static_cast<double>(std::max<std::int64_t>(now - turns.since_ns, 1));
}

void CallLedger::append_notes(std::string& text, std::uint64_t unsized, std::uint64_t untimed) const {
  const auto add_note = [&text](const std::string& sentence) { text += "note " + sentence + '\n'; };
  for (const auto& [function, turns] : turns_) {
    if (!turns.why.empty()) add_note(words_of(functions_[function].name, counted_share(turns)) + ": " + turns.why);
  }
  for (const std::string& sentence : notes_) add_note(sentence);
  const auto add_names = [&](std::string sentence, const std::set<std::size_t>& functions) {
    for (const std::size_t function : functions) sentence.append(1, ' ').append(functions_[function].name);
    if (!functions.empty()) add_note(sentence);
  };
  add_names("not measured, because their first instruction would be single-stepped:", slow_);
  add_names("never counted, by stack_without:", left_out_);
  if (std::any_of(instances_.begin(), instances_.end(), [](const auto& each) { return each.second.delayed; })) {
    add_note("not all functions are attached yet: attaching at once would delay the start of processes");
  }
  if (untimed_processes_ > 0) {
    add_note("calls of " + std::to_string(untimed_processes_) +
             " processes are counted and not timed: they are under a seccomp filter");
  }
  if (unsized > 0)
    add_note("the bytes of " + std::to_string(unsized) +
             " calls are not known: their arguments do not show them, or show more than 16 TiB");
  if (untimed > 0) add_note(std::to_string(untimed) + " calls were not timed: too many were under way at once");
  if (steps_lost_ > 0) {
    add_note(std::to_string(steps_lost_) + " steps are counted and not listed: they followed each other too fast");
  }
  if (collectives_lost_ > 0) {
    add_note(std::to_string(collectives_lost_) + " collectives are counted and not listed: there are too many");
  }
  if (rare_lost_ > 0) {
    add_note(std::to_string(rare_lost_) + " garbage collections or communicators have no event: there are too many");
  }
}

std::uint64_t CallLedger::communication_of(const Row& row) const {
  return row.communication_ns + (row.index ? counters_.communication_ns(*row.index / functions_.size()) : 0);
}

CallCounts CallLedger::sum_of(Row& row) {
  CallCounts sum = row.ended;
  row.ended.longest_ns = 0;
  if (row.index) add_counts(sum, counters_.take(*row.index));
  return sum;
}

void CallLedger::append_count(std::string& text, const std::string& name, std::size_t function, const Row& row,
                              const CallCounts& sum, const std::map<std::size_t, std::int64_t>& pending) const {
  const auto word = [&text](bool known, std::uint64_t number) {
    append_number(text, known ? std::optional(number) : std::nullopt);
  };
  const auto begun = row.index ? pending.find(*row.index) : pending.end();
  const std::int64_t age = begun == pending.end() ? 0 : read_clock(CLOCK_MONOTONIC) - begun->second;
  text += "count " + name + ' ' + std::string(functions_[function].name);
  word(true, sum.calls);
  word(has_size(functions_[function]) && sum.unsized == 0, sum.bytes);
  word(row.timed, sum.time_ns);
  word(row.timed && sum.longest_ns > 0 && !row.rests, sum.longest_ns);
  word(row.timed && row.index && !row.rests, static_cast<std::uint64_t>(std::max<std::int64_t>(age, 0)));
  const bool tells_errors = row.timed && functions_[function].ending == Ending::returns_status;
  word(tells_errors, sum.errors);
  word(tells_errors, sum.last_error);
  for (const ErrorCode& code : sum.codes) {
    if (tells_errors && code.calls > 0) text += ' ' + std::to_string(code.status) + ':' + std::to_string(code.calls);
  }
  text += '\n';
  if (functions_[function].part == PartOfStep::clock) text += "steps " + name + ' ' + std::to_string(sum.calls) + '\n';
  if (functions_[function].part == PartOfStep::communication && row.timed) {
    text += "communication " + name + ' ' + std::to_string(communication_of(row)) + '\n';
  }
}

std::uint64_t CallLedger::unsized_of(const Instance& instance) const {
  std::uint64_t sum = 0;
  for (std::size_t function = 0; function < instance.rows.size(); ++function) {
    const Row& row = instance.rows[function];
    if (exchanges(functions_[function]) && row.index) sum += counters_.unsized(*row.index);
  }
  return sum;
}

void CallLedger::take_steps(Instance& instance) {
  if (!instance.process || instance.rows[step_function()].rests) return;
  const std::uint64_t unsized = unsized_of(instance);
  const bool more_unsized = unsized != std::exchange(instance.unsized, unsized);
  instance.partly_sized = instance.partly_sized || more_unsized;
  bool ended = false;
  for (const CallCounters::NumberedStep& each : counters_.take_steps(*instance.process, instance.next_step)) {
    take_step(instance, each);
    ended = true;
  }
  if (ended || !instance.begun) instance.partly_sized = instance.begun && more_unsized;
}

void CallLedger::take_step(Instance& instance, const CallCounters::NumberedStep& step) {
  steps_lost_ += step.number - instance.next_step;
  const bool follows = instance.begun && instance.begun->number + 1 == step.number;
  if (instance.begun) end_step(instance, follows ? &step : nullptr);
  instance.begun = step;
  instance.next_step = step.number + 1;
}

/// Without the next one, when it ended is not known.
void CallLedger::end_step(Instance& instance, const CallCounters::NumberedStep* next) {
  const auto& [number, step] = *instance.begun;
  Step ended{.number = instance.steps_before + number + 1,
             .begin_ns = step.begin_ns,
             .duration_ns = {},
             .waiting_ns = {},
             .bytes = {},
             .gc_ns = {}};
  if (next != nullptr) {
    ended.duration_ns = grown(true, step.begin_ns, next->step.begin_ns);
    ended.waiting_ns = grown(knows_waiting(instance), step.waiting_ns, next->step.waiting_ns);
    ended.bytes = grown(knows_bytes(instance), step.bytes, next->step.bytes);
    ended.gc_ns = grown(knows_gc(instance), step.gc_ns, next->step.gc_ns);
  }
  instance.begun.reset();
  instance.partly_counted = instance.delayed;
  if (instance.steps.size() == kMostWaiting) {
    ++steps_lost_;
  } else {
    instance.steps.push_back(ended);
  }
}

/// Calls that were kept by themselves, and the newest one of each communicator: that one is the last, if the process
/// has ended.
void CallLedger::take_collectives(Instance& instance) {
  if (!instance.communicating || instance.has_gap || !records_collectives(instance)) return;
  const std::vector<CallCounters::NumberedSample> samples =
      counters_.take_samples(*instance.communicating, instance.next_sample);
  const std::vector<CallCounters::Communicator> all = counters_.communicators(*instance.communicating);
  for (const CallCounters::NumberedSample& sample : samples) {
    collectives_lost_ += sample.number - instance.next_sample;
    instance.next_sample = sample.number + 1;
    const auto its = std::find_if(all.begin(), all.end(), [&sample](const CallCounters::Communicator& one) {
      return one.handle == sample.call.handle && sample.call.number < one.calls;  // else it has ended, or began anew
    });
    if (its == all.end() || sample.call.begin_ns < instance.sampled_since_ns) continue;
    list_call(instance, *its, sample.call.index % functions_.size(), sample.call.number + 1, sample.call.begin_ns);
  }
  for (const CallCounters::Communicator& one : all) {
    if (one.newest.empty() || one.begin_ns < instance.sampled_since_ns) continue;
    list_call(instance, one, one.newest.front().function, one.calls, one.begin_ns, instance.is_over);
  }
  if (instance.is_over) instance.communicating.reset();
}

/// Once, and again as the last one; a communicator may begin anew in the place of one that has ended.
void CallLedger::list_call(Instance& instance, const CallCounters::Communicator& communicator, std::size_t function,
                           std::uint64_t number, std::uint64_t begin_ns, bool last) {
  std::uint64_t& told = instance.told_calls[communicator.order];
  if (told > communicator.calls) told = 0;
  if (number < told || (number == told && !last)) return;
  told = number;
  if (instance.calls.size() == kMostWaiting) {
    ++collectives_lost_;
    return;
  }
  std::string line(functions_[function].name);
  const std::uint64_t id = numbers_collectives() ? communicator.id : 0;
  for (const std::uint64_t each : {std::uint64_t{communicator.order}, std::uint64_t{communicator.ranks}, id, number,
                                   begin_ns, std::uint64_t{last}}) {
    append_number(line, each);
  }
  instance.calls.push_back(std::move(line));
}

void CallLedger::take_rare_calls(Instance& instance) {
  if (!instance.telling) return;
  for (const CallCounters::NumberedRareCall& each : counters_.take_rare_calls(*instance.telling, instance.next_rare)) {
    rare_lost_ += each.number - instance.next_rare;
    instance.next_rare = each.number + 1;
    if (instance.rare.size() == kMostWaiting) {
      ++rare_lost_;
    } else {
      instance.rare.push_back(words_of(functions_[each.call.index % functions_.size()], each.call));
    }
  }
}

/// Its calls are not in a sum: by a library that some process has, they may well be made.
bool CallLedger::is_missed(std::size_t function) const {
  return slow_.contains(function) || failed_.contains(function) || left_out_.contains(function) || is_resting(function);
}

/// A process that never called a function of the table waits by other means, or not at all.
bool CallLedger::knows_waiting(const Instance& instance) const {
  if (instance.partly_counted) return false;
  bool called = false;
  for (std::size_t function = 0; function < functions_.size(); ++function) {
    const Row& row = instance.rows[function];
    if (functions_[function].part != PartOfStep::waiting) continue;
    if (is_missed(function) || row.rests || (row.counted && !row.timed)) return false;
    if (!row.counted) continue;
    called = called || (row.index && counters_.calls(*row.index) > 0);
  }
  return called;
}

/// Only some builds of Python have its marks; where they are, a step without a collection spent no time in one.
bool CallLedger::knows_gc(const Instance& instance) const {
  if (instance.partly_counted) return false;
  for (std::size_t function = 0; function < functions_.size(); ++function) {
    const Row& row = instance.rows[function];
    if (functions_[function].part != PartOfStep::gc) continue;
    if (!row.index || row.rests || is_missed(function)) return false;
  }
  return true;
}

/// Whether it called gloo through PyTorch: every program with PyTorch has these functions, and most never call them.
bool CallLedger::makes_collectives(const Instance& instance) const {
  for (std::size_t function = 0; function < functions_.size(); ++function) {
    const Row& row = instance.rows[function];
    if (functions_[function].part != PartOfStep::communication) continue;
    if (row.counted && row.index && counters_.calls(*row.index) > 0) return true;
  }
  return false;
}

bool CallLedger::knows_bytes(const Instance& instance) const {
  if (instance.partly_counted || instance.partly_sized) return false;
  bool called = false;
  for (std::size_t function = 0; function < functions_.size(); ++function) {
    const Row& row = instance.rows[function];
    if (!exchanges(functions_[function])) continue;
    const bool of_gloo = functions_[function].rule != ByteRule::nccl_count;
    if (of_gloo && !makes_collectives(instance)) continue;
    if (is_missed(function) || row.rests) return false;
    if (!row.counted) continue;
    called = called || (row.index && counters_.calls(*row.index) > 0);
  }
  return called;
}

bool CallLedger::has_steps() const {
  return std::any_of(instances_.begin(), instances_.end(), [](const auto& each) { return !each.second.steps.empty(); });
}

/// One instance after the other begins, so that none waits for ever. `turn`: grows by one from each time to the next.
std::vector<std::pair<const std::string, CallLedger::Instance>*> CallLedger::in_turn(std::size_t turn) {
  std::vector<std::pair<const std::string, Instance>*> order;
  order.reserve(instances_.size());
  for (auto& each : instances_) order.push_back(&each);
  if (order.empty()) return order;
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(turn % order.size()), order.end());
  return order;
}

void CallLedger::append_steps(std::string& text) {
  for (auto* const each : in_turn(answers_)) {
    auto& [name, instance] = *each;
    std::size_t reported = 0;
    for (const Step& step : instance.steps) {
      std::string line = "step " + name;
      append_number(line, step.number);
      append_number(line, step.begin_ns);
      append_number(line, step.duration_ns);
      append_number(line, step.waiting_ns);
      append_number(line, step.bytes);
      append_number(line, step.gc_ns);
      line += '\n';
      if (text.size() + line.size() > longest_) break;
      text += line;
      ++reported;
    }
    instance.steps.erase(instance.steps.begin(), instance.steps.begin() + static_cast<std::ptrdiff_t>(reported));
  }
}

void CallLedger::append_lines(std::string& text, std::string_view what, Lines lines) {
  for (auto* const each : in_turn(answers_)) {
    auto& [name, instance] = *each;
    std::vector<std::string>& waiting = instance.*lines;
    std::size_t reported = 0;
    for (const std::string& call : waiting) {
      const std::string line = std::string(what) + name + ' ' + call + '\n';
      if (text.size() + line.size() > longest_) break;
      text += line;
      ++reported;
    }
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(reported));
  }
}

/// Sums, of functions that rest, too: those that do not fit are in a later answer.
void CallLedger::append_durations(std::string& text) {
  for (auto* const each : in_turn(answers_with_durations_++)) {
    const auto& [name, instance] = *each;
    for (std::size_t function = 0; function < instance.rows.size(); ++function) {
      const Row& row = instance.rows[function];
      if (!row.timed) continue;
      const CallCounters::Buckets newest = row.index ? counters_.buckets(*row.index) : CallCounters::Buckets{};
      std::string line;
      for (std::size_t i = 0; i < newest.size(); ++i) {
        const std::uint64_t calls = row.ended.buckets[i] + newest[i];
        if (calls > 0) line += ' ' + std::to_string(CallCounts::bits_of(i)) + ':' + std::to_string(calls);
      }
      if (line.empty()) continue;
      line = "durations " + name + ' ' + std::string(functions_[function].name) + line + '\n';
      if (text.size() + line.size() <= longest_) text += line;
    }
  }
}

}  // namespace reveal
