// NODE.status.json, at most 4 KB, replaced by rename every ten seconds while a job runs: for `reveal watch` and other
// programs. Written by a thread of its own, because a file system that hangs must not stop the sampling.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "core/sampler/usual_ranges.h"
#include "hdf5schema/trace_writer.h"

namespace reveal {

struct Progress {
  std::atomic<std::int64_t> ticks{0};
  std::atomic<std::int64_t> ticks_missed{0};
  std::atomic<std::int64_t> ticks_late{0};  // by more than 10 ms
  std::atomic<std::int64_t> channels{0};
  std::atomic<std::int64_t> processes{0};
  std::atomic<std::int64_t> iterations_planned{0};  // as the job states it; 0: it does not
};

/// No directory is there. False also while its file system does not answer, or refuses for now: a ticket may be
/// renewed.
[[nodiscard]] bool directory_is_gone(const std::filesystem::path& directory) noexcept;

class StatusFile {
 public:
  StatusFile(const std::filesystem::path& trace, std::string node, const Progress& progress, const TraceWriter& writer,
             const UsualRanges& ranges, std::chrono::milliseconds period = std::chrono::seconds(10));
  /// Removes the file: its numbers are in the trace.
  ~StatusFile();
  StatusFile(const StatusFile&) = delete;
  StatusFile& operator=(const StatusFile&) = delete;

  /// The directory of the trace is gone, or no row will be written any more. A full disk may have space again.
  [[nodiscard]] bool hopeless() const noexcept { return hopeless_; }

 private:
  void run(const std::stop_token& stop);
  void write() const;
  [[nodiscard]] std::string text() const;

  std::filesystem::path path_;
  std::string node_;
  const Progress& progress_;
  const TraceWriter& writer_;
  const UsualRanges& ranges_;
  std::chrono::milliseconds period_;
  std::int64_t began_;
  std::atomic<bool> hopeless_{false};
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace reveal
