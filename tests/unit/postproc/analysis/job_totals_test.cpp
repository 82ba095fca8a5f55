#include "postproc/analysis/job_totals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace reveal::tests::job_totals_test {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

/// Ten seconds of a node in steps of one.
class Recording {
 public:
  Recording() {
    trace.telemetry.node = "n01";
    trace.telemetry.step_seconds = 1;
    trace.telemetry.samples = 10;
    trace.begin = {{"cpu.count", "4"}, {"memory.total", "8589934592"}};
  }
  Recording& add(const std::string& metric, const std::string& instance, double each) {
    return add(metric, instance, std::vector<double>(10, each));
  }
  Recording& add(const std::string& metric, const std::string& instance, const std::vector<double>& values) {
    trace.telemetry.channels.push_back({.metric = metric, .instance = instance});
    trace.telemetry.values.insert(trace.telemetry.values.end(), values.begin(), values.end());
    return *this;
  }
  [[nodiscard]] JobTotals totals(bool shared = false) const {
    TraceTotals sums;
    sums.add(trace.telemetry);
    return node_totals(trace, trace.telemetry.channels, sums, 10, shared);
  }

  NodeTrace trace;
};

TEST(JobTotals, AddUpWhatTheJobUsed) {
  const JobTotals totals = Recording()
                               .add("job.cpu_time", "", 1.5e9)
                               .add("job.cpus_owned", "", 2)
                               .add("job.wait_time", "", 0.25e9)
                               .add("process.read_bytes", "rank0", 0)
                               .add("process.write_bytes", "rank0", 100)
                               .add("process.write_bytes", "slot1", 20)
                               .totals();
  EXPECT_EQ(totals.node, "n01");
  EXPECT_DOUBLE_EQ(totals.cpu_seconds.value(), 15);
  EXPECT_EQ(totals.cpus_owned, 2);
  EXPECT_DOUBLE_EQ(totals.cpu_used_share.value(), 0.75);
  EXPECT_DOUBLE_EQ(totals.wait_share.value(), 0.25);
  EXPECT_EQ(totals.read_bytes, 0);
  EXPECT_EQ(totals.written_bytes, 1200);
}

TEST(JobTotals, HaveWhatTheProcessorsCounted) {
  Recording node;
  node.add("pmu.instructions", "", 3e9).add("pmu.cycles", "", 2e9).add("platform.memory_read", "imc0", 100);
  node.add("platform.memory_read", "imc1", 50).add("platform.memory_written", "imc0", 10);
  node.trace.coverage = {{"perf_hardware", Coverage::State::ok, ""}};
  const JobTotals totals = node.totals();
  EXPECT_EQ(totals.instructions, 3e10);
  EXPECT_EQ(totals.cycles, 2e10);
  EXPECT_EQ(totals.stalled_cycles, std::nullopt);
  EXPECT_EQ(totals.notes.at("stalled_cycles"), "the processor does not count it");
  EXPECT_EQ(totals.memory_traffic, 1600);
  EXPECT_EQ(node.totals(true).memory_traffic, std::nullopt) << "that of other jobs, too";
  EXPECT_EQ(node.totals(true).instructions, 3e10) << "of the job alone";
  const JobTotals both = whole_job(std::vector<JobTotals>{totals, totals});
  EXPECT_EQ(both.instructions, 6e10);
  EXPECT_EQ(both.memory_traffic, 3200);
}

TEST(JobTotals, NeverCallZeroWhatWasNotMeasured) {
  Recording bare;
  bare.trace.coverage = {{"job", Coverage::State::absent, "no job was named (--job)"},
                         {"process", Coverage::State::failed, "too many files"}};
  const JobTotals totals = bare.add("process.read_bytes", "rank0", kGap).totals();
  for (const TotalsNumber& total : kTotalsNumbers) {
    const std::string name = total.key;
    if (name == "seconds" || name == "cpus_owned" || name == "memory_limit") continue;  // known from the snapshot
    EXPECT_EQ(totals.*total.value, std::nullopt) << name;
    EXPECT_TRUE(totals.notes.contains(name)) << name;
  }
  EXPECT_EQ(totals.notes.at("cpu_seconds"), "no job was named (--job)");
  EXPECT_EQ(totals.notes.at("read_bytes"), "too many files");
}

TEST(JobTotals, TakeThePeakOfAllProcessesTogether) {
  const JobTotals totals = Recording()
                               .add("process.rss", "rank0", {1, 1, 5, 1, 1, 1, 1, 1, 1, 1})
                               .add("process.rss", "slot1", {kGap, 7, 2, kGap, kGap, kGap, kGap, kGap, kGap, kGap})
                               .totals();
  EXPECT_EQ(totals.memory_peak, 8);  // not 5 + 7
  EXPECT_EQ(totals.memory_limit, 8589934592.0);
  EXPECT_EQ(totals.notes.at("memory_limit"), "memory of the node");
}

TEST(JobTotals, PreferTheControlGroupAndItsLimit) {
  const JobTotals totals = Recording()
                               .add("process.rss", "rank0", 9000)
                               .add("cgroup.memory_anon", "", 3000)
                               .add("memory_stat.shmem", "", 500)
                               .add("group.memory_limit", "job", 4096)
                               .add("group.memory_limit", "step_0", 1024)
                               .totals();
  EXPECT_EQ(totals.memory_peak, 3500);
  EXPECT_EQ(totals.memory_limit, 4096);
  EXPECT_EQ(totals.notes.at("memory_limit"), "limit of the job's control group");
}

TEST(JobTotals, TellThatTheLimitWasReachedOnlyWithMemoryThatThePeakLeavesOut) {
  const auto note = [](double memory, double with_cache) {
    return Recording()
        .add("cgroup.memory_anon", "", memory)
        .add("group.memory_limit", "job", 4096)
        .add("group.memory", "job", with_cache)
        .totals()
        .notes.at("memory_peak");
  };
  EXPECT_TRUE(note(300, 4090).ends_with("; with cached files and memory of the kernel, the limit was reached"))
      << note(300, 4090);
  EXPECT_EQ(note(300, 2000).find("limit"), std::string::npos);
  EXPECT_EQ(note(4000, 4090).find("limit"), std::string::npos) << "the memory that is shown reached it";
  Recording processes;
  processes.add("process.rss", "rank0", 300).add("group.memory_limit", "job", 4096).add("group.memory", "job", 4090);
  EXPECT_EQ(processes.totals().notes.at("memory_peak").find("limit"), std::string::npos) << "mapped files are in it";
}

TEST(JobTotals, KnowWhatWasAskedOfSlurm) {
  Recording asked;
  asked.trace.begin.emplace_back("env.SLURM_MEM_PER_NODE", "2048");
  EXPECT_EQ(asked.totals().memory_limit, 2048.0 * 1024 * 1024);
  Recording each;
  each.trace.begin.emplace_back("env.SLURM_MEM_PER_CPU", "1000");
  each.add("job.cpus_owned", "", 3);
  EXPECT_EQ(each.totals().memory_limit, 3000.0 * 1024 * 1024);
}

TEST(JobTotals, SayNothingOfAJobWithMoreProcessesThanAreMeasured) {
  Recording large;
  large.add("job.processes", "", 64).add("process.rss", "rank0", 1).add("process.write_bytes", "rank0", 1);
  large.add("job.wait_time", "", 1);
  const JobTotals totals = large.totals();
  EXPECT_EQ(totals.memory_peak, std::nullopt);
  EXPECT_EQ(totals.written_bytes, std::nullopt);
  EXPECT_EQ(totals.wait_share, std::nullopt);
  EXPECT_EQ(large.add("cgroup.write_bytes", "", 7).totals().written_bytes, 70);
}

TEST(JobTotals, CountTheTrafficOfTheInterfacesThatLeadOut) {
  Recording node;
  node.trace.begin.emplace_back("net.eth0.numa_node", "-1");
  node.add("net.rx_bytes", "eth0", 10).add("net.tx_bytes", "eth0", 1).add("net.rx_bytes", "lo", 1000);
  node.add("net.rx_bytes", "bond0", 10);
  EXPECT_EQ(node.totals().network_bytes, 110);
  const JobTotals shared = node.totals(true);
  EXPECT_EQ(shared.network_bytes, std::nullopt);
  EXPECT_EQ(shared.notes.at("network_bytes"), "other jobs use the node");
}

TEST(JobTotals, CountTheTrafficOfABondOnce) {
  Recording node;
  node.trace.begin.emplace_back("net.bond0.cards", "eth0 eth1");
  node.trace.begin.emplace_back("net.br0.cards", "eth9");  // not measured: its bytes are nowhere else
  node.add("net.rx_bytes", "eth0", 10).add("net.rx_bytes", "eth1", 20).add("net.rx_bytes", "bond0", 30);
  EXPECT_EQ(node.totals().network_bytes, 300);
  EXPECT_EQ(node.add("net.rx_bytes", "br0", 1).totals().network_bytes, 310);
}

TEST(JobTotals, OfTheWholeJobAreSumsAndTheFullestNode) {
  JobTotals first =
      Recording().add("job.cpu_time", "", 1e9).add("job.cpus_owned", "", 4).add("process.rss", "rank0", 100).totals();
  JobTotals second = first;
  second.node = "n02";
  second.memory_peak = 700;
  const JobTotals whole = whole_job(std::vector<JobTotals>{first, second});
  EXPECT_EQ(whole.node, "");
  EXPECT_EQ(whole.nodes, 2);
  EXPECT_EQ(whole.seconds, 10);
  EXPECT_DOUBLE_EQ(whole.cpu_seconds.value(), 20);
  EXPECT_EQ(whole.cpus_owned, 8);
  EXPECT_DOUBLE_EQ(whole.cpu_used_share.value(), 0.25);
  EXPECT_EQ(whole.memory_peak, 700);
  EXPECT_NE(whole.notes.at("memory_peak").find("on n02"), std::string::npos);

  second.cpu_seconds.reset();
  second.notes["cpu_seconds"] = "not measured";
  const JobTotals gap = whole_job(std::vector<JobTotals>{first, second});
  EXPECT_EQ(gap.cpu_seconds, std::nullopt);
  EXPECT_EQ(gap.cpu_used_share, std::nullopt);
  EXPECT_EQ(gap.notes.at("cpu_seconds"), "not measured (on n02)");
}

TEST(JobTotals, KeepTheNoteOfEachNode) {
  JobTotals node;
  node.node = "n01";
  node.gpus = 1;
  node.notes["gpus"] = "GPUs that were measured";
  std::vector<JobTotals> nodes(3, node);
  EXPECT_EQ(whole_job(nodes).notes.at("gpus"), "GPUs that were measured");
  nodes[1].node = "n02";
  nodes[1].notes["gpus"] += " (gpu1 is lost)";
  nodes[2].node = "n03";
  EXPECT_EQ(whole_job(nodes).notes.at("gpus"),
            "GPUs that were measured (on n[01,03]); GPUs that were measured (gpu1 is lost) (on n02)");
  for (std::size_t i = 0; i < 6; ++i) {
    nodes.push_back(nodes[1]);
    nodes.back().node = "n1" + std::to_string(i);
    nodes.back().notes["gpus"] = "gpu" + std::to_string(i) + " is lost";
  }
  EXPECT_TRUE(whole_job(nodes).notes.at("gpus").ends_with("; gpu0 is lost (on n10) and 5 more"))
      << whole_job(nodes).notes.at("gpus");
  EXPECT_EQ(whole_job(nodes).notes.at("cpu_seconds"), "not measured (on n01)") << "it has no note";
}

/// A GPU that uses half of its time and 30 of 80 bytes.
Recording& add_gpu(Recording& node, const std::string& gpu, double use = 50, double memory = 30) {
  node.add("gpu.utilization", gpu, use).add("gpu.memory_used", gpu, {1, 1, memory, 1, 1, 1, 1, 1, 1, 1});
  node.add("gpu.memory_free", gpu, {79, 79, 80 - memory, 79, 79, 79, 79, 79, 79, 79});
  return node.add("gpu.energy", gpu, {kGap, 2e6, 2e6, 2e6, 2e6, 2e6, 2e6, 2e6, 2e6, kGap});
}

TEST(JobTotals, HaveTheGpusOfTheJob) {
  Recording node;
  add_gpu(node, "gpu0");
  add_gpu(node, "gpu1", 0, 40);
  add_gpu(node, "gpu2", 100, 70);  // not allocated to the job
  node.trace.begin.emplace_back("gpu.gpu0.uuid", "GPU-0");
  node.trace.begin.emplace_back("gpu.gpu1.uuid", "GPU-1");
  for (const bool shared : {false, true}) {
    const JobTotals totals = node.totals(shared);
    EXPECT_EQ(totals.gpus, 2);
    EXPECT_DOUBLE_EQ(totals.gpu_used_share.value(), 0.25);
    EXPECT_EQ(totals.gpu_memory_peak, 40);
    EXPECT_EQ(totals.gpu_memory_total, 80);
    EXPECT_NE(totals.notes.at("gpu_memory_peak").find("gpu1"), std::string::npos);
    EXPECT_DOUBLE_EQ(totals.gpu_energy_joules.value(), 32);
    EXPECT_NE(totals.notes.at("gpu_energy_joules").find("is not counted"), std::string::npos);
  }
}

TEST(JobTotals, WeightNodesByTheirGpus) {
  Recording one;
  add_gpu(one, "gpu0", 100, 60);
  Recording three;
  for (const char* gpu : {"gpu0", "gpu1", "gpu2"}) add_gpu(three, gpu, 20);
  three.trace.telemetry.node = "n02";
  Recording none;
  none.trace.telemetry.node = "n03";
  const JobTotals whole = whole_job(std::vector<JobTotals>{none.totals(), one.totals(), three.totals()});
  EXPECT_EQ(whole.gpus, 4);
  EXPECT_EQ(whole.notes.at("gpus"), "GPUs of the job that were measured; none on 1 of 3 nodes");
  EXPECT_DOUBLE_EQ(whole.gpu_used_share.value(), 0.4);
  EXPECT_EQ(whole.gpu_memory_peak, 60);
  EXPECT_EQ(whole.gpu_memory_total, 80);
  EXPECT_NE(whole.notes.at("gpu_memory_peak").find(", on n01"), std::string::npos);
  EXPECT_DOUBLE_EQ(whole.gpu_energy_joules.value(), 64);

  JobTotals divided = one.totals();
  divided.gpu_used_share.reset();
  divided.notes["gpu_used_share"] = "it is divided";
  const JobTotals gap = whole_job(std::vector<JobTotals>{three.totals(), divided});
  EXPECT_EQ(gap.gpus, 4);
  EXPECT_EQ(gap.gpu_used_share, std::nullopt);
  EXPECT_EQ(gap.notes.at("gpu_used_share"), "it is divided (on n01)");
}

TEST(JobTotals, HaveNoGpusWithoutOne) {
  Recording node;
  node.trace.coverage = {{"gpu", Coverage::State::absent, "no NVIDIA driver here"}};
  const JobTotals whole = whole_job(std::vector<JobTotals>{node.totals(), node.totals()});
  for (const JobTotals& totals : {node.totals(), whole}) {
    EXPECT_EQ(totals.gpus, std::nullopt);
    EXPECT_EQ(totals.gpu_used_share, std::nullopt);
    EXPECT_EQ(totals.gpu_memory_total, std::nullopt);
    EXPECT_EQ(totals.gpu_energy_joules, std::nullopt);
    EXPECT_EQ(totals.notes.at("gpus").find("no NVIDIA driver here"), 0U);
  }
  node.trace.coverage.front() = {"gpu", Coverage::State::ok, "none was measured: Slurm names no GPU of this node"};
  EXPECT_EQ(node.totals().notes.at("gpus"), "none was measured: Slurm names no GPU of this node");
}

TEST(JobTotals, DoNotTakeAWholeGpuForThePartOfTheJob) {
  Recording node;
  add_gpu(node, "gpu0");
  node.add("gpu.memory_used", "gpu1", 5);  // the driver does not report the utilization of a divided GPU
  node.trace.begin.emplace_back("gpu.gpu0.mig", "disabled");
  node.trace.begin.emplace_back("gpu.gpu1.mig", "enabled");
  const JobTotals totals = node.totals();
  EXPECT_EQ(totals.gpus, 2);
  for (const char* key : {"gpu_used_share", "gpu_memory_peak", "gpu_memory_total", "gpu_energy_joules"}) {
    EXPECT_EQ(totals.notes.at(key),
              "gpu1 is divided into parts: the driver's values are those of the whole GPU, not the job's");
  }
  EXPECT_EQ(totals.gpu_used_share, std::nullopt);
  EXPECT_EQ(totals.gpu_memory_peak, std::nullopt);
  EXPECT_EQ(totals.gpu_memory_total, std::nullopt);
  EXPECT_EQ(totals.gpu_energy_joules, std::nullopt);
}

TEST(JobTotals, TellHowLongALostGpuWasMeasured) {
  Recording node;
  node.add("job.cpu_time", "", 1e9);
  node.add("gpu.utilization", "gpu0", {80, 80, 80, 80, kGap, kGap, kGap, kGap, kGap, kGap});
  node.trace.coverage = {{"gpu", Coverage::State::ok, "gpu1 is lost: it has fallen off the bus"}};
  const JobTotals totals = node.totals();
  EXPECT_EQ(totals.gpus, 1);
  EXPECT_EQ(totals.notes.at("gpus"), "GPUs of the job that were measured (gpu1 is lost: it has fallen off the bus)");
  EXPECT_DOUBLE_EQ(totals.gpu_used_share.value(), 0.8) << "not the time in which nothing was measured";
  EXPECT_NE(totals.notes.at("gpu_used_share").find("; gpu0 was not measured for 60 % of the run"), std::string::npos);
  EXPECT_EQ(totals.gpu_energy_joules, std::nullopt);
  EXPECT_EQ(totals.notes.at("gpu_memory_peak"), "not measured of gpu0");
}

TEST(JobTotals, CountTheStepsOfTheRankThatMadeTheMost) {
  Recording node;
  node.trace.coverage = {{"stack", Coverage::State::ok, ""}};
  EXPECT_EQ(node.totals().steps, std::nullopt);
  EXPECT_EQ(node.totals().notes.at("steps"), "no backward pass of PyTorch was seen");
  node.add("stack.steps", "rank0", 3.3).add("stack.steps", "rank1", 3.2);
  EXPECT_EQ(node.totals().steps, 33);
  EXPECT_EQ(node.totals().notes.at("steps"), "backward passes of PyTorch, of the rank that made the most");
  node.trace.steps = {{.rank = "rank1", .number = 35, .begin_ns = 1}};  // increments were lost
  EXPECT_EQ(node.totals().steps, 35);
  const JobTotals whole = whole_job(std::vector<JobTotals>{node.totals(), node.totals()});
  EXPECT_EQ(whole.steps, 35) << "the nodes make them together";
  node.trace.events = {{1, "probe other", "steps_incomplete", "why"}};
  EXPECT_EQ(node.totals().steps, 35);
  node.trace.events = {{1, "probe stack", "steps_incomplete", "the job's own profiler ran"}};
  EXPECT_EQ(node.totals().steps, std::nullopt);
  EXPECT_EQ(node.totals().notes.at("steps"),
            "35 backward passes or more: they were not counted all the time (the job's own profiler ran)");
}

}  // namespace
}  // namespace reveal::tests::job_totals_test
