#include "postproc/live/alert_forwarding.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/basics/run_program.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kFileBegin = "alert-";
constexpr std::string_view kFileEnd = ".json";
constexpr std::size_t kDigitsOfTime = 13;  // milliseconds since 1970
constexpr std::int64_t kMillisecond = 1'000'000;

Descriptor open_appended_file(const std::string& path) {
  Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600));
  if (!file && errno == ELOOP) throw Error(path + " is a link: alerts are not written through one");
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) throw system_error(path, errno);
  if (!S_ISREG(status.st_mode)) throw Error(path + " is not a regular file");
  if (status.st_uid != ::geteuid()) throw Error(path + " belongs to another user");
  if (status.st_nlink != 1) throw Error(path + " has another name: alerts are not written through a link");
  return file;
}

/// Lines of several programs may go into one file: each is one write() in append mode. logrotate may rename it or
/// truncate it at any time: the next line goes into the file of this name.
class LinesOfFile final : public NewsReceiver {
 public:
  LinesOfFile(const std::filesystem::path& path, std::uintmax_t most)
      : path_(path.string()), most_(most), file_(open_appended_file(path_)) {}

  void take(const ForwardedNews& news) override {
    struct stat named {};
    struct stat opened {};
    if (::fstat(file_.get(), &opened) != 0) throw system_error(path_, errno);
    const bool is_named =
        ::lstat(path_.c_str(), &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
    if (!is_named) file_ = open_appended_file(path_);
    if (::fstat(file_.get(), &opened) != 0) throw system_error(path_, errno);
    const bool torn = torn_ && is_named && opened.st_size > 0;
    const std::string line = (torn ? "\n" : "") + news.json + "\n";
    if (static_cast<std::uintmax_t>(opened.st_size) + line.size() > most_) {
      throw Error(path_ + " is full: no alert is appended until it is rotated or truncated");
    }
    const ssize_t written = ::write(file_.get(), line.data(), line.size());
    const int why = written < 0 ? errno : ENOSPC;
    const bool whole = written == static_cast<ssize_t>(line.size());
    torn_ = !whole && (torn || written > 0);
    if (!whole) throw system_error(path_, why);
  }

 private:
  std::string path_;
  std::uintmax_t most_;
  Descriptor file_;
  bool torn_ = false;  // the file ends in a part of a line: the disk was full
};

class FilesOfDirectory final : public NewsReceiver {
 public:
  FilesOfDirectory(const std::filesystem::path& path, std::size_t most)
      : path_(without_slash(path.string())), most_(most) {
    static_cast<void>(open_private_directory(path_.string()));
  }

  void take(const ForwardedNews& news) override {
    publish_file(
        path_,
        fmt::format("{}{:013}-{}{}", kFileBegin, news.utc_ns / kMillisecond, file_name_part(news.name), kFileEnd),
        news.json + "\n");
    delete_oldest();
  }

 private:
  static bool is_ours(std::string_view name) {
    if (!name.starts_with(kFileBegin) || !name.ends_with(kFileEnd)) return false;
    name.remove_prefix(kFileBegin.size());
    return name.size() > kDigitsOfTime && name.substr(0, name.find_first_not_of("0123456789")).size() == kDigitsOfTime;
  }

  void delete_oldest() const {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
      std::string name = entry->path().filename().string();
      if (is_ours(name)) names.push_back(std::move(name));
    }
    if (names.size() <= most_) return;
    std::sort(names.begin(), names.end());  // they begin with the time
    names.resize(names.size() - most_);
    for (const std::string& name : names) std::filesystem::remove(path_ / name, error);
  }

  std::filesystem::path path_;
  std::size_t most_;
};

/// Waits for one run of the command after the other, in a thread: the watch goes on meanwhile.
class InputOfCommand final : public NewsReceiver {
 public:
  explicit InputOfCommand(const ForwardOptions& options)
      : words_(options.command),
        limit_(options.limit),
        most_waiting_(options.most_waiting),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}
  ~InputOfCommand() override { static_cast<void>(InputOfCommand::finish()); }
  InputOfCommand(const InputOfCommand&) = delete;
  InputOfCommand& operator=(const InputOfCommand&) = delete;

  void take(const ForwardedNews& news) override {
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.size() >= most_waiting_) {
        throw Error(fmt::format("{} is slower than the alerts come: some are left out", words_.front()));
      }
      waiting_.push_back(news.json + "\n");
    }
    wake_.notify_all();
  }

  std::string failure() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(failure_, {});
  }

  std::string finish() override {
    {
      const std::lock_guard lock(mutex_);
      end_ = std::min(end_, Clock::now() + limit_);
    }
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    const std::lock_guard lock(mutex_);
    const std::size_t left = waiting_.size();
    waiting_.clear();
    return left == 0 ? ""
                     : fmt::format("{} did not get {}: the watch waited {:.3g} s for it", words_.front(),
                                   counted(static_cast<double>(left), "alert"), seconds_of_limit());
  }

 private:
  [[nodiscard]] double seconds_of_limit() const { return std::chrono::duration<double>(limit_).count(); }

  /// After the request to stop, what waits is still handed over until the end. A command that runs then has begun
  /// before, so that its own limit ends it in time.
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, stop, [this] { return !waiting_.empty(); });
      const Clock::time_point now = Clock::now();
      if (waiting_.empty() || now >= end_) return;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min<Clock::duration>(limit_, end_ - now));
      const std::string json = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      std::string why = failure_of_run(json, left);
      lock.lock();
      if (!why.empty()) failure_ = std::move(why);
    }
  }

  [[nodiscard]] std::string failure_of_run(const std::string& json, std::chrono::milliseconds limit) const {
    const std::string& name = words_.front();
    try {
      const ProgramEnd end = run_program({.command = words_, .environment = {}, .input = json, .limit = limit});
      if (end.start_error != 0) return system_error(name, end.start_error).what();
      if (!end.status) {
        return fmt::format("{} did not finish within {:.3g} s and was ended", name,
                           std::chrono::duration<double>(limit).count());
      }
      if (WIFSIGNALED(*end.status)) return fmt::format("{} was ended by signal {}", name, WTERMSIG(*end.status));
      const int status = WEXITSTATUS(*end.status);
      return status == 0 ? "" : fmt::format("{} failed with status {}", name, status);
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  std::vector<std::string> words_;
  std::chrono::milliseconds limit_;
  std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::string> waiting_;
  std::string failure_;
  Clock::time_point end_ = Clock::time_point::max();
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace

AlertForwarding::AlertForwarding(const ForwardOptions& options) {
  const auto add = [this](std::unique_ptr<NewsReceiver> receiver) { places_.push_back({std::move(receiver), false}); };
  if (!options.append.empty()) add(std::make_unique<LinesOfFile>(options.append, options.most_bytes));
  if (!options.spool.empty()) add(std::make_unique<FilesOfDirectory>(options.spool, options.most_files));
  if (!options.command.empty()) add(std::make_unique<InputOfCommand>(options));
}

void AlertForwarding::note_failure(Place& place, const std::string& why) {
  if (!std::exchange(place.failed, true)) problems_.push_back(why + "; this is reported once");
}

void AlertForwarding::forward(const ForwardedNews& news) {
  for (Place& place : places_) {
    try {
      place.receiver->take(news);
    } catch (const Error& error) {
      note_failure(place, error.what());
    }
  }
}

std::vector<std::string> AlertForwarding::take_problems() {
  for (Place& place : places_) {
    if (const std::string why = place.receiver->failure(); !why.empty()) note_failure(place, why);
  }
  return std::exchange(problems_, {});
}

void AlertForwarding::finish() {
  for (Place& place : places_) {
    if (std::string undone = place.receiver->finish(); !undone.empty()) problems_.push_back(std::move(undone));
  }
}

}  // namespace reveal
