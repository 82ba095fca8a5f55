// Gives up root's privileges for a user's, for good.
#pragma once

#include <sys/types.h>

#include <span>

namespace reveal {

enum class Programs {
  none,          // it starts none: nothing it executes gives privileges again
  keep_set_uid,  // it starts a mail program, which may be set-group-id to reach its queue
};

/// All ids, all groups, no way back, not dumpable, files private, no capabilities, a keyring of its own. Programs that
/// it executes cannot be traced by the user either: see privileges.cpp. Throws Error when the ids, the groups or the
/// way back fail: then the process must end. `capabilities`: it keeps these, where it has them.
void become_user(uid_t uid, gid_t gid, Programs programs = Programs::none, std::span<const unsigned> capabilities = {});

/// For a process that starts no program and changes nothing of the system: it and its children cannot, from now on.
/// Files stay as open to it as to its user: a process that Landlock restricts could no longer read the maps and the
/// memory of the job's processes.
void refuse_system_calls() noexcept;

/// When memory runs out, the kernel shall take this process, and those it starts, before the job's.
/// https://man7.org/linux/man-pages/man5/proc_pid_oom_score_adj.5.html
void offer_to_oom_killer() noexcept;

/// Limits for the process that analyses a user's data after the job, and the lowest priority for its disk: before
/// become_user().
void limit_deliverer() noexcept;

}  // namespace reveal
