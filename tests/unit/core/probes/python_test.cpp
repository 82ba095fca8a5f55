// The probe "python" on programs of this machine's python3, of which is known on which line they are.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "core/job/process_stat.h"
#include "core/python/interpreter.h"
#include "core/python/main_thread.h"
#include "core/python/python_worker.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/trace_reader.h"
#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/python_process.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::python_test {
namespace {

std::string why_not_here() {
  if (::access(kPython, X_OK) != 0) return "this machine has no " + std::string(kPython);
  const PythonProcess process("print('here')\nimport time\ntime.sleep(1000)\n");
  if (process.line() != "here") return "python3 does not run";
  const FoundInterpreter found = find_interpreter(process.pid(), memory_of(process.pid()));
  return found.interpreter ? "" : found.problem;
}

#define SKIP_WITHOUT_PYTHON() \
  if (const std::string why = why_not_here(); !why.empty()) GTEST_SKIP() << why

/// Where it stands as soon as that can be read; a program needs its moment from a line printed to the next one.
std::string place_in(int pid, const std::string& expected) {
  const FoundInterpreter found = find_interpreter(pid, memory_of(pid));
  if (!found.interpreter) return found.problem;
  MainThread thread(memory_of(pid), *found.interpreter);
  std::string place;
  for (int i = 0; i < 2000; ++i) {
    place = place_of(thread.look().frames);
    if (place.starts_with(expected)) return expected;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return place;
}

/// Looks until it was found so often in so many places; "", or a wrong place.
std::string watched(MainThread& thread, const std::set<std::string>& lines, int looks, std::size_t places) {
  std::set<std::string> seen;
  int known = 0;
  for (int i = 0; i < 1'000'000 && (known < looks || seen.size() < places); ++i) {
    if (i > 10'000)
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // on a busy machine it waits for a cpu
    const StackSample stack = thread.look();
    if (stack.state != StackSample::State::known) continue;
    ++known;
    const std::string place = place_of(stack.frames);
    if (!lines.contains(place)) return place;
    seen.insert(place);
  }
  return known >= looks && seen.size() >= places ? "" : "it was found only " + std::to_string(known) + " times";
}

TEST(Python, StandsOnTheLineOnWhichItSleeps) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process(
      "import time\n"
      "def inner():\n"
      "    x = 1\n"
      "    time.sleep(1000)\n"
      "def outer():\n"
      "    inner()\n"
      "print('here')\n"
      "outer()\n");
  ASSERT_EQ(process.line(), "here");
  EXPECT_EQ(place_in(process.pid(), "inner(job.py:4)"), "inner(job.py:4)");
}

TEST(Python, StandsInALibraryCalledFromTheJobsOwnLine) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process(
      "import threading\n"
      "def load(event):\n"
      "    event.wait()\n"
      "print('here')\n"
      "load(threading.Event())\n");
  ASSERT_EQ(process.line(), "here");
  const std::string expected = "load(job.py:3)>wait(threading.py:";
  EXPECT_EQ(place_in(process.pid(), expected), expected);
}

TEST(Python, StandsInARecursionAGeneratorAndACallIntoC) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess recursion(
      "import time\n"
      "def down(n):\n"
      "    if n == 0:\n"
      "        time.sleep(1000)\n"
      "    down(n - 1)\n"
      "print('here')\n"
      "down(200)\n");
  ASSERT_EQ(recursion.line(), "here");
  EXPECT_EQ(place_in(recursion.pid(), "down(job.py:4)"), "down(job.py:4)");
  const PythonProcess generator(
      "import time\n"
      "def batches():\n"
      "    yield 1\n"
      "    time.sleep(1000)\n"
      "def train():\n"
      "    for batch in batches():\n"
      "        pass\n"
      "print('here')\n"
      "train()\n");
  ASSERT_EQ(generator.line(), "here");
  EXPECT_EQ(place_in(generator.pid(), "batches(job.py:4)"), "batches(job.py:4)");
  const PythonProcess in_c(
      "import hashlib\n"
      "def digest():\n"
      "    return hashlib.pbkdf2_hmac('sha256', b'a', b'b',\n"
      "                               2 ** 30)\n"
      "print('here')\n"
      "digest()\n");
  ASSERT_EQ(in_c.line(), "here");
  EXPECT_EQ(place_in(in_c.pid(), "digest(job.py:3)"), "digest(job.py:3)");
}

TEST(Python, IsReadInItsMainThreadWhateverTheOthersDo) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process(
      "import threading, time\n"
      "def other():\n"
      "    while True:\n"
      "        sum(range(1000))\n"
      "def main():\n"
      "    time.sleep(1000)\n"
      "for i in range(5):\n"
      "    threading.Thread(target=other, daemon=True).start()\n"
      "print('here')\n"
      "main()\n");
  ASSERT_EQ(process.line(), "here");
  EXPECT_EQ(place_in(process.pid(), "main(job.py:6)"), "main(job.py:6)");
}

TEST(Python, OfAForkedProcessIsReadInTheThreadThatForked) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process(
      "import os, time\n"
      "def child():\n"
      "    time.sleep(1000)\n"
      "pid = os.fork()\n"
      "if pid == 0:\n"
      "    child()\n"
      "print(pid)\n"
      "try:\n"
      "    os.wait()\n"
      "finally:\n"
      "    os.kill(pid, 9)\n");
  const int pid = std::stoi(process.line());
  EXPECT_EQ(place_in(pid, "child(job.py:3)"), "child(job.py:3)");
  ::kill(pid, SIGKILL);
}

// It moves on a million times a second: the result is one of its lines, or nothing.
TEST(Python, ThatRunsIsNeverShownWhereItCannotBe) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process(
      "def one(n):\n"
      "    return n + 1\n"
      "def two(n):\n"
      "    m = one(n)\n"
      "    return one(m)\n"
      "def three(n):\n"
      "    return [two(i) for i in range(n)]\n"
      "print('here')\n"
      "while True:\n"
      "    three(3)\n");
  ASSERT_EQ(process.line(), "here");
  const std::set<std::string> lines = {
      "one(job.py:1)",        "one(job.py:2)",   "two(job.py:3)",      "two(job.py:4)",       "two(job.py:5)",
      "three(job.py:6)",      "three(job.py:7)", "<module>(job.py:9)", "<module>(job.py:10)", "<module>(job.py:8)",
      "<listcomp>(job.py:7)", "one(job.py:?)",   "two(job.py:?)",      "three(job.py:?)",     "<listcomp>(job.py:?)",
  };
  const FoundInterpreter found = find_interpreter(process.pid(), memory_of(process.pid()));
  ASSERT_TRUE(found.interpreter);
  MainThread thread(memory_of(process.pid()), *found.interpreter);
  EXPECT_EQ(watched(thread, lines, 2500, 4), "");
}

TEST(Python, OfEachVersionThatIsHereStandsOnItsLines) {
  SKIP_WITHOUT_PYTHON();
  for (const auto& [minor, python] : pythons()) {
    SCOPED_TRACE(python);
    const PythonProcess waits(
        "import threading\n"
        "def inner(event):\n"
        "    event.wait()\n"
        "def outer():\n"
        "    x = [1,\n"
        "         2]\n"
        "    for n in (inner(threading.Event()) for i in x):\n"
        "        pass\n"
        "print('here')\n"
        "outer()\n",
        python);
    ASSERT_EQ(waits.line(), "here");
    const std::string expected = "inner(job.py:3)>wait(threading.py:";
    EXPECT_EQ(place_in(waits.pid(), expected), expected);
    const FoundInterpreter found = find_interpreter(waits.pid(), memory_of(waits.pid()));
    ASSERT_TRUE(found.interpreter) << found.problem;
    EXPECT_EQ(found.interpreter->layout.minor, minor);

    const PythonProcess runs(
        "def one(n):\n"
        "    return n + 1\n"
        "def two(n):\n"
        "    m = one(n)\n"
        "    return one(m)\n"
        "print('here')\n"
        "while True:\n"
        "    two(3)\n",
        python);
    ASSERT_EQ(runs.line(), "here");
    const FoundInterpreter other = find_interpreter(runs.pid(), memory_of(runs.pid()));
    ASSERT_TRUE(other.interpreter) << other.problem;
    MainThread thread(memory_of(runs.pid()), *other.interpreter);
    const std::set<std::string> lines = {"one(job.py:1)",      "one(job.py:2)",     "two(job.py:3)",
                                         "two(job.py:4)",      "two(job.py:5)",     "<module>(job.py:6)",
                                         "<module>(job.py:7)", "<module>(job.py:8)"};
    EXPECT_EQ(watched(thread, lines, 500, 3), "");
  }
}

TEST(Python, ThatEndsOrBecomesAnotherProgramMeanwhileIsLeftOut) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process(
      "import os, sys\n"
      "def work(n):\n"
      "    return sum(range(n))\n"
      "def child(i):\n"
      "    for n in range(20):\n"
      "        work(50 * (i % 100))\n"
      "    if i % 2:\n"
      "        os.execv('/bin/true', ['true'])\n"
      "    os._exit(0)\n"
      "for i in range(1000):\n"
      "    pid = os.fork()\n"
      "    if pid == 0:\n"
      "        child(i)\n"
      "    print(pid)\n"
      "    os.waitpid(pid, 0)\n"
      "print('done')\n");
  const std::set<std::string> functions = {"work", "child", "<module>"};
  int processes = 0;
  int known = 0;
  for (std::string line = process.line(); line != "done"; line = process.line()) {
    ASSERT_NE(line, "");
    ++processes;
    const int pid = std::stoi(line);
    const FoundInterpreter found = find_interpreter(pid, memory_of(pid));
    if (!found.interpreter) continue;
    MainThread thread(memory_of(pid), *found.interpreter);
    for (int i = 0; i < 10'000; ++i) {
      const StackSample stack = thread.look();
      if (stack.state == StackSample::State::gone || stack.state == StackSample::State::unmapped) break;
      if (stack.state != StackSample::State::known) continue;
      ++known;
      EXPECT_TRUE(functions.contains(stack.frames.front().function)) << place_of(stack.frames);
    }
  }
  EXPECT_EQ(processes, 1000);
  EXPECT_GT(known, 0);
}

TEST(Python, WithMoreThreadsThanAreLookedThroughIsSaidToBeLost) {
  Interpreter interpreter{.layout = *layout_of_minor(11), .main_thread = 7};
  const auto memory = [](std::span<const MemoryPiece> pieces) {
    for (const MemoryPiece& piece : pieces) {
      constexpr std::uint64_t kAnother = 4096;  // thread, and so on for ever
      std::memcpy(piece.into.data(), &kAnother, std::min(piece.into.size(), sizeof kAnother));
    }
    return MemoryRead::whole;
  };
  EXPECT_EQ(MainThread(memory, interpreter).look().state, StackSample::State::lost);
}

TEST(Python, IsNoneWhereTheProcessIsAnotherProgram) {
  const FoundInterpreter found = find_interpreter(::getpid(), memory_of(::getpid()));
  EXPECT_FALSE(found.interpreter);
  EXPECT_EQ(found.problem, "");
  EXPECT_FALSE(find_interpreter(1 << 28, memory_of(1 << 28)).interpreter);
}

TEST(Python, IsNotMeasuredWhereTheKernelRefuses) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become somebody else to be refused";
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process("print('here')\nimport time\ntime.sleep(1000)\n");
  ASSERT_EQ(process.line(), "here");
  const pid_t nobody = ::fork();
  if (nobody == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(1);
    const FoundInterpreter found = find_interpreter(process.pid(), memory_of(process.pid()));
    std::uint64_t word = 0;
    const MemoryPiece piece{0x400000, std::as_writable_bytes(std::span(&word, 1))};
    const bool refused = memory_of(process.pid())(std::span(&piece, 1)) == MemoryRead::refused && found.refused;
    const std::string stat = file_text("/proc/" + std::to_string(process.pid()) + "/stat");
    const std::string request = "rank0 " + std::to_string(process.pid()) + ' ' +
                                std::to_string(parse_process_stat(stat).value_or(ProcessStat{}).start_ticks);
    const std::string said = "why rank0 " + why_refused() + "\ncost ";
    const bool told = query_python("", request).starts_with(said) && query_python("", request).starts_with(said);
    ::_exit(refused && told && found.problem == why_refused() ? 7 : 8);
  }
  int status = 0;
  ::waitpid(nobody, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(why_refused().starts_with("the kernel does not let reveal read its memory"));
}

/// The probe with a trace; a second passes at each sample, by the clock of the test.
class PythonBench {
 public:
  explicit PythonBench(int job) {
    TraceHeader header;
    header.node = "here";
    header.interval = std::chrono::milliseconds(100);
    writer_.emplace(folder_.path() / "here.h5", header);
    sink_.emplace(&*writer_);
    sampler_.emplace(fs_, *sink_,
                     Sampler::Options{.probes = {"python"}, .job = JobSource{.pid = job}, .own_pid = ::getpid()}, at());
    sampler_->look_first();
    writer_->start();
  }
  void sample() {
    second_ += 1;
    sampler_->sample({.time = at(), .number = 0});
  }
  [[nodiscard]] std::int64_t value(const std::string& metric) const {
    return sink_->find("python/samples")->value(metric);
  }
  [[nodiscard]] Coverage coverage() const { return sampler_->coverage().front(); }
  std::vector<Event> events() {
    sampler_->close();
    writer_->close();
    std::vector<Event> found;
    for (const Event& event : TraceReader(folder_.path() / "here.h5").events()) {
      if (event.code == "python_frames") found.push_back(event);
    }
    return found;
  }

 private:
  [[nodiscard]] TickTime at() const { return {start_.monotonic_ns + second_ * 1'000'000'000, start_.utc_ns}; }

  TemporaryDirectory folder_;
  KernelTree fs_;
  TickTime start_ = now();
  std::int64_t second_ = 0;
  std::optional<TraceWriter> writer_;
  std::optional<TraceSink> sink_;
  std::optional<Sampler> sampler_;
};

TEST(Python, IsOffUnlessItIsAskedFor) {
  KernelTree fs;
  TraceSink sink;
  const Sampler sampler(fs, sink, {.job = JobSource{.pid = ::getpid()}}, now());
  for (const Coverage& fact : sampler.coverage()) {
    if (fact.probe != "python") continue;
    EXPECT_EQ(fact.reason, "it is off by default (reveal-run --stack, srun --reveal=stack=on)");
    return;
  }
  FAIL() << "no coverage of the probe";
}

TEST(Python, HasNothingToLookIntoInACopiedTree) {
  TestHost host;
  host.process(100, 1, "train", 0, 0);
  const ProbeBench bench(host, "python", JobSource{.pid = 100});
  EXPECT_EQ(bench.coverage().reason, "a copied tree has no processes to look into");
}

TEST(Python, IsNotThereWhereTheJobIsAnotherProgram) {
  PythonBench bench(::getpid());
  for (int i = 0; i < 12; ++i) bench.sample();
  EXPECT_EQ(bench.coverage().reason, "none of the processes that are measured one by one runs Python 3.8 to 3.13");
  EXPECT_TRUE(bench.events().empty());
}

/// Samples until there are so many.
bool samples(PythonBench& bench, std::int64_t count) {
  for (int i = 0; i < 5000 && bench.value("python.samples") < count; ++i) {
    bench.sample();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return bench.value("python.samples") >= count;
}

/// The processes that have a row with this text.
std::set<std::string> processes_in(const std::vector<Event>& events, std::string_view text) {
  std::set<std::string> processes;
  for (const Event& event : events) {
    if (event.text.find(text) != std::string::npos) processes.insert(event.object);
  }
  return processes;
}

TEST(Python, IsReadBelowAScript) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process(
      "import os\n"
      "child = \"\"\"import os, time\n"
      "shell = os.getppid()\n"
      "def load():\n"
      "    while os.getppid() == shell: time.sleep(.01)\n"
      "print('loads')\n"
      "load()\"\"\"\n"
      "os.execv('/bin/sh', ['sh', '-c', '/usr/bin/python3 -u -S -E -c \"$0\"; true', child])\n");
  ASSERT_EQ(process.line(), "loads");
  PythonBench bench(process.pid());
  ASSERT_TRUE(samples(bench, 5)) << bench.coverage().reason;
  EXPECT_EQ(bench.coverage().reason, "");
  EXPECT_EQ(processes_in(bench.events(), "=load(<string>:4)").size(), 1U);
}

TEST(Python, IsReadInTheProcessesThatALauncherStarts) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process(
      "import os, time\n"
      "def load():\n"
      "    while os.getppid() == launcher: time.sleep(.01)\n"
      "def monitor():\n"
      "    time.sleep(1000)\n"
      "launcher = os.getpid()\n"
      "for rank in range(2):\n"
      "    if os.fork() == 0:\n"
      "        os.write(1, b'loads\\n')\n"  // at once: the other rank writes into the same pipe
      "        load()\n"
      "        os._exit(0)\n"
      "monitor()\n");
  ASSERT_EQ(process.line(), "loads");
  ASSERT_EQ(process.line(), "loads");
  PythonBench bench(process.pid());
  ASSERT_TRUE(samples(bench, 60)) << bench.coverage().reason;
  const std::vector<Event> events = bench.events();
  EXPECT_EQ(processes_in(events, "=load(job.py:3)").size(), 2U);
  EXPECT_EQ(processes_in(events, "=monitor(job.py:5)"), std::set<std::string>{"rank0"});
}

TEST(Python, LeavesARowOfItsPlacesEveryMinute) {
  SKIP_WITHOUT_PYTHON();
  const PythonProcess process(
      "import time\n"
      "def load():\n"
      "    print('loads')\n"
      "    time.sleep(1000)\n"
      "load()\n");
  ASSERT_EQ(process.line(), "loads");
  ASSERT_EQ(place_in(process.pid(), "load(job.py:4)"), "load(job.py:4)");
  PythonBench bench(process.pid());
  ASSERT_TRUE(samples(bench, 130)) << bench.coverage().reason;
  EXPECT_EQ(bench.coverage().reason, "");
  const std::vector<Event> events = bench.events();
  ASSERT_GE(events.size(), 2U);
  EXPECT_GE(events.front().text.find(' ', 3) - 3, 60U);
  for (const Event& event : events) {
    EXPECT_EQ(event.object, "rank0");
    // "1s aaaaaaaaaa a=load(job.py:4)", and a '-' where an answer came too late on a busy machine
    EXPECT_TRUE(event.text.starts_with("1s ")) << event.text;
    EXPECT_TRUE(event.text.ends_with(" a=load(job.py:4)")) << event.text;
    const std::string letters = event.text.substr(3, event.text.find(' ', 3) - 3);
    EXPECT_EQ(letters.find_first_not_of("a-"), std::string::npos) << event.text;
    EXPECT_LE(letters.size(), 70U);
  }
}

/// The rows of a replay from 2 s to 9 s, in which one sample takes so much processor time, and something is unusual
/// from 4 s to 6 s.
std::vector<std::string> rows_with_faster_samples(std::int64_t cost_ns) {
  const TestHost host;
  std::string text = "reveal recording 1\n+ 0 @@python/open\n$ 0 2\nok\n+ 1 @@job/roots\n$ 1 4\n4711\n";
  const std::string answer = "at rank0 f(x.py:1)\ncost " + std::to_string(cost_ns) + '\n';
  text += "+ 2 @@python\n$ 2 " + std::to_string(answer.size()) + '\n' + answer + "\n+ 3 @@sampler/faster\n";
  for (std::int64_t tick = 20; tick <= 91; ++tick) {
    const std::string time = std::to_string(tick * kSecond / 10);
    text += "= " + time + ' ' + time + '\n';
    if (tick == 40) text += "$ 3 2\non\n";
    if (tick == 60) text += "$ 3 3\noff\n";
  }
  host.write("/ticks.rec", text);
  KernelTree fs(host.root());
  const TemporaryDirectory folder;
  const auto path = folder.path() / "here.h5";
  TraceHeader header;
  header.node = "here";
  header.interval = std::chrono::milliseconds(100);
  TraceWriter writer(path, header, {.waits = true});
  TraceSink sink(&writer);
  std::optional<TickTime> time = fs.next_tick();
  Sampler sampler(fs, sink, {.probes = {"python"}}, *time);
  sampler.look_first();
  writer.start();
  while ((time = fs.next_tick())) sampler.sample({.time = *time, .number = time->monotonic_ns * 10 / kSecond});
  sampler.close();
  writer.close();
  std::vector<std::string> rows;
  for (const Event& event : TraceReader(path).events()) {
    if (event.code == "python_frames") rows.push_back(event.text);
  }
  return rows;
}

TEST(Python, IsReadFasterWhileSomethingIsUnusualAsFarAsItsShareOfACoreAllows) {
  using Rows = std::vector<std::string>;
  EXPECT_EQ(rows_with_faster_samples(20'000),
            (Rows{"1s aaa a=f(x.py:1)", "100ms aaaaaaaaaaaaaaaaaaaa a=f(x.py:1)", "1s aaa a=f(x.py:1)"}));
  EXPECT_EQ(rows_with_faster_samples(500'000),
            (Rows{"1s aaa a=f(x.py:1)", "200ms aaaaaaaaaa a=f(x.py:1)", "1s aaa a=f(x.py:1)"}));
  EXPECT_EQ(rows_with_faster_samples(2'000'000), Rows{"1s aaaaaaaa a=f(x.py:1)"});
}

}  // namespace
}  // namespace reveal::tests::python_test
