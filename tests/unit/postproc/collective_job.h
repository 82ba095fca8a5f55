// Ranks that wait for each other in collectives: made up here, so that it is known which of them never came.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/telemetry/load.h"

namespace reveal {

/// Ranks that reduce something four times a second.
class CollectiveJob {
 public:
  static constexpr std::int64_t kUtc = 1'700'000'000 * kSecond;  // at second 0
  static constexpr double kCpuOfTick = 1e8;                      // ns: of a whole cpu, in a step of the grid

  /// From `from` on the absent ranks call nothing; the others make one collective more, and wait in it.
  struct Pause {
    double from = 0, to = 0;
    std::set<std::size_t> absent = {};
    double cpus = 0.01;              // that an absent rank uses
    double written = 0;              // bytes a second
    double launches = 0;             // kernels a second
    bool everybody = true;           // the others do wait
    std::string calls_another = {};  // the absent ranks enter this one
  };

  double seconds = 150;
  std::size_t nodes = 2, ranks_of_node = 2;
  std::vector<Pause> pauses;
  double pace = 0.25;
  bool timed = true;
  std::function<double(std::size_t)> later = [](std::size_t) { return 0.0; };  // it enters each collective
  std::function<int(std::size_t)> unseen = [](std::size_t) { return 0; };      // first calls that were not counted
  std::function<double(std::size_t)> ended = [](std::size_t) { return 1e9; };  // its process, at this time
  std::string inside = "c10d.work";
  double cpus_inside = 0.02;
  bool trains = true;
  double beside = 0;  // cpus that other processes of the job use
  std::function<double(std::size_t)> stopped = [](std::size_t) { return 0.0; };  // processes of a node
  double stopped_from = 0;

  [[nodiscard]] std::vector<NodeTrace> record() const {
    std::vector<NodeTrace> traces(nodes);
    for (std::size_t node = 0; node < nodes; ++node) {
      Telemetry& telemetry = traces[node].telemetry;
      telemetry.node = "n" + std::to_string(node + 1);
      telemetry.begin_utc_ns = kUtc;
      telemetry.samples = static_cast<std::size_t>(seconds * 10);
      traces[node].utc_minus_monotonic_ns = kUtc;
      std::vector<double> job(telemetry.samples, beside * kCpuOfTick);
      for (std::size_t i = 0; i < ranks_of_node; ++i) add_rank(node * ranks_of_node + i, telemetry, job);
      add({.metric = "job.cpu_time", .kind = Kind::counter}, job, telemetry);
      std::vector<double> in_state_t(telemetry.samples, 0.0);
      std::fill(in_state_t.begin() + static_cast<std::ptrdiff_t>(stopped_from * 10), in_state_t.end(), stopped(node));
      add({.metric = "job.stopped"}, in_state_t, telemetry);
    }
    return traces;
  }

  static double second_of(std::int64_t utc_ns) { return static_cast<double>(utc_ns - kUtc) * 1e-9; }

 private:
  struct Course {
    std::vector<double> reduced, others, launched;      // when
    std::vector<std::pair<double, double>> inside;      // from, to
    std::vector<std::pair<double, const Pause*>> away;  // since when
  };

  [[nodiscard]] Course course_of(std::size_t rank) const {
    Course course;
    std::size_t next = 0;
    for (double t = 3.02; t < seconds;) {
      if (next == pauses.size() || t < pauses[next].from) {
        course.reduced.push_back(t + later(rank));
        t += pace;
        continue;
      }
      const Pause& pause = pauses[next++];
      const bool absent = pause.absent.contains(rank);
      if (absent) course.away.emplace_back(t, &pause);
      if (absent && !pause.calls_another.empty()) course.others.push_back(t);
      if (!absent && pause.everybody) course.reduced.push_back(t);
      if (pause.everybody && (!absent || !pause.calls_another.empty())) course.inside.emplace_back(t, pause.to);
      for (double at = t; absent && pause.launches > 0 && at < pause.to; at += 1 / pause.launches)
        course.launched.push_back(at);
      t = pause.to;
      if (absent && pause.everybody && t < seconds) course.reduced.push_back(t);
      t += pace;
    }
    return course;
  }

  /// As a row a second is laid on the grid.
  [[nodiscard]] std::vector<double> rows_of(const std::vector<double>& times, int skipped) const {
    std::vector<double> grid(static_cast<std::size_t>(seconds * 10), 0.0);
    for (std::size_t i = static_cast<std::size_t>(skipped); i < times.size(); ++i) {
      const auto second = static_cast<std::size_t>(times[i]);
      for (std::size_t t = second * 10; t < std::min(grid.size(), second * 10 + 10); ++t) grid[t] += 0.1;
    }
    return grid;
  }

  static void add(Channel channel, const std::vector<double>& values, Telemetry& telemetry) {
    telemetry.channels.push_back(std::move(channel));
    telemetry.values.insert(telemetry.values.end(), values.begin(), values.end());
  }

  void add_rank(std::size_t rank, Telemetry& telemetry, std::vector<double>& job) const {
    const std::string name = "rank" + std::to_string(rank);
    const Course course = course_of(rank);
    const auto counter = [&](const std::string& function, const std::vector<double>& times, int skipped) {
      add({.metric = "stack.calls", .instance = name + '/' + function, .kind = Kind::counter}, rows_of(times, skipped),
          telemetry);
    };
    counter("gloo.allreduce", course.reduced, unseen(rank));
    if (!course.others.empty()) counter("gloo.broadcast", course.others, 0);
    counter(inside, course.reduced, 0);
    counter("cudaLaunchKernel", course.launched, 0);
    if (trains) counter("torch.backward", {1.5, 2.5}, 0);
    std::vector<double> flight(telemetry.samples, 0.0);
    std::vector<double> cpu(telemetry.samples, 0.8 * kCpuOfTick);
    std::vector<double> written(telemetry.samples, 0.0);
    for (const auto& [from, to] : course.inside) {
      for (std::size_t t = 0; t < flight.size(); ++t) {
        const double row = std::floor(static_cast<double>(t) / 10);
        if (row >= from && row < to) flight[t] = (row - from) * 1e9;
        if (row >= from && row < to) cpu[t] = cpus_inside * kCpuOfTick;
      }
    }
    for (const auto& [from, pause] : course.away) {
      for (std::size_t t = 0; t < cpu.size(); ++t) {
        const double row = std::floor(static_cast<double>(t) / 10);
        if (row < from || row >= pause->to) continue;
        cpu[t] = pause->cpus * kCpuOfTick;
        written[t] = pause->written / 10;
      }
    }
    for (std::size_t t = 0; t < cpu.size(); ++t) {
      if (static_cast<double>(t) / 10 >= ended(rank)) cpu[t] = flight[t] = written[t] = kNaN;
      if (!std::isnan(cpu[t])) job[t] += cpu[t];
    }
    if (timed) add({.metric = "stack.in_flight", .instance = name + '/' + inside}, flight, telemetry);
    add({.metric = "process.cpu_time", .instance = name, .kind = Kind::counter}, cpu, telemetry);
    add({.metric = "process.written_by_calls", .instance = name, .kind = Kind::counter}, written, telemetry);
  }
};

/// Rank 3 goes away at 80 s, and the job is ended at 150 s.
inline CollectiveJob job_that_hangs() {
  CollectiveJob job;
  job.pauses = {{.from = 80, .to = 1e6, .absent = {3}}};
  return job;
}

/// It comes back at 105 s.
inline CollectiveJob job_that_stalls() {
  CollectiveJob job;
  job.pauses = {{.from = 80, .to = 105, .absent = {3}}};
  return job;
}

}  // namespace reveal
