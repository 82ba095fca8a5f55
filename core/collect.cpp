#include "core/collect.h"

#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <utility>

#include "core/intervention/ownership.h"
#include "core/intervention/trials.h"
#include "core/job/loaded_libraries.h"
#include "core/job/opened_devices.h"
#include "core/job/sub_cgroups.h"
#include "core/sampler/own_memory.h"
#include "core/sampler/sampler.h"
#include "core/sampler/status_file.h"
#include "core/sampler/usual_ranges.h"
#include "core/snapshot/planned_iterations.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/descriptor_limit.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/random_hex.h"

namespace reveal {
namespace {

constexpr std::int64_t kClockPairPeriod = 10 * kSecond;
constexpr std::int64_t kLate = 10'000'000;
constexpr std::int64_t kSettle = 3 * kSecond;  // from a process's start to its program
constexpr std::int64_t kLongestJobLookPeriod = 20 * kSecond;
constexpr std::int64_t kStartIsOver = 20 * kSecond;  // the job's first looks and the first write are done
constexpr std::size_t kTraceIdBytes = 16;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// The kernel's own bound of the wall clock's error; without a synchronised clock it grows to 16 s.
std::int64_t clock_error_ns() {
  timex state{};
  if (::adjtimex(&state) < 0) return 16 * kSecond;
  return static_cast<std::int64_t>(state.maxerror) * 1000;
}

Sampler::Options sampler_options(const CollectOptions& options) {
  Sampler::Options sampler;
  sampler.interval = options.header.interval;
  sampler.probes = options.probes;
  if (!options.job.empty()) sampler.job = JobSource::parse(options.job);
  sampler.metrics_file = options.metrics_file;
  sampler.own_pid = ::getpid();
  sampler.gpu_library = options.gpu_library;
  sampler.stack = options.stack;
  sampler.stack_forbidden = options.stack_forbidden;
  sampler.stack_budget = options.stack_budget;
  sampler.stack_without = options.stack_without;
  sampler.faster_reading = options.faster_reading;
  sampler.perf_broker = options.perf_broker;
  sampler.call_broker = options.call_broker;
  return sampler;
}

// Time from the recording itself: it runs as fast as it can.
class ReplayTicks {
 public:
  ReplayTicks(KernelTree& fs, std::chrono::nanoseconds interval) : fs_(fs), interval_(interval.count()) {}

  std::optional<Tick> wait() {
    const auto time = fs_.next_tick();
    if (!time) return std::nullopt;
    Tick tick;
    tick.time = *time;
    tick.number = (time->utc_ns + interval_ / 2) / interval_;
    if (last_ > 0) tick.missed = std::max<std::int64_t>(0, (time->monotonic_ns - last_ - interval_ / 2) / interval_);
    last_ = time->monotonic_ns;
    return tick;
  }

 private:
  KernelTree& fs_;
  std::int64_t interval_;
  std::int64_t last_ = 0;
};

// A trace that ends in an error before its first row is not worth a file.
class Beginning {
 public:
  Beginning() = default;
  ~Beginning() {
    std::error_code ignored;
    if (!part_.empty()) std::filesystem::remove(part_, ignored);
  }
  Beginning(const Beginning&) = delete;
  Beginning& operator=(const Beginning&) = delete;
  /// Before, a file of this name is another collector's.
  void made(const std::filesystem::path& trace) { part_ = trace.string() + ".part"; }
  void done() { kept_ = std::exchange(part_, {}); }
  void give_up() { part_ = kept_; }

 private:
  std::filesystem::path part_, kept_;
};

bool has_environment(const Snapshot& snapshot) {
  return std::any_of(snapshot.begin(), snapshot.end(), [](const auto& fact) { return fact.first.starts_with("env."); });
}

Snapshot with_facts_of(const Sampler& sampler, Snapshot snapshot) {
  Snapshot more = sampler.facts();
  std::move(more.begin(), more.end(), std::back_inserter(snapshot));
  std::sort(snapshot.begin(), snapshot.end());
  return snapshot;
}

std::vector<std::string> family_paths(const TraceSink& sink) {
  std::vector<std::string> paths;
  for (const Family& family : sink.families()) paths.push_back(family.spec().path);
  return paths;
}

class Collection {
 public:
  Collection(const CollectOptions& options, const std::atomic<bool>& stop)
      : options_(options), stop_(stop), fs_(options.root) {
    fs_.limit_kept_files(raise_descriptor_limit());
    if (!options.record.empty()) fs_.record_to(options.record);
    start_ = fs_.recorded() ? fs_.upcoming_tick().value_or(TickTime{}) : clock_.now();
  }

  CollectResult run() {
    Sampler::Options sampling = sampler_options(options_);  // a typing error in it must not leave a file behind
    if (options_.await_job) {
      const Host host = Host::look(fs_);
      sampling.found_job = std::make_unique<Job>(fs_, host, sampling.job, sampling.own_pid);
      if (!options_.await_job(fs_, host, *sampling.found_job)) return {.kept = false};
      start_ = clock_.now();
    }
    TraceHeader header = options_.header;
    header.begin_utc_ns = start_.utc_ns;
    if (fs_.live()) header.trace_id = random_hex(kTraceIdBytes);
    Beginning beginning;
    TraceWriter writer(options_.output, header,
                       {.max_bytes = options_.max_bytes, .retention = options_.retention, .waits = fs_.recorded()});
    beginning.made(options_.output);
    TraceSink sink(&writer);
    Sampler sampler(fs_, sink, std::move(sampling), start_);
    const Snapshot before = with_facts_of(sampler, take_snapshot(fs_, sampler.host(), sampler.job()));
    sampler.look_first();  // after the snapshot: a recording keeps the later text of files that both read
    writer.set_snapshot(before, topology_xml(fs_));
    if (sampler.job() != nullptr && !has_environment(before)) next_job_look_ = 0;
    writer.set_coverage(sampler.coverage());
    writer.start();
    beginning.done();
    give_back_memory();
    sampler.write_first_look();
    sink.set_now(start_.monotonic_ns);
    sink.event("reveal", "begin", header.tool_version);
    const std::optional<std::string> missing = sampler.selection().missing();
    if (!sampler.selection().everything()) {
      sink.event("reveal", "metrics_selected", sampler.selection().source());
    }
    if (missing) sink.event("reveal", "metrics_missing", *missing);
    allow_interventions(sampler, sink);
    const EndOfTrials end_of_trials{*this, sink};
    {
      UsualRanges ranges(sink);
      const StatusFile status(options_.output, header.node, progress_, writer, ranges);
      RowPublisher publisher(options_.output, family_paths(sink));
      sink.publish_by(&publisher);
      if (fs_.recorded()) {
        ReplayTicks ticks(fs_, header.interval);
        loop(ticks, sampler, sink, writer, status, ranges);
      } else {
        Ticker ticks(clock_, header.interval);
        loop(ticks, sampler, sink, writer, status, ranges);
      }
      end_trials(sink);
      sampler.close();
      sink.publish_by(nullptr);
    }
    if (watched_seconds() < options_.min_seconds) {
      beginning.give_up();
      return {progress_.ticks, progress_.ticks_missed, progress_.ticks_late, sink.channels(), sink.rows_lost(), false};
    }
    writer.end_rows();           // before all slow work: the process that waits may not wait for long
    std::exception_ptr cut_off;  // thrown once the trace is whole
    try {
      fs_.end_recording();
    } catch (const Error&) {
      cut_off = std::current_exception();
    }
    writer.set_coverage(sampler.coverage());
    writer.set_end_snapshot(end_snapshot(sampler, before));
    sink.event("reveal", "end", sampler.job_ended() ? "the job has ended" : "stopped");
    CollectResult result{progress_.ticks,     progress_.ticks_missed, progress_.ticks_late,
                         sink.channels(),     sink.rows_lost(),       true,
                         missing.value_or("")};
    writer.close();
    result.not_rewritten = writer.status().not_rewritten;
    if (cut_off) std::rethrow_exception(cut_off);
    return result;
  }

 private:
  [[nodiscard]] double watched_seconds() const {
    if (progress_.ticks == 0) return 0;
    return static_cast<double>(last_tick_ns_ - options_.watching_since_ns.value_or(start_.monotonic_ns)) * 1e-9;
  }

  template <typename Ticks>
  void loop(Ticks& ticks, Sampler& sampler, TraceSink& sink, TraceWriter& writer, const StatusFile& status,
            UsualRanges& ranges) {
    std::int64_t end = kNever;
    bool last_tick = false;
    const auto look = [&](const Tick& tick) {
      sampler.sample(tick);
      if (sampler.job() != nullptr) read_job_facts(tick.time.monotonic_ns, sampler, sink);
      intervene(tick.time.monotonic_ns, sampler, sink);
      count(tick, sampler, sink);
      ranges.look(tick.time, sampler.slots());
    };
    while (!stop_ && !status.hopeless()) {
      const std::optional<Tick> tick = ticks.wait();
      if (!tick && fs_.recorded()) return;
      if (!tick) continue;  // a signal
      if (progress_.ticks == 0 && options_.duration) end = tick->time.monotonic_ns + options_.duration->count();
      if (tick->time.monotonic_ns >= end) return;
      fs_.mark_tick(tick->time);
      if (tick->time.monotonic_ns >= next_pair_) append_clock(writer, tick->time);
      look(*tick);
      if (tick->time.monotonic_ns >= give_back_) {
        give_back_memory();
        give_back_ = kNever;
      }
      if (last_tick) return;
      last_tick = sampler.job_ended();
    }
    // The launcher has reaped the command, so its last increments since the last tick can be read now.
    if (stop_ && sampler.job() != nullptr && !fs_.recorded()) look({.time = clock_.now()});
  }

  // Nothing that is found there is worth the recording.
  void read_job_facts(std::int64_t now_ns, const Sampler& sampler, TraceSink& sink) noexcept {
    try {
      devices_.look(now_ns, *sampler.job());
      libraries_.look(now_ns, *sampler.job());
      groups_.look(now_ns, *sampler.job());
      take_job_snapshot(now_ns, sampler);
      progress_.iterations_planned = planned_.look(now_ns, *sampler.job());
    } catch (const std::exception& error) {
      sink.event("reveal", "job_look_failed", error.what());
    }
  }

  /// Also where an exception ends the recording.
  struct EndOfTrials {
    Collection& collection;
    TraceSink& sink;
    ~EndOfTrials() { collection.end_trials(sink); }
  };

  void end_trials(TraceSink& sink, const char* why = "the recording ended") noexcept {
    try {
      if (trials_) trials_->end(why);
    } catch (const std::exception& error) {
      sink.event("reveal", "interventions_failed", error.what());
    }
    trials_.reset();
  }

  // Never on a copied tree: its process ids are those of another machine.
  void allow_interventions(const Sampler& sampler, TraceSink& sink) {
    if (sampler.job() == nullptr || options_.interventions.empty() || !fs_.live()) return;
    claim_ = claim_job(::geteuid(), options_.header.job_id);
    if (!claim_) {
      for (const std::string& rule : options_.interventions) {
        sink.event(rule, "intervention_refused", "another collector of reveal may act on this user's job here");
      }
      return;
    }
    trials_.emplace(
        InterventionContext{.fs = fs_,
                            .job = *sampler.job(),
                            .host = sampler.host(),
                            .masks = thread_masks_,
                            .user = ::geteuid(),
                            .batch_system = !options_.header.job_id.empty() || in_batch_system()},
        options_.interventions,
        [&sink](const std::string& rule, const char* code, const std::string& text) { sink.event(rule, code, text); });
  }

  void intervene(std::int64_t now_ns, const Sampler& sampler, TraceSink& sink) noexcept {
    if (!trials_ || !trials_->is_due(now_ns)) return;
    try {
      const ProcessSlots& slots = *sampler.slots();
      const auto& processes = sampler.job()->processes();
      const auto count =
          std::count_if(processes.begin(), processes.end(), [](const auto& process) { return !process->launcher; });
      const bool all = !slots.main_threads_only() && count <= static_cast<std::ptrdiff_t>(ProcessSlots::kSlots);
      trials_->look(now_ns,
                    {.waiting_ns = slots.wait_ns(), .used_ns = sampler.job()->cpu_time_ns(), .all_waiting_known = all});
    } catch (const std::exception& error) {
      sink.event("reveal", "interventions_failed", error.what());
      end_trials(sink, "it failed");
    }
  }

  void take_job_snapshot(std::int64_t now_ns, const Sampler& sampler) {
    if (now_ns < next_job_look_) return;
    if (sampler.job()->generation() != job_generation_) {
      job_generation_ = sampler.job()->generation();
      job_settled_ = now_ns + kSettle;
    }
    if (now_ns > job_settled_) return;
    Snapshot facts = job_snapshot(fs_, sampler.host(), *sampler.job());
    const bool begun = has_environment(facts);
    if (begun) late_job_ = std::move(facts);
    next_job_look_ = begun ? kNever : now_ns + job_look_period_;
    job_look_period_ = std::min(2 * job_look_period_, kLongestJobLookPeriod);
  }

  void append_clock(TraceWriter& writer, const TickTime& time) {
    next_pair_ = time.monotonic_ns + kClockPairPeriod;
    if (fs_.recorded()) {
      writer.append_clock({time.monotonic_ns, time.utc_ns, 0});
      return;
    }
    const TickTime now = clock_.now();
    writer.append_clock({now.monotonic_ns, now.utc_ns, clock_error_ns()});
  }

  void count(const Tick& tick, const Sampler& sampler, const TraceSink& sink) noexcept {
    last_tick_ns_ = tick.time.monotonic_ns;
    ++progress_.ticks;
    progress_.ticks_missed += tick.missed;
    if (tick.late_ns > kLate) ++progress_.ticks_late;
    progress_.channels = static_cast<std::int64_t>(sink.channels());
    progress_.processes = sampler.job() != nullptr ? static_cast<std::int64_t>(sampler.job()->processes().size()) : 0;
  }

  // Facts that can be read only while the job lives (its limits, its masks) are not "gone" at the end.
  Snapshot end_snapshot(const Sampler& sampler, const Snapshot& before) {
    Snapshot after = take_snapshot(fs_, sampler.host(), nullptr);
    for (const auto& fact : late_job_.empty() ? before : late_job_) {
      if (fact.first.starts_with("job.") || fact.first.starts_with("env.")) after.push_back(fact);
    }
    const auto add = [&after](const char* key, std::string value) {
      if (!value.empty()) after.emplace_back(key, std::move(value));
    };
    add("job.sub_cgroups", groups_.seen());
    add("job.gpus_opened", devices_.gpus());
    add("job.rdma_opened", devices_.rdma());
    add("job.libraries", libraries_.seen());
    if (sampler.job() != nullptr && sampler.job()->saw_other_job()) after.emplace_back("node.other_jobs", "seen");
    return with_facts_of(sampler, std::move(after));
  }

  const CollectOptions& options_;
  const std::atomic<bool>& stop_;
  SystemClock clock_;
  KernelTree fs_;
  OpenedDevices devices_{fs_};
  LoadedLibraries libraries_{fs_};
  SubCgroups groups_{fs_};
  PlannedIterations planned_{fs_};
  KernelThreadMasks thread_masks_;
  Descriptor claim_;              // to act on the job
  std::optional<Trials> trials_;  // if the site allows any
  TickTime start_;
  Progress progress_;
  std::int64_t last_tick_ns_ = 0;
  std::int64_t give_back_ = start_.monotonic_ns + kStartIsOver;
  std::int64_t next_pair_ = 0;
  std::int64_t next_job_look_ = kNever;
  std::int64_t job_look_period_ = kSecond;  // grows: a job that goes on forking has none of the variables
  std::uint64_t job_generation_ = 0;
  std::int64_t job_settled_ = 0;
  Snapshot late_job_;  // when the job began its first program on this node after the recording
};

}  // namespace

CollectResult collect(const CollectOptions& options, const std::atomic<bool>& stop) {
  return Collection(options, stop).run();
}

Snapshot node_facts(const CollectOptions& options) {
  KernelTree fs(options.root);
  return take_snapshot(fs, Host::look(fs), nullptr);
}

std::vector<CheckedProbe> check_probes(const CollectOptions& options) {
  KernelTree fs(options.root);
  fs.limit_kept_files(raise_descriptor_limit());
  TraceSink sink;
  const TickTime now = fs.recorded() ? fs.upcoming_tick().value_or(TickTime{}) : SystemClock().now();
  Sampler sampler(fs, sink, sampler_options(options), now);
  sampler.look_first();
  return sampler.checked();
}

}  // namespace reveal
