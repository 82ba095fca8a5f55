#include "postproc/mail/site_mailer.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "postproc/mail/mail_spool.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::site_mailer_test {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kNow = 1'763'640'000'000'000'000;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kHour = 60 * kMinute;

class SiteMailers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const passwd* user = ::getpwuid(::geteuid()); user != nullptr) own_ = user->pw_name;
    if (own_.empty()) GTEST_SKIP() << "this account has no name";
    fs::create_directory(work_ + "/spool");
    ASSERT_EQ(::chmod((work_ + "/spool").c_str(), 03733), 0);
    use_program("cat > " + work_ + "/sent.$$");
    settings_.enabled = true;
    settings_.domain = "example.org";
    settings_.admins = {"ops"};
    settings_.per_hour = 20;
    settings_.mailer_spool = work_ + "/spool";
    settings_.disable = work_ + "/no-mail";
  }

  void use_program(const std::string& script) {
    const std::string path = work_ + "/sendmail";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
    settings_.sendmail = {path, "-t"};
  }

  /// The report of a job on n01 and n02, of which n01 has a finding for administrators.
  [[nodiscard]] static std::string report_of(int number, const std::string& rule = "cpu.outsider") {
    auto report = nlohmann::json::parse(file_text(std::string(TEST_DATA) + "/reports/outsider.json"));
    report["report_id"] = std::to_string(number) + "-0-0";
    report["job"]["id"] = std::to_string(number);
    report["findings"][0]["id"] = rule;
    return report.dump();
  }

  void leave_text(const std::string& mail) const { leave_in_spool(settings_.mailer_spool, mail, Audience::user); }

  void leave_report(Audience audience, const std::string& report, const MailRequest& request = {}) const {
    leave_in_spool(settings_.mailer_spool,
                   render_spooled_mail({.audience = audience,
                                        .request = request,
                                        .directory = "/home/ada/reveal-4711",
                                        .array = "",
                                        .tasks = {},
                                        .report = report}),
                   audience);
  }

  void leave(Audience audience, int number, const MailRequest& request = {}) const {
    leave_report(audience, report_of(number), request);
  }

  /// Another owner for the mails that wait.
  void give_to(uid_t uid) const {
    for (const auto& entry : fs::directory_iterator(settings_.mailer_spool)) {
      if (!entry.path().filename().string().starts_with("mail-")) continue;
      ASSERT_EQ(::chown(entry.path().c_str(), uid, static_cast<gid_t>(-1)), 0);
    }
  }

  using Work = std::function<std::string()>;
  SiteMailerOutcome call_with(std::chrono::milliseconds limit, std::chrono::milliseconds slow,
                              const std::function<std::string(const fs::path&, const Work&)>& confined) const {
    return run_site_mailer({.host = "mgmt1", .now_utc_ns = kNow, .limit = limit, .slow = slow, .confined = confined},
                           settings_);
  }

  SiteMailerOutcome call(std::int64_t now = kNow, bool dry_run = false) const {
    return run_site_mailer(
        {.dry_run = dry_run,
         .host = "mgmt1",
         .now_utc_ns = now,
         .limit = std::chrono::seconds(60),
         .slow = std::chrono::seconds(60),
         .confined = [](const fs::path&, const std::function<std::string()>& work) { return work(); }},
        settings_);
  }

  /// Mails that the program took since the last call.
  [[nodiscard]] std::vector<std::string> sent() const {
    std::vector<std::string> mails;
    for (const auto& entry : fs::directory_iterator(work_)) {
      if (entry.path().filename().string().starts_with("sent.")) mails.push_back(entry.path().string());
    }
    std::vector<std::string> texts;
    for (const std::string& mail : mails) {
      texts.push_back(file_text(mail));
      fs::remove(mail);
    }
    return texts;
  }

  [[nodiscard]] std::size_t waiting() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(settings_.mailer_spool)) {
      count += entry.path().filename().string().starts_with("mail-") ? 1 : 0;
    }
    return count;
  }

  TemporaryDirectory directory_of_test_;
  const std::string work_ = directory_of_test_.path().string();
  std::string own_;
  MailSettings settings_;
};

TEST_F(SiteMailers, SendTheMailThatTheEndOfTheJobWouldSend) {
  fs::create_directory(work_ + "/job");
  std::ofstream(work_ + "/job/report.json") << report_of(4711);
  MailJob job;
  job.directory = work_ + "/job";
  job.request.user = own_;
  job.host = "mgmt1";
  job.now_utc_ns = kNow;
  MailSettings at_once = settings_;
  at_once.mailer_spool.clear();
  EXPECT_EQ(mail_job(job, at_once).items.size(), 2U);
  std::vector<std::string> expected = sent();
  std::erase_if(expected,
                [](const std::string& mail) { return mail.find("To: ops@example.org") != std::string::npos; });
  ASSERT_EQ(expected.size(), 1U);

  const MailOutcome left = mail_job(job, settings_);
  EXPECT_TRUE(sent().empty());
  EXPECT_FALSE(left.failed);
  EXPECT_EQ(outcome_as_text(left),
            "left for the site's mailer to ops@example.org (admins)\nleft for the site's mailer to " + own_ +
                "@example.org (user)\n");
  settings_.digest_ns = kHour;
  const SiteMailerOutcome outcome = call();
  EXPECT_FALSE(outcome.mails.failed);
  EXPECT_EQ(sent(), std::vector<std::string>{"X-Reveal-Owner: " + std::to_string(::geteuid()) + "\n" + expected[0]});
  EXPECT_EQ(waiting(), 0U);
}

TEST_F(SiteMailers, TellAdministratorsOfAFaultInManyJobsOnce) {
  for (int number = 0; number < 100; ++number) leave(Audience::admins, 5000 + number);
  const SiteMailerOutcome outcome = call();
  const std::vector<std::string> mails = sent();
  ASSERT_EQ(mails.size(), 1U);
  EXPECT_NE(mails[0].find("To: ops@example.org"), std::string::npos);
  EXPECT_NE(mails[0].find("cpu.outsider on n01: 100 jobs of 1 user; "), std::string::npos) << mails[0];
  EXPECT_EQ(waiting(), 0U);
  EXPECT_NE(outcome.metrics.find("reveal_mailer_jobs_with_finding_total{rule=\"cpu.outsider\"} 100\n"),
            std::string::npos)
      << outcome.metrics;
  EXPECT_TRUE(call(kNow + kMinute).mails.items.empty()) << "they know it";
}

TEST_F(SiteMailers, TellAdministratorsOfAKnownFaultAfterADay) {
  leave(Audience::admins, 5000);
  static_cast<void>(call());
  EXPECT_EQ(sent().size(), 1U);
  leave(Audience::admins, 5001);
  static_cast<void>(call(kNow + 23 * kHour));
  EXPECT_TRUE(sent().empty());
  leave(Audience::hardware, 5002);
  static_cast<void>(call(kNow + 24 * kHour));
  const std::vector<std::string> mails = sent();
  ASSERT_EQ(mails.size(), 1U);
  EXPECT_NE(mails[0].find("cpu.outsider on n01: 2 jobs of 1 user; "), std::string::npos) << mails[0];
}

TEST_F(SiteMailers, LetAFindingWaitForTheOthersOfItsHour) {
  settings_.digest_ns = kHour;
  leave(Audience::admins, 5000);
  static_cast<void>(call());
  leave(Audience::admins, 5001);
  static_cast<void>(call(kNow + 59 * kMinute));
  EXPECT_TRUE(sent().empty());
  static_cast<void>(call(kNow + kHour));
  const std::vector<std::string> mails = sent();
  ASSERT_EQ(mails.size(), 1U);
  EXPECT_NE(mails[0].find("cpu.outsider on n01: 2 jobs of 1 user; "), std::string::npos) << mails[0];
}

TEST_F(SiteMailers, TellAdministratorsLaterWhereTheServerIsAway) {
  use_program("cat >/dev/null; exit 75");
  leave(Audience::admins, 5000);
  EXPECT_TRUE(call().mails.failed);
  EXPECT_EQ(waiting(), 0U);
  use_program("cat > " + work_ + "/sent.$$");
  static_cast<void>(call(kNow + kMinute));
  EXPECT_EQ(sent().size(), 1U);
}

TEST_F(SiteMailers, SendNoMailInTheNameOfAnotherUser) {
  settings_.admins.clear();
  leave(Audience::user, 5000, {.asked = "victim@other.net", .mail_user = "", .user = "victim"});
  static_cast<void>(call());
  const std::vector<std::string> mails = sent();
  ASSERT_EQ(mails.size(), 1U) << "the mail goes to the owner of the file";
  EXPECT_NE(mails[0].find("\nTo: " + own_ + "@example.org\n"), std::string::npos) << mails[0].substr(0, 400);
  EXPECT_EQ(mails[0].find("victim"), std::string::npos);
}

TEST_F(SiteMailers, SendNothingToAnotherSiteForAUser) {
  settings_.admins.clear();
  leave(Audience::user, 5000, {.asked = "victim@other.net", .mail_user = "victim@other.net", .user = own_});
  leave(Audience::user, 5001, {.asked = "", .mail_user = "ada.l@example.org", .user = own_});
  const SiteMailerOutcome outcome = call();
  ASSERT_EQ(outcome.mails.items.size(), 2U);
  std::vector<std::string> recipients{outcome.mails.items[0].to.at(0), outcome.mails.items[1].to.at(0)};
  std::sort(recipients.begin(), recipients.end());
  std::vector<std::string> expected{"ada.l@example.org", own_ + "@example.org"};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(recipients, expected);
  EXPECT_EQ(outcome.mails.items[0].why, "user " + std::to_string(::geteuid()) + " left it in the spool");
  for (const std::string& mail : sent()) EXPECT_EQ(mail.find("victim"), std::string::npos);
}

TEST_F(SiteMailers, SendTheMailOfAnArrayWhoseTasksEndedTogether) {
  settings_.admins.clear();
  ArrayTask task;
  task.array = "4710";
  task.status = VerdictStatus::finding;
  SpooledMail mail{
      .audience = Audience::user, .request = {}, .directory = "", .array = "4710", .tasks = {}, .report = {}};
  mail.report = report_of(4711);
  for (std::size_t number = 0; number < 2 * kMostTasksKept + 4; ++number) {  // each of the last ones found a place
    task.task = "4710_" + std::to_string(number);
    mail.tasks.push_back(task);
  }
  leave_text(render_spooled_mail(mail));
  EXPECT_EQ(call().mails.problems, std::vector<std::string>());
  EXPECT_EQ(sent().size(), 1U);
}

TEST_F(SiteMailers, KeepMailsOfUsersWithoutANameOnTheirHost) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  constexpr uid_t kNobodys = 54321;
  if (::getpwuid(kNobodys) != nullptr) GTEST_SKIP() << "user 54321 has a name here";
  leave(Audience::user, 5000);
  give_to(kNobodys);
  const SiteMailerOutcome outcome = call();
  EXPECT_EQ(outcome.mails.problems, std::vector<std::string>{"user 54321 has no name on this host"});
  EXPECT_EQ(waiting(), 1U) << "the name service may be up later";
  give_to(::geteuid());
  static_cast<void>(call(kNow + 5 * kMinute));
  EXPECT_EQ(sent().size(), 1U);
}

TEST_F(SiteMailers, TellOfAMailThatIsNotDue) {
  leave(Audience::user, 5000, {.asked = "off", .mail_user = "", .user = own_});
  const SiteMailerOutcome outcome = call();
  ASSERT_EQ(outcome.mails.problems.size(), 1U);
  EXPECT_NE(outcome.mails.problems[0].find("the user requested no mail"), std::string::npos);
  EXPECT_NE(outcome.metrics.find("reveal_mailer_refused_total 1\n"), std::string::npos) << outcome.metrics;
  EXPECT_EQ(waiting(), 0U);
}

TEST_F(SiteMailers, TellOfWhatAnEarlierCallKeptBeforeItWasKilled) {
  settings_.digest_ns = kHour;
  leave(Audience::admins, 5000);
  static_cast<void>(call());
  fs::remove(settings_.mailer_spool + "/state/mailer.json");  // it is written last
  static_cast<void>(call(kNow + kMinute));
  static_cast<void>(call(kNow + kMinute + kHour));
  EXPECT_EQ(sent().size(), 1U);
}

TEST_F(SiteMailers, KeepReportsFromTheFutureWhileAClockIsWrong) {
  leave(Audience::admins, 5000);
  constexpr std::int64_t kYear = 365 * 24 * kHour;
  const SiteMailerOutcome outcome = call(kNow - kYear);
  EXPECT_EQ(outcome.mails.problems,
            std::vector<std::string>{"its job ended in the future: check the clocks of its node and of this host"});
  EXPECT_EQ(waiting(), 1U);
  static_cast<void>(call());
  EXPECT_EQ(sent().size(), 1U);
  EXPECT_EQ(waiting(), 0U);
}

TEST_F(SiteMailers, RefuseAReportAboutMoreNodesThanAClusterHas) {
  auto report = nlohmann::json::parse(report_of(5000));
  for (int node = 0; node < 20'000; ++node) report["job"]["nodes"].push_back("node" + std::to_string(node));
  report["findings"][0]["nodes"] = report["job"]["nodes"];
  leave_report(Audience::admins, report.dump());
  const SiteMailerOutcome outcome = call();
  EXPECT_EQ(outcome.mails.problems, std::vector<std::string>{"refused, from user " + std::to_string(::geteuid()) +
                                                             ": it has findings on more nodes than the mailer takes"});
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(waiting(), 0U);
}

TEST_F(SiteMailers, TellOfTheFaultThatAnotherUserInvented) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  leave(Audience::admins, 5000);
  give_to(65533);
  static_cast<void>(call());
  EXPECT_EQ(sent().size(), 1U);
  leave(Audience::admins, 5001);
  static_cast<void>(call(kNow + kMinute));
  EXPECT_EQ(sent().size(), 1U) << "the fault of the second user may be real";
  for (const uid_t uid : {65533, 65532}) {
    leave(Audience::admins, 5002);
    give_to(uid);
    static_cast<void>(call(kNow + 2 * kMinute));
    EXPECT_TRUE(sent().empty()) << uid;
  }
}

TEST_F(SiteMailers, GiveUpNoMailWhileTheServerIsAway) {
  settings_.admins.clear();
  leave(Audience::user, 5000);
  use_program("cat >/dev/null; exit 75");
  for (int tries = 0; tries < 20; ++tries) static_cast<void>(call(kNow + tries * 12 * kHour));
  EXPECT_EQ(waiting(), 1U) << "ten days";
  use_program("cat > " + work_ + "/mail; grep -q '^To: ada@' " + work_ + "/mail || exit 75");
  leave(Audience::user, 5001, {.asked = "ada@example.org", .mail_user = "", .user = own_});
  const SiteMailerOutcome outcome = call(kNow + 20 * 12 * kHour);
  EXPECT_EQ(waiting(), 0U) << "the server takes other mails";
  EXPECT_NE(outcome.metrics.find("reveal_mailer_given_up_total 1\n"), std::string::npos) << outcome.metrics;
}

TEST_F(SiteMailers, GiveUpNoMailWhileTheServerIsAwayForUsersOnly) {
  use_program("cat > " + work_ + "/mail.$$; grep -q '^To: ops@' " + work_ + "/mail.$$ || exit 75; mv " + work_ +
              "/mail.$$ " + work_ + "/sent.$$");
  for (int number = 0; number < 3; ++number) leave(Audience::user, 5000 + number);
  std::size_t digests = 0;
  for (int day = 0; day < 10; ++day) {
    leave(Audience::admins, 6000 + day);
    static_cast<void>(call(kNow + day * 24 * kHour));
    digests += sent().size();
  }
  EXPECT_EQ(digests, 10U);
  EXPECT_EQ(waiting(), 3U);
}

TEST_F(SiteMailers, LetTheOwnerOfASlowMailWaitForTheNextCall) {
  settings_.admins.clear();
  leave(Audience::user, 5000);
  leave(Audience::user, 5001);
  static_cast<void>(
      call_with(std::chrono::seconds(60), std::chrono::milliseconds(20), [](const fs::path&, const Work& work) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return work();
      }));
  EXPECT_EQ(sent().size(), 1U);
  EXPECT_EQ(waiting(), 1U);
  static_cast<void>(call());
  EXPECT_EQ(sent().size(), 1U);
}

TEST_F(SiteMailers, BeginNoMailWhenTheirTimeIsOver) {
  leave(Audience::user, 5000);
  const SiteMailerOutcome outcome =
      call_with(std::chrono::milliseconds(200), std::chrono::seconds(60), [](const fs::path&, const Work& work) {
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
        return work();
      });
  EXPECT_FALSE(outcome.mails.failed);
  EXPECT_EQ(waiting(), 1U);
  static_cast<void>(call());
  EXPECT_EQ(sent().size(), 1U);
}

TEST_F(SiteMailers, RefuseWhatIsNoMailAndSendTheOthers) {
  leave_text("no JSON");
  leave_text("{\"schema\": \"reveal.spooled-mail/1\", \"report\": \"" + std::string(100'000, '[') + "\"}");
  leave_text(std::string(300'000, '['));
  leave(Audience::user, 5000);
  const SiteMailerOutcome outcome = call();
  EXPECT_EQ(outcome.mails.problems.size(), 3U);
  EXPECT_FALSE(outcome.mails.failed);
  EXPECT_EQ(sent().size(), 1U);
  EXPECT_EQ(waiting(), 0U);
  EXPECT_NE(outcome.metrics.find("reveal_mailer_refused_total 3\n"), std::string::npos) << outcome.metrics;
}

TEST_F(SiteMailers, SendTheOthersWhereAMailBreaksItsReader) {
  leave_text("breaks its reader");
  leave(Audience::user, 5000);
  const SiteMailerOutcome outcome =
      run_site_mailer({.host = "mgmt1",
                       .now_utc_ns = kNow,
                       .confined =
                           [](const fs::path& file, const std::function<std::string()>& work) {
                             if (file_text(file) == "breaks its reader") throw Error("reading it ended with a crash");
                             return work();
                           }},
                      settings_);
  EXPECT_EQ(outcome.mails.problems, std::vector<std::string>{"reading it ended with a crash"});
  EXPECT_EQ(sent().size(), 1U);
  EXPECT_EQ(waiting(), 1U) << "it is tried again for three days";
}

TEST_F(SiteMailers, LeaveMailsOfAnotherVersionForALaterMailer) {
  leave_text(R"({"schema": "reveal.spooled-mail/2"})");
  EXPECT_TRUE(call().mails.problems.empty());
  EXPECT_EQ(waiting(), 1U);
}

TEST_F(SiteMailers, StopAfterThreeFailuresAndTryAgain) {
  use_program("cat >/dev/null; exit 75");
  for (int number = 0; number < 5; ++number) leave(Audience::user, 5000 + number);
  const SiteMailerOutcome away = call();
  EXPECT_EQ(away.mails.items.size(), 3U);
  EXPECT_TRUE(away.mails.failed);
  EXPECT_EQ(waiting(), 5U);
  use_program("cat > " + work_ + "/sent.$$");
  static_cast<void>(call(kNow + kMinute));
  EXPECT_EQ(sent().size(), 2U) << "the first three are not due";
  const SiteMailerOutcome back = call(kNow + 5 * kMinute);
  EXPECT_EQ(sent().size(), 3U);
  EXPECT_EQ(waiting(), 0U);
  EXPECT_NE(back.metrics.find("reveal_mailer_mails_total{audience=\"user\"} 5\n"), std::string::npos) << back.metrics;
  EXPECT_NE(back.metrics.find("reveal_mailer_failed_total 3\n"), std::string::npos) << back.metrics;
}

TEST_F(SiteMailers, TellAdministratorsWhereTheServerRefusesTheMailsOfAUser) {
  use_program("cat > " + work_ + "/mail.$$; grep -q '^To: ops@' " + work_ + "/mail.$$ || exit 67; mv " + work_ +
              "/mail.$$ " + work_ + "/sent.$$");
  for (int number = 0; number < 4; ++number) leave(Audience::user, 5000 + number);
  leave(Audience::admins, 5004);
  const SiteMailerOutcome outcome = call();
  EXPECT_TRUE(outcome.mails.failed);
  const std::vector<std::string> mails = sent();
  ASSERT_EQ(mails.size(), 1U);
  EXPECT_NE(mails[0].find("cpu.outsider on n01: 1 job of 1 user; "), std::string::npos) << mails[0];
}

TEST_F(SiteMailers, HoldBackMailsAboveTheLimitOfAnHour) {
  settings_.per_hour = 2;
  for (int number = 0; number < 3; ++number) leave(Audience::user, 5000 + number);
  const SiteMailerOutcome outcome = call();
  EXPECT_EQ(sent().size(), 2U);
  EXPECT_EQ(waiting(), 1U);
  ASSERT_EQ(outcome.mails.items.size(), 3U);
  EXPECT_EQ(outcome.mails.items[2].why, "the limit of mails per hour is reached, [mail] per_hour = 2");
  static_cast<void>(call(kNow + kMinute));
  EXPECT_TRUE(sent().empty());
  static_cast<void>(call(kNow + kHour));
  EXPECT_EQ(sent().size(), 1U);
  EXPECT_EQ(waiting(), 0U);
}

TEST_F(SiteMailers, LeaveTheSpoolToAnotherMailer) {
  leave(Audience::user, 5000);
  MailSpool other(settings_.mailer_spool);
  ASSERT_TRUE(other.take_turn());
  const SiteMailerOutcome outcome = call();
  EXPECT_EQ(outcome.mails.why_not.size(), 1U);
  EXPECT_EQ(outcome.metrics, "");
  EXPECT_EQ(waiting(), 1U);
}

TEST_F(SiteMailers, BeginTheirCountersAnewWhereTheirRecordsAreDamaged) {
  static_cast<void>(call());
  std::ofstream(settings_.mailer_spool + "/state/mailer.json") << "damaged";
  leave(Audience::user, 5000);
  const SiteMailerOutcome outcome = call();
  EXPECT_EQ(outcome.mails.problems.size(), 1U);
  EXPECT_EQ(sent().size(), 1U);
}

TEST_F(SiteMailers, ChangeNothingInADryRun) {
  leave(Audience::user, 5000);
  leave(Audience::admins, 5000);
  const SiteMailerOutcome outcome = call(kNow, true);
  ASSERT_EQ(outcome.mails.items.size(), 2U);
  EXPECT_EQ(outcome.mails.items[0].state, MailState::would_send);
  EXPECT_EQ(outcome.mails.items[1].to, std::vector<std::string>{"ops@example.org"});
  EXPECT_EQ(waiting(), 2U);
  EXPECT_TRUE(sent().empty());
  EXPECT_FALSE(fs::exists(settings_.mailer_spool + "/state/mailer.json"));
}

TEST_F(SiteMailers, DoNothingWhileMailIsOffAndNeedASpool) {
  leave(Audience::user, 5000);
  std::ofstream(settings_.disable) << "";
  EXPECT_EQ(call().mails.why_not.size(), 1U);
  fs::remove(settings_.disable);
  settings_.enabled = false;
  EXPECT_EQ(call().mails.why_not.size(), 1U);
  EXPECT_EQ(waiting(), 1U);
  settings_.mailer_spool.clear();
  EXPECT_THROW(static_cast<void>(call()), Error);
}

TEST_F(SiteMailers, FindAMailInItsUsersQueueThatFoundNoSpool) {
  fs::create_directory(work_ + "/job");
  std::ofstream(work_ + "/job/report.json") << report_of(4711);
  MailJob job;
  job.directory = work_ + "/job";
  job.request.user = own_;
  job.state = work_ + "/state";
  job.now_utc_ns = kNow;
  settings_.admins.clear();
  fs::rename(work_ + "/spool", work_ + "/away");
  const MailOutcome outcome = mail_job(job, settings_);
  ASSERT_EQ(outcome.items.size(), 1U);
  EXPECT_EQ(outcome.items[0].state, MailState::failed);
  EXPECT_TRUE(outcome.items[0].queued);
  EXPECT_NE(outcome.items[0].why.find(work_ + "/spool"), std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::site_mailer_test
