#include "hdf5schema/trace_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/trace_halves.h"
#include "hdf5schema/deflate_runs.h"
#include "hdf5schema/disk_space.h"
#include "hdf5schema/joined_trace.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/row_buffer.h"
#include "hdf5schema/row_tables.h"
#include "hdf5schema/semaphore.h"
#include "hdf5schema/trace_file.h"

namespace reveal {
namespace {

constexpr std::size_t kEventSlots = 1024;  // between two flushes; beyond it events are counted as lost
constexpr std::size_t kRowSlots = 8192;    // likewise, of each table; memory that no row touches costs nothing
constexpr std::size_t kClockSlots = 256;
constexpr std::uint64_t kReserveBytes = std::uint64_t{256} << 10;  // kept free, so that the file can always be closed
constexpr std::int64_t kNanBits = std::bit_cast<std::int64_t>(std::numeric_limits<double>::quiet_NaN());
/// A recording this short is too short to be judged: rewriting it would only delay its user, to save 100 kB.
constexpr std::int64_t kWorthRewriting = 10'000'000'000;
constexpr std::size_t kMaxChunkValues = std::size_t{1} << 19;  // 4 MiB

/// Space for channels that appear later: chunks are that wide from the beginning, and the unused part compresses to
/// almost nothing, while a second chunk per flush would not.
std::size_t channels_per_chunk(std::size_t channels, std::size_t expected, std::size_t rows) {
  const std::size_t usual = channels < 64 ? std::max<std::size_t>(16, channels * 2) : channels + channels / 4;
  const std::size_t wide = std::max(usual, channels + expected);
  return std::clamp<std::size_t>(wide, 1, std::max<std::size_t>(1, kMaxChunkValues / rows));
}

std::int64_t value_bits(bool real, std::int64_t value) {
  if (!real) return value;
  return value == kMissing ? kNanBits : std::bit_cast<std::int64_t>(static_cast<double>(value));
}

std::int64_t value_bits(bool real, double value) {
  if (real) return std::bit_cast<std::int64_t>(value);
  constexpr double kLimit = 9.2e18;
  return std::isfinite(value) && std::fabs(value) < kLimit ? std::llround(value) : kMissing;
}

/// Rows of a table between two flushes.
template <class Row>
struct RowQueue {
  std::vector<RowRecord<Row>> rows;   // guarded by the writer's mutex
  std::uint64_t lost = 0;             // likewise
  std::vector<RowRecord<Row>> taken;  // writer
  std::size_t in_file = 0;            // writer
};

}  // namespace

struct TraceWriter::Impl {
  struct Family {
    FamilySpec spec;
    std::size_t axis = 0;
    std::size_t slot = 0;  // within the axis
    bool real = false;
    std::size_t expected = 0;                 // channels that will be added
    std::size_t channels = 0;                 // the sampler's count; the writer uses the one handed over with a buffer
    std::deque<ChannelKey> keys;              // guarded by mutex
    std::vector<std::size_t> changed;         // keys written already that died since; guarded by mutex
    std::size_t keys_written = 0;             // writer
    std::vector<std::int64_t> before = {};    // start values of channels added since; guarded by mutex
    std::vector<std::int64_t> previous = {};  // writer
  };

  struct HandOver {
    explicit HandOver(std::size_t rows) : buffer(rows) {}
    RowBuffer buffer;
    std::vector<std::size_t> channels;  // per slot, when it was handed over
    std::atomic<bool> full{false};      // true: belongs to the writer
  };

  struct Axis {
    Axis(std::string axis, std::chrono::nanoseconds axis_period, std::size_t rows)
        : name(std::move(axis)), period(axis_period), rows_per_chunk(rows), buffers{HandOver(rows), HandOver(rows)} {}
    std::string name;
    std::chrono::nanoseconds period;
    std::size_t rows_per_chunk;
    std::vector<std::size_t> families;
    HandOver buffers[2];
    std::size_t filling = 0;
    std::int64_t last_time = std::numeric_limits<std::int64_t>::min();
    bool row_open = false;
    std::optional<std::int64_t> refused_time;  // time of the last row that did not fit
    std::uint64_t chunks = 0;                  // writer
  };

  std::filesystem::path path;
  std::filesystem::path part;
  Limits limits;
  std::unique_ptr<TraceFile> file;
  std::unique_ptr<DiskSpace> disk;
  std::vector<std::unique_ptr<Axis>> axes;
  std::vector<std::unique_ptr<Family>> families;
  std::vector<Coverage> coverage;  // guarded by mutex
  TraceHeader header;
  Snapshot snapshot;
  std::string topology;
  Snapshot end_snapshot;
  bool started = false;
  bool rows_ended = false;
  bool closed = false;

  std::mutex mutex;  // keys, records and buffer widths; never held while a file is written
  std::vector<EventRecord> events;
  RowTables<RowQueue> tables;
  std::vector<ClockPair> clocks;
  std::uint64_t events_lost = 0;
  std::string failure;  // guarded by mutex
  bool broken = false;  // writer: the library failed; the file is left alone from here on
  bool incomplete = false;
  bool gave_up = false;            // writer: rows are being lost, logged once
  bool segment_refused = false;    // writer: no next segment could be made, logged once
  std::int64_t begin = 0;          // writer: of the first rows
  std::int64_t segment_begin = 0;  // writer: of the first rows in this file
  std::string not_rewritten;       // guarded by mutex

  EncodedRows scratch;  // writer

  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> rows{0};
  std::atomic<std::uint64_t> rows_lost{0};
  std::atomic<std::uint64_t> rows_lost_behind{0};  // those for which the writer was too slow, not reported yet
  std::atomic<std::uint64_t> channels{0};
  std::atomic<std::int64_t> flushed_until{0};
  std::atomic<Writing> writing{Writing::goes_on};

  Semaphore work;
  std::mutex jitter_mutex;
  std::condition_variable_any jitter;
  std::chrono::milliseconds jitter_time{0};
  std::jthread thread;

  std::size_t axis_of(const FamilySpec& spec);
  template <class Row>
  void append_to_table(const Row& row) noexcept;
  template <typename T>
  bool append(FamilyId family, std::int64_t time_ns, std::span<const T> values) noexcept;
  bool open_row(Axis& axis, std::size_t slot, std::int64_t time_ns) noexcept;
  bool make_room(Axis& axis) noexcept;
  bool hand_over(Axis& axis) noexcept;
  void widen(const Axis& axis, HandOver& handed);

  std::vector<std::size_t> begin_file(TraceFile& fresh);
  void has_begun(std::span<const std::size_t> keys);
  void begin_segment() noexcept;
  void replace_segment(const std::filesystem::path& next) const;
  void run(const std::stop_token& stop);
  void write_full(bool last);
  void write_buffer(Axis& axis, HandOver& handed);
  void write_records();
  void write_keys(FamilyId id);
  void lose(const Axis& axis, const HandOver& handed);
  [[nodiscard]] std::uint64_t raw_bytes(const Axis& axis, const HandOver& handed) const;
  [[nodiscard]] std::uint64_t raw_bytes_of_tables();
  [[nodiscard]] bool room_for(std::uint64_t raw);
  [[nodiscard]] bool room_for_flush();
  void make_compact();
  void fail(const std::string& why, Writing state);
  void note(std::int64_t time_ns, std::string_view code, std::string_view text);
};

namespace {

/// The message of HDF5 is "unable to open file" for most reasons; errno has the reason. Throws Error, or makes the
/// file.
void explain_refused(const std::filesystem::path& part) {
  const Descriptor file(::open(part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) throw system_error(part.string(), errno);
}

}  // namespace

TraceWriter::TraceWriter(const std::filesystem::path& path, const TraceHeader& header, Limits limits)
    : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->part = path;
  impl_->part += ".part";
  impl_->limits = limits;
  impl_->header = header;
  for (const std::filesystem::path& taken : {path, impl_->part, earlier_segment(path)}) {
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(taken, ignored)))
      throw Error(taken.string() + ": exists already and is not overwritten");
  }
  impl_->events.reserve(kEventSlots);
  for_each_table(impl_->tables, [](auto& table) { table.rows.reserve(kRowSlots); });
  impl_->clocks.reserve(kClockSlots);
  try {
    impl_->file = std::make_unique<TraceFile>(impl_->part, header);  // one of two writers makes it
    impl_->disk = std::make_unique<DiskSpace>(impl_->part);
  } catch (const Error&) {
    if (!impl_->file) explain_refused(impl_->part);
    ::unlink(impl_->part.c_str());
    throw;
  }
}

TraceWriter::~TraceWriter() {
  if (!impl_) return;
  try {
    if (impl_->started && !impl_->closed) end_rows();
    // A file whose flush failed is never closed and stays marked as cut off: closing would mark its rows as complete.
    if (impl_->broken) static_cast<void>(impl_->file.release());
    if (impl_->broken || impl_->closed) return;
    impl_->file->close(false);
    impl_->disk->finish();
  } catch (const std::exception&) {
    return;  // destructors cannot report errors; the file keeps its .part
  }
}

std::size_t TraceWriter::Impl::axis_of(const FamilySpec& spec) {
  const std::string name = axis_name(spec);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i]->name == name) return i;
  }
  const auto per_chunk = std::max<std::int64_t>(1, std::chrono::nanoseconds(kChunkTime) / spec.period);
  const std::chrono::nanoseconds shortest = spec.faster.count() > 0 ? spec.faster : spec.period;
  axes.push_back(std::make_unique<Axis>(name, shortest, static_cast<std::size_t>(per_chunk)));
  return axes.size() - 1;
}

TraceWriter::FamilyId TraceWriter::add_family(const FamilySpec& spec) {
  if (impl_->started) throw Error(impl_->part.string() + ": family " + spec.path + " was added after the start");
  if (spec.period <= std::chrono::nanoseconds(0)) throw Error(spec.path + ": a family needs a period");
  if (spec.path.find('/') == std::string::npos || spec.path.front() == '/' || spec.path.back() == '/')
    throw Error(spec.path + ": a family's path is GROUP/NAME");
  for (const auto& family : impl_->families) {
    if (family->spec.path == spec.path) throw Error(spec.path + ": a family of this path exists already");
  }
  auto family = std::make_unique<Impl::Family>();
  family->spec = spec;
  family->axis = impl_->axis_of(spec);
  family->slot = impl_->axes[family->axis]->families.size();
  family->real = stored_as_real(spec);
  impl_->axes[family->axis]->families.push_back(impl_->families.size());
  impl_->families.push_back(std::move(family));
  return static_cast<FamilyId>(impl_->families.size() - 1);
}

void TraceWriter::expect_channels(FamilyId id, std::size_t later) {
  impl_->families.at(id)->expected = later;
}

TraceWriter::ChannelId TraceWriter::add_channel(FamilyId id, ChannelKey key, std::int64_t before) {
  Impl::Family& family = *impl_->families.at(id);
  const std::lock_guard lock(impl_->mutex);
  family.keys.push_back(std::move(key));
  family.before.push_back(before);
  ++family.channels;
  ++impl_->channels;
  if (impl_->started) {
    Impl::Axis& axis = *impl_->axes[family.axis];
    for (Impl::HandOver& part : axis.buffers) {
      if (!part.full.load(std::memory_order_acquire)) impl_->widen(axis, part);
    }
  }
  return static_cast<ChannelId>(family.channels - 1);
}

const ChannelKey& TraceWriter::key(FamilyId id, ChannelId channel) const {
  return impl_->families.at(id)->keys.at(channel);
}

/// Called under the mutex by the owner of the buffer: the writer calls it before it gives a buffer back.
void TraceWriter::Impl::widen(const Axis& axis, HandOver& handed) {
  for (const std::size_t index : axis.families) {
    const Family& family = *families[index];
    const std::size_t width = handed.buffer.width(family.slot);
    if (family.channels > width)
      handed.buffer.widen(family.slot, family.channels + std::max<std::size_t>(8, width / 2));
  }
}

void TraceWriter::channel_died(FamilyId id, ChannelId channel, std::int64_t time_ns) {
  Impl::Family& family = *impl_->families.at(id);
  const std::lock_guard lock(impl_->mutex);
  family.keys.at(channel).died_ns = time_ns;
  family.changed.push_back(channel);
}

void TraceWriter::set_coverage(std::span<const Coverage> coverage) {
  const std::lock_guard lock(impl_->mutex);
  impl_->coverage.assign(coverage.begin(), coverage.end());
}

void TraceWriter::set_snapshot(const Snapshot& begin, std::string_view topology_xml) {
  impl_->snapshot = begin;
  impl_->topology = topology_xml;
}

void TraceWriter::set_end_snapshot(const Snapshot& end) {
  impl_->end_snapshot.clear();
  for (const auto& entry : end) {
    if (std::find(impl_->snapshot.begin(), impl_->snapshot.end(), entry) == impl_->snapshot.end())
      impl_->end_snapshot.push_back(entry);
  }
  for (const auto& [key, value] : impl_->snapshot) {
    const auto same_key = [&key = key](const auto& entry) { return entry.first == key; };
    if (std::none_of(end.begin(), end.end(), same_key)) impl_->end_snapshot.emplace_back(key, "");
  }
}

void TraceWriter::start() {
  Impl& impl = *impl_;
  for (const auto& axis : impl.axes) {
    for (const std::size_t index : axis->families) {
      for (Impl::HandOver& part : axis->buffers) {
        const Impl::Family& family = *impl.families[index];
        part.buffer.add_family(family.channels, family.real ? kNanBits : kMissing);  // more when more appear
        part.channels.push_back(0);
      }
    }
  }
  impl.has_begun(impl.begin_file(*impl.file));
  impl.write_records();
  impl.file->flush();
  impl.bytes = impl.disk->size();
  impl.started = true;
  if (impl.limits.flush_jitter.count() > 0) {
    std::uniform_int_distribution<std::int64_t> spread(0, impl.limits.flush_jitter.count());
    std::random_device entropy;
    impl.jitter_time = std::chrono::milliseconds(spread(entropy));
  }
  try {
    impl.thread = std::jthread([&impl](const std::stop_token& stop) { impl.run(stop); });
  } catch (const std::system_error& error) {
    throw Error(impl.part.string() + ": the writer thread cannot be started: " + error.code().message() +
                " (the user has reached the process limit of ulimit -u or of a control group)");
  }
}

/// Everything that a file has before its first row. Returns how many keys of each family are in it.
std::vector<std::size_t> TraceWriter::Impl::begin_file(TraceFile& fresh) {
  for (const auto& axis : axes) fresh.add_axis(axis->name, axis->rows_per_chunk);
  // In the order of add_family(), so that TraceFile counts them alike.
  for (const auto& family : families) {
    std::size_t channel_count = 0;
    {
      const std::lock_guard lock(mutex);
      channel_count = family->keys.size();
    }
    const std::size_t rows_per_chunk = axes[family->axis]->rows_per_chunk;
    fresh.add_family(family->spec, family->axis, channels_per_chunk(channel_count, family->expected, rows_per_chunk));
  }
  fresh.write_snapshot(snapshot, topology);
  fresh.start();
  std::vector<std::size_t> written;
  for (FamilyId id = 0; id < families.size(); ++id) {
    std::vector<ChannelKey> keys;
    {
      const std::lock_guard lock(mutex);
      keys.assign(families[id]->keys.begin(), families[id]->keys.end());
    }
    if (!keys.empty()) fresh.write_channels(id, 0, keys);
    written.push_back(keys.size());
  }
  std::vector<Coverage> facts;
  {
    const std::lock_guard lock(mutex);
    facts = coverage;
  }
  fresh.write_coverage(facts);
  fresh.flush();
  return written;
}

void TraceWriter::Impl::has_begun(std::span<const std::size_t> keys) {
  for (std::size_t id = 0; id < families.size(); ++id) families[id]->keys_written = keys[id];
  for (const auto& axis : axes) axis->chunks = 0;
  if (limits.retention.form != Retention::Form::rolling) topology = {};
}

/// The rows recorded so far become the earlier segment and replace the one before, which is too old by now. The next
/// one is begun before: where that fails, rows go on into this one.
void TraceWriter::Impl::begin_segment() noexcept {
  const std::filesystem::path next = trace_half(path, kNextHalf);
  std::error_code ignored;
  std::filesystem::remove(next, ignored);  // left by a collector that was killed here
  try {
    for (FamilyId id = 0; id < families.size(); ++id) write_keys(id);
  } catch (const std::exception& error) {
    broken = true;
    return fail(error.what(), Writing::is_over);
  }
  std::unique_ptr<TraceFile> fresh;
  std::unique_ptr<DiskSpace> fresh_disk;
  std::vector<std::size_t> keys;
  try {
    fresh = std::make_unique<TraceFile>(next, header);
    fresh_disk = std::make_unique<DiskSpace>(next);
    keys = begin_file(*fresh);
  } catch (const std::exception& error) {
    std::filesystem::remove(next, ignored);
    if (!std::exchange(segment_refused, true)) note(flushed_until, "segment_failed", error.what());
    return;
  }
  try {
    file->close(false);
    disk->finish();
    replace_segment(next);
  } catch (const std::exception& error) {
    std::filesystem::remove(next, ignored);
    broken = true;
    return fail(error.what(), Writing::is_over);
  }
  file = std::move(fresh);
  file->was_renamed(part);
  disk = std::move(fresh_disk);
  bytes = disk->size();
  segment_begin = 0;
  for_each_table(tables, [](auto& table) { table.in_file = 0; });
  segment_refused = false;
  has_begun(keys);
}

/// There is a .part at every moment: between the two steps it and the earlier segment are one file.
void TraceWriter::Impl::replace_segment(const std::filesystem::path& next) const {
  const std::filesystem::path earlier = earlier_segment(path);
  const std::filesystem::path link = trace_half(path, kLastHalf);
  ::unlink(link.c_str());
  const bool linked = ::link(part.c_str(), link.c_str()) == 0;  // which not every file system has
  rename_and_sync(linked ? link : part, earlier);
  rename_and_sync(next, part);
}

bool TraceWriter::append_row(FamilyId family, std::int64_t time_ns, std::span<const std::int64_t> values) noexcept {
  return impl_->append(family, time_ns, values);
}

bool TraceWriter::append_row(FamilyId family, std::int64_t time_ns, std::span<const double> values) noexcept {
  return impl_->append(family, time_ns, values);
}

template <typename T>
bool TraceWriter::Impl::append(FamilyId id, std::int64_t time_ns, std::span<const T> values) noexcept {
  ++rows;
  if (id >= families.size() || !started || rows_ended) {
    ++rows_lost;
    return false;
  }
  Family& family = *families[id];
  Axis& axis = *axes[family.axis];
  if (!open_row(axis, family.slot, time_ns)) {
    ++rows_lost;
    return false;
  }
  RowBuffer& buffer = axis.buffers[axis.filling].buffer;
  const std::span<std::int64_t> row = buffer.fill_row(family.slot);
  const std::size_t given = std::min({values.size(), row.size(), family.channels});
  if (std::is_same_v<T, std::int64_t> && !family.real)
    std::copy_n(values.begin(), given, row.begin());
  else
    std::transform(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(given), row.begin(),
                   [&family](T value) { return value_bits(family.real, value); });
  std::fill(row.begin() + static_cast<std::ptrdiff_t>(given), row.end(), family.real ? kNanBits : kMissing);
  if (buffer.full() && buffer.row_complete() && hand_over(axis)) axis.row_open = false;
  return true;
}

/// The axis' row for this time: the open one if the family is not in it yet and the time is within half a period, else
/// a new one. False if it does not fit (the writer is behind) or the time is not after the last row.
bool TraceWriter::Impl::open_row(Axis& axis, std::size_t slot, std::int64_t time_ns) noexcept {
  if (axis.row_open) {
    const RowBuffer& buffer = axis.buffers[axis.filling].buffer;
    const std::int64_t distance = time_ns > axis.last_time ? time_ns - axis.last_time : axis.last_time - time_ns;
    if (!buffer.present(slot) && distance < axis.period.count() / 2) return true;
  }
  if (time_ns <= axis.last_time) return false;
  // A row is lost as a whole: the writer may catch up between two families of it.
  const bool refused = axis.refused_time && time_ns - *axis.refused_time < axis.period.count() / 2;
  if (refused || (axis.buffers[axis.filling].buffer.full() && !make_room(axis))) {
    if (!refused) axis.refused_time = time_ns;
    ++rows_lost_behind;
    return false;
  }
  axis.buffers[axis.filling].buffer.begin_row(time_ns);
  axis.last_time = time_ns;
  axis.row_open = true;
  return true;
}

/// The writer takes its input even if it cannot write it, so that waiting ends.
bool TraceWriter::Impl::make_room(Axis& axis) noexcept {
  constexpr std::chrono::milliseconds kMoment{1};
  while (!hand_over(axis)) {
    if (!limits.waits) return false;
    std::this_thread::sleep_for(kMoment);
  }
  return true;
}

/// Gives the filled buffer to the writer and takes the other one, if the writer is done with it.
bool TraceWriter::Impl::hand_over(Axis& axis) noexcept {
  HandOver& other = axis.buffers[1 - axis.filling];
  if (other.full.load(std::memory_order_acquire)) return false;
  HandOver& filled = axis.buffers[axis.filling];
  for (std::size_t slot = 0; slot < axis.families.size(); ++slot)
    filled.channels[slot] = families[axis.families[slot]]->channels;
  other.buffer.clear();
  axis.filling = 1 - axis.filling;
  filled.full.store(true, std::memory_order_release);
  work.release();
  return true;
}

void TraceWriter::append_event(const Event& event) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->events.size() == kEventSlots) {
    ++impl_->events_lost;
    return;
  }
  impl_->events.push_back(record_of(event));
}

template <class Row>
void TraceWriter::Impl::append_to_table(const Row& row) noexcept {
  const std::lock_guard lock(mutex);
  RowQueue<Row>& table = std::get<RowQueue<Row>>(tables);
  if (table.rows.size() == kRowSlots) {
    ++table.lost;
    return;
  }
  table.rows.push_back(row_record(row));
}

void TraceWriter::append_step(const TrainingStep& step) noexcept {
  impl_->append_to_table(step);
}

void TraceWriter::append_collective(const SampledCollective& collective) noexcept {
  impl_->append_to_table(collective);
}

void TraceWriter::append_clock(const ClockPair& pair) noexcept {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->clocks.size() < kClockSlots) impl_->clocks.push_back(pair);
}

TraceWriter::Status TraceWriter::status() const {
  Status status{.bytes = impl_->bytes,
                .rows = impl_->rows,
                .rows_lost = impl_->rows_lost,
                .channels = impl_->channels,
                .flushed_until_ns = impl_->flushed_until,
                .writing = impl_->writing};
  const std::lock_guard lock(impl_->mutex);
  status.failure = impl_->failure;
  status.not_rewritten = impl_->not_rewritten;
  return status;
}

void TraceWriter::Impl::run(const std::stop_token& stop) {
  while (true) {
    work.acquire();
    if (jitter_time.count() > 0 && !stop.stop_requested()) {
      std::unique_lock lock(jitter_mutex);
      jitter.wait_for(lock, stop, jitter_time, [] { return false; });
    }
    write_full(false);
    if (stop.stop_requested()) return;
  }
}

/// Writes every buffer handed over, then flushes once. `last`: also the buffer that is still being filled; then the
/// caller is the only thread left.
void TraceWriter::Impl::write_full(bool last) {
  for (int round = last ? 0 : 1; round < 2; ++round) {
    std::vector<std::pair<Axis*, HandOver*>> batch;
    std::uint64_t raw = 0;
    for (const auto& axis : axes) {
      for (HandOver& handed : axis->buffers) {
        if (!handed.full.load(std::memory_order_acquire)) continue;
        batch.emplace_back(axis.get(), &handed);
        raw += raw_bytes(*axis, handed);
      }
    }
    if (batch.empty() && !last) return;
    raw += raw_bytes_of_tables();
    std::int64_t until = 0;
    if (!broken && room_for_flush() && room_for(raw)) {
      try {
        write_records();
        for (const auto& [axis, handed] : batch) {
          if (segment_begin == 0) segment_begin = handed->buffer.times().front();
          if (begin == 0) begin = segment_begin;
          write_buffer(*axis, *handed);
          until = std::max(until, handed->buffer.times().back());
        }
        file->flush();
        scratch = {};
        bytes = disk->size();
        gave_up = false;
        if (writing != Writing::is_over) writing = Writing::goes_on;
      } catch (const Error& error) {
        broken = true;
        until = 0;
        fail(error.what(), Writing::is_over);
        for (const auto& [axis, handed] : batch) lose(*axis, *handed);
      }
    } else {
      for (const auto& [axis, handed] : batch) lose(*axis, *handed);
    }
    for (const auto& [axis, handed] : batch) {
      const std::lock_guard lock(mutex);
      widen(*axis, *handed);
      handed->buffer.clear();
      handed->full.store(false, std::memory_order_release);
    }
    const bool full_segment = limits.retention.keep.count() > 0 && segment_begin > 0 &&
                              until - segment_begin >= limits.retention.keep.count();
    if (full_segment && !last && !broken) begin_segment();
    if (until > 0) flushed_until = until;  // when the buffers are free again: a caller may wait for it
    if (!last || round == 1) return;
    for (const auto& axis : axes) {
      if (axis->buffers[axis->filling].buffer.rows() > 0) hand_over(*axis);
    }
  }
}

std::uint64_t TraceWriter::Impl::raw_bytes(const Axis& axis, const HandOver& handed) const {
  std::uint64_t values = handed.buffer.rows();
  for (std::size_t slot = 0; slot < axis.families.size(); ++slot)
    values += (handed.buffer.rows() + 1) * handed.channels[slot] + 64;
  return values * sizeof(std::int64_t);
}

std::uint64_t TraceWriter::Impl::raw_bytes_of_tables() {
  const std::lock_guard lock(mutex);
  std::uint64_t bytes_of_rows = 0;
  for_each_table(tables, [&]<class Row>(const RowQueue<Row>& table) {
    bytes_of_rows += table.rows.size() * sizeof(RowRecord<Row>);
  });
  return bytes_of_rows;
}

bool TraceWriter::Impl::room_for(std::uint64_t raw) {
  // Events about lost rows always fit: memory below the limit is kept free for them.
  const bool has_rows = raw > 0;
  if (has_rows && limits.max_bytes > 0 && disk->size() + raw / 4 + kReserveBytes / 8 > limits.max_bytes) {
    fail("the trace reached its limit of " + std::to_string(limits.max_bytes) + " bytes", Writing::is_over);
    return false;
  }
  if (const int error = disk->reserve(deflate_runs_bound(raw) + kReserveBytes); error != 0) {
    incomplete = true;
    fail(std::generic_category().message(error), Writing::fails_now);
    return false;
  }
  return true;
}

/// A flush may write both buffers of an axis.
bool TraceWriter::Impl::room_for_flush() {
  const std::uint64_t most = limits.max_flushes > 0 ? limits.max_flushes : kMaxChunks;
  for (const auto& axis : axes) {
    if (axis->chunks + std::size(axis->buffers) <= most) continue;
    fail("a trace ends after 30 days; --retain rolling=24h keeps the last day of a longer job", Writing::is_over);
    return false;
  }
  return true;
}

void TraceWriter::Impl::fail(const std::string& why, Writing state) {
  const std::lock_guard lock(mutex);
  failure = why;
  writing = std::max(writing.load(), state);
}

void TraceWriter::Impl::note(std::int64_t time_ns, std::string_view code, std::string_view text) {
  const EventRecord record = record_of(Event{time_ns, "trace", std::string(code), std::string(text)});
  const std::lock_guard lock(mutex);
  if (events.size() < kEventSlots) events.push_back(record);
}

/// The increments of later rows cover the gap, because `previous` is not touched.
void TraceWriter::Impl::lose(const Axis& axis, const HandOver& handed) {
  std::uint64_t lost = 0;
  for (std::size_t slot = 0; slot < axis.families.size(); ++slot) lost += handed.buffer.rows_present(slot);
  rows_lost += lost;
  if (!gave_up) {
    std::string why;
    {
      const std::lock_guard lock(mutex);
      why = failure;
    }
    note(handed.buffer.times().front(), "rows_lost", "rows are lost: " + why);
  }
  gave_up = true;
}

void TraceWriter::Impl::write_buffer(Axis& axis, HandOver& handed) {
  const RowBuffer& buffer = handed.buffer;
  ++axis.chunks;
  for (std::size_t slot = 0; slot < axis.families.size(); ++slot) {
    const std::size_t index = axis.families[slot];
    Family& family = *families[index];
    write_keys(static_cast<FamilyId>(index));
    const std::size_t channel_count = handed.channels[slot];
    const bool increments = is_counted(family.spec.kind);
    if (increments)
      encode_increments(buffer, slot, channel_count, family.previous, scratch);
    else
      encode_levels(buffer, slot, channel_count, family.real ? kNanBits : kMissing, scratch);
    // A family that is not measured costs no chunk: its rows are fill values.
    const bool any = buffer.rows_present(slot) > 0;
    file->write_rows(index, channel_count, buffer.rows(), any ? scratch.values.data() : nullptr,
                     any ? std::span<const std::int64_t>(scratch.bases) : std::span<const std::int64_t>());
  }
  file->write_times(families[axis.families.front()]->axis, buffer.times());
}

void TraceWriter::Impl::write_keys(FamilyId id) {
  Family& family = *families[id];
  std::vector<ChannelKey> fresh;
  std::vector<std::pair<std::size_t, ChannelKey>> changed;
  {
    const std::lock_guard lock(mutex);
    family.previous.insert(family.previous.end(), family.before.begin(), family.before.end());
    family.before.clear();
    fresh.assign(family.keys.begin() + static_cast<std::ptrdiff_t>(family.keys_written), family.keys.end());
    for (const std::size_t channel : family.changed) {
      if (channel < family.keys_written) changed.emplace_back(channel, family.keys[channel]);
    }
    family.changed.clear();
  }
  for (const auto& [channel, key] : changed) file->write_channels(id, channel, {&key, 1});
  if (!fresh.empty()) file->write_channels(id, family.keys_written, fresh);
  family.keys_written += fresh.size();
}

void TraceWriter::Impl::write_records() {
  std::vector<EventRecord> new_events;
  std::vector<ClockPair> new_clocks;
  const std::uint64_t behind = rows_lost_behind.exchange(0);
  if (behind > 0)
    note(flushed_until, "rows_lost", std::to_string(behind) + " rows: the disk was slower than the collector");
  {
    const std::lock_guard lock(mutex);
    new_events = events;  // copies: the vectors keep their capacity, so that appending never allocates
    new_clocks = clocks;
    events.clear();
    clocks.clear();
    for_each_table(tables, [&]<class Row>(RowQueue<Row>& table) {
      table.taken = table.rows;
      table.rows.clear();
      const std::size_t room = RowTable<Row>::kMost - table.in_file;
      if (table.taken.size() > room) {
        table.lost += table.taken.size() - room;
        table.taken.resize(room);
      }
      if (table.lost == 0) return;
      new_events.push_back(
          record_of(Event{flushed_until, "trace", RowTable<Row>::kLost, std::to_string(std::exchange(table.lost, 0))}));
    });
    // Events are lost only while kEventSlots others wait: there is a first one.
    if (events_lost > 0) {
      const std::string lost = std::to_string(std::exchange(events_lost, 0)) + " events between two flushes";
      new_events.push_back(record_of(Event{new_events.front().time_ns, "trace", "events_lost", lost}));
    }
  }
  file->write_events(new_events);
  for_each_table(tables, [&]<class Row>(RowQueue<Row>& table) {
    file->write_table<Row>(table.taken);
    table.in_file += table.taken.size();
    std::vector<RowRecord<Row>>().swap(table.taken);
  });
  file->write_clocks(new_clocks);
}

void TraceWriter::end_rows() {
  Impl& impl = *impl_;
  if (impl.rows_ended) return;
  if (!impl.started) start();
  impl.rows_ended = true;
  impl.thread.request_stop();
  impl.work.release();
  impl.thread.join();
  impl.write_full(true);
}

void TraceWriter::close() {
  Impl& impl = *impl_;
  if (impl.closed) return;
  end_rows();
  impl.closed = true;
  if (!impl.broken) {
    impl.write_records();
    for (FamilyId id = 0; id < impl.families.size(); ++id) impl.write_keys(id);
    impl.file->write_coverage(impl.coverage);
    impl.file->write_end_snapshot(impl.end_snapshot);
    impl.file->close(!impl.incomplete);
    impl.disk->finish();
  }
  impl.bytes = impl.disk->size();
  if (impl.broken || impl.incomplete) {
    const Status end = status();
    const std::string place = impl.part.string() + ": ";
    throw Error((end.failure.starts_with(place) ? "" : place) + end.failure + "; " + std::to_string(end.rows_lost) +
                " rows were lost, the rows before them are kept");
  }
  rename_without_replacing(impl.part, impl.path);
  impl.make_compact();
}

/// A rewrite that does not succeed (no space, no memory, no time) costs nothing but the space it would have saved.
void TraceWriter::Impl::make_compact() {
  const bool one_segment = limits.retention.form != Retention::Form::summary && segment_begin == begin;
  if (one_segment && flushed_until - begin < kWorthRewriting) return;
  const std::filesystem::path small = trace_half(path, kCompactHalf);
  std::error_code ignored;
  std::filesystem::remove(small, ignored);  // left by a collector that was killed here
  try {
    if (!compact(path, small, limits.retention)) return;
    rename_and_sync(small, path);
    std::filesystem::remove(earlier_segment(path), ignored);
  } catch (const std::exception& error) {
    std::filesystem::remove(small, ignored);
    const std::lock_guard lock(mutex);
    not_rewritten = error.what();
  }
  bytes = std::filesystem::file_size(path, ignored);
}

}  // namespace reveal
