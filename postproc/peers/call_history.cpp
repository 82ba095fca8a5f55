#include "postproc/peers/call_history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/excursion.h"
#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/call_facts.h"

namespace reveal {
namespace {

constexpr std::size_t kMostCallers = 64;     // callers of a node: process slots are fewer
constexpr std::size_t kMostFunctions = 256;  // functions of a rank
constexpr std::ptrdiff_t kMostQuiet = 16;    // quiet times of a rank
constexpr double kShortestQuiet = 5;         // s
constexpr double kMostUnknown = 3;           // s: a row comes once a second, and one may be late
constexpr std::int64_t kSecondsBefore = 32;
constexpr double kInsideMost = 0.5;        // share of the quiet time
constexpr double kSamePlace = 0.8;         // share of the samples
constexpr std::size_t kFewestInPlace = 4;  // samples of the main thread
constexpr std::size_t kMostCommunicators = 8;
constexpr double kMostCounted = 4e18;  // ns: a trace may hold anything

struct CalledFunction {
  std::string name;
  bool waits = false, collective = false;
  std::span<const double> calls;
  std::span<const double> in_flight;  // empty: not measured
};

struct RankChannels {
  std::vector<CalledFunction> functions;  // none: it is a rank beside others, and called nothing that is counted
  std::span<const double> cpu_time;
  std::vector<std::span<const double>> io;
};

/// The main process of a launcher has this name; others may be ranks or helpers.
bool is_named_rank(std::string_view process) {
  return process.starts_with("rank");
}

std::map<std::string, RankChannels> channels_by_rank(const Telemetry& telemetry) {
  std::map<std::string, RankChannels> ranks;
  std::map<std::string, std::span<const double>> in_flight;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    const std::size_t slash = channel.instance.find('/');
    if (slash == std::string::npos) continue;
    if (channel.metric == "stack.in_flight") in_flight[channel.instance] = telemetry.series(i);
    if (channel.metric != "stack.calls") continue;
    const std::string rank = channel.instance.substr(0, slash);
    if (ranks.size() == kMostCallers && !ranks.contains(rank)) continue;
    std::vector<CalledFunction>& functions = ranks[rank].functions;
    if (functions.size() == kMostFunctions) continue;
    const std::string name = channel.instance.substr(slash + 1);
    functions.push_back({.name = name,
                         .waits = waits_for_ranks(name),
                         .collective = is_collective(name),
                         .calls = telemetry.series(i),
                         .in_flight = {}});
  }
  for (auto& [rank, channels] : ranks) {
    for (CalledFunction& function : channels.functions) {
      const auto known = in_flight.find(rank + '/' + function.name);
      if (known != in_flight.end()) function.in_flight = known->second;
    }
  }
  const bool counted = !ranks.empty();
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const std::string& instance = telemetry.channels[i].instance;
    const std::string& metric = telemetry.channels[i].metric;
    if (counted && metric == "process.cpu_time" && is_named_rank(instance) && ranks.size() < kMostCallers)
      ranks[instance];
    const auto rank = ranks.find(instance);
    if (rank == ranks.end()) continue;
    if (metric == "process.cpu_time") rank->second.cpu_time = telemetry.series(i);
    // Files that are mapped are read by no call.
    if (metric == "process.read_by_calls" || metric == "process.written_by_calls" || metric == "process.read_bytes" ||
        metric == "process.write_bytes") {
      rank->second.io.push_back(telemetry.series(i));
    }
  }
  return ranks;
}

/// Sum of the values that are known in the interval; nothing where none is.
std::optional<double> sum_in(std::span<const double> series, Interval at) {
  std::optional<double> sum;
  for (std::size_t t = at.begin; t < std::min(at.end, series.size()); ++t) {
    if (!std::isnan(series[t])) sum = sum.value_or(0) + series[t];
  }
  return sum;
}

std::span<const double> part_of(std::span<const double> series, Interval at) {
  const std::size_t end = std::min(at.end, series.size());
  return series.subspan(std::min(at.begin, end), end - std::min(at.begin, end));
}

std::int64_t count_of(double calls) {
  return calls > 0 && calls < kMostCounted ? std::llround(calls) : 0;
}

/// Its calls are made beside others, which are counted by themselves: those of gloo by PyTorch's layer above it.
bool is_counted_twice(std::string_view function) {
  const CallFacts& facts = call_facts(function);
  return facts.library == CallLibrary::gloo && facts.meets != Meets::all;
}

/// The calls that wait for others are known in each step: none of the functions that were called before rests.
std::vector<bool> known_steps(const RankChannels& rank, std::size_t samples) {
  std::vector<bool> known(samples, false);
  for (const CalledFunction& function : rank.functions) {
    for (std::size_t t = 0; t < samples && function.waits; ++t) known[t] = known[t] || !std::isnan(function.calls[t]);
  }
  for (const CalledFunction& function : rank.functions) {
    if (!function.waits || is_counted_twice(function.name)) continue;
    bool called = false;
    for (std::size_t t = 0; t < samples; ++t) {
      called = called || function.calls[t] > 0;
      known[t] = known[t] && !(called && std::isnan(function.calls[t]));
    }
  }
  return known;
}

/// Steps in which no such call was made: from the first call on, gaps of a few rows belong to it.
std::vector<Interval> quiet_steps(const RankChannels& rank, std::size_t samples, double step_seconds) {
  std::vector<Interval> quiet;
  const std::vector<bool> known = known_steps(rank, samples);
  std::optional<std::size_t> last_call;
  std::size_t unknown = 0;  // steps in a row
  const auto close = [&](std::size_t end) {
    if (last_call && end > *last_call && static_cast<double>(end - *last_call - 1) * step_seconds >= kShortestQuiet)
      quiet.push_back({*last_call + 1, end});
  };
  for (std::size_t t = 0; t < samples; ++t) {
    const bool called = std::any_of(rank.functions.begin(), rank.functions.end(), [t](const CalledFunction& function) {
      return function.waits && function.calls[t] > 0;
    });
    unknown = known[t] ? 0 : unknown + 1;
    if (called) {
      close(t);
      last_call = t;
    } else if (static_cast<double>(unknown) * step_seconds > kMostUnknown) {
      close(t + 1 - unknown);
      if (last_call) last_call = t;  // until now there may have been one
    }
  }
  close(samples);
  return quiet;
}

/// The step in which a rank of the node called a collective first.
std::optional<std::size_t> first_collective(const std::map<std::string, RankChannels>& ranks) {
  std::optional<std::size_t> first;
  for (const auto& [name, rank] : ranks) {
    for (const CalledFunction& function : rank.functions) {
      if (!function.collective) continue;
      const auto call =
          std::find_if(function.calls.begin(), function.calls.end(), [](double calls) { return calls > 0; });
      const auto step = static_cast<std::size_t>(call - function.calls.begin());
      if (call != function.calls.end()) first = std::min(first.value_or(step), step);
    }
  }
  return first;
}

/// Only ranks call the libraries that are not among these, as far as it is known. Launchers, workers of a data loader
/// and services that keep logs run Python, too. The workers also call operators of PyTorch, but make no backward pass.
bool is_a_rank(const std::string& name, const RankChannels& channels, std::size_t samples) {
  constexpr std::array kOfOthers = {CallLibrary::unknown, CallLibrary::cuda, CallLibrary::cuda_driver,
                                    CallLibrary::python};
  return is_named_rank(name) ||
         std::any_of(channels.functions.begin(), channels.functions.end(), [&](const CalledFunction& function) {
           const CallFacts& facts = call_facts(function.name);
           const bool is_operator = facts.library == CallLibrary::torch && facts.role != CallRole::pass;
           return !is_operator && std::find(kOfOthers.begin(), kOfOthers.end(), facts.library) == kOfOthers.end() &&
                  sum_in(function.calls, {0, samples}).value_or(0) > 0;
         });
}

/// Behind a script or an agent (torchrun), other processes make the calls: the main ones are then no ranks.
bool main_processes_call(const std::map<std::string, RankChannels>& ranks, std::size_t samples) {
  return std::all_of(ranks.begin(), ranks.end(), [samples](const auto& each) {
    return is_named_rank(each.first) ||
           std::none_of(each.second.functions.begin(), each.second.functions.end(),
                        [samples](const CalledFunction& function) {
                          return function.collective && sum_in(function.calls, {0, samples}).value_or(0) > 0;
                        });
  });
}

/// All of the time since the others called, of a rank that never did and was there; nothing of other processes.
std::vector<Interval> silence_of(const std::string& name, const RankChannels& rank, std::optional<std::size_t> first,
                                 const Telemetry& telemetry) {
  const bool waited = std::any_of(rank.functions.begin(), rank.functions.end(), [&](const CalledFunction& function) {
    return function.waits && sum_in(function.calls, {0, telemetry.samples}).value_or(0) > 0;
  });
  const auto known =
      std::find_if(rank.cpu_time.begin(), rank.cpu_time.end(), [](double time) { return !std::isnan(time); });
  const auto born = static_cast<std::size_t>(known - rank.cpu_time.begin());
  if (!is_a_rank(name, rank, telemetry.samples) || waited || known == rank.cpu_time.end() ||
      born > first.value_or(born))
    return {};
  const Interval at{first.value_or(born), telemetry.samples};
  if (static_cast<double>(at.length()) * telemetry.step_seconds < kShortestQuiet) return {};
  return {at};
}

/// The longest ones, and the last.
std::vector<Interval> worth_keeping(std::vector<Interval> all) {
  if (std::ssize(all) <= kMostQuiet) return all;
  std::stable_sort(all.begin(), all.end() - 1,
                   [](const Interval& a, const Interval& b) { return a.length() > b.length(); });
  all.erase(all.begin() + kMostQuiet - 1, all.end() - 1);
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return all;
}

/// Cpu time of processes of the job that are no ranks: a process that a rank has started may work for it.
std::vector<double> cpu_time_beside(const std::map<std::string, RankChannels>& ranks, const Telemetry& telemetry) {
  std::vector<double> beside;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric != "job.cpu_time") continue;
    const std::span<const double> series = telemetry.series(i);
    if (beside.empty()) beside.assign(series.size(), 0);
    for (std::size_t t = 0; t < series.size(); ++t) beside[t] += series[t];
  }
  for (const auto& [name, rank] : ranks) {
    if (rank.functions.empty() || !is_a_rank(name, rank, telemetry.samples)) continue;
    for (std::size_t t = 0; t < std::min(beside.size(), rank.cpu_time.size()); ++t) {
      if (!std::isnan(rank.cpu_time[t])) beside[t] -= rank.cpu_time[t];
    }
  }
  return beside;
}

/// Processes of the job that a signal or a debugger had stopped.
std::span<const double> stopped_in(const Telemetry& telemetry) {
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric == "job.stopped") return telemetry.series(i);
  }
  return {};
}

class RankView {
 public:
  RankView(const std::string& name, const RankChannels& channels, const Telemetry& telemetry,
           std::span<const double> beside, std::span<const PythonSamples> python,
           std::span<const StandingProcess> standing, std::int64_t utc_minus_monotonic_ns)
      : channels_(channels),
        telemetry_(telemetry),
        cpu_time_beside_(beside),
        stopped_(stopped_in(telemetry)),
        utc_ns_(utc_minus_monotonic_ns) {
    for (const PythonSamples& process : python) {
      if (process.process == name) python_ = &process;
    }
    for (const StandingProcess& process : standing) {
      if (process.process == name) standing_.push_back(&process);
    }
  }

  [[nodiscard]] QuietTime describe(Interval at) const {
    QuietTime quiet;
    quiet.begin_utc_ns = utc_of(at.begin);
    quiet.end_utc_ns = utc_of(at.end);
    quiet.to_the_end = static_cast<double>(telemetry_.samples - at.end) * telemetry_.step_seconds <= kMostUnknown;
    if (quiet.to_the_end) quiet.process_ended_utc_ns = end_of_process(at);
    find_inside(at, quiet);
    quiet.last = last_before(at);
    const auto cpu = sum_in(channels_.cpu_time, at);
    if (cpu) quiet.cpus = *cpu * 1e-9 / quiet.seconds();
    const auto beside = sum_in(cpu_time_beside_, at);
    if (beside) quiet.job_cpus = std::max(0.0, *beside * 1e-9 / quiet.seconds());
    const double stopped = mean_of(part_of(stopped_, at));
    const double before = mean_of(part_of(stopped_, {0, at.begin}));
    if (!std::isnan(stopped)) quiet.stopped = stopped - (std::isnan(before) ? 0 : before);
    for (const std::span<const double> bytes : channels_.io) {
      if (const auto sum = sum_in(bytes, at)) quiet.io_bytes = quiet.io_bytes.value_or(0) + *sum;
    }
    quiet.place = place_in(quiet);
    const Interval until_then{0, at.begin};
    for (const CalledFunction& function : channels_.functions) {
      if (function.waits) {
        quiet.calls.push_back({function.name, count_of(sum_in(function.calls, until_then).value_or(0))});
      } else {
        quiet.other_calls += count_of(sum_in(function.calls, at).value_or(0));
      }
    }
    tell_before(at, quiet);
    quiet.communicators = communicators_in(quiet);
    return quiet;
  }

 private:
  [[nodiscard]] std::int64_t utc_of(std::size_t step) const {
    return telemetry_.begin_utc_ns + std::llround(static_cast<double>(step) * telemetry_.step_seconds * 1e9);
  }

  /// 0 where it was there until shortly before the end, or where that is not known.
  [[nodiscard]] std::int64_t end_of_process(Interval at) const {
    const auto known = std::find_if(channels_.cpu_time.rbegin(), channels_.cpu_time.rend(),
                                    [](double value) { return !std::isnan(value); });
    if (known == channels_.cpu_time.rend()) return 0;
    const auto end = static_cast<std::size_t>(channels_.cpu_time.rend() - known);
    const bool before = static_cast<double>(at.end - std::min(end, at.end)) * telemetry_.step_seconds > kMostUnknown;
    return before ? utc_of(end) : 0;
  }

  void find_inside(Interval at, QuietTime& quiet) const {
    for (const CalledFunction& function : channels_.functions) {
      double longest = 0;
      for (std::size_t t = at.begin; t < std::min(at.end, function.in_flight.size()); ++t) {
        quiet.timed = quiet.timed || (function.waits && !std::isnan(function.in_flight[t]));
        if (function.in_flight[t] > longest) longest = function.in_flight[t];
      }
      const double seconds = longest * 1e-9;
      const bool better =
          function.waits == waits_for_ranks(quiet.inside) ? seconds > quiet.inside_seconds : function.waits;
      if (seconds < kInsideMost * quiet.seconds() || !(quiet.inside.empty() || better)) continue;
      quiet.inside = function.name;
      quiet.inside_seconds = seconds;
    }
  }

  [[nodiscard]] std::string last_before(Interval at) const {
    std::string last;
    std::size_t latest = 0;
    for (const CalledFunction& function : channels_.functions) {
      if (!function.collective) continue;
      for (std::size_t t = at.begin; t > latest; --t) {
        if (!(function.calls[t - 1] > 0)) continue;
        last = function.name;
        latest = t;
      }
    }
    return last;
  }

  [[nodiscard]] std::string place_in(const QuietTime& quiet) const {
    if (python_ == nullptr) return "";
    std::map<std::int32_t, double> samples;
    double all = 0;
    std::size_t read = 0;
    for (const PythonSamples::Sample& sample : python_->samples) {
      const std::int64_t utc = sample.time_ns + utc_ns_;
      if (utc < quiet.begin_utc_ns || utc >= quiet.end_utc_ns) continue;
      samples[sample.place] += sample.weight;
      all += sample.weight;
      ++read;
    }
    for (const auto& [place, weight] : samples) {
      const bool mostly = weight >= kSamePlace * all;
      if (read >= kFewestInPlace && mostly && place != PythonSamples::kElsewhere)
        return python_->places.at(static_cast<std::size_t>(place));
    }
    return "";
  }

  /// The newest events in it, which are of one time.
  [[nodiscard]] std::vector<LastCollectives> communicators_in(const QuietTime& quiet) const {
    std::vector<LastCollectives> last;
    std::int64_t time_ns = 0;
    for (const StandingProcess* const one : standing_) {
      const std::int64_t utc = one->time_ns + utc_ns_;
      if (utc < quiet.begin_utc_ns || utc >= quiet.end_utc_ns) continue;
      if (one->time_ns != time_ns) last.clear();
      time_ns = one->time_ns;
      if (last.size() == kMostCommunicators) continue;
      last.push_back(one->last);
      last.back().begin_ns += utc_ns_;
    }
    return last;
  }

  void tell_before(Interval at, QuietTime& quiet) const {
    const std::int64_t begin_s = quiet.begin_utc_ns / kSecond;
    const std::int64_t first_s = std::max(begin_s - kSecondsBefore, telemetry_.begin_utc_ns / kSecond + 1);
    if (first_s >= begin_s) return;
    quiet.before_utc_s = first_s;
    const auto step_of = [this](std::int64_t utc_s) {
      const double seconds = static_cast<double>(utc_s * kSecond - telemetry_.begin_utc_ns) * 1e-9;
      return static_cast<std::size_t>(std::llround(std::max(0.0, seconds / telemetry_.step_seconds)));
    };
    Interval part{0, step_of(first_s)};
    double calls = 0;
    for (std::int64_t second = first_s; second < begin_s && part.end <= at.end; ++second) {
      for (const CalledFunction& function : channels_.functions) {
        if (function.collective) calls += sum_in(function.calls, part).value_or(0);
      }
      quiet.before += std::to_string(count_of(calls)) + ' ';
      part = {part.end, step_of(second + 1)};
    }
    if (!quiet.before.empty()) quiet.before.pop_back();
  }

  const RankChannels& channels_;
  const Telemetry& telemetry_;
  std::span<const double> cpu_time_beside_;
  std::span<const double> stopped_;
  std::int64_t utc_ns_;
  const PythonSamples* python_ = nullptr;
  std::vector<const StandingProcess*> standing_;
};

}  // namespace

CallHistory call_history_of(const Telemetry& telemetry, std::span<const PythonSamples> python,
                            std::int64_t utc_minus_monotonic_ns, std::span<const StandingProcess> standing) {
  CallHistory history;
  const std::int64_t utc_ns = std::clamp(utc_minus_monotonic_ns, -PythonSamples::kFarthest, PythonSamples::kFarthest);
  if (!(telemetry.step_seconds > 0)) return history;
  const std::map<std::string, RankChannels> ranks = channels_by_rank(telemetry);
  const std::vector<double> beside = cpu_time_beside(ranks, telemetry);
  const std::optional<std::size_t> first = first_collective(ranks);
  const bool main_ones = main_processes_call(ranks, telemetry.samples);
  for (const auto& [name, channels] : ranks) {
    RankCalls rank{.rank = name, .quiet = {}};
    for (const CalledFunction& function : channels.functions) {
      const std::int64_t calls = count_of(sum_in(function.calls, {0, telemetry.samples}).value_or(0));
      if (function.collective) rank.calls += calls;
      if (call_facts(function.name).role == CallRole::pass) rank.passes += calls;
    }
    const bool silent = rank.calls == 0;
    if (silent && is_named_rank(name) && !main_ones) continue;
    const std::vector<Interval> kept =
        silent ? silence_of(name, channels, first, telemetry)
               : worth_keeping(quiet_steps(channels, telemetry.samples, telemetry.step_seconds));
    if (silent && kept.empty()) continue;
    const RankView view(name, channels, telemetry, beside, python, standing, utc_ns);
    rank.quiet.reserve(kept.size());
    for (const Interval at : kept) rank.quiet.push_back(view.describe(at));
    for (QuietTime& quiet : rank.quiet) quiet.timed = quiet.timed || silent;
    history.ranks.push_back(std::move(rank));
  }
  return history;
}

std::vector<std::int64_t> calls_before(const QuietTime& quiet) {
  std::vector<std::int64_t> calls;
  std::string_view rest = quiet.before;
  for (std::string_view word = next_word(rest); !word.empty() && std::ssize(calls) < kSecondsBefore;
       word = next_word(rest))
    calls.push_back(std::clamp<std::int64_t>(parse_int(word).value_or(0), 0, INT64_MAX / 4));
  return calls;
}

}  // namespace reveal
