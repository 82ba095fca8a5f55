// Writing back of dirty pages to each device: how much waits, how fast it goes, where the kernel begins to slow
// programs down.
// https://docs.kernel.org/admin-guide/sysctl/vm.html
#include <array>

#include "core/kernel_text/key_index.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::writeback {
namespace {

constexpr std::string_view kFolder = "/sys/kernel/debug/bdi";

constexpr MetricHelp kLevels[] = {
    {"writeback.under_way", "Bytes being written to the device now."},
    {"writeback.waiting", "Dirty bytes that wait to be written to the device."},
    {"writeback.threshold", "Dirty bytes of the device above which the kernel slows its writers down."},
    {"writeback.bandwidth", "Write bandwidth of the device in bytes per second, as estimated by the kernel."},
};
constexpr MetricHelp kBytes[] = {
    {"writeback.dirtied", "Bytes made dirty."},
    {"writeback.written", "Bytes written back."},
};
constexpr FamilyTable kFamilies[] = {
    {"storage/writeback", Kind::gauge, Unit::bytes, Scope::device, Subsystem::storage, "Writeback of each device",
     "/sys/kernel/debug/bdi/*/stats", kLevels},
    {"storage/writeback_bytes", Kind::counter, Unit::bytes, Scope::device, Subsystem::storage,
     "Bytes dirtied and written back on each device", "/sys/kernel/debug/bdi/*/stats", kBytes},
};

struct Row {
  std::string_view key;
  std::size_t family;
  std::int32_t metric;
};
constexpr std::array kRows = {
    Row{"BdiWriteback", 0, 0},      Row{"BdiReclaimable", 0, 1}, Row{"BdiDirtyThresh", 0, 2},
    Row{"BdiWriteBandwidth", 0, 3}, Row{"BdiDirtied", 1, 0},     Row{"BdiWritten", 1, 1},
};

class WritebackProbe final : public Probe {
 public:
  explicit WritebackProbe(const ProbeContext& context) {
    for (const std::string& name : context.fs.list(kFolder)) {
      Device device;
      device.file = context.fs.open(std::string(kFolder) + '/' + name + "/stats", 1024);
      device.name = name_of_device(context.fs, name);
      if (device.name.empty() || device.file.read().empty()) continue;
      devices_.push_back(std::move(device));
    }
    if (devices_.empty()) throw Unavailable("the writeback of devices is only in debugfs, which cannot be read here");
    for (std::size_t i = 0; i < families_.size(); ++i) families_[i] = &context.family(kFamilies[i]);
  }

  void sample() noexcept override {
    for (Family* family : families_) family->begin();
    for (Device& device : devices_) {
      std::string_view rest = device.file.read();
      std::string_view line;
      while (next_line(rest, line)) parse_line(device, line);
    }
    for (Family* family : families_) family->commit();
  }

 private:
  struct Device {
    std::string name;
    KernelFile file;
    std::array<std::int32_t, std::size(kFamilies)> first{Family::kNoChannel, Family::kNoChannel};
  };

  // "254:0" is a disk; memory file systems and network file systems ("0:40", "nfs-1") keep their names.
  static std::string name_of_device(KernelTree& fs, const std::string& name) {
    if (name.starts_with("7:") || name.starts_with("1:")) return "";  // loop and ram disks
    const auto target = fs.link("/sys/dev/block/" + name);
    return target ? target->substr(target->rfind('/') + 1) : name;
  }

  void parse_line(Device& device, std::string_view line) {
    std::string_view key = cut_word(line);
    if (key.size() < 2) return;
    if (key.back() == ':') key.remove_suffix(1);
    for (const Row& row : kRows) {
      if (row.key != key) continue;
      std::int64_t value = 0;
      std::string_view word = cut_word(line);
      if (word == ":") word = cut_word(line);
      if (!parse_counter(word, value)) return;
      std::int32_t& first = device.first[row.family];
      Family& family = *families_[row.family];
      if (first == Family::kNoChannel) {
        if (value == 0) return;  // most devices are never written to
        first = static_cast<std::int32_t>(family.channels().size());
        for (const MetricHelp& metric : kFamilies[row.family].metrics) family.add(metric.name, device.name);
      }
      family.set(first + row.metric, scaled(value, 1024));  // kB and kBps
    }
  }

  std::array<Family*, std::size(kFamilies)> families_{};
  std::vector<Device> devices_;
};

std::unique_ptr<Probe> open_writeback(const ProbeContext& context) {
  return std::make_unique<WritebackProbe>(context);
}

const RegisteredProbe entry{
    {.name = "writeback",
     .help = "Dirty pages, their writeback and its limits of each device",
     .period = 1s,
     .families = kFamilies,
     .open = open_writeback,
     .remedy = "run it as root: debugfs is closed to other users; vmstat.nr_dirty, nr_writeback and their thresholds "
               "show the whole node",
     .privilege = "root (debugfs)"}};

}  // namespace
}  // namespace reveal::probe::writeback
