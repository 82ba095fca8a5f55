#include "postproc/live/slurm_program.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/run_program.h"
#include "postproc/live/queued_job.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 1 << 20;  // read at once
constexpr std::size_t kMostComplaints = 16 << 10;
constexpr auto kEndPatience = 10s;

/// Options of another job or of a shell inside of an allocation, which srun and squeue would take for theirs.
bool is_option_of_slurm(std::string_view variable) {
  constexpr std::string_view kKept[] = {"SLURM_CONF=", "SLURM_JWT="};
  constexpr std::string_view kOptions[] = {"SLURM_", "_SLURM_", "SRUN_", "SALLOC_", "SBATCH_", "SQUEUE_", "SPANK_"};
  const auto begins = [variable](std::string_view begin) { return variable.starts_with(begin); };
  return std::none_of(std::begin(kKept), std::end(kKept), begins) &&
         std::any_of(std::begin(kOptions), std::end(kOptions), begins);
}

std::vector<std::string> environment_of_slurm(const std::vector<std::string>& variables) {
  std::vector<std::string> kept = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_option_of_slurm(*entry)) kept.emplace_back(*entry);
  }
  return kept;
}

Pipe open_slurm_pipe(const std::string& name) {
  Pipe pipe = open_pipe();
  if (!pipe.read) throw system_error(name, errno);
  return pipe;
}

int start_in_own_group(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                       const SpawnStreams& streams, pid_t& child) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int failure = ::posix_spawn(&child, words.front().c_str(), streams.get(), &attributes,
                                    exec_pointers(words).data(), exec_pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  return failure;
}

}  // namespace

SlurmProgram::SlurmProgram(std::vector<std::string> words, const std::vector<std::string>& variables) {
  const std::string name = words.front();
  words.front() = find_in_path(name);
  if (words.front().empty()) throw Error(name + " is not in PATH: Slurm is not installed here");
  Pipe input = open_slurm_pipe(name);
  Pipe output = open_slurm_pipe(name);
  Pipe errors = open_slurm_pipe(name);
  SpawnStreams streams;
  streams.set(STDIN_FILENO, input.read.get());
  streams.set(STDOUT_FILENO, output.write.get());
  streams.set(STDERR_FILENO, errors.write.get());
  pid_t pid = -1;
  const int failure = start_in_own_group(words, environment_of_slurm(variables), streams, pid);
  if (failure != 0) throw system_error(name, failure);
  child_ = ChildProcess(pid);
  input_ = std::move(input.write);
  output_ = std::move(output.read);
  errors_ = std::move(errors.read);
  for (const Descriptor* end : {&output_, &errors_}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
}

SlurmProgram::~SlurmProgram() {
  end();
}

/// False when there is no more for now.
bool SlurmProgram::take(Descriptor& from, std::string& to, std::size_t most) {
  if (!from) return false;
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
  if (got == 0) from.close();
  if (got <= 0) return false;
  const std::size_t room = most - std::min(most, to.size());
  to.append(buffer.data(), std::min(room, static_cast<std::size_t>(got)));
  return to.size() < most;
}

std::string SlurmProgram::read(std::chrono::milliseconds wait) {
  std::array<pollfd, 2> ends{pollfd{output_.get(), POLLIN, 0}, pollfd{errors_.get(), POLLIN, 0}};  // -1: left out
  ::poll(ends.data(), ends.size(), static_cast<int>(wait.count()));
  take(errors_, complaints_, kMostComplaints);
  while (take(output_, text_, kMostOutput)) {
  }
  return std::exchange(text_, {});
}

std::string SlurmProgram::take_errors() {
  return std::exchange(complaints_, {});
}

std::optional<int> SlurmProgram::ended() {
  const std::optional<int> status = child_.status();
  if (!status) return std::nullopt;
  while (take(output_, text_, kMostOutput)) {
  }
  take(errors_, complaints_, kMostComplaints);
  return text_.empty() ? status : std::nullopt;  // it is read first
}

void SlurmProgram::end() {
  close_input();
  if (!child_ || child_.status()) return;
  child_.signal(SIGTERM);
  if (!child_.wait(kEndPatience)) child_.kill(1s);
}

std::string output_of_slurm(std::vector<std::string> words, std::chrono::milliseconds limit) {
  const std::string name = words.front();
  const Clock::time_point end = Clock::now() + limit;
  SlurmProgram program(std::move(words));
  program.close_input();
  std::string output;
  std::optional<int> status;
  while (!(status = program.ended())) {
    if (Clock::now() >= end) throw Error(name + " did not answer");
    output += program.read(100ms);
  }
  if (exit_status(*status) == 0) return output;
  const std::string words_of_error = words_of_slurm(program.take_errors());
  throw Error(words_of_error.empty() ? name + " failed" : words_of_error);
}

}  // namespace reveal
