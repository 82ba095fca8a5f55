#include "postproc/deliver/support_bundle.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::support_bundle_test {
namespace {

std::string text_of(const std::vector<ArchivedFile>& files, const std::string& name) {
  for (const ArchivedFile& file : files) {
    if (file.name == name) return file.text;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(SupportBundle, ContainsNoNameThatTheProcessKnows) {
  Redaction redaction;
  add_own_names(redaction, {"USER=ada", "HOSTNAME=n03.cluster.example.org", "HOME=/home/ada", "API_TOKEN=s3cr3t",
                            "PROJECT=nuclear-fusion", "SHORT=yes", "broken", "my_token=q9z", "SLURM_JOB_ACCOUNT=phys12",
                            "_=/usr/bin/reveal"});
  const Json doctor = {
      {"checks", Json::array({{{"message", "ada has /home/ada/x on n03, token s3cr3t"}}})},
      {"locality", {{"note", "q9z of nuclear-fusion for phys12 on N03.CLUSTER.EXAMPLE.ORG, /usr/bin/reveal: yes"}}},
      {"problems", 2}};
  Config config;
  const std::vector<ArchivedFile> files = support_files({.doctor = doctor, .config = config, .job = {}}, redaction);
  std::string all;
  for (const ArchivedFile& file : files) all += file.text;
  for (const char* name : {"ada", "n03", "N03", "cluster.example", "s3cr3t", "fusion", "/home", "q9z", "phys12"}) {
    EXPECT_EQ(all.find(name), std::string::npos) << name << "\n" << all;
  }
  const Json kept = parse_json(text_of(files, "doctor.json"), "doctor.json");
  EXPECT_EQ(kept["problems"], 2);
  EXPECT_NE(kept["locality"]["note"].get<std::string>().find(", /usr/bin/reveal: yes"), std::string::npos);
}

TEST(SupportBundle, ContainsSettingsOnlyWhereTheirFormHoldsNoName) {
  Config config;
  config.read(
      "[run]\ninterval = \"1s\"\nname = \"fusion\"\n[mail]\nenabled = true\nfrom = \"boss@example.org\"\n"
      "admins = [\"ada@example.org\"]\nsendmail = \"/opt/site/mailer --password hunter2\"\n[report]\nhistory = false\n",
      "/etc/reveal/reveal.conf", ConfigOwner::site);
  ASSERT_TRUE(config.problems().empty()) << config.problems().front().text;
  Redaction redaction;
  const std::vector<ArchivedFile> files = support_files({.doctor = Json(), .config = config, .job = {}}, redaction);
  const Json settings = parse_json(text_of(files, "settings.json"), "settings.json")["other_than_the_default"];
  const Json expected = {{"run.interval", "1s"},   {"run.name", "(set)"},      {"report.history", "false"},
                         {"mail.enabled", "true"}, {"mail.sendmail", "(set)"}, {"mail.from", "(set)"},
                         {"mail.admins", "(set)"}};
  EXPECT_EQ(settings, expected);
}

TEST(SupportBundle, ReplacesTheSitesTextsInMessages) {
  Config config;
  config.read("[run]\ninterval = \"hunter2\"\nname = \"fusion\"\n", "/etc/reveal/reveal.conf", ConfigOwner::site);
  ASSERT_EQ(config.problems().size(), 1U);
  Redaction redaction;
  const Json doctor = {{"message", config.problems().front().text}, {"note", "the job fusion"}};
  const std::string text =
      text_of(support_files({.doctor = doctor, .config = config, .job = {}}, redaction), "doctor.json");
  EXPECT_EQ(text.find("hunter2"), std::string::npos) << text;
  EXPECT_EQ(text.find("fusion"), std::string::npos) << text;
  EXPECT_NE(text.find("/etc/reveal/reveal.conf:2"), std::string::npos) << text;
}

TEST(SupportBundle, NamesTheVersions) {
  Config config;
  Redaction redaction;
  const std::vector<ArchivedFile> files = support_files({.doctor = Json(), .config = config, .job = {}}, redaction);
  const std::string versions = text_of(files, "versions.txt");
  EXPECT_TRUE(versions.starts_with("reveal: ")) << versions;
  EXPECT_NE(versions.find("\nkernel: Linux "), std::string::npos) << versions;
}

TEST(SupportBundle, RefusesADirectoryWithoutTraces) {
  const TemporaryDirectory folder;
  Config config;
  Redaction redaction;
  EXPECT_THROW((void)support_files({.doctor = Json(), .config = config, .job = folder.path()}, redaction), Error);
}

TEST(SupportBundle, ReplacesNoFileAndFollowsNoLink) {
  const TemporaryDirectory folder;
  const std::filesystem::path file = folder.path() / "support.tar.gz";
  const std::filesystem::path link = folder.path() / "link.tar.gz";
  std::filesystem::create_symlink(folder.path() / "elsewhere", link);
  EXPECT_THROW(write_new_file(link, "x"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "elsewhere"));
  write_new_file(file, "first");
  EXPECT_THROW(write_new_file(file, "second"), Error);
  EXPECT_EQ(read_text_file(file, 100), "first");
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600);
}

TEST(TarFile, HasABlockForEachHeaderAndWholeBlocksOfText) {
  const std::string archive = tar_file({{"a.txt", "hello\n"}, {"b", std::string(512, 'x')}, {"c", ""}}, 1'700'000'000);
  ASSERT_EQ(archive.size(), 512 * (2 + 2 + 1 + 2));
  EXPECT_STREQ(archive.data(), "a.txt");
  EXPECT_EQ(archive.substr(100, 8), std::string("0000600\0", 8));
  EXPECT_EQ(archive.substr(124, 12), std::string("00000000006\0", 12));
  EXPECT_EQ(archive.substr(136, 12), std::string("14524770400\0", 12));  // 1,700,000,000 in octal
  EXPECT_EQ(archive.substr(257, 8), std::string("ustar\0"
                                                "00",
                                                8));
  EXPECT_EQ(archive.substr(512, 7), std::string("hello\n\0", 7));
  EXPECT_EQ(archive.substr(archive.size() - 1024), std::string(1024, '\0'));
  EXPECT_THROW((void)tar_file({{std::string(101, 'x'), ""}}, 0), Error);
}

}  // namespace
}  // namespace reveal::tests::support_bundle_test
