// Things that come and go on every tick: the number of channels stays bounded, and nothing of them is lost.
#include <gtest/gtest.h>

#include <map>

#include "test_host.h"

namespace reveal::tests::churn_test {
namespace {

constexpr char kNetHeader[] = "Inter-| Receive | Transmit\n face |bytes packets\n";

std::string interface_line(const std::string& name, std::int64_t received) {
  return name + ": " + std::to_string(received) + " 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n";
}

std::string disk_line(const std::string& name, std::int64_t reads) {
  return "254 0 " + name + ' ' + std::to_string(reads) + " 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
}

std::string mount_text(const std::string& point) {
  return "device server:/x mounted on " + point + " with fstype nfs4 statvers=1.1\n" +
         "\tbytes:\t1 2 3 4 5 6 7 8\n\tper-op statistics\n\t        READ: 5 5 0 100 200 1 2 3 0\n";
}

/// The texts of a busy container host in one tick: everything but a few names is new, and each second thing stays.
class ChurningHost {
 public:
  explicit ChurningHost(const TestHost& host) : host_(host) {
    host_.write("/proc/stat", "cpu  1 0 0 0 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\nintr 5 1 2\nctxt 7\nprocesses 9\n");
    host_.write("/proc/vmstat", "nr_dirty 4\npgfault 7\n");
    host_.write("/proc/meminfo", "MemTotal: 1 kB\nMemFree: 1 kB\n");
    host_.write("/proc/net/snmp", "Tcp: CurrEstab RetransSegs\nTcp: 4 17\n");
    host_.write("/proc/self/ns/x", "");
    std::filesystem::create_symlink("net:[4026531840]", host_.root().string() + "/proc/self/ns/net");
    host_.process(50, 1, "engine", 10, 5);
    name_space(50, 0);
    tick(0);
  }

  void tick(int number) {
    stay_ += number % 2 == 0 ? 1 : 0;
    std::string interfaces = kNetHeader + interface_line("eth0", 1000 + number);
    std::string disks = disk_line("vda", 1000 + number);
    std::string mounts = mount_text("/home");
    for (int i = 0; i <= stay_; ++i) {
      const std::string name = i < stay_ ? "stays" + std::to_string(i) : "goes" + std::to_string(number);
      interfaces += interface_line(name, 10 + number);
      disks += disk_line(name, 10 + number);
      mounts += mount_text('/' + name);
    }
    host_.write("/proc/net/dev", interfaces);
    host_.write("/proc/diskstats", disks);
    host_.write("/proc/self/mountstats", mounts);
    const int pid = 2000 + number;
    host_.remove("/proc/" + std::to_string(pid - 1));
    host_.process(pid, 50, "task" + std::to_string(number), 1, 0);
    name_space(pid, number);
    host_.last_pid(pid);
  }

 private:
  void name_space(int pid, int number) {
    const std::string folder = "/proc/" + std::to_string(pid);
    host_.write(folder + "/net/dev", kNetHeader + interface_line("eth0", 5 + number));
    host_.write(folder + "/net/snmp", "Tcp: CurrEstab RetransSegs\nTcp: 4 17\n");
    host_.write(folder + "/cgroup", "0::/engine/box" + std::to_string(number) + '\n');
    host_.write(folder + "/ns/x", "");
    std::filesystem::create_symlink("net:[" + std::to_string(4026531840 + number) + ']',
                                    host_.root().string() + folder + "/ns/net");
    for (const char* file : {"memory.current", "pids.current"}) {
      host_.write("/sys/fs/cgroup/engine/box" + std::to_string(number) + '/' + file, "4096\n");
    }
  }

  const TestHost& host_;
  int stay_ = 0;
};

TEST(Churn, LeavesTheNumberOfChannelsOfEveryProbeBounded) {
  const TestHost host;
  ChurningHost churn(host);
  KernelTree fs(host.root());
  fs.limit_kept_files(0);
  TraceSink sink;
  Sampler sampler(fs, sink, {.interval = std::chrono::seconds(1), .job = JobSource{.pid = 50}}, {1, 1});
  sampler.look_first();
  std::map<std::string, std::size_t> halfway;
  constexpr int kTicks = 120;
  for (int number = 1; number <= kTicks; ++number) {
    churn.tick(number);
    sampler.sample({.time = {number * 1'000'000'000LL, 1}, .number = number});
    if (number != kTicks / 2) continue;
    for (const Family& family : sink.families()) halfway[family.spec().path] = family.channels().size();
  }
  EXPECT_EQ(sink.channels_refused(), 0U);
  ASSERT_GT(sink.families().size(), 20U);
  for (const Family& family : sink.families()) {
    EXPECT_EQ(family.channels().size(), halfway[family.spec().path]) << family.spec().path << " goes on growing";
  }
  EXPECT_EQ(sink.find("network/bytes")->channels().size(), 2 * (3 + LastingInstances::Limits().later + 1));
}

TEST(Churn, IsCountedInTheInstanceOther) {
  const TestHost host;
  const auto write = [&host](const std::string& lines) {
    host.write("/proc/net/dev", kNetHeader + interface_line("eth0", 1000) + lines);
  };
  write("");
  ProbeBench bench(host, "network");
  const auto received = [&bench](const char* instance) {
    return bench.value("network/bytes", "net.rx_bytes", instance);
  };
  write(interface_line("veth1", 50));
  bench.sample();
  EXPECT_EQ(received("other"), 0) << "it may have been moved here with what it had";
  EXPECT_EQ(bench.coverage().reason.substr(0, 40), "1 network interfaces appeared during the");
  write(interface_line("veth1", 80) + interface_line("veth2", 7));
  bench.sample();
  EXPECT_EQ(received("other"), 30);
  write(interface_line("veth2", 9) + interface_line("veth1", 60));
  bench.sample();
  EXPECT_EQ(received("other"), 32) << "a counter that fell adds nothing";
  write(interface_line("veth2", 10));  // veth1 is gone
  bench.sample();
  EXPECT_EQ(received("other"), 33);
  EXPECT_EQ(received("veth2"), kMissing);
  for (int second = 0; second < 10; ++second) bench.sample();
  write(interface_line("veth2", 15));
  bench.sample();
  EXPECT_EQ(received("other"), 38) << "what it added before it had rows of its own";
  EXPECT_EQ(received("veth2"), 15);
  write(interface_line("veth2", 25));
  bench.sample();
  EXPECT_EQ(received("other"), 38);
  EXPECT_EQ(received("veth2"), 25);
  EXPECT_EQ(received("eth0"), 1000);
}

TEST(Churn, SumsLevelsOverTheDisksThatAreThere) {
  const TestHost host;
  const auto line = [](const std::string& name, int in_flight) {
    return "254 0 " + name + " 1 0 8 1 0 0 0 0 " + std::to_string(in_flight) + " 1 1\n";
  };
  host.write("/proc/diskstats", line("vda", 1));
  ProbeBench bench(host, "disk");
  host.write("/proc/diskstats", line("vda", 1) + line("dm-1", 3) + line("dm-2", 4));
  bench.sample();
  EXPECT_EQ(bench.value("storage/disk_queue", "disk.inflight", "other"), 7);
  host.write("/proc/diskstats", line("vda", 1) + line("dm-2", 4));
  bench.sample();
  EXPECT_EQ(bench.value("storage/disk_queue", "disk.inflight", "other"), 4);
  EXPECT_EQ(bench.value("storage/disk_queue", "disk.inflight", "vda"), 1);
}

TEST(Churn, OfAwaitedThingsLeavesHalfOfThePlacesToThoseThatStay) {
  LastingInstances lasting({.at_first = 1, .later = 4});
  std::int64_t now = 0;
  const auto admits = [&](const std::string& name) {
    lasting.begin_look(now += 1'000'000'000);
    LastingInstances::Member* member = lasting.see(name);
    member->awaited = true;
    return lasting.admit(*member);
  };
  EXPECT_TRUE(admits("first"));
  EXPECT_TRUE(admits("a"));
  EXPECT_TRUE(admits("b"));
  EXPECT_FALSE(admits("c"));
  now += LastingInstances::kStay.count();
  EXPECT_TRUE(admits("c"));
}

TEST(Churn, OfNamespacesLeavesRoomForOneThatStays) {
  const TestHost host;
  ChurningHost churn(host);
  KernelTree fs(host.root());
  TraceSink sink;
  Sampler sampler(fs, sink, {.interval = std::chrono::seconds(1), .probes = {"network"}, .job = JobSource{.pid = 50}},
                  {1, 1});
  sampler.look_first();
  host.process(1500, 50, "container", 1, 0);
  host.last_pid(1500);
  host.write("/proc/1500/net/dev", kNetHeader + interface_line("eth7", 5));
  host.write("/proc/1500/ns/x", "");
  std::filesystem::create_symlink("net:[77]", host.root().string() + "/proc/1500/ns/net");
  for (int number = 1; number < 40; ++number) {
    churn.tick(number);
    sampler.sample({.time = {number * 1'000'000'000LL, 1}, .number = number});
  }
  const auto& channels = sink.find("network/bytes")->channels();
  EXPECT_TRUE(std::any_of(channels.begin(), channels.end(),
                          [](const ChannelKey& key) { return key.instance.find("/eth7") != std::string::npos; }));
}

TEST(Family, TakesABoundedNumberOfLateChannels) {
  TraceSink sink;
  constexpr FamilyTable kTable{"a/b", Kind::gauge, Unit::count, Scope::node, Subsystem::cpu, "", "", {}};
  Family& family = sink.add_family(kTable, std::chrono::seconds(1));
  sink.mute(true);
  for (int i = 0; i < 10; ++i) family.add("early", std::to_string(i));
  sink.mute(false);
  for (std::size_t i = 0; i < Family::kMostLater; ++i)
    EXPECT_NE(family.add("late", std::to_string(i)), Family::kNoChannel);
  const std::int32_t refused = family.add("too", "late");
  EXPECT_EQ(refused, Family::kNoChannel);
  family.set(refused, 5);  // is harmless
  EXPECT_EQ(family.channels().size(), 10 + Family::kMostLater);
  EXPECT_EQ(sink.channels_refused(), 1U);
}

}  // namespace
}  // namespace reveal::tests::churn_test
