// Texts as the kernel's documentation shows them (drm-usage-stats, xe-drm-usage-stats), those of amdgpu as its source
// prints them and as users show them (https://github.com/Umio-Yasuno/amdgpu_top/issues/87), and broken ones.
#include "core/gpu/drm_clients.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::drm_clients_test {
namespace {

const std::string kGpu = "0000:03:00.0";
constexpr std::int64_t kBegin = 5'000'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

/// As i915 writes it, with so much time in its two groups of engines.
std::string text_of_i915(int client, std::int64_t render_ns, std::int64_t video_ns) {
  return "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t284\ndrm-driver:\ti915\ndrm-client-id:\t" +
         std::to_string(client) + "\ndrm-pdev:\t" + kGpu +
         "\ndrm-total-system0:\t6044 KiB\ndrm-resident-system0:\t6044 KiB\ndrm-total-local0:\t2048 KiB\n"
         "drm-resident-local0:\t1024 KiB\ndrm-purgeable-local0:\t0\ndrm-engine-render:\t" +
         std::to_string(render_ns) + " ns\ndrm-engine-video:\t" + std::to_string(video_ns) +
         " ns\ndrm-engine-capacity-video:\t2\n";
}

/// As xe writes it.
std::string text_of_xe(std::int64_t busy, std::int64_t passed) {
  return "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t" + kGpu + "\ndrm-total-gtt:\t192 KiB\n" +
         "drm-total-vram0:\t23992 KiB\ndrm-resident-vram0:\t23992 KiB\ndrm-resident-vram1:\t2 "
         "MiB\ndrm-cycles-rcs:\t0\n" +
         "drm-total-cycles-rcs:\t" + std::to_string(passed) + "\ndrm-cycles-ccs:\t" + std::to_string(busy) +
         "\ndrm-total-cycles-ccs:\t" + std::to_string(passed) + "\ndrm-engine-capacity-ccs:\t4\n";
}

/// As amdgpu writes it since Linux 5.19; engines that did not work are not listed.
std::string text_of_amdgpu(int client, std::int64_t compute_ns) {
  return "pos:\t0\nflags:\t02104002\nmnt_id:\t24\nino:\t614\npasid:\t32784\ndrm-driver:\tamdgpu\ndrm-pdev:\t" + kGpu +
         "\ndrm-client-id:\t" + std::to_string(client) +
         "\ndrm-memory-vram:\t2068 KiB\ndrm-memory-gtt: \t8192 KiB\ndrm-memory-cpu: \t0 KiB\n" +
         (compute_ns > 0 ? "drm-engine-compute:\t" + std::to_string(compute_ns) + " ns\n" : std::string());
}

/// As amdgpu wrote it from Linux 5.14 to 5.18.
std::string text_of_older_amdgpu(int pasid) {
  return "pos:\t0\nflags:\t02100002\nmnt_id:\t22\npdev:\t" + kGpu + "\npasid:\t" + std::to_string(pasid) +
         "\nvram mem:\t4136 kB\ngtt mem:\t8192 kB\ncpu mem:\t0 kB\ngfx0:\t12.34%\ncompute1:\t0.5%\n";
}

class ClientsOnHost : public ::testing::Test {
 protected:
  void hold(int pid, const std::string& fd, const std::string& device, const std::string& text) const {
    const std::string folder = "/proc/" + std::to_string(pid);
    std::filesystem::create_directories(host_.root().string() + folder + "/fd");
    const std::string link = host_.root().string() + folder + "/fd/" + fd;
    std::filesystem::remove(link);
    std::filesystem::create_symlink(device, link);
    host_.write(folder + "/fdinfo/" + fd, text);
  }
  void read(std::initializer_list<int> pids, int second) {
    const std::vector<int> all(pids);
    clients_.follow(all);
    clients_.read(kBegin + second * kSecond);
  }
  [[nodiscard]] double percent() const { return clients_.percent(kGpu).value_or(-1); }

  TestHost host_;
  KernelTree fs_{host_.root()};
  DrmClients clients_{fs_};
};

TEST(DrmClient, IsReadWithItsUnits) {
  const auto client = parse_drm_client(text_of_i915(39, 346249, 7));
  ASSERT_TRUE(client);
  EXPECT_EQ(client->address, "0000:03:00.0");
  EXPECT_EQ(client->id, 39);
  EXPECT_EQ(client->memory, 1024 * 1024) << "the GPU's own memory, as far as it is there now";
  ASSERT_EQ(client->engines.size(), 2U);
  EXPECT_EQ(client->engines.at("render").busy, 346249);
  EXPECT_EQ(client->engines.at("render").engines, 1);
  EXPECT_EQ(client->engines.at("video").engines, 2);
  EXPECT_EQ(client->engines.at("video").cycles, kMissing);
}

TEST(DrmClient, CountsCyclesWhereTheDriverHasNoTime) {
  const auto client = parse_drm_client(text_of_xe(28257900, 7655183225));
  ASSERT_TRUE(client);
  EXPECT_EQ(client->engines.at("ccs").busy, 28257900);
  EXPECT_EQ(client->engines.at("ccs").cycles, 7655183225);
  EXPECT_EQ(client->engines.at("ccs").engines, 4);
  EXPECT_EQ(client->memory, 23992 * 1024 + 2 * 1024 * 1024);
}

TEST(DrmClient, IsReadAsAmdgpuWritesIt) {
  const auto client = parse_drm_client(text_of_amdgpu(217, 107322799));
  ASSERT_TRUE(client);
  EXPECT_EQ(client->id, 217) << "not that of the address space";
  EXPECT_EQ(client->memory, 2068 * 1024);
  EXPECT_EQ(client->engines.at("compute").busy, 107322799);
  const auto idle = parse_drm_client(text_of_amdgpu(217, 0));
  ASSERT_TRUE(idle);
  EXPECT_TRUE(idle->engines.empty());
  EXPECT_EQ(idle->memory, 2068 * 1024);
  const auto of_both =
      parse_drm_client(text_of_amdgpu(217, 5) + "drm-resident-vram:\t3 MiB\namd-evicted-vram:\t9 KiB\n");
  EXPECT_EQ(of_both->memory, 3 * 1024 * 1024) << "the newer key counts";
}

TEST(DrmClient, HasTheMemoryOnlyWhereAmdgpuIsOlder) {
  const auto client = parse_drm_client(text_of_older_amdgpu(32770));
  ASSERT_TRUE(client);
  EXPECT_EQ(client->address, kGpu);
  EXPECT_EQ(client->id, 32770);
  EXPECT_EQ(client->memory, 4136 * 1024);
  EXPECT_TRUE(client->engines.empty()) << "percentages since the first use tell nothing about a time";
}

TEST(DrmClient, IsNothingWhereTheTextIsBroken) {
  EXPECT_FALSE(parse_drm_client(""));
  EXPECT_FALSE(parse_drm_client("pos:\t0\nflags:\t02\n")) << "an ordinary file";
  EXPECT_FALSE(parse_drm_client("drm-driver:\tast\ndrm-pdev:\t0000:01:00.0\ndrm-client-id:\t2\n")) << "no engine";
  EXPECT_FALSE(parse_drm_client("drm-pdev:\t0000:01:00.0\ndrm-engine-render:\t5 ns\n")) << "no client";
  const auto cut =
      parse_drm_client("drm-pdev: 0000:01:00.0\ndrm-client-id: 2\ndrm-engine-render: 12x\ndrm-engine-copy: 1");
  ASSERT_TRUE(cut);
  EXPECT_FALSE(cut->engines.contains("render"));
  EXPECT_EQ(cut->engines.at("copy").busy, 1);
  std::string many = "drm-pdev: 0000:01:00.0\ndrm-client-id: 2\n";
  for (int i = 0; i < 1000; ++i) many += "drm-engine-e" + std::to_string(i) + ": 1 ns\n";
  EXPECT_EQ(parse_drm_client(many)->engines.size(), 16U);
  EXPECT_EQ(parse_drm_client(text_of_i915(1, 1, 1) + "drm-resident-local1: 99999999999999999 MiB\n")->memory,
            1024 * 1024)
      << "no memory is so large";
}

TEST_F(ClientsOnHost, AreBusyForTheTimeOfTheirBusiestEngines) {
  hold(50, "7", "/dev/dri/renderD128", text_of_i915(39, 1'000'000'000, 0));
  hold(50, "8", "/usr/lib/libc.so", text_of_i915(40, 0, 0));
  read({50}, 0);
  EXPECT_EQ(percent(), -1) << "nobody knows since when";
  EXPECT_EQ(clients_.uses().at({kGpu, 50}).memory, 1024 * 1024);
  EXPECT_FALSE(clients_.uses().at({kGpu, 50}).percent());
  hold(50, "7", "/dev/dri/renderD128", text_of_i915(39, 1'750'000'000, 600'000'000));
  read({50}, 1);
  EXPECT_EQ(percent(), 75) << "the two engines for video worked 60 % of one";
  EXPECT_EQ(clients_.uses().at({kGpu, 50}).percent(), 75);
  hold(50, "7", "/dev/dri/renderD128", text_of_i915(39, 1'700'000'000, 1'600'000'000));
  read({50}, 2);
  EXPECT_EQ(percent(), 50) << "the driver counted back";
  EXPECT_FALSE(clients_.percent("0000:04:00.0").value_or(0) > 0) << "a GPU that the job does not use";
}

TEST_F(ClientsOnHost, ShareAFileThatIsInherited) {
  for (const int second : {0, 1}) {
    for (const int pid : {50, 51}) hold(pid, "7", "/dev/dri/renderD128", text_of_i915(39, second * 400'000'000, 0));
    hold(51, "9", "/dev/dri/card1", text_of_i915(41, second * 300'000'000, 0));
    read({50, 51}, second);
  }
  EXPECT_EQ(percent(), 70);
  EXPECT_EQ(clients_.uses().at({kGpu, 50}).percent(), 40);
  EXPECT_EQ(clients_.uses().at({kGpu, 51}).percent(), 30);
}

TEST_F(ClientsOnHost, AreNotBusyForAKnownTimeWhereTheirWorkBypassesTheKernel) {
  for (const int second : {0, 1}) {
    hold(50, "7", "/dev/dri/renderD128", text_of_amdgpu(39, 1'000'000'000 + second * 250'000'000));
    hold(51, "7", "/dev/dri/renderD128", text_of_amdgpu(40, 1'000'000'000 + second * 250'000'000));
    hold(51, "9", "/dev/kfd", "pos:\t0\n");
    hold(52, "7", "/dev/dri/renderD128", text_of_older_amdgpu(32770));
    read({50, 51, 52}, second);
  }
  EXPECT_EQ(clients_.uses().at({kGpu, 50}).percent(), 25);
  EXPECT_FALSE(clients_.uses().at({kGpu, 51}).percent()) << "queues of ROCm";
  EXPECT_EQ(clients_.uses().at({kGpu, 51}).memory, 2068 * 1024);
  EXPECT_FALSE(clients_.uses().at({kGpu, 52}).percent());
  EXPECT_EQ(clients_.uses().at({kGpu, 52}).memory, 4136 * 1024);
  std::string answer;
  append_uses(answer, clients_, kGpu, "3", {51});
  EXPECT_EQ(answer,
            "process 50 3 process.gpu_utilization 25 process.gpu_memory 2117632\n"
            "process 51 3\n"
            "process 52 3 process.gpu_memory 4235264\n");
}

TEST_F(ClientsOnHost, AreComparedWithTheCyclesThatPassed) {
  hold(50, "7", "/dev/dri/renderD128", text_of_xe(1000, 10'000));
  read({50}, 0);
  hold(50, "7", "/dev/dri/renderD128", text_of_xe(5000, 12'000));
  read({50}, 30);
  EXPECT_EQ(percent(), 50) << "two of four engines, whatever the time between the readings";
}

TEST_F(ClientsOnHost, AreNotMeasuredWhileTheyAreNew) {
  hold(50, "7", "/dev/dri/renderD128", text_of_i915(39, 0, 0));
  read({50}, 0);
  hold(50, "7", "/dev/dri/renderD128", text_of_i915(39, 500'000'000, 0));
  read({50}, 1);
  EXPECT_EQ(percent(), 50);
  hold(51, "3", "/dev/dri/renderD128", text_of_i915(44, 900'000'000, 0));
  read({50, 51}, 2);
  EXPECT_EQ(percent(), -1) << "a part of the use is not known";
  read({50, 51}, 3);
  EXPECT_EQ(percent(), 0);
  host_.write("/proc/50/fdinfo/7", "");
  host_.write("/proc/51/fdinfo/3", "pos:\t0\n");
  read({50, 51}, 4);
  EXPECT_TRUE(clients_.uses().empty()) << "both were closed";
}

TEST_F(ClientsOnHost, AreNotMeasuredWhereNoProcessCanBeRead) {
  EXPECT_FALSE(clients_.percent(kGpu));
  read({50, 51}, 0);
  EXPECT_FALSE(clients_.percent(kGpu)) << "another user's";
}

TEST_F(ClientsOnHost, AreNotMeasuredBeforeAllProcessesWereReadOnce) {
  const auto files_of = [this](int pid) { hold(pid, "3", "/dev/null", ""); };
  std::vector<int> pids;
  for (int pid = 100; pid < 140; ++pid) {
    files_of(pid);
    pids.push_back(pid);
  }
  for (int second = 0; second < 3; ++second) {
    EXPECT_FALSE(clients_.percent(kGpu)) << second;
    EXPECT_FALSE(clients_.knows(pids)) << second;
    clients_.follow(pids);
    clients_.read(kBegin + second * kSecond);
  }
  EXPECT_EQ(clients_.percent(kGpu), 0);
  EXPECT_TRUE(clients_.knows(pids));
}

TEST_F(ClientsOnHost, AreNotMeasuredWhileTheFilesOfAProcessAreHidden) {
  hold(50, "3", "/dev/null", "");
  read({50}, 0);
  EXPECT_EQ(percent(), 0);
  host_.write("/proc/51/cmdline", "train");
  read({50, 51}, 1);
  EXPECT_EQ(percent(), -1) << "another user's process may use the GPU";
  read({50}, 2);
  EXPECT_EQ(percent(), 0);
}

TEST_F(ClientsOnHost, AreForgottenWithTheirProcesses) {
  hold(50, "3", "/dev/dri/renderD128", text_of_i915(44, 0, 0));
  read({50}, 0);
  read({50}, 1);
  EXPECT_EQ(percent(), 0);
  read({}, 2);
  EXPECT_EQ(percent(), -1) << "a job of too many processes";
  EXPECT_TRUE(clients_.uses().empty());
}

TEST_F(ClientsOnHost, AreFoundAmongTheFirstOfManyDescriptors) {
  for (int fd = 0; fd < 600; ++fd) hold(50, std::to_string(fd), "/dev/null", "");
  hold(50, "99", "/dev/dri/renderD128", text_of_i915(44, 0, 0));
  read({50}, 0);
  EXPECT_EQ(clients_.uses().size(), 1U);
}

TEST_F(ClientsOnHost, AreNotReadWhileTheirGpuSleeps) {
  hold(50, "3", "/dev/dri/renderD128", text_of_i915(44, 0, 0));
  read({50}, 0);
  hold(50, "3", "/dev/dri/renderD128", text_of_i915(44, 1'000'000'000, 0));
  clients_.read(kBegin + kSecond, {kGpu});
  EXPECT_TRUE(clients_.uses().empty());
  read({50}, 2);
  EXPECT_EQ(percent(), 50) << "one second of the two since it was read last";
}

}  // namespace
}  // namespace reveal::tests::drm_clients_test
