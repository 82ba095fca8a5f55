#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "postproc/mail/mail_queue.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::queue_test {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kMinute = 60'000'000'000;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kNow = 1'763'640'000'000'000'000;

class MailQueues : public ::testing::Test {
 protected:
  static QueuedMail mail(const std::string& directory, std::int64_t first = kNow) {
    return {.directory = directory,
            .request = {.asked = "yes", .mail_user = "ada@example.org", .user = "ada"},
            .array = "4710",
            .first_utc_ns = first,
            .next_utc_ns = first + 5 * kMinute};
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(state_), fs::directory_iterator()));
  }

  TemporaryDirectory directory_of_test_;
  const std::string state_ = directory_of_test_.path().string() + "/mail";
  MailQueue queue_{state_};
};

TEST_F(MailQueues, ReturnWhatWasKept) {
  QueuedMail kept = mail("/home/ada/reveal-4711");
  kept.audience = Audience::admins;
  kept.admins_notified = true;
  kept.tries = 3;
  EXPECT_TRUE(queue_.keep(kept).empty());
  const std::vector<QueuedMail> waiting = MailQueue(state_).waiting();
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].directory, "/home/ada/reveal-4711");
  EXPECT_EQ(waiting[0].request.asked, "yes");
  EXPECT_EQ(waiting[0].request.mail_user, "ada@example.org");
  EXPECT_EQ(waiting[0].request.user, "ada");
  EXPECT_EQ(waiting[0].array, "4710");
  EXPECT_EQ(waiting[0].audience, Audience::admins);
  EXPECT_TRUE(waiting[0].admins_notified);
  EXPECT_EQ(waiting[0].tries, 3);
  EXPECT_EQ(waiting[0].first_utc_ns, kNow);
  EXPECT_EQ(waiting[0].next_utc_ns, kNow + 5 * kMinute);
}

TEST_F(MailQueues, HoldOneMailOfAJobForEachAudience) {
  QueuedMail one = mail("/a");
  static_cast<void>(queue_.keep(one));
  static_cast<void>(queue_.keep(one));
  one.audience = Audience::admins;
  static_cast<void>(queue_.keep(one));
  EXPECT_EQ(queue_.waiting().size(), 2U);
  queue_.remove("/a", Audience::user);
  ASSERT_EQ(queue_.waiting().size(), 1U);
  EXPECT_EQ(queue_.waiting()[0].audience, Audience::admins);
}

TEST_F(MailQueues, LetTheOldestOfFiftyGoWithALine) {
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(queue_.keep(mail("/" + std::to_string(i), kNow + i)).empty());
  EXPECT_EQ(
      queue_.keep(mail("/50", kNow + 50)),
      std::vector<std::string>{"the mail to the user about /0 is given up after one try: more than 50 mails wait"});
  const std::vector<QueuedMail> waiting = queue_.waiting();
  ASSERT_EQ(waiting.size(), 50U);
  EXPECT_EQ(waiting.front().directory, "/1");
  EXPECT_EQ(waiting.back().directory, "/50");
}

TEST_F(MailQueues, GiveATryToOneCallerOnly) {
  const QueuedMail one = mail("/a");
  static_cast<void>(queue_.keep(one));
  MailQueue other(state_);
  EXPECT_TRUE(queue_.begin_try(one, kNow));
  EXPECT_FALSE(other.begin_try(one, kNow));
  EXPECT_TRUE(other.waiting().empty());
  queue_.remove(one.directory, one.audience);
  EXPECT_EQ(files(), 0U);
}

TEST_F(MailQueues, TakeUpATryThatACrashEnded) {
  const QueuedMail one = mail("/a");
  static_cast<void>(queue_.keep(one));
  ASSERT_TRUE(queue_.begin_try(one, kNow));
  EXPECT_TRUE(queue_.recover(kNow + 9 * kMinute).empty());
  EXPECT_TRUE(queue_.waiting().empty()) << "it may still be going on";
  EXPECT_TRUE(queue_.recover(kNow + 11 * kMinute).empty());
  ASSERT_EQ(queue_.waiting().size(), 1U);
  EXPECT_EQ(files(), 1U);
}

TEST_F(MailQueues, TakeUpAFirstTryThatACrashEnded) {
  const QueuedMail one = mail("/a");
  queue_.begin_first_try(one, kNow);
  EXPECT_TRUE(queue_.waiting().empty());
  EXPECT_TRUE(queue_.recover(kNow + 11 * kMinute).empty());
  EXPECT_EQ(queue_.waiting().size(), 1U);
  queue_.begin_first_try(mail("/b"), kNow);
  queue_.withdraw("/b", Audience::user);
  EXPECT_EQ(files(), 1U);
}

TEST_F(MailQueues, GiveATryThatACrashEndedToOneOfTheProcessesThatFindIt) {
  constexpr std::int64_t kLater = kNow + 11 * kMinute;
  for (int round = 0; round < 100; ++round) {
    queue_.begin_first_try(mail("/a"), kNow);
    std::atomic<int> begun = 0;
    {
      std::vector<std::jthread> together;
      for (int process = 0; process < 4; ++process) {
        together.emplace_back([&begun, this] {
          MailQueue own(state_);
          static_cast<void>(own.recover(kLater));
          for (const QueuedMail& one : own.waiting()) begun += own.begin_try(one, kLater) ? 1 : 0;
        });
      }
    }
    ASSERT_EQ(begun.load(), 1) << round;
    ASSERT_TRUE(queue_.recover(kLater + 9 * kMinute).empty());
    ASSERT_TRUE(queue_.waiting().empty()) << "it may still be going on";
    queue_.remove("/a", Audience::user);
    ASSERT_EQ(files(), 0U) << round;
  }
}

TEST_F(MailQueues, TakeUpATryWhoseRecoveryACrashEnded) {
  queue_.begin_first_try(mail("/a"), kNow);
  const fs::path begun = fs::directory_iterator(state_)->path();
  const std::string taken = begun.string() + "~" + std::to_string((kNow + 11 * kMinute) / 1'000'000'000) + "-0123";
  fs::rename(begun, taken);
  EXPECT_TRUE(queue_.recover(kNow + 20 * kMinute).empty());
  EXPECT_TRUE(fs::exists(taken)) << "its process may still be at work";
  EXPECT_TRUE(queue_.recover(kNow + 22 * kMinute).empty());
  ASSERT_EQ(queue_.waiting().size(), 1U);
  EXPECT_EQ(queue_.waiting()[0].tries, 2);
  EXPECT_EQ(files(), 1U);
}

TEST_F(MailQueues, RemoveATryThatAnotherProcessHasTaken) {
  queue_.begin_first_try(mail("/a"), kNow);
  const fs::path begun = fs::directory_iterator(state_)->path();
  fs::rename(begun, begun.string() + "~1763640000-0123");
  queue_.remove("/a", Audience::user);
  EXPECT_EQ(files(), 0U);
}

TEST_F(MailQueues, LetAMailThatEndsItsProcessWaitForTheOthers) {
  static_cast<void>(queue_.keep(mail("/a")));
  std::int64_t now = kNow;
  for (int crash = 1; crash <= 6; ++crash) {
    ASSERT_TRUE(queue_.begin_try(queue_.waiting().at(0), now));
    EXPECT_TRUE(queue_.recover(now + 11 * kMinute).empty());
    EXPECT_EQ(queue_.waiting().at(0).tries, 1 + crash);
    EXPECT_EQ(queue_.waiting().at(0).next_utc_ns, now + pause_after(crash)) << crash;
    now += pause_after(crash);
  }
  now = kNow + 67 * kHour;
  ASSERT_TRUE(queue_.begin_try(queue_.waiting().at(0), now));
  EXPECT_EQ(queue_.recover(now + 11 * kMinute),
            std::vector<std::string>{"the mail to the user about /a is given up after 7 tries: the process that sent "
                                     "it was killed"});
  EXPECT_EQ(files(), 0U);
}

TEST_F(MailQueues, WaitLongerAfterEachTryAndThreeDaysAtMost) {
  QueuedMail one = mail("/a");
  EXPECT_EQ(next_try(one, kNow), kNow + 5 * kMinute);
  one.tries = 2;
  EXPECT_EQ(next_try(one, kNow), kNow + 10 * kMinute);
  one.tries = 1000;
  EXPECT_EQ(next_try(one, kNow), kNow + 6 * kHour);
  EXPECT_EQ(next_try(one, kNow + 66 * kHour), kNow + 72 * kHour);
  EXPECT_EQ(next_try(one, kNow + 67 * kHour), std::nullopt);
}

TEST_F(MailQueues, DeleteBrokenFilesAndFollowNoLink) {
  std::ofstream(state_ + "/queued-broken-user") << "{\"schema\": \"reveal.mail/1\", ";
  std::ofstream(state_ + "/queued-rubbish-user") << "{\"schema\": \"reveal.report/1\"}";
  std::ofstream(state_ + "/queued-renamed-user") << render_queued_mail(mail("/a"));
  fs::create_symlink("/etc/passwd", state_ + "/queued-link-user");
  EXPECT_TRUE(queue_.waiting().empty());
  EXPECT_EQ(files(), 1U) << "the link is nobody's mail";
  EXPECT_TRUE(fs::exists("/etc/passwd"));
}

TEST_F(MailQueues, LeaveMailsOfALaterVersionToIt) {
  std::ofstream(state_ + "/queued-later-user") << "{\"schema\": \"reveal.mail/2\", \"audience\": \"nurses\"}";
  std::ofstream(state_ + "/trying-later-admins") << "{\"schema\": \"reveal.mail/2\"}";
  fs::last_write_time(state_ + "/trying-later-admins", fs::file_time_type::clock::now() - std::chrono::hours(100'000));
  EXPECT_TRUE(queue_.waiting().empty());
  EXPECT_TRUE(queue_.recover(kNow).empty());
  for (int i = 0; i < 60; ++i) static_cast<void>(queue_.keep(mail("/" + std::to_string(i), kNow + i)));
  EXPECT_EQ(queue_.waiting().size(), 50U) << "they do not count";
  EXPECT_TRUE(fs::exists(state_ + "/queued-later-user"));
  EXPECT_TRUE(fs::exists(state_ + "/trying-later-admins"));
}

TEST_F(MailQueues, RefuseWhatIsNoMail) {
  for (const char* text :
       {"", "[]", "null", "{}", "{\"schema\": 1}", "{\"schema\": \"reveal.mail/1\", \"audience\": \"everybody\"}",
        "{\"schema\": \"reveal.mail/1\", \"audience\": \"user\", \"tries\": 1e99}"}) {
    EXPECT_THROW(static_cast<void>(parse_queued_mail(text)), Error) << text;
  }
}

}  // namespace
}  // namespace reveal::tests::queue_test
