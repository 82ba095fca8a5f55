#include "postproc/mail/mail_retry.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "postproc/mail/mail_queue.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/telemetry/job_files.h"

namespace reveal {
namespace {

constexpr std::int64_t kQuietArray = std::int64_t{24} * 3600 * kSecond;  // none of its tasks ended
constexpr std::int64_t kGiveUpArray = 3 * kQuietArray;
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
    if (!retry_.dry_run) outcome_.problems = queue_.recover(retry_.now_utc_ns);
    for (const QueuedMail& mail : queue_.waiting()) {
      if (left().count() <= 0) break;
      if (retry_.which == RetryMails::due && mail.next_utc_ns > retry_.now_utc_ns) continue;
      if (!retry_.dry_run && !queue_.begin_try(mail, retry_.now_utc_ns)) continue;
      send(mail);
    }
    if (looks_at_arrays()) {
      for (const ArrayTask& task : worst_of_arrays()) {
        if (left().count() <= 0) break;
        send_about_array(task);
      }
    }
    return std::move(outcome_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
  }

  /// About a job of which a QueuedMail or an ArrayTask is the record.
  MailOutcome mail_again(const auto& record, Audience audience, const ArrayStateOf& array_state) {
    return mail_job({.directory = record.directory,
                     .request = record.request,
                     .array = record.array,
                     .array_state = array_state,
                     .state = retry_.state,
                     .only = audience,
                     .admins_notified = record.admins_notified,
                     .dry_run = retry_.dry_run,
                     .host = retry_.host,
                     .now_utc_ns = retry_.now_utc_ns,
                     .limit = left()},
                    settings_);
  }

  void add(MailOutcome& one) {
    outcome_.failed = outcome_.failed || one.failed;
    std::move(one.items.begin(), one.items.end(), std::back_inserter(outcome_.items));
  }

  void send(const QueuedMail& mail) {
    try {
      MailOutcome one = mail_again(mail, mail.audience, retry_.array_state);
      if (!retry_.dry_run) end_try(mail, one, retry_, queue_, outcome_.problems);
      add(one);
    } catch (const Error& error) {
      could_not_compose(mail, error.what());
    }
  }

  /// The end of a task must not read the records of hundreds of others.
  bool looks_at_arrays() {
    return retry_.which == RetryMails::all || MailQuota(retry_.state, retry_.now_utc_ns).take_look_at_arrays();
  }

  /// The worst task of each array whose mail did not come at its end.
  std::vector<ArrayTask> worst_of_arrays() {
    ArrayTasks kept(retry_.state);
    std::vector<ArrayTask> tasks = kept.all();
    sort_worst_first(tasks);
    std::map<std::pair<std::string, std::string>, std::int64_t> newest;
    for (const ArrayTask& task : tasks) {
      std::int64_t& time = newest[{task.array, task.request.user}];
      time = std::max(time, task.utc_ns);
    }
    std::vector<ArrayTask> worst;
    for (ArrayTask& task : tasks) {
      const auto of_array = newest.find({task.array, task.request.user});
      if (of_array == newest.end() || !task.has_result) continue;
      task.utc_ns = of_array->second;
      newest.erase(of_array);
      if (task.utc_ns > retry_.now_utc_ns - kNextHour) continue;  // its last task sends the mail
      const ArrayState state = retry_.array_state ? retry_.array_state(task.array) : ArrayState::unknown;
      const bool quiet = task.utc_ns <= retry_.now_utc_ns - kQuietArray;
      if (state == ArrayState::ended || (state == ArrayState::unknown && quiet)) worst.push_back(task);
    }
    return worst;
  }

  void send_about_array(const ArrayTask& task) {
    try {
      MailOutcome one = mail_again(task, Audience::user, [](const std::string&) { return ArrayState::ended; });
      if (one.failed && task.utc_ns <= retry_.now_utc_ns - kGiveUpArray && !retry_.dry_run)
        give_up(task, failure_line(one));
      add(one);
      std::move(one.problems.begin(), one.problems.end(), std::back_inserter(outcome_.problems));
    } catch (const Error& error) {
      outcome_.problems.emplace_back(error.what());
      if (is_gone(task.directory) && !retry_.dry_run) ArrayTasks(retry_.state).remove(task);
    }
  }

  void give_up(const ArrayTask& task, const std::string& why) {
    ArrayTasks kept(retry_.state);
    for (const ArrayTask& one : kept.all(task.array, task.request.user)) kept.remove(one);
    outcome_.problems.push_back("the mail about array job " + task.array + " is given up: " + why);
  }

  static bool is_gone(const std::filesystem::path& directory) {
    std::error_code error;
    return std::filesystem::symlink_status(directory / kReportFile, error).type() ==
           std::filesystem::file_type::not_found;
  }

  /// Without its report, a mail can never be sent; a file server may answer later.
  void could_not_compose(const QueuedMail& mail, const std::string& why) {
    const bool gone = is_gone(mail.directory);
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
