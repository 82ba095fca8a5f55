// Publishes rows for `reveal watch`, a tenth of a second after they were measured (hdf5schema/live_rows.h). Without a
// watcher it costs one stat() a second; the sampling never waits for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hdf5schema/live_rows.h"

namespace reveal {

class RowPublisher {
 public:
  RowPublisher(std::filesystem::path trace, std::vector<std::string> families);
  /// Removes its file and the marker of the watcher.
  ~RowPublisher();
  RowPublisher(const RowPublisher&) = delete;
  RowPublisher& operator=(const RowPublisher&) = delete;

  /// Call it from one thread. Rows that do not fit are left out: the trace has them.
  void publish(std::uint32_t family, std::int64_t time_ns, std::span<const std::int64_t> values) noexcept;

 private:
  void run(const std::stop_token& stop);
  [[nodiscard]] bool watched();
  [[nodiscard]] bool drain(LiveRowsWriter& writer);

  std::filesystem::path trace_;
  std::vector<std::string> families_;
  // A ring of words between two threads: begin_ and end_ only grow.
  std::vector<std::int64_t> ring_;
  std::atomic<bool> open_{false};
  std::atomic<std::uint64_t> begin_{0};
  std::atomic<std::uint64_t> end_{0};
  std::optional<std::int64_t> marked_ns_;  // the marker's time at the last look
  int looks_unmarked_ = 0;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace reveal
