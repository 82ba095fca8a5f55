#include "postproc/mail/address.h"

#include <gtest/gtest.h>

#include <string>

namespace reveal::tests::address_test {
namespace {

TEST(MailAddress, TakesWhatSitesUse) {
  for (const char* address : {"ada", "ada@example.org", "ada.l+jobs@example.org", "_svc@hpc-1.example.org", "a-b_c@x",
                              "ADA@EXAMPLE.ORG", "7@1.2"}) {
    EXPECT_TRUE(is_mail_address(address)) << address;
  }
}

TEST(MailAddress, RefusesEverythingThatCouldMeanSomethingElsewhere) {
  for (const std::string& address : {std::string(""),
                                     std::string("@"),
                                     std::string("ada@"),
                                     std::string("@example.org"),
                                     std::string("ada@@example.org"),
                                     std::string("ada@example.org@evil.org"),
                                     std::string("ada@example..org"),
                                     std::string("ada@-example.org"),
                                     std::string("ada@example-.org"),
                                     std::string("ada@example.org."),
                                     std::string("ada@[127.0.0.1]"),
                                     std::string(".ada@example.org"),
                                     std::string("ada.@example.org"),
                                     std::string("a..da@example.org"),
                                     std::string("-oQ/tmp@example.org"),
                                     std::string("-v"),
                                     std::string("ada,bob@example.org"),
                                     std::string("ada@example.org,bob@example.org"),
                                     std::string("ada bob@example.org"),
                                     std::string(" ada@example.org"),
                                     std::string("ada@example.org "),
                                     std::string("ada@example.org\n"),
                                     std::string("ada@example.org\r\nBcc: all@example.org"),
                                     std::string("ada\0@example.org", 16),
                                     std::string("Ada <ada@example.org>"),
                                     std::string("\"ada\"@example.org"),
                                     std::string("=?utf-8?q?ada?=@example.org"),
                                     std::string("ada%example.org@relay"),
                                     std::string("relay!ada"),
                                     std::string("|/bin/sh"),
                                     std::string("/var/mail/ada"),
                                     std::string("$(id)@example.org"),
                                     std::string("ädä@example.org"),
                                     std::string("ada@exämple.org"),
                                     std::string(65, 'a') + "@example.org",
                                     "ada@" + std::string(64, 'x') + ".org"}) {
    EXPECT_FALSE(is_mail_address(address)) << address;
  }
  std::string longest = "a@";
  for (int i = 0; i < 5; ++i) longest += std::string(60, 'x') + ".";
  EXPECT_FALSE(is_mail_address(longest + "org"));
}

TEST(MailAddress, ComparesDomainsWithoutCase) {
  EXPECT_TRUE(same_address("ada@Example.org", "ada@example.ORG"));
  EXPECT_FALSE(same_address("Ada@example.org", "ada@example.org"));
  EXPECT_FALSE(same_address("ada", "ada@example.org"));
  EXPECT_FALSE(same_domain("example.org", "example.org.evil"));
}

TEST(MailAddress, GivesANameTheDomainOfTheSite) {
  EXPECT_EQ(qualified("ada", "example.org"), "ada@example.org");
  EXPECT_EQ(qualified("ada@other.org", "example.org"), "ada@other.org");
  EXPECT_EQ(qualified("ada", ""), "ada");
}

}  // namespace
}  // namespace reveal::tests::address_test
