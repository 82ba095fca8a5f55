#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "postproc/mail/mail_job.h"
#include "postproc/mail/mail_queue.h"
#include "postproc/mail/mail_quota.h"
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

  /// A task of array job 4710, which Slurm knows to be in this state.
  [[nodiscard]] MailJob task_of_array(int number, const std::string& sample, double lost, ArrayState state) const {
    MailJob made = job(sample);
    made.directory = work_ + "/job" + std::to_string(number);
    fs::create_directories(made.directory);
    auto report = nlohmann::json::parse(file_text(work_ + "/job/report.json"));
    report["report_id"] = "47" + std::to_string(number) + "-0-0";
    report["job"]["array"] = "4710_" + std::to_string(number);
    if (!report["findings"].empty()) report["findings"][0]["impact"]["seconds"] = lost;
    std::ofstream(made.directory / "report.json") << report;
    made.array = "4710";
    made.array_state = [state](const std::string&) { return state; };
    made.state = work_ + "/state";
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

  /// The subject of the mail about two tasks, where the main finding of the worse one is changed so.
  [[nodiscard]] std::string subject_of_array(const nlohmann::json& change) {
    settings_.admins.clear();
    static_cast<void>(mail_job(task_of_array(9, "outsider", 3.5, ArrayState::running), settings_));
    const MailJob worst = task_of_array(4, "outsider", 70, ArrayState::ended);
    auto report = nlohmann::json::parse(file_text((worst.directory / "report.json").string()));
    report["findings"][0].merge_patch(change);
    std::ofstream(worst.directory / "report.json") << report;
    const MailOutcome outcome = mail_job(worst, settings_);
    return outcome.items.empty() ? "" : outcome.items.front().message.subject;
  }

  [[nodiscard]] MailRetry later(std::chrono::hours hours, RetryMails which = RetryMails::due) const {
    return {.state = work_ + "/state",
            .which = which,
            .host = "mgmt1",
            .now_utc_ns = kNow + std::chrono::nanoseconds(hours).count(),
            .limit = std::chrono::seconds(10)};
  }

  /// In a process of its own, which is killed while the mail program has the mail.
  void mail_and_be_killed(const MailJob& mail) {
    const Words program = std::exchange(settings_.sendmail, {work_ + "/killer"});
    std::ofstream(work_ + "/killer") << "#!/bin/sh\nkill -9 $PPID\n";
    fs::permissions(work_ + "/killer", fs::perms::owner_all);
    ChildProcess child = fork_child([&] {
      static_cast<void>(mail_job(mail, settings_));
      return 0;
    });
    EXPECT_TRUE(WIFSIGNALED(child.wait()));
    settings_.sendmail = program;
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

TEST_F(MailJobs, PrintNoControlsOutOfASubject) {
  MailOutcome outcome;
  outcome.items.emplace_back().to = {"ada@example.org"};
  outcome.items[0].message.subject = "a\x1b[2J\nsent to root";
  EXPECT_EQ(outcome_as_text(outcome), "failed to ada@example.org (user)\n  subject: a sent to root\n");
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

TEST_F(MailJobs, MailTheWorstTasksOfAnArrayWhenItsLastTaskHasEnded) {
  settings_.admins.clear();
  const MailOutcome first = mail_job(task_of_array(9, "outsider", 3.5, ArrayState::running), settings_);
  EXPECT_EQ(first.items.at(0).state, MailState::held_back);
  EXPECT_EQ(first.items[0].why, "the mail about array job 4710 comes when its last task has ended");
  EXPECT_FALSE(first.failed);
  static_cast<void>(mail_job(task_of_array(10, "outsider", 2.5, ArrayState::running), settings_));
  static_cast<void>(mail_job(task_of_array(3, "outsider", 2.5, ArrayState::running), settings_));
  static_cast<void>(mail_job(task_of_array(4, "outsider", 70, ArrayState::running), settings_));
  static_cast<void>(mail_job(task_of_array(5, "healthy", 0, ArrayState::running), settings_));
  EXPECT_EQ(sent(), 0U);
  const MailOutcome last = mail_job(task_of_array(6, "healthy", 0, ArrayState::ended), settings_);
  ASSERT_EQ(last.items.size(), 1U);
  EXPECT_EQ(last.items[0].state, MailState::sent);
  EXPECT_EQ(sent(), 1U);
  const MailMessage& mail = last.items[0].message;
  EXPECT_EQ(
      mail.subject,
      "[reveal] hydra job 4710 resnet50-ddp: 4 tasks with a finding; worst: task 4, A process outside the job ran "
      "on the job's CPUs, about 70 s lost");
  EXPECT_TRUE(
      mail.text.starts_with("Array job 4710: 4 tasks with a finding\n\n"
                            "  task 4      A process outside the job ran on the job's CPUs\n"
                            "              lost about 70 s (5.9 % of the run)\n"
                            "              reveal show " +
                            work_ +
                            "/job4\n"
                            "  task 9      "))
      << mail.text;
  EXPECT_NE(mail.text.find("\nThe report of task 4 follows.\n\nFINDING"), std::string::npos) << mail.text;
  EXPECT_LT(mail.text.find("  task 3 "), mail.text.find("  task 10 ")) << "the same cost: by number";
  EXPECT_EQ(mail.text.find("task 5"), std::string::npos) << "it has no finding";
  EXPECT_NE(mail.html.find("reveal show " + work_ + "/job4"), std::string::npos);
  EXPECT_TRUE(ArrayTasks(work_ + "/state").all("4710", "ada").empty());
}

TEST_F(MailJobs, TellThatTheCostOfAnArraysTaskIsABound) {
  const std::string subject = subject_of_array({{"impact", {{"at_most", true}}}});
  EXPECT_TRUE(subject.ends_with(", at most 70 s lost")) << subject;
}

TEST_F(MailJobs, TellThatAnArraysTaskPerhapsLostTime) {
  const std::string subject = subject_of_array({{"confidence", "possible"}});
  EXPECT_TRUE(subject.ends_with(", perhaps 70 s lost")) << subject;
}

TEST_F(MailJobs, WaitForTheReportsOfAnArraysOtherTasks) {
  settings_.admins.clear();
  ArrayTask other{.array = "4710", .task = "4710_7", .directory = {}, .title = {}, .rules = {}, .utc_ns = kNow};
  other.request.user = "ada";
  fs::create_directories(work_ + "/state");
  ArrayTasks(work_ + "/state").keep(other);
  EXPECT_EQ(mail_job(task_of_array(1, "outsider", 5, ArrayState::ended), settings_).items.at(0).state,
            MailState::held_back);
  const MailOutcome last = mail_job(task_of_array(7, "outsider", 6, ArrayState::ended), settings_);
  EXPECT_EQ(last.items.at(0).state, MailState::sent);
  EXPECT_NE(last.items[0].message.subject.find("2 tasks with a finding; worst: task 7"), std::string::npos);
  EXPECT_EQ(sent(), 1U);
}

TEST_F(MailJobs, WaitForNoReportThatDoesNotCome) {
  settings_.admins.clear();
  ArrayTask crashed{.array = "4710", .task = "4710_7", .directory = {}, .title = {}, .rules = {}};
  crashed.request.user = "ada";
  crashed.utc_ns = kNow - std::chrono::nanoseconds(std::chrono::hours(7)).count();
  fs::create_directories(work_ + "/state");
  ArrayTasks(work_ + "/state").keep(crashed);
  EXPECT_EQ(mail_job(task_of_array(1, "outsider", 5, ArrayState::ended), settings_).items.at(0).state, MailState::sent);
}

TEST_F(MailJobs, SendOneMailWhereTasksOfAnArrayEndTogether) {
  settings_.admins.clear();
  for (int task = 1; task <= 8; ++task) {
    static_cast<void>(mail_job(task_of_array(task, "outsider", task, ArrayState::running), settings_));
  }
  std::vector<MailJob> last;
  for (int task = 9; task <= 12; ++task) last.push_back(task_of_array(task, "outsider", task, ArrayState::ended));
  {
    std::vector<std::jthread> together;
    for (const MailJob& one : last) {
      together.emplace_back([&one, this] { static_cast<void>(mail_job(one, settings_)); });
    }
  }
  EXPECT_EQ(sent(), 1U);
}

TEST_F(MailJobs, MailAtOnceWhereNobodyKnowsWhetherAnArrayHasEnded) {
  settings_.admins.clear();
  EXPECT_EQ(mail_job(task_of_array(1, "outsider", 5, ArrayState::unknown), settings_).items.at(0).state,
            MailState::sent);
  const MailOutcome second = mail_job(task_of_array(2, "outsider", 6, ArrayState::unknown), settings_);
  EXPECT_EQ(second.items.at(0).state, MailState::held_back);
  EXPECT_EQ(second.items[0].why, "array job 4710 already had its mail");
  EXPECT_TRUE(ArrayTasks(work_ + "/state").all("4710", "ada").empty());
}

TEST_F(MailJobs, SendTheMailOfAnArrayLaterWhereTheServerIsAway) {
  settings_.admins.clear();
  use_program("cat >/dev/null; exit 75");
  static_cast<void>(mail_job(task_of_array(1, "outsider", 5, ArrayState::running), settings_));
  const MailOutcome failed = mail_job(task_of_array(2, "outsider", 6, ArrayState::ended), settings_);
  EXPECT_EQ(failed.items.at(0).state, MailState::failed);
  EXPECT_TRUE(failed.items[0].queued);
  use_program("cat > " + work_ + "/sent.$$");
  MailRetry retry = later(std::chrono::hours(2), RetryMails::all);
  retry.array_state = [](const std::string&) { return ArrayState::running; };
  EXPECT_TRUE(retry_mails(retry, settings_).items.empty());
  retry.array_state = [](const std::string&) { return ArrayState::ended; };
  const MailOutcome outcome = retry_mails(retry, settings_);
  ASSERT_EQ(outcome.items.size(), 1U);
  EXPECT_NE(outcome.items[0].message.subject.find("2 tasks with a finding; worst: task 2"), std::string::npos);
  EXPECT_TRUE(retry_mails(retry, settings_).items.empty());
  EXPECT_EQ(sent(), 1U);
}

TEST_F(MailJobs, SendTheMailOfAnArrayThatWentQuietWhereNobodyAnswers) {
  settings_.admins.clear();
  static_cast<void>(mail_job(task_of_array(1, "outsider", 5, ArrayState::running), settings_));
  EXPECT_TRUE(retry_mails(later(std::chrono::hours(23)), settings_).items.empty());
  EXPECT_EQ(retry_mails(later(std::chrono::hours(25)), settings_).items.size(), 1U);
  EXPECT_EQ(sent(), 1U);
}

TEST_F(MailJobs, GiveTheMailOfAnArrayUpAfterThreeDays) {
  settings_.admins.clear();
  static_cast<void>(mail_job(task_of_array(1, "outsider", 5, ArrayState::running), settings_));
  use_program("cat >/dev/null; exit 75");
  EXPECT_TRUE(retry_mails(later(std::chrono::hours(71)), settings_).problems.empty());
  EXPECT_EQ(retry_mails(later(std::chrono::hours(73)), settings_).problems,
            Words{"the mail about array job 4710 is given up: no mail to ada@example.org: " + settings_.sendmail[0] +
                  " failed with status 75"});
  EXPECT_TRUE(ArrayTasks(work_ + "/state").all("4710", "ada").empty());
}

TEST_F(MailJobs, SendTheMailOfAnArrayLaterWithoutATaskWhoseReportIsDamaged) {
  settings_.admins.clear();
  static_cast<void>(mail_job(task_of_array(1, "outsider", 50, ArrayState::running), settings_));
  static_cast<void>(mail_job(task_of_array(2, "outsider", 5, ArrayState::running), settings_));
  std::ofstream(work_ + "/job1/report.json") << "half of";
  MailRetry retry = later(std::chrono::hours(2));
  retry.array_state = [](const std::string&) { return ArrayState::ended; };
  const MailOutcome outcome = retry_mails(retry, settings_);
  ASSERT_EQ(outcome.items.size(), 1U);
  EXPECT_EQ(outcome.items[0].state, MailState::sent);
  EXPECT_NE(outcome.items[0].message.subject.find("4710_2"), std::string::npos) << outcome.items[0].message.subject;
  EXPECT_TRUE(ArrayTasks(work_ + "/state").all("4710", "ada").empty());
}

TEST_F(MailJobs, GiveTheMailOfAnArrayUpWhoseReportsCannotBeRead) {
  settings_.admins.clear();
  static_cast<void>(mail_job(task_of_array(1, "outsider", 50, ArrayState::running), settings_));
  std::ofstream(work_ + "/job1/report.json") << "half of";
  EXPECT_EQ(retry_mails(later(std::chrono::hours(71)), settings_).problems.size(), 1U);
  EXPECT_EQ(ArrayTasks(work_ + "/state").all("4710", "ada").size(), 1U);
  const Words problems = retry_mails(later(std::chrono::hours(73)), settings_).problems;
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_TRUE(problems[1].starts_with("the mail about array job 4710 is given up: ")) << problems[1];
  EXPECT_TRUE(ArrayTasks(work_ + "/state").all("4710", "ada").empty());
}

TEST_F(MailJobs, LeaveATaskOutWhoseReportIsGone) {
  settings_.admins.clear();
  static_cast<void>(mail_job(task_of_array(1, "outsider", 50, ArrayState::running), settings_));
  static_cast<void>(mail_job(task_of_array(3, "outsider", 4, ArrayState::running), settings_));
  fs::remove_all(work_ + "/job1");
  const MailOutcome last = mail_job(task_of_array(2, "outsider", 5, ArrayState::ended), settings_);
  ASSERT_EQ(last.items.at(0).state, MailState::sent);
  EXPECT_TRUE(last.items[0].message.text.starts_with("Array job 4710: 2 tasks with a finding\n\n  task 2 "));
  EXPECT_NE(last.items[0].message.text.find("The report of task 2 follows."), std::string::npos);
  EXPECT_EQ(last.problems, Words{work_ + "/job1/report.json is missing; `reveal report` writes it"});
}

TEST_F(MailJobs, ListTenTasksOfHundreds) {
  settings_.admins.clear();
  for (int task = 0; task < 120; ++task) {
    static_cast<void>(mail_job(task_of_array(task, "outsider", 1 + task, ArrayState::running), settings_));
  }
  const MailOutcome last = mail_job(task_of_array(120, "healthy", 0, ArrayState::ended), settings_);
  ASSERT_EQ(last.items.at(0).state, MailState::sent);
  const MailMessage& mail = last.items[0].message;
  EXPECT_TRUE(mail.text.starts_with("Array job 4710: 120 tasks with a finding; the worst:\n")) << mail.text;
  EXPECT_NE(mail.text.find("  task 110 "), std::string::npos);
  EXPECT_EQ(mail.text.find("  task 109 "), std::string::npos);
  EXPECT_NE(mail.text.find("\n110 more tasks with a finding; reveal list shows your runs.\n"), std::string::npos);
  EXPECT_LT(mail.html.size(), 60U << 10);
  EXPECT_EQ(sent(), 1U);
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

TEST_F(MailJobs, SendTheMailsOfAProcessThatWasKilled) {
  settings_.repeat_days = 7;
  mail_and_be_killed(counted_job());
  EXPECT_TRUE(retry_mails(later(std::chrono::hours(0)), settings_).items.empty()) << "it may still be at work";
  const MailOutcome outcome = retry_mails(later(std::chrono::hours(1)), settings_);
  ASSERT_EQ(outcome.items.size(), 2U) << "also that which was to follow";
  EXPECT_EQ(outcome.items[0].state, MailState::sent);
  EXPECT_EQ(outcome.items[1].state, MailState::sent);
  EXPECT_EQ(sent(), 2U);
  EXPECT_EQ(mail_job(counted_job(), settings_).items.at(1).state, MailState::held_back) << "the user knows the finding";
  EXPECT_TRUE(retry_mails(later(std::chrono::hours(2)), settings_).items.empty());
}

TEST_F(MailJobs, SendTheMailsOfARetryThatWasKilled) {
  settings_.repeat_days = 7;
  settings_.admins.clear();
  mail_and_be_killed(counted_job());
  const Words program = std::exchange(settings_.sendmail, {work_ + "/killer"});
  ChildProcess child = fork_child([&] {
    static_cast<void>(retry_mails(later(std::chrono::hours(1)), settings_));
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(child.wait()));
  settings_.sendmail = program;
  const MailOutcome outcome = retry_mails(later(std::chrono::hours(2)), settings_);
  ASSERT_EQ(outcome.items.size(), 1U);
  EXPECT_EQ(outcome.items[0].state, MailState::sent);
}

TEST_F(MailJobs, SendTheMailOfAnArrayWhoseLastProcessWasKilled) {
  settings_.repeat_days = 7;
  settings_.admins.clear();
  static_cast<void>(mail_job(task_of_array(1, "outsider", 50, ArrayState::running), settings_));
  mail_and_be_killed(task_of_array(2, "outsider", 6, ArrayState::ended));
  MailRetry retry = later(std::chrono::hours(2), RetryMails::all);
  retry.array_state = [](const std::string&) { return ArrayState::ended; };
  const MailOutcome outcome = retry_mails(retry, settings_);
  ASSERT_EQ(outcome.items.size(), 1U);
  EXPECT_EQ(outcome.items[0].state, MailState::sent);
  EXPECT_NE(outcome.items[0].message.subject.find("2 tasks with a finding; worst: task 1"), std::string::npos);
}

TEST_F(MailJobs, LeaveTheMailOfAnArrayToTheProcessThatSendsIt) {
  settings_.admins.clear();
  static_cast<void>(mail_job(task_of_array(1, "outsider", 50, ArrayState::running), settings_));
  MailRetry retry = later(std::chrono::hours(2), RetryMails::all);
  retry.array_state = [](const std::string&) { return ArrayState::ended; };
  MailQuota other(retry.state, retry.now_utc_ns);
  ASSERT_TRUE(other.begin_look_at_arrays());
  const MailOutcome refused = retry_mails(retry, settings_);
  EXPECT_TRUE(refused.items.empty());
  EXPECT_EQ(refused.why_not, Words{"another process sends the mails about arrays now"});
  other.end_look_at_arrays();
  EXPECT_EQ(retry_mails(retry, settings_).items.size(), 1U);
  EXPECT_EQ(sent(), 1U);
}

TEST_F(MailJobs, LeaveNothingInTheQueueWhereNoMailWasSent) {
  settings_.per_hour = 0;
  MailJob capped = job("outsider");
  capped.state = work_ + "/state";
  EXPECT_EQ(mail_job(capped, settings_).items.at(0).state, MailState::held_back);
  EXPECT_TRUE(retry_mails(later(std::chrono::hours(1), RetryMails::all), settings_).items.empty());
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

TEST_F(MailJobs, TellWhyALateMailIsNotTheRequestedOne) {
  use_program("cat >/dev/null; exit 75");
  settings_.admins.clear();
  MailJob wish = job("outsider");
  wish.state = work_ + "/state";
  wish.request.asked = "victim@other.net";
  const Words refused{
      "no mail to victim@other.net: it is neither your address in Slurm (--mail-user) nor an address of example.org"};
  EXPECT_EQ(mail_job(wish, settings_).problems, refused);
  use_program("cat > " + work_ + "/sent.$$");
  const MailOutcome outcome = retry_mails(later(std::chrono::hours(1)), settings_);
  EXPECT_EQ(outcome.problems, refused);
  EXPECT_EQ(sent(), 1U);
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

TEST_F(MailJobs, KeepTheMailOfATaskWhoseNodeCountsAloneWhileItsArrayRuns) {
  settings_.admins.clear();
  use_program("cat >/dev/null; exit 75");
  MailJob task = task_of_array(1, "outsider", 5, ArrayState::running);
  task.all_tasks = false;
  EXPECT_TRUE(mail_job(task, settings_).items.at(0).queued);
  use_program("cat > " + work_ + "/sent.$$");
  MailRetry retry = later(std::chrono::hours(1));
  retry.array_state = [](const std::string&) { return ArrayState::running; };
  EXPECT_EQ(retry_mails(retry, settings_).items.at(0).state, MailState::held_back);
  EXPECT_EQ(MailQueue(task.state).waiting().size(), 1U);
  retry = later(std::chrono::hours(3));
  retry.array_state = [](const std::string&) { return ArrayState::ended; };
  EXPECT_EQ(retry_mails(retry, settings_).items.at(0).state, MailState::sent);
  EXPECT_TRUE(MailQueue(task.state).waiting().empty());
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
  EXPECT_NE(item.message.text.find("with rasdaemon also ras-mc-ctl --summary"), std::string::npos) << item.message.text;
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
