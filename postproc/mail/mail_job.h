// The report of one job to those it concerns: reads DIR/report.json, decides, composes, sends.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "postproc/mail/array_tasks.h"
#include "postproc/mail/mail_settings.h"
#include "postproc/mail/message.h"
#include "postproc/mail/outbox.h"
#include "postproc/mail/recipients.h"

namespace reveal {

struct MailJob {
  std::filesystem::path directory;
  MailRequest request;
  std::string array;                  // number of the array job, "" if it is none
  bool all_tasks = true;              // the array's tasks share `state`; where each node has one, each sends a mail
  ArrayStateOf array_state = {};      // asks Slurm; nothing: unknown
  std::string state;                  // directory that counts mails and keeps those that failed; "" does neither
  std::optional<Audience> only = {};  // only to these: a mail that is tried again, or that of a drill
  bool admins_notified = false;       // likewise: the administrators have theirs
  bool dry_run = false;
  std::string host;
  std::int64_t now_utc_ns = 0;
  std::chrono::milliseconds limit = kSendLimit;  // for all mails together
  std::chrono::milliseconds retry_after{0};      // once, for a mail that failed; 0: it is not tried again
};

enum class MailState { sent, would_send, held_back, failed };
[[nodiscard]] std::string_view name_of(MailState) noexcept;

struct MailOutcome {
  struct Item {
    Audience audience = Audience::user;
    std::vector<std::string> to;
    MailMessage message;
    MailState state = MailState::failed;
    std::string why;       // held back or failed; of a dry run, why it would be sent
    bool later = false;    // held back for now only
    bool queued = false;   // failed, and is tried again
    bool spooled = false;  // left for the site's mailer, where `state` is sent
  };
  std::vector<Item> items;
  std::vector<std::string> why_not;   // no mail was due, a sentence each
  std::vector<std::string> problems;  // a line each, for the log
  bool failed = false;
};

/// Throws Error when the report cannot be read or the state directory cannot be trusted.
[[nodiscard]] MailOutcome mail_job(const MailJob& job, const MailSettings& settings);

enum class MailText : std::uint8_t { left_out, shown };
/// Recipients, subject and reasons; the text of the mail only on request.
[[nodiscard]] std::string outcome_as_text(const MailOutcome& outcome, MailText with = MailText::left_out);
[[nodiscard]] std::string outcome_as_json(const MailOutcome& outcome);

/// One line about everything that was not sent, "" if all was.
[[nodiscard]] std::string failure_line(const MailOutcome& outcome);

}  // namespace reveal
