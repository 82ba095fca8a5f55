// Use of GPUs by processes, as the kernel's drivers count it for each open device file (/proc/PID/fdinfo): time in
// which the engines worked for it, and its memory. https://docs.kernel.org/gpu/drm-usage-stats.html
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kernel_text/kernel_tree.h"
#include "hdf5schema/vocabulary.h"

namespace reveal {

/// A group of engines that are alike ("render", "ccs").
struct DrmEngine {
  std::int64_t busy = kMissing;    // ns, or cycles of all its engines
  std::int64_t cycles = kMissing;  // the cycles that passed; kMissing: `busy` is in nanoseconds
  std::int64_t engines = 1;
};

struct DrmClient {
  std::string address;   // place of the GPU on the PCI bus
  std::int64_t id = -1;  // files that were duplicated or inherited are the same client
  std::map<std::string, DrmEngine, std::less<>> engines;
  std::int64_t memory = kMissing;  // bytes of the GPU's own memory
};
/// Nothing where the text is that of another file, or of a driver that does not count. amdgpu before Linux 5.19 has
/// other keys, and the memory only.
[[nodiscard]] std::optional<DrmClient> parse_drm_client(std::string_view text);

/// In the child process of a probe.
class DrmClients {
 public:
  explicit DrmClients(KernelTree& fs) : fs_(fs) {}

  /// Looks for device files that these processes opened, in new processes first, and in some of the others in turn.
  void follow(std::span<const int> pids);
  /// Whether it has looked for the files of all of these.
  [[nodiscard]] bool knows(std::span<const int> pids) const;
  /// Reads the known ones, but those of GPUs that sleep: reading may wake these. Percentages are those of the time
  /// since the last call. `asleep`: addresses.
  void read(std::int64_t now_ns, const std::set<std::string>& asleep = {});

  using BusyParts = std::map<std::string, double, std::less<>>;  // by group of engines: part of the time

  /// The use of one GPU by one process.
  struct Use {
    bool is_known = true;  // false in the first reading of one of its files, and where its work bypasses the kernel
    BusyParts busy;
    std::int64_t memory = kMissing;  // bytes

    /// The time of its busiest group of engines.
    [[nodiscard]] std::optional<double> percent() const;
  };
  /// By GPU and process. A file that several processes share is that of the first of them.
  [[nodiscard]] const std::map<std::pair<std::string, int>, Use>& uses() const noexcept { return uses_; }
  /// By all processes together; nothing while the files of a process are not known, or in the first reading of a file.
  [[nodiscard]] std::optional<double> percent(std::string_view address) const;

 private:
  struct OpenFile {
    int pid = 0;
    std::string name;     // in /proc/PID/fdinfo
    std::string address;  // its GPU; "": not read yet
    KernelFile text;
  };
  struct Seen {
    DrmClient client;
    std::int64_t at_ns = 0;
    bool present = false;  // in this reading
  };

  void look_at(int pid);
  void take(int pid, const DrmClient& client, std::int64_t now_ns);

  KernelTree& fs_;
  std::vector<int> pids_;
  std::set<int> looked_at_;
  std::set<int> hidden_;       // processes whose files cannot be listed
  std::set<int> past_kernel_;  // those with queues (AMD's compute driver) whose work no driver's time has
  bool may_look_ = false;      // the files of at least one process can be listed
  bool overflowed_ = false;    // there are more files than are read
  std::size_t turn_ = 0;
  std::vector<OpenFile> files_;
  std::map<std::pair<std::string, std::int64_t>, Seen> seen_;  // by GPU and client
  std::map<std::pair<std::string, int>, Use> uses_;
};

/// Adds "process PID NUMBER METRIC VALUE ..." for each process on the GPU to the answer of a probe's child
/// (gpu_files.h). `told`: processes whose memory another line has.
void append_uses(std::string& answer, const DrmClients& clients, std::string_view address, std::string_view number,
                 const std::set<int>& told = {});

}  // namespace reveal
