#include "core/job/job.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <iterator>

#include "core/job/slurm_step.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::int64_t kPatience = 10 * kSecond;        // for the first launcher to appear
constexpr std::int64_t kSlurmPatience = 600 * kSecond;  // between steps; the epilog ends the wait where there is one
constexpr int kMostNameLooks = 20;                      // for the name of a step daemon, one each second
constexpr std::int64_t kRootsPeriod = kSecond;
constexpr std::int64_t kScanPeriod = 60 * kSecond;  // scan of the whole process table, as a safety net
constexpr std::int64_t kBlindScanPeriod = kSecond;  // the same where new processes cannot be noticed otherwise
constexpr std::int64_t kMostPids = 1 << 22;         // PID_MAX_LIMIT of linux/threads.h
constexpr std::int64_t kMostRanks = 1 << 24;
constexpr std::int64_t kFewNewPids = 512;
constexpr int kLateLooks[] = {1, 3, 10};  // ticks later, for a process that is still being forked
constexpr std::size_t kMostLate = 4096;
constexpr std::size_t kReadEveryTick = 128;  // processes; more are read in turn
constexpr std::size_t kFewProcesses = 16;    // no more: each of them is read each time
constexpr std::uint64_t kFileLooks = 10;     // ticks; a program of the job may have the name of ours that executed it
constexpr std::uint64_t kRest = 4;           // ticks from one reading to the next of a process that never ran
constexpr std::size_t kMostProcesses = 65'536;
// A sum that fell and stays low for this many updates lost a process without a wait() by its parent.
constexpr int kShortUpdates = 3;

std::string proc_path(int pid, std::string_view file) {
  return "/proc/" + std::to_string(pid) + '/' + std::string(file);
}

/// At a twentieth of the cost of a look into /proc.
bool exists(int pid) noexcept {
  return ::kill(pid, 0) == 0 || errno != ESRCH;
}

std::int64_t reaped_ticks(const ProcessStat& stat) noexcept {
  return stat.reaped_user_ticks + stat.reaped_system_ticks;
}

void keep_stat(JobProcess& process, const ProcessStat& stat) noexcept {
  process.stat = stat;
  process.stat.command = {};
}

std::int64_t own_ticks(const ProcessStat& stat) noexcept {
  return stat.user_ticks + stat.system_ticks;
}

/// The part of its time that is the job's.
std::int64_t counted_ticks(const JobProcess& process) noexcept {
  if (process.program == ProgramOf::collector) return 0;
  return (process.launcher ? 0 : own_ticks(process.stat)) + reaped_ticks(process.stat);
}

}  // namespace

JobSource JobSource::parse(const std::string& argument) {
  JobSource source;
  const std::string_view text = argument;
  if (text.substr(0, 4) == "pid:") {
    const auto pid = parse_int(text.substr(4));
    if (!pid || *pid < 1 || *pid > kMostPids) throw Error("--job " + argument + ": not a process id");
    source.pid = static_cast<int>(*pid);
    return source;
  }
  if (text.substr(0, 4) == "run:" && text.size() > 4) {
    source.directory = text.substr(4);
    std::error_code ignored;
    if (!std::filesystem::is_directory(source.directory, ignored)) {
      throw Error("--job " + argument + ": no such directory");
    }
    return source;
  }
  if (text.substr(0, 6) == "slurm:") {
    const std::string_view name = text.substr(6);
    source.slurm_job = name.substr(0, name.find('@'));
    if (name.size() > source.slurm_job.size()) source.slurm_node = name.substr(source.slurm_job.size() + 1);
    if (parse_int(source.slurm_job).value_or(0) < 1) throw Error("--job " + argument + ": not a job id");
    return source;
  }
  throw Error("--job " + argument + ": expected pid:N, run:DIR or slurm:ID");
}

Job::Job(KernelTree& fs, const Host& host, std::optional<JobSource> source, int own_pid)
    : fs_(fs),
      own_programs_(fs, own_path().parent_path()),
      tick_ns_(host.tick_ns),
      source_(std::move(source)),
      own_pid_(own_pid),
      load_average_(fs.open("/proc/loadavg", 128)) {
  late_pids_.reserve(kMostLate);
  KernelFile own = fs.open("/proc/self/stat", 512);
  if (const auto stat = parse_process_stat(own.read())) own_start_ticks_ = stat->start_ticks;
}

const JobProcess* Job::find(int pid) const noexcept {
  const auto found = by_pid_.find(pid);
  return found == by_pid_.end() ? nullptr : found->second;
}

void Job::update(TickTime now, Count count) {
  if (began_ns_ < 0) began_ns_ = now.monotonic_ns;
  now_ns_ = now.monotonic_ns;
  ++ticks_;
  if (now.monotonic_ns >= next_roots_ns_) refresh_roots(now.monotonic_ns);
  discover(now.monotonic_ns);
  if (next_roots_ns_ == 0) {  // a step daemon was seen: the processes below it are the job's from this tick on
    refresh_roots(now.monotonic_ns);
    discover(now.monotonic_ns);
  }
  // A process that was reaped while it was read is in two sums or in none; then everything is read again.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (!read_processes(attempt > 0)) break;
  }
  if (count == Count::yes) account();
  if (root_alive()) {
    rootless_since_ns_ = -1;
  } else {
    ended_ = is_over(now.monotonic_ns);
  }
}

/// A zombie has ended, even if its parent never waits for it; with threads that run on, only its first one has.
bool Job::root_alive() const noexcept {
  return std::any_of(processes_.begin(), processes_.end(), [](const auto& process) {
    return process->root && !(process->stat.state == 'Z' && process->stat.threads <= 1);
  });
}

bool Job::is_over(std::int64_t now_ns) {
  if (rootless_since_ns_ < 0) rootless_since_ns_ = now_ns;
  if (source_ && !source_->slurm_job.empty()) return now_ns - rootless_since_ns_ > kSlurmPatience;
  if (!had_root_) return now_ns - began_ns_ > kPatience;
  refresh_roots(now_ns);  // a launcher may have come since the last look
  return !root_alive();
}

bool Job::is_keeper(const JobProcess& process) const noexcept {
  return std::any_of(step_daemons_.begin(), step_daemons_.end(), [&](const auto& daemon) {
    return daemon.second == "extern" && process.stat.parent == daemon.first;
  });
}

std::string Job::cgroup_name() const {
  return source_ && !source_->slurm_job.empty() ? "/job_" + source_->slurm_job : "";
}

std::string Job::roots_text() const {
  if (!source_) return "";
  if (!source_->slurm_job.empty()) {
    std::string text;
    for (const auto& [pid, step] : step_daemons_) text += std::to_string(pid) + " -1 1\n";
    return text;
  }
  if (source_->pid > 0) return std::to_string(source_->pid) + " 0 0\n";
  std::string text;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(source_->directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.rfind("rank.", 0) != 0 || !parse_int(std::string_view(name).substr(5))) continue;
    std::ifstream file(entry->path());
    std::int64_t rank = -1;
    if (!(file >> rank)) rank = -1;
    text += name.substr(5) + ' ' + std::to_string(rank) + " 1\n";
  }
  return text;
}

// Without an allocation, because it is called every second.
bool Job::roots_may_have_changed() {
  if (!source_ || fs_.recorded()) return true;
  if (!source_->slurm_job.empty()) return std::exchange(look_again_, false);
  if (source_->pid > 0) return !had_root_;
  struct stat status {};
  if (::stat(source_->directory.c_str(), &status) != 0) return true;
  const std::int64_t modified = nanoseconds_of(status.st_mtim);
  // A file system with coarse times may hide a second change in the same instant: looked at once more.
  const bool again = std::exchange(look_again_, modified != roots_modified_ns_);
  return std::exchange(roots_modified_ns_, modified) != modified || again;
}

// A text of lines "pid rank launcher", so that a recording contains its job.
void Job::refresh_roots(std::int64_t now_ns) {
  next_roots_ns_ = now_ns + kRootsPeriod;
  name_step_daemons();
  if (!roots_may_have_changed()) return;
  std::string text = fs_.fact("@job/roots", [this] { return roots_text(); });
  if (text == roots_seen_) return;
  roots_seen_ = std::move(text);
  struct Root {
    std::int64_t pid, rank, launcher;
  };
  std::vector<Root> roots;
  std::string_view rest = roots_seen_;
  std::string_view line;
  while (next_line(rest, line)) {
    Root root{};
    const auto pid = parse_int(next_word(line));
    const auto rank = parse_int(next_word(line));
    root.launcher = parse_int(next_word(line)).value_or(1);
    if (!pid || *pid < 1 || *pid > kMostPids) continue;
    root.pid = *pid;
    root.rank = rank && *rank >= 0 && *rank < kMostRanks ? *rank : -1;  // the job's own word for it
    roots.push_back(root);
  }
  std::sort(roots.begin(), roots.end(),
            [](const Root& a, const Root& b) { return a.rank != b.rank ? a.rank < b.rank : a.pid < b.pid; });
  // Launchers without a rank get the next free ones, in the order of their process ids.
  std::int64_t next_rank = 0;
  for (const Root& root : roots) next_rank = std::max(next_rank, root.rank + 1);
  for (const auto& process : processes_) next_rank = std::max<std::int64_t>(next_rank, process->rank + 1);
  for (Root& root : roots) {
    const int pid = static_cast<int>(root.pid);
    if (by_pid_.contains(pid) || pid == own_pid_) continue;
    KernelFile file = fs_.open(proc_path(pid, "stat"), 512);
    const auto stat = parse_process_stat(file.read());
    if (!stat) continue;
    const std::pair<int, std::int64_t> name{pid, stat->start_ticks};
    if (std::find(dead_roots_.begin(), dead_roots_.end(), name) != dead_roots_.end()) continue;
    if (root.rank < 0) root.rank = next_rank++;
    JobProcess* process = add(pid, *stat, static_cast<int>(root.rank), std::move(file));
    process->root = had_root_ = true;
    process->launcher = process->launcher || root.launcher != 0;
    next_scan_ns_ = 0;  // it may have children already
  }
}

JobProcess* Job::add(int pid, const ProcessStat& stat, int rank, KernelFile file) {
  auto process = std::make_unique<JobProcess>();
  process->pid = pid;
  process->rank = rank;
  process->command = stat.command;
  process->start_ticks = stat.start_ticks;
  process->from_birth = own_start_ticks_ != kMissing && stat.start_ticks >= own_start_ticks_;
  process->found_ns = now_ns_;
  process->read_at = ticks_;
  process->stat = stat;
  process->weighed = own_ticks(stat);
  process->program = own_programs_.program_of(pid, stat.command);
  process->launcher = process->program != ProgramOf::job;
  process->file = std::move(file);
  JobProcess* added = process.get();
  by_pid_[pid] = added;
  processes_.push_back(std::move(process));
  ++generation_;
  return added;
}

/// After an exec: time of which another part counts from now on counted as it did until then.
void Job::rename(JobProcess& process, std::string_view command) {
  const bool executed = process.command != command;
  process.command = command;
  const ProgramOf program = own_programs_.program_of(process.pid, command);
  // A step daemon of Slurm executes no other program.
  const bool keeps_role = process.root && (of_slurm() || !executed);
  const bool launcher = keeps_role ? process.launcher : program != ProgramOf::job;
  if (program == process.program && launcher == process.launcher) return;
  const std::int64_t before = counted_ticks(process);
  process.program = program;
  process.launcher = launcher;
  if (counted_) base_ticks_ += before - counted_ticks(process);
  ++generation_;
}

// /proc/loadavg ends with the last process id given out: the cheapest way to find new processes.
// (/proc/PID/task/*/children would be one read per thread, and not every kernel is built with it.)
// https://man7.org/linux/man-pages/man5/proc_loadavg.5.html
void Job::discover(std::int64_t now_ns) {
  if (processes_.empty() && (!source_ || source_->slurm_job.empty())) return;
  std::string_view load = load_average_.read();
  while (!load.empty() && (load.back() == '\n' || load.back() == ' ')) load.remove_suffix(1);
  std::int64_t newest = 0;
  const std::size_t blank = load.rfind(' ');
  const bool known =
      blank != std::string_view::npos && parse_counter(load.substr(blank + 1), newest) && newest <= kMostPids;
  const std::int64_t last = std::exchange(last_pid_, known ? newest : -1);
  consider_late();
  if (now_ns >= next_scan_ns_ || (known && (newest < last || newest - last > kFewNewPids))) {
    next_scan_ns_ = now_ns + (known ? kScanPeriod : kBlindScanPeriod);
    scan_all();
    const std::int64_t first = std::max<std::int64_t>({1, newest - kFewNewPids, newest < last ? 1 : last + 1});
    for (std::int64_t pid = first; known && pid <= newest; ++pid) expect_late(static_cast<int>(pid));
    return;
  }
  if (!known || last < 0) return;
  for (std::int64_t pid = last + 1; pid <= newest; ++pid) {
    if (consider(static_cast<int>(pid), true) == Look::absent) expect_late(static_cast<int>(pid));
  }
}

// The kernel gives a number out at the beginning of a fork and shows the process at its end; on a full machine that may
// take longer than from one tick to the next. Most of these have ended already.
void Job::expect_late(int pid) {
  if (late_pids_.size() < kMostLate && !by_pid_.contains(pid)) late_pids_.emplace_back(pid, 0);
}

void Job::consider_late() {
  std::erase_if(late_pids_, [this](auto& late) {
    auto& [pid, ticks] = late;
    ++ticks;
    if (std::find(std::begin(kLateLooks), std::end(kLateLooks), ticks) == std::end(kLateLooks)) return false;
    const Look look = consider(pid, true);
    if (look == Look::taken) next_scan_ns_ = 0;  // it may have children already
    return look != Look::absent || ticks == *std::rbegin(kLateLooks);
  });
}

void Job::scan_all() {
  bool found = true;
  const std::vector<std::string> names = fs_.list("/proc");
  std::vector<int> candidates;
  for (const std::string& name : names) {
    const auto pid = parse_int(name);
    if (pid && *pid > 0 && !by_pid_.contains(static_cast<int>(*pid))) candidates.push_back(static_cast<int>(*pid));
  }
  std::sort(candidates.begin(), candidates.end());
  // A child may have a smaller id than its parent once ids have wrapped.
  for (int round = 0; found && round < 8; ++round) {
    found = false;
    for (int& pid : candidates) {
      if (pid == 0 || consider(pid, false) != Look::taken) continue;
      pid = 0;
      found = true;
    }
    if (candidates.size() > 4096) break;
  }
}

Job::Look Job::consider(int pid, bool may_be_thread) {
  if (pid == own_pid_ || by_pid_.contains(pid) || processes_.size() >= kMostProcesses) return Look::strange;
  // A recording must hold that it is gone: another probe may have read it before.
  if (fs_.live() && !fs_.recording() && !exists(pid)) return Look::absent;
  KernelFile file = fs_.open(proc_path(pid, "stat"), 512);
  const auto stat = parse_process_stat(file.read());
  if (!stat) return Look::absent;
  const auto parent = by_pid_.find(stat->parent);
  if (parent == by_pid_.end()) {
    // Seen between its fork and its exec it still has the name of slurmd.
    if (stat->command == kStepDaemon || stat->command == kNodeDaemon) consider_step_daemon(pid);
    return Look::strange;
  }
  if (parent->second->program == ProgramOf::collector) return Look::strange;
  // /proc/TID exists for every thread, though it is not listed. Only threads have an exit signal of -1.
  // https://man7.org/linux/man-pages/man5/proc_tid.5.html
  if (may_be_thread && stat->exit_signal == -1) return Look::strange;
  if (may_be_thread && stat->exit_signal == kMissing) {
    KernelFile status = fs_.open(proc_path(pid, "status"), 2048);
    const auto group = parse_int(field_of(status.read(), "Tgid"));
    if (!group || *group != pid) return Look::strange;
  }
  add(pid, *stat, parent->second->rank, std::move(file));
  return Look::taken;
}

// It writes its step's name over its command line a while after its start: until then its job is unknown.
void Job::consider_step_daemon(int pid) {
  if (!source_ || source_->slurm_job.empty() || fs_.recorded()) return;
  const auto known = [pid](const auto& entry) { return entry.first == pid; };
  if (std::any_of(step_daemons_.begin(), step_daemons_.end(), known)) return;
  if (std::any_of(nameless_step_daemons_.begin(), nameless_step_daemons_.end(), known)) return;
  nameless_step_daemons_.emplace_back(pid, 0);
  next_roots_ns_ = 0;
}

void Job::name_step_daemons() {
  std::erase_if(nameless_step_daemons_, [this](auto& waiting) {
    auto& [pid, looks] = waiting;
    const StepDaemon daemon = read_step_daemon(fs_, pid);
    if (daemon.state == StepDaemon::State::nameless) return ++looks >= kMostNameLooks;
    if (daemon.state != StepDaemon::State::named) return true;
    if (!source_->slurm_node.empty() && !daemon.node.empty() && daemon.node != source_->slurm_node) return true;
    if (daemon.job != source_->slurm_job) {
      saw_other_job_ = true;
      return true;
    }
    step_daemons_.emplace_back(pid, daemon.step);
    step_changes_.push_back({daemon.step, true});
    look_again_ = true;
    return true;
  });
}

void Job::forget_step_daemon(int pid) {
  std::erase_if(step_daemons_, [&](const auto& daemon) {
    if (daemon.first != pid) return false;
    step_changes_.push_back({daemon.second, false});
    return true;
  });
}

/// A job that starts a hundred short processes a second has dozens that sleep and never used a clock tick: they add
/// nothing to any sum. Only their existence is checked.
bool Job::may_rest(const JobProcess& process, std::size_t place) const noexcept {
  const ProcessStat& stat = process.stat;
  if (!fs_.live() || processes_.size() <= kFewProcesses || process.root || stat.state != 'S') return false;
  if (own_ticks(stat) + reaped_ticks(stat) > 0 || (place + ticks_) % kRest == 0) return false;
  return exists(process.pid);
}

bool Job::read_processes(bool again) {
  const std::size_t share = processes_.size() / kReadEveryTick + 1;
  bool vanished = false;
  bool reaped = false;
  std::vector<GoneProcess> gone;
  // The time of a child that was waited for is its parent's: kept from an earlier reading, it would count twice. Its
  // own children may have gone the same way before it.
  const auto perhaps_reaped = [&](const JobProcess& process) {
    if (!reaped && !vanished) return false;
    const JobProcess* parent = find(process.stat.parent);
    return parent == nullptr || parent->reaped_at == ticks_;
  };
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    JobProcess& process = *processes_[i];
    if (share > 1 && !process.root && (i + ticks_) % share != 0 && !perhaps_reaped(process)) continue;
    if (!again && (process.read_at == ticks_ || may_rest(process, i))) continue;
    process.read_at = ticks_;
    const auto stat = parse_process_stat(process.file.read());
    if (stat && stat->start_ticks == process.start_ticks) {
      const bool may_be_other = process.program != ProgramOf::job && ticks_ % kFileLooks == 0;
      if (may_be_other || stat->command != process.command) rename(process, stat->command);
      if (reaped_ticks(*stat) > reaped_ticks(process.stat)) {
        process.reaped_at = ticks_;
        reaped = true;
      }
      keep_stat(process, *stat);
      continue;
    }
    vanished = true;
    gone.push_back({process.pid, process.stat.parent,
                    own_ticks(process.stat) + reaped_ticks(process.stat) - counted_ticks(process)});
    if (process.root) forget_step_daemon(process.pid);
    if (process.root && dead_roots_.size() < 4096) dead_roots_.emplace_back(process.pid, process.start_ticks);
    by_pid_.erase(process.pid);
    processes_[i].reset();
  }
  if (!vanished) return false;
  ++generation_;
  processes_.erase(std::remove(processes_.begin(), processes_.end(), nullptr), processes_.end());
  leave_out_uncounted(gone);
  return share == 1 && heirs_reaped(gone);
}

/// The process that waited for it; nothing outside the job.
JobProcess* Job::heir_of(const GoneProcess& process, std::span<const GoneProcess> gone) const {
  int heir = process.parent;
  for (std::size_t generations = 0; generations < gone.size() && !by_pid_.contains(heir); ++generations) {
    const auto next = std::find_if(gone.begin(), gone.end(), [&heir](const auto& each) { return each.pid == heir; });
    if (next == gone.end()) break;
    heir = next->parent;
  }
  const auto found = by_pid_.find(heir);
  return found == by_pid_.end() ? nullptr : found->second;
}

/// Time that did not count while its process was there does not count either in the time of the one that waited for it.
void Job::leave_out_uncounted(std::span<const GoneProcess> gone) {
  for (const GoneProcess& process : gone) {
    if (!counted_ || process.uncounted_ticks == 0) continue;
    const JobProcess* heir = heir_of(process, gone);
    if (heir != nullptr && heir->program != ProgramOf::collector) base_ticks_ -= process.uncounted_ticks;
  }
}

// A process that ended before its parent was read is in the parent's sum; one that ended between the two readings is in
// neither. The time of the parent, or of the process that inherited it, decides which of them it was.
bool Job::heirs_reaped(std::span<const GoneProcess> gone) {
  std::vector<const JobProcess*> asked;
  for (const GoneProcess& process : gone) {
    JobProcess* heir = heir_of(process, gone);
    if (heir == nullptr || std::find(asked.begin(), asked.end(), heir) != asked.end()) continue;
    asked.push_back(heir);
    const auto stat = parse_process_stat(heir->file.read());
    if (!stat || reaped_ticks(*stat) != reaped_ticks(heir->stat)) return true;
    // A recording keeps the last text of a tick, and must replay to the same numbers.
    if (stat->command != heir->command) rename(*heir, stat->command);
    keep_stat(*heir, *stat);
  }
  return false;
}

void Job::account() {
  std::int64_t ticks = base_ticks_;
  for (const auto& process : processes_) {
    if (!counted_) process->found_ns = now_ns_;
    const ProcessStat& stat = process->stat;
    const std::int64_t own = own_ticks(stat);
    // The first value is the one that later ones count from: nothing, of those that began since.
    const bool before_birth = !counted_ && process->from_birth;
    if (!before_birth) ticks += counted_ticks(*process);
    if (ticks_ % 10 == 0) {
      process->weight += (own - process->weighed) - process->weight / 4;
      process->weighed = own;
    }
  }
  counted_ = true;
  if (processes_.empty() && !had_root_) {
    cpu_time_ns_ = kMissing;
    return;
  }
  if (ticks >= last_ticks_) {
    short_for_ = 0;
    last_ticks_ = ticks;
    cpu_time_ns_ = scaled(ticks, tick_ns_);
    return;
  }
  // Its time went to a parent outside the job, or to one that ignores SIGCHLD: carried on here, once that is certain.
  cpu_time_ns_ = kMissing;
  const int patience = kShortUpdates * static_cast<int>(processes_.size() / kReadEveryTick + 1);
  if (++short_for_ < patience) return;
  short_for_ = 0;
  base_ticks_ += last_ticks_ - ticks;
  cpu_time_ns_ = scaled(last_ticks_, tick_ns_);
}

}  // namespace reveal
