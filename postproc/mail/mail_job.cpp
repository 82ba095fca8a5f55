#include "postproc/mail/mail_job.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "postproc/diagnose/rule.h"
#include "postproc/json/json_fields.h"
#include "postproc/mail/mail_claim.h"
#include "postproc/mail/mail_queue.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/mail/mail_spool.h"
#include "postproc/mail/spooled_mail.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/job_files.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::string_view kStates[] = {"sent", "would be sent", "held back", "failed"};  // in the enumerators' order

/// Follows no link: a mailer that reads many users' directories must mail no file but the report.
std::string read_report(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kReportFile;
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    throw Error(path.string() + " is missing; `reveal report` writes it");
  }
  return read_text_file(path, kLargestReport, FileOf::anybody, Follow::no);
}

const std::vector<std::string>& recipients_of(const MailPlan& plan, Audience audience) {
  return audience == Audience::user ? plan.user : audience == Audience::admins ? plan.admins : plan.faults;
}

/// `told`: the mail is about findings that are told once in `repeat_days`.
MailContext context_of(const MailJob& job, const MailSettings& settings, Audience audience, bool told) {
  MailContext context;
  context.audience = audience;
  context.host = job.host;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(job.directory, error);
  if (!error) context.directory = absolute.lexically_normal().string();
  if (!job.state.empty()) {  // without a count, the next mail comes as well
    context.array = job.array;
    if (audience == Audience::user && told) context.repeat_days = settings.repeat_days;
  }
  context.now_utc_ns = job.now_utc_ns;
  return context;
}

/// The mailer composes the mail and decides about its recipients again.
std::string for_mailer(const std::string& report_json, const MailRequest& request, const MailContext& context) {
  return render_spooled_mail({.audience = context.audience,
                              .request = request,
                              .directory = context.directory,
                              .array = context.array,
                              .admins_notified = context.admins_notified,
                              .repeat_days = context.repeat_days,
                              .tasks = context.tasks,
                              .report = report_json});
}

/// All mails of a job share one limit: a server that did not answer the first will not answer the second.
class Sender {
 public:
  Sender(const MailJob& job, const MailSettings& settings)
      : settings_(settings), limit_(job.limit), retry_after_(job.retry_after) {}

  void send(MailOutcome::Item& item) {
    if (end_ == Clock::time_point{}) end_ = Clock::now() + limit_;  // the time to compose a mail is not the server's
    try_to_send(item);
    if (item.state == MailState::sent || retry_after_.count() == 0 || Clock::now() + retry_after_ >= end_) return;
    std::this_thread::sleep_for(retry_after_);
    try_to_send(item);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void try_to_send(MailOutcome::Item& item) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
    try {
      if (left.count() <= 0) throw Error(last_failure_);
      if (item.spooled) {
        leave_in_spool(settings_.mailer_spool, item.message.mime, item.audience);
      } else {
        send_mail(settings_.sendmail, item.message.mime, left);
      }
      item.state = MailState::sent;
      item.why.clear();
    } catch (const Error& error) {
      item.state = MailState::failed;
      item.why = last_failure_ = error.what();
    }
  }

  const MailSettings& settings_;
  std::chrono::milliseconds limit_;
  Clock::time_point end_{};  // from the first mail on
  std::chrono::milliseconds retry_after_;
  std::string last_failure_ = "the time limit was reached";
};

std::string absolute_directory(const MailJob& job) {
  std::error_code error;
  return std::filesystem::absolute(job.directory, error).lexically_normal().string();
}

QueuedMail entry_about(const MailJob& job, Audience audience, bool admins_notified) {
  return {.directory = absolute_directory(job),
          .request = job.request,
          .array = job.array,
          .audience = audience,
          .admins_notified = admins_notified,
          .first_utc_ns = job.now_utc_ns,
          .next_utc_ns = job.now_utc_ns};
}

/// A failed mail is tried again; one that was sent is not, however often it had failed.
void remember(const MailJob& job, bool admins_notified, MailOutcome::Item& item, std::vector<std::string>& problems) {
  try {
    MailQueue queue(job.state);
    QueuedMail mail = entry_about(job, item.audience, admins_notified);
    if (item.state == MailState::held_back) return queue.withdraw(mail.directory, mail.audience);
    if (item.state == MailState::sent) return queue.remove(mail.directory, mail.audience);
    mail.next_utc_ns = next_try(mail, job.now_utc_ns).value_or(job.now_utc_ns);
    for (std::string& line : queue.keep(mail)) problems.push_back(std::move(line));
    item.queued = true;
  } catch (const Error& failure) {
    problems.push_back(std::string("the mail is not tried again: ") + failure.what());
  }
}

/// The main finding of a task, with the facts that order the tasks of an array.
ArrayTask task_of(const MailJob& job, const Report& report, const MailPlan& plan, bool admins_notified) {
  ArrayTask task{.array = job.array,
                 .task = report.job.array.empty() ? report.job.id : report.job.array,
                 .has_result = true,
                 .directory = absolute_directory(job),
                 .request = job.request,
                 .admins_notified = admins_notified,
                 .state = report.job.state,
                 .status = report.verdict.status,
                 .title = {},
                 .rules = {},
                 .utc_ns = job.now_utc_ns};
  const std::set<std::string> rules = told_rules(report, plan);
  task.rules.assign(rules.begin(), rules.end());
  if (report.findings.empty() || task.status == VerdictStatus::healthy) return task;
  const Finding& primary = report.findings.front();
  task.title = primary.title;
  task.severity = primary.severity;
  task.lost_seconds = primary.impact.seconds;
  task.lost_percent = primary.impact.percent;
  task.lost_at_most = primary.impact.at_most;
  task.lost_perhaps = is_only_possible(primary);
  return task;
}

/// A delivery that has no result for so long has none any more.
constexpr std::int64_t kReportIsLate = std::int64_t{6} * 3600 * kSecond;
constexpr std::int64_t kMailIsLost = std::int64_t{3600} * kSecond;

/// The mails about one job: to the administrators, then to its user. Tasks of an array have one mail to the user for
/// all of them, sent by the task that ends last.
class MailsOfJob {
 public:
  MailsOfJob(const MailJob& job, const MailSettings& settings)
      : job_(job),
        settings_(settings),
        json_(read_report(job.directory)),
        report_(parse_report(json_)),
        plan_(plan_mail(report_, settings, job.request)),
        sender_(job, settings),
        admins_notified_(job.only ? job.admins_notified : !(plan_.admins.empty() && plan_.faults.empty())) {}

  MailOutcome run() {
    outcome_.why_not = plan_.why_not;
    outcome_.problems = plan_.refused;
    outcome_.failed = plan_.request_refused;
    const bool with_tasks = !job_.array.empty() && !job_.state.empty() && job_.all_tasks && !job_.dry_run;
    if (plan_.user.empty() && plan_.admins.empty() && plan_.faults.empty() && !with_tasks) return std::move(outcome_);
    if (!job_.state.empty() && !job_.dry_run) count_mails();
    // Administrators first: what the user reads about them must be true.
    std::vector<Audience> due;
    for (const Audience audience : {Audience::hardware, Audience::admins, Audience::user}) {
      const bool is_in_array = audience == Audience::user && with_tasks;
      if (recipients_of(plan_, audience).empty() || is_in_array || is_told_with_others(audience)) continue;
      if (audience == job_.only.value_or(audience)) due.push_back(audience);
    }
    begin_first_tries(due);
    for (const Audience audience : due) mail(audience);
    if (with_tasks && job_.only.value_or(Audience::user) == Audience::user) mail_array();
    return std::move(outcome_);
  }

 private:
  /// Mails go through the site's mailer.
  [[nodiscard]] bool spools() const { return !settings_.mailer_spool.empty() && !job_.dry_run; }

  /// The mailer tells administrators of all findings in one mail.
  [[nodiscard]] bool is_told_with_others(Audience audience) const {
    return spools() && !job_.only && audience == Audience::hardware && !plan_.admins.empty();
  }

  /// All of them before one is sent: a server that does not answer may take all the time that this process has.
  void begin_first_tries(const std::vector<Audience>& due) {
    if (!quota_ || job_.only || due.empty()) return;
    try {
      MailQueue queue(job_.state);
      for (const Audience audience : due) {
        queue.begin_first_try(entry_about(job_, audience, admins_notified_), job_.now_utc_ns);
      }
    } catch (const Error&) {  // no space: remember() tells of a mail that is not tried again
    }
  }

  MailOutcome::Item item_about(const MailJob& job, const MailPlan& plan, MailContext context) const {
    MailOutcome::Item item;
    item.audience = context.audience;
    item.to = recipients_of(plan, context.audience);
    context.to = item.to;
    item.spooled = spools();
    if (item.spooled) {
      item.message.mime = for_mailer(json_, job.request, context);
    } else {
      item.message = compose_mail(report_, settings_, context);
    }
    return item;
  }

  void mail(Audience audience) {
    const std::set<std::string> told = told_rules(report_, plan_);
    // The mailer counts the mails to administrators.
    MailQuota* quota = spools() && audience != Audience::user ? nullptr : quota_.get();
    MailClaim claim(quota, settings_, report_,
                    {audience, job_.request.user, job_.array, told, absolute_directory(job_), job_.only.has_value()});
    MailContext context = context_of(job_, settings_, audience, !told.empty());
    context.admins_notified = admins_notified_;
    context.faults = claim.faults();
    MailOutcome::Item item = item_about(job_, plan_, std::move(context));
    if (job_.dry_run) {
      item.state = MailState::would_send;
      item.why = audience == Audience::user     ? plan_.why_user
                 : audience == Audience::admins ? plan_.why_admins
                                                : "a fault of a node's hardware";
    } else {
      send(item, claim);
    }
    const bool told_before = audience == Audience::hardware && item.state == MailState::held_back && !item.later;
    const bool delivered = item.state == MailState::sent || item.state == MailState::would_send || told_before;
    if (audience != Audience::user) admins_notified_ = admins_notified_ && delivered;
    if (quota_ && !job_.only) remember(job_, admins_notified_, item, outcome_.problems);
    add(std::move(item));
  }

  void count_mails() {
    quota_ = std::make_unique<MailQuota>(job_.state, job_.now_utc_ns);
    if (plan_.faults.empty() || settings_.fault_directory.empty()) return;
    const std::string problem = quota_->share_faults(settings_.fault_directory);
    if (!problem.empty()) outcome_.problems.push_back("[mail] fault_directory: " + problem);
  }

  void send(MailOutcome::Item& item, MailClaim& claim) {
    if (!claim.refused().empty()) {
      item.state = MailState::held_back;
      item.why = claim.refused();
      item.later = claim.later();
      return;
    }
    sender_.send(item);
    if (item.state == MailState::sent) claim.keep();
  }

  void add(MailOutcome::Item item) {
    outcome_.failed = outcome_.failed || item.state == MailState::failed;
    outcome_.items.push_back(std::move(item));
  }

  /// Keeps this task's result, and sends the mail about all of them if this task is the last one.
  void mail_array() {
    ArrayTasks kept(job_.state);
    const ArrayTask own = task_of(job_, report_, plan_, admins_notified_);
    const bool unkept = !keep(own, kept);
    if (!unkept && !kept.any(job_.array)) return;
    const ArrayState state = job_.array_state ? job_.array_state(job_.array) : ArrayState::unknown;
    if (state == ArrayState::running) return wait_for_array();
    std::vector<ArrayTask> tasks = kept.all(job_.array, job_.request.user);
    const auto come = std::count_if(tasks.begin(), tasks.end(), [this](const ArrayTask& task) {
      return !task.has_result && task.utc_ns > job_.now_utc_ns - kReportIsLate;
    });
    if (state == ArrayState::ended && come > 0) return wait_for_array();
    std::erase_if(tasks, [](const ArrayTask& task) { return !task.has_result; });
    if (unkept) tasks.push_back(own);
    if (tasks.empty()) return;
    sort_worst_first(tasks);
    send_about(tasks, own, kept);
  }

  /// False: the mail is to tell of this task, but cannot tell of it later.
  bool keep(const ArrayTask& own, ArrayTasks& kept) {
    if (job_.only) return plan_.user.empty() || !kept.all(job_.array, job_.request.user).empty();
    if (plan_.user.empty()) {
      kept.remove(own);
      return true;
    }
    try {
      kept.keep(own);
      return true;
    } catch (const Error& error) {  // the disk is full
      outcome_.problems.emplace_back(error.what());
      return false;
    }
  }

  void wait_for_array() {
    if (plan_.user.empty()) return;
    MailOutcome::Item item;
    item.to = plan_.user;
    item.state = MailState::held_back;
    item.later = true;  // a queued one stays
    item.why = "the mail about array job " + job_.array + " comes when its last task has ended";
    add(std::move(item));
  }

  /// `tasks`: the worst first. Their records go with the mail, and stay where it fails.
  void send_about(const std::vector<ArrayTask>& tasks, const ArrayTask& own, ArrayTasks& kept) {
    const auto worst =
        std::find_if(tasks.begin(), tasks.end(), [this](const ArrayTask& task) { return can_read(task); });
    if (worst == tasks.end()) return forget(tasks, kept);  // with a line for each
    MailJob job = job_;
    job.directory = worst->directory;
    job.request = worst->request;
    const MailPlan plan = plan_mail(report_, settings_, job.request);
    if (plan.user.empty()) return forget(tasks, kept);
    MailClaim claim(quota_.get(), settings_, report_,
                    {Audience::user, job.request.user, job.array, rules_of(tasks), job.array, job.only.has_value()});
    MailContext context = context_of(job, settings_, Audience::user, !told_rules(report_, plan).empty());
    context.admins_notified = worst->admins_notified;
    context.tasks = {worst, tasks.end()};
    MailOutcome::Item item = item_about(job, plan, std::move(context));
    send(item, claim);
    item.queued = item.state == MailState::failed;
    if (claim.array_has_mail()) {
      kept.remove(own);
      // The process with the mail removes the others, unless it was killed.
      for (const ArrayTask& task : tasks) {
        if (task.utc_ns <= job_.now_utc_ns - kMailIsLost) kept.remove(task);
      }
    } else if (!item.queued && !item.later) {
      forget(tasks, kept);
    }
    add(std::move(item));
  }

  /// Makes the report of this task the one that the mail is about.
  bool can_read(const ArrayTask& task) {
    try {
      std::string json = read_report(task.directory);
      report_ = parse_report(json);
      json_ = std::move(json);
      return true;
    } catch (const Error& error) {
      outcome_.problems.emplace_back(error.what());
      return false;
    }
  }

  /// The rules of all tasks; none if one of them is mailed for another reason.
  static std::set<std::string> rules_of(const std::vector<ArrayTask>& tasks) {
    std::set<std::string> rules;
    for (const ArrayTask& task : tasks) {
      if (task.rules.empty()) return {};
      rules.insert(task.rules.begin(), task.rules.end());
    }
    return rules;
  }

  static void forget(const std::vector<ArrayTask>& tasks, ArrayTasks& kept) {
    for (const ArrayTask& task : tasks) kept.remove(task);
  }

  const MailJob& job_;
  const MailSettings& settings_;
  std::string json_;  // the text of report_
  Report report_;
  MailPlan plan_;
  std::unique_ptr<MailQuota> quota_;
  Sender sender_;
  bool admins_notified_;
  MailOutcome outcome_;
};

std::string_view state_words(const MailOutcome::Item& item) noexcept {
  return item.spooled && item.state == MailState::sent ? "left for the site's mailer" : name_of(item.state);
}

}  // namespace

std::string_view name_of(MailState state) noexcept {
  return kStates[static_cast<std::size_t>(state)];
}

MailOutcome mail_job(const MailJob& job, const MailSettings& settings) {
  MailOutcome outcome;
  if (std::string why = why_no_mail(settings); !why.empty()) {
    outcome.why_not.push_back(std::move(why));
    return outcome;
  }
  return MailsOfJob(job, settings).run();
}

std::string outcome_as_text(const MailOutcome& outcome, MailText with) {
  std::string text;
  for (const MailOutcome::Item& item : outcome.items) {
    text += fmt::format("{} to {} ({})\n", state_words(item), listed(item.to, 20), name_of(item.audience));
    // The mailer's may come from a mail that broke its reader.
    const std::string subject = printable(item.message.subject);
    if (!subject.empty()) text += fmt::format("  subject: {}\n", subject);
    if (!item.why.empty()) text += "  because " + item.why + "\n";
    if (with == MailText::shown) text += "\n" + item.message.text + "\n";
  }
  for (const std::string& reason : outcome.why_not) text += "not sent: " + reason + "\n";
  return text;
}

std::string outcome_as_json(const MailOutcome& outcome) {
  Json mails = Json::array();
  for (const MailOutcome::Item& item : outcome.items) {
    Json mail{{"audience", name_of(item.audience)}, {"to", item.to}, {"subject", item.message.subject}};
    if (!item.message.mime.empty()) mail["bytes"] = item.message.mime.size();
    mail["state"] = state_words(item);
    mail["why"] = item.why;
    mails.push_back(std::move(mail));
  }
  const Json json{{"schema", "reveal.mail/1"},
                  {"mails", std::move(mails)},
                  {"not_sent", outcome.why_not},
                  {"problems", outcome.problems}};
  return json_text(json, 2) + "\n";
}

std::string failure_line(const MailOutcome& outcome) {
  std::string line;
  std::string last;
  for (const MailOutcome::Item& item : outcome.items) {
    if (item.state != MailState::failed) continue;
    if (item.why == last) {  // both for the same reason
      line.insert(line.find(": "), ", " + listed(item.to, 20));
      continue;
    }
    line += fmt::format("{}no mail to {}: {}", line.empty() ? "" : "; ", listed(item.to, 20), item.why);
    last = item.why;
  }
  return line;
}

}  // namespace reveal
