// /proc/diskstats: requests, bytes, time and queue of each disk.
// https://docs.kernel.org/admin-guide/iostats.html
#include <array>
#include <map>
#include <string>

#include "core/sampler/instances.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::disk {
namespace {

constexpr std::int64_t kSector = 512;  // in this file, whatever the disk's own
constexpr std::int64_t kMillisecond = 1'000'000;

constexpr MetricHelp kRequests[] = {
    {"disk.reads", "Reads completed."},
    {"disk.reads_merged", "Reads merged with a neighbour before they were issued."},
    {"disk.writes", "Writes completed."},
    {"disk.writes_merged", "Writes merged with a neighbour before they were issued."},
    {"disk.discards", "Discards completed."},
    {"disk.discards_merged", "Discards merged."},
    {"disk.flushes", "Flushes completed (fsync sends one to the disk)."},
};
constexpr MetricHelp kBytes[] = {
    {"disk.read_bytes", "Bytes read."},
    {"disk.write_bytes", "Bytes written."},
    {"disk.discard_bytes", "Bytes discarded."},
};
constexpr MetricHelp kTimes[] = {
    {"disk.read_time", "Time all reads took, queueing included."},
    {"disk.write_time", "Time all writes took, queueing included."},
    {"disk.io_time", "Time with at least one request in flight."},
    {"disk.queue_time", "Time weighted by the number of requests in flight."},
    {"disk.discard_time", "Time all discards took."},
    {"disk.flush_time", "Time all flushes took."},
};
constexpr MetricHelp kQueue[] = {{"disk.inflight", "Requests in flight."}};

constexpr FamilyTable kFamilies[] = {
    {"storage/disk", Kind::counter, Unit::count, Scope::device, Subsystem::storage, "Requests of each disk",
     "/proc/diskstats", kRequests},
    {"storage/disk_bytes", Kind::counter, Unit::bytes, Scope::device, Subsystem::storage, "Bytes of each disk",
     "/proc/diskstats", kBytes},
    {"storage/disk_time", Kind::counter, Unit::nanoseconds, Scope::device, Subsystem::storage, "Time of each disk",
     "/proc/diskstats", kTimes},
    {"storage/disk_queue", Kind::gauge, Unit::count, Scope::device, Subsystem::storage, "Requests in flight",
     "/proc/diskstats", kQueue},
};

// The columns after the device's name, in the kernel's order.
using Column = Instances::Column;
constexpr std::array kColumns = {
    Column{0, 0, 1},
    Column{0, 1, 1},
    Column{1, 0, kSector},
    Column{2, 0, kMillisecond},
    Column{0, 2, 1},
    Column{0, 3, 1},
    Column{1, 1, kSector},
    Column{2, 1, kMillisecond},
    Column{3, 0, 1},
    Column{2, 2, kMillisecond},
    Column{2, 3, kMillisecond},
    Column{0, 4, 1},
    Column{0, 5, 1},
    Column{1, 2, kSector},
    Column{2, 4, kMillisecond},
    Column{0, 6, 1},
    Column{2, 5, kMillisecond},
};

constexpr std::size_t kExpectedLater = 2;

bool is_memory_disk(std::string_view name) noexcept {
  return name.substr(0, 4) == "loop" || name.substr(0, 3) == "ram";
}

class DiskProbe final : public Probe {
 public:
  DiskProbe(const ProbeContext& context, KernelFile file)
      : fs_(context.fs), file_(std::move(file)), disks_(context, kFamilies, kColumns, kExpectedLater) {}

  void sample() noexcept override {
    if (!text_.update(file_.read())) parse();
    disks_.commit();
  }

  [[nodiscard]] std::string caveat() const override { return disks_.caveat("disks"); }

  [[nodiscard]] Snapshot facts() const override {
    Snapshot all;
    for (const auto& [name, rotational] : rotational_) all.emplace_back("disk." + name + ".rotational", rotational);
    return all;
  }

 private:
  void parse() {
    disks_.begin();
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) parse_line(line);
    disks_.end();
  }

  void parse_line(std::string_view line) {
    skip_words(line, 2);
    const std::string_view name = cut_word(line);
    LastingInstances::Member* disk = name.empty() ? nullptr : disks_.see(name);
    if (disk == nullptr) return;
    // A partition repeats the numbers of its disk.
    if (disk->fresh) {
      const std::string folder = "/sys/class/block/" + std::string(name);
      disk->wanted = !is_memory_disk(name) && !fs_.text(folder + "/partition");
      if (disk->wanted) remember(name, fs_.word(folder + "/queue/rotational"));
    }
    if (!disk->wanted) {
      text_.ignore(line);
      return;
    }
    std::array<std::string_view, kColumns.size()> words;
    std::size_t count = 0;
    std::int64_t value = 0;
    while (count < kColumns.size() && parse_counter(words[count] = cut_word(line), value)) ++count;
    disks_.store(*disk, name, text_, std::span(words).first(count));
  }

  /// "1" for a disk that turns, and for most virtual ones; "0" for flash.
  void remember(std::string_view name, std::string rotational) {
    constexpr std::size_t kMost = 64;
    if (!rotational.empty() && rotational_.size() < kMost) rotational_.emplace(name, std::move(rotational));
  }

  KernelTree& fs_;
  KernelFile file_;
  DiffedText text_;
  Instances disks_;
  std::map<std::string, std::string> rotational_;
};

std::unique_ptr<Probe> open_disk(const ProbeContext& context) {
  return std::make_unique<DiskProbe>(context, context.fs.require("/proc/diskstats", "disks cannot be observed"));
}

const RegisteredProbe entry{
    {.name = "disk", .help = "Requests, bytes, time and queue of each disk", .families = kFamilies, .open = open_disk}};

}  // namespace
}  // namespace reveal::probe::disk
