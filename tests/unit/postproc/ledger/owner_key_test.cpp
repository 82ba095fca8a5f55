#include "postproc/ledger/owner_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/analysis_settings.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::owner_key_test {
namespace {

namespace fs = std::filesystem;

TEST(OwnerKey, HashesAsTheAuthorsOfSipHashDo) {
  const std::string text("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e", 15);
  EXPECT_EQ(sip_hash({0x0706050403020100, 0x0f0e0d0c0b0a0908}, text), 0xa129ca6149be45e5);  // appendix A of the paper
}

TEST(OwnerKey, IsSecretAndStaysWithItsLedger) {
  const TemporaryDirectory place;
  const fs::path ledger = place.path() / "nodes.jsonl";
  const OwnerKey key = OwnerKey::beside(ledger);
  struct stat status {};
  ASSERT_EQ(::stat((place.path() / "nodes.jsonl.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  const OwnerKey again = OwnerKey::beside(ledger);
  EXPECT_TRUE(key.is_new() && !again.is_new());
  EXPECT_EQ(key.pseudonym(1000), again.pseudonym(1000));
  EXPECT_NE(key.pseudonym(1000), key.pseudonym(1001));
  EXPECT_NE(key.pseudonym(1000), OwnerKey::beside(place.path() / "other.jsonl").pseudonym(1000));
  EXPECT_EQ(std::distance(fs::directory_iterator(place.path()), fs::directory_iterator()), 2);
}

TEST(OwnerKey, CannotBeFoundByTryingAllUsers) {
  const std::string before = text_hash("owner of reports 1000");  // as the first ledgers had it
  const OwnerKey key;
  EXPECT_NE(key.pseudonym(1000), before);
  EXPECT_EQ(key.pseudonym(1000), key.pseudonym_of_hash(before)) << "lines of the first ledgers keep their owner";
  EXPECT_NE(key.pseudonym(1000), OwnerKey().pseudonym(1000));
}

TEST(OwnerKey, RefusesALinkAndADamagedFile) {
  const TemporaryDirectory place;
  fs::create_symlink("/etc/passwd", place.path() / "nodes.jsonl.key");
  EXPECT_THROW(static_cast<void>(OwnerKey::beside(place.path() / "nodes.jsonl")), Error);
  for (const char* text : {"", "0123", "0123456789abcdef0123456789abcdeg\n", "0123456789abcdef0123456789abcdef0"}) {
    std::ofstream(place.path() / "other.jsonl.key") << text;
    EXPECT_THROW(static_cast<void>(OwnerKey::beside(place.path() / "other.jsonl")), Error) << text;
  }
}

}  // namespace
}  // namespace reveal::tests::owner_key_test
