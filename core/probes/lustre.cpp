// Lustre as this client sees it: bytes, calls and their time on each mounted file system.
// https://doc.lustre.org/lustre_manual.xhtml
#include <algorithm>
#include <array>

#include "core/kernel_text/key_index.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::lustre {
namespace {

// Where releases of Lustre keep it; the last needs root.
constexpr std::array<std::string_view, 3> kFolders = {"/proc/fs/lustre/llite", "/sys/fs/lustre/llite",
                                                      "/sys/kernel/debug/lustre/llite"};
constexpr std::int64_t kMicrosecond = 1000;

constexpr MetricHelp kBytes[] = {
    {"lustre.read_bytes", "Bytes programs read."},
    {"lustre.write_bytes", "Bytes programs wrote."},
};
constexpr MetricHelp kCalls[] = {
    {"lustre.<call>", "Calls of programs: lustre.open, lustre.getattr, lustre.read_bytes_calls, ..."}};
constexpr MetricHelp kTimes[] = {{"lustre.<call>_time", "Duration of those calls, if this release counts it."}};

constexpr std::string_view kSource = "llite/*/stats below /proc/fs/lustre or /sys/kernel/debug/lustre";
constexpr FamilyTable kFamilies[] = {
    {"storage/lustre_bytes", Kind::counter, Unit::bytes, Scope::device, Subsystem::storage,
     "Bytes of each Lustre file system", kSource, kBytes},
    {"storage/lustre_calls", Kind::counter, Unit::count, Scope::device, Subsystem::storage,
     "Calls to each Lustre file system", kSource, kCalls},
    {"storage/lustre_time", Kind::counter, Unit::nanoseconds, Scope::device, Subsystem::storage,
     "Time of calls to each Lustre file system", kSource, kTimes},
};

// "read_bytes 12 samples [bytes] 1 4096 49152 [squares]", "open 5 samples [usecs] 1 9 21 97", "open 5 samples [regs]"
struct Line {
  std::string_view name;
  std::string_view unit;
  std::int64_t samples = 0;
  std::int64_t sum = 0;
  bool has_sum = false;
};

bool parse_line(std::string_view text, Line& line) noexcept {
  line.name = cut_word(text);
  if (line.name.empty() || !parse_counter(cut_word(text), line.samples) || cut_word(text) != "samples") return false;
  line.unit = cut_word(text);
  skip_words(text, 2);
  line.has_sum = parse_counter(cut_word(text), line.sum);
  return true;
}

class LustreProbe final : public Probe {
 public:
  explicit LustreProbe(const ProbeContext& context) {
    for (const std::string_view folder : kFolders) {
      for (const std::string& name : context.fs.list(folder)) {
        KernelFile file = context.fs.open(std::string(folder) + '/' + name + "/stats", 4096);
        if (file.read().empty()) continue;
        Mount mount;
        mount.name = name.substr(0, name.rfind('-'));  // "scratch-ffff8881f2a3c000": the rest is an address
        mount.file = std::move(file);
        mounts_.push_back(std::move(mount));
      }
      if (!mounts_.empty()) break;
    }
    if (mounts_.empty()) throw Unavailable("no Lustre file system is mounted here, or its counters need root");
    for (std::size_t i = 0; i < families_.size(); ++i) families_[i] = &context.family(kFamilies[i]);
  }

  void sample() noexcept override {
    for (Family* family : families_) family->begin();
    for (Mount& mount : mounts_) {
      mount.places.rewind();
      std::string_view rest = mount.file.read();
      std::string_view text;
      Line line;
      while (next_line(rest, text)) {
        if (parse_line(text, line)) store(mount, line);
      }
    }
    for (Family* family : families_) family->commit();
  }

 private:
  struct Place {
    std::int32_t bytes = Family::kNoChannel;
    std::int32_t calls = Family::kNoChannel;
    std::int32_t time = Family::kNoChannel;
  };
  struct Mount {
    std::string name;
    KernelFile file;
    KeyedValues<Place> places;
  };

  void store(Mount& mount, const Line& line) {
    const Place& place = mount.places.at(line.name, [&] { return add_channels(mount, line); });
    families_[1]->set(place.calls, line.samples);
    if (!line.has_sum) return;
    families_[0]->set(place.bytes, line.sum);
    families_[2]->set(place.time, scaled(line.sum, kMicrosecond));
  }

  Place add_channels(const Mount& mount, const Line& line) {
    Place place;
    const std::string metric = "lustre." + std::string(line.name);
    const bool bytes = line.unit == "[bytes]";
    place.calls = families_[1]->add(bytes ? metric + "_calls" : metric, mount.name);
    if (bytes) place.bytes = families_[0]->add(metric, mount.name);
    if (line.unit == "[usec]" || line.unit == "[usecs]") place.time = families_[2]->add(metric + "_time", mount.name);
    return place;
  }

  std::array<Family*, std::size(kFamilies)> families_{};
  std::vector<Mount> mounts_;
};

std::unique_ptr<Probe> open_lustre(const ProbeContext& context) {
  return std::make_unique<LustreProbe>(context);
}

const RegisteredProbe entry{{.name = "lustre",
                             .help = "Bytes, calls and their time on each Lustre file system",
                             .period = 1s,
                             .families = kFamilies,
                             .open = open_lustre,
                             .remedy =
                                 "not needed if no Lustre file system is mounted; only root can read its counters in "
                                 "debugfs (Lustre 2.12 and later)",
                             .privilege = "root, if the counters are in debugfs (Lustre 2.12 and later)"}};

}  // namespace
}  // namespace reveal::probe::lustre
