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

class MailSpools : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(path_);
    ASSERT_EQ(::chmod(path_.c_str(), 03733), 0);
  }

  void write(const std::string& name, const std::string& text = "{}") const {
    std::ofstream(path_ + "/" + name) << text;
  }

  [[nodiscard]] bool has(const std::string& name) const {
    return fs::symlink_status(path_ + "/" + name).type() != fs::file_type::not_found;
  }

  [[nodiscard]] std::string refusal() const {
    try {
      leave_in_spool(path_, "{}");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryDirectory directory_;
  const std::string path_ = (directory_.path() / "spool").string();
};

TEST_F(MailSpools, HaveAMailWholeForTheirOwnerAndGroupOnly) {
  leave_in_spool(path_ + "/", "the mail");
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
  write("mail-good");
  write("report.json");
  write("mail-twice");
  fs::create_hard_link(path_ + "/mail-twice", path_ + "/mail-once-more");
  fs::create_symlink("/etc/passwd", path_ + "/mail-link");
  fs::create_directory(path_ + "/mail-empty");
  fs::create_directories(path_ + "/mail-full/inside");
  ASSERT_EQ(::mkfifo((path_ + "/mail-pipe").c_str(), 0666), 0);
  write("mail-large");
  fs::resize_file(path_ + "/mail-large", std::uintmax_t{1} << 30);
  write(".mail-being-written");
  write(".lock");
  fs::create_directory(path_ + "/state");
  MailSpool spool(path_);
  EXPECT_EQ(spool.entries(OtherFiles::kept).size(), 1U);
  EXPECT_EQ(spool.refused(), 0U);
  const std::vector<SpoolEntry> entries = spool.entries(OtherFiles::deleted);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].name, "mail-good");
  EXPECT_EQ(spool.refused(), 8U);
  for (const char* gone :
       {"report.json", "mail-twice", "mail-once-more", "mail-link", "mail-empty", "mail-pipe", "mail-large"}) {
    EXPECT_FALSE(has(gone)) << gone;
  }
  for (const char* kept : {"mail-good", "mail-full", ".mail-being-written", ".lock", "state"}) {
    EXPECT_TRUE(has(kept)) << kept;
  }
  EXPECT_TRUE(fs::exists("/etc/passwd"));
}

TEST_F(MailSpools, KeepTheFirstMailsOfAUserWithTooMany) {
  for (std::size_t i = 0; i < MailSpool::kMostOfOwner + 3; ++i) write("mail-" + std::to_string(i));
  MailSpool spool(path_);
  EXPECT_EQ(spool.entries(OtherFiles::deleted).size(), MailSpool::kMostOfOwner);
  EXPECT_EQ(spool.refused(), 3U);
  EXPECT_EQ(spool.entries(OtherFiles::deleted).size(), MailSpool::kMostOfOwner);
  EXPECT_EQ(spool.refused(), 3U);
}

TEST_F(MailSpools, TakeTurnsBetweenTheirUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  for (const char* name : {"mail-a1", "mail-a2", "mail-a3", "mail-b1", "mail-b2"}) {
    write(name);
    ASSERT_EQ(::chown((path_ + "/" + name).c_str(), name[5] == 'a' ? 65533 : 65534, 0), 0);
  }
  MailSpool spool(path_);
  std::string order;
  for (const SpoolEntry& entry : spool.entries(OtherFiles::deleted)) order += entry.name.substr(5) + " ";
  EXPECT_EQ(order, "a1 b1 a2 b2 a3 ");
}

TEST_F(MailSpools, AreNotUsedWhereOthersMayReadOrDelete) {
  ASSERT_EQ(::chmod(path_.c_str(), 02733), 0);
  EXPECT_EQ(refusal(), path_ + ": others may delete files of it; try: chmod 3733 " + path_);
  EXPECT_THROW(MailSpool{path_}, Error);
  ASSERT_EQ(::chmod(path_.c_str(), 03733), 0);
  EXPECT_EQ(refusal(), "");
  fs::create_directory_symlink(path_, path_ + "-link");
  EXPECT_THROW(leave_in_spool(path_ + "-link/", "{}"), Error);
  EXPECT_THROW(MailSpool{path_ + "-link"}, Error);
  EXPECT_THROW(leave_in_spool(path_ + "/missing", "{}"), Error);
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
  write("mail-good", "the mail");
  MailSpool spool(path_);
  const std::vector<SpoolEntry> entries = spool.entries(OtherFiles::deleted);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_TRUE(static_cast<bool>(spool.open(entries[0])));
  fs::remove(path_ + "/mail-good");
  EXPECT_THROW(static_cast<void>(spool.open(entries[0])), Error);
  fs::create_symlink("/etc/passwd", path_ + "/mail-good");
  EXPECT_THROW(static_cast<void>(spool.open(entries[0])), Error);
  fs::remove(path_ + "/mail-good");
  ASSERT_EQ(::mkfifo((path_ + "/mail-good").c_str(), 0666), 0);
  EXPECT_THROW(static_cast<void>(spool.open(entries[0])), Error);
  SpoolEntry of_another = entries[0];
  of_another.owner += 1;
  fs::remove(path_ + "/mail-good");
  write("mail-good");
  EXPECT_THROW(static_cast<void>(spool.open(of_another)), Error);
}

}  // namespace
}  // namespace reveal::tests::mail_spool_test
