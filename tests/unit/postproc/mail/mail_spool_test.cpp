#include "postproc/mail/mail_spool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::mail_spool_test {
namespace {

namespace fs = std::filesystem;
constexpr const char* kGood = "mail-u0123456789abcdef";

class MailSpools : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(path_);
    ASSERT_EQ(::chmod(path_.c_str(), 03733), 0);
  }

  void write(const std::string& name, const std::string& text = "{}") const {
    std::ofstream(path_ + "/" + name) << text;
  }

  /// The name of a mail: 'u' to the user, 'a' to administrators.
  [[nodiscard]] static std::string name_of(char kind, std::size_t number) {
    const std::string digits = std::to_string(number);
    return std::string("mail-") + kind + std::string(16 - digits.size(), '0') + digits;
  }

  [[nodiscard]] bool has(const std::string& name) const {
    return fs::symlink_status(path_ + "/" + name).type() != fs::file_type::not_found;
  }

  [[nodiscard]] std::string refusal() const {
    try {
      leave_in_spool(path_, "{}", Audience::user);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryDirectory directory_;
  const std::string path_ = (directory_.path() / "spool").string();
};

TEST_F(MailSpools, HaveAMailWholeForTheirOwnerAndGroupOnly) {
  leave_in_spool(path_ + "/", "the mail", Audience::user);
  MailSpool spool(path_);
  const std::vector<SpoolEntry> entries = spool.entries(OtherFiles::deleted);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].owner, ::geteuid());
  struct stat status {};
  ASSERT_EQ(::stat(spool.path_of(entries[0].name).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  EXPECT_EQ(file_text(spool.path_of(entries[0].name)), "the mail");
  EXPECT_EQ(spool.refused(), 0U);
  spool.remove(entries[0].name);
  EXPECT_TRUE(spool.entries(OtherFiles::deleted).empty());
}

TEST_F(MailSpools, DeleteEverythingThatIsNoMail) {
  write(kGood);
  write("report.json");
  const std::string twice = name_of('u', 1), once_more = name_of('u', 2), link = name_of('u', 3);
  const std::string empty = name_of('u', 4), full = name_of('u', 5), pipe = name_of('u', 6), large = name_of('u', 7);
  write(twice);
  fs::create_hard_link(path_ + "/" + twice, path_ + "/" + once_more);
  fs::create_symlink("/etc/passwd", path_ + "/" + link);
  fs::create_directory(path_ + "/" + empty);
  fs::create_directories(path_ + "/" + full + "/inside");
  ASSERT_EQ(::mkfifo((path_ + "/" + pipe).c_str(), 0666), 0);
  write(large);
  fs::resize_file(path_ + "/" + large, std::uintmax_t{1} << 30);
  write(".mail-being-written");
  write(".lock");
  fs::create_directory(path_ + "/state");
  MailSpool spool(path_);
  EXPECT_EQ(spool.entries(OtherFiles::kept).size(), 1U);
  EXPECT_EQ(spool.refused(), 0U);
  const std::vector<SpoolEntry> entries = spool.entries(OtherFiles::deleted);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].name, kGood);
  EXPECT_EQ(spool.refused(), 8U);
  for (const std::string& gone : {std::string("report.json"), twice, once_more, link, empty, pipe, large}) {
    EXPECT_FALSE(has(gone)) << gone;
  }
  for (const std::string& kept :
       {std::string(kGood), full, std::string(".mail-being-written"), std::string(".lock"), std::string("state")}) {
    EXPECT_TRUE(has(kept)) << kept;
  }
  EXPECT_TRUE(fs::exists("/etc/passwd"));
  EXPECT_EQ(spool.problems(), std::vector<std::string>{path_ + ": user " + std::to_string(::geteuid()) +
                                                       " has 1 there that cannot be deleted, such as a directory with "
                                                       "files"});
}

TEST_F(MailSpools, TakeNoNameThatTheyDidNotGive) {
  for (const char* name : {"mail-u0123", "mail-x0123456789abcdef", "mail-u0123456789ABCDEF",
                           "mail-u012345678\xff\xfe"
                           "bcdef",
                           "mail-", "mail-a0123456789abcdef0"}) {
    write(name);
  }
  MailSpool spool(path_);
  EXPECT_TRUE(spool.entries(OtherFiles::deleted).empty());
  EXPECT_EQ(spool.refused(), 6U);
  leave_in_spool(path_, "{}", Audience::hardware);
  const std::vector<SpoolEntry> entries = spool.entries(OtherFiles::deleted);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_TRUE(entries[0].name.starts_with("mail-a")) << entries[0].name;
}

TEST_F(MailSpools, TakeNoFileOfAnotherGroupWhichSomebodyMovedThere) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other groups";
  write(kGood);
  MailSpool spool(path_);
  const std::vector<SpoolEntry> entries = spool.entries(OtherFiles::deleted);
  ASSERT_EQ(entries.size(), 1U);
  ASSERT_EQ(::chown((path_ + "/" + kGood).c_str(), 0, 65533), 0);
  EXPECT_THROW(static_cast<void>(spool.open(entries[0])), Error);
  EXPECT_TRUE(spool.entries(OtherFiles::deleted).empty());
  EXPECT_FALSE(has(kGood));
}

TEST_F(MailSpools, LeaveFilesToTheServerThatAreDeletedButOpen) {
  write(".nfs0001");
  MailSpool spool(path_);
  EXPECT_TRUE(spool.entries(OtherFiles::deleted).empty());
  EXPECT_TRUE(has(".nfs0001"));
  for (std::size_t i = 0; i < MailSpool::kMostOfOwner; ++i) write(".nfs-" + std::to_string(i));
  EXPECT_TRUE(spool.entries(OtherFiles::deleted).empty());
  EXPECT_EQ(spool.refused(), 1U) << "they count as files that are being written";
}

TEST_F(MailSpools, HaveMailsToAdministratorsBesideTooManyToTheUser) {
  for (std::size_t i = 0; i < MailSpool::kMostOfOwner + 3; ++i) write(name_of('u', i));
  write(name_of('a', 1));
  MailSpool spool(path_);
  const std::vector<SpoolEntry> entries = spool.entries(OtherFiles::deleted);
  EXPECT_EQ(entries.size(), MailSpool::kMostOfOwner + 1);
  EXPECT_TRUE(has(name_of('a', 1)));
  EXPECT_EQ(spool.problems(), std::vector<std::string>{path_ + ": user " + std::to_string(::geteuid()) +
                                                       " has more than 2000 mails to one audience: the newest 3 are "
                                                       "too many"});
}

TEST_F(MailSpools, AreNoOtherDirectories) {
  const std::string home = (directory_.path() / "home").string();
  fs::create_directory(home);
  for (const mode_t mode : {mode_t{0700}, mode_t{0755}, mode_t{01777}}) {
    ASSERT_EQ(::chmod(home.c_str(), mode), 0);
    try {
      const MailSpool spool(home);
      ADD_FAILURE() << "it would delete all files of " << home << " with mode " << mode;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                home + " is no spool for mails, which is a directory of its own with mode 3733");
    }
  }
}

TEST_F(MailSpools, KeepTheFirstMailsOfAUserWithTooMany) {
  for (std::size_t i = 0; i < MailSpool::kMostOfOwner + 3; ++i) write(name_of('u', i));
  MailSpool spool(path_);
  EXPECT_EQ(spool.entries(OtherFiles::deleted).size(), MailSpool::kMostOfOwner);
  EXPECT_EQ(spool.refused(), 3U);
  EXPECT_EQ(spool.entries(OtherFiles::deleted).size(), MailSpool::kMostOfOwner);
  EXPECT_EQ(spool.refused(), 3U);
}

TEST_F(MailSpools, TakeTurnsBetweenTheirUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  for (const std::size_t number : {11, 12, 13, 21, 22}) {
    const std::string name = name_of('u', number);
    write(name);
    ASSERT_EQ(::chown((path_ + "/" + name).c_str(), number < 20 ? 65533 : 65534, 0), 0);
  }
  MailSpool spool(path_);
  std::string order;
  for (const SpoolEntry& entry : spool.entries(OtherFiles::deleted)) order += entry.name.substr(20) + " ";
  EXPECT_EQ(order, "11 21 12 22 13 ");
}

TEST_F(MailSpools, AreNotUsedWhereOthersMayReadOrDelete) {
  ASSERT_EQ(::chmod(path_.c_str(), 02733), 0);
  EXPECT_EQ(refusal(), path_ + ": others may delete files of it; try: chmod 3733 " + path_);
  EXPECT_THROW(MailSpool{path_}, Error);
  ASSERT_EQ(::chmod(path_.c_str(), 03733), 0);
  EXPECT_EQ(refusal(), "");
  fs::create_directory_symlink(path_, path_ + "-link");
  EXPECT_THROW(leave_in_spool(path_ + "-link/", "{}", Audience::user), Error);
  EXPECT_THROW(MailSpool{path_ + "-link"}, Error);
  EXPECT_THROW(leave_in_spool(path_ + "/missing", "{}", Audience::user), Error);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  ASSERT_EQ(::chown(path_.c_str(), 65534, ::getegid()), 0);
  EXPECT_EQ(refusal(), path_ + ": its group has ordinary users; it must be the group of the mailer alone");
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 01733), 0);
  EXPECT_EQ(refusal(), path_ + ": new files do not get its group; try: chmod 3733 " + path_);
  ASSERT_EQ(::chmod(path_.c_str(), 03733), 0);
  EXPECT_EQ(refusal(), "");
  EXPECT_THROW(MailSpool{path_}, Error) << "it is that of another account";
}

TEST_F(MailSpools, AreForOneMailerAtATime) {
  MailSpool second(path_);
  {
    MailSpool first(path_);
    EXPECT_TRUE(first.take_turn());
    EXPECT_FALSE(second.take_turn());
  }
  EXPECT_TRUE(second.take_turn());
}

TEST_F(MailSpools, TakeTheirTurnWhereAUserTookItsName) {
  fs::create_symlink("/nowhere", path_ + "/.lock");
  MailSpool spool(path_);
  EXPECT_TRUE(spool.take_turn());
  EXPECT_FALSE(fs::exists("/nowhere"));
  fs::create_directories(directory_.path() / "other");
  ASSERT_EQ(::chmod((directory_.path() / "other").c_str(), 03733), 0);
  fs::create_directories(directory_.path() / "other/.lock/inside");
  MailSpool other((directory_.path() / "other").string());
  EXPECT_THROW(static_cast<void>(other.take_turn()), Error);
}

TEST_F(MailSpools, OpenNoOtherFileThanTheOneThatWasListed) {
  write(kGood, "the mail");
  MailSpool spool(path_);
  const std::vector<SpoolEntry> entries = spool.entries(OtherFiles::deleted);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_TRUE(static_cast<bool>(spool.open(entries[0])));
  fs::remove(path_ + "/" + kGood);
  EXPECT_THROW(static_cast<void>(spool.open(entries[0])), Error);
  fs::create_symlink("/etc/passwd", path_ + "/" + kGood);
  EXPECT_THROW(static_cast<void>(spool.open(entries[0])), Error);
  fs::remove(path_ + "/" + kGood);
  ASSERT_EQ(::mkfifo((path_ + "/" + kGood).c_str(), 0666), 0);
  EXPECT_THROW(static_cast<void>(spool.open(entries[0])), Error);
  SpoolEntry of_another = entries[0];
  of_another.owner += 1;
  fs::remove(path_ + "/" + kGood);
  write(kGood);
  EXPECT_THROW(static_cast<void>(spool.open(of_another)), Error);
}

}  // namespace
}  // namespace reveal::tests::mail_spool_test
