#include "postproc/drill/drill_program.h"

#include <sched.h>
#include <spdlog/fmt/fmt.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/host_name.h"
#include "hdf5schema/basics/private_files.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr const char* kBegan = "began";
constexpr const char* kTruth = "truth.json";
constexpr const char* kUse = "use.txt";
constexpr std::size_t kLargestNote = 64 << 10;
constexpr int kNice = 10;  // nobody else's work is to wait for a drill

std::string node_name() {
  const char* slurm = std::getenv("SLURMD_NODENAME");
  return slurm != nullptr && *slurm != '\0' ? slurm : short_host_name();
}

/// The mask may have shrunk meanwhile: then it stays where it may run. Under a name of its own it is a process of the
/// job, which reveal's other programs are not.
void settle(const DrillPlan& plan) {
  ::prctl(PR_SET_NAME, "reveal-drill", 0, 0, 0);
  ::setpriority(PRIO_PROCESS, 0, kNice);
  if (plan.cpu < 0 || plan.cpu >= CPU_SETSIZE) return;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(plan.cpu, &only);
  static_cast<void>(::sched_setaffinity(0, sizeof only, &only));
}

void spin_until(std::int64_t monotonic_ns) {
  while (read_clock(CLOCK_MONOTONIC) < monotonic_ns) {
  }
}

void write_truth(const DrillPlan& plan, std::int64_t begin_utc_ns) {
  const DrillTruth truth{.disturbance = plan.disturbance, .node = node_name(), .span = {begin_utc_ns, utc_now_ns()}};
  publish_file(plan.place, kTruth, render_drill_truth(truth));
}

std::int64_t nanoseconds(double seconds) {
  return static_cast<std::int64_t>(seconds * kSecond);
}

/// Uses its cpu, and notes once a second what it got: "UTC_NS CPU_NS".
void spin_and_note(const DrillPlan& plan, std::int64_t begin) {
  std::string notes;
  const std::int64_t end = begin + nanoseconds(plan.seconds);
  for (std::int64_t next = begin; next < end; next += kSecond) {
    notes += fmt::format("{} {}\n", utc_now_ns(), read_clock(CLOCK_PROCESS_CPUTIME_ID));
    spin_until(std::min(next + kSecond, end));
  }
  publish_file(plan.place, kUse, notes);
}

int stop_and_continue(const DrillPlan& plan, ChildProcess& worker) {
  const auto wait = [&](double seconds) {
    return worker.wait(std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds)));
  };
  if (wait(plan.begin_seconds())) return 1;
  const std::int64_t begin = utc_now_ns();
  worker.signal(SIGSTOP);
  static_cast<void>(wait(plan.length_seconds()));
  worker.signal(SIGCONT);
  write_truth(plan, begin);
  return exit_status(worker.wait());
}

/// The share of its cpu that the job got outside of the disturbance, from its notes.
double share_of(const std::string& notes, const TimeSpan& disturbed) {
  std::istringstream lines(notes);
  std::int64_t utc = 0, cpu = 0, utc_before = 0, cpu_before = 0;
  double time = 0, used = 0;
  while (lines >> utc >> cpu) {
    const bool apart = utc <= disturbed.begin_utc_ns || utc_before >= disturbed.end_utc_ns;
    if (utc_before != 0 && apart) {
      time += static_cast<double>(utc - utc_before);
      used += static_cast<double>(cpu - cpu_before);
    }
    utc_before = utc;
    cpu_before = cpu;
  }
  return time > 0 ? std::clamp(used / time, 0.0, 1.0) : 1.0;
}

struct CpuTime {
  double idle = 0, all = 0;
};

/// https://man7.org/linux/man-pages/man5/proc_stat.5.html
std::map<int, CpuTime> cpu_times() {
  std::map<int, CpuTime> times;
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu") || name.size() == 3) continue;
    CpuTime& cpu = times[std::stoi(name.substr(3))];
    double ticks = 0;
    for (int field = 0; field < 8 && words >> ticks; ++field) {  // guest time is in user time
      cpu.all += ticks;
      if (field == 3 || field == 4) cpu.idle += ticks;
    }
  }
  return times;
}

}  // namespace

int run_drill_program(const DrillPlan& plan) {
  settle(plan);
  const std::int64_t begin = read_clock(CLOCK_MONOTONIC);
  publish_file(plan.place, kBegan, "");
  if (plan.disturbance != stopped_disturbance().name) {
    spin_and_note(plan, begin);
    return 0;
  }
  const pid_t parent = ::getpid();
  ChildProcess worker = fork_child([&] {
    end_with_parent(parent);
    spin_and_note(plan, begin);
    return 0;
  });
  if (!worker) throw system_error("the drill's program", errno);
  return stop_and_continue(plan, worker);
}

int run_drill_outsider(const DrillPlan& plan) {
  constexpr auto kPatience = 120s;
  settle(plan);
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  std::error_code error;
  while (!std::filesystem::exists(plan.place / kBegan, error)) {
    if (std::chrono::steady_clock::now() > give_up) return 1;
    std::this_thread::sleep_for(20ms);
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(plan.begin_seconds()));
  const std::int64_t begin = utc_now_ns();
  spin_until(read_clock(CLOCK_MONOTONIC) + nanoseconds(plan.length_seconds()));
  write_truth(plan, begin);
  return 0;
}

DrillTruth truth_of_drill(const DrillPlan& plan) {
  DrillTruth truth = parse_drill_truth(read_text_file(plan.place / kTruth, kLargestNote, FileOf::ours));
  truth.job_share = share_of(read_text_file(plan.place / kUse, kLargestNote, FileOf::ours), truth.span);
  return truth;
}

IdleCpu idlest_cpu() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  const std::map<int, CpuTime> before = cpu_times();
  std::this_thread::sleep_for(2s);
  IdleCpu best;
  for (const auto& [cpu, now] : cpu_times()) {
    const auto was = before.find(cpu);
    if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed) || was == before.end()) continue;
    const double all = now.all - was->second.all;
    const double idle = all > 0 ? (now.idle - was->second.idle) / all : 0;
    if (best.cpu < 0 || idle > best.idle) best = {cpu, idle};
  }
  return best;
}

}  // namespace reveal
