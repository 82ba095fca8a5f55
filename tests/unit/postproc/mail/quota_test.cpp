#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "postproc/mail/mail_quota.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::quota_test {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kHour = 3'600'000'000'000;
constexpr std::int64_t kNow = 490'000 * kHour + kHour / 2;

class MailQuotas : public ::testing::Test {
 protected:
  [[nodiscard]] std::string failure(const std::string& directory) const {
    try {
      const MailQuota quota(directory, kNow);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  /// Without the marks of the hours in which old files were looked for.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(state_)) {
      std::string name = entry.path().filename().string();
      if (!name.ends_with("-forgotten")) found.push_back(std::move(name));
    }
    return found;
  }
  [[nodiscard]] std::size_t files() const { return names().size(); }

  TemporaryDirectory directory_of_test_;
  const std::string parent_ = directory_of_test_.path().string();
  std::string state_ = parent_ + "/mail";
};

TEST_F(MailQuotas, GiveSoManyAnHourAndNewOnesInTheNext) {
  MailQuota quota(state_, kNow);
  EXPECT_NE(quota.take_hourly(2, Audience::user), "");
  MailQuota other(state_, kNow + 1000);  // another process
  EXPECT_NE(other.take_hourly(2, Audience::user), "");
  EXPECT_EQ(quota.take_hourly(2, Audience::user), "");
  EXPECT_EQ(quota.take_hourly(0, Audience::user), "");
  EXPECT_NE(quota.take_hourly(2, Audience::admins), "");  // theirs do not use up the users'
  MailQuota later(state_, kNow + kHour);
  EXPECT_NE(later.take_hourly(2, Audience::user), "");
}

TEST_F(MailQuotas, TakeBackWhatWasNotUsed) {
  MailQuota quota(state_, kNow);
  const std::string taken = quota.take_hourly(1, Audience::user);
  EXPECT_EQ(quota.take_hourly(1, Audience::user), "");
  quota.give_back(taken);
  EXPECT_NE(quota.take_hourly(1, Audience::user), "");
}

TEST_F(MailQuotas, GiveOneMailToAnArrayAndNoteTheOtherTasks) {
  MailQuota quota(state_, kNow);
  const std::string name = quota.take_array("ada", "4710", Audience::user, "4710_3");
  EXPECT_NE(name, "");
  EXPECT_EQ(quota.take_array("ada", "4710", Audience::user, "4710_4"), "");
  EXPECT_EQ(MailQuota(state_, kNow).take_array("ada", "4710", Audience::user, "4710\r\n5"), "");
  EXPECT_NE(quota.take_array("ada", "4710", Audience::admins, "4710_4"), "");
  EXPECT_NE(quota.take_array("ada", "4711", Audience::user, "4711_0"), "");
  // A state directory of a mailer that serves several users: nobody takes another's mail.
  EXPECT_NE(quota.take_array("eve", "4710", Audience::user, "4710_9"), "");
  std::ifstream file(state_ + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "4710_3\n4710_4\n4710  5\n");
}

TEST_F(MailQuotas, TellOfAFaultOnceADay) {
  constexpr std::int64_t kDay = 24 * kHour;
  MailQuota quota(state_, kNow);
  const std::string taken = quota.take_fault("mem.ecc_host\nn03\nmc0");
  EXPECT_NE(taken, "");
  EXPECT_EQ(quota.take_fault("mem.ecc_host\nn03\nmc0"), "");
  EXPECT_NE(quota.take_fault("mem.ecc_host\nn03\nmc1"), "");
  quota.give_back(taken);
  EXPECT_NE(quota.take_fault("mem.ecc_host\nn03\nmc0"), "");
  EXPECT_NE(MailQuota(state_, kNow + kDay).take_fault("mem.ecc_host\nn03\nmc0"), "");
  EXPECT_EQ(files(), 3U);
  const MailQuota later(state_, kNow + 3 * kDay);
  EXPECT_EQ(files(), 0U);
}

TEST_F(MailQuotas, TellOfAFaultOnceADayForAllUsersWhoShareADirectory) {
  constexpr std::int64_t kDay = 24 * kHour;
  const std::string shared = state_ + ".shared";
  fs::create_directory(shared);
  fs::permissions(shared, fs::perms::all | fs::perms::sticky_bit);
  const std::string others = state_ + ".eve";
  MailQuota ada(state_, kNow);
  MailQuota eve(others, kNow);
  ASSERT_EQ(ada.share_faults(shared), "");
  ASSERT_EQ(eve.share_faults(shared), "");
  const std::string taken = ada.take_fault("mem.ecc_host\nn03\nmc0");
  EXPECT_NE(taken, "");
  EXPECT_EQ(eve.take_fault("mem.ecc_host\nn03\nmc0"), "");
  ada.give_back(taken);
  EXPECT_TRUE(fs::is_empty(shared));
  EXPECT_NE(eve.take_fault("mem.ecc_host\nn03\nmc0"), "") << "the mail of ada was not sent";
  EXPECT_EQ(ada.take_fault("mem.ecc_host\nn03\nmc0"), "");
  MailQuota later(state_, kNow + 3 * kDay);
  EXPECT_EQ(later.share_faults(shared + "/"), "");
  EXPECT_TRUE(fs::is_empty(shared));
}

TEST_F(MailQuotas, ShareNoFaultsWhereOthersDeleteFilesOrBehindALink) {
  const std::string open = state_ + ".open";
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);
  fs::create_directory_symlink(open, state_ + ".link");
  MailQuota quota(state_, kNow);
  EXPECT_NE(quota.share_faults(open).find("chmod +t"), std::string::npos);
  EXPECT_NE(quota.share_faults(state_ + ".link/"), "");
  EXPECT_NE(quota.share_faults(state_ + ".none").find("No such file"), std::string::npos);
  EXPECT_NE(quota.take_fault("mem.ecc_host\nn03\nmc0"), "");
  EXPECT_TRUE(fs::is_empty(open));
}

TEST_F(MailQuotas, GiveAFindingsNextWeekToOneOfTwoDeliveries) {
  constexpr std::int64_t kDay = 24 * kHour;
  ASSERT_EQ(MailQuota(state_, kNow).take_findings("ada", "key", {"cpu.outsider"}, 7).size(), 1U);
  const std::string claim = state_ + "/" + names().at(0);
  const auto former = fs::last_write_time(claim);
  MailQuota one(state_, kNow + 8 * kDay);
  MailQuota other(state_, kNow + 8 * kDay);
  EXPECT_EQ(one.take_findings("ada", "key", {"cpu.outsider"}, 7).size(), 1U);
  fs::last_write_time(claim, former);  // the other delivery looked at the claim before it was replaced
  EXPECT_TRUE(other.take_findings("ada", "key", {"cpu.outsider"}, 7).empty());
}

TEST_F(MailQuotas, GiveAFindingsNextWeekBackWhereTheMailFailed) {
  constexpr std::int64_t kDay = 24 * kHour;
  ASSERT_EQ(MailQuota(state_, kNow).take_findings("ada", "key", {"cpu.outsider"}, 7).size(), 1U);
  MailQuota quota(state_, kNow + 8 * kDay);
  const auto taken = quota.take_findings("ada", "key", {"cpu.outsider"}, 7);
  ASSERT_EQ(taken.size(), 1U);
  quota.give_back(taken[0]);
  EXPECT_EQ(quota.take_findings("ada", "key", {"cpu.outsider"}, 7).size(), 1U);
  { const MailQuota later(state_, kNow + 10 * kDay); }
  EXPECT_EQ(files(), 1U) << "what only the two deliveries needed is gone";
}

TEST_F(MailQuotas, GiveTheClaimsOfAKilledTryToTheNextTryOfTheSameMail) {
  const std::string shared = state_ + ".shared";
  fs::create_directory(shared);
  fs::permissions(shared, fs::perms::all | fs::perms::sticky_bit);
  const auto take_all = [&](const std::string& mail, const std::string& task, bool again) {
    MailQuota quota(state_, kNow);
    EXPECT_EQ(quota.share_faults(shared), "");
    quota.begin_mail(mail, again);
    return std::vector<bool>{!quota.take_findings("ada", "key", {"cpu.outsider"}, 7).empty(),
                             !quota.take_array("ada", "4710", Audience::user, task).empty(),
                             !quota.take_fault("mem.ecc_host\nn03\nmc0").empty()};
  };
  EXPECT_EQ(take_all("/home/ada/reveal-1", "4710_1", false), std::vector<bool>({true, true, true}));
  EXPECT_EQ(take_all("/home/ada/reveal-1", "4710_1", false), std::vector<bool>({false, false, false}));
  EXPECT_EQ(take_all("/home/ada/reveal-2", "4710_2", true), std::vector<bool>({false, false, false}));
  EXPECT_EQ(take_all("/home/ada/reveal-1", "4710_1", true), std::vector<bool>({true, true, true}));
}

TEST_F(MailQuotas, LetOneProcessAtATimeLookAtArrays) {
  constexpr std::int64_t kMinute = kHour / 60;
  MailQuota one(state_, kNow);
  MailQuota other(state_, kNow);
  EXPECT_TRUE(one.begin_look_at_arrays());
  EXPECT_FALSE(other.begin_look_at_arrays());
  one.end_look_at_arrays();
  EXPECT_TRUE(other.begin_look_at_arrays()) << "the first has ended, in the same hour";
  EXPECT_FALSE(MailQuota(state_, kNow + 9 * kMinute).begin_look_at_arrays());
  EXPECT_TRUE(MailQuota(state_, kNow + 10 * kMinute).begin_look_at_arrays()) << "the second was killed";
  EXPECT_FALSE(MailQuota(state_, kNow + 11 * kMinute).begin_look_at_arrays());
}

TEST_F(MailQuotas, RefuseAnArrayThatIsNoNumber) {
  MailQuota quota(state_, kNow);
  for (const char* array : {"", "../x", "4710_3", "/etc/passwd", "123456789012345678901"}) {
    EXPECT_FALSE(is_array_id(array)) << array;
    EXPECT_THROW(static_cast<void>(quota.take_array("ada", array, Audience::user, "")), Error) << array;
  }
  EXPECT_NE(quota.take_array("../../ada", "4710", Audience::user, ""), "");
  EXPECT_EQ(files(), 1U);
}

TEST_F(MailQuotas, MakeFilesForNobodyElse) {
  const mode_t former = ::umask(0);
  MailQuota quota(state_, kNow);
  const std::string name = quota.take_hourly(1, Audience::user);
  ::umask(former);
  struct stat status {};
  ASSERT_EQ(::stat(state_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat((state_ + "/" + name).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(MailQuotas, TrustNoLinkAndNoDirectoryOfOthers) {
  fs::create_directory(parent_ + "/real");
  fs::create_directory_symlink(parent_ + "/real", parent_ + "/link");
  EXPECT_NE(failure(parent_ + "/link").find("is not a directory, or a link to one"), std::string::npos);
  EXPECT_NE(failure(parent_ + "/link/"), "");
  std::ofstream(parent_ + "/file") << "x";
  EXPECT_NE(failure(parent_ + "/file"), "");
  EXPECT_NE(failure(parent_ + "/missing/mail"), "");
  fs::permissions(parent_ + "/real", fs::perms::all);
  EXPECT_NE(failure(parent_ + "/real").find("can be written by others"), std::string::npos);
  if (::geteuid() == 0) {
    fs::permissions(parent_ + "/real", fs::perms::owner_all);
    ASSERT_EQ(::chown((parent_ + "/real").c_str(), 65534, 65534), 0);
    EXPECT_NE(failure(parent_ + "/real").find("belongs to another user"), std::string::npos);
  }
}

TEST_F(MailQuotas, WriteThroughNoLink) {
  fs::create_directory(state_);
  fs::permissions(state_, fs::perms::owner_all);
  std::ofstream(parent_ + "/precious") << "x";
  fs::create_symlink(parent_ + "/precious", state_ + "/array-4710-user-ada");
  MailQuota quota(state_, kNow);
  EXPECT_EQ(quota.take_array("ada", "4710", Audience::user, "4710_1"), "");
  EXPECT_EQ(fs::file_size(parent_ + "/precious"), 1U);
}

TEST_F(MailQuotas, ForgetWhatIsOld) {
  {
    MailQuota quota(state_, kNow);
    for (int i = 0; i < 5; ++i) EXPECT_NE(quota.take_hourly(10, Audience::user), "");
  }
  std::ofstream(state_ + "/README") << "x";
  EXPECT_EQ(files(), 6U);
  { MailQuota next(state_, kNow + kHour); }
  EXPECT_EQ(files(), 6U);  // a node whose clock is behind still counts in them
  { MailQuota later(state_, kNow + 2 * kHour); }
  EXPECT_EQ(files(), 1U);
}

TEST_F(MailQuotas, LookForOldFilesOnceAnHour) {
  const std::string old = state_ + "/array-4710-user-ada";
  const auto make_old_file = [&] {
    std::ofstream(old) << "4710_1";
    fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::years(40));
  };
  { const MailQuota first(state_, kNow); }
  make_old_file();
  { const MailQuota second(state_, kNow + kHour / 4); }
  EXPECT_TRUE(fs::exists(old));
  { const MailQuota of_next_hour(state_, kNow + kHour); }
  EXPECT_FALSE(fs::exists(old));
  make_old_file();
  { const MailQuota much_later(state_, kNow + 3 * kHour); }
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(std::distance(fs::directory_iterator(state_), fs::directory_iterator()), 1) << "the mark of the last hour";
}

}  // namespace
}  // namespace reveal::tests::quota_test
