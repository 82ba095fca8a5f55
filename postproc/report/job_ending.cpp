#include "postproc/report/job_ending.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iterator>
#include <string_view>

#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr int kOfSignals = 128;  // a shell's exit status for a command that signal N ended is 128 + N

struct SignalWords {
  int number;
  std::string_view name;
};
constexpr SignalWords kSignals[] = {
    {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"},
    {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"},
    {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"}, {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
    {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},
};

/// The state that a batch system gives a job that did not end by itself.
struct State {
  std::string_view name;
  std::string_view says;
};
constexpr State kJobStates[] = {
    {"CANCELLED", "was cancelled"},
    {"TIMEOUT", "was ended at its time limit"},
    {"DEADLINE", "was ended at its deadline"},
    {"OUT_OF_MEMORY", "was ended because it ran out of memory"},
    {"NODE_FAIL", "was ended by the failure of a node"},
    {"BOOT_FAIL", "was ended because a node did not boot"},
    {"PREEMPTED", "was preempted"},
    {"REQUEUED", "was ended and queued again"},
};

const State* state_of(const ReportJob& job) {
  const auto known = std::find_if(std::begin(kJobStates), std::end(kJobStates),
                                  [&](const State& state) { return job.state == state.name; });
  return known == std::end(kJobStates) ? nullptr : known;
}

std::string of_signal(const SignalWords& signal, const ReportJob& job) {
  std::string text = fmt::format("ended by {} (exit status {})", signal.name, *job.exit_code);
  if (signal.number != SIGKILL) return text;
  if (std::round(job.oom_kills.value_or(0)) > 0) {
    return text + fmt::format("; the kernel's out-of-memory killer ended {} meanwhile",
                              std::round(*job.oom_kills) == 1 ? "a process" : number(*job.oom_kills) + " processes");
  }
  return text + "; a user, a limit or the kernel's out-of-memory killer sent it";
}

}  // namespace

bool has_failed(const ReportJob& job) {
  return job.exit_code.value_or(0) != 0 || state_of(job) != nullptr || job.state == "FAILED";
}

bool has_ended_well(const ReportJob& job) {
  return !has_failed(job) && (job.exit_code == 0 || job.state == "COMPLETED");
}

double seconds_of(const ReportJob& job) {
  return job.ran_seconds.value_or(static_cast<double>(job.end_utc_ns - job.begin_utc_ns) * 1e-9);
}

std::string failure_sentence(const ReportJob& job) {
  if (!has_failed(job)) return "";
  const std::string after = " after " + duration(seconds_of(job));
  if (const State* state = state_of(job)) return fmt::format("The job {}{}.", state->says, after);
  if (!job.exit_code || *job.exit_code == 0) return fmt::format("The job failed{}.", after);
  const auto signal = std::find_if(std::begin(kSignals), std::end(kSignals),
                                   [&](const SignalWords& each) { return *job.exit_code == kOfSignals + each.number; });
  if (signal == std::end(kSignals))
    return fmt::format("The command failed with exit status {}{}.", *job.exit_code, after);
  if (signal->number == SIGINT) return fmt::format("The command was interrupted (SIGINT, exit status 130){}.", after);
  const std::string ended = of_signal(*signal, job);
  const std::size_t reason = std::min(ended.find(';'), ended.size());
  return fmt::format("The command failed: {}{}{}.", ended.substr(0, reason), after, ended.substr(reason));
}

}  // namespace reveal
