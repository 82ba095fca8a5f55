#include "postproc/mail/mail_retry.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "postproc/mail/mail_queue.h"
#include "postproc/telemetry/job_files.h"

namespace reveal {
namespace {

constexpr std::int64_t kNextHour = 3600 * kSecond;

/// Ends the try of a mail: it stays in the queue, or it does not.
void end_try(QueuedMail mail, const MailOutcome& outcome, const MailRetry& retry, MailQueue& queue,
             std::vector<std::string>& problems) {
  const auto item = outcome.items.begin();  // none: it is no longer due
  const bool failed = item != outcome.items.end() && item->state == MailState::failed;
  const bool later = item != outcome.items.end() && item->later;
  if (!failed && !later) return queue.remove(mail.directory, mail.audience);
  if (failed) ++mail.tries;
  const std::optional<std::int64_t> next =
      later ? std::optional(retry.now_utc_ns + kNextHour) : next_try(mail, retry.now_utc_ns);
  if (!next) {
    queue.remove(mail.directory, mail.audience);
    problems.push_back(given_up_line(mail, item->why));
    return;
  }
  mail.next_utc_ns = *next;
  for (std::string& line : queue.keep(mail)) problems.push_back(std::move(line));
}

class RetryRound {
 public:
  RetryRound(const MailRetry& retry, const MailSettings& settings)
      : retry_(retry), settings_(settings), queue_(retry.state), end_(Clock::now() + retry.limit) {}

  MailOutcome run() {
    if (!retry_.dry_run) queue_.recover(retry_.now_utc_ns);
    for (const QueuedMail& mail : queue_.waiting()) {
      if (left().count() <= 0) break;
      if (retry_.which == RetryMails::due && mail.next_utc_ns > retry_.now_utc_ns) continue;
      if (!retry_.dry_run && !queue_.begin_try(mail, retry_.now_utc_ns)) continue;
      send(mail);
    }
    return std::move(outcome_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
  }

  void send(const QueuedMail& mail) {
    const MailJob job{.directory = mail.directory,
                      .request = mail.request,
                      .array = mail.array,
                      .state = retry_.state,
                      .only = mail.audience,
                      .admins_notified = mail.admins_notified,
                      .dry_run = retry_.dry_run,
                      .host = retry_.host,
                      .now_utc_ns = retry_.now_utc_ns,
                      .limit = left()};
    try {
      MailOutcome one = mail_job(job, settings_);
      if (!retry_.dry_run) end_try(mail, one, retry_, queue_, outcome_.problems);
      outcome_.failed = outcome_.failed || one.failed;
      std::move(one.items.begin(), one.items.end(), std::back_inserter(outcome_.items));
    } catch (const Error& error) {
      could_not_compose(mail, error.what());
    }
  }

  /// Without its report, a mail can never be sent; a file server may answer later.
  void could_not_compose(const QueuedMail& mail, const std::string& why) {
    std::error_code error;
    const auto report = std::filesystem::symlink_status(std::filesystem::path(mail.directory) / kReportFile, error);
    const bool gone = report.type() == std::filesystem::file_type::not_found;
    outcome_.problems.push_back(gone ? given_up_line(mail, why) : why);
    if (retry_.dry_run) return;
    MailOutcome failed;
    if (!gone) failed.items.push_back({.audience = mail.audience, .to = {}, .message = {}, .why = why});
    end_try(mail, failed, retry_, queue_, outcome_.problems);
  }

  const MailRetry& retry_;
  const MailSettings& settings_;
  MailQueue queue_;
  Clock::time_point end_;
  MailOutcome outcome_;
};

}  // namespace

MailOutcome retry_mails(const MailRetry& retry, const MailSettings& settings) {
  MailOutcome outcome;
  if (!settings.enabled || is_switched_off(settings)) {
    outcome.why_not.emplace_back("mail is switched off");
    return outcome;
  }
  return RetryRound(retry, settings).run();
}

}  // namespace reveal
