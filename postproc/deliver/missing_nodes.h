// The wait of one node for the files of the others. A shared file system tells nobody that a file is there, so it has
// to be asked; it is asked rarely, and for one name at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

/// The time until the next look of a process that has waited for `waited`: a tenth of a second, later a quarter of that
/// time. So no wait is longer by more than a quarter, and an hour of it takes 50 looks.
[[nodiscard]] std::chrono::milliseconds next_look(std::chrono::milliseconds waited) noexcept;

class Looks {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Looks(Clock::time_point end) noexcept : end_(end) {}
  /// Sleeps until the next look; false when the time is up.
  [[nodiscard]] bool wait() const;

 private:
  Clock::time_point begin_ = Clock::now(), end_;
};

/// The directory as its server has it now. NFS answers from what it knows of names, also of names that are not there,
/// until the directory itself is opened: https://man7.org/linux/man-pages/man5/nfs.5.html (close-to-open).
[[nodiscard]] Descriptor open_as_it_is(const std::filesystem::path& directory) noexcept;
/// Whether a name is there, without following a link.
[[nodiscard]] bool has_name(int folder, const std::string& name) noexcept;

enum class NodeFiles : std::uint8_t { flat, in_folders };  // see postproc/telemetry/node_folders.h

/// Nodes whose summary is not in the directory yet.
class MissingNodes {
 public:
  MissingNodes(std::filesystem::path directory, NodeFiles layout, const std::vector<std::string>& nodes,
               const std::set<std::string>& delivered);
  /// Looks for one of them, and for the next one only when that is there: two or three operations, and one for each
  /// that came.
  [[nodiscard]] bool have_come();

 private:
  std::filesystem::path directory_;
  NodeFiles layout_;
  std::vector<std::string> missing_;
};

}  // namespace reveal
