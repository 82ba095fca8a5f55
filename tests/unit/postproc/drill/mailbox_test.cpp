#include "postproc/drill/mailbox.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/temporary_directory.h"

namespace reveal::tests::mailbox_test {
namespace {

namespace fs = std::filesystem;

TEST(Mailbox, NamesTheMailByItsHeader) {
  EXPECT_EQ(message_id_of("From: reveal\nMessage-Id: <a.b@example.org>\n\nbody\n"), "<a.b@example.org>");
  EXPECT_EQ(message_id_of("MESSAGE-ID:<x@y>\n"), "<x@y>");
  EXPECT_EQ(message_id_of("From: reveal\n\nMessage-Id: <of.a.quoted@mail>\n"), "");
  EXPECT_EQ(message_id_of("Message-I"), "");
  EXPECT_EQ(message_id_of(""), "");
}

TEST(Mailbox, FindsAMailInAFile) {
  const TemporaryDirectory folder;
  const fs::path file = folder.path() / "ada";
  EXPECT_FALSE(mailbox_holds(file, "<a@b>"));
  std::ofstream(file) << "From x\nMessage-ID: <old@b>\n\nold\n";
  EXPECT_FALSE(mailbox_holds(file, "<a@b>"));
  std::ofstream(file, std::ios::app) << "From x\nMessage-ID: <a@b>\n\nnew\n";
  EXPECT_TRUE(mailbox_holds(file, "<a@b>"));
  EXPECT_FALSE(mailbox_holds(file, ""));
}

TEST(Mailbox, FindsAMailAtTheEndOfAFileOfManyMegabytes) {
  const TemporaryDirectory folder;
  const fs::path file = folder.path() / "ada";
  std::ofstream(file) << "Message-ID: <first@b>\n" << std::string(5 << 20, 'x') << "\nMessage-ID: <last@b>\n";
  EXPECT_TRUE(mailbox_holds(file, "<last@b>"));
  EXPECT_FALSE(mailbox_holds(file, "<first@b>"));
}

TEST(Mailbox, FindsAMailInADirectory) {
  const TemporaryDirectory folder;
  for (const char* name : {"new", "cur", "tmp"}) fs::create_directory(folder.path() / name);
  std::ofstream(folder.path() / "tmp/1") << "Message-ID: <unfinished@b>\n";
  std::ofstream(folder.path() / "new/2") << "Message-ID: <a@b>\n";
  std::ofstream(folder.path() / "cur/3") << "Message-ID: <read@b>\n";
  EXPECT_TRUE(mailbox_holds(folder.path(), "<a@b>"));
  EXPECT_TRUE(mailbox_holds(folder.path(), "<read@b>"));
  EXPECT_FALSE(mailbox_holds(folder.path(), "<unfinished@b>"));
}

}  // namespace
}  // namespace reveal::tests::mailbox_test
