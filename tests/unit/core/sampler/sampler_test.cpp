// Ticks, recordings, and that sampling allocates nothing once everything was seen.
#include "core/sampler/sampler.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "core/kernel_text/recording.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "test_host.h"

namespace {

// Counted per thread: the trace's own writer may allocate, the sampling thread may not.
thread_local bool counting = false;
thread_local std::int64_t allocations = 0;

void* counted_allocation(std::size_t size) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) {
  return counted_allocation(size);
}
void* operator new[](std::size_t size) {
  return counted_allocation(size);
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  if (counting) ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace reveal::tests::sampler_test {
namespace {

constexpr std::int64_t kTenth = 100'000'000;

class TestClock final : public Clock {
 public:
  [[nodiscard]] TickTime now() const noexcept override { return {monotonic, monotonic + offset}; }
  void sleep_until(std::int64_t until) noexcept override {
    if (until > monotonic) monotonic = until;
    monotonic += oversleep;
    oversleep = 0;
  }
  std::int64_t monotonic = 5 * kSecond + 12'345'678;
  std::int64_t offset = 1'700'000'000LL * kSecond + 777;
  std::int64_t oversleep = 0;
};

TEST(Ticker, TicksOnWholeMultiplesOfWallTime) {
  TestClock clock;
  Ticker ticker(clock, std::chrono::milliseconds(100));
  for (int i = 0; i < 20; ++i) {
    const auto tick = ticker.wait();
    ASSERT_TRUE(tick);
    EXPECT_EQ(tick->time.utc_ns % kTenth, 0);
    EXPECT_EQ(tick->number, tick->time.utc_ns / kTenth);
    EXPECT_EQ(tick->missed, 0);
    EXPECT_EQ(tick->late_ns, 0);
  }
}

TEST(Ticker, CountsMissedTicksAndDoesNotCatchUp) {
  TestClock clock;
  Ticker ticker(clock, std::chrono::milliseconds(100));
  const auto first = ticker.wait();
  clock.oversleep = 350'000'000;
  const auto late = ticker.wait();
  const auto next = ticker.wait();
  ASSERT_TRUE(first && late && next);
  EXPECT_EQ(late->missed, 3);
  EXPECT_EQ(late->number, first->number + 4);
  EXPECT_EQ(late->late_ns, 50'000'000);
  // Too late to be called punctual: the row has the real time.
  EXPECT_EQ(late->time.monotonic_ns, first->time.monotonic_ns + 4 * kTenth + 50'000'000);
  EXPECT_EQ(next->number, late->number + 1);
  EXPECT_EQ(next->time.monotonic_ns, first->time.monotonic_ns + 5 * kTenth);
}

TEST(Ticker, KeepsTheNominalTimeOfASlightlyLateTick) {
  TestClock clock;
  Ticker ticker(clock, std::chrono::milliseconds(100));
  clock.oversleep = 900'000;
  const auto tick = ticker.wait();
  ASSERT_TRUE(tick);
  EXPECT_EQ(tick->time.utc_ns % kTenth, 0);
  EXPECT_EQ(tick->late_ns, 900'000);
}

TEST(Ticker, ReportsAStepOfTheWallClockAndKeepsItsAxis) {
  TestClock clock;
  Ticker ticker(clock, std::chrono::milliseconds(100));
  const auto before = ticker.wait();
  clock.offset -= 3600 * kSecond;
  const auto stepped = ticker.wait();
  const auto after = ticker.wait();
  ASSERT_TRUE(before && stepped && after);
  EXPECT_EQ(stepped->clock_step_ns, -3600 * kSecond);
  EXPECT_EQ(stepped->time.monotonic_ns, before->time.monotonic_ns + kTenth);
  EXPECT_EQ(stepped->number, before->number + 1);
  EXPECT_EQ(after->clock_step_ns, 0);
  EXPECT_EQ(after->time.monotonic_ns, before->time.monotonic_ns + 2 * kTenth);
}

TEST(Probes, AreFoundByNameAndNearMissesAreNamed) {
  EXPECT_EQ(select_probes({"memory", "cpu"}).size(), 2U);
  EXPECT_GE(select_probes({}).size(), 15U);
  try {
    static_cast<void>(select_probes({"memmory"}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "unknown probe \"memmory\"; did you mean \"memory\"?");
  }
}

TEST(Probes, HaveUniqueFamiliesAndHelpForEveryMetric) {
  std::vector<std::string_view> paths;
  for (const ProbeSpec& spec : probes()) {
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    EXPECT_FALSE(spec.families.empty()) << spec.name;
    for (const FamilyTable& table : spec.families) {
      EXPECT_EQ(std::count(paths.begin(), paths.end(), table.path), 0) << table.path;
      paths.push_back(table.path);
      EXPECT_FALSE(table.source.empty()) << table.path;
      for (const MetricHelp& metric : table.metrics) EXPECT_FALSE(metric.help.empty()) << metric.name;
    }
  }
}

TEST(Sampling, ProbesOfTheDefaultPeriodLookAtEachTickWhateverTheInterval) {
  using namespace std::chrono_literals;
  TestHost host;
  host.write("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 500 kB\n");
  KernelTree fs(host.root());
  for (const auto& [interval, slow] :
       std::initializer_list<std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds>>{
           {10ms, 1s}, {50ms, 1s}, {100ms, 1s}, {300ms, 900ms}, {2s, 2s}}) {
    TraceSink sink;
    Sampler sampler(fs, sink, {.interval = interval, .probes = {"memory", "self"}}, {1, 1});
    sampler.look_first();
    EXPECT_EQ(sink.find("memory/meminfo")->spec().period, interval);
    EXPECT_EQ(sink.find("self/time")->spec().period, slow) << interval.count();
  }
}

TEST(Sampling, AllocatesNothingOnThisHostOnceEverythingWasSeen) {
  if (!std::filesystem::exists("/proc/self/stat")) GTEST_SKIP() << "no /proc";
  KernelTree fs;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("reveal-allocations-" + std::to_string(::getpid()) + ".h5");
  TraceHeader header;
  header.node = "here";
  header.interval = std::chrono::milliseconds(100);
  TraceWriter writer(path, header);
  TraceSink sink(&writer);
  SystemClock clock;
  Sampler sampler(fs, sink, {.job = JobSource{.pid = ::getpid()}}, clock.now());
  sampler.look_first();
  writer.start();
  std::int64_t now = clock.now().monotonic_ns;
  std::int64_t most = 0;
  int quiet = 0;
  // Elsewhere on this host processes start, disks wake up and interrupts fire for the first time; those are seen once.
  for (int tick = 0; tick < 3000 && quiet < 50; ++tick) {
    now += kTenth;
    allocations = 0;
    counting = true;
    sampler.sample({.time = {now, now}, .number = tick});
    counting = false;
    quiet = allocations == 0 ? quiet + 1 : 0;
    if (tick > 20) most = std::max(most, allocations);
  }
  EXPECT_EQ(quiet, 50) << "at most " << most << " allocations in one tick";
  EXPECT_GT(sink.channels(), 200U);
  writer.close();
  std::filesystem::remove(path);
}

TEST(Sampling, AllocatesNothingForQueuesAndCardsOnceTheirChildrenHaveAnswered) {
  KernelTree fs;
  TraceSink sink;
  Sampler sampler(fs, sink, {.probes = {"qdisc", "network_link"}}, SystemClock().now());
  sampler.look_first();
  const Family* links = sink.find("network/carrier");
  if (links == nullptr) GTEST_SKIP() << "no interface of this host belongs to a hardware device";
  std::int64_t most = 0;
  int answers = 0;
  std::int64_t now = SystemClock().now().monotonic_ns;
  for (int look = 0; look < 1'000'000 && answers < 40; ++look) {
    now += kTenth;
    allocations = 0;
    counting = true;
    sampler.sample({.time = {now, now}, .number = 0});
    counting = false;
    answers += !links->row().empty() && links->row().front() != kMissing ? 1 : 0;
    if (answers > 10) most = std::max(most, allocations);
  }
  EXPECT_EQ(answers, 40);
  EXPECT_EQ(most, 0);
}

TEST(Sampling, AllocatesNothingForAFabricOnceItsChildHasAnswered) {
  const TestHost host;
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
  host.write(port + "counters/port_rcv_data", "1000\n");
  host.write(port + "counters/link_downed", "0\n");
  host.write(port + "hw_counters/packet_seq_err", "3\n");
  ProbeBench bench(host, "infiniband");
  ASSERT_EQ(bench.answered("network/ib_errors", "ib.link_downed", "mlx5_0:1"), 0);
  ASSERT_EQ(bench.answered("network/rdma", "rdma.packet_seq_err", "mlx5_0:1"), 3);
  std::int64_t most = 0;
  int answers = 0;
  for (int look = 0; look < 1'000'000 && answers < 30; ++look) {
    allocations = 0;
    counting = true;
    bench.sample();
    counting = false;
    most = std::max(most, allocations);
    answers += bench.value("network/ib_bytes", "ib.rcv_bytes", "mlx5_0:1") == 4000 ? 1 : 0;
  }
  EXPECT_EQ(answers, 30);
  EXPECT_EQ(most, 0);
}

class Recordings : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("reveal-recording-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string recorded() const {
    std::ifstream file(folder_ / kRecordingFile, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void store(const std::string& text) const {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / kRecordingFile, std::ios::binary) << text;
  }
  std::filesystem::path folder_;
};

TEST_F(Recordings, ReplayWhatWasReadWithItsErrorsAndItsClock) {
  TestHost host;
  host.write("/proc/stat", "cpu0 1 0 0 0 0 0 0 0 0 0\n");
  {
    KernelTree fs(host.root());
    fs.record_to(folder_);
    KernelFile file = fs.open("/proc/stat");
    KernelFile absent = fs.open("/proc/absent");
    EXPECT_EQ(file.read(), "cpu0 1 0 0 0 0 0 0 0 0 0\n");
    EXPECT_EQ(fs.list("/sys/devices/system/cpu"), std::vector<std::string>{"online"});
    EXPECT_EQ(fs.fact("@fact", [] { return "live"; }), "live");
    fs.mark_tick({10, 1000});
    static_cast<void>(absent.read());
    static_cast<void>(file.read());
    fs.mark_tick({20, 2000});
    host.write("/proc/stat", "cpu0 2 0 0 0 0 0 0 0 0 0\nmore\n");
    static_cast<void>(file.read());
    host.write("/proc/absent", "now here");
    static_cast<void>(absent.read());
  }
  EXPECT_EQ(
      recorded(),
      "reveal recording 1\n+ 0 F/proc/stat\n$ 0 25\ncpu0 1 0 0 0 0 0 0 0 0 0\n\n+ 1 D/sys/devices/system/cpu\n$ 1 7\n"
      "online\n\n+ 2 @@fact\n$ 2 4\nlive\n= 10 1000\n+ 3 F/proc/absent\n! 3 2\n= 20 2000\n$ 0 30\n"
      "cpu0 2 0 0 0 0 0 0 0 0 0\nmore\n\n$ 3 8\nnow here\n");
  KernelTree replay(folder_);
  ASSERT_TRUE(replay.recorded());
  KernelFile file = replay.open("/proc/stat");
  KernelFile absent = replay.open("/proc/absent");
  EXPECT_EQ(file.read(), "cpu0 1 0 0 0 0 0 0 0 0 0\n");
  EXPECT_EQ(replay.list("/sys/devices/system/cpu"), std::vector<std::string>{"online"});
  EXPECT_EQ(replay.fact("@fact", [] { return "other"; }), "live");
  auto tick = replay.next_tick();
  ASSERT_TRUE(tick);
  EXPECT_EQ(tick->utc_ns, 1000);
  EXPECT_EQ(absent.read(), "");
  EXPECT_EQ(absent.error(), ENOENT);
  tick = replay.next_tick();
  ASSERT_TRUE(tick);
  EXPECT_EQ(tick->monotonic_ns, 20);
  EXPECT_EQ(file.read(), "cpu0 2 0 0 0 0 0 0 0 0 0\nmore\n");
  EXPECT_EQ(absent.read(), "now here");
  EXPECT_FALSE(replay.next_tick());
}

TEST_F(Recordings, EndWithTheLastWholeTickWhereverTheyAreCutOff) {
  const std::string whole = "reveal recording 1\n+ 0 F/a\n$ 0 3\nold\n= 1 10\n$ 0 3\nnew\n= 2 20\n$ 0 4\nlast\n";
  for (std::size_t size = 19; size < whole.size(); ++size) {
    store(whole.substr(0, size));
    try {
      KernelTree fs(folder_);
      int ticks = 0;
      while (fs.next_tick()) ++ticks;
      EXPECT_LE(ticks, 2);
      KernelFile file = fs.open("/a");
      static_cast<void>(file.read());
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("broken recording"), std::string::npos) << error.what();
    }
  }
}

TEST_F(Recordings, RefuseWhatIsNone) {
  store("something else\n");
  EXPECT_THROW(KernelTree fs(folder_), Error);
  store("reveal recording 1\n$ 5 3\nabc\n");
  EXPECT_THROW(KernelTree fs(folder_), Error);
  EXPECT_THROW(KernelTree fs("/does/not/exist"), Error);
}

TEST(KernelFile, GrowsWithItsTextAndReadsAllOfIt) {
  TestHost host;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "line " + std::to_string(i) + '\n';
  host.write("/long", text);
  KernelTree fs(host.root());
  KernelFile file = fs.open("/long", 64);
  EXPECT_EQ(file.read(), text);
  host.write("/long", "short\n");
  EXPECT_EQ(file.read(), "short\n");
  host.write("/long", text + text);
  EXPECT_EQ(file.read(), text + text);
}

TEST(KernelFile, WorksWithoutAnyFileToKeep) {
  TestHost host;
  host.write("/a", "1");
  KernelTree fs(host.root());
  fs.limit_kept_files(0);
  KernelFile file = fs.open("/a");
  EXPECT_EQ(file.read(), "1");
  host.write("/a", "2");
  EXPECT_EQ(file.read(), "2");
}

TEST(KernelFile, ComesBackWhenItsPathDoes) {
  TestHost host;
  KernelTree fs(host.root());
  KernelFile file = fs.open("/a");
  EXPECT_EQ(file.read(), "");
  EXPECT_EQ(file.error(), ENOENT);
  host.write("/a", "1");
  EXPECT_EQ(file.read(), "1");
  EXPECT_EQ(file.error(), 0);
}

}  // namespace
}  // namespace reveal::tests::sampler_test
