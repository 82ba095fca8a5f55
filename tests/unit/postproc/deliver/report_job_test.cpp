#include "postproc/deliver/report_job.h"

#include <gtest/gtest.h>

#include <chrono>

#include "fake_sbatch.h"

namespace reveal::tests::report_job_test {
namespace {

TEST(ReportJob, CountsItsMailWithThoseOfEpilogs) {
  SlurmJob job;
  job.place.user = "ada";
  job.place.nodes = {"n01", "n02"};
  job.names.mail_user = "ada@example.org";
  job.names.array_job = "4710";
  ReportJobCommand command{.program = "/usr/bin/reveal",
                           .config = "/etc/reveal/reveal.conf",
                           .request = "mail=yes",
                           .mail_state = "/home/ada/.local/state/reveal/mail/hydra",
                           .downsample_traces = true};
  EXPECT_EQ(shell_text(command, job, "/home/ada/reveal-4711"),
            "'/usr/bin/reveal' report '/home/ada/reveal-4711' --config '/etc/reveal/reveal.conf' --expect 'n[01-02]' "
            "--retain 'summary' && REVEAL_MAIL_TO='yes' REVEAL_MAIL_USER='ada@example.org' '/usr/bin/reveal' mail "
            "'/home/ada/reveal-4711' --config '/etc/reveal/reveal.conf' --user 'ada' --array '4710' --state "
            "'/home/ada/.local/state/reveal/mail/hydra'");
  command = {.program = "reveal"};
  EXPECT_EQ(shell_text(command, {}, "/d"), "'reveal' report '/d' && 'reveal' mail '/d'");
}

TEST(ReportJob, IsSubmittedWithoutTheUsersRequestInACommandLine) {
  const FakeSbatch sbatch;
  SlurmJob job;
  job.place.id = "4711";
  EXPECT_EQ(submit_report_job(job, "/d", "REVEAL_MAIL_TO='ada@example.org' reveal mail", std::chrono::seconds(9)), "");
  EXPECT_EQ(sbatch.words(),
            "--reveal=off --parsable --dependency=afterany:4711 --job-name=reveal-report --time=15 --output=/dev/null "
            "--chdir=/d --export=NONE --begin=now+9 --nodes=1 --ntasks=1 --mem=2048M\n");
  EXPECT_EQ(sbatch.script(), "#!/bin/sh\nREVEAL_MAIL_TO='ada@example.org' reveal mail\n");
}

TEST(ReportJob, AsksForTheMemoryOfItsNodes) {
  EXPECT_EQ(megabytes_of_report(1, 1), 2048U) << "as in an epilog";
  EXPECT_EQ(megabytes_of_report(10'000, 1), 2461U) << "twice the memory of the merge";
  EXPECT_EQ(megabytes_of_report(10'000, 40), 3815U) << "all of its tasks may be on one node";
  EXPECT_EQ(megabytes_of_report(65'536, 64), 15'702U);
}

TEST(ReportJob, TakesTheMemoryThatSlurmGivesItWhereItsOwnIsRefused) {
  const FakeSbatch sbatch("*--mem=*");
  EXPECT_EQ(submit_report_job({}, "/d", "reveal report", {}), "");
  EXPECT_EQ(sbatch.sizes(),
            (std::vector<std::string>{"off --nodes=1 --ntasks=1 --mem=2048M", " --nodes=1 --ntasks=1 --mem=2048M",
                                      "off --nodes=1 --ntasks=1"}));
}

TEST(ReportJob, TakesOneCpuWhereMoreAreRefused) {
  const FakeSbatch sbatch("*--ntasks=2*|*--reveal=off*");
  SlurmJob job;
  for (int i = 1; i <= 257; ++i) job.place.nodes.push_back("n" + std::to_string(i));
  EXPECT_EQ(submit_report_job(job, "/d", "reveal report", {}), "");
  EXPECT_EQ(sbatch.sizes(),
            (std::vector<std::string>{"off --ntasks=2 --mem=2048M", " --ntasks=2 --mem=2048M", "off --ntasks=2",
                                      " --ntasks=2", "off --nodes=1 --ntasks=1 --mem=2048M",
                                      " --nodes=1 --ntasks=1 --mem=2048M"}));
}

TEST(ReportJob, ThatIsRefusedAltogetherIsAskedForOnceForEachSize) {
  const FakeSbatch sbatch("*");
  EXPECT_EQ(submit_report_job({}, "/d", "reveal report", {}), "sbatch ended with status 1");
  EXPECT_EQ(sbatch.sizes().size(), 4U);
}

TEST(ReportJob, ReadsTheSummariesOfLargeJobsInSteps) {
  EXPECT_EQ(tasks_of_report(0), 1U);
  EXPECT_EQ(tasks_of_report(256), 1U);
  EXPECT_EQ(tasks_of_report(257), 2U);
  EXPECT_EQ(tasks_of_report(10'000), 40U);
  EXPECT_EQ(tasks_of_report(65'536), 64U);
  SlurmJob job;
  for (int i = 1; i <= 257; ++i) job.place.nodes.push_back("n" + std::to_string(i));
  const std::string text = shell_text({.program = "reveal", .config = "/c"}, job, "/d");
  const std::string steps =
      "[ \"${SLURM_NTASKS:-1}\" -gt 1 ] && srun --mpi=none "
      "--kill-on-bad-exit=0 --time=10 'reveal' merge-part '/d' "
      "--config '/c'; 'reveal' report '/d' ";
  EXPECT_EQ(text.substr(0, steps.size()), steps) << "the report comes even if the steps fail";
  job.place.nodes.pop_back();
  EXPECT_TRUE(shell_text({.program = "reveal"}, job, "/d").starts_with("'reveal' report '/d' "));
}

TEST(ReportJob, QuotesForTheShell) {
  EXPECT_EQ(shell_quoted("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace reveal::tests::report_job_test
