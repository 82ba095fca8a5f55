// What the site decided about mail: the section [mail] of /etc/reveal/reveal.conf. A user's file is never asked, since
// it would say who gets mail in the site's name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/finding.h"

namespace reveal {

struct MailSettings {
  bool enabled = false;
  std::vector<std::string> sendmail{"/usr/sbin/sendmail", "-t", "-i"};  // program and arguments; no shell
  std::string from;                                                     // "": reveal@domain, or at this host
  std::string domain;                                                   // of the site's users; "" if they have none
  std::vector<std::string> admins;
  Severity admin_threshold = Severity::warning;
  bool healthy = false;
  int per_hour = 20;
  std::string disable = "/etc/reveal/no-mail";
};

/// One key of [mail]: the documentation prints this table.
struct MailSettingHelp {
  std::string_view key, fallback, help;
};
[[nodiscard]] std::span<const MailSettingHelp> mail_setting_help() noexcept;

/// Throws Error "FILE:LINE: ..." for what cannot be meant. An address that is none is left out, with a line in
/// `problems`: the others still get their mail.
[[nodiscard]] MailSettings parse_mail_settings(std::string_view text, const std::string& file,
                                               std::vector<std::string>& problems);

}  // namespace reveal
