#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "postproc/mail/mail_job.h"
#include "postproc/mail/mail_queue.h"
#include "postproc/mail/mail_retry.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::job_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
constexpr std::int64_t kNow = 1'763'640'000'000'000'000;

/// A job's directory and a mail program that keeps what it gets.
class MailJobs : public ::testing::Test {
 protected:
  void SetUp() override {
    use_program("cat > " + work_ + "/sent.$$");
    settings_.enabled = true;
    settings_.domain = "example.org";
    settings_.admins = {"root"};
    settings_.disable = work_ + "/no-mail";
  }

  void use_program(const std::string& script) {
    const std::string path = work_ + "/sendmail";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
    settings_.sendmail = {path, "-t"};
  }

  [[nodiscard]] MailJob job(const std::string& sample) const {
    fs::create_directories(work_ + "/job");
    fs::copy_file(std::string(TEST_DATA) + "/reports/" + sample + ".json", work_ + "/job/report.json",
                  fs::copy_options::overwrite_existing);
    MailJob made;
    made.directory = work_ + "/job";
    made.request.user = "ada";
    made.host = "mgmt1";
    made.now_utc_ns = kNow;
    made.limit = std::chrono::seconds(10);
    return made;
  }

  /// The same with a known command, whose findings are counted.
  [[nodiscard]] MailJob counted_job(const std::string& run_key = "key") const {
    MailJob made = job("outsider");
    auto report = nlohmann::json::parse(file_text(work_ + "/job/report.json"));
    report["job"]["run_key"] = run_key;
    std::ofstream(work_ + "/job/report.json") << report;
    made.state = work_ + "/state";
    return made;
  }

  /// A job that met a fault of the hardware of its node.
  [[nodiscard]] MailJob job_on_broken_node(const std::string& device) const {
    MailJob made = job("outsider");
    auto report = nlohmann::json::parse(file_text(work_ + "/job/report.json"));
    auto finding = report["findings"][0];
    finding["id"] = "mem.ecc_host";
    finding["severity"] = "critical";
    finding["nodes"] = {"n03"};
    finding["instances"] = {device};
    report["findings"] = nlohmann::json::array({finding});
    std::ofstream(work_ + "/job/report.json") << report;
    made.state = work_ + "/state";
    return made;
  }

  [[nodiscard]] MailRetry later(std::chrono::hours hours, RetryMails which = RetryMails::due) const {
    return {.state = work_ + "/state",
            .which = which,
            .host = "mgmt1",
            .now_utc_ns = kNow + std::chrono::nanoseconds(hours).count(),
            .limit = std::chrono::seconds(10)};
  }

  [[nodiscard]] std::size_t sent() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(work_)) {
      count += entry.path().filename().string().starts_with("sent.") ? 1 : 0;
    }
    return count;
  }

  TemporaryDirectory directory_of_test_;
  const std::string work_ = directory_of_test_.path().string();
  MailSettings settings_{.sendmail = {}, .from = {}, .domain = {}, .admins = {}, .per_hour = 20, .disable = {}};
};

TEST_F(MailJobs, SendTwoDifferentMailsForAFinding) {
  const MailOutcome outcome = mail_job(job("outsider"), settings_);
  ASSERT_EQ(outcome.items.size(), 2U);
  EXPECT_EQ(outcome.items[0].to, Words{"root@example.org"});
  EXPECT_EQ(outcome.items[1].to, Words{"ada@example.org"});
  EXPECT_EQ(outcome.items[1].message.text.find("leftover of an earlier job"), std::string::npos);
  EXPECT_NE(outcome.items[0].message.text.find("leftover of an earlier job"), std::string::npos);
  EXPECT_FALSE(outcome.failed);
  EXPECT_EQ(sent(), 2U);
}

TEST_F(MailJobs, SendNothingWhenHealthy) {
  const MailOutcome outcome = mail_job(job("healthy"), settings_);
  EXPECT_TRUE(outcome.items.empty());
  EXPECT_EQ(outcome.why_not.size(), 2U);
  EXPECT_EQ(sent(), 0U);
}

TEST_F(MailJobs, SendNothingWhileTheSwitchIsThere) {
  fs::create_symlink("/nowhere", settings_.disable);  // even one that leads nowhere
  const MailOutcome outcome = mail_job(job("outsider"), settings_);
  EXPECT_TRUE(outcome.items.empty());
  EXPECT_FALSE(outcome.failed);
  EXPECT_EQ(sent(), 0U);
}

TEST_F(MailJobs, DoNotNeedAReportWhenMailIsOff) {
  settings_.enabled = false;
  MailJob without = job("outsider");
  without.directory = work_ + "/nowhere";
  EXPECT_EQ(mail_job(without, settings_).why_not.size(), 1U);
}

TEST_F(MailJobs, OnlyShowWhatADryRunWouldSend) {
  MailJob dry = job("outsider");
  dry.dry_run = true;
  dry.state = work_ + "/state";
  const MailOutcome outcome = mail_job(dry, settings_);
  EXPECT_EQ(sent(), 0U);
  EXPECT_FALSE(fs::exists(dry.state));
  const std::string text = outcome_as_text(outcome);
  EXPECT_NE(
      text.find(
          "would be sent to ada@example.org (user)\n  subject: [reveal] hydra job 4711 resnet50-ddp: COMPLETED - "),
      std::string::npos);
  EXPECT_NE(text.find("  because the report has a finding\n"), std::string::npos);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 8) << text;
  EXPECT_GT(outcome_as_text(outcome, MailText::shown).size(), text.size() + 500);
  const auto json = nlohmann::json::parse(outcome_as_json(outcome));
  EXPECT_EQ(json["schema"], "reveal.mail/1");
  EXPECT_EQ(json["mails"][1]["to"][0], "ada@example.org");
  EXPECT_EQ(json["mails"][1]["state"], "would be sent");
}

TEST_F(MailJobs, MailOnceForAnArray) {
  MailJob first = job("many_nodes");
  first.array = "4710";
  first.state = work_ + "/state";
  EXPECT_EQ(mail_job(first, settings_).items.back().state, MailState::sent);
  const std::size_t mails = sent();
  const MailOutcome second = mail_job(first, settings_);
  EXPECT_EQ(second.items.back().state, MailState::held_back);
  EXPECT_FALSE(second.failed);
  EXPECT_EQ(sent(), mails);
}

TEST_F(MailJobs, StopAtTheHourlyCapAndKeepWhatTheUserMustTellTheAdmins) {
  MailJob capped = job("outsider");
  capped.state = work_ + "/state";
  settings_.per_hour = 1;
  MailOutcome outcome = mail_job(capped, settings_);
  EXPECT_EQ(outcome.items[0].state, MailState::sent);
  EXPECT_EQ(outcome.items[1].state, MailState::sent);  // the administrators' mails do not use up the user's
  outcome = mail_job(capped, settings_);
  EXPECT_EQ(outcome.items[0].state, MailState::held_back);
  EXPECT_EQ(outcome.items[1].state, MailState::held_back);
  EXPECT_NE(outcome.items[1].message.text.find("ConstrainCores"), std::string::npos);
}

TEST_F(MailJobs, TryAgainWhatCouldNotBeSent) {
  use_program("cat >/dev/null; echo 'server is away' >&2; exit 75");
  MailJob later = job("outsider");
  later.state = work_ + "/state";
  later.array = "4710";
  settings_.per_hour = 2;
  const MailOutcome failed = mail_job(later, settings_);
  EXPECT_TRUE(failed.failed);
  EXPECT_EQ(failure_line(failed), "no mail to root@example.org, ada@example.org: " + settings_.sendmail[0] +
                                      " failed with status 75: server is away");
  // Nobody was told, so the user is.
  EXPECT_NE(failed.items[1].message.text.find("ConstrainCores"), std::string::npos);
  use_program("cat > " + work_ + "/sent.$$");
  EXPECT_FALSE(mail_job(later, settings_).failed);
  EXPECT_EQ(sent(), 2U);
}

TEST_F(MailJobs, KeepMailsThatFailUntilTheServerIsBack) {
  use_program("cat >/dev/null; exit 75");
  MailJob failing = job("outsider");
  failing.state = work_ + "/state";
  const MailOutcome failed = mail_job(failing, settings_);
  ASSERT_EQ(failed.items.size(), 2U);
  EXPECT_TRUE(failed.items[0].queued && failed.items[1].queued);
  EXPECT_EQ(MailQueue(failing.state).waiting().size(), 2U);
  use_program("cat > " + work_ + "/sent.$$");
  EXPECT_TRUE(retry_mails(later(std::chrono::hours(0)), settings_).items.empty()) << "too early";
  const MailOutcome sent_later = retry_mails(later(std::chrono::hours(1)), settings_);
  ASSERT_EQ(sent_later.items.size(), 2U);
  EXPECT_EQ(sent_later.items[0].state, MailState::sent);
  EXPECT_EQ(sent_later.items[1].state, MailState::sent);
  EXPECT_EQ(sent(), 2U);
  EXPECT_TRUE(MailQueue(failing.state).waiting().empty());
}

TEST_F(MailJobs, ComposeALateMailFromTheReportOfThatTime) {
  use_program("cat >/dev/null; exit 75");
  MailJob failing = job("outsider");
  failing.state = work_ + "/state";
  settings_.admins.clear();
  static_cast<void>(mail_job(failing, settings_));
  static_cast<void>(job("many_nodes"));  // another report in the same directory
  use_program("cat > " + work_ + "/sent.$$");
  const MailOutcome outcome = retry_mails(later(std::chrono::hours(1)), settings_);
  ASSERT_EQ(outcome.items.size(), 1U);
  EXPECT_NE(outcome.items[0].message.subject.find("job 4710_3"), std::string::npos) << outcome.items[0].message.subject;
}

TEST_F(MailJobs, DoNotRepeatAMailThatWasSentByHandMeanwhile) {
  use_program("cat >/dev/null; exit 75");
  MailJob failing = job("outsider");
  failing.state = work_ + "/state";
  static_cast<void>(mail_job(failing, settings_));
  use_program("cat > " + work_ + "/sent.$$");
  static_cast<void>(mail_job(failing, settings_));
  EXPECT_EQ(sent(), 2U);
  EXPECT_TRUE(retry_mails(later(std::chrono::hours(1), RetryMails::all), settings_).items.empty());
}

TEST_F(MailJobs, GiveAMailUpAfterThreeDaysWithALine) {
  use_program("cat >/dev/null; exit 75");
  MailJob failing = job("outsider");
  failing.state = work_ + "/state";
  settings_.admins.clear();
  static_cast<void>(mail_job(failing, settings_));
  EXPECT_TRUE(retry_mails(later(std::chrono::hours(60)), settings_).problems.empty());
  const MailOutcome last = retry_mails(later(std::chrono::hours(72)), settings_);
  EXPECT_EQ(last.problems, Words{"the mail to the user about " + work_ + "/job is given up after 3 tries: " +
                                 settings_.sendmail[0] + " failed with status 75"});
  EXPECT_TRUE(MailQueue(failing.state).waiting().empty());
}

TEST_F(MailJobs, GiveAMailUpWhoseReportIsGone) {
  use_program("cat >/dev/null; exit 75");
  MailJob failing = job("outsider");
  failing.state = work_ + "/state";
  settings_.admins.clear();
  static_cast<void>(mail_job(failing, settings_));
  fs::remove_all(work_ + "/job");
  MailRetry all{.state = failing.state, .which = RetryMails::all, .now_utc_ns = failing.now_utc_ns};
  EXPECT_EQ(retry_mails(all, settings_).problems.size(), 1U);
  EXPECT_TRUE(MailQueue(failing.state).waiting().empty());
}

TEST_F(MailJobs, TryAgainWhereAReportCannotBeReadNow) {
  use_program("cat >/dev/null; exit 75");
  MailJob failing = job("outsider");
  failing.state = work_ + "/state";
  settings_.admins.clear();
  static_cast<void>(mail_job(failing, settings_));
  std::ofstream(work_ + "/job/report.json") << "half of";
  EXPECT_EQ(retry_mails(later(std::chrono::hours(1)), settings_).problems.size(), 1U);
  ASSERT_EQ(MailQueue(failing.state).waiting().size(), 1U);
  EXPECT_EQ(MailQueue(failing.state).waiting()[0].tries, 2);
}

TEST_F(MailJobs, TellAUserOfTheSameFindingOnceAWeek) {
  settings_.repeat_days = 7;
  settings_.admins.clear();
  MailJob run = counted_job();
  const MailOutcome first = mail_job(run, settings_);
  ASSERT_EQ(first.items.at(0).state, MailState::sent);
  EXPECT_NE(first.items[0].message.html.find("comes in 7 days at the earliest"), std::string::npos);
  const MailOutcome second = mail_job(run, settings_);
  EXPECT_EQ(second.items.at(0).state, MailState::held_back);
  EXPECT_EQ(second.items[0].why, "the same finding of this command was mailed before, [mail] repeat_days = 7");
  run.now_utc_ns += std::chrono::nanoseconds(std::chrono::hours(6 * 24)).count();
  EXPECT_EQ(mail_job(run, settings_).items.at(0).state, MailState::held_back);
  run.now_utc_ns += std::chrono::nanoseconds(std::chrono::hours(25)).count();
  EXPECT_EQ(mail_job(run, settings_).items.at(0).state, MailState::sent);
}

TEST_F(MailJobs, TellOfAnotherCommandAnotherUserAndAtOwnRequest) {
  settings_.repeat_days = 7;
  settings_.admins.clear();
  MailJob run = counted_job();
  EXPECT_EQ(mail_job(run, settings_).items.at(0).state, MailState::sent);
  EXPECT_EQ(mail_job(counted_job("other"), settings_).items.at(0).state, MailState::sent);
  EXPECT_EQ(mail_job(counted_job(""), settings_).items.at(0).state, MailState::sent);
  EXPECT_EQ(mail_job(counted_job(""), settings_).items.at(0).state, MailState::sent) << "the command is not known";
  run = counted_job();
  run.request.user = "eve";
  EXPECT_EQ(mail_job(run, settings_).items.at(0).state, MailState::sent);
  run = counted_job();
  run.request.asked = "yes";
  EXPECT_EQ(mail_job(run, settings_).items.at(0).state, MailState::sent);
}

TEST_F(MailJobs, CountNoFindingOfAMailThatFailed) {
  settings_.repeat_days = 7;
  settings_.admins.clear();
  use_program("cat >/dev/null; exit 75");
  const MailJob run = counted_job();
  EXPECT_EQ(mail_job(run, settings_).items.at(0).state, MailState::failed);
  use_program("cat > " + work_ + "/sent.$$");
  EXPECT_EQ(mail_job(run, settings_).items.at(0).state, MailState::sent);
}

TEST_F(MailJobs, TellAdministratorsOfAFaultOfHardwareWithoutTheJob) {
  const MailOutcome outcome = mail_job(job_on_broken_node("mc0"), settings_);
  ASSERT_EQ(outcome.items.size(), 2U);  // and to the user, but no second one to the administrators
  const MailOutcome::Item& item = outcome.items[0];
  EXPECT_EQ(item.audience, Audience::hardware);
  EXPECT_EQ(item.state, MailState::sent);
  EXPECT_EQ(item.to, Words{"root@example.org"});
  EXPECT_EQ(item.message.subject, "[reveal] hydra critical: The node's memory has errors on n03");
  EXPECT_NE(item.message.text.find("on n03: mc0; 2025-11-20 10:33:07 UTC"), std::string::npos) << item.message.text;
  EXPECT_NE(item.message.text.find("ras-mc-ctl --summary"), std::string::npos) << item.message.text;
  for (const char* owned : {"ada", "4711", "resnet50", "train"}) {
    EXPECT_EQ(item.message.mime.find(owned), std::string::npos) << owned << "\n" << item.message.mime;
  }
  EXPECT_NE(outcome.items[1].message.text.find("They were told by mail."), std::string::npos);
}

TEST_F(MailJobs, TellAdministratorsOfTheSameFaultOnceADay) {
  MailJob broken = job_on_broken_node("mc0");
  EXPECT_EQ(mail_job(broken, settings_).items.at(0).state, MailState::sent);
  const MailOutcome again = mail_job(broken, settings_);
  EXPECT_EQ(again.items.at(0).state, MailState::held_back);
  EXPECT_EQ(again.items[0].why, "the administrators were told of the same faults today");
  EXPECT_NE(again.items.at(1).message.text.find("They were told by mail."), std::string::npos);
  EXPECT_EQ(mail_job(job_on_broken_node("mc1"), settings_).items.at(0).state, MailState::sent);
  broken = job_on_broken_node("mc0");
  broken.now_utc_ns += std::chrono::nanoseconds(std::chrono::hours(24)).count();
  EXPECT_EQ(mail_job(broken, settings_).items.at(0).state, MailState::sent);
}

TEST_F(MailJobs, TellAdministratorsOfAFaultAlsoWhereTheArrayHadItsMail) {
  MailJob task = job_on_broken_node("mc0");
  task.array = "4710";
  EXPECT_EQ(mail_job(task, settings_).items.at(0).state, MailState::sent);
  task = job_on_broken_node("mc1");
  task.array = "4710";
  const MailOutcome outcome = mail_job(task, settings_);
  EXPECT_EQ(outcome.items.at(0).state, MailState::sent);
  EXPECT_EQ(outcome.items.at(1).state, MailState::held_back);
}

TEST_F(MailJobs, TryAgainToTellOfAFault) {
  use_program("cat >/dev/null; exit 75");
  const MailJob broken = job_on_broken_node("mc0");
  EXPECT_EQ(mail_job(broken, settings_).items.at(0).state, MailState::failed);
  use_program("cat > " + work_ + "/sent.$$");
  const MailOutcome outcome = retry_mails(later(std::chrono::hours(1)), settings_);
  ASSERT_EQ(outcome.items.size(), 2U);
  EXPECT_EQ(outcome.items[0].state, MailState::sent);
  EXPECT_EQ(outcome.items[1].state, MailState::sent);
  EXPECT_EQ(mail_job(broken, settings_).items.at(0).state, MailState::held_back);
}

TEST_F(MailJobs, TryOnceMoreWhereTheCallerWaits) {
  use_program("test -e " + work_ + "/once && exec cat >" + work_ + "/sent.$$; touch " + work_ + "/once; exit 75");
  MailJob patient = job("outsider");
  settings_.admins.clear();
  patient.retry_after = std::chrono::milliseconds(1);
  const MailOutcome outcome = mail_job(patient, settings_);
  ASSERT_EQ(outcome.items.size(), 1U);
  EXPECT_EQ(outcome.items[0].state, MailState::sent);
  EXPECT_EQ(outcome.items[0].why, "");
  EXPECT_EQ(sent(), 1U);
}

TEST_F(MailJobs, ReportARefusedWishAndSendTheRest) {
  MailJob wish = job("outsider");
  wish.request.asked = "victim@other.net";
  const MailOutcome outcome = mail_job(wish, settings_);
  EXPECT_TRUE(outcome.failed);
  EXPECT_EQ(outcome.problems, Words{"no mail to victim@other.net: it is neither your address in Slurm (--mail-user) "
                                    "nor an address of example.org"});
  EXPECT_EQ(sent(), 2U);
  EXPECT_EQ(failure_line(outcome), "");
}

TEST_F(MailJobs, MailNoFileButTheReport) {
  const MailJob made = job("outsider");
  fs::rename(work_ + "/job/report.json", work_ + "/secret");
  EXPECT_THROW(static_cast<void>(mail_job(made, settings_)), Error);
  fs::create_symlink(work_ + "/secret", work_ + "/job/report.json");
  EXPECT_THROW(static_cast<void>(mail_job(made, settings_)), Error);
  fs::remove(work_ + "/job/report.json");
  std::ofstream(work_ + "/job/report.json") << "{\"schema\": \"reveal.report/1\", ";
  EXPECT_THROW(static_cast<void>(mail_job(made, settings_)), Error);
  EXPECT_EQ(sent(), 0U);
}

}  // namespace
}  // namespace reveal::tests::job_test
