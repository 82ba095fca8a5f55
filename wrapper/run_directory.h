// The private, node-local directory in which the ranks of one launch meet: `rank.<pid>` per wrapper (its rank, if
// known), `collector` (its pid), `output` (the directory all agreed on), `collector.log` and `lock`. It exists only
// while the launch runs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "hdf5schema/basics/descriptor.h"
#include "wrapper/launch.h"

namespace reveal {

class RunDirectory {
 public:
  /// Announces this process as a rank. Takes the lock if it can be had within `limit`; a rank that does not get it goes
  /// on without, because the holder is starting the collector. Throws Error if there is no safe place.
  RunDirectory(const Launch& launch, const std::string& base, std::chrono::milliseconds limit);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] bool locked() const noexcept { return locked_; }
  void unlock() noexcept;

  /// False once the directory was moved or removed.
  [[nodiscard]] bool still_in_place() const;
  /// "" if there is no such file.
  [[nodiscard]] std::string read(const char* name) const;
  void write(const char* name, const std::string& text) const;
  /// Open for appending, close-on-exec; the caller hands it to a child.
  [[nodiscard]] Descriptor open_log(const char* name) const;

  /// Withdraws this rank. True for the last one, which then holds the lock and has moved the directory out of the way,
  /// so that a new launch of the same name starts afresh; it is removed with this object.
  /// Waits up to `limit` for ranks that the launcher promised and that have not come yet.
  [[nodiscard]] bool leave(std::chrono::milliseconds limit);
  /// After leave(): our files were removed while we ran, as by a cleaning of /tmp. No rank is the last one then.
  [[nodiscard]] bool was_removed() const noexcept { return removed_; }

 private:
  bool enter(std::chrono::milliseconds limit);
  void remove() noexcept;

  std::string path_, rank_name_;
  std::optional<int> number_, expected_ranks_;
  Descriptor directory_, lock_, rank_;
  bool locked_ = false;
  bool mine_to_remove_ = false;
  bool removed_ = false;
};

/// The directory for run directories: $XDG_RUNTIME_DIR/reveal, unless the run may outlive it, else /tmp/reveal-UID (see
/// private_directory). Throws Error.
[[nodiscard]] std::string run_directory_base(const Environment& environment);

/// Removes the directories of launches with all processes killed (kill -9, out of memory).
void remove_abandoned_runs(const std::string& base) noexcept;

}  // namespace reveal
