// A small distributed training job, with a realistic load for a machine: data-parallel gradient descent on a linear
// model (load from disk, compute, all-reduce over TCP, checkpoint with fsync, evaluation). The phases are logged with
// wall times, so the results of a profiler can be checked.
//
//   training_job --ranks 2 --seconds 120 --log phases.jsonl           all ranks on this machine
//   training_job --rank 1 --hosts 10.0.0.1,10.0.0.2 --seconds 120     one rank, for example per network namespace
//   training_job --ranks 2 --seconds 120 --disturb outsider:60 --launcher "reveal-run --"
//        runs itself under the launcher and, beside it, so that it is no part of the job, a disturbance

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/ring.h"

namespace {

using namespace reveal::bench;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

struct Options {
  int ranks = 2, rank = -1, port = 29600;
  double seconds = 60;
  int epochs = 0;  // 0: as many as fit into `seconds`
  std::string hosts, master;
  std::size_t width = 768, samples = 8192, batch = 64, checkpoint_mb = 32;
  bool cold = false;
  std::uint64_t seed = 1;
  std::string directory, log, disturb, launcher;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

std::int64_t utc_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Writes one JSON line per phase; one write each, so that the ranks of a machine can share the file.
class PhaseLog {
 public:
  PhaseLog(const std::string& path, int rank) : rank_(rank) {
    if (path.empty()) return;
    file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) fail(path);
  }
  ~PhaseLog() {
    if (file_ >= 0) ::close(file_);
  }
  PhaseLog(const PhaseLog&) = delete;
  PhaseLog& operator=(const PhaseLog&) = delete;

  void write(const char* phase, int epoch, std::int64_t begin, std::int64_t end, const std::string& more = "") const {
    if (file_ < 0) return;
    char line[512];
    const int size =
        std::snprintf(line, sizeof line,
                      "{\"rank\":%d,\"epoch\":%d,\"phase\":\"%s\",\"begin_utc_ns\":%lld,"
                      "\"end_utc_ns\":%lld%s}\n",
                      rank_, epoch, phase, static_cast<long long>(begin), static_cast<long long>(end), more.c_str());
    [[maybe_unused]] const auto written = ::write(file_, line, static_cast<std::size_t>(size));
  }

 private:
  int rank_;
  int file_ = -1;
};

// c[m x n] += a[m x k] * b[k x n], all by rows; the inner loop runs over neighbours and is vectorised.
void multiply_add(const float* a, const float* b, float* c, std::size_t m, std::size_t k, std::size_t n) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      const float factor = a[i * k + l];
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += factor * b[l * n + j];
    }
  }
}

void write_whole(int fd, const void* bytes, std::size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(fd, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write");
    at += written;
    size -= static_cast<std::size_t>(written);
  }
}

/// The model y = W x; a row of a sample file is x, then y, of a teacher all ranks share.
class Trainer {
 public:
  Trainer(const Options& options, int rank, int ranks, Ring& ring)
      : options_(options),
        ranks_(ranks),
        ring_(ring),
        random_(options.seed * 1000 + static_cast<std::uint64_t>(rank)),
        weights_(options.width * options.width),
        momentum_(weights_.size()),
        gradient_(weights_.size()),
        data_file_(options.directory + "/data." + std::to_string(rank)),
        checkpoint_file_(options.directory + "/checkpoint." + std::to_string(rank)) {}

  void make_data() {
    std::mt19937_64 shared(options_.seed);
    std::normal_distribution<float> normal;
    const std::size_t width = options_.width;
    std::vector<float> teacher(width * width);
    for (float& value : teacher) value = normal(shared) / std::sqrt(static_cast<float>(width));
    const int file = ::open(data_file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail(data_file_);
    constexpr float kNoise = 0.3F;  // the lower limit of the loss, squared
    std::vector<float> rows(2 * width);
    for (std::size_t sample = 0; sample < options_.samples; ++sample) {
      for (std::size_t i = 0; i < width; ++i) rows[i] = normal(random_);
      for (std::size_t i = 0; i < width; ++i) rows[width + i] = kNoise * normal(random_);
      for (std::size_t l = 0; l < width; ++l) {
        for (std::size_t i = 0; i < width; ++i) rows[width + i] += teacher[l * width + i] * rows[l];
      }
      write_whole(file, rows.data(), rows.size() * sizeof(float));
    }
    ::fsync(file);
    ::close(file);
  }

  void load() {
    const int file = ::open(data_file_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) fail(data_file_);
    if (options_.cold) ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    data_.resize(options_.samples * 2 * options_.width);
    auto* at = reinterpret_cast<char*>(data_.data());
    std::size_t left = data_.size() * sizeof(float);
    while (left > 0) {
      const ssize_t size = ::read(file, at, std::min<std::size_t>(left, 1 << 20));
      if (size <= 0) fail(data_file_);
      at += size;
      left -= static_cast<std::size_t>(size);
    }
    ::close(file);
  }

  struct Steps {
    int count = 0;
    double seconds = 0, longest = 0, communication = 0;
  };
  Steps train() {
    Steps steps;
    for (std::size_t first = 0; first + options_.batch <= options_.samples; first += options_.batch, ++steps.count) {
      const auto begin = Clock::now();
      // Batches differ in length, as those of real data do; the ranks therefore wait for each other a little.
      const std::size_t batch = options_.batch - random_() % (options_.batch / 8 + 1);
      gather(first, batch);
      std::fill(gradient_.begin(), gradient_.end(), 0.0F);
      residual(batch);
      // gradient[i][l] = residual[i][s] * input[l][s]
      transpose(inputs_, options_.width, batch);
      multiply_add(residuals_.data(), transposed_.data(), gradient_.data(), options_.width, batch, options_.width);
      const auto computed = Clock::now();
      ring_.all_reduce(gradient_);
      steps.communication += seconds_since(computed);
      const float rate = 0.005F / static_cast<float>(options_.batch * static_cast<std::size_t>(ranks_));
      for (std::size_t i = 0; i < weights_.size(); ++i) {
        momentum_[i] = 0.5F * momentum_[i] + gradient_[i];
        weights_[i] -= rate * momentum_[i];
      }
      const double seconds = seconds_since(begin);
      steps.seconds += seconds;
      steps.longest = std::max(steps.longest, seconds);
    }
    return steps;
  }

  void checkpoint() const {
    const std::string unfinished = checkpoint_file_ + ".part";
    const int file = ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail(unfinished);
    const std::size_t size = options_.checkpoint_mb << 20;
    for (std::size_t written = 0; written < size;) {
      const std::vector<float>& part = written == 0 ? weights_ : momentum_;
      const std::size_t bytes = std::min(part.size() * sizeof(float), size - written);
      write_whole(file, part.data(), bytes);
      written += bytes;
    }
    if (::fsync(file) != 0) fail(unfinished);
    ::close(file);
    fs::rename(unfinished, checkpoint_file_);
  }

  /// Mean squared error per output over an eighth of the samples of all ranks; `stop` becomes true for all if for one.
  double evaluate(bool& stop) {
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t first = 0; first + options_.batch <= options_.samples / 8; first += options_.batch) {
      gather(first, options_.batch);
      residual(options_.batch);
      for (const float value : residuals_) sum += static_cast<double>(value) * value;
      count += residuals_.size();
    }
    float total[] = {static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(count, 1))), stop ? 1.0F : 0.0F,
                     1.0F};
    ring_.all_reduce(total);
    if (total[2] != static_cast<float>(ranks_)) throw std::runtime_error("the all-reduce lost a rank");
    stop = total[1] > 0;
    return total[0] / static_cast<float>(ranks_);
  }

  void remove_files() const {
    std::error_code ignored;
    for (const std::string& file : {data_file_, checkpoint_file_, checkpoint_file_ + ".part"})
      fs::remove(file, ignored);
  }

 private:
  // Columns are samples.
  void gather(std::size_t first, std::size_t batch) {
    const std::size_t width = options_.width;
    inputs_.resize(width * batch);
    targets_.resize(width * batch);
    for (std::size_t s = 0; s < batch; ++s) {
      const float* row = &data_[(first + s) * 2 * width];
      for (std::size_t i = 0; i < width; ++i) {
        inputs_[i * batch + s] = row[i];
        targets_[i * batch + s] = row[width + i];
      }
    }
  }

  void residual(std::size_t batch) {
    residuals_.resize(options_.width * batch);
    for (std::size_t i = 0; i < residuals_.size(); ++i) residuals_[i] = -targets_[i];
    multiply_add(weights_.data(), inputs_.data(), residuals_.data(), options_.width, options_.width, batch);
  }

  void transpose(const std::vector<float>& matrix, std::size_t rows, std::size_t columns) {
    transposed_.resize(matrix.size());
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) transposed_[j * rows + i] = matrix[i * columns + j];
    }
  }

  const Options& options_;
  int ranks_;
  Ring& ring_;
  std::mt19937_64 random_;
  std::vector<float> weights_, momentum_, gradient_;
  std::vector<float> data_, inputs_, targets_, residuals_, transposed_;
  std::string data_file_, checkpoint_file_;
};

void run_rank(const Options& options, int rank, int ranks, const std::string& host, int port, int listener) {
  Ring ring(rank, ranks, host, port, listener);
  PhaseLog log(options.log, rank);
  Trainer trainer(options, rank, ranks, ring);
  const auto begin = Clock::now();
  const auto phase = [&](const char* name, int epoch, auto&& work) {
    const std::int64_t from = utc_ns();
    const auto more = work();
    const std::int64_t to = utc_ns();
    log.write(name, epoch, from, to, more);
    return static_cast<double>(to - from) * 1e-9;
  };
  const auto quietly = [](auto&& work) {
    return [&] {
      work();
      return std::string();
    };
  };
  phase("prepare", 0, quietly([&] { trainer.make_data(); }));
  for (int epoch = 1;; ++epoch) {
    const double load = phase("load", epoch, quietly([&] { trainer.load(); }));
    Trainer::Steps steps;
    phase("train", epoch, [&] {
      steps = trainer.train();
      char more[160];
      std::snprintf(more, sizeof more,
                    ",\"steps\":%d,\"step_mean_seconds\":%.6f,\"step_max_seconds\":%.6f,\"all_reduce_seconds\":%.6f",
                    steps.count, steps.seconds / std::max(steps.count, 1), steps.longest, steps.communication);
      return std::string(more);
    });
    const double checkpoint = phase("checkpoint", epoch, quietly([&] { trainer.checkpoint(); }));
    bool stop = options.epochs > 0 ? epoch >= options.epochs : seconds_since(begin) >= options.seconds;
    double loss = 0;
    const double evaluation = phase("evaluate", epoch, quietly([&] { loss = trainer.evaluate(stop); }));
    if (rank == 0) {
      std::printf(
          "epoch %3d  loss %.5f  load %.2f s  train %.2f s (%.1f ms a step, %.0f %% all-reduce)  "
          "checkpoint %.2f s  evaluate %.2f s\n",
          epoch, loss, load, steps.seconds, 1e3 * steps.seconds / std::max(steps.count, 1),
          100 * steps.communication / steps.seconds, checkpoint, evaluation);
      std::fflush(stdout);
    }
    if (stop) break;
  }
  trainer.remove_files();
}

int run_rank_reporting(const Options& options, int rank, int ranks, const std::string& host, int port, int listener) {
  try {
    run_rank(options, rank, ranks, host, port, listener);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "training_job: rank %d: %s\n", rank, error.what());
    return 1;
  }
}

volatile std::sig_atomic_t g_ended_by = 0;

/// The parent only waits, so that it can remove the files whatever becomes of the ranks.
int run_all_ranks(const Options& options) {
  int port = 0;
  const int listener = options.ranks > 1 ? listen_on("127.0.0.1", port) : -1;
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) {
      if (rank > 0) ::close(listener);
      std::_Exit(run_rank_reporting(options, rank, options.ranks, "127.0.0.1", port, rank == 0 ? listener : -1));
    }
    children.push_back(child);
  }
  if (listener >= 0) ::close(listener);
  struct sigaction note {};
  note.sa_handler = [](int signal) { g_ended_by = signal; };  // without SA_RESTART: it interrupts the wait
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &note, nullptr);

  int worst = 0;
  for (std::size_t left = children.size(); left > 0;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended > 0) --left;
    if (ended > 0 && worst == 0 && status != 0) {
      worst = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (g_ended_by == 0 && worst == 0) continue;
    for (const pid_t child : children) ::kill(child, SIGTERM);  // one rank alone would wait for the others
  }
  return g_ended_by != 0 ? 128 + g_ended_by : worst;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

pid_t start(const std::vector<std::string>& words) {
  const pid_t child = ::fork();
  if (child < 0) fail("fork");  // -1 as a process id would mean all of them
  if (child != 0) return child;
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::fprintf(stderr, "training_job: %s: %s\n", argv[0], std::strerror(errno));
  std::_Exit(127);
}

/// The job and the disturbance are siblings: a child of the job would be part of it.
int run_disturbed(const Options& options, int argc, char** argv) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::size_t colon = options.disturb.find(':');
  const double length = std::min(15.0, options.seconds / 5);
  char window[64];
  std::snprintf(window, sizeof window, "%.0f:%.0f", options.seconds * 0.25, options.seconds * 0.65);
  std::vector<std::string> disturb{(fs::path(self).parent_path() / "disturb").string(),
                                   "--kind",
                                   options.disturb.substr(0, colon),
                                   "--seconds",
                                   std::to_string(length),
                                   "--cpu",
                                   "random",
                                   "--window",
                                   window,
                                   "--seed",
                                   std::to_string(options.seed),
                                   "--dir",
                                   options.directory.empty() ? "." : options.directory,
                                   "--log",
                                   options.log.empty() ? "disturb.jsonl" : options.log + ".disturb"};
  if (colon != std::string::npos) disturb.insert(disturb.end(), {"--share", options.disturb.substr(colon + 1)});

  std::vector<std::string> job = words_of(options.launcher);
  job.push_back(self);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool ours = word.starts_with("--disturb") || word.starts_with("--launcher");
    if (!ours) job.push_back(word);
    if (ours && word.find('=') == std::string::npos) ++i;  // its value
  }
  const pid_t job_pid = start(job);
  const pid_t disturb_pid = start(disturb);
  int status = 0;
  ::waitpid(job_pid, &status, 0);
  ::kill(disturb_pid, SIGTERM);  // it removes its files and logs its end
  ::waitpid(disturb_pid, nullptr, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app{"A small distributed training job to watch with reveal-run."};
  app.add_option("--ranks", options.ranks, "Ranks, all on this machine")->check(CLI::Range(1, 256));
  app.add_option("--rank", options.rank, "Run only this rank; needs --hosts, or --master and --ranks");
  app.add_option("--hosts", options.hosts, "Address of every rank, in order, separated by commas");
  app.add_option("--master", options.master, "HOST:PORT at which rank 0 listens");
  app.add_option("--seconds", options.seconds, "Ends with the first epoch that is complete after so long")
      ->check(CLI::PositiveNumber);
  app.add_option("--epochs", options.epochs, "Ends after so many epochs instead");
  app.add_option("--width", options.width, "Inputs and outputs of the model")->check(CLI::Range(8, 4096));
  app.add_option("--samples", options.samples, "Samples per rank")->check(CLI::Range(64, 1 << 22));
  app.add_option("--batch", options.batch, "Samples per step and rank")->check(CLI::Range(8, 1024));
  app.add_option("--checkpoint-mb", options.checkpoint_mb, "Size of a checkpoint per rank");
  app.add_flag("--cold", options.cold, "Drop the data from the page cache before loading it");
  app.add_option("--seed", options.seed, "Of data, jitter and disturbance");
  app.add_option("--dir", options.directory, "For data and checkpoints (default: a temporary one, removed)");
  app.add_option("--log", options.log, "Append the phases as JSON lines");
  app.add_option("--disturb", options.disturb, "KIND[:SHARE] as of `disturb`, beside the job; see --launcher");
  app.add_option("--launcher", options.launcher, "With --disturb: what to run the job under, \"reveal-run --\"");
  CLI11_PARSE(app, argc, argv);

  if (options.samples < options.batch) throw std::runtime_error("--samples is less than one --batch");
  if (!options.disturb.empty()) return run_disturbed(options, argc, argv);
  std::string temporary = fs::temp_directory_path().string() + "/training-XXXXXX";
  const bool own_directory = options.directory.empty();
  if (own_directory) {
    if (::mkdtemp(temporary.data()) == nullptr) fail(temporary);
    options.directory = temporary;
  }
  fs::create_directories(options.directory);
  int status = 1;
  if (options.rank < 0) {
    status = run_all_ranks(options);
  } else {
    std::string host = options.hosts.substr(0, options.hosts.find(','));
    if (!options.hosts.empty()) {
      options.ranks = 1 + static_cast<int>(std::count(options.hosts.begin(), options.hosts.end(), ','));
    }
    if (const std::size_t colon = options.master.rfind(':'); colon != std::string::npos) {
      host = options.master.substr(0, colon);
      options.port = std::stoi(options.master.substr(colon + 1));
    }
    if (host.empty() || options.rank >= options.ranks) throw std::runtime_error("--rank needs --hosts or --master");
    status = run_rank_reporting(options, options.rank, options.ranks, host, options.port, -1);
  }
  std::error_code ignored;
  if (own_directory) fs::remove_all(options.directory, ignored);
  return status;
} catch (const std::exception& error) {
  std::fprintf(stderr, "training_job: %s\n", error.what());
  return 1;
}
