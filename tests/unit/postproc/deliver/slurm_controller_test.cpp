#include "postproc/deliver/slurm_controller.h"

#include <gtest/gtest.h>

namespace reveal::tests::slurm_controller_test {
namespace {

TEST(SlurmController, CountsTheTasksOfAnArray) {
  const auto tasks = parse_unfinished_tasks("waiting_or_running 12\nin_epilog 3\n");
  ASSERT_TRUE(tasks);
  EXPECT_EQ(tasks->waiting_or_running, 12U);
  EXPECT_EQ(tasks->in_epilog, 3U);
}

TEST(SlurmController, GivesNoCountForAnAnswerThatIsCutOff) {
  for (const char* answer : {"", "waiting_or_running 0\n", "in_epilog 0\n", "waiting_or_running \nin_epilog 0\n",
                             "waiting_or_running -1\nin_epilog 0\n", "waiting_or_running 1x\nin_epilog 0\n"}) {
    EXPECT_FALSE(parse_unfinished_tasks(answer)) << answer;
  }
}

TEST(SlurmController, AsksNobodyAboutAnArrayThatIsNoNumber) {
  EXPECT_FALSE(query_array("", "", std::chrono::milliseconds(100)));
  EXPECT_FALSE(query_array("4710; rm -r /", "", std::chrono::milliseconds(100)));
}

}  // namespace
}  // namespace reveal::tests::slurm_controller_test
