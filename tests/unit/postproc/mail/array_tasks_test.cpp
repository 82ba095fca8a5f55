#include "postproc/mail/array_tasks.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hdf5schema/basics/error.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::array_tasks_test {
namespace {

namespace fs = std::filesystem;

class ArrayTasksTest : public ::testing::Test {
 protected:
  static ArrayTask task(const std::string& number, const std::string& user = "ada") {
    ArrayTask made;
    made.array = number.substr(0, number.find('_'));
    made.task = number;
    made.has_result = true;
    made.directory = "/home/ada/reveal-" + number;
    made.request.user = user;
    made.status = VerdictStatus::finding;
    made.severity = Severity::warning;
    return made;
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(state_), fs::directory_iterator()));
  }
  static std::vector<std::string> numbers(const std::vector<ArrayTask>& tasks) {
    std::vector<std::string> found;
    for (const ArrayTask& one : tasks) found.push_back(one.task);
    return found;
  }

  TemporaryDirectory directory_of_test_;
  const std::string state_ = directory_of_test_.path().string() + "/mail";
  ArrayTasks kept_{state_};
};
using Numbers = std::vector<std::string>;

TEST_F(ArrayTasksTest, ReturnsWhatWasKept) {
  ArrayTask one = task("4710_3");
  one.request.asked = "yes";
  one.request.mail_user = "ada@example.org";
  one.admins_notified = true;
  one.state = "FAILED";
  one.title = "The network lost packets";
  one.lost_seconds = 7.25;
  one.lost_at_most = true;
  one.lost_perhaps = true;
  one.rules = {"net.loss", "cpu.outsider"};
  one.utc_ns = 1'763'640'000'000'000'000;
  kept_.keep(one);
  const std::vector<ArrayTask> all = ArrayTasks(state_).all("4710", "ada");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].task, "4710_3");
  EXPECT_TRUE(all[0].has_result);
  EXPECT_EQ(all[0].directory, "/home/ada/reveal-4710_3");
  EXPECT_EQ(all[0].request.asked, "yes");
  EXPECT_EQ(all[0].request.mail_user, "ada@example.org");
  EXPECT_TRUE(all[0].admins_notified);
  EXPECT_EQ(all[0].state, "FAILED");
  EXPECT_EQ(all[0].status, VerdictStatus::finding);
  EXPECT_EQ(all[0].severity, Severity::warning);
  EXPECT_EQ(all[0].title, "The network lost packets");
  EXPECT_EQ(all[0].lost_seconds, 7.25);
  EXPECT_EQ(all[0].lost_percent, std::nullopt) << "not measured is not 0";
  EXPECT_TRUE(all[0].lost_at_most);
  EXPECT_TRUE(all[0].lost_perhaps);
  EXPECT_EQ(all[0].rules, (std::vector<std::string>{"net.loss", "cpu.outsider"}));
  EXPECT_EQ(all[0].utc_ns, 1'763'640'000'000'000'000);
}

TEST_F(ArrayTasksTest, HoldsOneRecordOfATaskAndKeepsArraysAndUsersApart) {
  kept_.keep(task("4710_3"));
  kept_.keep(task("4710_3"));
  kept_.keep(task("4710_4", "eve"));
  kept_.keep(task("471_3"));
  EXPECT_EQ(numbers(kept_.all("4710", "ada")), Numbers{"4710_3"});
  EXPECT_EQ(numbers(kept_.all("471", "ada")), Numbers{"471_3"});
  EXPECT_EQ(kept_.all().size(), 3U);
  kept_.remove(task("4710_3"));
  EXPECT_TRUE(kept_.all("4710", "ada").empty());
  EXPECT_EQ(files(), 2U);
}

TEST_F(ArrayTasksTest, ExpectsNoTaskThatHasAResult) {
  ArrayTask coming = task("4710_3");
  coming.has_result = false;
  kept_.expect(coming);
  EXPECT_FALSE(kept_.all("4710", "ada").at(0).has_result);
  kept_.keep(task("4710_3"));
  kept_.expect(coming);
  kept_.drop(coming);
  EXPECT_TRUE(kept_.all("4710", "ada").at(0).has_result);
  coming.task = "4710_4";
  kept_.expect(coming);
  kept_.drop(coming);
  EXPECT_EQ(numbers(kept_.all("4710", "ada")), Numbers{"4710_3"});
}

TEST_F(ArrayTasksTest, KeepsAtMostAThousandTasksOfAnArrayAndTasksWithAFindingBesides) {
  ArrayTask healthy = task("4710_0");
  healthy.status = VerdictStatus::healthy;
  for (int i = 0; i < 1010; ++i) {
    healthy.task = "4710_" + std::to_string(i);
    kept_.keep(healthy);
  }
  EXPECT_EQ(files(), 1000U);
  kept_.keep(task("4710_1009"));
  EXPECT_EQ(files(), 1001U);
  kept_.keep(task("4710_0"));  // replaces its own
  kept_.keep(task("4711_0"));
  EXPECT_EQ(files(), 1002U);
}

TEST_F(ArrayTasksTest, SortsFindingsBySeverityThenByCostThenByNumber) {
  std::vector<ArrayTask> tasks{task("4710_10"), task("4710_9"), task("4710_3"), task("4710_1"), task("4710_2")};
  tasks[2].lost_seconds = 60;
  tasks[3].status = VerdictStatus::healthy;
  tasks[4].severity = Severity::critical;
  sort_worst_first(tasks);
  EXPECT_EQ(numbers(tasks), (Numbers{"4710_2", "4710_3", "4710_9", "4710_10", "4710_1"}));
}

TEST_F(ArrayTasksTest, DeletesBrokenFilesAndFollowsNoLink) {
  std::ofstream(state_ + "/task-4710-broken") << "{\"schema\": \"reveal.array-task/1\", ";
  std::ofstream(state_ + "/task-4710-renamed") << render_array_task(task("4710_1"));
  std::ofstream(state_ + "/task-4710-later") << "{\"schema\": \"reveal.array-task/2\"}";
  fs::create_symlink("/etc/passwd", state_ + "/task-4710-link");
  EXPECT_TRUE(kept_.all("4710", "ada").empty());
  EXPECT_TRUE(fs::exists(state_ + "/task-4710-later")) << "another version of reveal needs it";
  EXPECT_EQ(files(), 2U);
  EXPECT_TRUE(fs::exists("/etc/passwd"));
}

TEST_F(ArrayTasksTest, RefusesWhatIsNoTask) {
  for (const char* text :
       {"", "[]", "null", "{}", "{\"schema\": 1}", "{\"schema\": \"reveal.array-task/1\", \"array\": \"../x\"}",
        "{\"schema\": \"reveal.array-task/1\", \"array\": \"4710\", \"status\": \"sick\"}",
        "{\"schema\": \"reveal.array-task/1\", \"array\": \"4710\", \"rules\": 7}"}) {
    EXPECT_THROW(static_cast<void>(parse_array_task(text)), Error) << text;
  }
}

TEST_F(ArrayTasksTest, WritesNothingForAnArrayThatIsNoNumber) {
  ArrayTask odd = task("4710_1");
  odd.array = "../4710";
  kept_.keep(odd);
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace reveal::tests::array_tasks_test
