#include "postproc/live/live_trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "hdf5schema/basics/enum_names.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/utc_offset.h"
#include "postproc/telemetry/grid.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kLiveStateNames[] = {"waiting", "catching up", "live", "silent", "ended"};
constexpr auto kMarkPeriod = 2s;
constexpr auto kOpenPeriod = 1s;
constexpr std::int64_t kFarOff = 3'600'000'000'000;  // no row shown early is so far from those known
constexpr auto kSilent = 15s;                        // a flush comes every ten
// Rows and values that are not stored take no space in a file: any number of them may be in a minute.
constexpr std::size_t kMostRows = 1 << 16;      // for each family: ten minutes at the shortest interval, 10 ms
constexpr std::size_t kValuesAtOnce = 1 << 22;  // 32 MiB
constexpr std::size_t kMostValues = 1 << 27;    // all families together, of the rows that are kept
constexpr std::int64_t kMostInStep = 10;        // rows of 10 ms, of which one is kept for each 100 ms

}  // namespace

std::string_view name_of(LiveState state) {
  return kLiveStateNames[static_cast<std::size_t>(state)];
}

std::optional<LiveState> live_state_of(std::string_view name) {
  return enumerator_of<LiveState>(kLiveStateNames, name);
}

LiveTrace::LiveTrace(std::filesystem::path trace, std::chrono::nanoseconds keep)
    : trace_(std::move(trace)), part_(trace_), early_(trace_), rows_(keep) {
  part_ += ".part";
  const std::string name = trace_.filename().string();
  header_.node = name.substr(0, name.size() - trace_.extension().string().size());
}

LiveTrace::~LiveTrace() {
  std::error_code ignored;
  if (marked_) std::filesystem::remove(watch_marker_path(trace_), ignored);
}

double LiveTrace::silent_seconds(Time now) const {
  return last_row_ ? std::chrono::duration<double>(now - *last_row_).count() : 0;
}

void LiveTrace::poll(Time now) {
  if (state_ == LiveState::closed) return;
  std::error_code ignored;
  const bool ended = std::filesystem::exists(trace_, ignored);
  try {
    if (ended) {
      read_trace(trace_);
      state_ = LiveState::closed;
      return;
    }
    request_rows(now);
    take_early_rows();
    if (worth_opening(now)) read_trace(part_);
    problem_.clear();
  } catch (const Error& error) {
    problem_ = error.what();  // a flush may be under way
    if (ended) state_ = LiveState::closed;
  }
  if (rows_.newest_ns() > newest_ns_) {
    newest_ns_ = rows_.newest_ns();
    last_row_ = now;
  } else if (!last_row_) {
    last_row_ = now;
  }
  if (newest_ns_ > 0) state_ = answered_ && !rows_.rows_wait() ? LiveState::live : LiveState::catching;
  if (now - *last_row_ > kSilent) state_ = LiveState::silent;
}

/// Only in a directory of our own: root must not write where a user may have placed a link. Others fall back to the
/// rows that were flushed.
void LiveTrace::request_rows(Time now) {
  if (now < next_mark_) return;
  next_mark_ = now + kMarkPeriod;
  struct stat folder {};
  std::error_code ignored;
  const std::filesystem::path parent = trace_.has_parent_path() ? trace_.parent_path() : ".";
  if (::stat(parent.c_str(), &folder) != 0 || folder.st_uid != ::geteuid()) return;
  if (!std::filesystem::exists(part_, ignored)) return;
  const Descriptor marker(
      ::open(watch_marker_path(trace_).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!marker) return;
  marked_ = true;
  ::futimens(marker.get(), nullptr);
}

void LiveTrace::take_early_rows() {
  if (!opened_) return;  // the trace defines the families
  answered_ = early_.poll([this](const std::string& path, std::int64_t time_ns, std::span<const std::int64_t> values) {
    const std::int64_t newest = rows_.newest_ns();
    if (newest > 0 && std::abs(time_ns / 2 - newest / 2) > kFarOff / 2) return;  // damaged
    if (const auto family = rows_.find(path)) rows_.append_early(*family, time_ns, values);
  });
}

void LiveTrace::read_process_events() {
  std::error_code error;
  const std::filesystem::path& path = state_ == LiveState::closed ? trace_ : part_;
  const auto written = std::filesystem::last_write_time(path, error);
  if (error || written == events_written_) return;
  try {
    const TraceReader reader(path, TraceReader::Check::names);
    std::vector<Event> events = reader.events();
    process_events_.clear();
    collective_events_.clear();
    for (Event& event : events) {
      if (event.code == kLastCollectives) {
        collective_events_.push_back(std::move(event));
      } else if (event.code == "process_begin" || event.code == "process_end") {
        process_events_.push_back(std::move(event));
      }
    }
    events_written_ = written;
    for (const auto& family : reader.families()) {
      if (!family.time_ns.empty()) events_until_ns_ = std::max(events_until_ns_, family.time_ns.back());
    }
  } catch (const Error&) {
    return;  // a flush may be under way: those read before are as good
  }
}

std::span<const Event> LiveTrace::collective_events() {
  read_process_events();
  return collective_events_;
}

void LiveTrace::name_programs(EventSpan at, std::span<Channel> channels) {
  const auto of_process = [](const Channel& channel) { return channel.scope == Scope::process; };
  if (std::none_of(channels.begin(), channels.end(), of_process)) return;
  read_process_events();
  if (events_until_ns_ < at.begin_ns) return;  // another process may have taken the place since
  reveal::name_programs(process_events_, at, channels);
}

/// Opening reads every name and every time: only after a flush with needed data.
bool LiveTrace::worth_opening(Time now) {
  if (now < next_open_) return false;
  std::error_code error;
  const auto written = std::filesystem::last_write_time(part_, error);
  if (error || (written == written_ && !again_)) return false;
  if (opened_ && answered_ && !rows_.rows_wait() && !rows_.names_missing()) return false;
  next_open_ = now + kOpenPeriod;
  again_ = written != written_;
  written_ = written;
  return true;
}

void LiveTrace::read_trace(const std::filesystem::path& path) {
  const TraceReader reader(path, TraceReader::Check::names);
  if (!opened_) {
    std::string node = std::move(header_.node);
    header_ = reader.header();
    if (!is_file_name(header_.node)) header_.node = std::move(node);  // files are found by it
    std::int64_t first_ns = 0;
    for (const auto& family : reader.families()) {
      if (!family.time_ns.empty() && (first_ns == 0 || family.time_ns.front() < first_ns))
        first_ns = family.time_ns.front();
    }
    if (first_ns > 0) {
      const std::vector<ClockPair> clocks = reader.clocks();
      offset_ns_ = utc_offset_ns(clocks, header_, first_ns);
      // The wall clock may have been set since.
      begin_ns_ =
          header_.begin_utc_ns - (clocks.empty() ? offset_ns_ : clocks.front().utc_ns - clocks.front().monotonic_ns);
      opened_ = true;
    }
  }
  std::size_t values = 0;
  for (const auto& family : reader.families()) {
    const std::size_t index = rows_.learn(family.spec, family.channels, offset_ns_);
    const std::int64_t known = rows_.newest_ns(index);
    const std::span<const std::int64_t> times = family.time_ns;
    const auto fresh =
        known > 0 ? static_cast<std::size_t>(std::upper_bound(times.begin(), times.end(), known) - times.begin())
                  : rows_.begin_at(index, times);
    std::size_t row = std::max(fresh, times.size() - std::min(times.size(), kMostRows));
    const std::size_t channels = std::max<std::size_t>(family.channels.size(), 1);
    const auto in_step = static_cast<std::size_t>(std::min(ticks_in_step(family.spec.period), kMostInStep));
    values += channels * ((times.size() - row) / in_step);
    if (values > kMostValues) throw Error(path.string() + ": has more values than can be watched");
    if (row == times.size()) rows_.append(index, {}, {});
    const std::size_t at_once = std::max<std::size_t>(kValuesAtOnce / channels, 1);
    for (; row < times.size(); row += std::min(at_once, times.size() - row)) {
      const std::size_t count = std::min(at_once, times.size() - row);
      rows_.append(index, times.subspan(row, count), reader.read(family, row, count));
    }
  }
}

}  // namespace reveal
