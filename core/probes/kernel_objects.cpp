// Files, inodes and directory entries that the kernel holds, and tasks: their numbers grow with many small files or
// many threads.
// https://docs.kernel.org/admin-guide/sysctl/fs.html
#include <array>

#include "core/sampler/diffed_text.h"
#include "core/sampler/pace.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::kernel_objects {
namespace {

constexpr MetricHelp kObjects[] = {
    {"kernel.files", "Open files of the node; fs.file-max limits them."},
    {"kernel.inodes", "Inodes in memory."},
    {"kernel.inodes_free", "Free inodes in memory."},
    {"kernel.dentries", "Names of files in memory."},
    {"kernel.dentries_unused", "Names in memory that can be dropped."},
    {"kernel.tasks", "Processes and threads of the node; kernel.pid_max limits them."},
};
constexpr FamilyTable kFamilies[] = {{"storage/kernel_objects", Kind::gauge, Unit::count, Scope::node,
                                      Subsystem::storage, "Open files, cached file names and tasks of the kernel",
                                      "/proc/sys/fs, /proc/loadavg", kObjects}};

constexpr std::size_t kMostWords = 4;

/// The words of a text's first line; "" is skipped. "runnable/all" is one word.
struct ObjectText {
  std::string_view path;
  std::array<std::string_view, kMostWords> metrics;
};
constexpr std::array kTexts = {
    ObjectText{"/proc/sys/fs/file-nr", {"kernel.files"}},
    ObjectText{"/proc/sys/fs/inode-nr", {"kernel.inodes", "kernel.inodes_free"}},
    ObjectText{"/proc/sys/fs/dentry-state", {"kernel.dentries", "kernel.dentries_unused"}},
    ObjectText{"/proc/loadavg", {"", "", "", "kernel.tasks"}},
};

class KernelObjectsProbe final : public Probe {
 public:
  explicit KernelObjectsProbe(const ProbeContext& context) : family_(context.family(kFamilies[0])) {
    bool any = false;
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      texts_[i].file = context.fs.open(std::string(kTexts[i].path), 128);
      any = any || !texts_[i].file.read().empty();
      for (std::size_t word = 0; word < kTexts[i].metrics.size(); ++word) {
        const std::string_view metric = kTexts[i].metrics[word];
        texts_[i].channels[word] = metric.empty() ? Family::kNoChannel : family_.add(metric);
      }
    }
    if (!any) throw Unavailable("neither /proc/sys/fs nor /proc/loadavg can be read");
  }

  void sample() noexcept override {
    if (!update_all(texts_)) parse();
    family_.commit();
  }

 private:
  struct Text {
    KernelFile file;
    DiffedText text;
    std::array<std::int32_t, kMostWords> channels{};
  };

  void parse() {
    family_.begin();
    for (Text& each : texts_) {
      std::string_view rest = each.text.parse();
      std::string_view line;
      if (!next_line(rest, line)) continue;
      for (const std::int32_t channel : each.channels) {
        std::string_view word = cut_word(line);
        if (channel == Family::kNoChannel) {
          each.text.ignore(word);
          continue;
        }
        if (const std::size_t bar = word.find('/'); bar != std::string_view::npos) {
          each.text.ignore(word.substr(0, bar));
          word.remove_prefix(bar + 1);
        }
        std::int64_t value = 0;
        if (parse_counter(word, value)) each.text.set(word, family_, channel);
      }
      each.text.ignore(line);
    }
  }

  Family& family_;
  std::array<Text, kTexts.size()> texts_;
};

std::unique_ptr<Probe> open_kernel_objects(const ProbeContext& context) {
  return std::make_unique<KernelObjectsProbe>(context);
}

/// The kernel adds up five counters over all cpus.
std::chrono::nanoseconds period_on(const Host& host) {
  constexpr auto kCostPerCpu = 300ns;
  return paced(host.cpus_online.size(), kCostPerCpu, kShareOfACore / 3);
}

const RegisteredProbe entry{{.name = "kernel_objects",
                             .help = "Open files, cached file names and tasks of the kernel",
                             .families = kFamilies,
                             .open = open_kernel_objects,
                             .period_on = period_on}};

}  // namespace
}  // namespace reveal::probe::kernel_objects
