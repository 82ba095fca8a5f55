#include "core/broker/broker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "core/broker/extern_step.h"
#include "core/broker/job_spool.h"
#include "core/broker/ledger_lines.h"
#include "core/broker/privileges.h"
#include "core/broker/run_lock.h"
#include "core/broker/user_cgroup.h"
#include "core/job/job_cpus.h"
#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/pmu/allowance.h"
#include "core/pmu/perf_broker.h"
#include "core/stack/call_requests.h"
#include "core/stack/call_server.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/config.h"
#include "hdf5schema/basics/delivery_times.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/node_list.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/request_socket.h"
#include "hdf5schema/basics/run_program.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kPrologNodes = "REVEAL_PROLOG_NODES";  // set by the plugin, not by the user
constexpr auto kLook = 1s;                                   // at the kill switch
constexpr auto kCloseLimit = 10s;      // for the sampler to close its trace; the epilog does not wait that long
constexpr auto kEpilogLimit = 5s;      // from here on the job's cpus may be the next job's
constexpr auto kLastResort = 20s;      // a longer wait would not help
constexpr auto kDeliverLimit = 120s;   // for delivery, report and mail
constexpr auto kAnalysisLimit = 900s;  // the same with the analysis of a long trace, at low priority
constexpr auto kLedgerLimit = 10s;     // for a line of this node's ledger, after all that
constexpr char kMuchToDo = '*';        // instead of the usual byte of a deliverer
constexpr auto kKillLimit = 1s;
constexpr auto kDetachLimit = 20s;  // for the call server: on a node full of ranks it has thousands of functions
constexpr int kLowestPriority = 19;
constexpr int kMostSamplers = 3;     // it is started again if it fails or is killed while the job goes on
constexpr auto kLongRecording = 1h;  // failures before one as long do not count any more
constexpr int kMostTraces = 1000;    // a run may leave on a node

void say(int priority, const BrokerOptions& options, const std::string& text) {
  ::syslog(LOG_DAEMON | priority, "reveal: job %s: %s", options.job.c_str(), text.c_str());
}

/// Signals wait for us here instead of interrupting.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT, SIGCHLD, SIGIO}) sigaddset(&set_, signal);
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
    for (const int signal : {SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
  }
  void restore_in_child() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  /// Returns at the first signal or after `time`; remembers a request to stop.
  void wait(std::chrono::nanoseconds time) {
    const timespec limit{static_cast<time_t>(time.count() / kSecond), time.count() % kSecond};
    const int signal = ::sigtimedwait(&set_, nullptr, &limit);
    if (signal == SIGTERM || signal == SIGINT) stop_ = true;
  }
  [[nodiscard]] bool stop() const noexcept { return stop_; }

 private:
  sigset_t set_{}, before_{};
  bool stop_ = false;
};

/// 128 + n for signal n; nothing while it runs.
std::optional<int> end_of(ChildProcess& child) {
  const auto status = child.status();
  return status ? std::optional(exit_status(*status)) : std::nullopt;
}

/// A signal that ends the wait is remembered.
std::optional<int> wait_for(ChildProcess& child, Signals& signals, std::chrono::nanoseconds limit) {
  const auto end = SteadyClock::now() + limit;
  while (!child.status() && SteadyClock::now() < end) signals.wait(std::min<std::chrono::nanoseconds>(limit, 50ms));
  return end_of(child);
}

/// Sets the priority of the child and of all that it started: it leads a group of its own.
void set_nice(ChildProcess& child, int nice) {
  if (child && !child.status()) ::setpriority(PRIO_PGRP, static_cast<id_t>(child.pid()), nice);
}

/// Problems in [slurm] are logged here: sampler and deliverer read the same file afterwards.
Config read_site(const BrokerOptions& options) {
  Config config;
  config.read_file(options.config, ConfigOwner::site);
  for (const std::string& problem : config.problems_of({"slurm", "gpu", "intervention"}))
    say(LOG_NOTICE, options, problem);
  return config;
}

/// Reads the file again: our successor also does, and the site may have changed it while the job ran.
Config site_by_now(const std::string& file) {
  Config site;
  site.read_file(file, ConfigOwner::site);
  return site;
}

/// A mail program may be set-group-id: Postfix's reaches its queue in no other way.
/// https://www.postfix.org/postdrop.1.html
Programs programs_of_deliverer(const std::string& file) {
  return site_by_now(file).truth(config_key("mail", "enabled")) ? Programs::keep_set_uid : Programs::none;
}

bool keeps_ledger(const std::string& file) {
  return site_by_now(file).truth(config_key("slurm", "ledger"));
}

/// Nothing where no node analyses its trace.
std::optional<double> expected_delivery_seconds(const std::string& file, double trace_bytes) {
  const Config site = site_by_now(file);
  if (site.text(config_key("slurm", "report")) == "lazy") return std::nullopt;
  return expected_analysis_seconds(trace_bytes, site.text(config_key("slurm", "retain")) == "summary");
}

std::int64_t utc_seconds_now() {
  return utc_now_ns() / kSecond;
}

/// Processor time of the children that were waited for, and of theirs.
double cpu_seconds_of_children() noexcept {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

bool may_count_calls(const std::string& file) {
  return site_by_now(file).text(config_key("slurm", "stack")) != "never";
}

bool has_question(const Descriptor& socket) {
  pollfd ready{socket.get(), POLLIN, 0};
  return ::poll(&ready, 1, 0) > 0 && (ready.revents & (POLLIN | POLLHUP)) == POLLIN;
}

SpoolLimits spool_with_room(const BrokerOptions& options) {
  const SpoolLimits limits = spool_limits(options.spool, read_site(options));
  if (!options.orphan) require_room(options.spool, limits, options.uid);
  return limits;
}

class Broker {
 public:
  Broker(const BrokerOptions& options, const SampleJob& sample, const UserCgroup& cgroup)
      : options_(options),
        sample_(sample),
        cgroup_(cgroup),
        lock_(options),
        limits_(spool_with_room(options)),
        spool_(make_job_spool(options.spool, run_name(options.job, lock_.restart()), options.uid, options.gid)),
        mail_state_(make_mail_state(options.spool, options.uid, options.gid)),
        extern_step_(fs_, options.job, options.node) {}

  int run() {
    bool recorded = options_.orphan && !over();
    bool failed = false;
    for (int samplers = 1; !options_.orphan && !over(); ++samplers) {
      const auto begun = SteadyClock::now();
      ChildProcess sampler = start_sampler();
      const int end = watch(sampler);
      if (SteadyClock::now() - begun >= kLongRecording) samplers = 1;
      recorded = recorded || end != kTooShort;
      failed = end != kTooShort && end != kSampled && !over();
      if (end == kSampled || end == kTooShort || over() || samplers == kMostSamplers || is_full()) break;
      const std::string how = end > 128 ? "was ended by signal " + std::to_string(end - 128) : "failed";
      say(LOG_NOTICE, options_, "the sampler " + how + "; it is started again");
      signals_.wait(kLook);
    }
    if (recorded) deliver(failed);
    cgroup_.kill_all();
    finish(failed);
    remove_job_spool(spool_);  // once more: delivery may have gone on behind the epilog
    if (!seal_job_spool(spool_, options_.uid, 2 * limits_.run)) {
      say(LOG_NOTICE, options_, spool_.string() + " has no access control lists: it stays with the user");
    }
    add_to_ledger();
    return 0;
  }

 private:
  [[nodiscard]] bool over() const {
    return signals_.stop() || job_gone_ || ::access(options_.disable_file.c_str(), F_OK) == 0;
  }

  /// Its traces together have as many bytes as one may have: another one could be too much for seal_job_spool().
  [[nodiscard]] bool is_full() const { return limits_.run > 0 && trace_bytes() >= static_cast<double>(limits_.run); }

  // The directory first: a requeued job begins with this one as soon as the lock is free.
  void finish(bool failed) {
    if (finished_) return;
    finished_ = true;
    remove_job_spool(spool_);
    lock_.release(failed);
  }

  ChildProcess start_sampler() {
    const pid_t broker = ::getpid();
    RequestSockets counters = make_request_sockets();
    RequestSockets calls;
    if (may_count_calls(options_.config)) calls = make_request_sockets();
    ChildProcess sampler = fork_child([&] {
      counters.broker.close();
      calls.broker.close();
      return become_sampler(broker, {.perf_broker = counters.sampler.get(), .call_broker = calls.sampler.get()});
    });
    if (!sampler) throw system_error("the sampler", errno);
    ::setpgid(sampler.pid(), sampler.pid());
    requests_ = std::move(counters.broker);
    call_requests_ = std::move(calls.broker);
    return sampler;
  }

  // A sampler that was taken over could keep root busy, outside the limits of the job and of our group.
  void serve_counters() {
    if (serving_.is_used_up()) return;
    const auto begin = SteadyClock::now();
    serve_perf_requests(requests_.get(), options_.job);
    serving_.use(std::chrono::duration<double>(SteadyClock::now() - begin).count());
  }

  // Attaching may hang in the kernel, so another process does it. It is not started for a job that counts no calls: the
  // first question waits in the socket.
  void start_call_server() {
    if (!has_question(call_requests_)) return;
    const pid_t broker = ::getpid();
    call_server_ = fork_child([&] { return become_call_server(broker); });
    if (!call_server_) say(LOG_WARNING, options_, std::string("no calls are counted: ") + std::strerror(errno));
    call_requests_.close();
  }

  [[nodiscard]] int become_call_server(pid_t broker) {
    try {
      lock_.close_in_child();
      requests_.close();
      signals_.restore_in_child();
      ::setpgid(0, 0);
      cgroup_.join();
      offer_to_oom_killer();
      become_user(options_.uid, options_.gid, Programs::none, kCallCapabilities);
      end_with_parent(broker, SIGALRM);
      if (::chdir("/") != 0) throw system_error("/", errno);
      return serve_call_requests(call_requests_.get(), options_.job);
    } catch (const std::exception& error) {
      say(LOG_WARNING, options_, std::string("no calls are counted: ") + error.what());
    }
    return kSamplerFailed;
  }

  [[nodiscard]] int become_sampler(pid_t broker, const SamplerSockets& sockets) const {
    try {
      lock_.close_in_child();
      signals_.restore_in_child();
      ::setpgid(0, 0);
      cgroup_.join();
      offer_to_oom_killer();  // while it may: the job's memory matters more, and the broker's life more than ours
      become_user(options_.uid, options_.gid);
      refuse_system_calls(UserProcess::sampler);
      end_with_parent(broker, SIGTERM);  // no other process would end it
      if (::chdir("/") != 0) throw system_error("/", errno);
      return sample_(free_trace(), sockets);
    } catch (const std::exception& error) {
      say(LOG_WARNING, options_, error.what());
    }
    return kSamplerFailed;
  }

  [[nodiscard]] std::string name_of_trace(int run) const {
    return options_.node + (run > 1 ? "-" + std::to_string(run) : "");
  }

  // One that was killed, or the same job before it was requeued, may have left a trace of this name.
  [[nodiscard]] std::filesystem::path free_trace() const {
    for (int run = 1;; ++run) {
      std::filesystem::path trace = spool_ / (name_of_trace(run) + ".h5");
      std::error_code ignored;
      if (!std::filesystem::exists(trace, ignored) && !std::filesystem::exists(trace.string() + ".part", ignored)) {
        return trace;
      }
    }
  }

  int watch(ChildProcess& sampler) {
    while (!over() && !sampler.status()) {
      signals_.wait(kLook);
      serve_counters();
      start_call_server();
      if (SteadyClock::now() < next_look_) continue;  // a request woke us
      next_look_ = SteadyClock::now() + kLook;
      job_gone_ = extern_step_.update();
    }
    requests_.close();
    call_requests_.close();
    if (!sampler.status()) sampler_cpus_ = cpus_of_process(fs_, sampler.pid());
    // The job is over, and on a busy node the last ten seconds of it would be lost with a trace that is not closed.
    cgroup_.set_cpu_share(UserCgroup::CpuShare::usual);
    set_nice(sampler, 0);
    sampler.signal(SIGCONT);
    sampler.signal(SIGTERM);
    if (!wait_for(sampler, signals_, kCloseLimit)) {
      sampler.signal(SIGKILL);
      say(LOG_WARNING, options_, "the sampler did not close its trace in time; the flushed part is kept");
      static_cast<void>(wait_for(sampler, signals_, kKillLimit));
    }
    // It has ended with the sampler, unless it hangs: then it detaches everything first.
    if (call_server_.signal(SIGALRM) && !wait_for(call_server_, signals_, kDetachLimit)) call_server_.kill(kKillLimit);
    return end_of(sampler).value_or(128 + SIGKILL);
  }

  // As the user, by another program: its file system may hang, its data may be anything.
  void deliver(bool failed) {
    Pipe ready = open_pipe();
    if (!ready.read) return;
    // Once the job is over its cpus are idle until the epilog is.
    const auto first = signals_.stop() || job_gone_ ? UserCgroup::CpuShare::usual : UserCgroup::CpuShare::low;
    cgroup_.deny_devices();
    cgroup_.set_cpu_share(first);
    if (keeps_ledger(options_.config)) {
      ledger_lines_ = make_ledger_lines();
      if (!ledger_lines_) {
        say(LOG_NOTICE, options_,
            std::string("this job is not in the ledger of the node: memfd_create: ") + std::strerror(errno));
      }
    }
    const double expected = expected_delivery_seconds(options_.config, trace_bytes()).value_or(0);
    paces_ = DeliveryTimes::in_spool(options_.spool, utc_seconds_now()).paces_of(options_.uid);
    const double before = cpu_seconds_of_children();
    const pid_t broker = ::getpid();
    ChildProcess child = fork_child([&] { return become_deliverer(broker, ready.write.get()); });
    if (!child) {
      say(LOG_WARNING, options_,
          std::string("no delivery: ") + std::strerror(errno) + "; the trace stays in the spool");
      return;
    }
    ready.write.close();
    const auto begin = SteadyClock::now();
    bool answered = false;
    auto share = first;
    std::chrono::seconds limit = kDeliverLimit;
    while (!child.status() && SteadyClock::now() < begin + limit) {
      pollfd fd{ready.read.get(), POLLIN, 0};
      if (!answered && ::poll(&fd, 1, 20) > 0) {
        answered = true;
        char byte = 0;
        if (::read(ready.read.get(), &byte, 1) == 1 && byte == kMuchToDo) limit = kAnalysisLimit;
        finish(failed);
      }
      const auto now = SteadyClock::now();
      const auto due = now > begin + kLastResort                ? UserCgroup::CpuShare::least
                       : answered || now > begin + kEpilogLimit ? UserCgroup::CpuShare::low
                                                                : first;
      if (due != share) {
        share = due;
        cgroup_.set_cpu_share(share);
        set_nice(child, kLowestPriority);  // where there are no such groups
      }
      if (answered) signals_.wait(100ms);
    }
    if (!child.status()) say(LOG_WARNING, options_, "the delivery did not end in time; the rest stays in the spool");
    keep_delivery_time(end_of(child), expected, cpu_seconds_of_children() - before);
    child.signal_group(SIGKILL);
    static_cast<void>(wait_for(child, signals_, kKillLimit));
  }

  /// The size of this node's traces, by their names: the folder is the user's.
  [[nodiscard]] double trace_bytes() const {
    double bytes = 0;
    bool found = true;
    for (int run = 1; found && run <= kMostTraces; ++run) {
      found = false;
      for (const char* ending : {".h5", ".h5.part"}) {
        struct stat status {};
        if (::lstat((spool_ / (name_of_trace(run) + ending)).c_str(), &status) != 0) continue;
        found = true;
        if (S_ISREG(status.st_mode)) bytes += static_cast<double>(status.st_size);
      }
    }
    return bytes;
  }

  // A node that learns nothing estimates as before. `expected`: for the analysis of the trace, which a deliverer that
  // built the report of all nodes has done, too.
  void keep_delivery_time(std::optional<int> end, double expected, double cpu) const {
    const bool merged = end == kBuiltReportOfAll;
    if (end != 0 && !merged) return;
    DeliveryTime time{.owner = options_.uid, .expected_seconds = expected, .cpu_seconds = cpu};
    try {
      time.utc_seconds = utc_seconds_now();
      if (merged) {
        time.work = DeliveryWork::merge;
        time.expected_seconds = expected_merge_seconds(expand_node_list(process_environment(kPrologNodes)).size());
        time.cpu_seconds = cpu - paces_.analysis * expected;
      }
      DeliveryTimes times = DeliveryTimes::in_spool(options_.spool, utc_seconds_now());
      const std::string before = times.text();
      times.add(time);
      if (times.text() != before) times.keep_in_spool(options_.spool);
    } catch (const std::exception& error) {
      say(LOG_NOTICE, options_, std::string("the time of this delivery is not kept: ") + error.what());
    }
  }

  [[nodiscard]] int become_deliverer(pid_t broker, int ready) const {
    try {
      lock_.close_in_child();
      signals_.restore_in_child();
      ::setpgid(0, 0);
      cgroup_.join();
      sampler_cpus_.bind_this_process();
      limit_deliverer();
      offer_to_oom_killer();
      ::setenv("SLURM_JOB_RESTART_COUNT", std::to_string(lock_.restart()).c_str(), 1);
      ::setenv("SLURM_STEP_NODELIST", lock_.step_nodes().c_str(), 1);
      ::setenv("REVEAL_REQUEST", lock_.request().c_str(), 1);  // every user of the node can read a command line
      const bool refused = refuse_system_calls(UserProcess::deliverer);
      become_user(options_.uid, options_.gid, programs_of_deliverer(options_.config));
      if (!refused && !refuse_system_calls(UserProcess::deliverer)) {
        say(LOG_NOTICE, options_, "no filter of system calls can be set up here: the delivery goes on without it");
      }
      end_with_parent(broker);
      if (::chdir("/") != 0) return kSamplerFailed;
      ::fcntl(ready, F_SETFD, 0);
      const std::filesystem::path own = own_path().parent_path() / "reveal";
      std::vector<std::string> words{own.string(),
                                     "deliver",
                                     spool_.string(),
                                     "--job",
                                     options_.job,
                                     "--node",
                                     options_.node,
                                     "--config",
                                     options_.config,
                                     "--ready-fd",
                                     std::to_string(ready),
                                     "--mail-state",
                                     mail_state_.string(),
                                     "--pace",
                                     std::to_string(paces_.analysis),
                                     "--merge-pace",
                                     std::to_string(paces_.merge)};
      if (options_.orphan) words.emplace_back("--orphan");
      if (ledger_lines_) {
        ::fcntl(ledger_lines_.get(), F_SETFD, 0);
        words.insert(words.end(), {"--ledger-fd", std::to_string(ledger_lines_.get())});
      }
      ::execv(own.c_str(), exec_pointers(words).data());
      say(LOG_WARNING, options_, own.string() + ": " + std::strerror(errno));
    } catch (const std::exception& error) {
      say(LOG_WARNING, options_, error.what());
    }
    return kSamplerFailed;
  }

  // The job and its epilog are over. Lines are hostile input, so another program than this one parses them.
  void add_to_ledger() {
    if (!has_ledger_lines(ledger_lines_)) return;
    const std::string nodes = process_environment(kPrologNodes);
    if (nodes.empty()) {
      say(LOG_NOTICE, options_, "this job is not in the ledger of the node: a step does not state its nodes for sure");
      return;
    }
    const pid_t broker = ::getpid();
    ChildProcess child = fork_child([&] { return become_ledger_writer(broker, nodes); });
    if (child && wait_for(child, signals_, kLedgerLimit)) return;
    say(LOG_NOTICE, options_, "this job is not in the ledger of the node");
    child.kill(kKillLimit);
  }

  [[nodiscard]] int become_ledger_writer(pid_t broker, const std::string& nodes) const {
    signals_.restore_in_child();
    ::setpgid(0, 0);
    limit_deliverer();
    offer_to_oom_killer();
    ::setpriority(PRIO_PROCESS, 0, kLowestPriority);
    try {
      become_user(0, 0);  // without root's capabilities: the ledger and its directory are root's
    } catch (const std::exception& error) {
      say(LOG_WARNING, options_, error.what());
      return kSamplerFailed;
    }
    end_with_parent(broker);
    if (::chdir("/") != 0 || ::dup2(ledger_lines_.get(), STDIN_FILENO) < 0) return kSamplerFailed;
    const std::filesystem::path own = own_path().parent_path() / "reveal";
    const std::vector<std::string> words{own.string(),
                                         "ledger",
                                         (options_.spool / "nodes.jsonl").string(),
                                         "--job",
                                         options_.job,
                                         "--node",
                                         options_.node,
                                         "--nodes",
                                         nodes,
                                         "--owner",
                                         std::to_string(options_.uid)};
    const std::vector<std::string> environment{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    ::execve(own.c_str(), exec_pointers(words).data(), exec_pointers(environment).data());
    say(LOG_WARNING, options_, own.string() + ": " + std::strerror(errno));
    return kSamplerFailed;
  }

  const BrokerOptions& options_;
  const SampleJob& sample_;
  Signals signals_;
  const UserCgroup& cgroup_;
  RunLock lock_;
  SpoolLimits limits_;
  std::filesystem::path spool_, mail_state_;
  KernelTree fs_;
  ExternStep extern_step_;
  CpuSet sampler_cpus_;       // the job's, where the node is shared
  Descriptor requests_;       // the sampler's requests for counters
  Descriptor call_requests_;  // likewise, to count calls: until the call server reads them
  ChildProcess call_server_;
  Allowance serving_{120, .05};  // seconds, and in a second later, for requests: thousands on a node of many cpus
  Descriptor ledger_lines_;      // lines of the deliverer; none where the site keeps no ledger
  DeliveryPaces paces_;          // see DeliveryTimes
  SteadyClock::time_point next_look_;
  bool job_gone_ = false;
  bool finished_ = false;
};

}  // namespace

int run_broker(const BrokerOptions& options, const SampleJob& sample) {
  ::openlog("reveal-collect", LOG_PID, LOG_DAEMON);
  try {
    ::umask(077);
    const UserCgroup cgroup(options.job + "." + options.node);
    cgroup.leave_foreign_groups();  // at once: a step that ends kills all processes of its group
    return Broker(options, sample, cgroup).run();
  } catch (const std::exception& error) {
    say(LOG_WARNING, options, error.what());
    RunLock::leave_failed(options);
    return 1;
  }
}

}  // namespace reveal
