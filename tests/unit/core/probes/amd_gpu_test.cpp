// The probe of AMD's GPUs on trees as the driver amdgpu shows them: a node of two MI210, whose values are those of the
// kernel's documentation and of rocm-smi, not those of a machine.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "core/gpu/job_gpus.h"
#include "core/job/opened_devices.h"
#include "tests/unit/core/sample_until.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::amd_gpu_test {
namespace {

const std::string kFirst = "/sys/bus/pci/devices/0000:c1:00.0";
const std::string kSecond = "/sys/bus/pci/devices/0000:41:00.0";

void device(const TestHost& host, int minor, const std::string& address, const std::string& driver = "amdgpu") {
  const std::string folder = "/sys/class/drm/renderD" + std::to_string(minor) + "/device";
  host.write(folder + "/uevent",
             "DRIVER=" + driver + "\nPCI_CLASS=38000\nPCI_ID=1002:740F\nPCI_SLOT_NAME=" + address + '\n');
}

void sensor(const TestHost& host, const std::string& folder, const std::string& name, const std::string& label,
            const std::string& value) {
  host.write(folder + "/hwmon/hwmon4/" + name + "_input", value + '\n');
  if (!label.empty()) host.write(folder + "/hwmon/hwmon4/" + name + "_label", label + '\n');
}

/// The table of version 1.3 with this status of its throttlers.
std::string metrics_table(std::uint64_t throttlers, char content = 3) {
  std::string table(120, '\0');
  table[0] = 120;
  table[2] = 1;
  table[3] = content;
  std::memcpy(table.data() + 112, &throttlers, sizeof throttlers);
  return table;
}

void gpu(const TestHost& host, int minor, const std::string& folder, const std::string& busy) {
  device(host, minor, folder.substr(folder.rfind('/') + 1));
  host.write(folder + "/power/runtime_status", "active\n");
  host.write(folder + "/unique_id", "5a0fbe12cd34ab" + std::to_string(minor) + "\n");
  host.write(folder + "/product_name", "Instinct MI210\n");
  host.write(folder + "/numa_node", "1\n");
  host.write(folder + "/local_cpulist", "32-63\n");
  host.write(folder + "/gpu_busy_percent", busy + '\n');
  host.write(folder + "/mem_busy_percent", "41\n");
  host.write(folder + "/mem_info_vram_used", "60000000000\n");
  host.write(folder + "/mem_info_vram_total", "68702699520\n");
  host.write(folder + "/pcie_replay_count", "7\n");
  host.write(folder + "/gpu_metrics", metrics_table(0));
  host.write(folder + "/ras/umc_err_count", "ue: 1\nce: 12\n");
  host.write(folder + "/hwmon/hwmon4/name", "amdgpu\n");
  host.write(folder + "/hwmon/hwmon4/power1_average", "271500000\n");
  host.write(folder + "/hwmon/hwmon4/power1_label", "fastPPT\n");
  host.write(folder + "/hwmon/hwmon4/power1_cap", "250000000\n");
  host.write(folder + "/hwmon/hwmon4/power1_cap_default", "300000000\n");
  sensor(host, folder, "freq1", "sclk", "1700000000");
  sensor(host, folder, "freq2", "mclk", "1600000000");
  sensor(host, folder, "temp1", "edge", "58000");
  sensor(host, folder, "temp2", "junction", "71500");
  sensor(host, folder, "temp3", "mem", "66499");
  host.write(folder + "/hwmon/hwmon4/temp1_crit", "100000\n");
  host.write(folder + "/hwmon/hwmon4/temp2_crit", "105000\n");
}

TEST(AmdGpu, MeasuresInBaseUnitsWhatTheDriverShows) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");
  gpu(host, 129, kSecond, "12");
  ProbeBench bench(host, "amd_gpu");
  ASSERT_EQ(bench.coverage().state, Coverage::State::ok) << bench.coverage().reason;
  EXPECT_EQ(bench.answered("gpu/amd_utilization", "gpu.utilization", "gpu0"), 97);
  EXPECT_EQ(bench.value("gpu/amd_utilization", "gpu.utilization", "gpu1"), 12);
  EXPECT_EQ(bench.value("gpu/amd_utilization", "gpu.memory_utilization", "gpu1"), 41);
  EXPECT_EQ(bench.value("gpu/amd_memory", "gpu.memory_used", "gpu0"), 60'000'000'000);
  EXPECT_EQ(bench.value("gpu/amd_memory", "gpu.memory_free", "gpu0"), 8'702'699'520);
  EXPECT_EQ(bench.value("gpu/amd_power", "gpu.power", "gpu0"), 272);
  EXPECT_EQ(bench.value("gpu/amd_clocks", "gpu.sm_clock", "gpu0"), 1'700'000'000);
  EXPECT_EQ(bench.value("gpu/amd_clocks", "gpu.memory_clock", "gpu0"), 1'600'000'000);
  EXPECT_EQ(bench.answered("gpu/amd_temperatures", "gpu.temperature", "gpu0"), 58);
  EXPECT_EQ(bench.value("gpu/amd_temperatures", "gpu.hotspot_temperature", "gpu0"), 72);
  EXPECT_EQ(bench.value("gpu/amd_temperatures", "gpu.memory_temperature", "gpu0"), 66);
  EXPECT_EQ(bench.value("gpu/amd_errors", "gpu.ecc_corrected", "gpu1"), 12);
  EXPECT_EQ(bench.value("gpu/amd_errors", "gpu.ecc_uncorrected", "gpu1"), 1);
  EXPECT_EQ(bench.value("gpu/amd_errors", "pcie.replays", "gpu0"), 7);
  EXPECT_EQ(bench.family("gpu/amd_temperatures").spec().period, std::chrono::seconds(10));
}

TEST(AmdGpu, ReportsTheReasonsOfLowClocksWhereTheTableHasThem) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");
  gpu(host, 129, kSecond, "97");
  host.write(kFirst + "/gpu_metrics", metrics_table(1ULL << 36 | 1ULL << 1));  // hottest place, power limit 1
  host.write(kSecond + "/gpu_metrics", metrics_table(~0ULL));
  ProbeBench bench(host, "amd_gpu");
  EXPECT_EQ(bench.answered("gpu/amd_reasons", "gpu.reason_sw_thermal", "gpu0"), 1);
  EXPECT_EQ(bench.value("gpu/amd_reasons", "gpu.reason_power_cap", "gpu0"), 1);
  EXPECT_EQ(bench.value("gpu/amd_reasons", "gpu.reason_hw_thermal", "gpu0"), 0);
  EXPECT_EQ(bench.family("gpu/amd_reasons").channels().size(), 3U) << "the second GPU does not report them";
}

TEST(AmdGpu, ReadsNoReasonFromATableOfAnotherVersion) {
  for (const std::string& table : {metrics_table(1, 4), metrics_table(1).substr(0, 119), std::string()}) {
    const TestHost host;
    gpu(host, 128, kFirst, "97");
    host.write(kFirst + "/gpu_metrics", table);
    ProbeBench bench(host, "amd_gpu");
    EXPECT_EQ(bench.answered("gpu/amd_utilization", "gpu.utilization", "gpu0"), 97);
    EXPECT_TRUE(bench.family("gpu/amd_reasons").channels().empty()) << table.size();
  }
}

TEST(AmdGpu, TakesTheHottestPlaceWhereTheEdgeHasNoSensor) {
  const TestHost host;
  device(host, 128, "0000:c1:00.0");
  sensor(host, kFirst, "temp2", "junction", "71500");
  host.write(kFirst + "/hwmon/hwmon4/temp2_crit", "105000\n");
  host.write(kFirst + "/hwmon/hwmon4/power1_input", "620000000\n");  // there is no average
  ProbeBench bench(host, "amd_gpu");
  EXPECT_EQ(bench.answered("gpu/amd_temperatures", "gpu.temperature", "gpu0"), 72);
  EXPECT_EQ(bench.value("gpu/amd_temperatures", "gpu.hotspot_temperature", "gpu0"), 72);
  EXPECT_EQ(bench.value("gpu/amd_power", "gpu.power", "gpu0"), 620);
  EXPECT_EQ(bench.fact("gpu.gpu0.slowdown_temperature"), "105");
}

TEST(AmdGpu, HasNoValueForWhatCannotBeRead) {
  const TestHost host;
  gpu(host, 128, kFirst, "");
  host.write(kFirst + "/mem_info_vram_total", "\n");
  host.write(kFirst + "/ras/umc_err_count", "ue 1\nce: many\n");
  ProbeBench bench(host, "amd_gpu");
  EXPECT_EQ(bench.answered("gpu/amd_power", "gpu.power", "gpu0"), 272);
  EXPECT_EQ(bench.value("gpu/amd_utilization", "gpu.utilization", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/amd_memory", "gpu.memory_used", "gpu0"), 60'000'000'000);
  EXPECT_EQ(bench.value("gpu/amd_memory", "gpu.memory_free", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/amd_errors", "gpu.ecc_corrected", "gpu0"), kMissing);
}

TEST(AmdGpu, TellsWhoTheGpusAre) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");
  ProbeBench bench(host, "amd_gpu");
  EXPECT_EQ(bench.answered("gpu/amd_utilization", "gpu.utilization", "gpu0"), 97);
  EXPECT_EQ(bench.fact("gpu.gpu0.vendor"), "AMD");
  EXPECT_EQ(bench.fact("gpu.gpu0.name"), "Instinct MI210");
  EXPECT_EQ(bench.fact("gpu.gpu0.address"), "0000:c1:00.0");
  EXPECT_EQ(bench.fact("gpu.gpu0.uuid"), "GPU-5a0fbe12cd34ab128");
  EXPECT_EQ(bench.fact("gpu.gpu0.numa_node"), "1");
  EXPECT_EQ(bench.fact("gpu.gpu0.local_cpus"), "32-63");
  EXPECT_EQ(bench.fact("gpu.gpu0.power_limit"), "250");
  EXPECT_EQ(bench.fact("gpu.gpu0.power_limit_default"), "300");
  EXPECT_EQ(bench.fact("gpu.gpu0.slowdown_temperature"), "100");
  EXPECT_EQ(bench.fact("gpu.gpu0.allocated_by"), "") << "nobody said so";
}

TEST(AmdGpu, WakesNoGpuThatSleepsAndSaysSo) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");
  gpu(host, 129, kSecond, "12");
  host.write(kFirst + "/power/runtime_status", "suspended\n");
  ProbeBench bench(host, "amd_gpu");
  EXPECT_EQ(bench.answered("gpu/amd_utilization", "gpu.utilization", "gpu1"), 12);
  EXPECT_EQ(bench.value("gpu/amd_utilization", "gpu.utilization", "gpu0"), kMissing);
  EXPECT_EQ(bench.coverage().reason, "asleep and not woken: gpu0");
  EXPECT_EQ(bench.fact("gpu.gpu0.uuid"), "") << "even that would wake it";
  host.write(kFirst + "/power/runtime_status", "active\n");  // the job has opened it
  EXPECT_EQ(bench.answered("gpu/amd_utilization", "gpu.utilization", "gpu0"), 97);
  EXPECT_EQ(bench.coverage().reason, "");
}

TEST(AmdGpu, ComesAfterTheGpusOfNvidiasDriver) {
  const TestHost host;
  host.write("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: \t 0\n");
  gpu(host, 128, kFirst, "97");
  ProbeBench bench(host, "amd_gpu");
  EXPECT_EQ(bench.answered("gpu/amd_utilization", "gpu.utilization", "gpu1"), 97);
  EXPECT_EQ(bench.fact("gpu.gpu1.address"), "0000:c1:00.0");
}

TEST(AmdGpu, FollowsGpusThatComeAndGo) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");
  ProbeBench bench(host, "amd_gpu");
  EXPECT_EQ(bench.answered("gpu/amd_utilization", "gpu.utilization", "gpu0"), 97);
  for (const char* file : {"/mem_info_vram_used", "/hwmon/hwmon4/power1_average", "/gpu_busy_percent"})
    host.write(kFirst + file, "");  // as with ENODEV
  const auto until = [&](std::int64_t wanted) {
    return sample_until(bench, [&] { return bench.value("gpu/amd_utilization", "gpu.utilization", "gpu0") == wanted; });
  };
  EXPECT_TRUE(until(kMissing)) << "it has no value of the time before";
  EXPECT_EQ(bench.value("gpu/amd_memory", "gpu.memory_used", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/amd_power", "gpu.power", "gpu0"), kMissing);
  host.write(kFirst + "/gpu_busy_percent", "55\n");
  EXPECT_TRUE(until(55));
}

constexpr std::array kReadEachSecond = {"/gpu_busy_percent",
                                        "/mem_busy_percent",
                                        "/mem_info_vram_used",
                                        "/gpu_metrics",
                                        "/hwmon/hwmon4/power1_average",
                                        "/hwmon/hwmon4/freq1_input",
                                        "/hwmon/hwmon4/freq2_input"};

TEST(AmdGpu, StatesWhichGpuGaveNoValuesAnyMore) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");
  gpu(host, 129, kSecond, "12");
  ProbeBench bench(host, "amd_gpu");
  EXPECT_EQ(bench.answered("gpu/amd_utilization", "gpu.utilization", "gpu0"), 97);
  EXPECT_EQ(bench.coverage().reason, "");
  for (const char* const file : kReadEachSecond) host.write(kFirst + file, "");  // as with ENODEV
  EXPECT_TRUE(sample_until(bench, [&] {
    return bench.coverage().reason == "without any value for a part of the time: gpu0";
  })) << bench.coverage().reason;
}

TEST(AmdGpu, IsNotSilentWhereAllOfItsValuesAreReadEveryTenSeconds) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");
  gpu(host, 129, kSecond, "12");
  for (const char* const file : kReadEachSecond) host.remove(kFirst + file);
  ProbeBench bench(host, "amd_gpu");
  EXPECT_EQ(bench.answered("gpu/amd_temperatures", "gpu.temperature", "gpu0"), 58);
  for (const int busy : {13, 14, 15}) {  // readings of each second come between
    host.write(kSecond + "/gpu_busy_percent", std::to_string(busy) + '\n');
    EXPECT_TRUE(
        sample_until(bench, [&] { return bench.value("gpu/amd_utilization", "gpu.utilization", "gpu1") == busy; }));
  }
  EXPECT_EQ(bench.coverage().reason, "");
}

TEST(AmdGpu, IsAbsentWithoutADeviceOfTheDriver) {
  const TestHost host;
  device(host, 128, "0000:01:00.0", "nvidia");
  EXPECT_EQ(ProbeBench(host, "amd_gpu").coverage().reason, "this host has no AMD GPU (no device of the driver amdgpu)");
}

TEST(AmdGpu, MeasuresOnlyTheJobsGpus) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");
  gpu(host, 129, kSecond, "12");
  host.process(50, 1, "python", 10, 5);
  host.write("/proc/50/environ", std::string("ROCR_VISIBLE_DEVICES=1\0", 23));
  host.last_pid(50);
  ProbeBench bench(host, "amd_gpu", JobSource{.pid = 50});
  EXPECT_EQ(bench.answered("gpu/amd_utilization", "gpu.utilization", "gpu1"), 12);
  EXPECT_TRUE(bench.family("gpu/amd_power").channels().size() == 1U);
  EXPECT_EQ(bench.fact("gpu.gpu1.allocated_by"), "ROCR_VISIBLE_DEVICES");
  EXPECT_EQ(bench.fact("gpu.gpu0.address"), "");
}

TEST(AmdGpu, GivesEachOfTheJobsProcessesItsShare) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");
  host.write("/proc/2/comm", "kthreadd\n");
  host.write("/sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 416\ndrm_render_minor 128\n");
  host.write("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51234\n");
  host.write("/sys/class/kfd/kfd/proc/50/vram_51234", "5000000\n");
  host.write("/sys/class/kfd/kfd/proc/50/vram_777", "6000000\n");  // on another GPU
  host.write("/sys/class/kfd/kfd/proc/60/vram_51234", "7000000\n");
  host.process(50, 1, "python", 10, 5);
  host.last_pid(60);
  ProbeBench bench(host, "amd_gpu", JobSource{.pid = 50});
  EXPECT_EQ(bench.answered("gpu/amd_process_memory", "process.gpu_memory", "rank0/gpu0"), 5'000'000);
  EXPECT_EQ(bench.family("gpu/amd_process_memory").channels().size(), 1U) << "process 60 is another user's";
}

/// A process with the device file of the first GPU open.
void hold(const TestHost& host, int pid, const std::string& counts) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::filesystem::create_directories(host.root().string() + folder + "/fd");
  std::filesystem::create_symlink("/dev/dri/renderD128", host.root().string() + folder + "/fd/7");
  host.write(folder + "/fdinfo/7",
             "drm-driver:\tamdgpu\ndrm-pdev:\t0000:c1:00.0\ndrm-client-id:\t" + std::to_string(pid) + '\n' + counts);
}

TEST(AmdGpu, KnowsTheShareOfProcessesWithoutTheComputeDriver) {
  const TestHost host;
  gpu(host, 128, kFirst, "97");  // in a container: the processes of the compute driver have other numbers
  for (const int pid : {50, 51}) host.process(pid, pid == 50 ? 1 : 50, "python", 10, 5);
  hold(host, 50, "drm-memory-vram:\t2068 KiB\ndrm-engine-gfx:\t107322799 ns\n");
  hold(host, 51, "drm-memory-vram:\t4136 KiB\n");
  host.last_pid(51);
  ProbeBench bench(host, "amd_gpu", JobSource{.pid = 50});
  EXPECT_EQ(bench.answered("gpu/amd_process_memory", "process.gpu_memory", "rank0/gpu0"), 2068 * 1024);
  EXPECT_EQ(bench.family("gpu/amd_process_memory").channels().size(), 2U) << "both processes";
  EXPECT_EQ(bench.answered("gpu/amd_process_utilization", "process.gpu_utilization", "rank0/gpu0"), 0)
      << "its engines have not worked since";
  EXPECT_EQ(bench.family("gpu/amd_process_utilization").channels().size(), 1U) << "the other has used no engine yet";
  EXPECT_EQ(bench.family("gpu/amd_process_utilization").spec().period, std::chrono::seconds(10));
}

TEST(AmdGpu, AttributesNoMemoryFromInsideAPidNamespaceOrToAPartOfAGpu) {
  for (const bool contained : {true, false}) {
    const TestHost host;
    gpu(host, 128, kFirst, "97");
    if (!contained) host.write("/proc/2/comm", "kthreadd\n");
    if (!contained) host.write(kFirst + "/current_compute_partition", "CPX\n");
    host.write("/sys/class/kfd/kfd/topology/nodes/1/properties", "drm_render_minor 128\n");
    host.write("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51234\n");
    host.write("/sys/class/kfd/kfd/proc/50/vram_51234", "5000000\n");
    host.process(50, 1, "python", 10, 5);
    host.last_pid(50);
    ProbeBench bench(host, "amd_gpu", JobSource{.pid = 50});
    EXPECT_EQ(bench.answered("gpu/amd_temperatures", "gpu.temperature", "gpu0"), 58);
    EXPECT_TRUE(bench.family("gpu/amd_process_memory").channels().empty()) << contained;
  }
}

TEST(AmdGpus, AreCountedAsTheLibrariesDo) {
  const TestHost host;
  device(host, 128, "0000:c1:00.0");
  device(host, 129, "0000:41:00.0");
  device(host, 130, "../../../etc");  // an address of no PCI device
  host.write("/sys/class/drm/renderD131/device/uevent", "DRIVER=amdgpu_xcp\nPCI_SLOT_NAME=0000:c1:00.0\n");
  host.write("/sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 64\ndrm_render_minor 0\n");
  host.write("/sys/class/kfd/kfd/topology/nodes/2/properties", "simd_count 416\ndrm_render_minor 129\n");
  host.write("/sys/class/kfd/kfd/topology/nodes/10/properties", "simd_count 416\ndrm_render_minor 128\n");
  KernelTree fs(host.root());
  const DriverGpus found = amd_gpus(fs);
  ASSERT_EQ(found.gpus.size(), 2U);
  EXPECT_EQ(found.gpus[0].address, "0000:41:00.0");
  EXPECT_EQ(found.gpus[0].index, 0);
  EXPECT_EQ(found.gpus[0].minor, 129);
  EXPECT_EQ(found.gpus[1].address, "0000:c1:00.0");
  EXPECT_FALSE(found.divided);
  host.write("/sys/class/kfd/kfd/topology/nodes/11/properties", "simd_count 416\ndrm_render_minor 131\n");
  EXPECT_TRUE(amd_gpus(fs).divided) << "a part that is no PCI device";
}

constexpr int kMinors[] = {130, 128, 129, 131};
std::vector<GpuIdentity> four_gpus() {
  std::vector<GpuIdentity> gpus;
  for (int i = 0; i < 4; ++i) gpus.push_back({i, kMinors[i], "GPU-" + std::to_string(i) + "aaa", ""});
  return gpus;
}

JobGpus of_environment(const std::string& environment, const std::set<int>& opened = {}, bool divided = false) {
  const TestHost host;
  host.process(50, 1, "python", 10, 5);
  host.write("/proc/50/environ", environment + std::string("\0", 1));
  host.last_pid(50);
  KernelTree fs(host.root());
  const Host facts = Host::look(fs);
  Job job(fs, facts, JobSource{.pid = 50}, 9);
  job.update({1, 1});
  return gpus_of_job(fs, &job, four_gpus(), kAmdGpus, opened, divided);
}

TEST(AmdGpusOfAJob, AreThoseThatSlurmOrTheUserNames) {
  EXPECT_EQ(of_environment("HOME=/root").indices, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(of_environment("SLURM_JOB_GPUS=128,131").indices, (std::set<int>{1, 3})) << "numbers of device files";
  EXPECT_EQ(of_environment("SLURM_JOB_GPUS=0,3").indices, (std::set<int>{1, 3})) << "places in the list of gres.conf";
  EXPECT_EQ(of_environment("SLURM_STEP_GPUS=7").indices, (std::set<int>{0, 1, 2, 3})) << "names none of them";
  EXPECT_EQ(of_environment("ROCR_VISIBLE_DEVICES=3").indices, (std::set<int>{3}));
  EXPECT_EQ(of_environment("HIP_VISIBLE_DEVICES=0,2").allocated_by, "HIP_VISIBLE_DEVICES");
  EXPECT_EQ(of_environment("CUDA_VISIBLE_DEVICES=2").indices, (std::set<int>{2})) << "HIP reads it, too";
  EXPECT_EQ(of_environment("ROCR_VISIBLE_DEVICES=GPU-1aaa,GPU-2aaa").indices, (std::set<int>{1, 2}));
}

TEST(AmdGpusOfAJob, AreThoseItHoldsOpenWhereNoneIsNamed) {
  EXPECT_EQ(of_environment("HOME=/root", {129}).indices, (std::set<int>{2}));
  EXPECT_EQ(of_environment("HOME=/root", {129}).allocated_by, "") << "no allocation: a library opens all it may";
  EXPECT_TRUE(of_environment("SLURM_JOB_ID=4711", {129}).indices.empty()) << "it may be another job's";
  EXPECT_TRUE(of_environment("SLURM_JOB_ID=4711").indices.empty());
  EXPECT_EQ(of_environment("ROCR_VISIBLE_DEVICES=0", {129}).indices, (std::set<int>{0}));
}

TEST(AmdGpusOfAJob, AreNotCountedWhereTheyAreDivided) {
  EXPECT_EQ(of_environment("ROCR_VISIBLE_DEVICES=3", {129}, true).indices, (std::set<int>{2}));
  EXPECT_EQ(of_environment("ROCR_VISIBLE_DEVICES=3", {}, true).indices.size(), 4U);
}

}  // namespace
}  // namespace reveal::tests::amd_gpu_test
