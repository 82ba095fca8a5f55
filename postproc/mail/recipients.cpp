#include "postproc/mail/recipients.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

#include "hdf5schema/basics/config_keys.h"
#include "postproc/diagnose/rule.h"
#include "postproc/ledger/node_ranking.h"
#include "postproc/mail/address.h"

namespace reveal {
namespace {

/// yes: as `--reveal=mail` without an address; no: no mail at all; nothing: an address, or no request.
std::optional<bool> asked_at_all(std::string_view request) {
  return request == "none" ? false : parse_truth(request);
}

/// Without this rule, `--reveal=mail=` would let anybody send mail to anybody in the site's name.
bool may_choose(const std::string& address, const MailSettings& settings, const MailRequest& request) {
  if (is_mail_address(request.mail_user) && same_address(address, qualified(request.mail_user, settings.domain))) {
    return true;
  }
  if (domain_of(address).empty()) return address == request.user;
  return !settings.domain.empty() && same_domain(domain_of(address), settings.domain);
}

/// The address the user asked for; "" with a line in `plan.refused` if it cannot be.
std::string asked_address(const MailSettings& settings, const MailRequest& request, MailPlan& plan) {
  std::string address = qualified(request.asked, settings.domain);
  if (!is_mail_address(address)) {
    plan.refused.push_back(fmt::format("\"{}\" is not a mail address", request.asked));
  } else if (!may_choose(address, settings, request)) {
    plan.refused.push_back(
        fmt::format("no mail to {}: it is neither your address in Slurm (--mail-user) nor an address of {}", address,
                    settings.domain.empty() ? "this site" : settings.domain));
  } else {
    return address;
  }
  plan.request_refused = true;
  return {};
}

std::string address_in_slurm(const MailSettings& settings, const MailRequest& request, MailPlan& plan) {
  if (is_mail_address(request.mail_user)) return qualified(request.mail_user, settings.domain);
  if (!request.mail_user.empty()) {
    plan.refused.push_back(fmt::format("\"{}\", from Slurm's --mail-user, is not a mail address", request.mail_user));
  }
  if (!settings.domain.empty() && is_mail_user(request.user)) return qualified(request.user, settings.domain);
  return {};
}

void plan_user(const Report& report, const MailSettings& settings, const MailRequest& request, MailPlan& plan) {
  const std::optional<bool> at_all = asked_at_all(request.asked);
  if (at_all == false) {
    plan.why_not.emplace_back("the user requested no mail");
    return;
  }
  const bool myself = at_all.has_value();
  std::string address;
  if (!request.asked.empty() && !myself) address = asked_address(settings, request, plan);
  const bool asked = myself || !address.empty();
  if (!asked && !settings.healthy && report.verdict.status != VerdictStatus::finding) {
    plan.why_not.emplace_back("the report has no finding");
    return;
  }
  if (address.empty()) address = address_in_slurm(settings, request, plan);
  if (!address.empty()) {
    plan.why_user = asked                                             ? "the user requested it"
                    : report.verdict.status == VerdictStatus::finding ? "the report has a finding"
                                                                      : "[mail] healthy = true";
    plan.user_asked = asked;
    plan.user.push_back(std::move(address));
    return;
  }
  plan.why_not.emplace_back("the user's address is not known: Slurm has none, and [mail] sets no domain");
  plan.request_refused = plan.request_refused || myself;
}

void plan_admins(const Report& report, const MailSettings& settings, MailPlan& plan) {
  if (settings.admins.empty()) {
    plan.why_not.emplace_back("[mail] sets no admins");
    return;
  }
  const auto concerned = [&](bool by_hardware) {
    return std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& finding) {
      return concerns_admins(finding, settings) && is_hardware_fault(finding) == by_hardware;
    });
  };
  if (!concerned(false) && !concerned(true)) {
    plan.why_not.push_back(fmt::format("there is no finding of severity {} or higher with a remedy for administrators",
                                       name_of(settings.admin_threshold)));
    return;
  }
  plan.why_admins = fmt::format("a finding of severity {} or higher with a remedy for administrators",
                                name_of(settings.admin_threshold));
  std::vector<std::string> addresses = addresses_of_admins(settings);
  if (concerned(true)) plan.faults = addresses;
  if (concerned(false)) plan.admins = std::move(addresses);
}

}  // namespace

std::vector<std::string> addresses_of_admins(const MailSettings& settings) {
  std::vector<std::string> addresses;
  for (const std::string& admin : settings.admins) {
    std::string address = qualified(admin, settings.domain);
    const bool known = std::any_of(addresses.begin(), addresses.end(),
                                   [&](const std::string& other) { return same_address(other, address); });
    if (!known) addresses.push_back(std::move(address));
  }
  return addresses;
}

bool is_hardware_fault(const Finding& finding) {
  const RuleSpec* rule = find_rule(finding.id);
  return rule != nullptr && is_hardware_rule(*rule);
}

bool concerns_admins(const Finding& finding, const MailSettings& settings) noexcept {
  const RuleSpec* rule = find_rule(finding.id);
  return finding.caused_by.empty() && rule != nullptr && !rule->admin_remedy.empty() &&
         finding.severity >= settings.admin_threshold;
}

MailPlan plan_mail(const Report& report, const MailSettings& settings, const MailRequest& request) {
  MailPlan plan;
  if (!settings.enabled) {
    plan.why_not.emplace_back("mail is switched off: [mail] enabled = false");
    return plan;
  }
  plan_user(report, settings, request, plan);
  plan_admins(report, settings, plan);
  return plan;
}

}  // namespace reveal
