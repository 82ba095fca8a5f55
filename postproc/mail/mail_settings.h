// The site's settings of mail: the section [mail] of /etc/reveal/reveal.conf. A user's file is never read, since
// it would choose the recipients of mail in the site's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hdf5schema/basics/config.h"
#include "postproc/diagnose/finding.h"

namespace reveal {

struct MailSettings {
  bool enabled = false;
  std::vector<std::string> sendmail;  // program and arguments; no shell
  std::string from;                   // "": reveal@domain, or at this host
  std::string domain;                 // domain of the site's users; "" if they have none
  std::string reply_to;               // "": the sender
  std::string unsubscribe;            // a URL; "" if there is none
  std::vector<std::string> admins;
  Severity admin_threshold = Severity::warning;
  bool healthy = false;
  int per_hour = 0;
  int repeat_days = 0;             // 0: each job's finding is mailed
  std::uint64_t attach_limit = 0;  // in bytes
  std::string fault_directory;     // in which faults are claimed for the jobs of all users; "" for those of each
  std::string mailer_spool;        // in which jobs leave mails for the site's mailer; "": each job sends its own
  std::int64_t digest_ns = 0;      // wait of a finding for the mailer's mail to the administrators
  std::string disable;
};

/// The section [mail]. An address of `admins` that is none is left out, with a line in `problems`: the others still get
/// their mail.
[[nodiscard]] MailSettings mail_settings(const Config& config, std::vector<std::string>& problems);

/// The reason why no mail is sent at all, such as the file that stops it; "" if mails are sent.
[[nodiscard]] std::string why_no_mail(const MailSettings& settings);

}  // namespace reveal
