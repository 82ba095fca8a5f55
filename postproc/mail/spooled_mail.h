// A report on its way to the site's mailer. The end of a job writes it as the job's user, so the mailer trusts no word
// of it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "postproc/mail/array_tasks.h"
#include "postproc/mail/message.h"
#include "postproc/mail/recipients.h"

namespace reveal {

struct SpooledMail {
  Audience audience = Audience::user;  // the job's user, or the administrators
  MailRequest request;
  std::string directory;         // where the report lies, as its reader would type it
  std::string array;             // array job of which this is the only mail, or ""
  bool admins_notified = false;  // the administrators get their mail
  int repeat_days = 0;           // as in MailContext
  std::vector<ArrayTask> tasks;  // likewise
  std::string report;            // the text of report.json
};

inline constexpr std::size_t kLargestSpooledMail = std::size_t{64} << 20;

[[nodiscard]] std::string render_spooled_mail(const SpooledMail& mail);
/// Throws Error.
[[nodiscard]] SpooledMail parse_spooled_mail(const std::string& json);
/// Nodes and the mailer may have different versions of reveal for a while.
[[nodiscard]] bool is_spooled_by_another_version(const std::string& json) noexcept;

}  // namespace reveal
