// Where the main threads of the job's Python processes stand: function, file and line, read once a second out of their
// memory, and up to ten times a second while something on the node is unusual: of those that are measured one by one,
// since a script or a launcher may lie between the rank and its Python. Nothing is attached, and the process is never
// stopped. Off unless requested.
// https://man7.org/linux/man-pages/man2/process_vm_readv.2.html
#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "core/kernel_text/kernel_words.h"
#include "core/python/python_worker.h"
#include "core/sampler/asked_child.h"
#include "core/sampler/pace.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/layout.h"

namespace reveal::probe::python {
namespace {

constexpr std::chrono::milliseconds kForPlaces{5};  // a process takes a fiftieth of one

constexpr MetricHelp kSamples[] = {
    {"python.samples", "Samples of the main threads of Python processes with a known place."},
    {"python.unread", "Samples without a place: the thread moved during the sample, or ran no Python."},
};
constexpr FamilyTable kFamilies[] = {{"python/samples", Kind::counter, Unit::count, Scope::reveal, Subsystem::self,
                                      "Samples of Python's main threads", "process_vm_readv", kSamples}};

/// The part of one process in an event: its places, and a letter of one of them for each tick.
struct Row {
  std::string instance;
  std::string letters;
  std::vector<std::string> places;
  bool due = false;  // its position was requested at the last tick
};

constexpr char kNotMeasured = '-';
constexpr char kElsewhere = '?';  // the name of the place did not fit

class PythonProbe final : public Probe {
 public:
  explicit PythonProbe(const ProbeContext& context)
      : context_(context),
        child_(context, query_python, {.probe = "python"}),
        period_(context.period),
        family_(context.family(kFamilies[0])) {
    for (const MetricHelp& metric : kSamples) family_.add(metric.name, {}, "node", 0);
  }

  void sample() noexcept override try {
    if (context_.is_extra() && !is_time()) return;
    family_.begin();
    const std::string_view late = child_.answer();
    if (unanswered_ < kOld) take(late, Late::yes);
    for (Row& row : rows_) add_letter(row, row.due ? std::string(1, kNotMeasured) : "");
    fill_gap();
    if (!context_.is_extra()) choose_period();
    for (Row& row : rows_) {
      if (row.letters.size() >= kLetters || room_in(row) < kLeastRoom) write(row);
    }
    const bool asked = ask();
    unanswered_ = !asked && child_.state() == AskedChild::State::busy ? unanswered_ + 1 : 0;
    if (asked) take(child_.answer_within(kForPlaces), Late::no);
    family_.set(0, samples_);
    family_.set(1, unread_);
    if (!context_.is_extra()) family_.commit();
  } catch (const std::exception& error) {  // no memory
    gap_ = error.what();
  }

  void close() noexcept override try {
    for (Row& row : rows_) {
      if (!row.due && !row.letters.empty()) row.letters.pop_back();  // a row ends one period after its last letter
      write(row);
    }
  } catch (const std::exception& error) {
    gap_ = error.what();
  }

  [[nodiscard]] std::string caveat() const override {
    std::string text = gap_.empty() ? child_.gaps() : gap_;
    std::map<std::string_view, std::string> by_reason;
    for (const auto& [instance, why] : why_not_) by_reason[why] += ' ' + instance;
    for (const auto& [why, instances] : by_reason) {
      text += (text.empty() ? "" : "; ") + std::string("not measured of") + instances + ", because " + std::string(why);
    }
    if (unanswered_ >= kPatience) {  // memory that the job keeps from being read: userfaultfd(2), a dead file server
      text += (text.empty() ? "" : "; ") + std::string("there are no samples since a read of a process's memory hangs");
    }
    if (text.empty() && samples_ == 0 && unread_ == 0)
      text = "none of the processes that are measured one by one runs Python 3.8 to 3.13";
    return text;
  }

 private:
  enum class Late : bool { no, yes };
  static constexpr int kOld = 2;               // looks after which an answer proves nothing about the one before
  static constexpr int kPatience = 10;         // looks
  static constexpr std::size_t kLetters = 60;  // few events: a trace has those of days
  static constexpr std::size_t kLeastRoom = 10;
  static constexpr std::size_t kMostRows = 64;
  static constexpr std::size_t kMostPlaces = 26;
  static constexpr std::size_t kBeforePlace = 3;  // " a="
  static constexpr std::size_t kText = sizeof EventRecord::text - 1;

  bool ask() {
    request_.clear();
    std::set<std::string_view> asked;
    for (const ProcessSlot& slot : context_.slots->slots()) {
      if (slot.process == nullptr) continue;
      request_ += slot.instance + ' ' + std::to_string(slot.pid) + ' ' + std::to_string(slot.start_ticks) + '\n';
      asked.insert(slot.instance);
    }
    std::erase_if(why_not_, [&asked](const auto& each) { return !asked.contains(each.first); });
    for (Row& row : rows_) row.due = true;
    return child_.ask(request_);
  }

  void take(std::string_view answer, Late late) {
    std::string_view line;
    while (next_line(answer, line)) {
      const std::string_view what = cut_word(line);
      const std::string instance(cut_word(line));
      if (what == "cost" && parse_counter(instance, cost_ns_)) continue;
      if (instance.empty() || instance.size() >= sizeof EventRecord::object) continue;
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      if (what == "why") {
        if (!line.empty() && (why_not_.size() < kMostRows || why_not_.contains(instance))) why_not_[instance] = line;
        continue;
      }
      if (what == "at" || what == "idle") why_not_.erase(instance);
      if (what == "torn" || what == "idle") ++unread_;
      if (what == "at" && !line.empty()) {
        ++samples_;
        stands(instance, std::string(line), late);
      }
    }
  }

  void stands(const std::string& instance, const std::string& place, Late late) {
    auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& each) { return each.instance == instance; });
    if (row == rows_.end()) {
      if (rows_.size() == kMostRows) return;
      row = rows_.insert(rows_.end(), Row{.instance = instance, .letters = {}, .places = {}});
    }
    if (letter_of(*row, place) == kElsewhere && late == Late::no) write(*row);
    add_letter(*row, std::string(1, letter_of(*row, place)));
  }

  /// Adds a place that is new, if it fits.
  char letter_of(Row& row, const std::string& place) const {
    const auto known = std::find(row.places.begin(), row.places.end(), place);
    const auto letter = static_cast<char>('a' + (known - row.places.begin()));
    if (known != row.places.end()) return letter;
    if (room_in(row) < kLeastRoom + kBeforePlace + place.size() || row.places.size() == kMostPlaces) return kElsewhere;
    row.places.push_back(place);
    return letter;
  }

  /// Whether a sample is due that comes between two usual ones.
  [[nodiscard]] bool is_time() const {
    const std::int64_t tick = context_.faster.count();
    const std::int64_t since = context_.sink.now() - usual_ns_;
    return period_ < context_.period && (since + tick / 2) % period_.count() < tick;
  }

  /// A row has one period: where that changes, the next row begins.
  void choose_period() {
    usual_ns_ = context_.sink.now();
    const std::chrono::nanoseconds period = context_.is_faster() ? faster_period() : context_.period;
    if (period == period_) return;
    for (Row& row : rows_) write(row);
    period_ = period;
  }

  /// The shortest one in which a sample takes no more than its share of a core.
  [[nodiscard]] std::chrono::nanoseconds faster_period() const {
    for (const int times : {1, 2, 5}) {
      const std::chrono::nanoseconds period = times * context_.faster;
      const double share = static_cast<double>(cost_ns_) / static_cast<double>(period.count());
      const bool fits = period < context_.period && context_.period % period == period.zero();
      if (fits && cost_ns_ > 0 && share <= kShareOfACore) return period;
    }
    return context_.period;
  }

  /// For more letters, or a place.
  [[nodiscard]] std::size_t room_in(const Row& row) const {
    std::size_t used = period_name(period_).size() + 1 + row.letters.size();
    for (const std::string& each : row.places) used += kBeforePlace + each.size();
    return kText - std::min(kText, used);
  }

  static void add_letter(Row& row, const std::string& letter) {
    row.letters += letter;
    row.due = false;
  }

  // Ticks that were missed: nothing is known of them.
  void fill_gap() {
    const std::int64_t now = context_.sink.now();
    const std::int64_t period = period_.count();
    const std::int64_t missed = last_ns_ == 0 ? 0 : (now - last_ns_ + period / 2) / period - 1;
    last_ns_ = now;
    for (Row& row : rows_) {
      if (row.letters.empty() || missed <= 0) continue;
      if (missed >= static_cast<std::int64_t>(room_in(row))) {
        row = Row{.instance = row.instance, .letters = {}, .places = {}};
      } else {
        row.letters.append(static_cast<std::size_t>(missed), kNotMeasured);
      }
    }
  }

  /// The last letter is of the tick before the event.
  void write(Row& row) {
    if (row.letters.find_first_not_of(kNotMeasured) != std::string::npos) {
      std::string text = period_name(period_) + ' ' + row.letters;
      for (std::size_t i = 0; i < row.places.size(); ++i) {
        text.append(1, ' ').append(1, static_cast<char>('a' + i)).append(1, '=').append(row.places[i]);
      }
      context_.sink.event(row.instance, std::string(kPythonFrames), std::move(text), TraceSink::Budget::of_object);
    }
    row = Row{.instance = row.instance, .letters = {}, .places = {}, .due = row.due};
  }

  ProbeContext context_;
  AskedChild child_;
  std::chrono::nanoseconds period_;  // each letter of the rows stands for so long
  Family& family_;
  std::vector<Row> rows_;
  std::map<std::string, std::string, std::less<>> why_not_;  // by instance
  std::string request_;
  std::string gap_;
  int unanswered_ = 0;
  std::int64_t last_ns_ = 0;
  std::int64_t usual_ns_ = 0;  // time of the last usual reading
  std::int64_t cost_ns_ = 0;   // processor time of the last sample
  std::int64_t samples_ = 0;
  std::int64_t unread_ = 0;
};

std::unique_ptr<Probe> open_python(const ProbeContext& context) {
  if (context.stack_forbidden) throw Unavailable("the site forbids it: stack in [slurm] is \"never\"");
  if (!context.stack && !context.fs.recorded())
    throw Absent("it is off by default (reveal-run --stack, srun --reveal=stack=on)", Absence::off);
  need_job(context);
  if (!context.fs.live() && !context.fs.recorded()) throw Unavailable("a copied tree has no processes to look into");
  if (context.fs.fact("@python/open", [] { return std::string("ok"); }) != "ok") {
    throw Unavailable("it was not recorded");
  }
  return std::make_unique<PythonProbe>(context);
}

const RegisteredProbe entry{
    {.name = "python",
     .help = "Place of the main thread of each Python process (function, file, line); off by default",
     .period = 1s,
     .may_block = true,
     .families = kFamilies,
     .open = open_python,
     .remedy = "reveal-run --stack -- COMMAND or srun --reveal=stack=on, on x86-64; Python 3.8 to 3.13, "
               "kernel.yama.ptrace_scope = 0",
     .faster_while_unusual = 100ms}};

}  // namespace
}  // namespace reveal::probe::python
