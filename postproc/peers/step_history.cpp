#include "postproc/peers/step_history.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/excursion.h"
#include "postproc/numerics/median.h"
#include "postproc/numerics/running_medians.h"
#include "postproc/telemetry/call_facts.h"

namespace reveal {
namespace {

constexpr std::size_t kMostRanks = 64;  // ranks of a node: process slots are fewer
constexpr std::int64_t kMostPoints = 4096;
constexpr std::int64_t kMostPointsOfRank = 1024;
constexpr std::int64_t kMostStepNumber = INT64_MAX / 3;     // numbers and times: sums of two are within the type
constexpr std::int64_t kLongestTaken = 86'400'000'000'000;  // longest step, ns
constexpr std::size_t kSmoothed = 9;    // steps: a checkpoint or a validation between two of them is no slower step
constexpr std::size_t kWarmUp = 5;      // steps
constexpr double kCpuWindow = 5;        // s
constexpr std::size_t kLeastCells = 3;  // whole cells of the grid, to compute the cpu time of an interval

/// A rank's steps in order: a trace may hold anything.
using RankSteps = std::vector<const TrainingStep*>;

std::map<std::string, RankSteps> steps_by_rank(const std::vector<TrainingStep>& steps) {
  std::map<std::string, RankSteps> ranks;
  for (const TrainingStep& step : steps) {
    const bool possible = step.number >= 1 && step.number < kMostStepNumber && step.begin_ns > -kMostStepNumber &&
                          step.begin_ns < kMostStepNumber;
    if (!possible || (ranks.size() == kMostRanks && !ranks.contains(step.rank))) continue;
    ranks[step.rank].push_back(&step);
  }
  for (auto& [rank, its] : ranks) {
    std::stable_sort(its.begin(), its.end(), [](const auto* a, const auto* b) { return a->number < b->number; });
    const auto out_of_order = [](const TrainingStep* a, const TrainingStep* b) {
      return b->number <= a->number || b->begin_ns <= a->begin_ns;
    };
    its.erase(std::unique(its.begin(), its.end(), out_of_order), its.end());
  }
  return ranks;
}

double seconds_of(const TrainingStep& step) {
  const bool known = step.duration_ns > 0 && step.duration_ns <= kLongestTaken;
  return known ? static_cast<double>(step.duration_ns) * 1e-9 : kNaN;
}

/// A point for so many steps that those of all ranks are not too many.
std::int64_t point_steps_of(const std::map<std::string, RankSteps>& ranks) {
  std::int64_t last = 1;
  for (const auto& [rank, steps] : ranks) last = std::max(last, steps.back()->number);
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(ranks.size(), 1));
  const std::int64_t points = std::min(kMostPointsOfRank, kMostPoints / count);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(last / points + 1)));
}

StepTrend trend_of(const std::string& rank, const RankSteps& steps, std::int64_t point_steps, std::int64_t utc_ns) {
  StepTrend trend{.rank = rank, .steps = std::ssize(steps), .point_steps = point_steps, .begins = {}};
  std::int64_t last_begin = 0;
  std::int64_t next_point = -1;  // -1: there is none so far
  for (std::size_t i = 0; i < steps.size();) {
    const std::int64_t point = (steps[i]->number - 1) / point_steps;
    std::int64_t count = 0;
    double later = 0;  // sum, against the first of them
    const std::int64_t first_ns = steps[i]->begin_ns;
    for (; i < steps.size() && (steps[i]->number - 1) / point_steps == point; ++i, ++count)
      later += static_cast<double>(steps[i]->begin_ns - first_ns);
    if (count < point_steps) continue;
    const std::int64_t begin = first_ns + std::llround(later / static_cast<double>(count));
    if (next_point < 0) {
      trend.first_point = point;
      trend.begin_utc_ns = begin + utc_ns;
    } else {
      for (; next_point < point; ++next_point) trend.begins += "- ";
      trend.begins += std::to_string((begin - last_begin) / 1000) + ' ';
    }
    next_point = point + 1;
    // The rounding error is not lost.
    last_begin = trend.begins.empty() ? begin : last_begin + (begin - last_begin) / 1000 * 1000;
  }
  if (!trend.begins.empty()) trend.begins.pop_back();
  return trend;
}

bool is_inside(std::size_t place, std::span<const Interval> intervals) {
  return std::any_of(intervals.begin(), intervals.end(),
                     [place](const Interval& at) { return place >= at.begin && place < at.end; });
}

/// A part of the steps inside the interval and outside of all of them; NaN where it is not known of most.
struct InAndOut {
  double inside = kNaN, outside = kNaN;
};
using Statistic = double (*)(const std::vector<double>& values);
InAndOut in_and_out(const std::vector<double>& values, Interval at, std::span<const Interval> all,
                    Statistic statistic) {
  std::vector<double> inside(values.begin() + static_cast<std::ptrdiff_t>(at.begin),
                             values.begin() + static_cast<std::ptrdiff_t>(at.end));
  std::vector<double> outside;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!is_inside(i, all)) outside.push_back(values[i]);
  }
  const auto mostly_known = [](const std::vector<double>& some) {
    const auto unknown = std::count_if(some.begin(), some.end(), [](double value) { return std::isnan(value); });
    return !some.empty() && 2 * unknown < std::ssize(some);
  };
  return {mostly_known(inside) ? statistic(inside) : kNaN, mostly_known(outside) ? statistic(outside) : kNaN};
}
InAndOut medians(const std::vector<double>& values, Interval at, std::span<const Interval> all) {
  return in_and_out(values, at, all, [](const std::vector<double>& some) { return median_of(some); });
}
/// For a part that only some of the steps have.
InAndOut means(const std::vector<double>& values, Interval at, std::span<const Interval> all) {
  return in_and_out(values, at, all, [](const std::vector<double>& some) {
    return mean_inside(some, {0, some.size()});
  });
}

/// Steps that have more to do for a GPU take no more cpu time: so it is useless with a GPU.
bool may_use_gpu(const Telemetry& telemetry) {
  return std::any_of(telemetry.channels.begin(), telemetry.channels.end(), [](const Channel& channel) {
    return channel.metric.starts_with("gpu.") ||
           (channel.metric == "stack.calls" && call_instance(channel.instance).function.starts_with("cu"));
  });
}

/// Seconds per second of a counter of nanoseconds, by grid step; empty if it was not measured.
std::vector<double> rate_of(const Telemetry& telemetry, std::string_view metric, const std::string& instance) {
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric != metric || telemetry.channels[i].instance != instance) continue;
    const std::span<const double> series = telemetry.series(i);
    std::vector<double> rate(series.begin(), series.end());
    for (double& value : rate) value /= telemetry.step_seconds * 1e9;
    return rate;
  }
  return {};
}

/// Cpus that a process used, by grid step; empty if they do not show how much work it had.
std::vector<double> cpus_of_rank(const Telemetry& telemetry, const std::string& rank) {
  return may_use_gpu(telemetry) ? std::vector<double>() : rate_of(telemetry, "process.cpu_time", rank);
}

/// Samples of a main thread, in one kind of steps, by their weights: those that were read faster depend on each other.
struct LoaderWaits {
  double waits = 0, weight = 0, samples = 0;

  void add(bool waiting, double of_sample) {
    samples += 1;
    weight += of_sample;
    waits += waiting ? of_sample : 0;
  }
  [[nodiscard]] double share() const { return waits / weight; }
  /// Also where all of a few samples agree.
  [[nodiscard]] double standard_error() const {
    const double share = (waits + 1) / (weight + 2);
    return std::sqrt(share * (1 - share) / (weight + 2));
  }
};

/// A rank's steps with the data to find the slow ones.
class RankTrend {
 public:
  RankTrend(const std::string& rank, const RankSteps& steps, std::int64_t utc_ns, const Telemetry& telemetry,
            std::span<const PythonSamples> python)
      : rank_(rank),
        steps_(steps),
        utc_ns_(utc_ns),
        telemetry_(telemetry),
        cpus_(cpus_of_rank(telemetry, rank)),
        communication_(rate_of(telemetry, "stack.communication", rank)),
        gc_(rate_of(telemetry, "stack.time", rank + "/python.gc")) {
    for (const PythonSamples& process : python) {
      if (process.process == rank) python_ = &process;
    }
    if (python_ != nullptr) {
      for (const std::string& place : python_->places) is_loader_wait_.push_back(waits_for_loader(place));
    }
    seconds_.reserve(steps.size());
    waiting_.reserve(steps.size());
    collecting_.reserve(steps.size());
    for (const TrainingStep* step : steps) {
      const double seconds = seconds_of(*step);
      const bool waits = !std::isnan(seconds) && step->waiting_ns >= 0 && step->waiting_ns <= kLongestTaken;
      seconds_.push_back(seconds);
      waiting_.push_back(waits ? static_cast<double>(step->waiting_ns) * 1e-9 : kNaN);
      const bool collects = !std::isnan(seconds) && step->gc_ns >= 0 && step->gc_ns <= kLongestTaken;
      collecting_.push_back(collects ? static_cast<double>(step->gc_ns) * 1e-9 : kNaN);
    }
  }

  [[nodiscard]] std::vector<SlowSteps> slow(const EffectiveRule& rule) const {
    const double usual = median_of(seconds_);  // slow ones count, too: they may be most of them
    if (!(usual > 0)) return {};
    const double least_excess = std::max(rule.threshold("min_share") * usual, rule.threshold("min_extra") * 1e-3);
    const double least_steps = std::max(rule.threshold("min_steps"), std::ceil(rule.threshold("min_seconds") / usual));
    if (!(3 * least_steps < static_cast<double>(seconds_.size()))) return {};
    const auto length = static_cast<std::size_t>(least_steps);
    const std::vector<Excursion> found = slow_places({.min_excess = least_excess,
                                                      .left_out = least_excess / 2,
                                                      .min_length = length,
                                                      .window = length,
                                                      .min_score = rule.threshold("min_score")});
    const std::vector<Interval> all = places(found);
    std::vector<SlowSteps> slow;
    for (const Excursion& excursion : found) {
      // An excursion from the start is the job's warm-up.
      if (excursion.recurring || !excursion.beyond || excursion.at.begin < kWarmUp) continue;
      const InAndOut took = medians(seconds_, excursion.at, all);
      if (!(took.inside - took.outside >= least_excess)) continue;
      slow.push_back(describe(excursion, took, all));
    }
    return slow;
  }

 private:
  /// Slow for most of the time, too: for a while, or from some step on to the end.
  [[nodiscard]] std::vector<Excursion> slow_places(const ExcursionSearch& search) const {
    const std::vector<double> smooth = running_medians(seconds_, kSmoothed);
    std::vector<Excursion> lasting = find_lasting_excursions(smooth, search);
    if (!lasting.empty()) return lasting;
    if (const auto rise = find_rise(smooth, search)) return {*rise};
    return find_excursions(smooth, search);
  }

  [[nodiscard]] SlowSteps describe(const Excursion& excursion, const InAndOut& took,
                                   std::span<const Interval> all) const {
    const TrainingStep& first = *steps_[excursion.at.begin];
    const TrainingStep& last = *steps_[excursion.at.end - 1];
    SlowSteps slow{.rank = rank_,
                   .first = first.number,
                   .last = last.number,
                   .begin_utc_ns = first.begin_ns + utc_ns_,
                   .end_utc_ns = last.begin_ns + utc_ns_ + std::llround(took.inside * 1e9),
                   .score = excursion.score,
                   .seconds = took.inside,
                   .usual_seconds = took.outside,
                   .waiting = {},
                   .usual_waiting = {},
                   .cpu = {},
                   .usual_cpu = {},
                   .communication = {},
                   .usual_communication = {},
                   .gc = {},
                   .usual_gc = {},
                   .input = {},
                   .usual_input = {},
                   .input_error = {}};
    const InAndOut waiting = medians(waiting_, excursion.at, all);
    if (!std::isnan(waiting.inside) && !std::isnan(waiting.outside)) {
      slow.waiting = waiting.inside;
      slow.usual_waiting = waiting.outside;
    }
    set_part(cpus_, excursion.at, took, all, slow.cpu, slow.usual_cpu);
    set_part(communication_, excursion.at, took, all, slow.communication, slow.usual_communication);
    const InAndOut collecting = means(collecting_, excursion.at, all);
    if (!std::isnan(collecting.inside) && !std::isnan(collecting.outside)) {
      slow.gc = collecting.inside;
      slow.usual_gc = collecting.outside;
    } else {
      set_part(gc_, excursion.at, took, all, slow.gc, slow.usual_gc);  // a trace of an earlier version
    }
    set_input(excursion.at, took, all, slow);
    return slow;
  }

  /// The index of the step in which the time lies; nothing before the first and behind the last.
  [[nodiscard]] std::optional<std::size_t> step_at(std::int64_t time_ns) const {
    const auto next = std::upper_bound(steps_.begin(), steps_.end(), time_ns,
                                       [](std::int64_t time, const auto* step) { return time < step->begin_ns; });
    if (next == steps_.begin() || next == steps_.end()) return std::nullopt;
    return static_cast<std::size_t>(next - steps_.begin()) - 1;
  }

  void set_input(Interval at, const InAndOut& took, std::span<const Interval> all, SlowSteps& slow) const {
    constexpr double kFewest = 10;  // samples
    if (python_ == nullptr) return;
    LoaderWaits inside;
    LoaderWaits usual;
    for (const PythonSamples::Sample& sample : python_->samples) {
      const auto step = step_at(sample.time_ns);
      if (!step) continue;
      const bool waits =
          sample.place != PythonSamples::kElsewhere && is_loader_wait_[static_cast<std::size_t>(sample.place)];
      if (*step >= at.begin && *step < at.end) {
        inside.add(waits, sample.weight);
      } else if (!is_inside(*step, all)) {
        usual.add(waits, sample.weight);
      }
    }
    if (inside.samples < kFewest || usual.samples < kFewest) return;
    slow.input = inside.share() * took.inside;
    slow.usual_input = usual.share() * took.outside;
    slow.input_error = std::hypot(inside.standard_error() * took.inside, usual.standard_error() * took.outside);
  }

  /// Time of each step out of a rate on the grid, inside and usually.
  void set_part(const std::vector<double>& rate, Interval at, const InAndOut& took, std::span<const Interval> all,
                std::optional<double>& inside, std::optional<double>& usual) const {
    if (rate.empty()) return;
    std::vector<Interval> busy;
    busy.reserve(all.size());
    for (const Interval& each : all) busy.push_back(touched(each));
    const Interval whole = within(at);
    const double mean = whole.length() < kLeastCells ? kNaN : mean_inside(rate, whole);
    const auto window = static_cast<std::size_t>(std::max(1.0, kCpuWindow / telemetry_.step_seconds));
    const std::vector<double> elsewhere = reference_means(rate, busy, window);
    if (std::isnan(mean) || elsewhere.empty()) return;
    inside = mean * took.inside;
    usual = elsewhere[elsewhere.size() / 2] * took.outside;
  }

  /// The begin of a step, in steps of the grid.
  [[nodiscard]] double on_grid(std::size_t step) const {
    const double seconds = static_cast<double>(steps_[step]->begin_ns + utc_ns_ - telemetry_.begin_utc_ns) * 1e-9;
    return std::clamp(seconds / telemetry_.step_seconds, 0.0, static_cast<double>(telemetry_.samples));
  }

  /// The grid's steps that lie in these of the training, and those in which a part of them does.
  [[nodiscard]] Interval within(Interval at) const {
    const auto begin = static_cast<std::size_t>(std::ceil(on_grid(at.begin)));
    return {begin, std::max(begin, static_cast<std::size_t>(on_grid(at.end - 1)))};
  }
  [[nodiscard]] Interval touched(Interval at) const {
    return {static_cast<std::size_t>(on_grid(at.begin)), static_cast<std::size_t>(std::ceil(on_grid(at.end - 1)))};
  }

  const std::string& rank_;
  const RankSteps& steps_;
  std::int64_t utc_ns_;
  const Telemetry& telemetry_;
  const PythonSamples* python_ = nullptr;
  std::vector<bool> is_loader_wait_;                    // by place of these samples
  std::vector<double> cpus_, communication_, gc_;       // seconds per second, on the grid
  std::vector<double> seconds_, waiting_, collecting_;  // by step
};

}  // namespace

StepHistory step_history_of(const NodeTrace& trace, const Telemetry& telemetry, const EffectiveRule& rule,
                            std::span<const PythonSamples> python) {
  const std::map<std::string, RankSteps> ranks = steps_by_rank(trace.steps);
  const std::int64_t point_steps = point_steps_of(ranks);
  StepHistory history;
  if (trace.utc_minus_monotonic_ns < -kMostStepNumber || trace.utc_minus_monotonic_ns > kMostStepNumber) return history;
  for (const auto& [rank, steps] : ranks) {
    history.ranks.push_back(trend_of(rank, steps, point_steps, trace.utc_minus_monotonic_ns));
    if (!rule.enabled()) continue;
    const auto slow = RankTrend(rank, steps, trace.utc_minus_monotonic_ns, telemetry, python).slow(rule);
    history.slow.insert(history.slow.end(), slow.begin(), slow.end());
  }
  return history;
}

std::vector<double> begins_of(const StepTrend& trend) {
  constexpr std::int64_t kLongestPoint = std::int64_t{1} << 50;  // microseconds
  std::vector<double> begins;
  if (trend.begin_utc_ns == 0) return begins;
  std::int64_t at = trend.begin_utc_ns / 1000;
  begins.push_back(static_cast<double>(at) * 1e-6);
  std::string_view rest = trend.begins;
  for (std::string_view word = next_word(rest); !word.empty() && std::ssize(begins) < kMostPoints;
       word = next_word(rest)) {
    const auto later = parse_int(word);
    const bool known = later && *later >= 0 && *later <= kLongestPoint && at < INT64_MAX / 2;
    if (known) at += *later;
    begins.push_back(known ? static_cast<double>(at) * 1e-6 : kNaN);
  }
  return begins;
}

}  // namespace reveal
