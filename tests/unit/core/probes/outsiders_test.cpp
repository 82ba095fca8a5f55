// The processes outside the job that are named, and the user to whom they are named.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "hdf5schema/basics/file_text.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::outsiders_test {
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

TEST_F(OutsidersOnHost, AreNotThoseOnCpusThatTheJobMayNotUse) {
  process(600, "neighbour", 100, ::geteuid());
  ProbeBench bench(host, "outsiders", JobSource{.pid = 500});
  host.write("/proc/500/status", "Cpus_allowed_list:\t0\n");  // process 600 runs on cpu 1
  bench.sample();
  process(600, "neighbour", 190, ::geteuid());
  bench.sample();
  EXPECT_EQ(bench.value("process/outsiders", "outsider.processes"), 0);
  host.write("/proc/500/status", "Cpus_allowed_list:\t0-1\n");
  process(600, "neighbour", 280, ::geteuid());
  bench.sample();
  EXPECT_EQ(bench.value("process/outsiders", "outsider.processes"), 1);
}

TEST_F(OutsidersOnHost, AreNotTakenForTheProcessThatHadTheirNumberBefore) {
  process(600, "first", 1000, ::geteuid());
  ProbeBench bench(host, "outsiders", JobSource{.pid = 500});
  bench.sample();
  host.process(600, 1, "second", 2000, 0, 0, 777);
  bench.sample();
  EXPECT_EQ(bench.value("process/outsiders", "outsider.processes"), 0);
}

TEST_F(OutsidersOnHost, AreNotTheWorkersOfTheCollector) {
  constexpr int kCollector = 60;
  const auto run = [this](int ticks) {
    process(603, "worker", ticks, ::geteuid());
    process(604, "other", ticks, ::geteuid());
    const std::string id = std::to_string(::geteuid());
    host.write("/proc/603/status", "Name:\tworker\nPPid:\t60\nUid:\t" + id + "\t" + id + "\n");
  };
  run(100);
  KernelTree fs(host.root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"outsiders"}, .job = JobSource{.pid = 500}, .own_pid = kCollector},
                  {1'000'000'000, 1'000'000'000});
  sampler.look_first();
  run(190);
  sampler.sample({.time = {2'000'000'000, 2'000'000'000}, .number = 300});
  EXPECT_EQ(sink.find("process/outsiders")->value("outsider.processes", ""), 1);
}

TEST_F(OutsidersOnHost, AreReadInARecordingOnceTheJobHasLookedForThem) {
  host.write("/proc/loadavg", "\n");  // without the last process id, the job looks for new processes once a second
  const std::filesystem::path folder = host.root() / "recording";
  KernelTree fs(host.root());
  fs.record_to(folder);
  TraceSink sink;
  Sampler sampler(fs, sink,
                  {.interval = std::chrono::milliseconds(100), .probes = {"outsiders"}, .job = JobSource{.pid = 500}},
                  {1'000'000'000, 1'700'000'000'000'000'000});
  sampler.look_first();
  const auto sample = [&](std::int64_t tenth) {
    constexpr std::int64_t kAllDue = 300;
    const TickTime time{1'000'000'000 + tenth * 100'000'000, 1'700'000'000'000'000'000};
    fs.mark_tick(time);
    sampler.sample({.time = time, .number = tenth * kAllDue});
  };
  sample(1);
  process(701, "new", 0, ::geteuid());
  sample(2);
  sample(3);
  fs.end_recording();
  const std::string recording = file_text(folder / "ticks.rec");
  const std::size_t read = recording.find("F/proc/701/stat");
  ASSERT_NE(read, std::string::npos);
  EXPECT_GT(read, recording.find("\n= 1300000000 "));
}

/// Names of other users' processes are not read for this: only control groups.
class KindsOfOutsiders : public OutsidersOnHost {
 protected:
  KindsOfOutsiders() { host.process(1, 0, "init", 0, 0); }
  /// Adds a process of an account other than the recording one.
  void foreign(int pid, int ticks, const std::string& groups, unsigned uid = 7) {
    process(pid, "foreign", ticks, uid);
    host.write("/proc/" + std::to_string(pid) + "/cgroup", groups);
  }
  static std::int64_t used(const ProbeBench& bench, const std::string& kind) {
    return bench.value("process/outsider_time", "outsider.cpu_time", kind);
  }
};

TEST_F(KindsOfOutsiders, AreToldByTheirControlGroups) {
  host.process(500, 1, "train", 0, 0);
  host.write("/proc/500/cgroup", "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n");
  const auto run = [this](int ticks) {
    foreign(600, ticks, "0::/system.slice/plocate-updatedb.service\n");
    foreign(601, 2 * ticks, "0::/system.slice/slurmstepd.scope/job_13/step_0/user/task_0\n");
    foreign(602, 3 * ticks, "5:cpuset:/slurm/uid_1001/job_14/step_0\n1:name=systemd:/system.slice/slurmd.service\n");
    foreign(603, 4 * ticks, "0::/user.slice/user-1001.slice/session-2.scope\n");
    foreign(604, 5 * ticks, "0::/system.slice/slurmstepd.scope/job_12/step_extern/slurm\n");
    foreign(606, 7 * ticks, "0::/system.slice/jupyter-alice-singleuser.service\n", 4711);
    foreign(607, 8 * ticks, "0::/system.slice/docker-4f5e.scope\n");
    foreign(605, 6 * ticks, "0::/\n");
    host.write("/proc/605/status", "Name:\tkswapd0\nPPid:\t2\nUid:\t0\t0\n");
  };
  run(1);
  ProbeBench bench(host, "outsiders", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(used(bench, "services"), 0);
  run(11);
  bench.sample();
  EXPECT_EQ(used(bench, "services"), 10 * kTick);
  EXPECT_EQ(used(bench, "jobs"), (20 + 30 + 80) * kTick);
  EXPECT_EQ(used(bench, "others"), (40 + 70) * kTick) << "and nobody of the job's own control group";
  EXPECT_EQ(used(bench, "kernel"), 60 * kTick);
}

TEST_F(KindsOfOutsiders, CountFromTheirBirth) {
  ProbeBench bench(host, "outsiders", JobSource{.pid = 500});
  bench.sample();
  foreign(700, 30, "0::/system.slice/cron.service\n");
  host.last_pid(701);
  bench.sample();
  EXPECT_EQ(used(bench, "services"), 30 * kTick);
  foreign(702, 5000, "0::/system.slice/cron.service\n");  // on two cpus it must be older
  host.last_pid(702);
  bench.sample();
  EXPECT_EQ(used(bench, "services"), 30 * kTick);
}

TEST_F(KindsOfOutsiders, AreNotKnownWhereProcHidesOthers) {
  host.remove("/proc/1");
  ProbeBench bench(host, "outsiders", JobSource{.pid = 500});
  bench.sample();
  EXPECT_EQ(used(bench, "services"), kMissing);
}

TEST(Outsiders, AreNobodyWithoutAJob) {
  TestHost host;
  ProbeBench bench(host, "outsiders");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
}

}  // namespace
}  // namespace reveal::tests::outsiders_test
