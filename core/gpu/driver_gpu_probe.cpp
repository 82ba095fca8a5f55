#include "core/gpu/driver_gpu_probe.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/gpu/gpu_files.h"
#include "core/gpu/gpu_rows.h"
#include "core/job/opened_devices.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::int64_t kSlowGpuPeriod = 10 * kSecond;

class DriverGpuProbe final : public Probe {
 public:
  DriverGpuProbe(const ProbeContext& context, const GpuDriver& driver)
      : context_(context),
        driver_(driver),
        child_(context, driver.read_files, driver.words),
        rows_(driver.families),
        opened_(context.fs, "@job/render_devices"),
        before_(driver.count_before(context.fs)) {
    child_.need();
    follow_job();
    const auto slow = std::max(context.period, std::chrono::nanoseconds(kSlowGpuPeriod));
    rows_.open(context.sink, driver.first_slow, context.period, slow);
  }

  void sample() noexcept override try {
    take(child_.answer());
    hung_ = child_.hangs() || hung_;
    if (child_.state() == AskedChild::State::idle) ask();
  } catch (const std::exception& error) {  // no memory
    context_.sink.event(std::string(driver_.words.object), "probe_lost", error.what());
  }

  [[nodiscard]] std::string caveat() const override {
    std::string text = child_.gaps();
    if (text.empty() && hung_) text = std::string(driver_.words.text) + " did not answer for a part of the time";
    if (text.empty() && job_gpus_.indices.empty()) {
      text = job_gpus_.allocated_by.empty()
                 ? "none was measured: neither Slurm nor the devices cgroup assigns a whole GPU of this node to the job"
                 : "none was measured: " + job_gpus_.allocated_by + " names no GPU of this node";
    }
    std::string asleep;
    std::string silent;
    for (const auto& [number, gpu] : gpus_) {
      if (gpu.asleep) asleep += (asleep.empty() ? "gpu" : ", gpu") + number;
      if (gpu.silent) silent += (silent.empty() ? "gpu" : ", gpu") + number;
    }
    if (!asleep.empty()) text += (text.empty() ? "" : "; ") + ("asleep and not woken: " + asleep);
    if (!silent.empty()) text += (text.empty() ? "" : "; ") + ("without any value for a part of the time: " + silent);
    return text;
  }

  [[nodiscard]] Snapshot facts() const override {
    Snapshot all;
    for (const GpuIdentity& gpu : identities_) {
      if (!job_gpus_.indices.contains(gpu.index)) continue;
      const std::string prefix = "gpu.gpu" + number_of(gpu) + '.';
      const std::string folder = "/sys/bus/pci/devices/" + gpu.address;
      const Snapshot own{{"vendor", std::string(driver_.vendor)},
                         {"address", gpu.address},
                         {"minor", std::to_string(gpu.minor)},
                         {"uuid", gpu.uuid},
                         {"allocated_by", job_gpus_.allocated_by},
                         {"numa_node", context_.fs.word(folder + "/numa_node")},
                         {"local_cpus", context_.fs.word(folder + "/local_cpulist")}};
      for (const auto& [key, value] : own) {
        if (!value.empty()) all.emplace_back(prefix + key, value);
      }
      const auto known = gpus_.find(number_of(gpu));
      if (known == gpus_.end()) continue;
      for (const auto& [key, value] : known->second.facts) all.emplace_back(prefix + key, value);
    }
    return all;
  }

 private:
  struct GpuState {
    Snapshot facts;
    bool asleep = false;
    bool spoke = false;            // it had values when all were read
    bool spoke_each_time = false;  // it had some that are read each time: not all GPUs do
    bool silent = false;           // and then none: it is being reset, or is lost
  };

  [[nodiscard]] std::string number_of(const GpuIdentity& gpu) const {
    return std::to_string(before_ + static_cast<std::size_t>(gpu.index));
  }

  // A GPU that belonged to the job once belongs to it until the end: processes that end take their environment along.
  void follow_job() {
    DriverGpus found = driver_.find(context_.fs);
    identities_ = std::move(found.gpus);
    const bool named = !job_gpus_.allocated_by.empty();
    if (context_.job != nullptr && !named) opened_.look(context_.sink.now(), *context_.job);
    JobGpus now =
        gpus_of_job(context_.fs, context_.job, identities_, *driver_.maker, opened_.render_gpus(), found.divided);
    if (!now.allocated_by.empty() && !job_gpus_.allocated_by.empty()) now.indices.merge(job_gpus_.indices);
    if (!now.allocated_by.empty() || job_gpus_.allocated_by.empty()) job_gpus_ = std::move(now);
    generation_ = context_.job != nullptr ? context_.job->generation() : 0;
  }

  [[nodiscard]] bool should_follow() const {
    return context_.job != nullptr && (job_gpus_.allocated_by.empty() || context_.job->generation() != generation_);
  }

  void ask() {
    const bool slow = context_.sink.now() >= next_slow_ns_;
    if (slow) next_slow_ns_ = context_.sink.now() + kSlowGpuPeriod;
    if (slow && should_follow()) follow_job();
    request_ = slow ? GpuRequest::kSlow : GpuRequest::kFast;
    bool any = false;
    for (const GpuIdentity& gpu : identities_) {
      if (!job_gpus_.indices.contains(gpu.index)) continue;
      request_.append(1, ' ').append(number_of(gpu)).append(1, '=').append(gpu.address);
      any = true;
    }
    if (!any) return;
    if (driver_.needs_processes) append_processes();
    child_.ask(request_);
  }

  // Without a job, and of a job with very many processes, the use by processes is not measured.
  void append_processes() {
    constexpr std::size_t kMostProcesses = 256;
    request_.append(" at=").append(std::to_string(context_.sink.now()));
    if (context_.job == nullptr || context_.job->processes().size() > kMostProcesses) return;
    for (const auto& process : context_.job->processes()) {
      if (!process->launcher) request_.append(" pid=").append(std::to_string(process->pid));
    }
  }

  void take(std::string_view answer) {
    std::string_view line;
    if (!next_line(answer, line)) return;
    const bool slow = line == GpuRequest::kSlow;
    if (!slow && line != GpuRequest::kFast) return;
    rows_.begin(slow);
    while (next_line(answer, line)) take_line(line, slow);
    rows_.commit(slow);
  }

  void take_line(std::string_view line, bool slow) {
    const std::string_view head = cut_word(line);
    if (head == "process") {
      rows_.take_process(context_.slots, line);
      return;
    }
    if (head != "fact" && head != "asleep") {
      const bool each_time = rows_.take("gpu", head, "job", line);
      if (GpuState* gpu = state_of(head)) {
        gpu->asleep = false;
        gpu->silent = gpu->silent || (gpu->spoke_each_time && !each_time) || (slow && gpu->spoke && line.empty());
        gpu->spoke_each_time = gpu->spoke_each_time || each_time;
        gpu->spoke = gpu->spoke || (slow && !line.empty());
      }
      return;
    }
    GpuState* gpu = state_of(cut_word(line));
    if (gpu == nullptr) return;
    gpu->asleep = head == "asleep";
    const std::string_view key = cut_word(line);
    constexpr std::size_t kMostFacts = 16;
    Snapshot& facts = gpu->facts;
    const bool is_known =  // from a child before this one
        std::any_of(facts.begin(), facts.end(), [key](const auto& fact) { return fact.first == key; });
    const bool whole = head == "fact" && line.size() > 1 && !is_known && facts.size() < kMostFacts;
    if (whole) facts.emplace_back(key, line.substr(1));
  }

  /// Null where there are more than any node has: a recording may hold anything.
  GpuState* state_of(std::string_view number) {
    const auto known = gpus_.find(number);
    if (known != gpus_.end()) return &known->second;
    if (gpus_.size() == GpuRequest::kMostGpus) return nullptr;
    return &gpus_.emplace(std::string(number), GpuState()).first->second;
  }

  ProbeContext context_;
  GpuDriver driver_;
  AskedChild child_;
  GpuRows rows_;
  OpenedDevices opened_;
  std::size_t before_;
  std::vector<GpuIdentity> identities_;  // all of the node
  JobGpus job_gpus_;
  std::map<std::string, GpuState, std::less<>> gpus_;
  std::string request_;
  std::uint64_t generation_ = 0;
  std::int64_t next_slow_ns_ = 0;
  bool hung_ = false;
};

}  // namespace

std::unique_ptr<Probe> probe_of_driver(const ProbeContext& context, const GpuDriver& driver) {
  return std::make_unique<DriverGpuProbe>(context, driver);
}

}  // namespace reveal
