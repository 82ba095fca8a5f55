#include "postproc/analysis/runs_of_job.h"

#include <gtest/gtest.h>

namespace reveal::tests::runs_of_job_test {
namespace {

TEST(RunsOfJob, KnowNumbersAsSlurmWritesThem) {
  for (const char* number : {"4711", "4710_3", "4711+1", "0"}) EXPECT_TRUE(is_number_of_job(number)) << number;
  for (const char* word : {"", "_3", "4710_", "4710_3_1", "4711+", "4711+1_2", "reveal-4711", "4711 ", "4711/..", "-1",
                           "47111111111111111111111111111111111"}) {
    EXPECT_FALSE(is_number_of_job(word)) << word;
  }
}

TEST(RunsOfJob, BelongToTheJobTheArrayAndTheComponent) {
  RunRecord task;
  task.job = "4713";
  task.array = "4710_3";
  for (const char* number : {"4713", "4710_3", "4710"}) EXPECT_TRUE(is_of_job(task, number)) << number;
  for (const char* number : {"4710_30", "4710_", "471", "3", "4711"}) EXPECT_FALSE(is_of_job(task, number)) << number;
  EXPECT_EQ(job_number(task), "4710_3");
  RunRecord component;
  component.job = "4712";
  component.het = "4711+1";
  EXPECT_TRUE(is_of_job(component, "4711") && is_of_job(component, "4711+1") && is_of_job(component, "4712"));
  EXPECT_FALSE(is_of_job(component, "4711+0"));
  EXPECT_EQ(job_number(RunRecord{}), "");
}

TEST(RunsOfJob, AreNoneWithoutAHistory) {
  EXPECT_TRUE(runs_of_job("4711", StatePlace{"", "no home"}).empty());
  EXPECT_TRUE(runs_of_job("4711", StatePlace{"/nowhere/at/all", ""}).empty());
}

}  // namespace
}  // namespace reveal::tests::runs_of_job_test
