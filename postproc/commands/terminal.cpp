#include "postproc/commands/terminal.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/publish.h"
#include "postproc/words/sanitize.h"

namespace reveal {

void complain(const std::string& text) {
  constexpr std::size_t kLongest = 1000;  // one line, and no escape sequences out of file names
  std::fprintf(stderr, "reveal: %s\n", printable(text, kLongest).c_str());
}

bool prints_on_terminal() {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  return terminal;
}

void print(const std::string& text) {
  const std::string shown = prints_on_terminal() ? without_controls(text) : std::string();
  const std::string& all = prints_on_terminal() ? shown : text;
  const bool taken = std::fwrite(all.data(), 1, all.size(), stdout) == all.size();
  if (std::fflush(stdout) != 0 || !taken) throw Error("standard output: cannot be written");
}

void write_beside(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  try {
    write_output(path, text, Output::whole);
  } catch (const Error& error) {
    complain(error.what());
  }
}

Progress::Progress() {
  if (::isatty(STDERR_FILENO) == 1) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

void Progress::say(const std::string& text) {
  constexpr std::size_t kLongest = 200;
  const std::lock_guard lock(mutex_);
  text_ = printable(text, kLongest);
}

void Progress::run(const std::stop_token& stop) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  std::condition_variable_any changed;
  auto wait = std::chrono::milliseconds(2000);
  while (!changed.wait_for(lock, stop, wait, [] { return false; }) && !stop.stop_requested()) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::fprintf(stderr, "\r\033[Kreveal: %s (%.0f s)", text_.c_str(), seconds);
    shown_ = true;
    wait = std::chrono::milliseconds(500);
  }
}

}  // namespace reveal
