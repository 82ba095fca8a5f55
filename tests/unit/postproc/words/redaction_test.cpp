#include "postproc/words/redaction.h"

#include <gtest/gtest.h>

namespace reveal::tests::redaction_test {
namespace {

using Kind = Redaction::Kind;

TEST(Redaction, GivesTheSameNameTheSamePlaceholder) {
  Redaction redaction;
  redaction.add(Kind::user, "ada");
  redaction.add(Kind::user, "bob");
  redaction.add(Kind::host, "n03");
  EXPECT_EQ(redaction.redacted("bob and Ada on n03, then bob on N03"), "user1 and user2 on host1, then user1 on host1");
  EXPECT_EQ(redaction.redacted("ada"), "user2");
  EXPECT_EQ(redaction.replaced(), "2 users, 1 host");
}

TEST(Redaction, ReplacesNamesOnlyWhereTheyAreWords) {
  Redaction redaction;
  redaction.add(Kind::user, "ada");
  EXPECT_EQ(redaction.redacted("canada, adaptive, job_ada-2, /usr/share/ada/x"),
            "canada, adaptive, job_user1-2, /usr/share/user1/x");
}

TEST(Redaction, ReplacesTheLongestNameThatFits) {
  Redaction redaction;
  redaction.add(Kind::host, "n03");
  redaction.add(Kind::host, "n03.cluster.example.org");
  EXPECT_EQ(redaction.redacted("n03.cluster.example.org is n03."), "host1 is host2.");
}

TEST(Redaction, ReplacesADirectoryWithEverythingBelowIt) {
  Redaction redaction;
  redaction.add(Kind::path, "/work/my data/");
  EXPECT_EQ(redaction.redacted("in \"/work/my data/run7/x.h5\": no"), "in \"path1\": no");
  EXPECT_EQ(redaction.redacted("/work/my database"), "path2 database");
}

TEST(Redaction, ReplacesPathsThatNobodyNamedExceptThoseOfTheSystem) {
  Redaction redaction;
  EXPECT_EQ(redaction.redacted("read /home/ada/secret, ./run7/x and ../y; filer01:/export/home is mounted."),
            "read path1, path2 and path3; path4 is mounted.");
  const char* const system =
      "/proc/4711/status, /sys/class/net, /etc/reveal/reveal.conf:12: /usr/bin/reveal, /dev/null";
  EXPECT_EQ(redaction.redacted(system), system);
  EXPECT_EQ(redaction.redacted("/dev/shm/ada /etc/../home/ada ~/x ~/.config/reveal/reveal.conf"),
            "path5 path6 path7 ~/.config/reveal/reveal.conf");
}

TEST(Redaction, ReplacesAPathInQuotesWithItsBlanksAndAnyPathWithItsBrackets) {
  Redaction redaction;
  EXPECT_EQ(redaction.redacted("open \"/data/my run (2)/a b.csv\": no"), "open \"path1\": no");
  EXPECT_EQ(redaction.redacted("see (/data/run(2)/x), [/data/y] and '/data/z"), "see (path2), [path3] and 'path4");
  redaction.add(Kind::path, "/work/ada");
  EXPECT_EQ(redaction.redacted("'/work/ada/secret plan/x' /work/ada/run(2)/y"), "'path5' path6");
}

TEST(Redaction, ReplacesAnAddressBehindAColon) {
  Redaction redaction;
  EXPECT_EQ(redaction.redacted("peer:10.1.2.3 and tcp:10.1.2.3:80, 2:1.5.1"),
            "peer:address1 and tcp:address2, 2:1.5.1");
}

TEST(Redaction, ReplacesAddresses) {
  Redaction redaction;
  EXPECT_EQ(redaction.redacted("10.1.2.3 10.1.2.3:6817 fe80::1%eth0 00:11:22:aa:bb:cc ada@example.org https://a.b/c"),
            "address1 address2 address3 address4 address5 address6");
  const char* const others = "at 12:03:11 0000:81:00.0 had version 22.05.8, libx.so.1 and std::string @ 1.2.3";
  EXPECT_EQ(redaction.redacted(others), others);
}

TEST(Redaction, ReplacesValuesWithBlanks) {
  Redaction redaction;
  redaction.add(Kind::value, "correct horse battery");
  EXPECT_EQ(redaction.redacted("TOKEN=correct horse battery!"), "TOKEN=value1!");
}

TEST(Redaction, LeavesNamesOfEveryMachine) {
  Redaction redaction;
  for (const char* name : {"root", "localhost", "/", "/root", "x", ""}) redaction.add(Kind::user, name);
  EXPECT_EQ(redaction.redacted("root on localhost has x"), "root on localhost has x");
  EXPECT_EQ(redaction.replaced(), "nothing");
}

}  // namespace
}  // namespace reveal::tests::redaction_test
