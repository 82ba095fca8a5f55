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

/// A process of the job's user that the broker starts.
enum class UserProcess {
  sampler,    // starts no program
  deliverer,  // starts sbatch and mail programs, for which the same holds as for itself
};

/// From now on the process, and those it starts, can neither trace nor change anything of the system: the sampler after
/// become_user(), the deliverer before it, as long as root can do this without no_new_privs, which a set-group-id mail
/// program must not have. Files stay as open to them as to their user: a sampler that Landlock restricts could no
/// longer read the maps and the memory of the job's processes, and a deliverer writes where the user wants. False where
/// the kernel has no such filters; nothing depends on them, since the privileges are gone in any case.
bool refuse_system_calls(UserProcess process) noexcept;

/// When memory runs out, the kernel shall take this process, and those it starts, before the job's.
/// https://man7.org/linux/man-pages/man5/proc_pid_oom_score_adj.5.html
void offer_to_oom_killer() noexcept;

/// Limits for the process that analyses a user's data after the job, and the lowest priority for its disk: before
/// become_user().
void limit_deliverer() noexcept;

}  // namespace reveal
