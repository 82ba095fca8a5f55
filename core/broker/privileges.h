// From root to a user, for good.
#pragma once

#include <sys/types.h>

namespace reveal {

/// All ids, all groups, no way back, not dumpable, files private. Throws Error when any of it fails: then the process
/// must end.
void become_user(uid_t uid, gid_t gid);

/// When memory runs out, the kernel shall take this process, and those it starts, before the job's.
void offer_to_oom_killer() noexcept;

/// Out of the control groups it was started in, into the roots: a step's group could not be removed while it is there,
/// and its memory would be charged to the job. What cannot be left stays as it is.
void leave_control_groups() noexcept;

}  // namespace reveal
