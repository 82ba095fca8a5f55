#include "postproc/mail/node_digest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hdf5schema/basics/file_text.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::node_digest_test {
namespace {

namespace fs = std::filesystem;

class NodeDigests : public ::testing::Test {
 protected:
  void SetUp() override {
    use_program("cat > " + work_ + "/sent");
    settings_.enabled = true;
    settings_.domain = "example.org";
    settings_.admins = {"root", "ops@example.org", "root"};
    settings_.disable = work_ + "/no-mail";
    ranking_.jobs = 9;
    ranking_.nodes_seen = 3;
    ranking_.nodes = {{.node = "n17", .jobs = 9, .jobs_with_findings = 4}, {.node = "n18", .jobs_with_findings = 2}};
  }

  void use_program(const std::string& script) {
    const std::string path = work_ + "/sendmail";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
    settings_.sendmail = {path, "-t"};
  }

  [[nodiscard]] MailOutcome mail(bool dry_run = false) const {
    return mail_nodes(ranking_,
                      {.dry_run = dry_run,
                       .host = "mgmt1",
                       .now_utc_ns = 1'763'640'000'000'000'000,
                       .limit = std::chrono::seconds(10)},
                      settings_);
  }

  TemporaryDirectory directory_of_test_;
  const std::string work_ = directory_of_test_.path().string();
  MailSettings settings_{.sendmail = {}, .from = {}, .domain = {}, .admins = {}, .per_hour = 20, .disable = {}};
  NodeRanking ranking_;
};

TEST_F(NodeDigests, ReachAllAdministratorsInOneMail) {
  const MailOutcome outcome = mail();
  ASSERT_EQ(outcome.items.size(), 1U);
  EXPECT_EQ(outcome.items[0].state, MailState::sent);
  EXPECT_EQ(outcome.items[0].to, (std::vector<std::string>{"root@example.org", "ops@example.org"}));
  EXPECT_EQ(outcome.items[0].message.subject, "[reveal] 2 nodes with findings: n[17-18]");
  const std::string sent = file_text(work_ + "/sent");
  for (const char* part : {"To: root@example.org, ops@example.org", "Auto-Submitted: auto-generated", "nodes.json",
                           "Subject: [reveal] 2 nodes", "9 jobs on 3 nodes"}) {
    EXPECT_NE(sent.find(part), std::string::npos) << part;
  }
}

TEST_F(NodeDigests, NameNodesToCheckFirst) {
  ranking_.nodes[0].suggestion = "scontrol update nodename=n17 state=drain reason=\"reveal\"";
  const MailOutcome outcome = mail(true);
  ASSERT_EQ(outcome.items.size(), 1U);
  EXPECT_EQ(outcome.items[0].message.subject,
            "[reveal] check n17: the same fault in different jobs; 2 nodes with findings");
  EXPECT_NE(outcome.items[0].message.text.find(ranking_.nodes[0].suggestion), std::string::npos);
  EXPECT_FALSE(fs::exists(work_ + "/sent")) << "a dry run sends nothing";
}

TEST_F(NodeDigests, AreNotSentWithoutAReason) {
  std::ofstream(settings_.disable) << "\n";
  EXPECT_TRUE(mail().items.empty());
  EXPECT_TRUE(mail().failed) << "reveal-digest.service keeps the lines for a later digest";
  EXPECT_FALSE(mail(true).failed);
  fs::remove(settings_.disable);
  settings_.admins.clear();
  EXPECT_EQ(mail().why_not, std::vector<std::string>{"[mail] sets no admins"});
  EXPECT_TRUE(mail().failed);
  settings_.admins = {"root"};
  settings_.enabled = false;
  EXPECT_TRUE(mail().items.empty());
  settings_.enabled = true;
  ranking_.nodes.clear();
  EXPECT_EQ(mail().why_not, std::vector<std::string>{"no node has findings of its own"});
  EXPECT_FALSE(mail().failed);
  settings_.admins.clear();
  EXPECT_FALSE(mail().failed) << "no mail was due";
  settings_.enabled = false;
  EXPECT_FALSE(mail().failed);
  EXPECT_FALSE(fs::exists(work_ + "/sent"));
}

TEST_F(NodeDigests, ReportAMailProgramThatFails) {
  use_program("echo no route >&2; exit 75");
  const MailOutcome outcome = mail();
  EXPECT_TRUE(outcome.failed);
  EXPECT_NE(failure_line(outcome).find("no route"), std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::node_digest_test
