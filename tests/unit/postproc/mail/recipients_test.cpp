#include "postproc/mail/recipients.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "postproc/diagnose/rule.h"
#include "report_samples.h"

namespace reveal::tests::recipients_test {
namespace {

using Words = std::vector<std::string>;

MailSettings site() {
  MailSettings settings;
  settings.enabled = true;
  settings.domain = "example.org";
  settings.admins = {"root", "ops@example.org", "root@EXAMPLE.org"};
  return settings;
}

const Report& finding() {
  static const Report report = samples::outsider(8);
  return report;
}

TEST(MailRecipients, AreUserAndAdminsForAFinding) {
  const MailPlan plan = plan_mail(finding(), site(), {.user = "ada"});
  EXPECT_EQ(plan.user, Words{"ada@example.org"});
  EXPECT_EQ(plan.admins, (Words{"root@example.org", "ops@example.org"}));
  EXPECT_TRUE(plan.refused.empty());
}

TEST(MailRecipients, AreNoAdminsForWhatNoRuleOfOursFoundOrTheOwnerDidHimself) {
  Report report = finding();
  report.findings.resize(1);
  report.findings[0].severity = Severity::critical;
  report.findings[0].id = "evil.rule";
  EXPECT_TRUE(plan_mail(report, site(), {.user = "ada"}).admins.empty());
  report.findings[0].id = "job.stopped";  // kill -STOP is everybody's
  EXPECT_TRUE(plan_mail(report, site(), {.user = "ada"}).admins.empty());
}

TEST(MailRecipients, AreAdminsForAFaultOfHardwareWithoutTheReport) {
  Report report = finding();
  report.findings.resize(1);
  report.findings[0].severity = Severity::critical;
  report.findings[0].id = "mem.ecc_host";
  const MailPlan plan = plan_mail(report, site(), {.user = "ada"});
  EXPECT_EQ(plan.faults, (Words{"root@example.org", "ops@example.org"}));
  EXPECT_TRUE(plan.admins.empty());
  report.findings[0].severity = Severity::notice;
  EXPECT_TRUE(plan_mail(report, site(), {.user = "ada"}).faults.empty());
}

TEST(MailRecipients, AreNobodyWhereMailIsOff) {
  MailSettings settings = site();
  settings.enabled = false;
  const MailPlan plan = plan_mail(finding(), settings, {.asked = "ada@example.org", .user = "ada"});
  EXPECT_TRUE(plan.user.empty());
  EXPECT_TRUE(plan.admins.empty());
  EXPECT_EQ(plan.why_not, Words{"mail is switched off: [mail] enabled = false"});
}

TEST(MailRecipients, PreferTheAddressInSlurm) {
  EXPECT_EQ(plan_mail(finding(), site(), {.mail_user = "ada@elsewhere.net", .user = "ada"}).user,
            Words{"ada@elsewhere.net"});
  // Slurm's default is the bare name of the user.
  EXPECT_EQ(plan_mail(finding(), site(), {.mail_user = "ada", .user = "ada"}).user, Words{"ada@example.org"});
}

TEST(MailRecipients, FallBackToTheUsersNameWhenSlurmsAddressIsNone) {
  const MailPlan plan = plan_mail(finding(), site(), {.mail_user = "ada@x.org\r\nBcc: all@example.org", .user = "ada"});
  EXPECT_EQ(plan.user, Words{"ada@example.org"});
  EXPECT_EQ(plan.refused.size(), 1U);
  EXPECT_FALSE(plan.request_refused);
}

TEST(MailRecipients, AreNotGuessedWithoutADomain) {
  MailSettings settings = site();
  settings.domain.clear();
  const MailPlan plan = plan_mail(finding(), settings, {.user = "ada"});
  EXPECT_TRUE(plan.user.empty());
  EXPECT_FALSE(plan.why_not.empty());
  EXPECT_EQ(plan_mail(finding(), settings, {.mail_user = "ada", .user = "ada"}).user, Words{"ada"});
  EXPECT_TRUE(plan_mail(finding(), site(), {.user = "ada\nX: y"}).user.empty());
}

TEST(MailRecipients, AreNobodyWhenNothingIsWorthActingOn) {
  for (const Report& report : {samples::healthy(), samples::insufficient()}) {
    const MailPlan plan = plan_mail(report, site(), {.mail_user = "ada", .user = "ada"});
    EXPECT_TRUE(plan.user.empty());
    EXPECT_TRUE(plan.admins.empty());
    EXPECT_EQ(plan.why_not.size(), 2U);
  }
  Report notice = finding();
  notice.verdict.status = VerdictStatus::notice;
  EXPECT_TRUE(plan_mail(notice, site(), {.user = "ada"}).user.empty());
}

TEST(MailRecipients, GetAHealthyReportWhenTheyOrTheSiteAskedForIt) {
  MailSettings all = site();
  all.healthy = true;
  EXPECT_EQ(plan_mail(samples::healthy(), all, {.user = "ada"}).user, Words{"ada@example.org"});
  EXPECT_EQ(plan_mail(samples::healthy(), site(), {.asked = "ada@example.org", .user = "ada"}).user,
            Words{"ada@example.org"});
  EXPECT_EQ(plan_mail(samples::healthy(), site(), {.asked = "yes", .mail_user = "ada@x.org", .user = "ada"}).user,
            Words{"ada@x.org"});
  EXPECT_TRUE(plan_mail(samples::healthy(), all, {.user = "ada"}).admins.empty());
}

TEST(MailRecipients, MayChooseOnlyTheirOwnAddressOrTheSites) {
  const auto asked = [](const std::string& address, MailSettings settings) {
    return plan_mail(samples::healthy(), settings, {.asked = address, .mail_user = "ada@home.net", .user = "ada"});
  };
  MailSettings without_domain = site();
  without_domain.domain.clear();
  EXPECT_EQ(asked("colleague@Example.ORG", site()).user, Words{"colleague@Example.ORG"});
  EXPECT_EQ(asked("bob", site()).user, Words{"bob@example.org"});
  EXPECT_EQ(asked("ada@home.net", site()).user, Words{"ada@home.net"});
  EXPECT_EQ(asked("ada", without_domain).user, Words{"ada"});
  for (const std::string address :
       {"victim@other.net", "bob@home.net", "ada@example.org.evil.net", "x@mail.example.org"}) {
    const MailPlan plan = asked(address, site());
    EXPECT_TRUE(plan.user.empty()) << address;
    EXPECT_TRUE(plan.request_refused) << address;
    EXPECT_EQ(plan.refused.size(), 1U) << address;
  }
  EXPECT_TRUE(asked("bob", without_domain).request_refused);
  EXPECT_TRUE(asked("ada@example.org,victim@other.net", site()).request_refused);
}

TEST(MailRecipients, GetTheFindingAtTheirUsualAddressWhenTheirWishIsRefused) {
  const MailPlan plan = plan_mail(finding(), site(), {.asked = "victim@other.net", .user = "ada"});
  EXPECT_EQ(plan.user, Words{"ada@example.org"});
  EXPECT_TRUE(plan.request_refused);
}

TEST(MailRecipients, MayWantNoMail) {
  for (const char* asked : {"off", "none", "0"}) {
    const MailPlan plan = plan_mail(finding(), site(), {.asked = asked, .mail_user = "ada", .user = "ada"});
    EXPECT_TRUE(plan.user.empty()) << asked;
    EXPECT_FALSE(plan.request_refused) << asked;
    EXPECT_FALSE(plan.admins.empty()) << asked;
  }
}

TEST(MailRecipients, GetMailAtTheirUsualAddressIfTheyOnlyWantIt) {
  for (const char* asked : {"yes", "1"}) {
    const MailPlan plan = plan_mail(finding(), site(), {.asked = asked, .mail_user = "ada", .user = "ada"});
    EXPECT_EQ(plan.user, Words{"ada@example.org"}) << asked;
    EXPECT_EQ(plan.why_user, "the user requested it") << asked;
  }
}

TEST(MailRecipients, AreAdminsFromTheThresholdOnAndOnlyForWhatTheyCanDo) {
  Report report = finding();
  ASSERT_EQ(report.findings.front().severity, Severity::critical);
  MailSettings settings = site();
  settings.admin_threshold = Severity::critical;
  EXPECT_FALSE(plan_mail(report, settings, {}).admins.empty());
  report.findings.front().severity = Severity::warning;
  EXPECT_TRUE(plan_mail(report, settings, {}).admins.empty());
  settings.admin_threshold = Severity::warning;
  EXPECT_FALSE(plan_mail(report, settings, {}).admins.empty());
  report.findings.resize(1);
  const auto theirs =
      std::find_if(rules().begin(), rules().end(), [](const RuleSpec* rule) { return rule->admin_remedy.empty(); });
  ASSERT_NE(theirs, rules().end());
  report.findings.front().id = (*theirs)->id;
  EXPECT_TRUE(plan_mail(report, settings, {}).admins.empty());
}

TEST(MailRecipients, NeverComeFromTheReport) {
  Report report = finding();
  report.job.user = "victim";
  report.job.tags.emplace_back("mail", "victim@other.net");
  EXPECT_EQ(plan_mail(report, site(), {.user = "ada"}).user, Words{"ada@example.org"});
}

}  // namespace
}  // namespace reveal::tests::recipients_test
