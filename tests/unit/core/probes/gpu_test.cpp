// The GPU probe against a double of NVIDIA's library (tests/doubles/nvml_double.cpp).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "core/gpu/job_gpus.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/trace_writer.h"
#include "tests/unit/core/sample_until.h"
#include "tests/unit/core/test_host.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::gpu_test {
namespace {

constexpr char kTwoGpus[] =
    "gpus 2\nutilization 97\n1.utilization 12\nmemory_utilization 40\nmemory_total 80000000000\n"
    "memory_used 60000000000\npower 640500\nsm_clock 1410\nreasons 4\nfield74 7000000000\ntemperature 61\n"
    "ecc_uncorrected 3\nremap_pending 1\nlink0 1\nlink1 0\nlink_errors1 5\nname NVIDIA H100\npower_limit 700000\n";

std::string double_library(const std::string& name = "nvml_double") {
  return std::string(NVML_DOUBLES) + "/" + name + ".so";
}

class GpuBench {
 public:
  explicit GpuBench(const std::string& text, const std::string& library = double_library(),
                    std::optional<JobSource> job = std::nullopt) {
    write(text);
    ::setenv("NVML_DOUBLE", file().c_str(), 1);
    sampler_.emplace(fs_, sink_, Sampler::Options{.probes = {"gpu"}, .job = job, .gpu_library = library},
                     TickTime{second_, second_});
    sampler_->look_first();
  }

  void write(const std::string& text) const {
    std::ofstream(file()) << text << "log " << log().string() << "\nopened " << (folder_.path() / "opened").string()
                          << '\n';
  }
  void sample() {
    second_ += 1'000'000'000;
    sampler_->sample({.time = {second_, second_}, .number = second_ / 100'000'000});
  }
  [[nodiscard]] std::int64_t value(const std::string& family, const std::string& metric,
                                   const std::string& instance) const {
    const Family* found = sink_.find(family);
    return found == nullptr ? kMissing : found->value(metric, instance);
  }
  /// The value that the worker has sent by then; a worker that never answers costs a wait, not the test.
  std::int64_t answered(const std::string& family, const std::string& metric, const std::string& instance) {
    return until([&] { return value(family, metric, instance) != kMissing; }) ? value(family, metric, instance)
                                                                              : kMissing;
  }
  template <typename Condition>
  bool until(const Condition& condition) {
    return sample_until(*this, condition);
  }
  [[nodiscard]] const TraceSink& sink() const { return sink_; }
  [[nodiscard]] Coverage coverage() const { return sampler_->coverage().front(); }
  [[nodiscard]] std::string fact(const std::string& key) const {
    for (const auto& [name, value] : sampler_->facts()) {
      if (name == key) return value;
    }
    return "";
  }
  void close() { sampler_->close(); }
  void end() { sampler_.reset(); }
  /// GPUs that were opened, in a row.
  [[nodiscard]] std::string opened() const { return text_of(folder_.path() / "opened"); }
  [[nodiscard]] std::string calls() const { return text_of(log()); }

 private:
  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  [[nodiscard]] std::string file() const { return (folder_.path() / "gpus").string(); }
  [[nodiscard]] std::filesystem::path log() const { return folder_.path() / "calls"; }

  TemporaryDirectory folder_;
  KernelTree fs_;
  TraceSink sink_;
  std::int64_t second_ = 1'000'000'000;
  std::optional<Sampler> sampler_;
};

TEST(Gpu, MeasuresInBaseUnitsWhatTheDriverKnows) {
  GpuBench bench(kTwoGpus);
  ASSERT_EQ(bench.coverage().state, Coverage::State::ok) << bench.coverage().reason;
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu0"), 97);
  EXPECT_EQ(bench.value("gpu/utilization", "gpu.utilization", "gpu1"), 12);
  EXPECT_EQ(bench.value("gpu/memory", "gpu.memory_used", "gpu0"), 60'000'000'000);
  EXPECT_EQ(bench.value("gpu/memory", "gpu.memory_free", "gpu0"), 20'000'000'000);
  EXPECT_EQ(bench.value("gpu/power", "gpu.power", "gpu0"), 641);
  EXPECT_EQ(bench.value("gpu/clocks", "gpu.sm_clock", "gpu0"), 1'410'000'000);
  EXPECT_EQ(bench.value("gpu/reasons", "gpu.reason_power_cap", "gpu0"), 1);
  EXPECT_EQ(bench.value("gpu/reasons", "gpu.reason_hw_slowdown", "gpu0"), 0);
  EXPECT_EQ(bench.value("gpu/violations", "gpu.power_violation", "gpu0"), 7'000'000'000);
  EXPECT_EQ(bench.answered("gpu/temperatures", "gpu.temperature", "gpu1"), 61);
  EXPECT_EQ(bench.value("gpu/errors", "gpu.ecc_uncorrected", "gpu0"), 3);
  EXPECT_EQ(bench.value("gpu/states", "gpu.remap_pending", "gpu0"), 1);
  EXPECT_EQ(bench.value("gpu/states", "nvlink.active", "gpu0/link1"), 0);
  EXPECT_EQ(bench.value("gpu/errors", "nvlink.crc_errors", "gpu0/link1"), 10);
}

// A path that names no family would make all of them fast.
TEST(Gpu, ReadsTheFamiliesThatChangeSlowlyEveryTenSeconds) {
  const GpuBench bench(kTwoGpus);
  ASSERT_EQ(bench.coverage().state, Coverage::State::ok) << bench.coverage().reason;
  for (const char* path : {"gpu/activity", "gpu/energy"}) ASSERT_NE(bench.sink().find(path), nullptr) << path;
  EXPECT_LT(bench.sink().find("gpu/activity")->spec().period, std::chrono::seconds(10));
  EXPECT_EQ(bench.sink().find("gpu/energy")->spec().period, std::chrono::seconds(10));
}

TEST(Gpu, HasNoValueForWhatTheDriverDoesNotSupport) {
  GpuBench bench("gpus 1\nutilization 50\npower !3\n");
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu0"), 50);
  EXPECT_EQ(bench.value("gpu/power", "gpu.power", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/clocks", "gpu.memory_clock", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/traffic", "pcie.tx_bytes", "gpu0"), kMissing);
}

TEST(Gpu, HasNoValueWhereTheLibraryHasAnotherVersionOfAStructure) {
  const std::string other_version = "!25";  // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
  GpuBench bench("gpus 1\nutilization 50\nmemory_used " + other_version + "\nprocess " + other_version + "\nfield197 " +
                 other_version + "\nremap_pending " + other_version + "\npower 200000\n");
  EXPECT_EQ(bench.answered("gpu/power", "gpu.power", "gpu0"), 200);
  EXPECT_EQ(bench.value("gpu/utilization", "gpu.utilization", "gpu0"), 50);
  EXPECT_EQ(bench.value("gpu/memory", "gpu.memory_used", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/traffic", "pcie.tx_bytes", "gpu0"), kMissing);
  EXPECT_EQ(bench.value("gpu/states", "gpu.remap_pending", "gpu0"), kMissing);
}

TEST(Gpu, GoesOnWhileAGpuComesAndGoes) {
  GpuBench bench(kTwoGpus);
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu1"), 12);
  bench.write("gpus 1\nutilization 40\n1.utilization !999\npower 300000\n1.power !999\n");  // it is being reset
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/utilization", "gpu.utilization", "gpu1") == kMissing; }));
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/utilization", "gpu.utilization", "gpu0") == 40; }));
  EXPECT_EQ(bench.value("gpu/power", "gpu.power", "gpu1"), kMissing);
  bench.write("gpus 3\nutilization 41\n1.utilization 13\n");  // the library counts GPUs once
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/utilization", "gpu.utilization", "gpu1") == 13; }));
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/utilization", "gpu.utilization", "gpu0") == 41; }));
  EXPECT_EQ(bench.value("gpu/utilization", "gpu.utilization", "gpu2"), kMissing);
}

TEST(Gpu, TakesALinkThatSleepsForUp) {
  GpuBench bench("gpus 1\nutilization 3\nlink0 2\nlink1 0\n");
  EXPECT_EQ(bench.answered("gpu/states", "nvlink.active", "gpu0/link0"), 1);
  EXPECT_EQ(bench.value("gpu/states", "nvlink.active", "gpu0/link1"), 0);
}

TEST(Gpu, TellsWhoTheGpusAre) {
  const GpuBench bench(kTwoGpus);
  EXPECT_EQ(bench.fact("gpu.driver"), "550.54.15");
  EXPECT_EQ(bench.fact("gpu.gpu0.name"), "NVIDIA H100");
  EXPECT_EQ(bench.fact("gpu.gpu1.uuid"), "GPU-11111111");
  EXPECT_EQ(bench.fact("gpu.gpu1.address"), "0000:82:00.0");
  EXPECT_EQ(bench.fact("gpu.gpu0.power_limit"), "700");
  EXPECT_EQ(bench.fact("gpu.gpu0.allocated_by"), "") << "nobody said so";
}

TEST(Gpu, IsAbsentWithoutTheLibraryAndSaysWhy) {
  EXPECT_EQ(GpuBench(kTwoGpus, "/nowhere/libnvidia-ml.so.1").coverage().reason,
            "no NVIDIA driver here (/nowhere/libnvidia-ml.so.1 cannot be loaded)");
  const GpuBench mismatch("gpus 1\ninit !18\n");
  EXPECT_EQ(mismatch.coverage().state, Coverage::State::absent);
  EXPECT_NE(mismatch.coverage().reason.find("different versions"), std::string::npos) << mismatch.coverage().reason;
  EXPECT_EQ(GpuBench("gpus 0\n").coverage().reason, "the NVIDIA driver shows no GPU to this user");
}

TEST(Gpu, UsesWhatAnOlderLibraryHas) {
  GpuBench bench("gpus 1\nutilization 30\nreasons 8\n", double_library("nvml_double_old"));
  EXPECT_EQ(bench.answered("gpu/reasons", "gpu.reason_hw_slowdown", "gpu0"), 1);
  EXPECT_EQ(bench.value("gpu/states", "gpu.remap_pending", "gpu0"), kMissing);
}

TEST(Gpu, GoesOnAfterALibraryThatHung) {
  GpuBench bench("gpus 1\nutilization 30\n");
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu0"), 30);
  bench.write("gpus 1\nutilization 31\nlatency 300\n");
  EXPECT_TRUE(bench.until([&] { return !bench.coverage().reason.empty(); }));
  EXPECT_EQ(bench.coverage().reason, "the NVIDIA library did not answer for a part of the time");
  bench.write("gpus 1\nutilization 32\n");
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/utilization", "gpu.utilization", "gpu0") == 32; }));
}

TEST(Gpu, CountsMemoryErrorsByRegionAndRetiredPages) {
  GpuBench bench(
      "gpus 1\nutilization 30\nregion2_corrected 4\nregion2_uncorrected 2\nregion7_corrected 1\n"
      "region7_uncorrected 0\nfield29 5\nfield30 1\nfield31 0\n");
  EXPECT_EQ(bench.answered("gpu/errors", "gpu.ecc_uncorrected_in", "gpu0/dram"), 2);
  EXPECT_EQ(bench.value("gpu/errors", "gpu.ecc_corrected_in", "gpu0/dram"), 4);
  EXPECT_EQ(bench.value("gpu/errors", "gpu.ecc_corrected_in", "gpu0/sram"), 1);
  EXPECT_EQ(bench.value("gpu/errors", "gpu.ecc_uncorrected_in", "gpu0/l2"), kMissing) << "it is not counted there";
  EXPECT_EQ(bench.value("gpu/states", "gpu.retired_pages_single_bit", "gpu0"), 5);
  EXPECT_EQ(bench.value("gpu/states", "gpu.retired_pages_double_bit", "gpu0"), 1);
  EXPECT_EQ(bench.value("gpu/states", "gpu.retired_pages_pending", "gpu0"), 0);
}

TEST(Gpu, MeasuresTheExtremesThatTheDriverSampledSinceTheLastLook) {
  std::string in_ten_seconds;
  for (int tenth = 0; tenth < 98; ++tenth) in_ten_seconds += "500000;";
  GpuBench bench("gpus 1\nutilization 30\npower 500000\nsamples0 900000;" + in_ten_seconds +
                 "640500;300000\nsamples1 97;12;98\n");
  EXPECT_EQ(bench.answered("gpu/power_extremes", "gpu.power_highest", "gpu0"), 641) << "900 W were 10 s earlier";
  EXPECT_EQ(bench.value("gpu/utilization_extremes", "gpu.utilization_highest", "gpu0"), 98);
  EXPECT_EQ(bench.value("gpu/utilization_extremes", "gpu.utilization_lowest", "gpu0"), 12);
  EXPECT_EQ(bench.value("gpu/power", "gpu.power", "gpu0"), 500);
}

TEST(Gpu, MeasuresTheActivityWithinGpusWithAPerformanceMonitor) {
  GpuBench bench("gpus 3\nutilization 99\ngpm 1\ngpm2 64\ngpm3 250\ngpm5 41\ngpm10 !3\n1.gpm 0\n2.mig 1\n");
  EXPECT_EQ(bench.answered("gpu/activity", "gpu.sm_active", "gpu0"), 64);
  EXPECT_EQ(bench.value("gpu/activity", "gpu.tensor_active", "gpu0"), 41);
  EXPECT_EQ(bench.value("gpu/activity", "gpu.sm_occupancy", "gpu0"), kMissing) << "more than all";
  EXPECT_EQ(bench.value("gpu/activity", "gpu.memory_bandwidth", "gpu0"), kMissing) << "it is not counted";
  EXPECT_EQ(bench.value("gpu/activity", "gpu.sm_active", "gpu1"), kMissing) << "it has no monitor";
  EXPECT_EQ(bench.value("gpu/activity", "gpu.sm_active", "gpu2"), kMissing) << "it is divided";
}

TEST(Gpu, CountsTrafficByThePerformanceMonitorWhereTheCounterIsNarrow) {
  GpuBench bench(
      "gpus 1\nutilization 99\ngpm 1\ngpm20 3\ngpm21 5\ngpm61 7\nfield197 11\nfield197_narrow 1\nfield198 13\n");
  const std::int64_t sent = bench.answered("gpu/traffic", "pcie.tx_bytes", "gpu0");
  EXPECT_GT(sent, 0);
  EXPECT_EQ(bench.value("gpu/traffic", "pcie.rx_bytes", "gpu0"), 13) << "its counter has 64 bits";
  EXPECT_GT(bench.answered("gpu/traffic", "nvlink.tx_bytes", "gpu0"), 2 * sent) << "3 and 7 MiB/s";
  EXPECT_EQ(bench.value("gpu/traffic", "nvlink.rx_bytes", "gpu0"), kMissing) << "nothing counts it";
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/traffic", "pcie.tx_bytes", "gpu0") > sent; }));
}

TEST(Gpu, ReportsTheCostOfItsCallsOnce) {
  GpuBench bench("gpus 1\nutilization 30\ntemperature 61\nlatency 2\n");
  EXPECT_EQ(bench.answered("gpu/temperatures", "gpu.temperature", "gpu0"), 61);
  const std::string each_second = bench.fact("gpu.call_us.each_second");
  EXPECT_GE(std::atoi(each_second.c_str()), 8 * 2000) << "eight calls of 2 ms";
  EXPECT_GT(std::atoi(bench.fact("gpu.call_us.all").c_str()), std::atoi(each_second.c_str()));
  EXPECT_GE(std::atoi(bench.fact("gpu.call_us.nvmlDeviceGetPowerUsage").c_str()), 2000);
  EXPECT_EQ(bench.fact("gpu.call_us.nvmlDeviceGetMigMode").empty(), false) << "a call of the start";
  EXPECT_EQ(bench.coverage().reason.find("less often"), std::string::npos) << bench.coverage().reason;
}

TEST(Gpu, MakesSlowCallsLessOften) {
  GpuBench bench("gpus 1\nutilization 30\n");
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu0"), 30);
  bench.write("gpus 1\nutilization 31\nlatency 55\n");
  const auto slow = [&] { return bench.coverage().reason.find("made less often: nvmlDeviceGet") != std::string::npos; };
  EXPECT_TRUE(bench.until(slow));
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/utilization", "gpu.utilization", "gpu0") == kMissing; }));
  bench.write("gpus 1\nutilization 32\n");
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/utilization", "gpu.utilization", "gpu0") == 32; }));
  EXPECT_TRUE(slow()) << "the report names it";
}

TEST(Gpu, ReadsSeldomWhatIsDearAndTheEnergyAtTheEnd) {
  const std::string begin = "gpus 1\nutilization 30\ntemperature 61\nspin.energy 20000\n";
  GpuBench bench(begin + "power 0\n");
  EXPECT_EQ(bench.answered("gpu/temperatures", "gpu.temperature", "gpu0"), 61);
  EXPECT_EQ(bench.value("gpu/energy", "gpu.energy", "gpu0"), 0) << "by the first answer";
  const auto rests = [&] {  // it may take 10 ms in 10 s
    return bench.value("gpu/temperatures", "gpu.temperature", "gpu0") == 61 &&
           bench.value("gpu/energy", "gpu.energy", "gpu0") == kMissing;
  };
  EXPECT_TRUE(bench.until(rests));
  EXPECT_EQ(bench.value("gpu/utilization", "gpu.utilization", "gpu0"), 30);
  EXPECT_EQ(bench.coverage().reason.find("less often"), std::string::npos) << bench.coverage().reason;
  bench.write(begin + "power 300000\n");
  bench.sample();
  bench.close();
  EXPECT_GT(bench.value("gpu/energy", "gpu.energy", "gpu0"), 0);
}

TEST(Gpu, OutlivesALibraryThatCrashes) {
  GpuBench bench("gpus 1\nutilization 30\n");
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu0"), 30);
  bench.write("gpus 1\nutilization 30\ncrash 1\n");
  EXPECT_TRUE(bench.until([&] { return bench.coverage().reason.find("crashed") != std::string::npos; }));
  EXPECT_TRUE(bench.coverage().reason.starts_with("the NVIDIA library crashed: there is no data after that"))
      << bench.coverage().reason;
  const GpuBench at_once("gpus 1\ncrash 1\n");
  EXPECT_EQ(at_once.coverage().state, Coverage::State::absent);
}

TEST(Gpu, IsMeasuredAgainAfterTheLibraryCrashed) {
  GpuBench bench("gpus 1\nutilization 30\n");
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu0"), 30);
  bench.write("gpus 1\nutilization 30\ncrash 1\n");
  EXPECT_TRUE(bench.until([&] { return bench.coverage().reason.find("crashed") != std::string::npos; }));
  bench.write("gpus 1\nutilization 31\n");
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/utilization", "gpu.utilization", "gpu0") == 31; }));
  EXPECT_TRUE(bench.coverage().reason.starts_with("the NVIDIA library crashed: there is no data for "))
      << bench.coverage().reason;
}

TEST(Gpu, GoesOnWithTheTrafficAfterTheLibraryCrashed) {
  constexpr std::int64_t kMuch = 20'000'000;  // bytes, in 70 ms
  const std::string text = "gpus 1\nutilization 30\ngpm 1\ngpm20 300\nfield197 11\nfield197_narrow 1\n";
  GpuBench bench(text);
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/traffic", "pcie.tx_bytes", "gpu0") > kMuch; }));
  bench.write(text + "crash 1\n");
  EXPECT_TRUE(bench.until([&] { return bench.coverage().reason.find("crashed") != std::string::npos; }));
  bench.write(text + "temperature 40\n");
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/temperatures", "gpu.temperature", "gpu0") == 40; }));
  EXPECT_GT(bench.answered("gpu/traffic", "pcie.tx_bytes", "gpu0"), kMuch);
}

TEST(Gpu, AsksASecondTimeForACounterThatTheDriverDoesNotSupport) {
  GpuBench once("gpus 1\nutilization 30\nfield197 11\nfield197_refused 1\n");
  EXPECT_EQ(once.answered("gpu/traffic", "pcie.tx_bytes", "gpu0"), 11);
  const std::string text = "gpus 1\nutilization 30\nfield197 11\nfield197_refused 2\n";
  GpuBench twice(text);
  for (const int temperature : {40, 41, 42}) {
    twice.write(text + "temperature " + std::to_string(temperature) + '\n');
    EXPECT_TRUE(twice.until([&] { return twice.value("gpu/temperatures", "gpu.temperature", "gpu0") == temperature; }));
  }
  EXPECT_EQ(twice.value("gpu/traffic", "pcie.tx_bytes", "gpu0"), kMissing) << "not a third time";
}

TEST(Gpu, StatesWhichGpuWasLost) {
  GpuBench bench(kTwoGpus);
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu1"), 12);
  bench.write("gpus 2\nutilization 97\n1.utilization !15\n");
  EXPECT_TRUE(bench.until([&] { return !bench.coverage().reason.empty(); }));
  EXPECT_EQ(bench.coverage().reason, "gpu1 was lost while the job ran: there is no data of it after that");
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/utilization", "gpu.utilization", "gpu0") == 97; }));
  EXPECT_EQ(bench.value("gpu/utilization", "gpu.utilization", "gpu1"), kMissing);
}

TEST(Gpu, StatesWhichGpuWasLostAlsoWhereNoneIsFoundAfterARestart) {
  GpuBench bench(kTwoGpus);
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu1"), 12);
  const auto says = [&bench](std::string_view text) { return bench.coverage().reason.find(text) != std::string::npos; };
  bench.write("gpus 2\nutilization 97\n1.utilization !15\n");
  EXPECT_TRUE(bench.until([&] { return says("gpu1 was lost while the job ran"); }));
  bench.write("gpus 2\nutilization 97\n1.utilization !15\ncrash 1\n");
  EXPECT_TRUE(bench.until([&] { return says("crashed"); }));
  bench.write("gpus 0\n");
  EXPECT_TRUE(bench.until([&] { return says("the NVIDIA driver shows no GPU to this user"); }));
  EXPECT_TRUE(says("gpu1 was lost while the job ran")) << bench.coverage().reason;
}

TEST(Gpu, StatesWhichGpusCouldNotBeOpened) {
  GpuBench bench("gpus 3\nutilization 97\n1.open !15\n2.open !4\n");
  const std::string reason = "gpu1 could not be opened: it has fallen off the bus";  // a container may lack the device
  EXPECT_TRUE(bench.until([&] { return bench.coverage().reason == reason; })) << bench.coverage().reason;
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu0"), 97);
  EXPECT_EQ(bench.value("gpu/xids", "gpu.xid", "gpu0"), 0);
  EXPECT_EQ(bench.value("gpu/xids", "gpu.xid", "gpu1"), kMissing) << "nothing was watched there";
  GpuBench alone("gpus 1\nutilization 97\nopen !16\n");
  EXPECT_TRUE(alone.until([&] { return alone.coverage().reason == "gpu0 could not be opened: it needs a reset"; }))
      << alone.coverage().reason;
  EXPECT_EQ(alone.coverage().state, Coverage::State::ok);
}

TEST(Gpu, IsNotBrokenWhereAContainerHasNoDeviceFileOfIt) {
  if (std::filesystem::exists("/dev/nvidia15")) GTEST_SKIP() << "this host has 16 GPUs";
  GpuBench bench("gpus 16\nutilization 97\n15.open !999\n");
  const std::string reason =
      "gpu15 was not measured, because /dev/nvidia15 does not exist here, as in a container without this GPU";
  EXPECT_TRUE(bench.until([&] { return bench.coverage().reason == reason; })) << bench.coverage().reason;
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu0"), 97);
  EXPECT_EQ(bench.value("gpu/xids", "gpu.xid", "gpu15"), kMissing);
  const TestHost host;
  host.write("/dev/nvidia1", "");
  KernelTree tree(host.root());
  EXPECT_EQ(why_out_of_reach(tree, 1), "") << "then the error is that of the GPU";
  EXPECT_NE(why_out_of_reach(tree, 2), "");
}

TEST(Gpu, IsAbsentWithTheReasonWhereTheLibraryFindsNoDevices) {
  const GpuBench none("gpus 1\ninit !999\n");
  EXPECT_EQ(none.coverage().state, Coverage::State::absent);
  EXPECT_NE(none.coverage().reason.find("as in a container without access"), std::string::npos)
      << none.coverage().reason;
}

TEST(Gpu, CountsCriticalErrorsOnce) {
  GpuBench bench("gpus 1\nutilization 30\n0.xid 79\n");
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/xids", "gpu.xid", "gpu0") == 1; }));
  for (int i = 0; i < 20; ++i) bench.sample();
  EXPECT_EQ(bench.value("gpu/xids", "gpu.xid", "gpu0"), 1);
}

TEST(Gpu, LosesNoEventAndLinksFirstWhereAnAnswerHasNoRoomForAll) {
  std::string text = "gpus 16\nutilization 30\ntemperature 61\n15.xid 79\n";
  for (int link = 0; link < 18; ++link) {
    text += "link" + std::to_string(link) + " 1\nlink_errors" + std::to_string(link) + " 123456789012\n";
  }
  GpuBench bench(text);
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/xids", "gpu.xid", "gpu15") == 1; }));
  EXPECT_EQ(bench.answered("gpu/temperatures", "gpu.temperature", "gpu15"), 61);
  EXPECT_EQ(bench.answered("gpu/states", "nvlink.active", "gpu0/link17"), 1);
  EXPECT_EQ(bench.value("gpu/states", "nvlink.active", "gpu15/link17"), kMissing);
  EXPECT_TRUE(bench.coverage().reason.ends_with("there was no room for all values of so many GPUs"))
      << bench.coverage().reason;
}

TEST(Gpu, CountsNoCriticalErrorsThatTheDriverWouldNotReport) {
  GpuBench bench("gpus 2\nutilization 30\n1.watch 3\n");
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu1"), 30);
  EXPECT_EQ(bench.value("gpu/xids", "gpu.xid", "gpu0"), 0);
  EXPECT_EQ(bench.value("gpu/xids", "gpu.xid", "gpu1"), kMissing);
  EXPECT_EQ(bench.coverage().reason, "the driver does not report Xids of gpu1");
}

TEST(Gpu, TellsCriticalErrorsBehindALostGpu) {
  GpuBench bench("gpus 1\nutilization 30\nwait_lost 3\n0.xid 79\n");
  EXPECT_TRUE(bench.until([&] { return bench.value("gpu/xids", "gpu.xid", "gpu0") == 1; }));
}

TEST(Gpu, OpensOnlyTheJobsGpus) {
  ChildProcess job(::fork());
  if (job.pid() == 0) {
    ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    ::execl("/bin/sleep", "sleep", "60", nullptr);
    ::_exit(1);
  }
  GpuBench bench("gpus 4\nutilization 30\n", double_library(), JobSource{.pid = job.pid()});
  EXPECT_TRUE(bench.until([&] { return bench.fact("gpu.gpu1.allocated_by") == "CUDA_VISIBLE_DEVICES"; }));
  EXPECT_EQ(bench.answered("gpu/utilization", "gpu.utilization", "gpu1"), 30);
  EXPECT_EQ(bench.value("gpu/utilization", "gpu.utilization", "gpu0"), kMissing);
  EXPECT_EQ(bench.opened(), "1\n");
  EXPECT_TRUE(job.kill(std::chrono::seconds(5)));
}

TEST(Gpu, LeavesTheNeighboursOfASlurmJobAlone) {
  GpuBench bench("gpus 2\nutilization 30\n", double_library(), JobSource{.slurm_job = "4711"});
  for (int i = 0; i < 20; ++i) bench.sample();
  EXPECT_EQ(bench.opened(), "") << "nobody said which of them are the job's";
  EXPECT_EQ(bench.coverage().state, Coverage::State::ok);
  EXPECT_NE(bench.coverage().reason.find("none was measured"), std::string::npos) << bench.coverage().reason;
  EXPECT_EQ(bench.value("gpu/utilization", "gpu.utilization", "gpu0"), kMissing);
}

TEST(Gpu, ClosesTheDriverAtTheJobsEnd) {
  GpuBench bench(kTwoGpus);
  bench.close();
  EXPECT_EQ(bench.calls(), "init\nshutdown\n");
  EXPECT_EQ(bench.coverage().reason, "");
  bench.end();
  EXPECT_EQ(bench.calls(), "init\nshutdown\n");
}

TEST(Gpu, GivesEachOfTheJobsProcessesItsShare) {
  const std::string pid = std::to_string(::getpid());
  GpuBench bench("gpus 1\nutilization 30\nprocess " + pid + "\nprocess_memory 5000\nprocess_utilization 28\n",
                 double_library(), JobSource{.pid = ::getpid()});
  EXPECT_EQ(bench.answered("gpu/process_memory", "process.gpu_memory", "rank0/gpu0"), 5000);
  EXPECT_EQ(bench.value("gpu/process_utilization", "process.gpu_utilization", "rank0/gpu0"), 28);
}

TEST(Gpu, ClosesTheDriverBeforeItsEnd) {
  GpuBench bench(kTwoGpus);
  bench.sample();
  EXPECT_EQ(bench.calls(), "init\n");
  bench.end();
  EXPECT_EQ(bench.calls(), "init\nshutdown\n");
}

TEST(Gpu, IsNotAskedForOnACopiedTree) {
  const TestHost host;
  EXPECT_EQ(ProbeBench(host, "gpu").coverage().reason, "a copied tree has no GPUs");
}

TEST(Gpu, IsRecordedWithTheOpeningOfTheDriver) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "gpus") << "gpus 1\nutilization 30\n";
  ::setenv("NVML_DOUBLE", (folder.path() / "gpus").c_str(), 1);
  const auto coverage_of = [](KernelTree& fs) {
    TraceSink sink;
    Sampler sampler(fs, sink, {.probes = {"gpu"}, .gpu_library = double_library()}, {1, 1});
    sampler.look_first();
    if (fs.recording()) fs.mark_tick({2, 2});
    return sampler.coverage().front();
  };
  KernelTree live;
  live.record_to(folder.path() / "recording");
  EXPECT_EQ(coverage_of(live).state, Coverage::State::ok);
  live.end_recording();
  KernelTree recorded(folder.path() / "recording");
  EXPECT_EQ(coverage_of(recorded).reason, "");
}

TEST(Gpu, IsReplayedFromARecording) {
  const TestHost host;
  const auto text = [](const std::string& words) { return std::to_string(words.size()) + "\n" + words + "\n"; };
  const std::string opened = "driver 550.1\nfact 3 uuid GPU-3\nfact 3 minor 3\n";
  const std::string answer = "fast\n3 gpu.utilization 88 gpu.power 300\nxid 3 79\nrubbish\n3 gpu.utilization x\n";
  host.write("/ticks.rec", "reveal recording 1\n+ 0 @@nvml\n$ 0 " + text(opened) + "= 1 1\n$ 0 " + text(answer) +
                               "= 2000000000 2000000000\n");
  KernelTree fs(host.root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"gpu"}}, {1, 1});
  ASSERT_EQ(sampler.coverage().front().state, Coverage::State::ok) << sampler.coverage().front().reason;
  sampler.look_first();
  static_cast<void>(fs.next_tick());
  static_cast<void>(fs.next_tick());
  sampler.sample({.time = {2'000'000'000, 2'000'000'000}, .number = 0});
  ASSERT_NE(sink.find("gpu/utilization"), nullptr);
  EXPECT_EQ(sink.find("gpu/utilization")->value("gpu.utilization", "gpu3"), 88);
}

constexpr int kMinors[] = {1, 0, 2, 3};
std::vector<GpuIdentity> four_gpus() {
  std::vector<GpuIdentity> gpus;
  for (int i = 0; i < 4; ++i) gpus.push_back({i, kMinors[i], "GPU-" + std::to_string(i) + "aaa"});
  return gpus;
}

JobGpus of_environment(const std::string& environment, const std::string& of_child = "",
                       const std::set<int>& opened = {}) {
  const TestHost host;
  host.process(50, 1, "python", 10, 5);
  host.write("/proc/50/environ", environment + std::string("\0", 1));
  if (!of_child.empty()) {
    host.process(51, 50, "python", 10, 5);
    host.write("/proc/51/environ", of_child + std::string("\0", 1));
  }
  host.last_pid(51);
  KernelTree fs(host.root());
  const Host facts = Host::look(fs);
  Job job(fs, facts, JobSource{.pid = 50}, 9);
  job.update({1, 1});
  return gpus_of_job(fs, &job, four_gpus(), kNvidiaGpus, opened);
}

TEST(JobGpus, AreThoseThatSlurmOrTheUserNames) {
  EXPECT_EQ(of_environment("HOME=/root").indices, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(of_environment("HOME=/root").allocated_by, "");
  EXPECT_EQ(of_environment("SLURM_JOB_GPUS=0,2").indices, (std::set<int>{1, 2})) << "by the number of the device file";
  EXPECT_EQ(of_environment("SLURM_JOB_GPUS=0,2").allocated_by, "Slurm");
  EXPECT_EQ(of_environment("CUDA_VISIBLE_DEVICES=3").indices, (std::set<int>{3}));
  EXPECT_EQ(of_environment("CUDA_VISIBLE_DEVICES=GPU-1aaa,GPU-2").indices, (std::set<int>{1, 2}));
  EXPECT_EQ(of_environment("CUDA_VISIBLE_DEVICES=0,-1,1").indices, (std::set<int>{0})) << "as CUDA reads it";
  EXPECT_EQ(of_environment("CUDA_VISIBLE_DEVICES=MIG-1").indices.size(), 4U) << "parts of one of them";
}

TEST(JobGpus, AreThoseItHoldsOpenWhereNoneIsNamed) {
  EXPECT_EQ(of_environment("HOME=/root", "", {0}).indices, (std::set<int>{1})) << "as in a container with one of them";
  EXPECT_EQ(of_environment("HOME=/root", "", {0}).allocated_by, "") << "no allocation: a library opens all it may";
  EXPECT_EQ(of_environment("CUDA_VISIBLE_DEVICES=MIG-1aaa", "", {2}).indices, (std::set<int>{2}));
  EXPECT_EQ(of_environment("CUDA_VISIBLE_DEVICES=3", "", {2}).indices, (std::set<int>{3}));
  EXPECT_TRUE(of_environment("SLURM_JOB_ID=4711", "", {2}).indices.empty()) << "it may be another job's";
}

TEST(JobGpus, AreThoseOfAllProcesses) {
  EXPECT_EQ(of_environment("SLURM_STEP_GPUS=0", "SLURM_STEP_GPUS=3").indices, (std::set<int>{1, 3}));
  EXPECT_EQ(of_environment("SLURM_JOB_GPUS=0,1,2", "SLURM_STEP_GPUS=3").indices, (std::set<int>{3}))
      << "the job's are those of its first node";
}

TEST(JobGpus, AreNoneOfASlurmJobThatNamesNone) {
  const JobGpus none = of_environment("SLURM_JOB_ID=4711");
  EXPECT_TRUE(none.indices.empty()) << "they may be its neighbours'";
  EXPECT_EQ(none.allocated_by, "");
  EXPECT_TRUE(of_environment("SLURM_JOB_ID=4711", "CUDA_VISIBLE_DEVICES=0").indices.empty())
      << "it may count from the job's own";
  EXPECT_EQ(of_environment("SLURM_JOB_ID=4711", "CUDA_VISIBLE_DEVICES=GPU-2").indices, (std::set<int>{2}));
}

TEST(JobGpus, AreThoseOfTheContainerWhoseProgramsCountFromItsFirst) {
  const JobGpus named = of_environment("NVIDIA_VISIBLE_DEVICES=GPU-2aaa,GPU-3aaa", "CUDA_VISIBLE_DEVICES=0");
  EXPECT_EQ(named.indices, (std::set<int>{2, 3}));
  EXPECT_EQ(named.allocated_by, "NVIDIA_VISIBLE_DEVICES");
  EXPECT_EQ(of_environment("NVIDIA_VISIBLE_DEVICES=2,3").indices, (std::set<int>{2, 3}));
  EXPECT_EQ(of_environment("NVIDIA_VISIBLE_DEVICES=2,3", "CUDA_VISIBLE_DEVICES=GPU-3").indices, (std::set<int>{3}));
  EXPECT_EQ(of_environment("NVIDIA_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES=0").indices, (std::set<int>{0}));
  EXPECT_EQ(of_environment("NVIDIA_VISIBLE_DEVICES=6,7", "CUDA_VISIBLE_DEVICES=0").indices, (std::set<int>{0}))
      << "the collector is in the container, too";
  EXPECT_EQ(of_environment("NVIDIA_VISIBLE_DEVICES=MIG-1aaa", "CUDA_VISIBLE_DEVICES=0").allocated_by, "")
      << "the number of a part";
}

TEST(JobGpus, AreNoneWhereSlurmNumbersThePartsOfThem) {
  const std::string slurm = std::string("SLURM_JOB_ID=4711") + '\0' + "SLURM_STEP_GPUS=3";
  EXPECT_EQ(of_environment(slurm, "CUDA_VISIBLE_DEVICES=0").indices, (std::set<int>{3}));
  EXPECT_TRUE(of_environment(slurm, "CUDA_VISIBLE_DEVICES=MIG-1aaa").indices.empty()) << "it may be a neighbour's";
  const JobGpus divided = of_environment(slurm, "CUDA_VISIBLE_DEVICES=MIG-GPU-2aaa/7/0,MIG-GPU-2aaa/8/0");
  EXPECT_EQ(divided.indices, (std::set<int>{2})) << "the GPU of these parts";
  EXPECT_EQ(divided.allocated_by, "CUDA_VISIBLE_DEVICES");
}

TEST(JobGpus, AreThoseThatTheDevicesCgroupLetsItOpen) {
  const TestHost host;
  host.process(50, 1, "python", 10, 5);
  host.write("/proc/50/cgroup", "7:devices:/job_7\n");
  host.write("/proc/self/mountinfo", "30 22 0:27 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n");
  host.write("/sys/fs/cgroup/devices/job_7/devices.list", "c 1:3 rwm\nc 195:255 rw\nc 195:3 rwm\n");
  host.last_pid(50);
  KernelTree fs(host.root());
  const Host facts = Host::look(fs);
  Job job(fs, facts, JobSource{.pid = 50}, 9);
  job.update({1, 1});
  const JobGpus found = gpus_of_job(fs, &job, four_gpus());
  EXPECT_EQ(found.indices, (std::set<int>{3})) << found.allocated_by;
  EXPECT_EQ(found.allocated_by, "devices cgroup");
}

TEST(JobGpus, AreNotWokenWhereTheySleep) {
  const TestHost host;
  host.write("/proc/driver/nvidia/gpus/0000:41:00.0/information", "Device Minor: \t 0\nGPU Excluded:\t Yes\n");
  host.write("/proc/driver/nvidia/gpus/0000:81:00.0/information",
             "Model: \t\t x\nGPU UUID: \t GPU-2aaa\nDevice Minor: \t 3\nGPU Excluded:\t No\n");
  host.write("/proc/driver/nvidia/gpus/0000:c1:00.0/information", "Model: x\n");
  host.write("/sys/bus/pci/devices/0000:c1:00.0/power/runtime_status", "suspended\n");
  KernelTree fs(host.root());
  const GpusInProc found = gpus_in_proc(fs);
  EXPECT_EQ(found.asleep, 1U);
  ASSERT_EQ(found.awake.size(), 1U);
  EXPECT_EQ(found.awake[0].address, "0000:81:00.0");
  EXPECT_EQ(found.awake[0].index, 0) << "the driver's library does not count the one before";
  EXPECT_EQ(found.awake[0].minor, 3);
  EXPECT_EQ(found.awake[0].uuid, "GPU-2aaa");
}

}  // namespace
}  // namespace reveal::tests::gpu_test
