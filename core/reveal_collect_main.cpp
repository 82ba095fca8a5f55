// reveal-collect: records one node into a trace. Started by reveal-run and the Slurm plug-in, usable alone.
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/broker/broker.h"
#include "core/broker/privileges.h"
#include "core/broker/slurm_sampler.h"
#include "core/collect.h"
#include "core/job/cpu_set.h"
#include "core/listing.h"
#include "core/sampler/own_memory.h"
#include "core/sampler/sampler.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/config_keys.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/host_name.h"
#include "hdf5schema/basics/standard_streams.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/version.h"

namespace reveal {
namespace {

constexpr int kUsage = 2;

std::atomic<bool> stop_requested{false};

extern "C" void request_stop(int) {
  stop_requested = true;
}

// A job that dies of its terminal or of a closed pipe does not take the record of it along.
void set_up_signals() {
  struct sigaction stop {};
  stop.sa_handler = request_stop;
  ::sigaction(SIGTERM, &stop, nullptr);
  // Our starter had it ignored: it is meant for the job.
  struct sigaction before {};
  if (::sigaction(SIGINT, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) ::sigaction(SIGINT, &stop, nullptr);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGHUP, &ignore, nullptr);
  ::sigaction(SIGPIPE, &ignore, nullptr);
  ::sigaction(SIGXFSZ, &ignore, nullptr);  // a limit of the job's: a write that fails is reported, the end is not
  // The start may have come from a process that had them blocked.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

// Started by one rank, it measures all: that rank's cpus are left to it, and its scheduling class is not ours.
void leave_the_rank() {
  cpu_set_t* all = CPU_ALLOC(CpuSet::kMost);
  if (all != nullptr) {
    const std::size_t size = CPU_ALLOC_SIZE(CpuSet::kMost);
    std::memset(all, 0xff, size);  // the kernel keeps existing cpus that the cpuset allows
    ::sched_setaffinity(0, size, all);
    CPU_FREE(all);
  }
  const int policy = ::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
  if (policy != SCHED_FIFO && policy != SCHED_RR) return;
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_OTHER, &none);
}

std::string user_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

struct CommandLine {
  CollectOptions collect;
  BrokerOptions broker;
  std::string interval = "100ms";
  std::string duration;
  std::string retain;
  std::string probes;
  std::string interventions;
  std::string stack_budget;
  std::string stack_without;
  std::vector<std::string> tags;
  bool list = false;
  bool check = false;
  bool facts = false;
  bool json = false;
  bool markdown = false;
  bool verbose = false;
};

void describe(CLI::App& app, CommandLine& line) {
  CollectOptions& collect = line.collect;
  app.add_option("--output", collect.output, "Trace file to write; FILE.part during the recording");
  app.add_option("--node", collect.header.node, "Name of this node (default: SLURMD_NODENAME, else the host name)");
  app.add_option("--interval", line.interval, "Time between samples, at least 10ms (default 100ms)");
  app.add_option("--job", collect.job,
                 "Processes to measure: pid:N: those under N; run:DIR: those under the launchers DIR/rank.PID; "
                 "slurm:ID: the steps of that job");
  app.add_option("--duration", line.duration, "Stop after this time, for example 60s (default: at the end of the job)");
  app.add_option("--probes", line.probes, "Probes to run, separated by commas (default: all)");
  app.add_flag(
      "--stack", collect.stack,
      "Count calls into CUDA, NCCL, gloo, MPI and PyTorch (needs root); record the lines that Python programs execute");
  app.add_option("--stack-budget", line.stack_budget,
                 "Limit of the cost of --stack: percent of the cpu time of the measured processes, on average, from "
                 "0.05 to 5 (default 0.5)");
  app.add_option("--stack-without", line.stack_without,
                 "Functions that --stack never counts, separated by commas: c10d.wait, or torch.* for all that begin "
                 "so");
  app.add_option("--intervene", line.interventions,
                 "Rules on whose findings it may act, separated by commas: [intervention] of reveal.conf");
  app.add_flag_callback(
      "--no-faster-reading", [&collect] { collect.faster_reading = false; },
      "Do not read TCP connections, NUMA maps and Python programs more often while something is unusual");
  app.add_option("--gpu-library", collect.gpu_library, "NVIDIA's management library (default libnvidia-ml.so.1)");
  app.add_option("--metrics", collect.metrics_file,
                 "File with the metrics to record (default: all) and further text files to read; see below");
  app.add_option("--root", collect.root, "Read a copied tree or a recording instead of this host");
  app.add_option("--record", collect.record, "Also store all data read, as a recording for --root");
  app.add_option("--tag", line.tags, "key=value to store in the trace");
  app.add_option("--job-id", collect.header.job_id, "Job id in the batch system");
  app.add_option("--job-name", collect.header.job_name, "Job name in the batch system");
  app.add_option("--command", collect.header.command, "Name of the program of the job");
  app.add_option("--run-key", collect.header.run_key,
                 "Key for the comparison with earlier runs: a hash of program and arguments, or name:TEXT");
  app.add_option("--max-bytes", collect.max_bytes,
                 "Stop writing rows when the trace reaches this size (default: 4 GiB; 0: never)");
  app.add_option("--retain", line.retain,
                 "Rows to keep: full (default), rolling=30min (at least the last 30 minutes: a recording of weeks "
                 "takes no more disk space than one of an hour), or summary (one row per minute, made at the end)");
  const std::string plugin = "Options of the Slurm plugin";
  app.add_option("--spool", line.broker.spool, "Record below this directory and deliver at the end")->group(plugin);
  app.add_option("--lock-fd", line.broker.lock_fd, "File descriptor of the lock, held until the node has finished")
      ->group(plugin);
  app.add_option("--uid", line.broker.uid, "The job's user")->group(plugin);
  app.add_option("--gid", line.broker.gid, "The job's group")->group(plugin);
  app.add_option("--config", line.broker.config, "The site's reveal.conf")->group(plugin);
  app.add_flag("--orphan", line.broker.orphan, "Record nothing; deliver the files of a killed collector")
      ->group(plugin);
  app.add_option("--disable-file", line.broker.disable_file, "Stop when this file appears")->group(plugin);
  app.add_flag("--list-probes", line.list, "Print the probes and their metrics, and exit");
  app.add_flag("--check", line.check, "Open all probes once, print whether each works here, and exit");
  app.add_flag("--facts", line.facts, "Print the configuration of this node, and exit");
  app.add_flag("--json", line.json, "Print JSON (with --list-probes, --check and --facts)");
  app.add_flag("--markdown", line.markdown, "Print Markdown (with --list-probes)");
  app.add_flag("--verbose", line.verbose, "Print a summary of the recording at the end");
  app.set_version_flag("--version", "reveal " REVEAL_VERSION);
  app.footer(
      "Examples:\n"
      "  reveal-collect --output n03.h5 --duration 60s\n"
      "  reveal-collect --output n03.h5 --job pid:4711\n"
      "  reveal-collect --output n03.h5 --root recording/\n"
      "  reveal-collect --output n03.h5 --metrics selected.metrics\n"
      "\n"
      "The file of --metrics has one metric per line; # begins a comment:\n"
      "  cpu.user                                   # only metrics of such lines are recorded\n"
      "  cpu.user/cpu3                              # of one instance only\n"
      "  vmstat.*                                   # any text; ? is any letter\n"
      "  room.level gauge count /run/room/level     # a metric of the site: name, kind (gauge, counter,\n"
      "                                             # event), unit (count, bytes, ns), file, and the word before\n"
      "                                             # the number if it is not the first; always recorded\n"
      "  fs.read counter bytes /proc/fs/stats read:4  # the fourth number behind that word\n"
      "A probe without a selected metric reads nothing. --list-probes prints the names; `reveal prune` writes such "
      "a\nfile. The cost of reveal itself is always recorded.");
}

std::optional<std::string> near_option(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  return nearest(word.substr(0, word.find('=')), known);
}

class UsageError : public Error {
 public:
  using Error::Error;
};

void finish(CommandLine& line) {
  CollectOptions& collect = line.collect;
  const auto interval = parse_duration(line.interval);
  using namespace std::chrono_literals;
  if (!interval || *interval < 10ms || *interval > 3600s) {
    throw UsageError("--interval " + line.interval + ": expected a time from 10ms to 1h, for example 100ms");
  }
  collect.header.interval = *interval;
  if (!line.duration.empty()) {
    collect.duration = parse_duration(line.duration);
    if (!collect.duration) throw UsageError("--duration " + line.duration + ": expected a time, for example 60s");
  }
  if (!line.retain.empty()) {
    const auto retention = parse_retention(line.retain);
    if (!retention) {
      throw UsageError("--retain " + line.retain +
                       ": expected full, summary, or rolling with at least a minute, as in " + "rolling=30min");
    }
    collect.retention = *retention;
  }
  collect.probes = split_names(line.probes);
  collect.interventions = split_names(line.interventions);
  collect.stack_without = split_names(line.stack_without);
  if (collect.stack && !collect.probes.empty()) collect.probes.insert(collect.probes.end(), {"stack", "python"});
  if (!line.stack_budget.empty()) {
    const std::string mistake = mistake_in(config_key("run", "stack_budget"), {line.stack_budget});
    if (!mistake.empty()) throw UsageError("--stack-budget" + mistake);
    collect.stack_budget = parse_number(line.stack_budget).value_or(collect.stack_budget);
  }
  try {
    check_function_names(collect.stack_without);
    static_cast<void>(select_probes(collect.probes));
    if (!collect.job.empty()) static_cast<void>(JobSource::parse(collect.job));
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  for (const std::string& tag : line.tags) {
    const std::size_t equals = tag.find('=');
    if (equals == std::string::npos || equals == 0) throw UsageError("--tag " + tag + ": expected key=value");
    collect.header.tags.emplace_back(tag.substr(0, equals), tag.substr(equals + 1));
  }
  if (collect.header.node.empty()) collect.header.node = process_environment("SLURMD_NODENAME");
  if (collect.header.node.empty()) collect.header.node = short_host_name();
  if (!is_file_name(collect.header.node))
    throw UsageError("--node " + collect.header.node + ": expected a name without /, as files have");
  if (collect.header.job_id.empty()) collect.header.job_id = process_environment("SLURM_JOB_ID");
  if (collect.header.job_name.empty()) collect.header.job_name = process_environment("SLURM_JOB_NAME");
  collect.header.cluster = process_environment("SLURM_CLUSTER_NAME");
  collect.header.user = user_name();
  collect.header.tool_version = REVEAL_VERSION;
}

int record(const CommandLine& line) {
  if (line.collect.output.empty()) throw UsageError("--output FILE is missing");
  ::umask(077);  // recordings and traces name processes and paths of their user
  set_up_signals();
  leave_the_rank();
  offer_to_oom_killer();
  ::setsid();
  const CollectResult result = collect(line.collect, stop_requested);
  if (!result.missing_metrics.empty()) std::fprintf(stderr, "reveal-collect: %s\n", result.missing_metrics.c_str());
  if (!result.not_rewritten.empty())
    std::fprintf(stderr, "reveal-collect: the trace is complete but larger than necessary: %s\n",
                 result.not_rewritten.c_str());
  if (line.verbose) {
    std::printf("reveal-collect: %lld ticks, %lld missed, %lld late, %llu channels, %llu rows lost\n",
                static_cast<long long>(result.ticks), static_cast<long long>(result.ticks_missed),
                static_cast<long long>(result.ticks_late), static_cast<unsigned long long>(result.channels),
                static_cast<unsigned long long>(result.rows_lost));
  }
  return 0;
}

// All input of the user is read by the sampler, which already runs as the user.
int serve_slurm(CommandLine& line) {
  if (line.collect.job.rfind("slurm:", 0) != 0) throw UsageError("--spool: needs --job slurm:ID");
  if (line.broker.lock_fd < 3) throw UsageError("--spool: needs --lock-fd");
  line.broker.job = line.collect.job.substr(6);
  line.broker.node = line.collect.header.node;
  line.broker.request = process_environment("REVEAL_REQUEST");  // every user of the node can read a command line
  std::string restart = process_environment("SLURM_JOB_RESTART_COUNT");
  if (restart.empty()) restart = process_environment("SLURM_RESTART_COUNT");
  line.broker.restart = static_cast<int>(std::clamp<std::int64_t>(parse_int(restart).value_or(0), 0, INT32_MAX));
  return run_broker(line.broker, [&line](const std::filesystem::path& trace, const SamplerSockets& sockets) {
    set_up_signals();
    leave_the_rank();
    line.collect.output = trace;
    line.collect.perf_broker = sockets.perf_broker;
    line.collect.call_broker = sockets.call_broker;
    line.collect.header.job_id = line.broker.job;
    line.collect.job += "@" + line.broker.node;
    const SlurmSampling sampling =
        read_sampling(line.broker.config, line.broker.request, process_environment("SPANK_REVEAL_STACK"));
    line.collect.stack = sampling.stack;
    line.collect.stack_forbidden = sampling.stack_forbidden;
    line.stack_budget = sampling.stack_budget;
    line.stack_without = sampling.stack_without;
    line.collect.faster_reading = sampling.faster_reading;
    line.interval = sampling.interval;
    line.probes = sampling.probes;
    line.interventions = sampling.interventions;
    line.collect.gpu_library = sampling.gpu_library;
    finish(line);
    return sample_slurm_job(line.collect, sampling, stop_requested);
  });
}

int run(int argc, char** argv) {
  const bool locked =
      std::any_of(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--lock-fd") == 0; });
  keep_little_memory();
  close_descriptors_from(locked ? STDERR_FILENO + 2 : STDERR_FILENO + 1);
  CLI::App app("Records one node: cpu, memory, disk, network, interrupts, and a job's processes.", "reveal-collect");
  CommandLine line;
  describe(app, line);
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty()) {
    const auto near = near_option(app, extras.front());
    throw UsageError("unknown option \"" + extras.front() + "\"" + (near ? "; did you mean \"" + *near + "\"?" : ""));
  }
  if (!line.broker.spool.empty()) return serve_slurm(line);
  finish(line);
  const Form form = line.json ? Form::json : Form::text;
  if (line.list) {
    std::fputs(list_probes(line.markdown ? Form::markdown : form).c_str(), stdout);
    return 0;
  }
  if (line.check) {
    std::fputs(list_coverage(check_probes(line.collect), form).c_str(), stdout);
    return 0;
  }
  if (line.facts) {
    std::fputs(list_facts(node_facts(line.collect), form).c_str(), stdout);
    return 0;
  }
  return record(line);
}

}  // namespace
}  // namespace reveal

int main(int argc, char** argv) {
  reveal::guard_standard_streams();
  ::signal(SIGCHLD, SIG_DFL);  // ignored, as some launchers leave it, children would leave no exit status
  try {
    return reveal::run(argc, argv);
  } catch (const reveal::UsageError& error) {
    std::fprintf(stderr, "reveal-collect: %s\n", error.what());
    return reveal::kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reveal-collect: %s\n", error.what());
    return 1;
  }
}
