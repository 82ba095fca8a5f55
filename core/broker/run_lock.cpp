#include "core/broker/run_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::size_t kLongestLine = 4000;

std::filesystem::path path_of(const BrokerOptions& options, const char* prefix = "") {
  return options.spool / "run" / (prefix + options.job + "." + options.node);
}

/// A longer one is not kept: half a list of nodes is a wrong list.
std::string as_line(std::string text) {
  if (text.size() > kLongestLine) text.clear();
  std::replace_if(
      text.begin(), text.end(), [](unsigned char letter) { return letter < ' '; }, ' ');
  return text + "\n";
}

}  // namespace

RunLock::RunLock(const BrokerOptions& options)
    : options_(options),
      fd_(options.lock_fd),
      restart_(options.restart),
      request_(options.request),
      step_nodes_(process_environment("SLURM_STEP_NODELIST")) {
  ::fcntl(fd_, F_SETFD, FD_CLOEXEC);
  if (options.orphan) read_left();
  const auto self = parse_process_stat(KernelTree().text("/proc/self/stat").value_or(""));
  const std::string text = std::to_string(::getpid()) + " " + std::to_string(self ? self->start_ticks : 0) + " " +
                           std::to_string(restart_) + "\n" + as_line(request_) + as_line(step_nodes_);
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, text.data(), text.size(), 0) < 0) {
    throw system_error(path_of(options).string(), errno);
  }
}

// A file that an older version left may have the first line only, without the restarts.
void RunLock::read_left() {
  std::string text(3 * kLongestLine, '\0');
  const ssize_t size = ::pread(fd_, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  std::string_view rest = text;
  std::string_view line;
  restart_ = 0;
  if (next_line(rest, line)) {
    skip_words(line, 2);
    restart_ = static_cast<int>(std::clamp<std::int64_t>(parse_int(next_word(line)).value_or(0), 0, INT_MAX));
  }
  if (next_line(rest, line) && request_.empty()) request_ = line;
  if (next_line(rest, line)) step_nodes_ = line;
}

void RunLock::release(bool failed) noexcept {
  if (fd_ < 0) return;
  if (failed)
    leave_failed(options_);
  else if (!options_.orphan)
    ::unlink(path_of(options_).c_str());
  ::close(fd_);
  fd_ = -1;
}

void RunLock::close_in_child() const noexcept {
  ::close(fd_);
}

void RunLock::leave_failed(const BrokerOptions& options) noexcept {
  if (options.orphan) return;
  if (::rename(path_of(options).c_str(), path_of(options, "failed.").c_str()) != 0) ::unlink(path_of(options).c_str());
}

}  // namespace reveal
