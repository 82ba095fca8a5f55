// A training on the GPUs of one node, as the probe records it: healthy, for a test to change one thing.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "rule_recording.h"

namespace reveal {

class GpuTraining {
 public:
  using Course = RuleRecording::Course;
  static constexpr double kSeconds = 300;

  explicit GpuTraining(int gpus = 2) : node(kSeconds), gpus_(gpus) {
    node.begin = {{"job.cpus_allowed", "0-7"}, {"gpu.driver", "550.54.15"}};
  }

  /// Starts for 20 s, then works, and pauses for 3 s every minute for a checkpoint.
  static bool works(double second) { return second >= 20 && second < kSeconds - 5 && std::fmod(second, 60) < 57; }
  static Course while_it_works(double level, double otherwise) {
    return [=](double second) { return works(second) ? level : otherwise; };
  }

  /// Instead of the healthy course of a metric; `gpu`: of this one only.
  GpuTraining& set(const std::string& metric, const Course& course, int gpu = -1) {
    changes_.push_back({metric, course, gpu});
    return *this;
  }
  GpuTraining& fact(const std::string& key, const std::string& value, int gpu = -1) {
    facts_.push_back({key, value, gpu});
    return *this;
  }

  [[nodiscard]] std::vector<Finding> findings(std::string_view rule, std::span<const Finding> before = {}) {
    finish();
    return node.findings(rule, before);
  }

  RuleRecording node;

 private:
  struct Change {
    std::string metric;
    Course course;
    int gpu;
  };
  struct Fact {
    std::string key, value;
    int gpu;
  };

  void add(const std::string& metric, int gpu, const Course& healthy) {
    const Course* course = &healthy;
    for (const Change& change : changes_) {
      if (change.metric == metric && (change.gpu < 0 || change.gpu == gpu)) course = &change.course;
    }
    node.gauge(metric, "gpu" + std::to_string(gpu), *course);
  }
  [[nodiscard]] bool changed(const std::string& metric) const {
    return std::any_of(changes_.begin(), changes_.end(), [&](const Change& one) { return one.metric == metric; });
  }
  void add_node(const std::string& metric, const Course& healthy, bool counts) {
    const Course* course = &healthy;
    for (const Change& change : changes_) {
      if (change.metric == metric) course = &change.course;
    }
    const std::string instance = metric.starts_with("process.") ? "rank0" : "";
    if (counts) {
      node.counter(metric, instance, *course);
    } else {
      node.gauge(metric, instance, *course);
    }
  }

  void finish() {
    if (done_) return;
    done_ = true;
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      add("gpu.utilization", gpu, while_it_works(97, 2));
      add("gpu.memory_used", gpu, [](double second) { return second < 15 ? 0.6e9 : 70e9; });
      add("gpu.memory_free", gpu, [](double second) { return second < 15 ? 79.4e9 : 10e9; });
      add("gpu.power", gpu, while_it_works(690, 90));
      add("gpu.sm_clock", gpu,
          [](double second) { return works(second) ? (1600 + 60 * std::sin(second)) * 1e6 : 345e6; });
      if (changed("gpu.memory_utilization")) add("gpu.memory_utilization", gpu, while_it_works(45, 0));
      add("gpu.reason_idle", gpu, while_it_works(0, 1));
      add("gpu.reason_application_clocks", gpu, RuleRecording::always(0));
      // At full load the power limit holds every one of them: that is how they are made.
      add("gpu.reason_power_cap", gpu, while_it_works(1, 0));
      for (const char* never : {"gpu.reason_hw_slowdown", "gpu.reason_sync_boost", "gpu.reason_sw_thermal",
                                "gpu.reason_hw_thermal", "gpu.reason_power_brake"}) {
        add(never, gpu, RuleRecording::always(0));
      }
      for (const char* never : {"gpu.remap_pending", "gpu.remap_failed", "gpu.retired_pages_pending"}) {
        add(never, gpu, RuleRecording::always(0));
      }
      const std::string prefix = "gpu.gpu" + std::to_string(gpu) + ".";
      constexpr std::pair<const char*, const char*> kFacts[] = {{"name", "H100"},
                                                                {"power_limit", "700"},
                                                                {"power_limit_default", "700"},
                                                                {"sm_clock_most", "1980"},
                                                                {"allocated_by", "Slurm"}};
      for (const auto& [key, value] : kFacts) {
        std::string own = value;
        for (const Fact& fact : facts_) {
          if (fact.key == key && (fact.gpu < 0 || fact.gpu == gpu)) own = fact.value;
        }
        node.begin.emplace_back(prefix + key, own);
      }
      for (const Fact& fact : facts_) {
        if (fact.gpu < 0 || fact.gpu == gpu) node.begin.emplace_back(prefix + fact.key, fact.value);
      }
      node.begin.emplace_back(prefix + "address", "0000:8" + std::to_string(gpu) + ":00.0");
      count("gpu.ecc_uncorrected", gpu);
      count("gpu.xid", gpu);
    }
    add_node("job.cpu_time", while_it_works(3e9, 2.5e9), true);
    add_node("process.cpu_time", while_it_works(1e9, 0.5e9), true);
    add_node("pressure.io_some", while_it_works(0.02e9, 0.6e9), true);
  }
  void count(const std::string& metric, int gpu) {
    Course course = RuleRecording::always(0);
    for (const Change& change : changes_) {
      if (change.metric == metric && (change.gpu < 0 || change.gpu == gpu)) course = change.course;
    }
    node.counter(metric, "gpu" + std::to_string(gpu), course);
  }

  int gpus_;
  bool done_ = false;
  std::vector<Change> changes_;
  std::vector<Fact> facts_;
};

}  // namespace reveal
