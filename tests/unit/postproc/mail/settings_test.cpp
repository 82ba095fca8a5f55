#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "config_of.h"
#include "postproc/mail/mail_settings.h"

namespace reveal::tests::settings_test {
namespace {

using Words = std::vector<std::string>;

MailSettings settings_of(std::string_view text, Words& problems) {
  const Config config = config_of(text);
  problems = config.problems_of({"mail"});
  return mail_settings(config, problems);
}

std::string message(std::string_view text) {
  Words problems;
  static_cast<void>(settings_of(text, problems));
  return problems.empty() ? "" : problems.front();
}

TEST(MailSettings, SendNothingUnlessTheSiteSaysSo) {
  Words problems;
  const MailSettings settings = settings_of("", problems);
  EXPECT_FALSE(settings.enabled);
  EXPECT_EQ(settings.sendmail, (Words{"/usr/sbin/sendmail", "-t", "-i"}));
  EXPECT_TRUE(settings.admins.empty());
  EXPECT_EQ(settings.admin_threshold, Severity::warning);
  EXPECT_EQ(settings.per_hour, 20);
  EXPECT_EQ(settings.disable, "/etc/reveal/no-mail");
  EXPECT_EQ(settings.repeat_days, 7);
  EXPECT_EQ(settings.attach_limit, 2'000'000U);
}

TEST(MailSettings, TakeOnlyWhatCanStandInAHeader) {
  Words problems;
  const MailSettings settings =
      settings_of("[mail]\nreply_to = \"help@example.org\"\nunsubscribe = \"https://example.org/reveal\"\n", problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(settings.reply_to, "help@example.org");
  EXPECT_EQ(settings.unsubscribe, "https://example.org/reveal");
  EXPECT_NE(message("[mail]\nreply_to = \"Help <h@x>\"\n"), "");
  for (const char* wrong : {"http://example.org", "help@example.org", "https://x> y", "mailto:a@b\tX"}) {
    EXPECT_NE(message(std::string("[mail]\nunsubscribe = \"") + wrong + "\"\n"), "") << wrong;
  }
  const std::string beginning = "https://example.org/";
  for (const auto& [size, fits] : {std::pair(900, true), std::pair(901, false)}) {
    const std::string url = beginning + std::string(static_cast<std::size_t>(size) - beginning.size(), 'x');
    EXPECT_EQ(message("[mail]\nunsubscribe = \"" + url + "\"\n").empty(), fits) << size;
  }
}

TEST(MailSettings, AreReadFromTheirSection) {
  Words problems;
  const MailSettings settings = settings_of(
      "[report]\npipeline = paper\n"
      "[mail]\nenabled = true\nsendmail = \"/usr/bin/msmtp  -C /etc/msmtprc -t\"\nfrom = \"reveal@example.org\"\n"
      "domain = \"example.org\"\nadmins = [\"root\", \"ops@example.org\"]\nadmin_threshold = \"critical\"\n"
      "healthy = true\nper_hour = 5\ndisable = \"\"\n",
      problems);
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
  EXPECT_EQ(settings.mailer_spool, "");
  EXPECT_EQ(settings.digest_ns, 3'600'000'000'000);
}

TEST(MailSettings, NameTheSpoolOfTheSitesMailer) {
  Words problems;
  const MailSettings settings =
      settings_of("[mail]\nmailer_spool = \"/shared/reveal-mail\"\ndigest = \"10min\"\n", problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(settings.mailer_spool, "/shared/reveal-mail");
  EXPECT_EQ(settings.digest_ns, 600'000'000'000);
  EXPECT_NE(message("[mail]\ndigest = \"2d\"\n"), "");
}

TEST(MailSettings, LeaveOneBadAdminOutWithALine) {
  Words problems;
  const MailSettings settings =
      settings_of("[mail]\nadmins = [\"root\", \"ops@example.org\\nBcc: x\", \"oncall\"]\n", problems);
  EXPECT_EQ(settings.admins, (Words{"root", "oncall"}));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].substr(0, 14), "reveal.conf:2:");
}

TEST(MailSettings, NameFileAndLineOfMistakes) {
  EXPECT_EQ(message("[mail]\nadmin = root\n"),
            "reveal.conf:2: unknown key \"admin\" in [mail]; did you mean \"admins\"?");
  EXPECT_EQ(message("[mail]\nenabled = maybe\n"),
            "reveal.conf:2: \"enabled\" is true or false, not \"maybe\"; false is used");
  EXPECT_EQ(message("[mial]\nenabled = true\n"), "reveal.conf:1: unknown section [mial]; did you mean [mail]?");
  EXPECT_EQ(message("[mail]\nadmin_threshold = info\n"),
            "reveal.conf:2: \"admin_threshold\" is notice, warning or critical, not \"info\"; \"warning\" is used");
  EXPECT_NE(message("[mail]\nsendmail = \"\"\n"), "");
  EXPECT_EQ(message("[mail]\nfrom = \"Reveal <r@x>\"\n"),
            "reveal.conf:2: \"from\": \"Reveal <r@x>\" is not a mail address; \"\" is used");
  EXPECT_NE(message("[mail]\ndomain = \"@example.org\"\n"), "");
  EXPECT_NE(message("[mail]\nper_hour = -1\n"), "");
  EXPECT_NE(message("[mail]\nper_hour = 1e9\n"), "");
  EXPECT_NE(message("[mail]\ndisable = \"no-mail\"\n"), "");
}

TEST(MailSettings, SendNothingWhereTheProgramOrTheSwitchIsAMistake) {
  Words problems;
  EXPECT_FALSE(settings_of("[mail]\nenabled = true\nsendmail = \"sendmail -t\"\n", problems).enabled);
  EXPECT_EQ(problems.size(), 1U);
  EXPECT_EQ(settings_of("[mail]\nenabled = true\ndisable = \"no-mail\"\n", problems).disable, "/");
  EXPECT_TRUE(settings_of("[mail]\nenabled = true\nper_hour = lots\n", problems).enabled);
}

}  // namespace
}  // namespace reveal::tests::settings_test
