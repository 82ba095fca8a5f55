// The recipients of a mail about this report, and the reasons against others. Addresses come from Slurm and from the
// site's file, never from the report: that one lies in the user's directory.
#pragma once

#include <string>
#include <vector>

#include "postproc/mail/mail_settings.h"
#include "postproc/report/report.h"

namespace reveal {

/// The wishes of the job's owner, and Slurm's answer.
struct MailRequest {
  std::string asked;      // --reveal=mail=ADDR; "yes": to the address given to Slurm; "off": no mail
  std::string mail_user;  // Slurm's, set by --mail-user
  std::string user;       // the owner of the job
};

struct MailPlan {
  std::vector<std::string> user;     // at most one, empty: the job's owner gets no mail
  std::vector<std::string> admins;   // empty: no mail with the report to the administrators
  std::vector<std::string> faults;   // administrators that are told of faults of hardware; empty: none is
  bool user_asked = false;           // the user asked for it
  std::string why_user, why_admins;  // reasons for those who get one
  std::vector<std::string> why_not;  // for those who get none, a sentence each
  std::vector<std::string> refused;  // a line for each address that is none, or not the user's to choose
  bool request_refused = false;      // the user asked for something that is not done
};

[[nodiscard]] MailPlan plan_mail(const Report& report, const MailSettings& settings, const MailRequest& request);

/// The addresses of [mail] admins with the domain of the site, each once.
[[nodiscard]] std::vector<std::string> addresses_of_admins(const MailSettings& settings);

/// Its remedy is to drain the node: the administrators are told of it without the job's report.
[[nodiscard]] bool is_hardware_fault(const Finding& finding);

/// Something an administrator can act on by the table of rules, severe enough for the site's threshold.
[[nodiscard]] bool concerns_admins(const Finding& finding, const MailSettings& settings) noexcept;

}  // namespace reveal
