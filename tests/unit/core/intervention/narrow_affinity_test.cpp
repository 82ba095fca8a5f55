// A job of four workers on a node of four cpus: which crowds may use more of them, and which are left alone.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>

#include "core/intervention/intervention.h"
#include "core/intervention/ownership.h"
#include "hdf5schema/basics/file_text.h"
#include "job_on_host.h"

namespace reveal::tests::narrow_affinity_test {
namespace {

namespace fs = std::filesystem;

constexpr int kLauncher = 500;
constexpr JobLoad kCrowded{.seconds = 1, .waiting = 3, .used = 1};

class MaskTable final : public ThreadMasks {
 public:
  [[nodiscard]] std::optional<CpuSet> read(int tid) const override {
    const auto found = cpus.find(tid);
    return found == cpus.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] int write(int tid, const CpuSet& wanted) override {
    if (refusal != 0) return refusal;
    CpuSet given = wanted;
    if (cpuset.size() > 0) given.keep(cpuset);
    cpus[tid] = given;
    return 0;
  }

  std::map<int, CpuSet> cpus;
  int refusal = 0;
  CpuSet cpuset;  // no thread gets others; empty: each does
};

std::string stat_of(int id, int ticks, int start, int parent = 500, int policy = 0) {
  return std::to_string(id) + " (worker) R " + std::to_string(parent) + " 1 1 0 -1 4194304 11 0 22 0 " +
         std::to_string(ticks) + " 0 0 0 20 0 1 0 " + std::to_string(start) +
         " 1000000 50 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 " + std::to_string(policy) + " 0 0 0\n";
}

class NarrowAffinityTest : public JobOnHost {
 protected:
  NarrowAffinityTest() {
    host_.write("/sys/devices/system/cpu/online", "0-3\n");
    host_.write("/run/rank.500", "0\n");
    host_.last_pid(900);
    host_.process(kLauncher, 1, "reveal-run", 0, 0);
    put_cpus_of_launcher("0-3");
    for (int i = 1; i <= 4; ++i) {
      Worker& worker = workers_[kLauncher + i];
      masks_.cpus[kLauncher + i] = CpuSet::of_list("0");
      put_status(kLauncher + i, 1000);
      put_environment(kLauncher + i, "HOME=/home/ada");
      put_times(kLauncher + i, worker);
    }
    put_idle();
  }

  void open() {
    start({.directory = host_.root() / "run"});
    kind_ = find_intervention("cpu.affinity_too_narrow")
                ->open({.fs = *fs_,
                        .job = *job_,
                        .host = machine_,
                        .masks = masks_,
                        .user = 1000,
                        .batch_system = batch_system_});
  }
  /// A second in which each worker uses as much as before; what its look shows.
  SeenFinding second(const JobLoad& load = kCrowded) {
    for (auto& [id, worker] : workers_) {
      worker.ticks += worker.per_second;
      put_times(id, worker);
    }
    for (std::size_t cpu = 0; cpu < std::size(idle_); ++cpu) idle_[cpu] += cpu == busy_cpu_ ? 10 : idle_per_second_;
    put_idle();
    step(10);
    return kind_->look(load);
  }
  SeenFinding seen() {
    open();
    second();  // their times are compared with those of the look before
    second();
    return second();
  }
  Change applied() {
    const SeenFinding sight = seen();
    EXPECT_TRUE(sight.finding);
    EXPECT_EQ(sight.refused, "");
    return kind_->apply();
  }
  void bind(const std::map<int, const char*>& lists) {
    for (const auto& [id, list] : lists) masks_.cpus[id] = CpuSet::of_list(list);
  }
  std::string cpus_of(int id) const { return masks_.cpus.at(id).list(); }

  void put_cpus_of_launcher(const std::string& list) {
    host_.write("/proc/500/status", "Name:\treveal-run\nUid:\t1000\t1000\nCpus_allowed_list:\t" + list + "\n");
  }
  void put_status(int id, int user) {
    host_.write("/proc/" + std::to_string(id) + "/status", "Name:\tworker\nUid:\t" + std::to_string(user) + "\t0\n");
  }
  void put_environment(int id, const std::string& variable) {
    host_.write("/proc/" + std::to_string(id) + "/environ", variable + '\0');
  }
  void put_group(int id, const std::string& path) {
    host_.write("/proc/" + std::to_string(id) + "/cgroup", "0::" + path + "\n");
  }

  struct Worker {
    int ticks = 100;
    int per_second = 25;
    int start = 200;
  };
  void put_times(int id, const Worker& worker) {
    const std::string text = stat_of(id, worker.ticks, worker.start);
    host_.write("/proc/" + std::to_string(id) + "/stat", text);
    host_.write("/proc/" + std::to_string(id) + "/task/" + std::to_string(id) + "/stat", text);
  }
  void put_idle() {
    std::string text = "cpu  1 2 3 4 5 6 7 0 0 0\n";
    for (std::size_t cpu = 0; cpu < std::size(idle_); ++cpu) {
      text += "cpu" + std::to_string(cpu) + " 1 2 3 " + std::to_string(idle_[cpu]) + " 5 6 7 0 0 0\n";
    }
    host_.write("/proc/stat", text + "intr 4711 0\n");
  }

  MaskTable masks_;
  std::map<int, Worker> workers_;
  int idle_[4] = {0, 0, 0, 0};
  int idle_per_second_ = 90;
  std::size_t busy_cpu_ = 99;  // the one that is not idle
  bool batch_system_ = false;
  std::unique_ptr<Intervention> kind_;
};

TEST_F(NarrowAffinityTest, GivesACrowdTheOtherCpusOfItsJobAndTakesThemBack) {
  const Change change = applied();
  EXPECT_EQ(change.threads, 4U);
  EXPECT_EQ(change.text, "widened the cpus of 4 processes (4 threads) from 0 to 0-3");
  for (const int id : {501, 502, 503, 504}) EXPECT_EQ(cpus_of(id), "0-3");
  EXPECT_FALSE(second({.seconds = 1, .waiting = 0, .used = 2}).finding);
  const Change undone = kind_->undo();
  EXPECT_EQ(undone.threads, 4U);
  EXPECT_EQ(undone.text, "gave 4 threads cpus 0 again");
  for (const int id : {501, 502, 503, 504}) EXPECT_EQ(cpus_of(id), "0");
}

TEST_F(NarrowAffinityTest, PutsNoReadingOfThreadsIntoARecording) {
  open();
  const fs::path folder = host_.root() / "recording";
  fs_->record_to(folder);
  for (int i = 0; i < 3; ++i) second();
  EXPECT_EQ(kind_->apply().threads, 4U);
  fs_->end_recording();
  const std::string recording = file_text(folder / "ticks.rec");
  EXPECT_NE(recording.find("/proc/501/stat"), std::string::npos) << "what the job's own reading recorded";
  EXPECT_EQ(recording.find("/task/501/stat"), std::string::npos);
  EXPECT_EQ(recording.find("F/proc/stat"), std::string::npos);
}

TEST_F(NarrowAffinityTest, ReadsTheCpusOfTheJobOnlyWhereItsThreadsCrowd) {
  bind({{501, "0"}, {502, "1"}, {503, "2"}, {504, "3"}});
  open();
  const fs::path folder = host_.root() / "recording";
  fs_->record_to(folder);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(second().finding);
  fs_->end_recording();
  EXPECT_EQ(file_text(folder / "ticks.rec").find("/proc/500/status"), std::string::npos);
}

TEST_F(NarrowAffinityTest, SeesNoCrowdInThreadsThatHaveACpuEach) {
  bind({{501, "0"}, {502, "1"}, {503, "2"}, {504, "3"}});
  for (auto& [id, worker] : workers_) worker.per_second = 99;
  EXPECT_FALSE(seen().finding);
}

TEST_F(NarrowAffinityTest, LeavesThreadsAloneThatAreBoundToPartsOfTheNode) {
  bind({{501, "0"}, {502, "0"}, {503, "1"}, {504, "1"}});
  for (auto& [id, worker] : workers_) worker.per_second = 50;
  const SeenFinding sight = seen();
  EXPECT_TRUE(sight.finding);
  EXPECT_EQ(sight.refused, "its busy threads are bound to different cpus");
}

TEST_F(NarrowAffinityTest, SeesNoCrowdWhereNobodyWaits) {
  open();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(second({.seconds = 1, .waiting = 0.3, .used = 1}).finding);
}

TEST_F(NarrowAffinityTest, SeesNoCrowdOnMostOfTheCpus) {
  bind({{501, "0-2"}, {502, "0-2"}, {503, "0-2"}, {504, "0-2"}});
  for (auto& [id, worker] : workers_) worker.per_second = 75;
  EXPECT_FALSE(seen().finding);
}

TEST_F(NarrowAffinityTest, SeesNoCrowdOnACpuThatOthersFill) {
  for (auto& [id, worker] : workers_) worker.per_second = 12;
  EXPECT_FALSE(seen().finding);
}

TEST_F(NarrowAffinityTest, LeavesACrowdAloneWhereTheOtherCpusAreBusy) {
  idle_per_second_ = 10;
  EXPECT_EQ(seen().refused, "the other cpus that the job owns were not idle");
}

TEST_F(NarrowAffinityTest, GivesNoMoreCpusThanTheLauncherWasGiven) {
  put_cpus_of_launcher("0-1");
  EXPECT_EQ(applied().text, "widened the cpus of 4 processes (4 threads) from 0 to 0-1");
  EXPECT_EQ(cpus_of(504), "0-1");
}

TEST_F(NarrowAffinityTest, TakesNoNodeOfABatchSystemForTheJobs) {
  batch_system_ = true;
  EXPECT_EQ(seen().refused, "no cpuset of its own confines the job, so that the cpus that it owns are not known");
  EXPECT_EQ(cpus_of(501), "0");
}

TEST_F(NarrowAffinityTest, GivesAJobOfABatchSystemTheCpusOfItsCpuset) {
  batch_system_ = true;
  host_.write("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  for (const int id : {501, 502, 503, 504}) put_group(id, "/job_4711/task_0");
  host_.write("/sys/fs/cgroup/job_4711/task_0/cpuset.cpus.effective", "0,2\n");
  host_.write("/sys/fs/cgroup/job_4711/task_0/cpuset.cpus", "\n");
  EXPECT_NE(seen().refused, "") << "the cpus of the whole node, as far as this group shows";
  host_.write("/sys/fs/cgroup/job_4711/task_0/cpuset.cpus", "0,2\n");
  host_.write("/sys/fs/cgroup/job_4711/task_0/cgroup.procs", "501\n502\n503\n504\n77\n");
  EXPECT_NE(second().refused, "") << "another process has these cpus, too";
  host_.write("/sys/fs/cgroup/job_4711/task_0/cgroup.procs", "501\n502\n503\n504\n");
  EXPECT_EQ(second().refused, "");
  EXPECT_EQ(kind_->apply().text, "widened the cpus of 4 processes (4 threads) from 0 to 0,2");
}

TEST_F(NarrowAffinityTest, LeavesProcessesOfOtherUsersAlone) {
  put_status(503, 1001);
  EXPECT_EQ(applied().text, "process 503 belongs to another user");
  for (const int id : {501, 502, 503, 504}) EXPECT_EQ(cpus_of(id), "0");
}

TEST_F(NarrowAffinityTest, LeavesProcessesInOtherControlGroupsAlone) {
  for (const int id : {501, 502, 504}) put_group(id, "/user/job");
  put_group(503, "/user/jobs_of_others");
  EXPECT_EQ(applied().text, "process 503 is in another control group than the job");
  EXPECT_EQ(cpus_of(501), "0");
}

TEST_F(NarrowAffinityTest, LeavesAJobAloneThatBindsItsThreadsItself) {
  put_environment(502, "OMP_PROC_BIND=close");
  EXPECT_EQ(applied().text, "the job binds its threads itself (OMP_PROC_BIND)");
  put_environment(502, "OMP_PROC_BIND=false");
  EXPECT_EQ(kind_->apply().threads, 4U);
}

TEST_F(NarrowAffinityTest, LeavesAJobAloneWhoseUserRefused) {
  put_environment(504, "REVEAL_INTERVENE=off");
  EXPECT_EQ(applied().text, "its user refused (REVEAL_INTERVENE)");
  put_environment(504, "REVEAL_INTERVENE=certainly not");
  EXPECT_EQ(kind_->apply().threads, 0U);
  host_.remove("/proc/504/environ");
  EXPECT_EQ(kind_->apply().text, "the environment of process 504 cannot be read");
  put_environment(504, "REVEAL_INTERVENE=on");
  EXPECT_EQ(kind_->apply().threads, 4U);
}

TEST_F(NarrowAffinityTest, SaysWhyTheKernelRefused) {
  masks_.refusal = EPERM;
  const Change change = applied();
  EXPECT_EQ(change.threads, 0U);
  EXPECT_EQ(change.text, "the kernel refused it: Operation not permitted");
}

TEST_F(NarrowAffinityTest, TakesNothingBackThatTheJobChangedOrThatIsNoLongerThere) {
  applied();
  bind({{501, "2"}});         // it chose that itself
  workers_[502].start = 900;  // another process with its number
  host_.remove("/proc/503");  // it ended
  put_times(502, workers_[502]);
  const Change undone = kind_->undo();
  EXPECT_EQ(undone.text, "gave 1 thread cpus 0 again");
  EXPECT_EQ(cpus_of(501), "2");
  EXPECT_EQ(cpus_of(502), "0-3");
  EXPECT_EQ(cpus_of(504), "0");
}

TEST_F(NarrowAffinityTest, TakesCpusBackFromThreadsThatInheritedThem) {
  applied();
  bind({{601, "0-3"}, {602, "1-2"}});
  host_.write("/proc/501/task/601/stat", stat_of(601, 0, 800));
  host_.write("/proc/501/task/602/stat", stat_of(602, 0, 800));
  EXPECT_EQ(kind_->undo().threads, 5U);
  EXPECT_EQ(cpus_of(601), "0");
  EXPECT_EQ(cpus_of(602), "1-2");
}

TEST_F(NarrowAffinityTest, TakesCpusBackFromProcessesThatInheritedThem) {
  applied();
  for (const int id : {901, 902, 903}) {
    masks_.cpus[id] = CpuSet::of_list(id == 902 ? "1-2" : "0-3");
    put_status(id, 1000);
    put_environment(id, "HOME=/home/ada");
    const std::string stat = stat_of(id, 0, 800, id == 903 ? kLauncher : 501);
    host_.write("/proc/" + std::to_string(id) + "/stat", stat);
    host_.write("/proc/" + std::to_string(id) + "/task/" + std::to_string(id) + "/stat", stat);
  }
  host_.last_pid(903);
  step(20);
  ASSERT_NE(job_->find(901), nullptr);
  ASSERT_NE(job_->find(903), nullptr);
  EXPECT_EQ(kind_->undo().threads, 5U);
  EXPECT_EQ(cpus_of(901), "0");
  EXPECT_EQ(cpus_of(902), "1-2");
  EXPECT_EQ(cpus_of(903), "0-3") << "the launcher started it, with the cpus that it has";
}

TEST_F(NarrowAffinityTest, LeavesAJobAloneWithAnIdleThreadOnOtherCpus) {
  bind({{601, "3"}});
  host_.write("/proc/501/task/601/stat", stat_of(601, 0, 200));
  EXPECT_EQ(seen().refused, "some of its threads are bound to other cpus (3)");
  bind({{601, "0-3"}});
  EXPECT_EQ(second().refused, "") << "that thread is bound to nothing";
}

TEST_F(NarrowAffinityTest, BeginsAnewWhereTheCrowdHasOtherCpus) {
  EXPECT_TRUE(seen().finding);
  bind({{501, "1"}, {502, "1"}, {503, "1"}, {504, "1"}});
  EXPECT_FALSE(second().finding);
  EXPECT_TRUE(second().finding);
}

TEST_F(NarrowAffinityTest, GivesOnlyCpusThatWereIdleTheWholeTime) {
  busy_cpu_ = 2;
  EXPECT_EQ(seen().refused, "");
  busy_cpu_ = 99;
  EXPECT_EQ(second().refused, "");
  EXPECT_EQ(kind_->apply().text, "widened the cpus of 4 processes (4 threads) from 0 to 0-1,3");
}

TEST_F(NarrowAffinityTest, GivesNoHardwareThreadsOfTheSameCore) {
  host_.write("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n");
  put_cpus_of_launcher("0,2");
  EXPECT_EQ(seen().refused, "the other cpus are only hardware threads of the cores that it uses");
}

TEST_F(NarrowAffinityTest, StaysOnTheNumaNodesOfTheCrowd) {
  host_.write("/sys/devices/system/node/node0/cpulist", "0-1\n");
  host_.write("/sys/devices/system/node/node1/cpulist", "2-3\n");
  EXPECT_EQ(applied().text, "widened the cpus of 4 processes (4 threads) from 0 to 0-1");
}

TEST_F(NarrowAffinityTest, LeavesACrowdAloneThatFillsItsNumaNode) {
  host_.write("/sys/devices/system/node/node0/cpulist", "0\n");
  host_.write("/sys/devices/system/node/node1/cpulist", "1-3\n");
  EXPECT_EQ(seen().refused, "the other cpus are on other NUMA nodes than its memory");
}

TEST_F(NarrowAffinityTest, TakesACopyOfTheNodesListForNoCpusetOfTheJob) {
  batch_system_ = true;
  host_.write("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  for (const int id : {501, 502, 503, 504}) {
    host_.write("/proc/" + std::to_string(id) + "/cgroup", "4:cpuset:/job\n");
  }
  host_.write("/sys/fs/cgroup/cpuset/job/cgroup.procs", "501\n502\n503\n504\n");
  host_.write("/sys/fs/cgroup/cpuset/job/cpuset.cpus", "0-3\n");
  host_.write("/sys/fs/cgroup/cpuset/job/cpuset.effective_cpus", "0-3\n");
  EXPECT_EQ(seen().refused, "no cpuset of its own confines the job, so that the cpus that it owns are not known");
  host_.write("/sys/fs/cgroup/cpuset/job/cpuset.cpus", "0-2\n");
  host_.write("/sys/fs/cgroup/cpuset/job/cpuset.effective_cpus", "0-2\n");
  EXPECT_EQ(second().refused, "");
}

TEST_F(NarrowAffinityTest, LeavesRealtimeThreadsAlone) {
  bind({{601, "0"}, {602, "0"}});
  host_.write("/proc/501/task/601/stat", stat_of(601, 0, 200, 500, 1));
  host_.write("/proc/501/task/602/stat", stat_of(602, 0, 200, 500, 3));
  EXPECT_EQ(applied().threads, 5U);
  EXPECT_EQ(cpus_of(601), "0");
  EXPECT_EQ(cpus_of(602), "0-3");
}

TEST_F(NarrowAffinityTest, SaysThatTheCpusetOfTheProcessesAllowsNoMore) {
  masks_.cpuset = CpuSet::of_list("0");
  EXPECT_EQ(applied().text, "their own cpuset allows no more");
}

TEST_F(NarrowAffinityTest, TakesCpusBackAsTheyWereReallyGiven) {
  masks_.cpuset = CpuSet::of_list("0-1");
  applied();
  bind({{601, "0-1"}});
  host_.write("/proc/501/task/601/stat", stat_of(601, 0, 800));
  EXPECT_EQ(kind_->undo().threads, 5U);
  EXPECT_EQ(cpus_of(601), "0");
}

TEST_F(NarrowAffinityTest, SaysThatTheIdleTimeIsNotKnown) {
  open();
  second();
  second();
  host_.remove("/proc/stat");
  idle_per_second_ = 0;
  for (auto& [id, worker] : workers_) put_times(id, {worker.ticks += 25, 25, worker.start});
  step(10);
  EXPECT_EQ(kind_->look(kCrowded).refused, "the idle time of the other cpus that the job owns is not known");
}

TEST(Claim, IsHeldByOneCollectorOfAJob) {
  const std::string job = "4711-" + std::to_string(::getpid());
  {
    const Descriptor claim = claim_job(1000, job);
    EXPECT_TRUE(claim);
    EXPECT_FALSE(claim_job(1000, job));
    EXPECT_TRUE(claim_job(1001, job));
    EXPECT_TRUE(claim_job(1000, job + "0"));
    EXPECT_FALSE(claim_job(1000, std::string(200, '1')));
  }
  EXPECT_TRUE(claim_job(1000, job));
}

TEST_F(NarrowAffinityTest, NamesManyCpusByTheirNumber) {
  std::string odd = "0";
  for (int cpu = 2; cpu < 128; cpu += 2) odd += ',' + std::to_string(cpu);
  host_.write("/sys/devices/system/cpu/online", "0-127\n");
  put_cpus_of_launcher(odd);
  open();
  const auto many = [&](int idle) {
    std::string text;
    for (int cpu = 0; cpu < 128; ++cpu) {
      text += "cpu" + std::to_string(cpu) + " 1 2 3 " + std::to_string(idle) + " 5 6 7 0 0 0\n";
    }
    for (auto& [id, worker] : workers_) put_times(id, {worker.ticks += 25, 25, worker.start});
    host_.write("/proc/stat", text);
    step(10);
    return kind_->look(kCrowded);
  };
  many(100);
  many(200);
  EXPECT_EQ(many(300).refused, "");
  EXPECT_EQ(kind_->apply().text, "widened the cpus of 4 processes (4 threads) from 0 to 64 cpus");
}

}  // namespace
}  // namespace reveal::tests::narrow_affinity_test
