// Which processes outside the job are named, and to whom.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "tests/unit/core/test_host.h"

namespace reveal {
namespace {

class OutsidersOnHost : public ::testing::Test {
 protected:
  OutsidersOnHost() {
    host.last_pid(700);
    host.process(500, 1, "train", 0, 0);
  }
  void process(int pid, const std::string& command, int ticks, unsigned uid) {
    host.process(pid, 1, command, ticks, 0);
    const std::string id = std::to_string(uid);
    host.write("/proc/" + std::to_string(pid) + "/status", "Name:\t" + command + "\nUid:\t" + id + "\t" + id + "\n");
  }
  TestHost host;
};

TEST_F(OutsidersOnHost, AreNamedWhereTheyBelongToWhoRecordsAndAreBusy) {
  process(600, "old run", 100, ::geteuid());
  process(601, "idle", 100, ::geteuid());
  const unsigned other = ::geteuid() + 1;
  process(602, "foreign", 100, other);
  ProbeBench bench(host, "outsiders", JobSource{.pid = 500});
  bench.sample();
  process(600, "old run", 190, ::geteuid());  // .9 s in a second
  process(602, "foreign", 190, other);
  host.process(500, 1, "train", 190, 0);
  bench.sample();
  const bool root = ::geteuid() == 0;
  EXPECT_EQ(bench.value("process/outsiders", "outsider.processes"), root ? 2 : 1);
}

TEST_F(OutsidersOnHost, AreNotTakenForTheProcessThatHadTheirNumberBefore) {
  process(600, "first", 1000, ::geteuid());
  ProbeBench bench(host, "outsiders", JobSource{.pid = 500});
  bench.sample();
  host.process(600, 1, "second", 2000, 0, 0, 777);
  bench.sample();
  EXPECT_EQ(bench.value("process/outsiders", "outsider.processes"), 0);
}

TEST(Outsiders, AreNobodyWithoutAJob) {
  TestHost host;
  ProbeBench bench(host, "outsiders");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
}

}  // namespace
}  // namespace reveal
