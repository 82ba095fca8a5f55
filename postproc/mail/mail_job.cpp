#include "postproc/mail/mail_job.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "postproc/json/json_fields.h"
#include "postproc/mail/mail_queue.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/job_files.h"

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

/// The rules of which a mail tells; empty where it comes for another reason than their findings, or where the runs of
/// the command cannot be told apart from others.
std::set<std::string> told_rules(const Report& report, const MailPlan& plan) {
  if (plan.user_asked || report.job.run_key.empty() || report.verdict.status != VerdictStatus::finding) return {};
  std::set<std::string> rules;
  for (const Finding* finding : shown_findings(report)) {
    if (rules.empty() || finding->severity >= Severity::warning) rules.insert(finding->id);
  }
  return rules;
}

/// Takes what a mail needs; gives it back if the mail is not sent.
class Claim {
 public:
  Claim(MailQuota* quota, const MailJob& job, const MailSettings& settings, const Report& report, const MailPlan& plan,
        Audience audience)
      : quota_(quota) {
    if (quota_ == nullptr) return;
    refused_ =
        audience == Audience::hardware ? refusal_of_faults(settings, report) : refusal_of_array(job, report, audience);
    if (refused_.empty() && audience == Audience::user) refused_ = refusal_of_findings(job, settings, report, plan);
    if (!refused_.empty()) return;
    later_ = !take(quota_->take_hourly(settings.per_hour, audience));
    if (later_)
      refused_ = fmt::format("the limit of mails per hour is reached, [mail] per_hour = {}", settings.per_hour);
  }
  ~Claim() {
    if (quota_ == nullptr || kept_) return;
    for (const std::string& name : taken_) quota_->give_back(name);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  /// Why the mail must not be sent, "" if it may.
  [[nodiscard]] const std::string& refused() const noexcept { return refused_; }
  /// Whether it may be sent in the next hour.
  [[nodiscard]] bool later() const noexcept { return later_; }
  /// Keys of the faults of which the administrators were not told today.
  [[nodiscard]] const std::set<std::string>& faults() const noexcept { return faults_; }
  void keep() noexcept { kept_ = true; }

 private:
  bool take(std::string name) {
    if (name.empty()) return false;
    taken_.push_back(std::move(name));
    return true;
  }

  std::string refusal_of_faults(const MailSettings& settings, const Report& report) {
    for (const HardwareFault& fault : hardware_faults(report, settings)) {
      if (take(quota_->take_fault(fault.key))) faults_.insert(fault.key);
    }
    return faults_.empty() ? "the administrators were told of the same faults today" : "";
  }

  std::string refusal_of_array(const MailJob& job, const Report& report, Audience audience) {
    if (job.array.empty()) return {};
    const std::string& task = report.job.array.empty() ? report.job.id : report.job.array;
    if (take(quota_->take_array(job.request.user, job.array, audience, task))) return {};
    return "array job " + job.array + " already had its mail";
  }

  std::string refusal_of_findings(const MailJob& job, const MailSettings& settings, const Report& report,
                                  const MailPlan& plan) {
    const std::set<std::string> rules = told_rules(report, plan);
    if (rules.empty() || settings.repeat_days == 0) return {};
    const std::size_t before = taken_.size();
    for (std::string& name : quota_->take_findings(job.request.user, report.job.run_key, rules, settings.repeat_days)) {
      taken_.push_back(std::move(name));
    }
    if (taken_.size() > before) return {};
    return fmt::format("the same finding of this command was mailed before, [mail] repeat_days = {}",
                       settings.repeat_days);
  }

  MailQuota* quota_;
  std::vector<std::string> taken_;
  std::set<std::string> faults_;
  std::string refused_;
  bool later_ = false, kept_ = false;
};

const std::vector<std::string>& recipients_of(const MailPlan& plan, Audience audience) {
  return audience == Audience::user ? plan.user : audience == Audience::admins ? plan.admins : plan.faults;
}

MailOutcome::Item compose(const Report& report, const MailJob& job, const MailSettings& settings, const MailPlan& plan,
                          Audience audience, bool admins_notified, const std::set<std::string>& faults) {
  MailOutcome::Item item;
  item.audience = audience;
  item.to = recipients_of(plan, audience);
  MailContext context;
  context.audience = audience;
  context.to = item.to;
  context.host = job.host;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(job.directory, error);
  if (!error) context.directory = absolute.lexically_normal().string();
  if (!job.state.empty()) {  // without a count, the next mail comes as well
    context.array = job.array;
    if (audience == Audience::user && !told_rules(report, plan).empty()) context.repeat_days = settings.repeat_days;
  }
  context.admins_notified = admins_notified;
  context.faults = faults;
  context.now_utc_ns = job.now_utc_ns;
  item.message = compose_mail(report, settings, context);
  return item;
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
      send_mail(settings_.sendmail, item.message.mime, left);
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

/// A failed mail is tried again; one that was sent is not, however often it had failed.
void remember(const MailJob& job, bool admins_notified, MailOutcome::Item& item, std::vector<std::string>& problems) {
  if (item.state == MailState::held_back) return;
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::absolute(job.directory, error).lexically_normal();
  try {
    MailQueue queue(job.state);
    if (item.state == MailState::sent) return queue.remove(directory, item.audience);
    QueuedMail mail{.directory = directory,
                    .request = job.request,
                    .array = job.array,
                    .audience = item.audience,
                    .admins_notified = admins_notified,
                    .first_utc_ns = job.now_utc_ns};
    mail.next_utc_ns = next_try(mail, job.now_utc_ns).value_or(job.now_utc_ns);
    for (std::string& line : queue.keep(mail)) problems.push_back(std::move(line));
    item.queued = true;
  } catch (const Error& failure) {
    problems.push_back(std::string("the mail is not tried again: ") + failure.what());
  }
}

}  // namespace

std::string_view name_of(MailState state) noexcept {
  return kStates[static_cast<std::size_t>(state)];
}

MailOutcome mail_job(const MailJob& job, const MailSettings& settings) {
  MailOutcome outcome;
  if (!settings.enabled) {
    outcome.why_not = plan_mail({}, settings, job.request).why_not;
    return outcome;
  }
  if (is_switched_off(settings)) {
    outcome.why_not.push_back("mail is switched off by the file " + settings.disable);
    return outcome;
  }
  const Report report = parse_report(read_report(job.directory));
  const MailPlan plan = plan_mail(report, settings, job.request);
  outcome.why_not = plan.why_not;
  outcome.problems = plan.refused;
  outcome.failed = plan.request_refused;
  if (plan.user.empty() && plan.admins.empty() && plan.faults.empty()) return outcome;

  std::unique_ptr<MailQuota> quota;
  if (!job.state.empty() && !job.dry_run) quota = std::make_unique<MailQuota>(job.state, job.now_utc_ns);
  // Administrators first: what the user reads about them must be true.
  bool admins_notified = job.only ? job.admins_notified : !(plan.admins.empty() && plan.faults.empty());
  Sender sender(job, settings);
  for (const Audience audience : {Audience::hardware, Audience::admins, Audience::user}) {
    if (recipients_of(plan, audience).empty() || audience != job.only.value_or(audience)) continue;
    Claim claim(quota.get(), job, settings, report, plan, audience);
    MailOutcome::Item item = compose(report, job, settings, plan, audience, admins_notified, claim.faults());
    if (job.dry_run) {
      item.state = MailState::would_send;
      item.why = audience == Audience::user     ? plan.why_user
                 : audience == Audience::admins ? plan.why_admins
                                                : "a fault of a node's hardware";
    } else if (!claim.refused().empty()) {
      item.state = MailState::held_back;
      item.why = claim.refused();
      item.later = claim.later();
    } else {
      sender.send(item);
      if (item.state == MailState::sent) claim.keep();
    }
    const bool told_before = audience == Audience::hardware && item.state == MailState::held_back && !item.later;
    const bool delivered = item.state == MailState::sent || item.state == MailState::would_send || told_before;
    if (audience != Audience::user) admins_notified = admins_notified && delivered;
    outcome.failed = outcome.failed || item.state == MailState::failed;
    if (quota && !job.only) remember(job, admins_notified, item, outcome.problems);
    outcome.items.push_back(std::move(item));
  }
  return outcome;
}

std::string outcome_as_text(const MailOutcome& outcome, MailText with) {
  std::string text;
  for (const MailOutcome::Item& item : outcome.items) {
    text += fmt::format("{} to {} ({})\n  subject: {}\n", name_of(item.state), listed(item.to, 20),
                        name_of(item.audience), item.message.subject);
    if (!item.why.empty()) text += "  because " + item.why + "\n";
    if (with == MailText::shown) text += "\n" + item.message.text + "\n";
  }
  for (const std::string& reason : outcome.why_not) text += "not sent: " + reason + "\n";
  return text;
}

std::string outcome_as_json(const MailOutcome& outcome) {
  Json mails = Json::array();
  for (const MailOutcome::Item& item : outcome.items) {
    mails.push_back({{"audience", name_of(item.audience)},
                     {"to", item.to},
                     {"subject", item.message.subject},
                     {"bytes", item.message.mime.size()},
                     {"state", name_of(item.state)},
                     {"why", item.why}});
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
