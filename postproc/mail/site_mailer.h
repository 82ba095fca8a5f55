// The one mailer of a site: sends what the ends of all jobs left in its spool, and one mail to the administrators about
// the findings of all jobs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "postproc/mail/mail_job.h"
#include "postproc/mail/mail_settings.h"

namespace reveal {

struct SiteMailer {
  bool dry_run = false;  // sends, deletes and records nothing
  std::string host;
  std::int64_t now_utc_ns = 0;
  std::chrono::milliseconds limit = std::chrono::minutes(10);  // for all mails together
  /// After a mail that took longer to read, the others of its owner wait for the next call.
  std::chrono::milliseconds slow = std::chrono::seconds(5);
  /// Calls `work` where it can read nothing but this file and change nothing: a mail in the spool is hostile. Throws
  /// Error with what `work` threw, or with what happened to it.
  std::function<std::string(const std::filesystem::path& file, const std::function<std::string()>& work)> confined;
};

struct SiteMailerOutcome {
  MailOutcome mails;
  std::string metrics;  // as mailer_metrics() prints them; "" while another mailer has its turn
};

/// Throws Error if the spool of the settings cannot be used.
[[nodiscard]] SiteMailerOutcome run_site_mailer(const SiteMailer& mailer, const MailSettings& settings);

}  // namespace reveal
