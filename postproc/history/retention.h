// Deletes old runs of the user: the files of reveal, in directories that hold the record of the run or traces of a job
// without a report, and nothing else there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "postproc/history/run_record.h"

namespace reveal {

/// A run's directory as it is now.
struct StoredRun {
  std::filesystem::path directory;
  RunRecord record;          // without run_id if there is none
  std::uint64_t bytes = 0;   // size of reveal's files
  std::size_t files = 0;     // files of reveal
  std::size_t others = 0;    // left alone
  std::string why_not = {};  // it may not be deleted: "it belongs to another user"
  /// By its record; that of its newest file where there is none, or where the clock of its node was not set.
  std::int64_t ended_utc_ns = 0;
};

/// Looks at the directory; follows no link.
[[nodiscard]] StoredRun look_at_run(const std::filesystem::path& directory, const RunRecord& record);

/// A job that was killed, or whose report was left for later: its directory has traces of reveal and no record, and is
/// known by its name, reveal-*, or by the claim of a Slurm job. Its begin and end are the time of its newest file.
/// Nothing for any other directory.
[[nodiscard]] std::optional<StoredRun> look_at_unrecorded(const std::filesystem::path& directory);
[[nodiscard]] std::vector<StoredRun> unrecorded_runs_in(const std::filesystem::path& folder);

struct RetentionLimits {
  std::int64_t ended_before_utc_ns = 0;     // older ones go; 0: no limit
  std::optional<std::size_t> most_runs;     // the oldest beyond this number go
  std::optional<std::uint64_t> most_bytes;  // the oldest beyond this total go
};

/// The runs, the newest first, that are beyond a limit.
[[nodiscard]] std::vector<const StoredRun*> beyond_limits(const std::vector<StoredRun>& runs,
                                                          const RetentionLimits& limits);

struct ClockFacts {
  std::int64_t now_utc_ns = 0;
  bool synchronised = true;               // as far as the kernel knows
  std::int64_t file_system_ahead_ns = 0;  // clock of the file system minus this one; 0: not known
};
/// Why the ages of the runs are not to be believed; "" if nothing contradicts the clock. A clock that is wrong must not
/// delete all runs.
[[nodiscard]] std::string doubt_of_ages(const std::vector<StoredRun>& runs, std::int64_t ended_before_utc_ns,
                                        const ClockFacts& clock);

struct Deletion {
  std::uint64_t bytes = 0;
  std::size_t files = 0;
  bool directory_gone = false;  // else something that is not reveal's lies there
};
/// Deletes reveal's files in it, the record last, and the directory if it is then empty. Throws Error where a file
/// could not be deleted, or the directory is no longer that of the run.
[[nodiscard]] Deletion delete_run(const StoredRun& run);

}  // namespace reveal
