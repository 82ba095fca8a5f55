#include "postproc/mail/mail_settings.h"

#include <sys/stat.h>

#include <algorithm>

#include "postproc/mail/address.h"

namespace reveal {
namespace {

std::string mistake_in_address(const std::vector<std::string>& values) {
  const std::string& address = values.front();
  return address.empty() || is_mail_address(address) ? "" : "\"" + address + "\" is not a mail address";
}

std::string mistake_in_domain(const std::vector<std::string>& values) {
  const std::string& domain = values.front();
  return domain.empty() || is_mail_domain(domain) ? "" : "\"" + domain + "\" is not a mail domain such as example.org";
}

/// A URL for a header: '>' would end it there.
std::string mistake_in_unsubscribe(const std::vector<std::string>& values) {
  constexpr std::size_t kLongestUrl = 900;  // it is one line of a mail, which ends at 998: RFC 5322, 2.1.1
  const std::string& url = values.front();
  if (url.size() > kLongestUrl) return "a URL of more than " + std::to_string(kLongestUrl) + " characters";
  const bool known = url.starts_with("mailto:") || url.starts_with("https://");
  const bool plain =
      std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < '\x7f' && c != '<' && c != '>'; });
  return url.empty() || (known && plain) ? ""
                                         : "\"" + url + "\" is no URL such as mailto:help@example.org or https://...";
}

const RegisteredConfigCheck kSenderCheck{config_key("mail", "from"), mistake_in_address};
const RegisteredConfigCheck kReplyCheck{config_key("mail", "reply_to"), mistake_in_address};
const RegisteredConfigCheck kUnsubscribeCheck{config_key("mail", "unsubscribe"), mistake_in_unsubscribe};
const RegisteredConfigCheck kDomainCheck{config_key("mail", "domain"), mistake_in_domain};

}  // namespace

MailSettings mail_settings(const Config& config, std::vector<std::string>& problems) {
  MailSettings settings;
  settings.sendmail = config.list(config_key("mail", "sendmail"));
  settings.enabled = config.truth(config_key("mail", "enabled")) && !settings.sendmail.empty();
  settings.from = config.text(config_key("mail", "from"));
  settings.domain = config.text(config_key("mail", "domain"));
  settings.reply_to = config.text(config_key("mail", "reply_to"));
  settings.unsubscribe = config.text(config_key("mail", "unsubscribe"));
  for (std::string& address : config.list(config_key("mail", "admins"))) {
    if (is_mail_address(address)) {
      settings.admins.push_back(std::move(address));
    } else {
      problems.push_back(config.place(config_key("mail", "admins")) + ": \"" + address +
                         "\" is not a mail address; it gets no mail");
    }
  }
  settings.admin_threshold =
      severity_of(config.text(config_key("mail", "admin_threshold"))).value_or(Severity::warning);
  settings.healthy = config.truth(config_key("mail", "healthy"));
  settings.per_hour = static_cast<int>(config.whole(config_key("mail", "per_hour")));
  settings.repeat_days = static_cast<int>(config.whole(config_key("mail", "repeat_days")));
  settings.attach_limit = config.size(config_key("mail", "attach_limit"));
  settings.fault_directory = config.text(config_key("mail", "fault_directory"));
  settings.mailer_spool = config.text(config_key("mail", "mailer_spool"));
  settings.digest_ns = config.time(config_key("mail", "digest")).count();
  settings.disable = config.text(config_key("mail", "disable"));
  return settings;
}

std::string why_no_mail(const MailSettings& settings) {
  if (!settings.enabled) return "mail is switched off: [mail] enabled = false";
  struct stat status {};
  const bool is_stopped = !settings.disable.empty() && ::lstat(settings.disable.c_str(), &status) == 0;
  return is_stopped ? "mail is switched off by the file " + settings.disable : "";
}

}  // namespace reveal
