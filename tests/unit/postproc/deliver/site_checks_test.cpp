#include "postproc/deliver/site_checks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/version.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::site_checks_test {
namespace {

namespace fs = std::filesystem;
using Result = SiteCheck::Result;

class SiteChecks : public ::testing::Test {
 protected:
  SiteChecks() {
    places_ = {
        .root = folder_.path() / "root", .programs = folder_.path() / "bin", .history = folder_.path() / "state"};
    places_.query_slurm = false;
    program("reveal-run", REVEAL_VERSION);
    program("reveal-collect", REVEAL_VERSION);
  }

  void write(const fs::path& path, const std::string& text) {
    const fs::path file = places_.root / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void program(const std::string& name, const std::string& version) {
    fs::create_directories(places_.programs);
    std::ofstream(places_.programs / name) << "#!/bin/sh\necho " << name << " " << version << "\n";
    ::chmod((places_.programs / name).c_str(), 0755);
  }
  void plugin(const std::string& line) {
    write("etc/slurm/plugstack.conf", "include /etc/slurm/plugstack.conf.d/*.conf\n");
    write("etc/slurm/plugstack.conf.d/reveal.conf", "# reveal\n" + line + "\n");
    write("usr/lib/spank_reveal.so", "not a library, and so without a release");
  }
  [[nodiscard]] SiteCheck check(const std::string& name) const {
    for (const SiteCheck& one : check_site(places_)) {
      if (one.name == name) return one;
    }
    ADD_FAILURE() << "no check " << name;
    return {};
  }

  TemporaryDirectory folder_;
  SitePlaces places_;
};

TEST_F(SiteChecks, FindNoProblemOnANodeWithoutSlurmAndMail) {
  for (const SiteCheck& one : check_site(places_)) EXPECT_NE(one.result, Result::problem) << one.name << one.message;
  EXPECT_EQ(check("Slurm plugin").result, Result::unused);
  EXPECT_EQ(check("mail").result, Result::unused);
}

TEST_F(SiteChecks, NameAProgramOfAnotherVersionAndAMissingOne) {
  program("reveal-collect", "0.0.9");
  EXPECT_NE(check("programs").message.find("reveal-collect is of another version"), std::string::npos);
  fs::remove(places_.programs / "reveal-run");
  EXPECT_NE(check("programs").message.find("reveal-run is missing"), std::string::npos);
}

TEST_F(SiteChecks, FollowIncludesToThePluginAndItsArguments) {
  plugin("optional /usr/lib/spank_reveal.so spool=/scratch/reveal disable=/scratch/off");
  EXPECT_EQ(check("Slurm plugin").result, Result::ok);
  EXPECT_EQ(check("spool").message, "/scratch/reveal will be created by the first job");
  write("scratch/off", "");
  EXPECT_EQ(check("disable file").remedy, "rm /scratch/off");
}

TEST_F(SiteChecks, RefuseARequiredPluginAndAMissingOne) {
  plugin("required /usr/lib/spank_reveal.so");
  EXPECT_EQ(check("Slurm plugin").remedy, "write \"optional\"");
  fs::remove(places_.root / "usr/lib/spank_reveal.so");
  EXPECT_NE(check("Slurm plugin").message.find("which does not exist"), std::string::npos);
}

TEST_F(SiteChecks, SayThatTheCircuitBreakerIsOpen) {
  plugin("optional /usr/lib/spank_reveal.so");
  write("var/spool/reveal/run/breaker", "");
  ::chmod((places_.root / "var/spool/reveal").c_str(), 0777);
  EXPECT_NE(check("spool").message.find("not a directory that only root can write"), std::string::npos);
  ::chmod((places_.root / "var/spool/reveal").c_str(), 0711);
  if (::geteuid() != 0) GTEST_SKIP() << "not root, whom the spool belongs to";
  EXPECT_NE(check("spool").message.find("the circuit breaker is open"), std::string::npos);
}

TEST_F(SiteChecks, ShowHowFastReportsAreMadeHere) {
  if (::geteuid() != 0) {
    EXPECT_EQ(check("reports").message, "only root can read the times of earlier deliveries");
    GTEST_SKIP() << "not root, whose file the times are in";
  }
  places_.memory = kMostUserMemory;
  EXPECT_EQ(check("reports").message,
            "no delivery of more than half a second was measured here; a report job is submitted for more than 5,000 "
            "nodes, or traces of more than 477 MiB");
  const std::string now = std::to_string(utc_now_ns() / kSecond - 60);
  write("var/spool/reveal/delivery-times", "1000 " + now + " 10000 5000\n1001 " + now + " 10000 4000\n");
  EXPECT_EQ(check("reports").message,
            "analyses take 0.5 and reports 1 times the expected processor time here (measured in 2 jobs of 2 users); a "
            "report job is submitted for more than 5,000 nodes, or traces of more than 954 MiB");
  write("var/spool/reveal/delivery-times", "1000 " + now + " 10000 5000 merge\n1001 " + now + " 10000 4000 merge\n");
  EXPECT_EQ(check("reports").message,
            "analyses take 1 and reports 0.5 times the expected processor time here (measured in 2 jobs of 2 users); a "
            "report job is submitted for more than 8,270 nodes, or traces of more than 477 MiB");
}

TEST_F(SiteChecks, LookForTheProgramThatSendsMail) {
  write("etc/reveal/reveal.conf", "[mail]\nenabled = true\nsendmail = \"/usr/sbin/sendmail -t\"\n");
  EXPECT_EQ(check("mail").message, "/usr/sbin/sendmail cannot be run");
  write("usr/sbin/sendmail", "");
  ::chmod((places_.root / "usr/sbin/sendmail").c_str(), 0755);
  EXPECT_EQ(check("mail").result, Result::ok);
  write("etc/reveal/no-mail", "");
  EXPECT_EQ(check("mail").remedy, "rm /etc/reveal/no-mail");
  write("etc/reveal/reveal.conf", "[mail]\nenabeld = true\n");
  EXPECT_NE(check("mail").message.find("did you mean \"enabled\"?"), std::string::npos);
}

TEST_F(SiteChecks, LookForTheSpoolOfTheSitesMailer) {
  write("etc/reveal/reveal.conf", "[mail]\nenabled = true\nsendmail = \"/none\"\nmailer_spool = \"/shared/mail\"\n");
  EXPECT_EQ(check("mail").message, places_.root.string() + "/shared/mail: No such file or directory");
  EXPECT_EQ(check("mail").remedy,
            "install -d -o ACCOUNT -g ACCOUNT -m 700 /shared/mail /shared/mail/state && install -o ACCOUNT -g ACCOUNT "
            "-m 600 /dev/null /shared/mail/.lock && chmod 3733 /shared/mail, with the account of reveal-mailer.service")
      << "users can write there only when the mailer's own files are there";
  write("shared/mail/x", "");
  ::chmod((places_.root / "shared/mail").c_str(), 03733);
  EXPECT_EQ(check("mail").message, "left for the site's mailer in /shared/mail");
  write("etc/reveal/no-mail", "");
  EXPECT_EQ(check("mail").remedy, "rm /etc/reveal/no-mail");
}

TEST_F(SiteChecks, TellWhyThereIsNoHistory) {
  places_.history.clear();
  places_.why_no_history = "root keeps no history";
  EXPECT_EQ(check("history").message, "root keeps no history");
  places_.config_problem = {"reveal.conf:2: unknown key"};
  EXPECT_EQ(check("reveal.conf").result, Result::problem);
}

}  // namespace
}  // namespace reveal::tests::site_checks_test
