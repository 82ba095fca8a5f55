#include "postproc/deliver/slurm_controller.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "hdf5schema/basics/child_answer.h"
#include "hdf5schema/basics/text.h"

#ifdef REVEAL_HAS_SLURM
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#endif

namespace reveal {

#ifdef REVEAL_HAS_SLURM
namespace {

// Loaded and not linked: `reveal` runs on machines without Slurm, too. Only under the name of the release it was built
// for: structures of another one have another shape.
class Library {
 public:
  // Global: the library's own plug-ins (munge) look for its symbols.
  Library() : handle_(::dlopen(REVEAL_SLURM_SONAME, RTLD_NOW | RTLD_GLOBAL)) {}
  template <typename Function>
  [[nodiscard]] Function* find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;  // for the rest of this short process
};

void line(std::string& text, const char* key, const char* value) {
  if (value == nullptr || *value == '\0') return;
  text += key;
  text += ' ';
  for (const char* at = value; *at != '\0'; ++at) text += *at == '\n' ? ' ' : *at;
  text += '\n';
}

void number(std::string& text, const char* key, std::uint64_t value) {
  if (value < NO_VAL) line(text, key, std::to_string(value).c_str());
}

/// Without one, the library queries the name servers for a controller and ends the process.
bool has_configuration() {
  constexpr const char* kPlaces[] = {"/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf",
                                     "/etc/slurm-llnl/slurm.conf", "/usr/local/etc/slurm.conf"};
  if (const char* named = std::getenv("SLURM_CONF"); named != nullptr) return ::access(named, R_OK) == 0;
  return std::any_of(std::begin(kPlaces), std::end(kPlaces),
                     [](const char* place) { return ::access(place, R_OK) == 0; });
}

using LoadJob = int(job_info_msg_t**, std::uint32_t, std::uint16_t);

LoadJob* load_job_of(const Library& library) {
  if (auto* initialise = library.find<void(const char*)>("slurm_init"); initialise != nullptr) initialise(nullptr);
  return library.find<LoadJob>("slurm_load_job");
}

std::string query(std::uint32_t id) {
  const Library library;
  LoadJob* load = load_job_of(library);
  auto* state_name = library.find<char*(std::uint32_t)>("slurm_job_state_string");
  if (load == nullptr) return "";
  job_info_msg_t* message = nullptr;
  if (load(&message, id, SHOW_DETAIL) != SLURM_SUCCESS || message == nullptr) return "";
  for (std::uint32_t i = 0; i < message->record_count; ++i) {
    const slurm_job_info_t& job = message->job_array[i];
    if (job.job_id != id) continue;
    std::string text;
    if (job.array_task_id != NO_VAL) {
      number(text, "array_job", job.array_job_id);
      number(text, "array_task", job.array_task_id);
    }
    if (job.het_job_id != 0) {
      number(text, "het_job", job.het_job_id);
      number(text, "het_offset", job.het_job_offset);
    }
    number(text, "restarts", job.restart_cnt);  // at a requeue, the run that is to come is counted already
    line(text, "name", job.name);
    line(text, "account", job.account);
    line(text, "partition", job.partition);
    line(text, "cluster", job.cluster);
    line(text, "work_dir", job.work_dir);
    line(text, "command", job.command);
    line(text, "nodes", job.nodes);
    line(text, "mail_user", job.mail_user);
    if (state_name != nullptr) line(text, "state", state_name(job.job_state & JOB_STATE_BASE));
    if ((job.job_state & JOB_STATE_BASE) > JOB_SUSPENDED) {
      number(text, "wait_status", job.exit_code);
    }
    return text;
  }
  return "";
}

/// For the number of an array, the controller answers with the records of all its tasks.
std::string query_tasks(std::uint32_t array, std::uint32_t own_job) {
  const Library library;
  LoadJob* load = load_job_of(library);
  if (load == nullptr) return "";
  job_info_msg_t* message = nullptr;
  std::size_t unfinished = 0, in_epilog = 0;
  if (load(&message, array, SHOW_ALL) != SLURM_SUCCESS) {
    if (errno != ESLURM_INVALID_JOB_ID) return "";  // else it forgot the array, which ended long ago
  } else {
    for (std::uint32_t i = 0; message != nullptr && i < message->record_count; ++i) {
      const slurm_job_info_t& job = message->job_array[i];
      const std::uint32_t state = job.job_state & JOB_STATE_BASE;
      const bool own = job.job_id == own_job;
      if (state == JOB_PENDING || (!own && state <= JOB_SUSPENDED)) {  // its own job, too, if it was requeued
        ++unfinished;
      } else if (!own && (job.job_state & JOB_COMPLETING) != 0) {
        ++in_epilog;
      }
    }
  }
  return "waiting_or_running " + std::to_string(unfinished) + "\nin_epilog " + std::to_string(in_epilog) + "\n";
}

}  // namespace
#endif

std::optional<UnfinishedTasks> parse_unfinished_tasks(std::string_view answer) {
  std::optional<std::int64_t> unfinished, in_epilog;
  for (std::string_view line; next_line(answer, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto number = parse_int(line.substr(space + 1));
    if (line.substr(0, space) == "waiting_or_running") unfinished = number;
    if (line.substr(0, space) == "in_epilog") in_epilog = number;
  }
  if (!unfinished || !in_epilog || *unfinished < 0 || *in_epilog < 0) return std::nullopt;
  return UnfinishedTasks{static_cast<std::size_t>(*unfinished), static_cast<std::size_t>(*in_epilog)};
}

std::optional<UnfinishedTasks> query_array([[maybe_unused]] const std::string& array,
                                           [[maybe_unused]] const std::string& own_job,
                                           [[maybe_unused]] std::chrono::milliseconds limit) {
#ifdef REVEAL_HAS_SLURM
  constexpr std::size_t kLargest = 1 << 10;
  const auto id = parse_int(array);
  if (!id || *id < 1 || !has_configuration()) return std::nullopt;
  const auto own = static_cast<std::uint32_t>(parse_int(own_job).value_or(0));
  return parse_unfinished_tasks(
      query_child([&] { return query_tasks(static_cast<std::uint32_t>(*id), own); }, limit, kLargest).text);
#else
  return std::nullopt;
#endif
}

std::string query_controller([[maybe_unused]] const std::string& job,
                             [[maybe_unused]] std::chrono::milliseconds limit) {
#ifdef REVEAL_HAS_SLURM
  constexpr std::size_t kLargest = 1 << 20;
  const auto id = parse_int(job);
  if (!id || *id < 1 || !has_configuration()) return "";
  return query_child([&] { return query(static_cast<std::uint32_t>(*id)); }, limit, kLargest).text;
#else
  return "";
#endif
}

}  // namespace reveal
