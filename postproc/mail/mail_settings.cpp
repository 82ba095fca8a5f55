#include "postproc/mail/mail_settings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "hdf5schema/basics/config_file.h"
#include "hdf5schema/basics/text.h"
#include "postproc/mail/address.h"

namespace reveal {
namespace {

constexpr std::string_view kSections[] = {"mail"};
constexpr int kMostPerHour = 10'000;

struct Place {
  const ConfigFile& config;
  const ConfigEntry& entry;
  std::vector<std::string>& problems;

  [[nodiscard]] const std::string& single() const { return config.single(entry); }
  [[nodiscard]] Error error(const std::string& what) const { return config.error(entry.line, what); }
  [[nodiscard]] Error wrong(const std::string& value, std::string_view what) const {
    return error(fmt::format("\"{}\" is not {}", value, what));
  }
};

void set_sendmail(MailSettings& settings, const Place& place) {
  settings.sendmail.clear();
  for (const std::string& value : place.entry.values) {
    std::string_view rest = value;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
      settings.sendmail.emplace_back(word);
    }
  }
  // PATH of whoever runs this is no place to look for the site's mail program.
  if (settings.sendmail.empty() || !settings.sendmail.front().starts_with('/')) {
    throw place.error("\"sendmail\" begins with the full path of a program, for example /usr/sbin/sendmail -t -i");
  }
}

void set_from(MailSettings& settings, const Place& place) {
  settings.from = place.single();
  if (!settings.from.empty() && !is_mail_address(settings.from)) throw place.wrong(settings.from, "a mail address");
}

void set_domain(MailSettings& settings, const Place& place) {
  settings.domain = place.single();
  if (!settings.domain.empty() && !is_mail_domain(settings.domain)) {
    throw place.wrong(settings.domain, "a mail domain such as example.org");
  }
}

void set_admins(MailSettings& settings, const Place& place) {
  settings.admins.clear();
  for (const std::string& address : place.entry.values) {
    if (is_mail_address(address)) {
      settings.admins.push_back(address);
    } else if (!address.empty()) {
      place.problems.emplace_back(place.wrong(address, "a mail address; it gets no mail").what());
    }
  }
}

void set_threshold(MailSettings& settings, const Place& place) {
  const auto severity = severity_of(place.single());
  if (!severity || *severity == Severity::info) throw place.wrong(place.single(), "notice, warning or critical");
  settings.admin_threshold = *severity;
}

void set_disable(MailSettings& settings, const Place& place) {
  settings.disable = place.single();
  if (!settings.disable.empty() && !settings.disable.starts_with('/')) {
    throw place.wrong(settings.disable, "the full path of a file");
  }
}

struct Setting {
  MailSettingHelp help;
  void (*apply)(MailSettings&, const Place&);
};

constexpr Setting kSettings[] = {
    {{"enabled", "false", "send mail at all"},
     [](MailSettings& settings, const Place& place) { settings.enabled = place.config.truth(place.entry); }},
    {{"sendmail", "\"/usr/sbin/sendmail -t -i\"", "reads the mail on standard input; run without a shell"},
     set_sendmail},
    {{"from", "\"\"", "sender; empty: reveal at the domain, or at this host"}, set_from},
    {{"domain", "\"\"", "mail domain of the users; empty: only who named an address to Slurm gets mail"}, set_domain},
    {{"admins", "[]", "who gets what administrators can act on"}, set_admins},
    {{"admin_threshold", "\"warning\"", "notice, warning or critical: from where on the admins are told"},
     set_threshold},
    {{"healthy", "false", "also mail when nothing is worth acting on"},
     [](MailSettings& settings, const Place& place) { settings.healthy = place.config.truth(place.entry); }},
    {{"per_hour", "20", "most mails in an hour; the reports stay in the jobs' directories"},
     [](MailSettings& settings, const Place& place) {
       settings.per_hour = place.config.whole(place.entry, 0, kMostPerHour);
     }},
    {{"disable", "\"/etc/reveal/no-mail\"", "while this file exists nothing is sent"}, set_disable},
};

}  // namespace

std::span<const MailSettingHelp> mail_setting_help() noexcept {
  static constexpr auto kHelp = [] {
    std::array<MailSettingHelp, std::size(kSettings)> help{};
    for (std::size_t i = 0; i < help.size(); ++i) help[i] = kSettings[i].help;
    return help;
  }();
  return kHelp;
}

MailSettings parse_mail_settings(std::string_view text, const std::string& file, std::vector<std::string>& problems) {
  const ConfigFile config = parse_config(text, file);
  config.require(kSections);
  MailSettings settings;
  for (const ConfigEntry& entry : config.entries) {
    if (entry.section != "mail") continue;
    const auto* setting = std::find_if(std::begin(kSettings), std::end(kSettings),
                                       [&](const Setting& each) { return each.help.key == entry.key; });
    if (setting == std::end(kSettings)) {
      std::vector<std::string> keys;
      for (const Setting& each : kSettings) keys.emplace_back(each.help.key);
      throw config.unknown_key(entry, keys);
    }
    setting->apply(settings, {config, entry, problems});
  }
  return settings;
}

}  // namespace reveal
