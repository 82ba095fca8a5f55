#include "core/sampler/row_publisher.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookPeriod = 1000ms;     // for the marker of a watcher that is there
constexpr auto kIdlePeriod = 3000ms;     // for that of the first one: each look wakes a thread
constexpr auto kDrainPeriod = 100ms;     // while there is a watcher
constexpr int kLooksUnmarked = 15;       // until the watcher counts as gone
constexpr int kMarkerGone = 5;           // counts for so many: one of several left, the others mark it again
constexpr std::size_t kWords = 1 << 17;  // 1 MiB: 13 s of 1,000 channels at 10 Hz

}  // namespace

RowPublisher::RowPublisher(std::filesystem::path trace, std::vector<std::string> families)
    : trace_(std::move(trace)), families_(std::move(families)) {
  const auto work = [this](const std::stop_token& stop) {
    try {
      run(stop);
    } catch (const std::exception&) {  // no memory: watchers read the flushed file instead, the recording goes on
      open_.store(false, std::memory_order_release);
    }
  };
  try {
    thread_ = std::jthread(work);
  } catch (const std::system_error&) {  // the job has all the tasks the user may have
    return;
  }
}

RowPublisher::~RowPublisher() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  std::error_code ignored;
  std::filesystem::remove(watch_marker_path(trace_), ignored);
}

void RowPublisher::publish(std::uint32_t family, std::int64_t time_ns, std::span<const std::int64_t> values) noexcept {
  if (!open_.load(std::memory_order_acquire)) return;
  const std::size_t size = kLiveRowHead + values.size();
  std::uint64_t at = end_.load(std::memory_order_relaxed);
  if (ring_.size() - (at - begin_.load(std::memory_order_acquire)) < size) return;
  ring_[at++ % ring_.size()] = live_row_tag(family, static_cast<std::uint32_t>(values.size()));
  ring_[at++ % ring_.size()] = time_ns;
  const std::size_t place = at % ring_.size();
  const std::size_t before_wrap = std::min(values.size(), ring_.size() - place);
  std::copy_n(values.begin(), before_wrap, ring_.begin() + static_cast<std::ptrdiff_t>(place));
  std::copy(values.begin() + static_cast<std::ptrdiff_t>(before_wrap), values.end(), ring_.begin());
  end_.store(at + values.size(), std::memory_order_release);
}

void RowPublisher::run(const std::stop_token& stop) {
  std::optional<LiveRowsWriter> writer;
  looks_unmarked_ = kLooksUnmarked;
  auto next_look = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, stop, writer ? kDrainPeriod : kIdlePeriod, [] { return false; });
    if (stop.stop_requested()) return;
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_look) {
      next_look = now + kLookPeriod;
      const bool wanted = watched();
      if (wanted && !writer) {
        if (ring_.empty()) ring_.resize(kWords);  // before open_ lets the sampler at it
        writer.emplace(trace_, families_);
        begin_.store(end_.load(std::memory_order_acquire), std::memory_order_release);
        open_.store(true, std::memory_order_release);
      } else if (!wanted && writer) {
        open_.store(false, std::memory_order_release);
        writer.reset();
      }
    }
    if (writer && !drain(*writer)) {  // a full disk: tried again with the next look
      open_.store(false, std::memory_order_release);
      writer.reset();
    }
  }
}

/// A watcher touches the marker every few seconds. Its time is only compared with itself: clocks step.
bool RowPublisher::watched() {
  struct stat status {};
  std::optional<std::int64_t> marked;
  if (::lstat(watch_marker_path(trace_).c_str(), &status) == 0) marked = nanoseconds_of(status.st_mtim);
  const bool touched = marked && marked != marked_ns_;
  marked_ns_ = marked;
  looks_unmarked_ = touched ? 0 : std::min(looks_unmarked_ + (marked ? 1 : kMarkerGone), kLooksUnmarked);
  return looks_unmarked_ < kLooksUnmarked;
}

bool RowPublisher::drain(LiveRowsWriter& writer) {
  const std::uint64_t begin = begin_.load(std::memory_order_relaxed);
  const std::uint64_t end = end_.load(std::memory_order_acquire);
  if (begin == end) return true;
  const std::size_t place = begin % ring_.size();
  const std::size_t before_wrap = std::min<std::size_t>(end - begin, ring_.size() - place);
  const bool written =
      writer.write(std::span(ring_).subspan(place, before_wrap), std::span(ring_).first(end - begin - before_wrap));
  begin_.store(end, std::memory_order_release);
  return written;
}

}  // namespace reveal
