// A two-cpu node with a two-thread job that computes, exchanges and checkpoints, as numbers the collector would store:
// jiffies of 10 ms, waiting times in nanoseconds. Cpu time is shared out per step.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "postproc/telemetry/derived.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// Samples [begin, begin + samples) of the job.
inline Telemetry cut(const Telemetry& job, std::size_t begin, std::size_t samples) {
  Telemetry piece{.node = job.node,
                  .step_seconds = job.step_seconds,
                  .begin_utc_ns = job.begin_utc_ns,
                  .samples = samples,
                  .channels = job.channels,
                  .values = {}};
  for (std::size_t c = 0; c < job.channels.size(); ++c) {
    const auto values = job.series(c).subspan(begin, samples);
    piece.values.insert(piece.values.end(), values.begin(), values.end());
  }
  return piece;
}

class SyntheticNode {
 public:
  /// The demand of one party during one step, in cpus or per second.
  struct Demand {
    double job[2] = {1, 1};       // one value for each of the job's threads, one per cpu
    double outsider[2] = {0, 0};  // other processes, per cpu
    double softirq = 0;           // on cpu0, charged to the running task
    double own_writes = 0;        // bytes/s dirtied by the job
    double outsider_writes = 0;   // bytes/s dirtied by others
    double blocked = 0;           // processes of the job in uninterruptible sleep
  };
  using Life = std::function<void(double second, Demand&)>;

  std::vector<std::string> left_out;  // metrics this node cannot measure
  double cpus_owned = 2;
  double cpus_allowed = 2;
  double runnable_more = 0;  // processes ready to run beyond the two threads

  /// Seconds of a job: compute 4 s, exchange 1 s at half use; a checkpoint of 1 s every 20 s.
  static void training(double second, Demand& demand) {
    const double phase = std::fmod(second, 5.0);
    const double use = phase < 4 ? 0.98 : 0.5;
    demand.job[0] = demand.job[1] = use;
    if (phase >= 4) demand.softirq = 0.08;
    if (std::fmod(second, 20.0) > 19) {
      demand.job[0] = demand.job[1] = 0.2;
      demand.own_writes = 40e6;
      demand.blocked = 1;
    }
  }

  [[nodiscard]] Telemetry record(double seconds, const Life& life, unsigned seed = 7) const {
    Telemetry telemetry;
    telemetry.node = "n01";
    telemetry.step_seconds = 0.1;
    telemetry.begin_utc_ns = 1'700'000'000'000'000'000;
    telemetry.samples = static_cast<std::size_t>(seconds / telemetry.step_seconds);
    Rows rows(telemetry);
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, 1);
    double dirty = 5e6;
    for (std::size_t t = 0; t < telemetry.samples; ++t) {
      Demand demand;
      life(static_cast<double>(t) * 0.1, demand);
      double job_used = 0;
      double waited = 0;
      for (int cpu = 0; cpu < 2; ++cpu) {
        const std::string name = "cpu" + std::to_string(cpu);
        const bool open = cpu < cpus_allowed;
        const double wanted = open ? std::clamp(demand.job[cpu] + 0.02 * normal(random), 0.0, 1.0) : 0.0;
        const double other = std::clamp(demand.outsider[cpu] + 0.01 * std::abs(normal(random)), 0.0, 1.0);
        // Fair shares: no party gets more than its demand, a full cpu is divided evenly.
        const double others_share = wanted + other <= 1 ? other : std::max(std::min(other, 0.5), 1 - wanted);
        const double got = std::min(wanted, 1 - others_share);
        waited += wanted - got;
        job_used += got;
        const double interrupts = cpu == 0 ? demand.softirq : 0;
        const double busy = got + others_share - std::min(interrupts, got);
        rows.jiffies("cpu.user", name, 0.9 * busy * 0.1);
        rows.jiffies("cpu.nice", name, 0);
        rows.jiffies("cpu.system", name, 0.1 * busy * 0.1);
        rows.jiffies("cpu.softirq", name, interrupts * 0.1);
        rows.jiffies("cpu.irq", name, 0);
        rows.jiffies("cpu.idle", name, std::max(0.0, 1 - busy - interrupts) * 0.1);
        rows.jiffies("cpu.iowait", name, 0);
        rows.set("job.cpu_allowed", name, cpu < cpus_allowed ? 1 : 0);
      }
      waited += runnable_more;
      rows.jiffies("job.cpu_time", "", job_used * 0.1);
      rows.set("job.wait_time", "", std::max(0.0, waited + 0.01 * normal(random)) * 0.1e9);
      rows.jiffies("self.cpu_time", "", 0.005 * 0.1);
      rows.set("job.running", "", std::round(job_used + waited + 0.3 * normal(random)));
      rows.set("job.processes", "", 2);
      rows.set("job.blocked", "", demand.blocked);
      rows.set("job.cpus_allowed", "", cpus_allowed);
      rows.set("job.cpus_owned", "", cpus_owned);
      const double written = demand.own_writes + demand.outsider_writes;
      rows.set("vmstat.nr_dirtied", "", std::round(written * 0.1 / 4096 + std::abs(3 * normal(random))));
      rows.set("process.write_bytes", "rank0", demand.own_writes * 0.1);
      dirty = std::max(5e6, dirty + written * 0.1 - 8e6);
      rows.set("mem.dirty", "", dirty);
      rows.set("mem.writeback", "", 0);
      ++rows.at;
    }
    for (std::size_t i = telemetry.channels.size(); i-- > 0;) {
      if (std::find(left_out.begin(), left_out.end(), telemetry.channels[i].metric) == left_out.end()) continue;
      telemetry.channels.erase(telemetry.channels.begin() + static_cast<std::ptrdiff_t>(i));
      const auto begin = telemetry.values.begin() + static_cast<std::ptrdiff_t>(i * telemetry.samples);
      telemetry.values.erase(begin, begin + static_cast<std::ptrdiff_t>(telemetry.samples));
    }
    append_derived(telemetry);
    return telemetry;
  }

 private:
  struct Rows {
    explicit Rows(Telemetry& into) : telemetry(into) {}

    void set(const std::string& metric, const std::string& instance, double value) {
      telemetry.series(channel(metric, instance))[at] = value;
    }
    /// Seconds of cpu time, as the kernel reports them: whole jiffies, the rest carried on.
    void jiffies(const std::string& metric, const std::string& instance, double seconds) {
      const std::size_t index = channel(metric, instance);
      if (carried.size() <= index) carried.resize(index + 1, 0.0);
      carried[index] += seconds;
      const double whole = std::floor(carried[index] * 100 + 1e-9);
      carried[index] -= whole / 100;
      telemetry.series(index)[at] = whole * 1e7;
    }
    std::size_t channel(const std::string& metric, const std::string& instance) {
      for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
        if (telemetry.channels[i].metric == metric && telemetry.channels[i].instance == instance) return i;
      }
      const bool gauge = metric.starts_with("mem.") || metric.starts_with("job.cpus") || metric == "job.cpu_allowed" ||
                         metric == "job.running" || metric == "job.processes" || metric == "job.blocked";
      telemetry.channels.push_back({.metric = metric,
                                    .instance = instance,
                                    .role = metric.starts_with("process.") ? "rank" : "job",
                                    .kind = gauge ? Kind::gauge : Kind::counter,
                                    .unit = metric.find("cpu") != std::string::npos ? Unit::nanoseconds : Unit::count});
      telemetry.values.resize(telemetry.values.size() + telemetry.samples, std::numeric_limits<double>::quiet_NaN());
      return telemetry.channels.size() - 1;
    }

    Telemetry& telemetry;
    std::vector<double> carried;
    std::size_t at = 0;
  };
};

}  // namespace reveal
