// The right to send one mail: taken from MailQuota before the mail is composed, and given back where it is not sent.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "postproc/mail/mail_quota.h"
#include "postproc/mail/mail_settings.h"
#include "postproc/mail/recipients.h"
#include "postproc/report/report.h"

namespace reveal {

/// The rules of which a mail tells; empty where it comes for another reason than their findings, or where the runs of
/// the command cannot be told apart from others.
[[nodiscard]] std::set<std::string> told_rules(const Report& report, const MailPlan& plan);

class MailClaim {
 public:
  struct Wanted {
    Audience audience = Audience::user;
    std::string user;             // owner of the job
    std::string array;            // array job of which this is the only mail, or ""
    std::set<std::string> rules;  // findings that are told once in `repeat_days`; empty: the mail has another reason
    std::string mail;             // the same for each try of this mail
    bool again = false;           // an earlier try may have been killed
  };
  /// Without a quota, every mail may be sent.
  MailClaim(MailQuota* quota, const MailSettings& settings, const Report& report, const Wanted& wanted);
  ~MailClaim();
  MailClaim(const MailClaim&) = delete;
  MailClaim& operator=(const MailClaim&) = delete;

  /// Why the mail must not be sent, "" if it may.
  [[nodiscard]] const std::string& refused() const noexcept { return refused_; }
  /// Another task has the mail of the array.
  [[nodiscard]] bool array_has_mail() const noexcept { return array_has_mail_; }
  /// Whether it may be sent in the next hour.
  [[nodiscard]] bool later() const noexcept { return later_; }
  /// Keys of the faults of which the administrators were not told today.
  [[nodiscard]] const std::set<std::string>& faults() const noexcept { return faults_; }
  void keep() noexcept { kept_ = true; }

 private:
  bool take(std::string name);
  std::string refusal_of_faults(const MailSettings& settings, const Report& report);
  std::string refusal_of_array(const Report& report, const Wanted& wanted);
  std::string refusal_of_findings(const MailSettings& settings, const Report& report, const Wanted& wanted);

  MailQuota* quota_;
  std::vector<std::string> taken_;
  std::set<std::string> faults_;
  std::string refused_;
  bool array_has_mail_ = false, later_ = false, kept_ = false;
};

}  // namespace reveal
