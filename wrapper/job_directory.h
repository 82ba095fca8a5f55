// Where the traces of a launch go: the job directory itself, or a node-local spool from which they are delivered at the
// end when the job directory lies on a network file system (an open HDF5 file does not belong there).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "hdf5schema/basics/network_file_system.h"
#include "wrapper/settings.h"

namespace reveal {

struct JobDirectory {
  std::string path;       // absolute
  std::string recording;  // where the collector writes: `path` or a spool directory

  [[nodiscard]] bool spooled() const noexcept { return recording != path; }
};

/// The directory's name by the settings, or the default for this job; absolute, not yet made.
[[nodiscard]] std::string choose_job_directory(const RunSettings& settings, const Environment& environment);

using IsOnNetwork = bool (*)(const std::string& path);

/// Makes the directory (mode 0700) and claims it for this node (NODE.h5.claimed). A trace of this node that is already
/// there, or will be, is never touched: then the next free "NAME-2", "NAME-3" is taken. Throws Error if nothing can be
/// written, or if the directory is not ours alone to write.
[[nodiscard]] JobDirectory make_job_directory(const std::string& path, const std::string& node,
                                              IsOnNetwork on_network = is_on_network);

/// The same in a process of its own: the command does not wait longer than this for a file system that does not answer.
[[nodiscard]] JobDirectory make_job_directory_within(std::chrono::milliseconds limit, const std::string& path,
                                                     const std::string& node);

/// Gives up the claim, and removes the directories if they are empty and were made for this job's claims.
void abandon(const JobDirectory& directory, const std::string& node) noexcept;

/// Moves the recorded files from the spool, if there is one, into the job directory, each file whole or not at all, and
/// gives up the claim. Throws Error if a file could not be delivered; it then stays in the spool. Returns why the spool
/// could not be removed, "" if it was.
[[nodiscard]] std::string deliver(const JobDirectory& directory, const std::string& node);

/// The spool directories in `spools` with traces that no run delivers any more, because it was killed or could not, and
/// without a report. Follows no link.
[[nodiscard]] std::vector<std::string> undelivered_in(const std::string& spools);
/// Likewise, of this user on this node.
[[nodiscard]] std::vector<std::string> undelivered_traces();

}  // namespace reveal
