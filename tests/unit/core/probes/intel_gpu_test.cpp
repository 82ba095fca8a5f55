// The probe of Intel's graphics cards on trees that were written by hand from the kernel's documentation (sysfs files
// of i915 and xe, their monitors, DRM client usage stats): a card of i915 with a package of Intel's, and one of xe. The
// values are no machine's.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/gpu/job_gpus.h"
#include "tests/unit/core/sample_until.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::intel_gpu_test {
namespace {

const std::string kOld = "/sys/bus/pci/devices/0000:03:00.0";  // i915
const std::string kNew = "/sys/bus/pci/devices/0000:43:00.0";  // xe

void device(const TestHost& host, int minor, const std::string& address, const std::string& driver) {
  host.write("/sys/class/drm/renderD" + std::to_string(minor) + "/device/uevent",
             "DRIVER=" + driver + "\nPCI_CLASS=38000\nPCI_ID=8086:56C0\nPCI_SLOT_NAME=" + address + '\n');
}

void card_of_i915(const TestHost& host) {
  device(host, 128, "0000:03:00.0", "i915");
  const std::string part = kOld + "/drm/card1/gt/gt0/";
  host.write(kOld + "/power/runtime_status", "active\n");
  host.write(kOld + "/numa_node", "0\n");
  host.write(part + "rps_act_freq_mhz", "2050\n");
  host.write(part + "rps_cur_freq_mhz", "2100\n");
  for (const char* reason : {"status", "pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc"})
    host.write(part + "throttle_reason_" + reason, "0\n");
  host.write(kOld + "/drm/card1/lmem_total_bytes", "14248050688\n");
  host.write(kOld + "/drm/card1/lmem_avail_bytes", "4248050688\n");
  host.write(kOld + "/hwmon/hwmon3/name", "i915\n");
  host.write(kOld + "/hwmon/hwmon3/energy1_input", "1000000\n");
  host.write(kOld + "/hwmon/hwmon3/power1_max", "120000000\n");
  host.write(kOld + "/hwmon/hwmon3/power1_rated_max", "150000000\n");
  host.write(kOld + "/hwmon/hwmon4/name", "i915_gt0\n");
  host.write(kOld + "/hwmon/hwmon4/energy1_input", "7\n");
}

void card_of_xe(const TestHost& host) {
  device(host, 129, "0000:43:00.0", "xe");
  for (const auto& [part, clock] : {std::pair{"/tile0/gt0", "1550\n"}, std::pair{"/tile0/gt1", "0\n"}}) {
    host.write(kNew + part + "/freq0/act_freq", clock);
    for (const char* reason : {"status", "reason_pl1", "reason_thermal", "reason_prochot"})
      host.write(kNew + part + "/freq0/throttle/" + reason, "0\n");
  }
  host.write(kNew + "/hwmon/hwmon5/name", "xe\n");
  host.write(kNew + "/hwmon/hwmon5/energy2_input", "5000000\n");
  host.write(kNew + "/hwmon/hwmon5/power1_max", "0\n");  // no limit
  host.write(kNew + "/hwmon/hwmon5/temp2_input", "61500\n");
  host.write(kNew + "/hwmon/hwmon5/temp3_input", "70000\n");
}

void hold(const TestHost& host, int pid, const std::string& fd, const std::string& text) {
  const std::string folder = host.root().string() + "/proc/" + std::to_string(pid) + "/fd";
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder + '/' + fd);
  std::filesystem::create_symlink("/dev/dri/renderD128", folder + '/' + fd);
  host.write("/proc/" + std::to_string(pid) + "/fdinfo/" + fd, text);
}

/// In place and at once, as the kernel's files change: the probe may be reading. No shorter than the text before.
void change(const TestHost& host, const std::string& path, const std::string& text) {
  std::fstream(host.root().string() + path, std::ios::in | std::ios::out) << text;
}

std::string client(const std::string& address, std::int64_t busy, std::int64_t passed) {
  return "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t" + address +
         "\ndrm-resident-vram0:\t4096 KiB\ndrm-cycles-ccs:\t" + std::to_string(busy) + "\ndrm-total-cycles-ccs:\t" +
         std::to_string(passed) + "\n";
}

TEST(IntelGpu, MeasuresInBaseUnitsWhatBothDriversShow) {
  const TestHost host;
  card_of_i915(host);
  card_of_xe(host);
  ProbeBench bench(host, "intel_gpu");
  ASSERT_EQ(bench.coverage().state, Coverage::State::ok) << bench.coverage().reason;
  EXPECT_EQ(bench.answered("gpu/intel_clocks", "gpu.sm_clock", "gpu0"), 2'050'000'000);
  EXPECT_EQ(bench.value("gpu/intel_clocks", "gpu.sm_clock", "gpu1"), 1'550'000'000) << "the part for media is off";
  EXPECT_EQ(bench.value("gpu/intel_memory", "gpu.memory_used", "gpu0"), 10'000'000'000);
  EXPECT_EQ(bench.value("gpu/intel_memory", "gpu.memory_free", "gpu0"), 4'248'050'688);
  EXPECT_EQ(bench.value("gpu/intel_memory", "gpu.memory_used", "gpu1"), kMissing) << "xe does not show it";
  EXPECT_EQ(bench.value("gpu/intel_energy", "gpu.energy", "gpu0"), 1'000'000);
  EXPECT_EQ(bench.value("gpu/intel_energy", "gpu.energy", "gpu1"), 5'000'000) << "that of the package";
  EXPECT_EQ(bench.value("gpu/intel_reasons", "gpu.reason_power_cap", "gpu0"), 0);
  EXPECT_EQ(bench.value("gpu/intel_utilization", "gpu.utilization", "gpu0"), kMissing) << "there is no job";
  EXPECT_EQ(bench.answered("gpu/intel_temperatures", "gpu.temperature", "gpu1"), 62);
  EXPECT_EQ(bench.value("gpu/intel_temperatures", "gpu.memory_temperature", "gpu1"), 70);
  EXPECT_EQ(bench.value("gpu/intel_temperatures", "gpu.temperature", "gpu0"), kMissing);
  EXPECT_EQ(bench.family("gpu/intel_temperatures").spec().period, std::chrono::seconds(10));
}

TEST(IntelGpu, ReportsTheReasonsOfLowClocksByKind) {
  const TestHost host;
  card_of_i915(host);
  card_of_xe(host);
  host.write(kOld + "/drm/card1/gt/gt0/throttle_reason_pl1", "1\n");
  host.write(kOld + "/drm/card1/gt/gt0/throttle_reason_vr_thermalert", "1\n");
  host.write(kNew + "/tile0/gt1/freq0/throttle/reason_thermal", "1\n");
  ProbeBench bench(host, "intel_gpu");
  EXPECT_EQ(bench.answered("gpu/intel_reasons", "gpu.reason_power_cap", "gpu0"), 1);
  EXPECT_EQ(bench.value("gpu/intel_reasons", "gpu.reason_hw_thermal", "gpu0"), 1);
  EXPECT_EQ(bench.value("gpu/intel_reasons", "gpu.reason_sw_thermal", "gpu0"), 0);
  EXPECT_EQ(bench.value("gpu/intel_reasons", "gpu.reason_sw_thermal", "gpu1"), 1) << "of any of its parts";
  EXPECT_EQ(bench.value("gpu/intel_reasons", "gpu.reason_power_cap", "gpu1"), 0);
}

TEST(IntelGpu, ComputesTheMeanPowerFromTheEnergy) {
  const TestHost host;
  card_of_i915(host);
  ProbeBench bench(host, "intel_gpu");
  EXPECT_EQ(bench.answered("gpu/intel_energy", "gpu.energy", "gpu0"), 1'000'000);
  EXPECT_EQ(bench.answered("gpu/intel_power", "gpu.power", "gpu0"), 0) << "it used no energy";
  change(host, kOld + "/hwmon/hwmon3/energy1_input", "121000000\n");
  const auto power = [&] { return bench.value("gpu/intel_power", "gpu.power", "gpu0"); };
  EXPECT_TRUE(sample_until(bench, [&] { return power() != 0; }));
  EXPECT_GT(power(), 0);
  EXPECT_LE(power(), 120) << "120 J, in one second or in several";
  host.write(kOld + "/hwmon/hwmon3/energy1_input", "5\n");
  EXPECT_TRUE(sample_until(bench, [&] { return power() == kMissing; })) << "the counter began again";
}

TEST(IntelGpu, MeasuresTheUseByTheJobsProcesses) {
  const TestHost host;
  card_of_xe(host);
  host.process(50, 1, "python", 10, 5);
  host.last_pid(50);
  hold(host, 50, "7", client("0000:43:00.0", 1000, 10'000));
  ProbeBench bench(host, "intel_gpu", JobSource{.pid = 50});
  EXPECT_EQ(bench.answered("gpu/intel_process_memory", "process.gpu_memory", "rank0/gpu0"), 4096 * 1024);
  change(host, "/proc/50/fdinfo/7", client("0000:43:00.0", 8000, 20'000));
  EXPECT_EQ(bench.answered("gpu/intel_utilization", "gpu.utilization", "gpu0"), 70);
  EXPECT_EQ(bench.value("gpu/intel_process_utilization", "process.gpu_utilization", "rank0/gpu0"), 70);
}

TEST(IntelGpu, TellsWhoTheGpusAre) {
  const TestHost host;
  host.write("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: \t 0\n");
  card_of_i915(host);
  card_of_xe(host);
  ProbeBench bench(host, "intel_gpu");
  EXPECT_EQ(bench.answered("gpu/intel_clocks", "gpu.sm_clock", "gpu1"), 2'050'000'000) << "behind NVIDIA's";
  EXPECT_EQ(bench.fact("gpu.gpu1.vendor"), "Intel");
  EXPECT_EQ(bench.fact("gpu.gpu1.address"), "0000:03:00.0");
  EXPECT_EQ(bench.fact("gpu.gpu1.numa_node"), "0");
  EXPECT_EQ(bench.fact("gpu.gpu1.power_limit"), "120");
  EXPECT_EQ(bench.fact("gpu.gpu1.power_limit_default"), "150");
  EXPECT_EQ(bench.fact("gpu.gpu2.address"), "0000:43:00.0");
  EXPECT_EQ(bench.fact("gpu.gpu2.power_limit"), "") << "it is switched off";
}

TEST(IntelGpu, WakesNoGpuThatSleepsAndSaysSo) {
  const TestHost host;
  card_of_i915(host);
  card_of_xe(host);
  host.write(kOld + "/power/runtime_status", "suspended\n");
  ProbeBench bench(host, "intel_gpu");
  EXPECT_EQ(bench.answered("gpu/intel_clocks", "gpu.sm_clock", "gpu1"), 1'550'000'000);
  EXPECT_EQ(bench.value("gpu/intel_clocks", "gpu.sm_clock", "gpu0"), kMissing);
  EXPECT_EQ(bench.coverage().reason, "asleep and not woken: gpu0");
}

TEST(IntelGpu, HasNoValueForWhatCannotBeRead) {
  const TestHost host;
  card_of_i915(host);
  host.write(kOld + "/drm/card1/gt/gt0/rps_act_freq_mhz", "MHz\n");
  host.write(kOld + "/drm/card1/gt/gt0/throttle_reason_thermal", "yes\n");
  host.write(kOld + "/drm/card1/gt/gt0/throttle_reason_ratl", "\n");
  host.write(kOld + "/drm/card1/lmem_avail_bytes", "99999999999\n");  // more than there is
  host.write(kOld + "/hwmon/hwmon3/energy1_input", "-5\n");
  ProbeBench bench(host, "intel_gpu");
  EXPECT_EQ(bench.answered("gpu/intel_reasons", "gpu.reason_power_cap", "gpu0"), 0);
  EXPECT_EQ(bench.value("gpu/intel_reasons", "gpu.reason_sw_thermal", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/intel_clocks", "gpu.sm_clock", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/intel_memory", "gpu.memory_used", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/intel_energy", "gpu.energy", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/intel_power", "gpu.power", "gpu0"), kMissing);
}

TEST(IntelGpu, GoesOnWithoutAGpuThatWasTakenAway) {
  const TestHost host;
  card_of_i915(host);
  card_of_xe(host);
  ProbeBench bench(host, "intel_gpu");
  EXPECT_EQ(bench.answered("gpu/intel_clocks", "gpu.sm_clock", "gpu1"), 1'550'000'000);
  for (const char* part : {"/tile0/gt0", "/tile0/gt1"}) host.write(kNew + part + "/freq0/act_freq", "");  // as ENODEV
  host.remove("/sys/class/drm/renderD129");
  EXPECT_TRUE(sample_until(bench, [&] { return bench.value("gpu/intel_clocks", "gpu.sm_clock", "gpu1") == kMissing; }));
  EXPECT_EQ(bench.answered("gpu/intel_clocks", "gpu.sm_clock", "gpu0"), 2'050'000'000);
}

TEST(IntelGpu, IsAbsentWithoutAGraphicsCard) {
  const TestHost host;
  device(host, 128, "0000:00:02.0", "i915");  // a part of the processor
  device(host, 129, "0000:01:00.0", "nvidia");
  EXPECT_EQ(ProbeBench(host, "intel_gpu").coverage().reason,
            "this host has no graphics card of Intel (no device of the drivers i915 and xe)");
}

TEST(IntelGpus, AreDividedWhereACardHasSeveralTiles) {
  const TestHost host;
  card_of_i915(host);
  card_of_xe(host);
  KernelTree fs(host.root());
  const DriverGpus whole = intel_gpus(fs);
  ASSERT_EQ(whole.gpus.size(), 2U);
  EXPECT_EQ(whole.gpus[1].address, "0000:43:00.0");
  EXPECT_EQ(whole.gpus[1].minor, 129);
  EXPECT_FALSE(whole.divided);
  host.write(kNew + "/tile1/gt2/freq0/act_freq", "1550\n");
  EXPECT_TRUE(intel_gpus(fs).divided);
}

JobGpus of_environment(const std::string& environment, bool divided = false) {
  const TestHost host;
  host.process(50, 1, "python", 10, 5);
  host.write("/proc/50/environ", environment + std::string("\0", 1));
  host.last_pid(50);
  KernelTree fs(host.root());
  const Host facts = Host::look(fs);
  Job job(fs, facts, JobSource{.pid = 50}, 9);
  job.update({1, 1});
  std::vector<GpuIdentity> gpus;
  for (int i = 0; i < 4; ++i) gpus.push_back({i, 128 + i, "", ""});
  return gpus_of_job(fs, &job, gpus, kIntelGpus, {}, divided);
}

TEST(IntelGpusOfAJob, AreThoseThatSlurmOrTheUserNames) {
  EXPECT_EQ(of_environment("SLURM_JOB_GPUS=0,3").indices, (std::set<int>{0, 3}));
  EXPECT_EQ(of_environment("ZE_AFFINITY_MASK=1,2").indices, (std::set<int>{1, 2}));
  EXPECT_EQ(of_environment("ZE_AFFINITY_MASK=1,2").allocated_by, "ZE_AFFINITY_MASK");
  EXPECT_EQ(of_environment("ZE_AFFINITY_MASK=0.1").indices.size(), 4U) << "a part of one of them";
  EXPECT_EQ(of_environment("ZE_AFFINITY_MASK=1", true).indices.size(), 4U) << "tiles are counted, too";
  EXPECT_EQ(of_environment("CUDA_VISIBLE_DEVICES=1").indices.size(), 4U) << "another maker's";
}

}  // namespace
}  // namespace reveal::tests::intel_gpu_test
