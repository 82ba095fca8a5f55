#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "postproc/mail/mail_settings.h"

namespace reveal {
namespace {

using Words = std::vector<std::string>;

std::string message(std::string_view text) {
  Words problems;
  try {
    static_cast<void>(parse_mail_settings(text, "reveal.conf", problems));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MailSettings, SendNothingUnlessTheSiteSaysSo) {
  Words problems;
  const MailSettings settings = parse_mail_settings("", "reveal.conf", problems);
  EXPECT_FALSE(settings.enabled);
  EXPECT_EQ(settings.sendmail, (Words{"/usr/sbin/sendmail", "-t", "-i"}));
  EXPECT_TRUE(settings.admins.empty());
  EXPECT_EQ(settings.admin_threshold, Severity::warning);
  EXPECT_EQ(settings.per_hour, 20);
  EXPECT_EQ(settings.disable, "/etc/reveal/no-mail");
}

TEST(MailSettings, AreReadFromTheirSection) {
  Words problems;
  const MailSettings settings = parse_mail_settings(
      "[report]\npipeline = paper\n"
      "[mail]\nenabled = true\nsendmail = \"/usr/bin/msmtp  -C /etc/msmtprc -t\"\nfrom = \"reveal@example.org\"\n"
      "domain = \"example.org\"\nadmins = [\"root\", \"ops@example.org\"]\nadmin_threshold = \"critical\"\n"
      "healthy = true\nper_hour = 5\ndisable = \"\"\n",
      "reveal.conf", problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_TRUE(settings.enabled);
  EXPECT_EQ(settings.sendmail, (Words{"/usr/bin/msmtp", "-C", "/etc/msmtprc", "-t"}));
  EXPECT_EQ(settings.from, "reveal@example.org");
  EXPECT_EQ(settings.domain, "example.org");
  EXPECT_EQ(settings.admins, (Words{"root", "ops@example.org"}));
  EXPECT_EQ(settings.admin_threshold, Severity::critical);
  EXPECT_TRUE(settings.healthy);
  EXPECT_EQ(settings.per_hour, 5);
  EXPECT_EQ(settings.disable, "");
}

TEST(MailSettings, LeaveOneBadAdminOutWithALine) {
  Words problems;
  const MailSettings settings = parse_mail_settings(
      "[mail]\nadmins = [\"root\", \"ops@example.org\\nBcc: x\", \"oncall\"]\n", "reveal.conf", problems);
  EXPECT_EQ(settings.admins, (Words{"root", "oncall"}));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].substr(0, 14), "reveal.conf:2:");
}

TEST(MailSettings, NameFileAndLineOfMistakes) {
  EXPECT_EQ(message("[mail]\nadmin = root\n"),
            "reveal.conf:2: unknown key \"admin\" in [mail]; did you mean \"admins\"?");
  EXPECT_EQ(message("[mail]\nenabled = yes\n"), "reveal.conf:2: \"enabled\" is true or false");
  EXPECT_EQ(message("[mial]\nenabled = true\n"), "reveal.conf:1: unknown section [mial]; did you mean [mail]?");
  EXPECT_EQ(message("[mail]\nadmin_threshold = info\n"), "reveal.conf:2: \"info\" is not notice, warning or critical");
  EXPECT_EQ(message("[mail]\nsendmail = \"sendmail -t\"\n"),
            "reveal.conf:2: \"sendmail\" begins with the full path of a program, for example /usr/sbin/sendmail -t -i");
  EXPECT_NE(message("[mail]\nsendmail = \"\"\n"), "");
  EXPECT_EQ(message("[mail]\nfrom = \"Reveal <r@x>\"\n"), "reveal.conf:2: \"Reveal <r@x>\" is not a mail address");
  EXPECT_NE(message("[mail]\ndomain = \"@example.org\"\n"), "");
  EXPECT_NE(message("[mail]\nper_hour = -1\n"), "");
  EXPECT_NE(message("[mail]\nper_hour = 1e9\n"), "");
  EXPECT_NE(message("[mail]\ndisable = \"no-mail\"\n"), "");
}

TEST(MailSettings, AreAllInTheTableForTheDocumentation) {
  Words keys;
  for (const MailSettingHelp& setting : mail_setting_help()) {
    keys.emplace_back(setting.key);
    EXPECT_FALSE(setting.help.empty());
    // What the table calls the default is read as one.
    const std::string line = "[mail]\n" + std::string(setting.key) + " = " + std::string(setting.fallback) + "\n";
    EXPECT_EQ(message(line), "") << line;
  }
  EXPECT_EQ(keys, (Words{"enabled", "sendmail", "from", "domain", "admins", "admin_threshold", "healthy", "per_hour",
                         "disable"}));
}

}  // namespace
}  // namespace reveal
