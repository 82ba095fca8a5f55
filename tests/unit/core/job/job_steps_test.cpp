// The steps of a Slurm job, found by their step daemons.
#include "hdf5schema/basics/error.h"
#include "job_on_host.h"

namespace reveal::tests::job_steps_test {
namespace {

void step_daemon(const TestHost& host, int pid, const std::string& step, const std::string& cgroup) {
  host.process(pid, 1, "slurmstepd", 7, 0);
  host.write("/proc/" + std::to_string(pid) + "/status",
             "Name:\tslurmstepd\nUid:\t0\t0\t0\t0\nTgid:\t" + std::to_string(pid) + "\n");
  host.write("/proc/" + std::to_string(pid) + "/cmdline", "slurmstepd: [" + step + "]" + std::string(1, '\0'));
  host.write("/proc/" + std::to_string(pid) + "/cgroup", cgroup);
}

TEST_F(JobOnHost, FindsTheStepsOfASlurmJobAndLeavesOthersAlone) {
  host_.last_pid(950);
  step_daemon(host_, 500, "4711.batch", "8:freezer:/slurm_n1/uid_5/job_4711/step_batch\n");
  step_daemon(host_, 600, "4711.0", "8:freezer:/slurm_n2/uid_5/job_4711/step_0\n");
  step_daemon(host_, 700, "47.0", "8:freezer:/slurm_n1/uid_5/job_47/step_0\n");
  for (const int pid : {501, 601, 701}) host_.process(pid, pid - 1, "python3", 10, 0);
  start(JobSource::parse("slurm:4711@n1"));
  EXPECT_NE(job_->find(501), nullptr);
  EXPECT_EQ(job_->find(601), nullptr);  // a process of another node on this kernel
  EXPECT_EQ(job_->find(701), nullptr);
  EXPECT_EQ(job_->cpu_time_ns(), 10 * kTick);  // without the daemon's own work
  EXPECT_EQ(job_->cgroup_name(), "/job_4711");
  EXPECT_TRUE(job_->saw_other_job());
}

TEST_F(JobOnHost, TakesWhatAStepDaemonForksOrItsThreadForNoStepDaemon) {
  host_.last_pid(400);
  start(JobSource::parse("slurm:4711"));
  const std::string group = "0::/system.slice/slurmstepd.scope/job_4711/step_extern\n";
  for (const int pid : {500, 501, 502}) {
    step_daemon(host_, pid, "4711.extern", group);
    host_.write("/proc/" + std::to_string(pid) + "/comm", "slurmstepd\n");
  }
  host_.process(501, 500, "slurmstepd", 0, 0);
  host_.write("/proc/501/status", "Name:\tslurmstepd\nTgid:\t501\nPPid:\t500\nUid:\t0\t0\t0\t0\n");
  host_.write("/proc/502/status", "Name:\tslurmstepd\nTgid:\t500\nPPid:\t1\nUid:\t0\t0\t0\t0\n");
  host_.last_pid(502);
  step(10);
  host_.process(501, 500, "sleep", 3, 0);
  step(10);
  ASSERT_NE(job_->find(501), nullptr);
  EXPECT_FALSE(job_->find(501)->launcher);
  EXPECT_TRUE(job_->is_keeper(*job_->find(501)));
  EXPECT_EQ(job_->find(502), nullptr);
}

TEST_F(JobOnHost, TakesAStepThatNamesItselfLateAndStaysBetweenSteps) {
  host_.last_pid(400);
  start(JobSource::parse("slurm:4711"));
  EXPECT_TRUE(job_->processes().empty());
  host_.process(500, 1, "slurmstepd", 1, 0);
  host_.write("/proc/500/status", "Uid:\t0\t0\t0\t0\nTgid:\t500\n");
  host_.write("/proc/500/cmdline", "");  // in the middle of its exec
  host_.last_pid(500);
  step(11);
  host_.write("/proc/500/cmdline", std::string("/usr/sbin/slurmstepd\0infinity\0", 30));
  host_.process(501, 500, "sleep", 1, 0);
  host_.last_pid(501);
  step();
  EXPECT_EQ(job_->find(501), nullptr);
  step_daemon(host_, 500, "4711.0", "0::/system.slice/slurmstepd.scope/job_4711/step_0\n");
  step(20);
  EXPECT_NE(job_->find(501), nullptr);
  host_.remove("/proc/500");
  host_.remove("/proc/501");
  step(600);
  EXPECT_FALSE(job_->ended());
  step(6000);
  EXPECT_TRUE(job_->ended());
}

TEST_F(JobOnHost, KnowsAStepByItsControlGroupWhereItsTitleIsCut) {
  host_.last_pid(950);
  step_daemon(host_, 500, "4711.0", "8:freezer:/slurm/uid_5/job_4711/step_0\n");
  step_daemon(host_, 600, "4711.1", "0::/system.slice/slurmstepd.scope/job_4712/step_1/slurm\n");
  step_daemon(host_, 700, "4711.2", "0::/system.slice/slurmstepd.scope/system\n");
  for (const int pid : {500, 600, 700}) {
    host_.write("/proc/" + std::to_string(pid) + "/cmdline", std::string("slurmstepd: [471\0d\0", 19));
  }
  for (const int pid : {501, 601, 701}) host_.process(pid, pid - 1, "python3", 10, 0);
  start(JobSource::parse("slurm:4711"));
  EXPECT_NE(job_->find(501), nullptr);
  EXPECT_EQ(job_->find(601), nullptr);
  EXPECT_EQ(job_->find(701), nullptr);
}

TEST_F(JobOnHost, BelievesNoStepDaemonThatIsNotRoots) {
  host_.last_pid(950);
  step_daemon(host_, 500, "4711.0", "0::/user.slice\n");
  host_.write("/proc/500/status", "Name:\tslurmstepd\nUid:\t1000\t1000\t1000\t1000\nTgid:\t500\n");
  host_.process(501, 500, "sleep", 1, 0);
  start(JobSource::parse("slurm:4711"));
  EXPECT_TRUE(job_->processes().empty());
}

TEST(JobSource, OfSlurmIsANumber) {
  EXPECT_EQ(JobSource::parse("slurm:4711@n1").slurm_node, "n1");
  EXPECT_THROW(static_cast<void>(JobSource::parse("slurm:")), Error);
  EXPECT_THROW(static_cast<void>(JobSource::parse("slurm:47x1")), Error);
}

}  // namespace
}  // namespace reveal::tests::job_steps_test
