// Where traces wait on the node until they are delivered: SPOOL/JOBID or, of a run after a requeue, SPOOL/JOBID-rN, the
// user's own while it runs, inside a directory that only root can write. A trace that could not be delivered belongs to
// root from then on, and the user can read it. Nothing here follows a link.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "hdf5schema/basics/config.h"

namespace reveal {

/// Limits of the section [slurm].
struct SpoolLimits {
  std::uint64_t run = 0;    // spool_max, of one run on this node
  std::uint64_t total = 0;  // spool_total_max, of everything below the spool
};

/// The default of spool_total_max is 10 GB, or a tenth of the file system if that is less.
[[nodiscard]] SpoolLimits spool_limits(const std::filesystem::path& spool, const Config& config);

/// Throws Error when the spool holds more than `limits.total`, or more than half of that is this user's; the message
/// names the user with most, and the oldest run that was not fetched. No user counts for more than half: a user's own
/// files in the folder of his run end his recordings, not those of others. So does a file system that he mounted there,
/// which is not looked into.
void require_room(const std::filesystem::path& spool, const SpoolLimits& limits, uid_t user);

/// "4711", "4711-r2" after two requeues.
[[nodiscard]] std::string run_name(const std::string& job, int restart);

/// Creates SPOOL/RUN for the user or takes the one that is there, if it is the user's. Throws Error when the spool or
/// that directory has another owner or mode.
[[nodiscard]] std::filesystem::path make_job_spool(const std::filesystem::path& spool, const std::string& run,
                                                   uid_t uid, gid_t gid);

/// SPOOL/mail/UID, where the user's mails are counted; the same rules.
[[nodiscard]] std::filesystem::path make_mail_state(const std::filesystem::path& spool, uid_t uid, gid_t gid);

/// Removes it if it is empty: undelivered files stay.
void remove_job_spool(const std::filesystem::path& folder) noexcept;

/// The remaining files become root's; the user can read them and do nothing else. Entries that no run of reveal makes
/// there (folders, links, files of others, files beyond `most_bytes`) are taken out of the user's reach. False when the
/// file system has no access control lists: then it stays the user's. True also when it is empty.
[[nodiscard]] bool seal_job_spool(const std::filesystem::path& folder, uid_t uid, std::uint64_t most_bytes) noexcept;

}  // namespace reveal
