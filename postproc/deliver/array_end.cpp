#include "postproc/deliver/array_end.h"

#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "postproc/deliver/slurm_controller.h"

namespace reveal {
namespace {

constexpr std::chrono::milliseconds kArrayQueryLimit{3000};
constexpr std::chrono::seconds kEpilogLook{2};

}  // namespace

ArrayState array_state_in_slurm(const std::string& array, const std::string& own_job,
                                std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    const std::optional<UnfinishedTasks> tasks = query_array(array, own_job, kArrayQueryLimit);
    if (!tasks) return ArrayState::unknown;
    if (tasks->waiting_or_running > 0) return ArrayState::running;
    if (tasks->in_epilog == 0 || std::chrono::steady_clock::now() + kEpilogLook >= end) return ArrayState::ended;
    std::this_thread::sleep_for(kEpilogLook);
  }
}

void ExpectedTask::expect(const std::string& state, ArrayTask task) noexcept {
  try {
    ArrayTasks(state).expect(task);
    state_ = state;
    task_ = std::move(task);
  } catch (const std::exception&) {  // the mail may come without this task
  }
}

void ExpectedTask::drop() noexcept {
  if (state_.empty()) return;
  try {
    ArrayTasks(state_).drop(task_);
  } catch (const std::exception&) {  // it is taken for late after some hours
  }
}

}  // namespace reveal
