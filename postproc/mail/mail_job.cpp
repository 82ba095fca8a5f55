#include "postproc/mail/mail_job.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "postproc/json/json_fields.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/report/wording.h"

namespace reveal {
namespace {

constexpr std::string_view kStates[] = {"sent", "would be sent", "held back", "failed"};  // in the enumerators' order

/// Follows no link: a mailer that reads many users' directories must mail no file but the report.
std::string read_report(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "report.json";
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    throw Error(path.string() + " is missing; `reveal report` writes it");
  }
  return read_text_file(path, kLargestReport, FileOf::anybody, Follow::no);
}

/// Takes what a mail needs; gives it back if the mail is not sent.
class Claim {
 public:
  Claim(MailQuota* quota, const MailJob& job, const MailSettings& settings, const Report& report, Audience audience)
      : quota_(quota) {
    if (quota_ == nullptr) return;
    if (!job.array.empty()) {
      const std::string& task = report.job.array.empty() ? report.job.id : report.job.array;
      array_ = quota_->take_array(job.request.user, job.array, audience, task);
      if (array_.empty()) {
        refused_ = "array job " + job.array + " already had its mail";
        return;
      }
    }
    hourly_ = quota_->take_hourly(settings.per_hour, audience);
    if (hourly_.empty())
      refused_ = fmt::format("the limit of mails per hour is reached, [mail] per_hour = {}", settings.per_hour);
  }
  ~Claim() {
    if (quota_ == nullptr || kept_) return;
    quota_->give_back(array_);
    quota_->give_back(hourly_);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  /// Why the mail must not be sent, "" if it may.
  [[nodiscard]] const std::string& refused() const noexcept { return refused_; }
  void keep() noexcept { kept_ = true; }

 private:
  MailQuota* quota_;
  std::string array_, hourly_, refused_;
  bool kept_ = false;
};

MailOutcome::Item compose(const Report& report, const MailJob& job, const MailSettings& settings, const MailPlan& plan,
                          Audience audience) {
  MailOutcome::Item item;
  item.audience = audience;
  item.to = audience == Audience::user ? plan.user : plan.admins;
  MailContext context;
  context.audience = audience;
  context.to = item.to;
  context.host = job.host;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(job.directory, error);
  if (!error) context.directory = absolute.lexically_normal().string();
  if (!job.state.empty()) context.array = job.array;  // without a count, the next task's mail comes as well
  context.admins_notified = !plan.admins.empty();
  context.now_utc_ns = job.now_utc_ns;
  item.message = compose_mail(report, settings, context);
  return item;
}

/// All mails of a job share one limit: a server that did not answer the first will not answer the second.
class Sender {
 public:
  Sender(const MailJob& job, const MailSettings& settings)
      : settings_(settings), end_(Clock::now() + job.limit), retry_after_(job.retry_after) {}

  void send(MailOutcome::Item& item) {
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
  Clock::time_point end_;
  std::chrono::milliseconds retry_after_;
  std::string last_failure_ = "the time limit was reached";
};

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
  if (plan.user.empty() && plan.admins.empty()) return outcome;

  std::unique_ptr<MailQuota> quota;
  if (!job.state.empty() && !job.dry_run) quota = std::make_unique<MailQuota>(job.state, job.now_utc_ns);
  // Administrators first: what the user reads about them must be true.
  MailPlan reached = plan;
  Sender sender(job, settings);
  for (const Audience audience : {Audience::admins, Audience::user}) {
    if ((audience == Audience::user ? plan.user : plan.admins).empty()) continue;
    Claim claim(quota.get(), job, settings, report, audience);
    MailOutcome::Item item = compose(report, job, settings, reached, audience);
    if (job.dry_run) {
      item.state = MailState::would_send;
      item.why = audience == Audience::user ? plan.why_user : plan.why_admins;
    } else if (!claim.refused().empty()) {
      item.state = MailState::held_back;
      item.why = claim.refused();
    } else {
      sender.send(item);
      if (item.state == MailState::sent) claim.keep();
    }
    const bool delivered = item.state == MailState::sent || item.state == MailState::would_send;
    if (audience == Audience::admins && !delivered) reached.admins.clear();
    outcome.failed = outcome.failed || item.state == MailState::failed;
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
