#include "wrapper/profiled_run.h"

#include <fcntl.h>
#include <unistd.h>

#include <exception>
#include <optional>

#include "hdf5schema/basics/text.h"
#include "wrapper/closing_report.h"
#include "wrapper/collector.h"
#include "wrapper/command.h"
#include "wrapper/job_directory.h"
#include "wrapper/launch.h"
#include "wrapper/process.h"
#include "wrapper/run_directory.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartLimit = 50ms;  // what the command may wait for us
constexpr auto kLeaveLimit = 1000ms;
constexpr const char* kFailedFile = "failed";

constexpr int kUsageError = 125;

class Lines {
 public:
  explicit Lines(bool quiet) noexcept : quiet_(quiet) {}
  void say(const std::string& text) const noexcept {
    if (quiet_) return;
    const std::string line = "reveal-run: " + text + "\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  }

 private:
  bool quiet_;
};

struct Profile {
  Launch launch;
  std::optional<RunDirectory> run;
};

void begin(Profile& profile, const Settings& settings, const std::string& command, const BlockedSignals& signals,
           const Environment& environment) {
  const std::string base = run_directory_base(environment);
  profile.run.emplace(profile.launch, base, kStartLimit);
  if (profile.run->locked()) {
    try {
      ensure_collector(settings, profile.launch, command, *profile.run, signals, environment);
    } catch (...) {
      profile.run->unlock();  // the other ranks of this node wait for it when they leave
      throw;
    }
    profile.run->unlock();
    remove_abandoned_runs(base);
  }
}

void finish(Profile& profile, const Settings& settings, const Command& command, const BlockedSignals& signals,
            const Lines& lines, std::optional<int> status) {
  if (!profile.run) return;
  if (status && *status != 0 && profile.run->read(kFailedFile).empty()) {
    profile.run->write(kFailedFile, std::to_string(*status));
  }
  if (!profile.run->leave(kLeaveLimit)) return;
  // The rank that failed tells how the launch ended, not the one that happened to end last.
  if (const auto failed = parse_int(profile.run->read(kFailedFile)); status && failed) {
    status = static_cast<int>(*failed);
  }
  if (!status) {  // the command never ran
    discard_collector(profile.launch, *profile.run);
    return;
  }
  const CollectorResult collected =
      stop_collector(profile.launch, *profile.run, [&](pid_t child) { return command.status_of(child); });
  profile.run.reset();
  if (collected.end == CollectorEnd::never_started) return;
  if (collected.end == CollectorEnd::too_short) {
    lines.say("the command ended before the first sample; there is nothing to report");
    return;
  }
  if (collected.end == CollectorEnd::failed) lines.say("the profile is incomplete: " + collected.reason);
  if (collected.directory.path.empty()) return;
  if (const std::string left = deliver(collected.directory); !left.empty()) lines.say(left);
  if (collected.end == CollectorEnd::interrupted || !settings.report) {
    lines.say("recorded in " + collected.directory.path + "; for the report: reveal report " +
              collected.directory.path);
    return;
  }
  const ReportResult report =
      build_report(collected.directory.path, profile.launch.node, *status, settings.quiet, signals);
  if (report.end == ReportEnd::failed) lines.say("no report: " + report.reason);
  if (!settings.mail.empty())
    lines.say("mail is not configured on this site; the report is in " + collected.directory.path);
}

}  // namespace

int run_profiled(const Settings& settings, const std::vector<std::string>& command, const Environment& environment,
                 const std::vector<std::string>& warnings) noexcept {
  const Lines lines(settings.quiet);
  const BlockedSignals signals;
  try {
    if (const std::string problem = probes_problem(settings.probes, signals); !problem.empty()) {
      Lines(false).say(problem);
      return kUsageError;
    }
  } catch (const std::exception&) {  // it could not be asked: then it tells at the end
  }
  Profile profile;
  try {
    profile.launch = identify_launch(node_name(settings, environment), environment);
    for (const std::string& warning : warnings) {
      if (profile.launch.speaks()) lines.say(warning);
    }
    begin(profile, settings, command.front(), signals, environment);
  } catch (const std::exception& error) {
    if (profile.launch.speaks()) lines.say("running without a profile: " + std::string(error.what()));
  }

  int status = 126;
  bool ran = false;
  Command runner(signals);
  try {
    std::string failure;
    status = runner.run(command, failure);
    // Not a warning about us but the command's own failure, so even --quiet says it, as a shell would.
    ran = failure.empty();
    if (!ran) Lines(false).say(failure);
  } catch (const std::exception& error) {
    lines.say(error.what());
  }

  try {
    finish(profile, settings, runner, signals, lines, ran ? std::optional(status) : std::nullopt);
  } catch (const std::exception& error) {
    lines.say("the profile could not be finished: " + std::string(error.what()));
  }
  return status;
}

void guard_standard_streams() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR | O_CLOEXEC);  // the lowest free number: fd itself
  }
}

}  // namespace reveal
