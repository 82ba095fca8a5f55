// Processes outside the job that use much of a cpu: who they are, where whoever records may know it. An ordinary user
// may know his own (a run of yesterday that still computes); root may know all.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"

namespace reveal {
namespace {

constexpr MetricHelp kMetrics[] = {
    {"outsider.processes",
     "Processes outside the job that used 5 % of a cpu or more since the last look: of the user who records, or of all "
     "where root records. Events name them."}};
constexpr FamilyTable kFamilies[] = {{"process/outsiders", Kind::state, Unit::count, Scope::node, Subsystem::cpu,
                                      "Busy processes outside the job", "/proc/PID/stat", kMetrics}};

constexpr double kBusy = 0.05;               // of a cpu
constexpr std::size_t kMostNamed = 3;        // at each look
constexpr std::size_t kMostKnown = 1 << 16;  // processes of the node
constexpr std::ptrdiff_t kMostFollowed =
    512;  // of them, 4 ms for each look; root on a large node follows the first ones
constexpr std::size_t kStatBytes = 512;

class OutsidersProbe final : public Probe {
 public:
  explicit OutsidersProbe(const ProbeContext& context)
      : context_(context), family_(context.family(kFamilies[0])), load_(context.fs.open("/proc/loadavg", 128)) {
    if (context.job == nullptr) throw Unavailable("without a job every process is an outsider");
    uid_ = context.fs.fact("uid", [] { return std::to_string(::geteuid()); });
    if (context.fs.list("/proc").empty()) throw Unavailable("/proc cannot be listed");
    family_.add("outsider.processes");
  }

  void sample() noexcept override {
    family_.begin();
    const std::int64_t now = context_.sink.now();
    if (has_new_processes()) list();
    busy_.clear();
    for (auto at = known_.begin(); at != known_.end();) {
      at = look_at(at->first, at->second, now) ? std::next(at) : known_.erase(at);
    }
    if (last_ns_ > 0) family_.set(0, static_cast<std::int64_t>(busy_.size()));
    add_events();
    last_ns_ = now;
    family_.commit();
  }

 private:
  struct Known {
    KernelFile stat;  // none: somebody else's, who is not named
    std::uint64_t listed = 0;
    std::int64_t uid = kMissing;
    std::int64_t start_ticks = kMissing;
    std::int64_t ticks = 0;
  };
  struct Busy {
    int pid = 0;
    const Known* known = nullptr;
    double cpus = 0;
    std::string command;
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
    auto followed =
        std::count_if(known_.begin(), known_.end(), [](const auto& each) { return bool(each.second.stat); });
    for (const std::string& name : context_.fs.list("/proc")) {
      std::int64_t pid = 0;
      if (!parse_counter(name, pid) || known_.size() >= kMostKnown) continue;
      if (pid == context_.job->own_pid() || context_.job->find(static_cast<int>(pid)) != nullptr) continue;
      const auto [at, is_new] = known_.try_emplace(static_cast<int>(pid));
      at->second.listed = lists_;
      if (!is_new) continue;
      at->second.uid = owner_of(name);
      if (uid_ != "0" && std::to_string(at->second.uid) != uid_) continue;
      if (++followed > kMostFollowed) continue;
      at->second.stat = context_.fs.open_each_time("/proc/" + name + "/stat", kStatBytes);
    }
    std::erase_if(known_, [this](const auto& each) { return each.second.listed != lists_; });
  }

  /// False if it has ended or became one of the job's.
  bool look_at(int pid, Known& known, std::int64_t now) {
    if (!known.stat) return true;
    const auto stat = parse_process_stat(known.stat.read());
    if (!stat || context_.job->find(pid) != nullptr) return false;
    const std::int64_t ticks = stat->user_ticks + stat->system_ticks;
    const double seconds = static_cast<double>(now - last_ns_) * 1e-9;
    if (known.start_ticks == stat->start_ticks && last_ns_ > 0 && seconds > 0 && on_cpus_of_job(stat->last_cpu)) {
      const double cpus = static_cast<double>((ticks - known.ticks) * context_.host.tick_ns) * 1e-9 / seconds;
      if (cpus >= kBusy) busy_.push_back({pid, &known, cpus, std::string(stat->command)});
    }
    known.start_ticks = stat->start_ticks;
    known.ticks = ticks;
    return true;
  }

  [[nodiscard]] bool on_cpus_of_job(std::int64_t cpu) const {
    const std::vector<int>* cpus = context_.job_cpus;
    return cpus == nullptr || cpus->empty() || std::find(cpus->begin(), cpus->end(), cpu) != cpus->end();
  }

  [[nodiscard]] std::int64_t owner_of(const std::string& pid) const {
    const std::string status = context_.fs.text("/proc/" + pid + "/status").value_or("");
    std::string_view uids = field_of(status, "Uid");  // real, effective, saved, file system
    std::int64_t uid = kMissing;
    return parse_counter(cut_word(uids), uid) ? uid : kMissing;
  }

  void add_events() {
    const std::size_t named = std::min(busy_.size(), kMostNamed);
    std::partial_sort(busy_.begin(), busy_.begin() + static_cast<std::ptrdiff_t>(named), busy_.end(),
                      [](const Busy& a, const Busy& b) { return a.cpus > b.cpus; });
    for (const Busy& each : std::span(busy_).first(named)) {
      context_.sink.event("process " + std::to_string(each.pid), "outsider",
                          fmt::format("{:.2f} cpus, uid {}: {}", each.cpus, each.known->uid, each.command));
    }
  }

  ProbeContext context_;
  Family& family_;
  KernelFile load_;
  std::string uid_;
  std::int64_t last_pid_ = kMissing;
  std::uint64_t lists_ = 0;
  std::map<int, Known> known_;
  std::vector<Busy> busy_;
  std::int64_t last_ns_ = 0;
};

std::unique_ptr<Probe> open_outsiders(const ProbeContext& context) {
  return std::make_unique<OutsidersProbe>(context);
}

const RegisteredProbe entry{{.name = "outsiders",
                             .help = "Busy processes outside the job, of the user who records",
                             .period = 5s,
                             .families = kFamilies,
                             .open = open_outsiders,
                             .privilege = "root: the processes of other users, too"}};

}  // namespace
}  // namespace reveal
