#include "postproc/deliver/job_end.h"

#include <pwd.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/delivery_times.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/host_name.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/request.h"
#include "hdf5schema/basics/user_memory.h"
#include "postproc/deliver/array_end.h"
#include "postproc/deliver/deliver.h"
#include "postproc/deliver/missing_nodes.h"
#include "postproc/deliver/report_job.h"
#include "postproc/deliver/slurm_controller.h"
#include "postproc/deliver/slurm_job.h"
#include "postproc/ledger/node_ledger.h"
#include "postproc/mail/mail_job.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/mail/mail_retry.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

constexpr std::chrono::milliseconds kControllerLimit{3000};  // within the epilog's own
constexpr std::chrono::seconds kReportLimit{60};             // for another node to build it from all summaries
constexpr std::chrono::seconds kSamplerLimit{3};             // to close its trace
constexpr std::chrono::milliseconds kDeliveredLook{100};
constexpr std::chrono::seconds kRetryLimit{10};    // for mails of earlier jobs
constexpr std::chrono::seconds kOtherEpilogs{30};  // longest wait for an array's other tasks
constexpr std::chrono::seconds kMailPause{5};      // before a failed step is tried once more

class EndOfNode {
 public:
  explicit EndOfNode(const JobEnd& end) : end_(end) {}

  int run() {
    config_.read_file(end_.config, ConfigOwner::site);
    SlurmJob known = slurm_job_of_environment(end_.job, process_environment);
    restart_ = known.place.restart;
    if (const passwd* user = ::getpwuid(::geteuid()); user != nullptr) {
      known.place.home = user->pw_dir;
      known.place.user = user->pw_name;
    }
    if (end_.orphan) wait_for_sampler();
    // On one node, everything is known before the job has a directory; several nodes must all choose the same one.
    const bool alone = known.place.nodes.size() <= 1;
    SlurmJob job = known;
    if (alone) {
      job.names = ask(known.names, known.names);
      job.place = place_of_one_node(known.place, job.names);
    } else {
      job.names = {};
    }
    const LearnNames learn = [&](const std::filesystem::path& directory, bool first) -> std::optional<JobNames> {
      // The nodes of a step need not have the first one of the job. The others leave the marker alone.
      const auto& nodes = job.place.inner ? job.place.watched : job.place.nodes;
      const bool leads = !nodes.empty() && nodes.front() == end_.node;
      if (alone || !(leads || (job.place.inner && first))) return std::nullopt;
      if (!take_marker(directory, kAskedFile)) return std::nullopt;
      JobNames unnamed = known.names;
      unnamed.name = unnamed.array_job = unnamed.array_task = "";
      JobNames names = ask(std::move(unnamed), known.names);
      expect_mail({job.place, names});
      return names;
    };
    DeliverSettings settings = deliver_settings(config_);
    settings.paces = {.analysis = bounded_pace(end_.paces.analysis), .merge = bounded_pace(end_.paces.merge)};
    settings.memory = static_cast<double>(user_memory_of_node());
    mail_settings_ = mail_settings(config_, mail_problems_);
    if (settings.report == ReportWhen::lazy) mail_settings_.enabled = false;
    if (alone) expect_mail(job);
    const AnalysisSettings analysis = analysis_settings(config_);
    for (const std::string& problem : config_.problems_of({"report", "rule"})) say(LOG_NOTICE, problem);
    Delivery delivery =
        deliver(end_.spool, end_.node, job, end_.request, settings, analysis, learn, [&](const Delivery& so_far) {
          submit(so_far, {job.place, alone ? job.names : so_far.names.value_or(known.names)}, settings);
          ready("*");
        });
    if (!delivery.moved && !delivery.names) delivery.names = learn(delivery.directory, true);
    const bool asked = alone || delivery.names;
    if (!alone) job.names = delivery.names.value_or(known.names);
    if (!delivery.moved) {
      say(LOG_NOTICE, "kept in " + delivery.directory.string() + (delivery.why.empty() ? "" : ": " + delivery.why));
    } else if (!delivery.why.empty()) {
      say(LOG_NOTICE, "delivered to " + delivery.directory.string() + ": " + delivery.why);
    }
    submit(delivery, job, settings);
    ready();
    hand_over_lines(delivery);
    // The node that queried the names has the recipient; another node may have built the report.
    if (settings.report == ReportWhen::epilog && !delivery.needs_job && !delivery.report_built &&
        job.place.nodes.size() <= 1) {
      say(LOG_NOTICE, "no report could be built in " + delivery.directory.string() + "; `reveal show` tries again");
    }
    const bool comes = settings.report == ReportWhen::epilog && !delivery.needs_job;
    if (asked && comes) mail_report(delivery, job);
    if (delivery.of_all_nodes && !mails_array_) return kBuiltReportOfAll;
    return delivery.of_other_nodes || mails_array_ ? kWorkedForOthers : 0;
  }

  /// "*": for longer than a delivery takes.
  void ready(const char* byte = "+") noexcept {
    if (end_.ready_fd < 0 || reported_) return;
    reported_ = true;
    [[maybe_unused]] const auto written = ::write(end_.ready_fd, byte, 1);
    ::close(end_.ready_fd);
  }

  void say(int priority, const std::string& text) const {
    ::syslog(LOG_DAEMON | priority, "reveal: job %s on %s: %s", end_.job.c_str(), end_.node.c_str(), text.c_str());
  }

 private:
  /// While Slurm still knows the job, and before the epilog is let go: the site's own one, which comes next, may kill
  /// the user's processes. The plugin waits no longer for a slow controller than its epilog_seconds. Only one node does
  /// it, once.
  void submit(const Delivery& delivery, const SlurmJob& job, const DeliverSettings& settings) {
    if (!delivery.submits_job || std::exchange(submitted_, true)) return;
    const ReportJobCommand command{.program = own_path().string(),
                                   .config = end_.config,
                                   .request = end_.request,
                                   .mail_state = shared_state(job).value_or(""),
                                   .downsample_traces = settings.downsample_traces};
    const std::string failure = submit_report_job(job, delivery.directory, shell_text(command, job, delivery.directory),
                                                  longest_analysis(delivery));
    if (failure.empty()) return confirm_report_job(delivery);
    say(LOG_NOTICE, "no report job: " + failure + "; the first `reveal show` builds it");
  }

  /// From the node that has built the report. Root cannot read it: a directory of the user may be anywhere.
  void hand_over_lines(const Delivery& delivery) const {
    if (end_.ledger_fd < 0 || !delivery.report_built) return;
    try {
      const std::filesystem::path report = delivered_to(delivery) / kReportFile;
      const std::string lines = render_ledger(ledger_lines(read_text_file(report, kLargestReport)));
      if (!write_all(end_.ledger_fd, lines)) throw system_error("lines of the ledger", errno);
    } catch (const Error& error) {
      say(LOG_NOTICE, std::string("not in the ledger of this node: ") + error.what());
    }
    ::close(end_.ledger_fd);
  }

  void wait_for_sampler() const {
    const auto unfinished = [this] {
      for (const auto& entry : std::filesystem::directory_iterator(end_.spool)) {
        if (entry.path().extension() == ".part") return true;
      }
      return false;
    };
    const auto end = std::chrono::steady_clock::now() + kSamplerLimit;
    while (unfinished() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kDeliveredLook);
  }

  /// `known`: where the controller has no name for it.
  [[nodiscard]] JobNames ask(JobNames names, const JobNames& known) const {
    const std::string answer = query_controller(end_.job, kControllerLimit);
    if (answer.empty()) add_recorded_names(names, end_.spool);
    add_controller_answer(names, answer, restart_);
    if (names.name.empty()) names.name = known.name;
    if (names.array_job.empty()) {
      names.array_job = known.array_job;
      names.array_task = known.array_task;
    }
    return names;
  }

  [[nodiscard]] ArrayStateOf array_state() const {
    return [this](const std::string& array) { return array_state_in_slurm(array, end_.job, kOtherEpilogs); };
  }

  /// Before the epilog ends: another task may be the last one.
  void expect_mail(const SlurmJob& job) {
    if (job.names.array_job.empty() || !mail_settings_.enabled) return;
    ArrayTask task;
    task.array = job.names.array_job;
    task.task = job.names.array_job + "_" + job.names.array_task;
    task.request.user = job.place.user;
    task.utc_ns = utc_now_ns();
    if (const std::optional<std::string> state = shared_state(job)) expected_.expect(*state, std::move(task));
  }

  void mail_report(const Delivery& delivery, const SlurmJob& job) {
    for (const std::string& problem : config_.problems_of({"mail"})) say(LOG_NOTICE, problem);
    for (const std::string& problem : mail_problems_) say(LOG_NOTICE, problem);
    if (!mail_settings_.enabled) return;
    Looks looks(std::chrono::steady_clock::now() + kReportLimit + longest_analysis(delivery));
    do {
      const std::filesystem::path directory = delivered_to(delivery);
      const Descriptor folder = open_as_it_is(directory);
      if (folder && has_name(folder.get(), kReportFile)) return mail(directory, job);
      if (has_report_job(directory)) return;  // which mails it
    } while (looks.wait());
    say(LOG_NOTICE, "no mail, because there is no report yet in " + delivery.directory.string());
    expected_.drop();
  }

  /// The same directory on all nodes, if the home directory is; else that of this node.
  [[nodiscard]] std::optional<std::string> shared_state(const SlurmJob& job) const {
    return shared_mail_state(job.place.home, job.names.cluster);
  }

  /// After the epilog has been let go: a mail server may take its time.
  void mail(const std::filesystem::path& directory, const SlurmJob& job) {
    if (!take_marker(directory, kMailedFile)) return expected_.drop();
    const std::optional<std::string> shared = shared_state(job);
    MailJob mail{.directory = directory,
                 .array = job.names.array_job,
                 .all_tasks = shared.has_value(),
                 .array_state = array_state(),
                 .state = shared.value_or(end_.mail_state),
                 .host = host_name(),
                 .now_utc_ns = utc_now_ns()};
    mail.retry_after = kMailPause;
    mails_array_ = !mail.array.empty();
    mail.request = {.asked = requested(end_.request, "mail"), .mail_user = job.names.mail_user, .user = job.place.user};
    const MailOutcome outcome = mail_job(mail, mail_settings_);
    log(outcome);
    const std::string failure = failure_line(outcome);
    if (failure.empty()) {
      retry_earlier(mail.state);
      // Mails of this node that were kept while the home directory could not be written.
      if (shared && !end_.mail_state.empty()) retry_earlier(end_.mail_state);
      return;
    }
    say(LOG_NOTICE, "mail: " + failure);
    const auto is_lost = [](const MailOutcome::Item& item) { return item.state == MailState::failed && !item.queued; };
    if (std::any_of(outcome.items.begin(), outcome.items.end(), is_lost)) {
      say(LOG_NOTICE, "to send it later: reveal mail " + directory.string());
      std::error_code ignored;
      std::filesystem::remove(directory / kMailedFile, ignored);
    }
  }

  void log(const MailOutcome& outcome) const {
    for (const std::string& problem : outcome.problems) say(LOG_NOTICE, problem);
    for (const MailOutcome::Item& item : outcome.items) {
      if (item.state == MailState::held_back) {
        say(LOG_NOTICE, "mail: not sent to " + listed(item.to, 20) + ": " + item.why);
      }
      if (item.queued)
        say(LOG_NOTICE, "mail: tried again at the end of the user's next job, or by reveal mail --retry");
    }
  }

  /// The server takes mails again: those of the user's earlier jobs go out.
  void retry_earlier(const std::string& state) const {
    if (state.empty()) return;
    const MailOutcome outcome = retry_mails({.state = state,
                                             .array_state = array_state(),
                                             .host = host_name(),
                                             .now_utc_ns = utc_now_ns(),
                                             .limit = kRetryLimit},
                                            mail_settings_);
    log(outcome);
    if (const std::string failure = failure_line(outcome); !failure.empty()) say(LOG_NOTICE, "mail: " + failure);
  }

  const JobEnd& end_;
  Config config_;  // the collector read [slurm] before, and reported its problems
  MailSettings mail_settings_;
  std::vector<std::string> mail_problems_;
  ExpectedTask expected_;
  int restart_ = 0;
  bool reported_ = false;
  bool submitted_ = false;    // the report job
  bool mails_array_ = false;  // the reports of its other tasks were read
};

}  // namespace

int finish_job(const JobEnd& end) noexcept try {
  EndOfNode node(end);
  try {
    return node.run();
  } catch (const std::exception& error) {
    node.say(LOG_WARNING, error.what());
    node.ready();
    return 1;
  }
} catch (...) {
  return 1;  // without memory to say why
}

}  // namespace reveal
