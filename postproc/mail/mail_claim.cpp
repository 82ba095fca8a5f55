#include "postproc/mail/mail_claim.h"

#include <spdlog/fmt/fmt.h>

#include "postproc/report/verdict.h"

namespace reveal {

std::set<std::string> told_rules(const Report& report, const MailPlan& plan) {
  if (plan.user_asked || report.job.run_key.empty() || report.verdict.status != VerdictStatus::finding) return {};
  std::set<std::string> rules;
  for (const Finding* finding : shown_findings(report)) {
    if (rules.empty() || finding->severity >= Severity::warning) rules.insert(finding->id);
  }
  return rules;
}

MailClaim::MailClaim(MailQuota* quota, const MailSettings& settings, const Report& report, const Wanted& wanted)
    : quota_(quota) {
  if (quota_ == nullptr) return;
  quota_->begin_mail(wanted.mail, wanted.again);
  refused_ =
      wanted.audience == Audience::hardware ? refusal_of_faults(settings, report) : refusal_of_array(report, wanted);
  if (refused_.empty() && wanted.audience == Audience::user) refused_ = refusal_of_findings(settings, report, wanted);
  if (!refused_.empty()) return;
  later_ = !take(quota_->take_hourly(settings.per_hour, wanted.audience));
  if (later_) refused_ = fmt::format("the limit of mails per hour is reached, [mail] per_hour = {}", settings.per_hour);
}

MailClaim::~MailClaim() {
  if (quota_ == nullptr || kept_) return;
  for (const std::string& name : taken_) quota_->give_back(name);
}

bool MailClaim::take(std::string name) {
  if (name.empty()) return false;
  taken_.push_back(std::move(name));
  return true;
}

std::string MailClaim::refusal_of_faults(const MailSettings& settings, const Report& report) {
  for (const HardwareFault& fault : hardware_faults(report, settings)) {
    if (take(quota_->take_fault(fault.key))) faults_.insert(fault.key);
  }
  return faults_.empty() ? "the administrators were told of the same faults today" : "";
}

std::string MailClaim::refusal_of_array(const Report& report, const Wanted& wanted) {
  if (wanted.array.empty()) return {};
  const std::string& task = report.job.array.empty() ? report.job.id : report.job.array;
  if (take(quota_->take_array(wanted.user, wanted.array, wanted.audience, task))) return {};
  array_has_mail_ = true;
  return "array job " + wanted.array + " already had its mail";
}

std::string MailClaim::refusal_of_findings(const MailSettings& settings, const Report& report, const Wanted& wanted) {
  if (wanted.rules.empty() || settings.repeat_days == 0) return {};
  const std::size_t before = taken_.size();
  for (std::string& name : quota_->take_findings(wanted.user, report.job.run_key, wanted.rules, settings.repeat_days)) {
    taken_.push_back(std::move(name));
  }
  if (taken_.size() > before) return {};
  return fmt::format("the same finding of this command was mailed before, [mail] repeat_days = {}",
                     settings.repeat_days);
}

}  // namespace reveal
