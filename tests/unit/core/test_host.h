// A host made of a few files, for probes to read.
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "core/sampler/sampler.h"

namespace reveal {

/// In which /proc/PID/stat counts.
inline constexpr std::int64_t kTick = 10'000'000;  // ns

class TestHost {
 public:
  TestHost() {
    static int number = 0;
    root_ = std::filesystem::temp_directory_path() /
            ("reveal-host-" + std::to_string(::getpid()) + '-' + std::to_string(number++));
    write("/sys/devices/system/cpu/online", "0-1\n");
    write("/proc/self/smaps", "KernelPageSize:        4 kB\n");
  }
  ~TestHost() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(root_.string() + path); }

  /// A process as /proc shows it: times in clock ticks.
  void process(int pid, int parent, const std::string& command, int user, int system, int reaped = 0, int start = 100,
               std::int64_t flags = 0x400000) const {
    write("/proc/" + std::to_string(pid) + "/stat",
          std::to_string(pid) + " (" + command + ") S " + std::to_string(parent) + " 1 1 0 -1 " +
              std::to_string(flags) + " 11 0 22 0 " + std::to_string(user) + ' ' + std::to_string(system) + ' ' +
              std::to_string(reaped) + " 0 20 0 3 0 " + std::to_string(start) +
              " 1000000 50 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n");
    write("/proc/" + std::to_string(pid) + "/status",
          "Name:\t" + command + "\nTgid:\t" + std::to_string(pid) + "\nCpus_allowed_list:\t0-1\n" +
              "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n");
  }
  /// Its reads and writes: the same number of bytes and calls.
  void io(int pid, int amount, const std::string& folder = "") const {
    const std::string number = std::to_string(amount) + '\n';
    write("/proc/" + std::to_string(pid) + folder + "/io", "rchar: " + number + "wchar: " + number +
                                                               "syscr: " + number + "syscw: " + number +
                                                               "read_bytes: " + number + "write_bytes: " + number);
  }
  /// The collector's own age.
  void collector_since(int start_ticks) const {
    write("/proc/self/stat", "9 (collect) S 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 " + std::to_string(start_ticks) +
                                 " 1 1 1 1 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n");
  }
  /// The last process id given out, which is how new processes are noticed.
  void last_pid(int pid) const { write("/proc/loadavg", "0.50 0.40 0.30 2/150 " + std::to_string(pid) + '\n'); }

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
};

/// One probe on such a host, sampled by hand.
class ProbeBench {
 public:
  ProbeBench(const TestHost& host, const std::string& probe, std::optional<JobSource> job = std::nullopt,
             const std::string& metrics_file = "")
      : fs_(host.root()),
        sampler_(unkept(fs_), sink_,
                 {.interval = std::chrono::milliseconds(100),
                  .probes = {probe},
                  .job = std::move(job),
                  .metrics_file = metrics_file},
                 {1'000'000'000, 1'700'000'000'000'000'000}) {
    sampler_.look_first();
  }

  /// Every family is due each time, whatever its period.
  void sample() {
    ++second_;
    sampler_.sample({.time = {second_ * 1'000'000'000, 1'700'000'000'000'000'000}, .number = second_ * kAllDue});
  }
  [[nodiscard]] std::int64_t value(const std::string& family, const std::string& metric,
                                   const std::string& instance = "") const {
    const Family* found = sink_.find(family);
    return found == nullptr ? kMissing : found->value(metric, instance);
  }
  /// Samples until the probe's child has answered; one that never does costs patience, not the test.
  std::int64_t answered(const std::string& family, const std::string& metric, const std::string& instance) {
    for (int i = 0; i < 2000; ++i) {
      sample();
      if (const std::int64_t found = value(family, metric, instance); found != kMissing) return found;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return kMissing;
  }
  [[nodiscard]] std::string fact(const std::string& key) const {
    for (const auto& [name, text] : sampler_.facts()) {
      if (name == key) return text;
    }
    return "";
  }
  [[nodiscard]] const Family& family(const std::string& path) const { return *sink_.find(path); }
  [[nodiscard]] Coverage coverage() const { return sampler_.coverage().front(); }
  [[nodiscard]] const Sampler& sampler() const { return sampler_; }
  [[nodiscard]] const TraceSink& sink() const { return sink_; }

 private:
  static constexpr std::int64_t kAllDue = 300;  // ticks of 100 ms: the longest period is 30 s

  // Unlike files of /proc, an open plain file outlives its removal.
  static KernelTree& unkept(KernelTree& fs) {
    fs.limit_kept_files(0);
    return fs;
  }

  KernelTree fs_;
  TraceSink sink_;
  Sampler sampler_;
  std::int64_t second_ = 1;
};

}  // namespace reveal
