// Where traces wait on the node until they are delivered: SPOOL/JOBID or, of a run after a requeue, SPOOL/JOBID-rN, the
// user's own, inside a directory that only root can write. Nothing here follows a link.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace reveal {

/// "4711", "4711-r2" after two requeues.
[[nodiscard]] std::string run_name(const std::string& job, int restart);

/// Creates SPOOL/RUN for the user or takes the one that is there, if it is the user's. Throws Error when the spool or
/// that directory is not what it should be.
[[nodiscard]] std::filesystem::path make_job_spool(const std::filesystem::path& spool, const std::string& run,
                                                   uid_t uid, gid_t gid);

/// SPOOL/mail/UID, where the user's mails are counted; the same rules.
[[nodiscard]] std::filesystem::path make_mail_state(const std::filesystem::path& spool, uid_t uid, gid_t gid);

/// Removes it if it is empty: what could not be delivered stays.
void remove_job_spool(const std::filesystem::path& folder) noexcept;

}  // namespace reveal
