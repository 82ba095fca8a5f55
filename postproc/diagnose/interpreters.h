// Programs that only run another one: their name does not describe the work of a job.
#pragma once

#include <string_view>

namespace reveal {

/// python3.11, bash, mpirun, srun, torchrun, ...
[[nodiscard]] bool is_interpreter(std::string_view program) noexcept;

}  // namespace reveal
