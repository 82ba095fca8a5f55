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

/// One process at a time has it.
class LookAtArrays {
 public:
  explicit LookAtArrays(MailQuota& quota) : quota_(quota), is_own_(quota.begin_look_at_arrays()) {}
  ~LookAtArrays() {
    if (is_own_) quota_.end_look_at_arrays();
  }
  LookAtArrays(const LookAtArrays&) = delete;
  LookAtArrays& operator=(const LookAtArrays&) = delete;

  [[nodiscard]] bool is_own() const noexcept { return is_own_; }

 private:
  MailQuota& quota_;
  bool is_own_;
};

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
    try {
      look_at_arrays();
    } catch (const Error& error) {  // no space; the outcome of the mails above stays known
      outcome_.problems.emplace_back(error.what());
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
    std::move(one.problems.begin(), one.problems.end(), std::back_inserter(outcome_.problems));
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

  void look_at_arrays() {
    if (retry_.dry_run) return send_about_arrays();
    MailQuota quota(retry_.state, retry_.now_utc_ns);
    // The end of a task must not read the records of hundreds of others.
    if (retry_.which == RetryMails::due && !quota.take_look_at_arrays()) return;
    const LookAtArrays look(quota);
    if (look.is_own()) return send_about_arrays();
    outcome_.why_not.emplace_back("another process sends the mails about arrays now");
  }

  void send_about_arrays() {
    for (const auto& [id, array] : arrays_without_mail()) {
      if (left().count() <= 0) break;
      send_about(array);
    }
  }

  struct UnmailedArray {
    std::vector<ArrayTask> tasks;  // with a result, the worst first
    std::int64_t newest_utc_ns = 0;
  };

  /// The arrays whose mail did not come at their end, by number and user.
  std::map<std::pair<std::string, std::string>, UnmailedArray> arrays_without_mail() {
    std::vector<ArrayTask> tasks = ArrayTasks(retry_.state).all();
    sort_worst_first(tasks);
    std::map<std::pair<std::string, std::string>, UnmailedArray> arrays;
    for (ArrayTask& task : tasks) {
      UnmailedArray& array = arrays[{task.array, task.request.user}];
      array.newest_utc_ns = std::max(array.newest_utc_ns, task.utc_ns);
      if (task.has_result) array.tasks.push_back(std::move(task));
    }
    std::erase_if(arrays, [this](const auto& entry) { return !is_mail_due(entry.first.first, entry.second); });
    return arrays;
  }

  bool is_mail_due(const std::string& number, const UnmailedArray& array) {
    if (array.tasks.empty() || array.newest_utc_ns > retry_.now_utc_ns - kNextHour) return false;  // its last task does
    const ArrayState state = retry_.array_state ? retry_.array_state(number) : ArrayState::unknown;
    const bool quiet = array.newest_utc_ns <= retry_.now_utc_ns - kQuietArray;
    return state == ArrayState::ended || (state == ArrayState::unknown && quiet);
  }

  /// The mail has the report of the worst task whose report can be read.
  void send_about(const UnmailedArray& array) {
    const bool late = array.newest_utc_ns <= retry_.now_utc_ns - kGiveUpArray && !retry_.dry_run;
    std::string failure;
    for (const ArrayTask& task : array.tasks) {
      try {
        MailOutcome one = mail_again(task, Audience::user, [](const std::string&) { return ArrayState::ended; });
        if (one.failed && late) give_up(task, failure_line(one));
        return add(one);
      } catch (const Error& error) {
        if (failure == error.what()) break;  // it is no fault of this report
        failure = error.what();
        outcome_.problems.push_back(failure);
        if (is_gone(task.directory) && !retry_.dry_run) ArrayTasks(retry_.state).remove(task);
      }
    }
    if (late) give_up(array.tasks.front(), failure);
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
  if (std::string why = why_no_mail(settings); !why.empty()) {
    outcome.why_not.push_back(std::move(why));
    return outcome;
  }
  return RetryRound(retry, settings).run();
}

}  // namespace reveal
