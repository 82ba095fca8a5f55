// Queue pairs of the job by RDMA device and process: over how many connections, and so over how many paths, it sends.
// The kernel requests the state of each of them from the adapter's firmware, so a child process does this, and less
// often if it takes long.
// https://man7.org/linux/man-pages/man8/rdma-resource.8.html
// https://github.com/torvalds/linux/blob/master/drivers/infiniband/core/nldev.c
#include "core/job/rdma_queues.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <map>
#include <utility>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/asked_child.h"
#include "core/sampler/pace.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::rdma_queues {
namespace {

constexpr std::string_view kAdapters = "/sys/class/infiniband";
constexpr std::chrono::nanoseconds kLookPeriod = 10s;
constexpr double kShareOfTheAdapter = 0.1;  // share of its firmware's time, which the job's own requests need, too
constexpr std::string_view kQueuesSource = "RDMA netlink: RES_QP_GET, RES_CQ_GET";

constexpr MetricHelp kJobQueues[] = {
    {"rdma.qp.count",
     "Connected queue pairs of the job (RC and UC, ready to receive or to send; without connections to itself)."},
    {"rdma.cq.count", "Completion queues that the job's queue pairs use: NCCL has one per connection."},
};
constexpr MetricHelp kProcessQueues[] = {
    {"process.rdma_queue_pairs", "Connected queue pairs of a process on a device (instance \"rank0/mlx5_0\")."}};
constexpr FamilyTable kQueueFamilies[] = {
    {"network/rdma_queues", Kind::gauge, Unit::count, Scope::device, Subsystem::network,
     "Queues of the job on each RDMA device", kQueuesSource, kJobQueues},
    {"process/rdma_queues", Kind::gauge, Unit::count, Scope::process, Subsystem::network,
     "Queue pairs of the job's processes on each RDMA device", kQueuesSource, kProcessQueues},
};

// Runs in the child.
// Answer: "ok WORKED ELAPSED" (nanoseconds) and, for each device that was read completely, "device NAME UNKNOWN" (queue
// pairs without a process) and "process PID NAME PAIRS QUEUES"; for the others "lost NAME WHY"; at last "end". Or
// "gap WORKED ELAPSED WHY".
constexpr std::string_view kEndLine = "end\n";
class QueueWatch {
 public:
  explicit QueueWatch(const std::string& root) : fs_(root) {}

  std::string answer() {
    const std::int64_t begin = read_clock(CLOCK_MONOTONIC);
    const std::int64_t unused = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    std::string rows;
    const std::string problem = look(rows);
    const std::string cost = std::to_string(read_clock(CLOCK_PROCESS_CPUTIME_ID) - unused) + ' ' +
                             std::to_string(read_clock(CLOCK_MONOTONIC) - begin);
    if (!problem.empty()) return "gap " + cost + ' ' + problem;
    std::string text = "ok " + cost + '\n' + rows + std::string(kEndLine);
    // A piece of it would leave processes out.
    if (text.size() > WorkerProcess::kLongestAnswer) return "gap " + cost + " too many processes have queue pairs";
    return text;
  }

 private:
  std::string look(std::string& rows) {
    std::vector<RdmaDevice> devices;
    OpenedNetlink opened = open_netlink(NETLINK_RDMA);
    if (!opened.socket) return std::strerror(opened.error);
    if (std::string problem = list_rdma_devices(opened.socket.get(), buffer_, devices); !problem.empty()) {
      return problem;
    }
    if (devices.empty()) return "no RDMA device is in this network namespace";
    for (const RdmaDevice& device : devices) {
      if (!opened.socket) opened = open_netlink(NETLINK_RDMA);
      RdmaTally tally;
      const std::string problem =
          opened.socket ? count_rdma_queues(opened.socket.get(), buffer_, device, tally) : std::strerror(opened.error);
      if (problem.empty()) {
        append(device, tally, rows);
      } else {
        rows += "lost " + device.name + ' ' + problem + '\n';
        opened.socket.close();
      }
    }
    return "";
  }

  void append(const RdmaDevice& device, const RdmaTally& tally, std::string& rows) {
    std::int64_t of_nobody = 0;
    std::map<std::int64_t, RdmaQueues> by_process;
    for (const auto& [thread, queues] : tally.by_thread()) {
      const std::int64_t process = process_of(thread);
      if (process == 0) {
        of_nobody += queues.connected_pairs;
        continue;
      }
      RdmaQueues& sums = by_process[process];
      sums.connected_pairs += queues.connected_pairs;
      sums.completion_queues += queues.completion_queues;
    }
    rows += "device " + device.name + ' ' + std::to_string(of_nobody) + '\n';
    for (const auto& [process, queues] : by_process) {
      rows += "process " + std::to_string(process) + ' ' + device.name + ' ' + std::to_string(queues.connected_pairs) +
              ' ' + std::to_string(queues.completion_queues) + '\n';
    }
  }

  /// The kernel names the thread that made it, and NCCL's is not the first of its process. 0: unknown.
  std::int64_t process_of(std::uint32_t thread) {
    std::int64_t process = 0;
    if (thread == 0) return 0;
    const std::string status = fs_.text("/proc/" + std::to_string(thread) + "/status").value_or("");
    return parse_counter(field_of(status, "Tgid"), process) ? process : 0;
  }

  static constexpr std::size_t kAnswerBytes = 1 << 16;  // the kernel's are half as long

  KernelTree fs_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kAnswerBytes);
};

std::string query_rdma_queues(const std::string& root, std::string_view /*request*/) {
  static QueueWatch watch(root);  // the child's, of which there is one
  return watch.answer();
}

class RdmaQueuesProbe final : public Probe {
 public:
  explicit RdmaQueuesProbe(const ProbeContext& context)
      : context_(context),
        period_((kLookPeriod + context.period - 1ns) / context.period * context.period),
        child_(context, query_rdma_queues, {.probe = "rdma_queues", .object = "rdma adapters"}) {
    constexpr std::chrono::milliseconds kForTheStart{500};
    std::string_view words = child_.open(kQuestion, kForTheStart);
    child_.pause(static_cast<double>(period_.count()));
    if (cut_word(words) == "gap") {
      skip_words(words, 2);
      throw Unavailable("the kernel does not report queue pairs (" + std::string(AskedChild::reason_in(words)) + ')');
    }
    const std::size_t devices = context.fs.list(kAdapters).size() + 1;  // another one may come
    for (std::size_t i = 0; i < families_.size(); ++i) {
      families_[i] = &context.sink.add_family(kQueueFamilies[i], period_);
      families_[i]->expect(devices * (i == 0 ? std::size(kJobQueues) : ProcessSlots::kSlots / 2));
    }
  }

  void sample() noexcept override {
    take(child_.answer());
    hangs_ = child_.hangs();
    if (child_.is_due() && child_.ask(kQuestion)) child_.pause(static_cast<double>(period_.count()));
  }

  [[nodiscard]] std::string caveat() const override {
    std::string text;
    const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
    if (hangs_) add("an adapter does not answer");
    if (of_nobody_ > 0) {
      add("the owner of up to " + std::to_string(of_nobody_) +
          " queue pairs on one device is not known (their threads have ended, or are in a container's own pid "
          "namespace)");
    }
    if (left_out_) add("only the first " + std::to_string(kMostPlaces) + " pairs of a process and a device have rows");
    if (devices_left_out_) add("only the first " + std::to_string(kMostDevices) + " devices are measured");
    if (child_.longest_pause_ns() > period_.count()) {
      add("queue pairs were read only every " + std::to_string(child_.longest_pause_ns() / kSecond) +
          " s at times, because reading all of them takes long");
    }
    if (const std::string gaps = child_.gaps(); !gaps.empty()) add(gaps);
    return text;
  }

 private:
  static constexpr std::string_view kQuestion = "queues";
  static constexpr std::size_t kMostDevices = 64;
  static constexpr std::size_t kMostPlaces = 512;

  struct Device {
    std::string name;
    std::array<std::int32_t, std::size(kJobQueues)> channels{};
    bool known = false;   // the job has had queues there: from then on, none is a number
    bool listed = false;  // in this answer
    RdmaQueues of_job;    // likewise
  };
  struct Place {
    std::string instance;  // "rank0/mlx5_0"
    std::size_t slot = 0, device = 0;
    std::int32_t channel = Family::kNoChannel;
    std::int64_t pairs = 0;  // in this answer
  };

  void take(std::string_view answer) {
    std::string_view line;
    if (!next_line(answer, line)) return;
    const std::string_view verdict = cut_word(line);
    std::int64_t worked = 0;
    std::int64_t elapsed = 0;
    if (!parse_counter(cut_word(line), worked) || !parse_counter(cut_word(line), elapsed)) return;
    set_pace(worked, elapsed);
    for (Family* family : families_) family->begin();
    if (verdict != "ok") {
      child_.note_gap(line);
    } else if (!answer.ends_with(kEndLine)) {
      child_.note_gap("the answer was cut off");
    } else {
      take_rows(answer);
    }
    for (Family* family : families_) family->commit();
  }

  /// The first look is left out: it also loads code that the child needs.
  void set_pace(std::int64_t worked_ns, std::int64_t elapsed_ns) {
    if (!std::exchange(has_answered_, true)) return;
    child_.pause(
        std::max(static_cast<double>(worked_ns) / kShareOfACore, static_cast<double>(elapsed_ns) / kShareOfTheAdapter));
  }

  void take_rows(std::string_view answer) {
    for (Device& device : devices_) {
      device.listed = false;
      device.of_job = {};
    }
    for (Place& place : places_) place.pairs = 0;
    std::string_view line;
    while (next_line(answer, line)) {
      const std::string_view kind = cut_word(line);
      if (kind == "device") take_device(line);
      if (kind == "process") take_process(line);
      if (kind == "lost") child_.note_gap(line);
    }
    for (Device& device : devices_) {
      if (!device.listed || !device.known) continue;
      families_[0]->set(device.channels[0], device.of_job.connected_pairs);
      families_[0]->set(device.channels[1], device.of_job.completion_queues);
    }
    const std::vector<ProcessSlot>& slots = context_.slots->slots();
    for (const Place& place : places_) {
      if (!devices_[place.device].listed || slots[place.slot].process == nullptr) continue;
      families_[1]->set(place.channel, place.pairs);
    }
  }

  void take_device(std::string_view line) {
    const std::string_view name = cut_word(line);
    std::int64_t of_nobody = 0;
    if (!parse_counter(cut_word(line), of_nobody)) return;
    of_nobody_ = std::max(of_nobody_, of_nobody);
    auto device = find_device(name);
    if (device == devices_.end()) {
      devices_left_out_ = devices_left_out_ || devices_.size() == kMostDevices;
      if (devices_.size() == kMostDevices || name.empty()) return;
      device = devices_.insert(devices_.end(), Device{.name = std::string(name)});
    }
    device->listed = true;
  }

  void take_process(std::string_view line) {
    std::int64_t pid = 0;
    RdmaQueues queues;
    const bool right = parse_counter(cut_word(line), pid);
    const auto device = find_device(cut_word(line));
    if (!right || device == devices_.end() || !device->listed ||
        !parse_counter(cut_word(line), queues.connected_pairs) ||
        !parse_counter(cut_word(line), queues.completion_queues) || pid > INT32_MAX) {
      return;
    }
    const JobProcess* process = context_.job->find(static_cast<int>(pid));
    if (process == nullptr || process->launcher) return;
    if (!device->known) {
      for (std::size_t i = 0; i < std::size(kJobQueues); ++i) {
        device->channels[i] = families_[0]->add(kJobQueues[i].name, device->name, "job");
      }
      device->known = true;
    }
    device->of_job.connected_pairs = wrapping_sum(device->of_job.connected_pairs, queues.connected_pairs);
    device->of_job.completion_queues = wrapping_sum(device->of_job.completion_queues, queues.completion_queues);
    const std::vector<ProcessSlot>& slots = context_.slots->slots();
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].process != process) continue;
      if (Place* place = place_of(slot, static_cast<std::size_t>(device - devices_.begin()))) {
        place->pairs = queues.connected_pairs;
      }
    }
  }

  std::vector<Device>::iterator find_device(std::string_view name) {
    return std::find_if(devices_.begin(), devices_.end(), [name](const Device& device) { return device.name == name; });
  }

  /// Null where there are more than any node has: a recording may hold anything.
  Place* place_of(std::size_t slot, std::size_t device) {
    for (Place& place : places_) {
      if (place.slot == slot && place.device == device) return &place;
    }
    left_out_ = left_out_ || places_.size() == kMostPlaces;
    if (left_out_) return nullptr;
    const ProcessSlot& process = context_.slots->slots()[slot];
    Place place{.instance = process.instance + '/' + devices_[device].name, .slot = slot, .device = device};
    place.channel = families_[1]->add(kProcessQueues[0].name, place.instance, process.role);
    return &places_.emplace_back(std::move(place));
  }

  ProbeContext context_;
  std::chrono::nanoseconds period_;
  AskedChild child_;
  std::array<Family*, std::size(kQueueFamilies)> families_{};
  std::vector<Device> devices_;
  std::vector<Place> places_;
  std::int64_t of_nobody_ = 0;
  bool has_answered_ = false;
  bool hangs_ = false;
  bool left_out_ = false;
  bool devices_left_out_ = false;
};

std::unique_ptr<Probe> open_rdma_queues(const ProbeContext& context) {
  need_job(context);
  if (!context.fs.live() && !context.fs.recorded()) throw Unavailable("a copied tree has no queue pairs");
  // A request to a kernel without RDMA would load its module.
  if (context.fs.list(kAdapters).empty()) {
    throw Unavailable("this host has no InfiniBand or RoCE adapter (/sys/class/infiniband)");
  }
  return std::make_unique<RdmaQueuesProbe>(context);
}

const RegisteredProbe entry{{.name = "rdma_queues",
                             .help = "Queue pairs of the job by RDMA device and process",
                             .period = 1s,
                             .may_block = true,
                             .families = kQueueFamilies,
                             .open = open_rdma_queues,
                             .remedy =
                                 "run the command under reveal-run or srun --reveal, on a kernel of 5.0 or later; "
                                 "containers: rdma system set netns shared"}};

}  // namespace
}  // namespace reveal::probe::rdma_queues
