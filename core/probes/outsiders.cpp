// Processes outside the job that use much of a cpu. Names are recorded only of processes that the recording user may
// see: an ordinary user's own (a run of yesterday that still computes), or all of them for root. The kind of the others
// is always recorded: services of the system, other jobs, the kernel.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
// https://systemd.io/CGROUP_DELEGATION/
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "core/job/cgroup.h"
#include "core/job/job_cpus.h"
#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"

namespace reveal::probe::outsiders {
namespace {

constexpr MetricHelp kMetrics[] = {{"outsider.processes",
                                    "Processes outside the job that used 5 % of a cpu or more since the previous scan: "
                                    "those of the recording user, or of all users if root records. Events name them."}};
constexpr MetricHelp kTimes[] = {
    {"outsider.cpu_time",
     "CPU time on the job's cpus of processes outside the job, by their control groups: services, jobs, kernel or "
     "others. It is a lower bound: processes that began and ended between two scans are not included."}};
constexpr FamilyTable kFamilies[] = {
    {"process/outsiders", Kind::state, Unit::count, Scope::node, Subsystem::cpu, "Busy processes outside the job",
     "/proc/PID/stat", kMetrics},
    {"process/outsider_time", Kind::counter, Unit::nanoseconds, Scope::node, Subsystem::cpu,
     "CPU time of processes outside the job by kind", "/proc/PID/{stat,cgroup}", kTimes}};

constexpr double kBusy = 0.05;               // share of a cpu
constexpr std::size_t kMostNamed = 3;        // at each look
constexpr std::size_t kMostKnown = 1 << 16;  // processes of the node
constexpr std::size_t kStatBytes = 512;
constexpr std::size_t kMostMasks = 64;  // processes of the job whose masks are read for a busy outsider

/// Each look costs 8 us for each process that is followed: on a large node the first ones of each sort are.
enum Sort : std::uint8_t { nameable, foreign, kernel_thread };
constexpr std::array<std::ptrdiff_t, 3> kMostFollowed = {512, 256, 128};

/// Kinds of processes outside the job, in the order of their names.
enum class Belongs : std::uint8_t { services, jobs, kernel, others, to_the_job };
constexpr std::array<std::string_view, 4> kBelongs = {"services", "jobs", "kernel", "others"};

/// Where batch systems and systemd put their processes. The first that fits: Slurm's step daemons are in system.slice.
struct GroupName {
  std::string_view part;
  Belongs belongs;
};
constexpr GroupName kGroups[] = {
    {"/job_", Belongs::jobs},  // Slurm
    {"/pbs_jobs.service/",
     Belongs::jobs},               // https://help.altair.com/2024.1.0/PBS%20Professional/PBSAdminGuide2024.1.pdf
    {"/kubepods", Belongs::jobs},  // https://kubernetes.io/docs/concepts/architecture/cgroups/
    {"/docker", Belongs::jobs},
    {"/libpod", Belongs::jobs},
    {"/reveal/", Belongs::services},  // the collectors of other jobs
    {"/system.slice/", Belongs::services},
};

bool fits(const GroupName& known, std::string_view path) {
  const std::size_t at = path.find(known.part);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = path.substr(at + known.part.size());
  return known.part != "/job_" || (!rest.empty() && rest.front() >= '0' && rest.front() <= '9');
}

/// True for an account of the system, which no person has: https://systemd.io/UIDS-GIDS/
bool is_of_the_node(std::int64_t uid) noexcept {
  constexpr std::int64_t kFirstPerson = 1000;
  constexpr std::int64_t kNobody = 65534;
  return uid == kNobody || (uid >= 0 && uid < kFirstPerson);
}

/// "updatedb.service" of "/system.slice/updatedb.service"; of "sshd@4-10.0.0.1:22.service" the part before its peer.
std::string unit_in(std::string_view path) {
  constexpr std::string_view kSlice = "/system.slice/";
  const std::size_t slice = path.find(kSlice);
  if (slice == std::string_view::npos) return "";
  std::string_view unit = path.substr(slice + kSlice.size());
  unit = unit.substr(0, unit.find('/'));
  if (!unit.ends_with(".service")) return "";
  const std::size_t at = unit.find('@');
  return at == std::string_view::npos ? std::string(unit) : std::string(unit.substr(0, at + 1)) + ".service";
}

class OutsidersProbe final : public Probe {
 public:
  explicit OutsidersProbe(const ProbeContext& context)
      : context_(context), family_(context.family(kFamilies[0])), load_(context.fs.open("/proc/loadavg", 128)) {
    if (context.job == nullptr) throw Absent("without a job every process is an outsider", Absence::needs_job);
    uid_ = context.fs.fact("uid", [] { return std::to_string(::geteuid()); });
    if (context.fs.list("/proc").empty()) throw Unavailable("/proc cannot be listed");
    family_.add("outsider.processes");
    // Where /proc hides the processes of others (hidepid), their use is not known.
    if (context.fs.text("/proc/1/stat").value_or("").empty()) return;
    times_ = &context.family(kFamilies[1]);
    for (const std::string_view name : kBelongs) times_->add("outsider.cpu_time", std::string(name));
  }

  void sample() noexcept override {
    family_.begin();
    const std::int64_t now = context_.sink.now();
    if (has_new_processes() || newcomers_wait_) list();
    busy_.clear();
    units_.clear();
    allowed_.reset();
    for (auto at = known_.begin(); at != known_.end();) {
      at = measure(at->first, at->second, now) ? std::next(at) : known_.erase(at);
    }
    if (last_ns_ > 0) family_.set(0, static_cast<std::int64_t>(busy_.size()));
    add_events();
    last_ns_ = now;
    family_.commit();
    if (times_ == nullptr) return;
    times_->begin();
    for (std::size_t i = 0; i < used_ns_.size(); ++i) times_->set(static_cast<std::int32_t>(i), used_ns_[i]);
    times_->commit();
  }

 private:
  struct Known {
    KernelFile stat;  // none: one too many, or hidden
    Sort sort = foreign;
    std::uint64_t listed = 0;
    bool waits = false;  // it is read from the next look on
    bool born = false;   // since the look before
    std::int64_t uid = kMissing;
    std::int64_t start_ticks = kMissing;
    std::int64_t ticks = 0;
    std::optional<Belongs> belongs;  // known once it has used a cpu
    std::string unit;
  };
  struct Busy {
    int pid = 0;
    const Known* known = nullptr;
    double cpus = 0;
    std::string command;
  };
  struct BusyUnit {
    std::string_view name;
    double cpus = 0;
  };

  /// The last process id given out is the fifth word; where it cannot be read, there may always be some.
  bool has_new_processes() {
    std::string_view text = load_.read();
    std::string_view word;
    for (int number = 0; number < 5; ++number) word = cut_word(text);
    std::int64_t last_pid = 0;
    if (!parse_number_file(word, last_pid)) return true;
    return std::exchange(last_pid_, last_pid) != last_pid;
  }

  void list() {
    ++lists_;
    // A tick of a recording holds the last text of each file. A new process may be a child of the job that the job sees
    // from the next tick on: read here before that, it would be the job's one tick earlier in the replay.
    const bool newcomers_wait = last_ns_ > 0 && (context_.fs.recording() || context_.fs.recorded());
    newcomers_wait_ = false;
    std::array<std::ptrdiff_t, 3> followed{};
    for (const auto& [pid, known] : known_) followed.at(known.sort) += known.stat ? 1 : 0;
    for (const std::string& name : context_.fs.list("/proc")) {
      std::int64_t pid = 0;
      if (!parse_counter(name, pid) || known_.size() >= kMostKnown) continue;
      if (pid == context_.job->own_pid() || context_.job->find(static_cast<int>(pid)) != nullptr) continue;
      const auto [at, is_new] = known_.try_emplace(static_cast<int>(pid));
      at->second.listed = lists_;
      if (!is_new && !at->second.waits) continue;
      at->second.waits = is_new && newcomers_wait;
      newcomers_wait_ = newcomers_wait_ || at->second.waits;
      if (!at->second.waits) follow(name, at->second, followed);
    }
    std::erase_if(known_, [this](const auto& each) { return each.second.listed != lists_; });
  }

  void follow(const std::string& pid, Known& known, std::array<std::ptrdiff_t, 3>& followed) {
    const std::string status = context_.fs.text("/proc/" + pid + "/status").value_or("");
    std::string_view uids = field_of(status, "Uid");  // real, effective, saved, file system
    if (!parse_counter(cut_word(uids), known.uid)) return;
    const int own = context_.job->own_pid();
    if (own > 0 && field_of(status, "PPid") == std::to_string(own)) return;  // a worker of the collector
    // All are children of number 2; in a container that may be any program, but a process without memory of its own is
    // a kernel thread.
    const bool kernel = field_of(status, "PPid") == "2" && field_of(status, "VmSize").empty();
    known.born = last_ns_ > 0;
    known.sort = kernel ? kernel_thread : uid_ == "0" || std::to_string(known.uid) == uid_ ? nameable : foreign;
    if (kernel) known.belongs = Belongs::kernel;
    if (known.sort == foreign && times_ == nullptr) return;
    if (++followed.at(known.sort) > kMostFollowed.at(known.sort)) return;
    known.stat = context_.fs.open_each_time("/proc/" + pid + "/stat", kStatBytes);
  }

  /// False if it has ended or became one of the job's.
  bool measure(int pid, Known& known, std::int64_t now) {
    if (!known.stat) return true;
    if (context_.job->find(pid) != nullptr) return false;
    const auto stat = parse_process_stat(known.stat.read());
    if (!stat) return false;
    const std::int64_t ticks = stat->user_ticks + stat->system_ticks;
    const double seconds = static_cast<double>(now - last_ns_) * 1e-9;
    const bool same = known.start_ticks == stat->start_ticks;
    if ((same || known.born) && last_ns_ > 0 && seconds > 0 && on_cpus_of_job(stat->last_cpu)) {
      const double used = static_cast<double>((ticks - (same ? known.ticks : 0)) * context_.host.tick_ns) * 1e-9;
      // No process uses more than all cpus: with more, it is older than it seemed.
      if (used > 0 && used <= seconds * most_cpus()) add(pid, known, *stat, used, seconds);
    }
    known.born = false;
    known.start_ticks = stat->start_ticks;
    known.ticks = ticks;
    return true;
  }

  [[nodiscard]] double most_cpus() const { return static_cast<double>(context_.host.cpus_online.size()); }

  void add(int pid, Known& known, const ProcessStat& stat, double used, double seconds) {
    if (!known.belongs) known.belongs = look_up(pid, known);
    if (*known.belongs == Belongs::to_the_job) return;
    if (used >= kBusy * seconds && !may_disturb(stat.last_cpu)) return;
    used_ns_.at(static_cast<std::size_t>(*known.belongs)) += static_cast<std::int64_t>(used * 1e9);
    if (used < kBusy * seconds) return;
    const bool may_be_named = known.sort == nameable || (known.sort == kernel_thread && uid_ == "0");
    if (may_be_named) busy_.push_back({pid, &known, used / seconds, std::string(stat.command)});
    if (!known.unit.empty()) units_.push_back({known.unit, used / seconds});
  }

  /// Units of the node's own accounts only: other ones may be jobs, and have names of users.
  [[nodiscard]] Belongs look_up(int pid, Known& process) {
    const std::string own = own_group();
    const std::vector<Cgroup> groups = cgroup_paths_of(context_.fs, pid);
    for (const Cgroup& group : groups) {
      if (!own.empty() && (group.path + '/').find(own + '/') != std::string::npos) return Belongs::to_the_job;
    }
    for (const GroupName& known : kGroups) {
      for (const Cgroup& group : groups) {
        if (!fits(known, group.path)) continue;
        if (known.belongs != Belongs::services) return known.belongs;
        if (!is_of_the_node(process.uid)) return Belongs::others;
        process.unit = unit_in(group.path);
        return known.belongs;
      }
    }
    return Belongs::others;
  }

  /// "/job_4711" of a Slurm job, also of one in which the collector was started by hand; else the whole path in which
  /// another batch system put the job.
  [[nodiscard]] std::string own_group() const {
    if (!context_.job->cgroup_name().empty() || context_.job->processes().empty()) return context_.job->cgroup_name();
    const std::vector<Cgroup> groups = cgroup_paths_of(context_.fs, context_.job->processes().front()->pid);
    for (const GroupName& known : kGroups) {
      if (known.belongs != Belongs::jobs) continue;
      for (const Cgroup& group : groups) {
        const std::size_t at = group.path.find(known.part);
        if (at == std::string::npos) continue;
        return known.part == "/job_" ? group.path.substr(at, group.path.find('/', at + 1) - at) : group.path;
      }
    }
    return "";
  }

  [[nodiscard]] bool on_cpus_of_job(std::int64_t cpu) const {
    const std::vector<int>* cpus = context_.job_cpus;
    return cpus == nullptr || cpus->empty() || std::find(cpus->begin(), cpus->end(), cpu) != cpus->end();
  }

  /// Without a cpuset the job owns all cpus, and may be bound to a few of them: another process may use the others.
  [[nodiscard]] bool may_disturb(std::int64_t cpu) {
    if (context_.job->processes().size() > kMostMasks) return true;
    if (!allowed_) allowed_ = cpus_of_job(context_.fs, *context_.job, CpusOf::tasks);
    return allowed_->size() == 0 || allowed_->contains(static_cast<int>(cpu));
  }

  void add_events() {
    const std::size_t named = std::min(busy_.size(), kMostNamed);
    std::partial_sort(busy_.begin(), busy_.begin() + static_cast<std::ptrdiff_t>(named), busy_.end(),
                      [](const Busy& a, const Busy& b) { return a.cpus > b.cpus; });
    for (const Busy& each : std::span(busy_).first(named)) {
      context_.sink.event("process " + std::to_string(each.pid), "outsider",
                          fmt::format("{:.2f} cpus, uid {}: {}", each.cpus, each.known->uid, each.command));
    }
    std::sort(units_.begin(), units_.end(), [](const BusyUnit& a, const BusyUnit& b) { return a.cpus > b.cpus; });
    for (const BusyUnit& each : std::span(units_).first(std::min(units_.size(), kMostNamed))) {
      context_.sink.event("unit " + std::string(each.name), "outsider_unit", fmt::format("{:.2f} cpus", each.cpus));
    }
  }

  ProbeContext context_;
  Family& family_;
  Family* times_ = nullptr;  // null: the processes of others cannot be seen
  std::array<std::int64_t, kBelongs.size()> used_ns_{};
  KernelFile load_;
  std::string uid_;
  std::int64_t last_pid_ = kMissing;
  std::uint64_t lists_ = 0;
  bool newcomers_wait_ = false;
  std::map<int, Known> known_;
  std::vector<Busy> busy_;
  std::vector<BusyUnit> units_;
  std::optional<CpuSet> allowed_;  // cpus of the job, once a busy outsider was seen
  std::int64_t last_ns_ = 0;
};

std::unique_ptr<Probe> open_outsiders(const ProbeContext& context) {
  return std::make_unique<OutsidersProbe>(context);
}

const RegisteredProbe entry{
    {.name = "outsiders",
     .help = "Busy processes outside the job by kind; with names for processes of the recording user",
     .period = 5s,
     .families = kFamilies,
     .open = open_outsiders,
     .privilege = "root: names of the processes of other users, too"}};

}  // namespace
}  // namespace reveal::probe::outsiders
