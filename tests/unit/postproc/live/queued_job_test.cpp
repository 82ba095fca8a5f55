#include "postproc/live/queued_job.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/live/slurm_watch.h"

namespace reveal::tests::queued_job_test {
namespace {

// squeue of Slurm 22.05.
constexpr const char* kArray =
    "564001|564001_2|RUNNING|1|None\n"
    "564004|564001_1|RUNNING|1|None\n"
    "564003|564001_0|COMPLETED|1|None\n";
constexpr const char* kHeterogeneous =
    "564005|564005+0|RUNNING|1|None\n"
    "564006|564005+1|RUNNING|2|None\n";

std::string refusal(const std::string& number, const std::string& listed) {
  try {
    static_cast<void>(running_job(number, parse_queue(listed)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(QueuedJob, IsNamedByItsNumberOrThatOfAPart) {
  for (const char* number : {"4711", "4711_3", "4711+1", "4711.0", "4711.batch"}) EXPECT_TRUE(is_job_number(number));
  for (const char* other : {"", "x", "4711x", "4711_", "4711_3_1", "4711_[0-3]", "_3", "4711+", "4711.", "4711.x", "-1",
                            "4711 --wrap", "reveal-4711"}) {
    EXPECT_FALSE(is_job_number(other)) << other;
  }
}

TEST(QueuedJob, OfAnArrayIsOneTask) {
  const QueuedJob task = running_job("564001_1", parse_queue("564004|564001_1|RUNNING|1|None\n"));
  EXPECT_EQ(task.id, "564004");
  EXPECT_EQ(task.nodes, 1U);
  EXPECT_EQ(refusal("564001", kArray),
            "564001 has 2 jobs that run: 564001_2, 564001_1; watch one of them: reveal watch 564001_2");
}

TEST(QueuedJob, OfAHeterogeneousJobIsOneComponent) {
  const QueuedJob second = running_job("564005+1", parse_queue(kHeterogeneous));
  EXPECT_EQ(second.id, "564006");
  EXPECT_EQ(second.nodes, 2U);
  const std::vector<std::string> words = words_of_srun(second);
  EXPECT_EQ(words[0], "srun");
  EXPECT_EQ(words[1], "--jobid=564005");
  EXPECT_EQ(words[2], "--het-group=1");
  EXPECT_EQ(running_job("564006", parse_queue("564006|564005+1|RUNNING|2|None\n")).number, "564005+1");
  EXPECT_EQ(refusal("564005", kHeterogeneous),
            "564005 has 2 jobs that run: 564005+0, 564005+1; watch one of them: reveal watch 564005+0");
}

TEST(QueuedJob, ThatDoesNotRunIsRefusedWithItsState) {
  EXPECT_EQ(refusal("4711", "4711|4711|PENDING|3|Resources\n"),
            "job 4711 has not started (PENDING, Resources): watch it when it runs");
  EXPECT_EQ(refusal("4711", "4711|4711|COMPLETED|3|None\n"),
            "job 4711 has ended (COMPLETED); its report: reveal show 4711");
  EXPECT_EQ(refusal("4711_3", "4720|4711_3|CANCELLED|1|None\n"),
            "job 4711_3 has ended (CANCELLED); its report: reveal show 4720");
  EXPECT_EQ(refusal("4711", ""), "job 4711: squeue does not list it");
  EXPECT_EQ(running_job("4711", parse_queue("4711|4711|SUSPENDED|3|None\n")).nodes, 3U);
}

TEST(QueuedJob, IsReadFromLinesOfAnyKind) {
  EXPECT_TRUE(parse_queue("").empty());
  EXPECT_TRUE(parse_queue("\n|||||\nCLUSTER: c1\n4711\n4711|4711|RUNNING\n4711|4711|RUNNING|many|None\n"
                          "4711|4711|RUNNING|-1|None\nx|4711|RUNNING|1|None\n")
                  .empty());
  const auto jobs = parse_queue("1|1|RUNNING|99999999999|a|b\x1b[31m|c");
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].nodes, 100'000U);
  EXPECT_EQ(jobs[0].reason, "a|b|c");
}

TEST(QueuedJob, StepsAreNotWatched) {
  EXPECT_NO_THROW(need_whole_job("4711_3"));
  try {
    need_whole_job("4711.0");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "4711.0 is a step, and only whole jobs are watched: reveal watch 4711");
  }
}

TEST(WordsOfSlurm, AreItsErrorsOnOneLine) {
  EXPECT_EQ(words_of_slurm("srun: cluster configuration lacks support for cpu binding\n"
                           "srun: error: Unable to create step for job 5: Access/permission denied\n"),
            "error: Unable to create step for job 5: Access/permission denied");
  EXPECT_EQ(words_of_slurm("slurm_load_jobs error: Invalid job id specified\n"),
            "slurm_load_jobs error: Invalid job id specified");
  EXPECT_EQ(words_of_slurm("srun: job 5 queued\x1b]0;\x07\n"), "job 5 queued");
  EXPECT_EQ(words_of_slurm(""), "");
  EXPECT_EQ(errors_of_slurm("srun: cluster configuration lacks support for cpu binding\n"), "");
  EXPECT_EQ(errors_of_slurm("srun: error: a\nsrun: error: b\nerror: c\nerror: d\n"), "error: a; error: b; error: c");
}

TEST(WordsOfSrun, TakeNothingFromTheJob) {
  const std::vector<std::string> words = words_of_srun({"4711", "4711", "RUNNING", 16, "None"});
  EXPECT_EQ(words, (std::vector<std::string>{
                       "srun", "--jobid=4711", "--overlap", "--cpus-per-task=1", "--mem=0", "--gres=none", "--mpi=none",
                       "--cpu-bind=none", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--propagate=NONE",
                       "--chdir=/", "--job-name=reveal-watch", "--nodes=16", "--ntasks=16", "--ntasks-per-node=1"}));
}

}  // namespace
}  // namespace reveal::tests::queued_job_test
