#include "postproc/deliver/job_end.h"

#include <pwd.h>
#include <syslog.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/host_name.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/basics/request.h"
#include "hdf5schema/basics/wall_clock.h"
#include "postproc/deliver/deliver.h"
#include "postproc/deliver/report_job.h"
#include "postproc/deliver/slurm_controller.h"
#include "postproc/deliver/slurm_job.h"
#include "postproc/mail/mail_job.h"
#include "postproc/merge/publish.h"

namespace reveal {
namespace {

constexpr std::chrono::milliseconds kControllerLimit{1500};
constexpr std::chrono::seconds kReportLimit{10};  // for another node to build it
constexpr std::size_t kLargestConfig = 1 << 20;

class EndOfNode {
 public:
  explicit EndOfNode(const JobEnd& end) : end_(end) {}

  int run() {
    SlurmJob job = slurm_job_of_environment(end_.job, process_environment);
    if (const passwd* user = ::getpwuid(::geteuid()); user != nullptr) {
      job.home = user->pw_dir;
      job.user = user->pw_name;
    }
    // One node asks; what only it knows does not decide where the others deliver, too.
    SlurmJob place = job;
    const bool first = job.nodes.empty() || job.nodes.front() == end_.node;
    if (first) {
      const std::string answer = ask_controller(end_.job, kControllerLimit);
      if (answer.empty()) add_recorded_names(job, end_.spool);
      add_controller_answer(job, answer);
    }
    if (place.nodes.size() == 1) {
      place = job;
    } else if (requested(end_.request, "output").find('%') != std::string::npos) {
      add_recorded_names(place, end_.spool);
    }
    const auto settings = or_default([this] { return read_deliver_settings(end_.config); });
    const auto analysis = or_default([this] { return load_analysis_settings({end_.config}); });
    const Delivery delivery = deliver(end_.spool, end_.node, job, place, end_.request, settings, analysis);
    if (!delivery.moved) {
      say(LOG_NOTICE, "kept in " + delivery.directory.string() + (delivery.why.empty() ? "" : ": " + delivery.why));
    } else if (!delivery.why.empty()) {
      say(LOG_NOTICE, "delivered to " + delivery.directory.string() + ": " + delivery.why);
    }
    if (delivery.needs_job && take_marker(delivery.directory, ".report-job")) {
      const std::string failure = submit_report_job(job, delivery.directory, end_.config, mail_command(delivery, job));
      if (!failure.empty()) say(LOG_NOTICE, "no report job: " + failure + "; the first `reveal show` builds it");
    }
    ready();
    // The first node knows to whom; another one may have built the report.
    const bool comes = settings.report == ReportWhen::epilog && !delivery.needs_job;
    if (first && comes && report_appears(delivery.directory)) mail(delivery.directory, job);
    return 0;
  }

  void ready() noexcept {
    if (end_.ready_fd < 0 || told_) return;
    told_ = true;
    [[maybe_unused]] const auto written = ::write(end_.ready_fd, "+", 1);
    ::close(end_.ready_fd);
  }

  void say(int priority, const std::string& text) const {
    ::syslog(LOG_DAEMON | priority, "reveal: job %s on %s: %s", end_.job.c_str(), end_.node.c_str(), text.c_str());
  }

 private:
  /// A mistake in the site's file costs its setting, not the report.
  template <typename Read>
  auto or_default(Read read) const -> decltype(read()) {
    try {
      return read();
    } catch (const std::exception& error) {
      say(LOG_WARNING, error.what());
      return {};
    }
  }

  [[nodiscard]] static bool report_appears(const std::filesystem::path& directory) {
    const auto end = std::chrono::steady_clock::now() + kReportLimit;
    std::error_code ignored;
    while (!std::filesystem::exists(directory / "report.json", ignored)) {
      if (std::chrono::steady_clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return true;
  }

  /// For the shell of a report job.
  [[nodiscard]] std::string mail_command(const Delivery& delivery, const SlurmJob& job) const {
    std::string command = shell_quoted(std::filesystem::read_symlink("/proc/self/exe").string()) + " mail " +
                          shell_quoted(delivery.directory.string());
    const auto add = [&command](const char* option, const std::string& value) {
      if (!value.empty()) command += std::string(" ") + option + " " + shell_quoted(value);
    };
    add("--config", end_.config);
    add("--to", requested(end_.request, "mail"));
    add("--mail-user", job.mail_user);
    add("--user", job.user);
    add("--array", job.array_job);
    return command;
  }

  /// Where this user's mails are counted. The tasks of an array end on many nodes: in the home directory where it can
  /// be written, as it is the same on all of them; else on this node.
  [[nodiscard]] std::string mail_state(const SlurmJob& job) const {
    const std::filesystem::path home = job.home;
    std::error_code ignored;
    if (!home.is_absolute() || home == "/" || !std::filesystem::is_directory(home, ignored)) return end_.mail_state;
    try {
      const std::string state = home / ".local/state/reveal/mail";
      make_private_directory(state);
      require_writable(state);
      return state;
    } catch (const Error&) {
      return end_.mail_state;
    }
  }

  /// After the epilog has been let go: a mail server may take its time.
  void mail(const std::filesystem::path& directory, const SlurmJob& job) const {
    std::error_code ignored;
    if (!std::filesystem::exists(end_.config, ignored)) return;
    std::vector<std::string> problems;
    const MailSettings settings =
        parse_mail_settings(read_text_file(end_.config, kLargestConfig), end_.config, problems);
    for (const std::string& problem : problems) say(LOG_NOTICE, problem);
    if (!settings.enabled || !take_marker(directory, ".mailed")) return;
    MailJob mail{.directory = directory,
                 .array = job.array_job,
                 .state = mail_state(job),
                 .host = host_name(),
                 .now_utc_ns = utc_now_ns()};
    mail.request = {.asked = requested(end_.request, "mail"), .mail_user = job.mail_user, .user = job.user};
    const MailOutcome outcome = mail_job(mail, settings);
    for (const std::string& problem : outcome.problems) say(LOG_NOTICE, problem);
    if (const std::string failure = failure_line(outcome); !failure.empty()) say(LOG_NOTICE, "mail: " + failure);
  }

  const JobEnd& end_;
  bool told_ = false;
};

}  // namespace

int finish_job(const JobEnd& end) noexcept {
  EndOfNode node(end);
  try {
    return node.run();
  } catch (const std::exception& error) {
    node.say(LOG_WARNING, error.what());
    node.ready();
    return 1;
  }
}

}  // namespace reveal
