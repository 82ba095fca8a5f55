// Sends what waits in a MailQueue, composed from the reports as they are now.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "postproc/mail/mail_job.h"
#include "postproc/mail/mail_settings.h"

namespace reveal {

enum class RetryMails : std::uint8_t { due, all };

struct MailRetry {
  std::string state;  // directory of the queue
  RetryMails which = RetryMails::due;
  bool dry_run = false;
  ArrayStateOf array_state = {};  // asks Slurm; nothing: unknown
  std::string host;
  std::int64_t now_utc_ns = 0;
  std::chrono::milliseconds limit = kSendLimit;  // for all mails together
};

/// Mails for which there is no time stay as they are. Throws Error when the directory cannot be trusted.
[[nodiscard]] MailOutcome retry_mails(const MailRetry& retry, const MailSettings& settings);

}  // namespace reveal
