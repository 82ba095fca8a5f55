// A true disturbance in a random interval, with its truth logged as JSON lines (begin, end; UTC nanoseconds).
//
//   disturb --kind outsider --share 30 --cpu random --seconds 15 --window 20:80 --seed 7 --log truth.jsonl
//   disturb --kind flood --rate 400 --dir . ...         dirty pages by buffered writing, the file is deleted at the end
//   disturb --kind loss --netns node1 --percent 1 ...   drops packets that arrive in a network namespace (root)
//
// Start it beside the job, not under it: a child of the job would be part of the job. SIGTERM ends it early, cleanly.

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t g_stop = 0;

struct Options {
  std::string kind, cpu = "any", window = "0:0", log, directory = ".", netns;
  double share = 100, seconds = 15, rate = 400, percent = 1;
  std::uint64_t seed = 1;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

std::int64_t utc_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

double own_cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void sleep_until(Clock::time_point time) {
  const auto since_boot = time.time_since_epoch();
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
  const timespec until{whole.count(), std::chrono::nanoseconds(since_boot - whole).count()};
  while (g_stop == 0 && ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

/// Pins this process; -1 if it stays free to move.
int choose_cpu(const std::string& wish, std::mt19937_64& random) {
  if (wish == "any") return -1;
  int cpu = 0;
  if (wish == "random") {
    const std::vector<int> cpus = allowed_cpus();
    cpu = cpus.empty() ? 0 : cpus[random() % cpus.size()];
  } else {
    cpu = std::stoi(wish);
  }
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  if (::sched_setaffinity(0, sizeof only, &only) != 0) fail("cpu " + std::to_string(cpu));
  return cpu;
}

/// Uses a share of a cpu: cpu time is dosed, so it uses the same on a contended cpu.
void be_outsider(const Options& options, Clock::time_point end) {
  constexpr auto kPeriod = 20ms;
  const double dose = std::chrono::duration<double>(kPeriod).count() * options.share / 100;
  for (auto next = Clock::now() + kPeriod; Clock::now() < end && g_stop == 0; next += kPeriod) {
    const double enough = own_cpu_seconds() + dose;
    while (own_cpu_seconds() < enough && Clock::now() < end && g_stop == 0) {
    }
    if (options.share < 100) sleep_until(std::max(next, Clock::now()));
  }
}

/// Writes without fsync at a rate, over and over the same 2 GiB, so that it needs no more disk than that.
double flood(const Options& options, Clock::time_point end) {
  constexpr off_t kLargest = off_t{2} << 30;
  const std::string path = options.directory + "/flood." + std::to_string(::getpid());
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) fail(path);
  ::unlink(path.c_str());  // gone with this process, however it ends
  const std::vector<char> block(1 << 20, 'x');
  double written = 0;
  off_t at = 0;
  const auto begin = Clock::now();
  while (Clock::now() < end && g_stop == 0) {
    const ssize_t size = ::pwrite(file, block.data(), block.size(), at);
    if (size < 0 && errno == ENOSPC && at > 0) {
      at = 0;
      continue;
    }
    if (size < 0) fail(path);
    written += static_cast<double>(size);
    at = (at + size) % kLargest;
    sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(written / (options.rate * 1e6))));
  }
  ::close(file);
  return written;
}

struct Output {
  int status = -1;
  std::string text;
};

Output run(const std::vector<std::string>& words) {
  int ends[2];
  if (::pipe(ends) != 0) fail("pipe");
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    std::fprintf(stderr, "%s: %s", argv[0], std::strerror(errno));
    std::_Exit(127);
  }
  ::close(ends[1]);
  Output output;
  char part[4096];
  while (true) {
    const ssize_t size = ::read(ends[0], part, sizeof part);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    output.text.append(part, static_cast<std::size_t>(size));
  }
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

/// A rule in the receiver's raw table. Its packet counter is the exact truth of how many were dropped.
class LossRule {
 public:
  explicit LossRule(const Options& options) {
    if (!options.netns.empty()) words_ = {"ip", "netns", "exec", options.netns};
    words_.insert(words_.end(), {"iptables", "-w", "-t", "raw"});
    char probability[32];
    std::snprintf(probability, sizeof probability, "%.8f", options.percent / 100);
    rule_ = {"PREROUTING",    "!",         "-i", "lo",  "-m", "statistic", "--mode", "random",
             "--probability", probability, "-j", "DROP"};
  }

  void add() {
    const Output added = run(command({"-I"}, rule_));
    if (added.status != 0) {
      throw std::runtime_error("packet loss needs root, iptables and the namespace: " +
                               added.text.substr(0, added.text.find('\n')));
    }
  }

  /// Removes the rule; how many packets it dropped, -1 if that could not be read.
  long long remove() {
    const Output listed = run(command({"-L", "PREROUTING", "-v", "-x", "-n"}, {}));
    run(command({"-D"}, rule_));
    long long dropped = -1;
    std::istringstream lines(listed.text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      long long packets = 0;
      if (line.find("DROP") != std::string::npos && line.find("statistic") != std::string::npos && fields >> packets) {
        dropped = packets;
        break;  // inserted first, listed first
      }
    }
    return dropped;
  }

 private:
  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& verb,
                                                 const std::vector<std::string>& rest) const {
    std::vector<std::string> words = words_;
    words.insert(words.end(), verb.begin(), verb.end());
    words.insert(words.end(), rest.begin(), rest.end());
    return words;
  }

  std::vector<std::string> words_, rule_;
};

class TruthLog {
 public:
  explicit TruthLog(const std::string& path) {
    if (!path.empty()) file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (!path.empty() && file_ < 0) fail(path);
  }
  ~TruthLog() {
    if (file_ >= 0) ::close(file_);
  }
  TruthLog(const TruthLog&) = delete;
  TruthLog& operator=(const TruthLog&) = delete;

  void write(const std::string& members) const {
    const std::string line = "{" + members + "}\n";
    [[maybe_unused]] const auto written = ::write(file_ >= 0 ? file_ : STDOUT_FILENO, line.data(), line.size());
  }

 private:
  int file_ = -1;
};

std::string member(const char* name, double value) {
  char text[64];
  std::snprintf(text, sizeof text, ",\"%s\":%.6g", name, value);
  return text;
}

double random_start(const std::string& window, std::mt19937_64& random) {
  const std::size_t colon = window.find(':');
  if (colon == std::string::npos) throw std::runtime_error("--window is BEGIN:END in seconds from now");
  const double begin = std::stod(window.substr(0, colon));
  const double end = std::stod(window.substr(colon + 1));
  if (begin < 0 || end < begin) throw std::runtime_error("--window ends before it begins");
  return std::uniform_real_distribution<double>(begin, end + 1e-9)(random);
}

void disturb(const Options& options) {
  std::mt19937_64 random(options.seed);
  const TruthLog log(options.log);
  const double start = random_start(options.window, random);
  const int cpu = options.kind == "outsider" ? choose_cpu(options.cpu, random) : -1;
  sleep_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(start)));
  if (g_stop != 0) return;  // it never began, and so has no truth

  LossRule loss(options);
  if (options.kind == "loss") loss.add();
  const std::int64_t begin_utc = utc_ns();
  std::string facts = "\"kind\":\"" + options.kind + "\",\"seed\":" + std::to_string(options.seed) +
                      ",\"begin_utc_ns\":" + std::to_string(begin_utc);
  if (options.kind == "outsider") {
    facts += member("share_percent", options.share) + ",\"cpu\":" + (cpu < 0 ? "null" : std::to_string(cpu));
  } else if (options.kind == "flood") {
    facts += member("rate_mb_per_second", options.rate);
  } else {
    facts += member("loss_percent", options.percent);
  }
  log.write("\"event\":\"begin\"," + facts);

  const double cpu_before = own_cpu_seconds();
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
  std::string effect;
  if (options.kind == "outsider") {
    be_outsider(options, end);
    effect = member("cpu_seconds", own_cpu_seconds() - cpu_before);
  } else if (options.kind == "flood") {
    effect = member("written_bytes", flood(options, end));
  } else {
    sleep_until(end);
  }
  const std::int64_t end_utc = utc_ns();
  if (options.kind == "loss") effect = ",\"packets_dropped\":" + std::to_string(loss.remove());
  log.write("\"event\":\"end\"," + facts + ",\"end_utc_ns\":" + std::to_string(end_utc) + effect);
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app{"Disturbs a job for a while and writes down exactly when."};
  app.add_option("--kind", options.kind)->required()->check(CLI::IsMember({"outsider", "flood", "loss"}));
  app.add_option("--share", options.share, "outsider: percent of one cpu")->check(CLI::Range(1.0, 100.0));
  app.add_option("--cpu", options.cpu, "outsider: a number, random, or any (not pinned)");
  app.add_option("--rate", options.rate, "flood: MB per second")->check(CLI::PositiveNumber);
  app.add_option("--dir", options.directory, "flood: where to write");
  app.add_option("--netns", options.netns, "loss: network namespace (default: this one)");
  app.add_option("--percent", options.percent, "loss: of the arriving packets")->check(CLI::Range(0.001, 100.0));
  app.add_option("--seconds", options.seconds, "How long")->check(CLI::PositiveNumber);
  app.add_option("--window", options.window, "BEGIN:END, seconds from now: it starts at a random moment in between");
  app.add_option("--seed", options.seed, "Of the moment and of the cpu");
  app.add_option("--log", options.log, "Append the truth here (default: standard output)");
  CLI11_PARSE(app, argc, argv);

  struct sigaction stop {};
  stop.sa_handler = [](int) { g_stop = 1; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &stop, nullptr);
  disturb(options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "disturb: %s\n", error.what());
  return 1;
}
