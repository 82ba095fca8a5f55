// Recording, closing, downsampling and delivering with every call to the kernel failing in turn, and with every call
// being the last one before SIGKILL: nothing that was flushed may be lost, and every failure must be reported. Usage:
//   fault_sweep [EVERY [CALL]]
// tries each EVERYth call (default 1: all of them), or those of one kind such as sync, and prints the outcomes.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/trace_writer.h"
#include "postproc/analysis/downsample_traces.h"
#include "postproc/analysis/job_summaries.h"
#include "postproc/deliver/deliver.h"
#include "tests/faults/injected_faults.h"
#include "tests/unit/hdf5schema/sample_trace.h"
#include "tests/unit/temporary_directory.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kBegin = 5'000'000'000'000;
constexpr int kRowsPerFlush = 100;

/// The report of a child to its parent, also when it is killed.
struct Reported {
  FileCallCounts counts;
  std::atomic<int> rows;  // flushed
  char error[1024];
};

/// Does its work, and calls arm() when faults may begin. Throws or returns false where the program would report an
/// error.
using Act = std::function<bool(const fs::path&, Reported&, const std::function<void()>& arm)>;

struct Scenario {
  const char* name;
  std::function<void(const fs::path&)> prepare;
  Act act;
  /// Rows that were flushed and cannot be read. Throws where something is there that is wrong. `complete`: everything
  /// must be where the program leaves it.
  std::function<int(const fs::path&, int flushed, bool complete)> lost;
};

// ---- a recording of known values

bool record(const fs::path& trace, const Retention& retention, int rows, Reported& reported,
            const std::function<void()>& arm_now) {
  arm_now();
  TraceWriter writer(trace, sample_header(), {.retention = retention});
  const auto counters = writer.add_family(counter_family());
  const auto levels = writer.add_family(gauge_family());
  for (int i = 0; i < 3; ++i) writer.add_channel(counters, {.metric = "c" + std::to_string(i)});
  writer.add_channel(levels, {.metric = "level"});
  writer.set_snapshot({{"kernel.release", "6.1.0"}}, "<topology/>");
  writer.start();
  std::int64_t values[3] = {};
  for (int row = 0; row < rows; ++row) {
    for (int c = 0; c < 3; ++c) values[c] = 1000 + std::int64_t{c + 1} * row;
    const std::int64_t time = kBegin + row * kTick;
    const std::int64_t level = row;
    writer.append_row(counters, time, std::span<const std::int64_t>(values));
    writer.append_row(levels, time, std::span(&level, 1));
    if (row % kRowsPerFlush != kRowsPerFlush - 1 || row + 1 == rows) continue;
    wait_until_flushed(writer, time);
    if (writer.status().failure.empty()) reported.rows = row + 1;
  }
  writer.append_event({kBegin, "test", "end", ""});
  writer.close();
  return writer.status().not_rewritten.empty();
}

/// Rows up to the end of the trace; throws where a value is not what it was, or one of the first `flushed` rows is
/// missing. Behind a flush that failed once, rows go on.
int rows_in(const fs::path& trace, int flushed) {
  const TraceReader reader(trace);
  std::int64_t end = kBegin - kTick;
  for (const TraceReader::Family& family : reader.families()) {
    const std::size_t rows = family.time_ns.size();
    if (rows == 0) continue;
    end = std::max(end, family.time_ns.back());
    const std::vector<std::int64_t> values = reader.read_absolute(family);
    const bool minutes = family.spec.period >= 1min;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::int64_t tick = (family.time_ns[row] - kBegin) / kTick;
      const std::int64_t before = row > 0 ? (family.time_ns[row - 1] - kBegin) / kTick : tick - 1;
      if (!minutes && before + 1 < flushed && tick != before + 1) throw Error(trace.string() + ": a row is missing");
      for (std::size_t c = 0; c < family.channels.size(); ++c) {
        const std::int64_t value = values[c * rows + row];
        const bool counts = family.spec.kind == Kind::counter;
        // In the families of minutes, only counters and the last value are the tick's own.
        if (minutes && !counts && !family.spec.path.ends_with("_last")) continue;
        const std::int64_t expected = counts ? 1000 + static_cast<std::int64_t>(c + 1) * tick : tick;
        if (value != expected) {
          throw Error(trace.string() + ": " + std::to_string(value) + " instead of " + std::to_string(expected) +
                      " in row " + std::to_string(row) + " (" + std::to_string(rows) + " rows, tick " +
                      std::to_string(tick) + ") of " + family.spec.path);
        }
      }
    }
  }
  return static_cast<int>((end - kBegin) / kTick) + 1;
}

int lost_of_recording(const fs::path& directory, int all, int flushed, bool complete) {
  const fs::path trace = directory / "n01.h5";
  if (fs::exists(trace)) return std::max(0, (complete ? all : flushed) - rows_in(trace, complete ? all : flushed));
  if (complete) throw Error("no error was told, and there is no trace");
  if (flushed == 0) return 0;
  const fs::path recovered = directory / "recovered.h5";
  try {
    recover(trace.string() + ".part", recovered);
  } catch (const Error& error) {
    std::printf("  %s\n", error.what());
    return flushed;
  }
  return std::max(0, flushed - rows_in(recovered, flushed));
}

Scenario recording(const char* name, const Retention& retention, int rows) {
  return {name, [](const fs::path&) {},
          [=](const fs::path& directory, Reported& reported, const std::function<void()>& arm_now) {
            return record(directory / "n01.h5", retention, rows, reported, arm_now);
          },
          [=](const fs::path& directory, int flushed, bool complete) {
            return lost_of_recording(directory, rows, flushed, complete);
          }};
}

// ---- a trace that is there

constexpr int kRowsThere = 1800;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void make_trace_there(const fs::path& directory) {
  TraceWriter writer(directory / "n01.h5", sample_header());
  const auto family = writer.add_family(gauge_family());
  std::vector<std::int64_t> values(20);
  for (std::size_t i = 0; i < values.size(); ++i) writer.add_channel(family, {.metric = "mem.m" + std::to_string(i)});
  writer.start();
  std::minstd_rand random(1);
  for (int row = 1; row <= kRowsThere; ++row) {
    for (std::int64_t& value : values) value = static_cast<std::int64_t>(random());
    writer.append_row(family, row * kTick, values);
    if (row % kRowsPerFlush == 0) wait_until_flushed(writer, row * kTick);
  }
  writer.append_clock({kTick, 1'700'000'000'000'000'000, 0});
  writer.close();
}

/// Made once: its analysis takes longer than everything that is done to it.
const fs::path& trace_there() {
  static const TemporaryDirectory directory;
  static const bool made = [] {
    make_trace_there(directory.path());
    write_summaries(directory.path(), "n01", {});
    return true;
  }();
  static_cast<void>(made);
  return directory.path();
}

void copy_trace(const fs::path& to) {
  for (const auto& entry : fs::directory_iterator(trace_there())) {
    const fs::path copy = to / entry.path().filename();
    fs::copy_file(entry.path(), copy);
    fs::last_write_time(copy, entry.last_write_time());  // the summary identifies its trace by it
  }
}

/// Either as it was, or one row a minute as a reader finds them.
int lost_of_downsampled(const fs::path& directory, int /*flushed*/, bool complete) {
  const fs::path trace = directory / "n01.h5";
  const TraceReader reader(trace);
  const bool downsampled = !reader.events().empty() && reader.events().front().code == "summary";
  if (complete && !downsampled) throw Error("no error was told, and the trace is not thinned");
  if (!downsampled) return bytes_of(trace) == bytes_of(trace_there() / "n01.h5") ? 0 : kRowsThere;
  for (const TraceReader::Family& family : reader.families()) {
    if (family.time_ns.back() != kRowsThere * kTick || family.channels.size() != 20) return kRowsThere;
    for (const double value : reader.read(family)) {
      if (value != value) return kRowsThere;
    }
  }
  const auto summary = summary_of(list_traces(directory).at(0));
  if (!summary || !summary->downsampled) throw Error("a thinned trace without its summary");
  return 0;
}

int lost_of_moved(const fs::path& from, const fs::path& to, bool complete) {
  const std::string expected = bytes_of(trace_there() / "n01.h5");
  if (fs::exists(to) && bytes_of(to) != expected) throw Error(to.string() + " is not what was delivered");
  if (complete && (!fs::exists(to) || fs::exists(from))) throw Error("no error was told, and nothing is delivered");
  return fs::exists(to) || (fs::exists(from) && bytes_of(from) == expected) ? 0 : kRowsThere;
}

SlurmJob job_in(const fs::path& directory) {
  SlurmJob job;
  job.place = {.id = "4711", .user = "anna", .cluster = "c", .work_dir = (directory / "work").string(), .home = {}};
  job.place.nodes = job.place.watched = {"n01"};
  return job;
}

std::vector<Scenario> scenarios() {
  return {
      recording("record, close", {}, 650),
      recording("record 5 s, close", {}, 50),
      recording("record rolling=1min, close", {.form = Retention::Form::rolling, .keep = 1min}, 1450),
      recording("record, close as summary", {.form = Retention::Form::summary}, 650),
      {"thin (report --retain summary)", copy_trace,
       [](const fs::path& directory, Reported& reported, const std::function<void()>& arm_now) {
         arm_now();
         const std::vector<std::string> problems = downsample_traces(directory);
         if (!problems.empty()) problems.front().copy(reported.error, sizeof reported.error - 1);
         return problems.empty();
       },
       lost_of_downsampled},
      {"deliver (reveal-run's spool)",
       [](const fs::path& directory) {
         fs::create_directories(directory / "spool");
         fs::create_directories(directory / "work");
         copy_trace(directory / "spool");
       },
       [](const fs::path& directory, Reported&, const std::function<void()>& arm_now) {
         arm_now();
         return move_file(directory / "spool/n01.h5", directory / "work/n01.h5").empty();
       },
       [](const fs::path& directory, int, bool complete) {
         return lost_of_moved(directory / "spool/n01.h5", directory / "work/n01.h5", complete);
       }},
      {"deliver (Slurm's spool)",
       [](const fs::path& directory) {
         fs::create_directories(directory / "spool");
         fs::create_directories(directory / "work");
         copy_trace(directory / "spool");
       },
       [](const fs::path& directory, Reported& reported, const std::function<void()>& arm_now) {
         arm_now();
         const SlurmJob job = job_in(directory);
         const Delivery delivery =
             deliver(directory / "spool", "n01", job, "", {.report = ReportWhen::lazy}, AnalysisSettings());
         delivery.why.copy(reported.error, sizeof reported.error - 1);
         return delivery.moved && delivery.why.empty();
       },
       [](const fs::path& directory, int, bool complete) {
         fs::path to = directory / "work/reveal-4711/n01.h5";
         if (!fs::exists(to)) to = directory / "work/reveal-4711-2/n01.h5";
         return lost_of_moved(directory / "spool/n01.h5", to, complete);
       }},
  };
}

// ---- the sweep

enum class End : std::uint8_t { silent, reported, killed, crashed };

struct Outcome {
  End end = End::silent;
  int lost = 0;
  std::string wrong;
};

class Sweep {
 public:
  explicit Sweep(const Scenario& scenario) : scenario_(scenario) {
    void* shared = ::mmap(nullptr, sizeof(Reported), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw system_error("mmap", errno);
    reported_ = new (shared) Reported;
  }
  ~Sweep() { ::munmap(reported_, sizeof(Reported)); }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  Outcome run(const Fault* fault) {
    const TemporaryDirectory directory;
    scenario_.prepare(directory.path());
    const fs::path said = directory.path() / "stderr";
    reported_->rows = 0;
    std::memset(reported_->error, 0, sizeof reported_->error);
    for (auto& count : reported_->counts) count = 0;
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      static_cast<void>(std::freopen(said.c_str(), "w", stderr));
      ::_exit(act(directory.path(), fault) ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    Outcome outcome;
    if (WIFSIGNALED(status))
      outcome.end = WTERMSIG(status) == SIGKILL ? End::killed : End::crashed;
    else if (WEXITSTATUS(status) != 0)
      outcome.end = End::reported;
    const std::string error = reported_->error;
    if (outcome.end == End::crashed) outcome.wrong = "signal " + std::to_string(WTERMSIG(status));
    if (error.find('\n') != std::string::npos || error.find("buf = ") != std::string::npos) outcome.wrong = error;
    if (const std::string more = bytes_of(said); !more.empty()) outcome.wrong = "written past us: " + more;
    fs::remove(said);
    try {
      outcome.lost = scenario_.lost(directory.path(), reported_->rows, outcome.end == End::silent);
    } catch (const std::exception& wrong) {
      outcome.wrong = wrong.what();
    }
    return outcome;
  }
  [[nodiscard]] int calls(std::size_t call) const { return reported_->counts[call]; }
  [[nodiscard]] std::string error() const { return reported_->error; }

 private:
  bool act(const fs::path& directory, const Fault* fault) {
    try {
      return scenario_.act(directory, *reported_, [&] { arm(fault, reported_->counts); });
    } catch (const std::exception& error) {
      std::string(error.what()).copy(reported_->error, sizeof reported_->error - 1);
      return false;
    }
  }

  const Scenario& scenario_;
  Reported* reported_ = nullptr;
};

struct Way {
  const char* name;
  int error;
  bool lasting;
};
constexpr Way kWays[] = {{"ENOSPC from then on", ENOSPC, true},
                         {"EDQUOT once", EDQUOT, false},
                         {"EIO once", EIO, false},
                         {"SIGKILL", 0, false}};

int sweep(int every, const std::string& only) {
  int wrong = 0;
  std::printf("%-32s %-10s %-20s %6s %6s %6s %6s %6s %10s\n", "", "call", "fails with", "calls", "tried", "told",
              "whole", "killed", "rows lost");
  int offset = 0;
  for (const Scenario& scenario : scenarios()) {
    Sweep sweep(scenario);
    if (const Outcome clean = sweep.run(nullptr); clean.end != End::silent || clean.lost != 0 || !clean.wrong.empty()) {
      std::printf("%s: fails without a fault: %s %s\n", scenario.name, clean.wrong.c_str(), sweep.error().c_str());
      return 1;
    }
    FileCallCounts counts;
    for (std::size_t call = 0; call < counts.size(); ++call) counts[call] = sweep.calls(call);
    for (std::size_t call = 0; call < counts.size(); ++call) {
      if (!only.empty() && only != kFileCallNames[call]) continue;
      for (const Way& way : kWays) {
        int tried = 0;
        int lost = 0;
        std::map<End, int> ends;
        // The chosen ones differ from line to line, so that a sample reaches all parts of a recording.
        const int first = counts[call] < every ? 1 : 1 + offset++ % every;
        for (int number = first; number <= counts[call]; number += every) {
          const Fault fault{static_cast<FileCall>(call), number, way.error, way.lasting};
          Outcome outcome = sweep.run(&fault);
          if (fault.call == FileCall::sync && outcome.end == End::silent) outcome.wrong = "what failed was not told";
          ++tried;
          ++ends[outcome.end];
          lost += outcome.lost;
          if (outcome.lost == 0 && outcome.wrong.empty()) continue;
          ++wrong;
          std::printf("FAILED: %s, %s %d, %s: %d rows lost; %s; told: %s\n", scenario.name, kFileCallNames[call],
                      number, way.name, outcome.lost, outcome.wrong.c_str(), sweep.error().c_str());
        }
        if (tried > 0)
          std::printf("%-32s %-10s %-20s %6d %6d %6d %6d %6d %10d\n", scenario.name, kFileCallNames[call], way.name,
                      counts[call].load(), tried, ends[End::reported], ends[End::silent], ends[End::killed], lost);
      }
    }
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace reveal

int main(int argc, char** argv) {
  return reveal::sweep(std::max(1, argc > 1 ? std::atoi(argv[1]) : 1), argc > 2 ? argv[2] : "");
}
