#include "postproc/telemetry/trace_stream.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/joined_trace.h"
#include "hdf5schema/regular_rows.h"
#include "hdf5schema/row_tables.h"
#include "hdf5schema/utc_offset.h"
#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/derived.h"
#include "postproc/telemetry/programs.h"

namespace reveal {
namespace {

/// A month at 100 ms, far beyond any job's time limit at this rate; a broken time axis must not allocate all memory.
constexpr std::size_t kMostSamples = 27'000'000;
/// 8 GiB of numbers.
constexpr std::size_t kMostValues = std::size_t{1} << 30;
/// The rows read for the grid are several times as large as the result, and should stay in the cache.
constexpr std::size_t kTicksAtOnce = 1'200;
constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

/// A part that cannot be read is named, and the rest is analysed.
template <typename Part, typename Read>
void take(Part& part, std::string name, LostPart::Holds holds, std::vector<LostPart>& lost, const Read& read) {
  try {
    part = read();
  } catch (const Error& error) {
    lost.push_back({std::move(name), error.what(), holds});
  }
}

/// A family without names of its channels could have been any.
LostPart lost_part(const TraceReader::Damage& damage) {
  LostPart part{damage.part, damage.text()};
  if (damage.channels.empty()) return part;
  part.holds = LostPart::Holds::channels;
  Telemetry named;
  append_channels({damage.spec, damage.channels, {}, {}}, named);
  part.channels = std::move(named.channels);
  return part;
}

template <typename Record>
void append(std::vector<Record>& to, std::vector<Record> more) {
  if (to.empty()) {
    to = std::move(more);
  } else {
    to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
}

bool has_values(const JoinedFamily& family) {
  return family.rows() > 0 && family.channels() > 0;
}

}  // namespace

struct TraceStream::Impl {
  explicit Impl(const std::filesystem::path& path) : source(path) {}

  void open(const std::filesystem::path& path);
  void read_around(std::size_t family, std::size_t begin, std::size_t count);
  template <class Row>
  void read_table(std::vector<Row> NodeTrace::*table);

  std::optional<JoinedTrace> source;  // until it is closed
  NodeTrace trace;
  std::optional<Grid> grid;
  DerivedChannels derived;
  std::vector<FamilyRows> rows;                      // per family, read again and again
  std::vector<std::vector<std::size_t>> first_rows;  // per family and channel: the first one with a value
};

void TraceStream::Impl::open(const std::filesystem::path& path) {
  const TraceReader& reader = source->newest();
  trace.header = reader.header();
  trace.complete = reader.complete();
  std::vector<LostPart>& lost = trace.lost;
  for (const TraceReader* each : source->in_order()) {
    for (const TraceReader::Damage& damage : each->damages()) lost.push_back(lost_part(damage));
  }
  if (!source->left_out().empty()) lost.push_back({"earlier segment", "the previous segment: " + source->left_out()});
  std::vector<ClockPair> clocks;
  using Holds = LostPart::Holds;
  take(trace.begin, "node/begin", Holds::evidence, lost, [&] { return reader.snapshot_begin(); });
  take(trace.end, "node/end", Holds::evidence, lost, [&] { return reader.snapshot_end(); });
  take(trace.coverage, "coverage", Holds::nothing_judged, lost, [&] { return reader.coverage(); });
  for (const TraceReader* each : source->in_order()) {
    std::vector<Event> events;
    std::vector<ClockPair> pairs;
    take(events, "events", Holds::evidence, lost, [&] { return each->events(); });
    take(pairs, "clock", Holds::evidence, lost, [&] { return each->clocks(); });
    append(trace.events, std::move(events));
    append(clocks, std::move(pairs));
  }
  if (!lost.empty()) trace.notes.push_back("damaged and omitted: " + in_one_sentence(lost));
  note_clock(clocks, trace);
  note_losses(trace);

  const std::int64_t interval_ns = trace.header.interval.count();
  if (interval_ns <= 0) throw Error(path.string() + ": the trace names no sampling interval");
  Telemetry& telemetry = trace.telemetry;
  telemetry.node = trace.header.node;
  telemetry.step_seconds = static_cast<double>(interval_ns) * 1e-9;

  const JoinedFamily* pace = pace_of(source->families());
  if (pace == nullptr) {
    telemetry.begin_utc_ns = trace.header.begin_utc_ns;
    const std::int64_t first_event = trace.events.empty() ? 0 : trace.events.front().time_ns;
    trace.utc_minus_monotonic_ns = utc_offset_ns(clocks, trace.header, first_event);
    trace.notes.emplace_back("the trace holds fewer than two samples");
    return;
  }
  const std::int64_t first = pace->times().front();
  const std::int64_t last = pace->times().back();
  trace.utc_minus_monotonic_ns = utc_offset_ns(clocks, trace.header, first);
  grid.emplace(first, last, trace.utc_minus_monotonic_ns, trace.header.interval);
  if (grid->samples() > kMostSamples) {
    throw Error(
        fmt::format("{}: the time axis spans {} samples, more than any job has", path.string(), grid->samples()));
  }
  telemetry.step_seconds = static_cast<double>(grid->step_ns()) * 1e-9;
  telemetry.begin_utc_ns = grid->begin_utc_ns();
  trace.samples_expected = std::round(static_cast<double>(last - first) / static_cast<double>(interval_ns));
  trace.samples_present = static_cast<double>(pace->rows() - 1);
  for (const JoinedFamily& family : source->families()) {
    first_rows.emplace_back(family.channels(), kNever);
    rows.push_back({family.newest().spec, family.newest().channels, {}, {}});
  }
}

/// Returns the rows that can fill samples [begin, begin + count), and one more on either side: one for each period, so
/// that windows of a time in which the collector read faster can be compared with the others.
void TraceStream::Impl::read_around(std::size_t index, std::size_t begin, std::size_t count) {
  const JoinedFamily& family = source->families()[index];
  const std::span<const std::int64_t> time_ns = family.times();
  FamilyRows& around = rows[index];
  std::vector<std::size_t>& first_row = first_rows[index];
  const std::int64_t reach = reach_of(family.newest().spec, trace.telemetry.step_seconds) + 1;
  const auto row_at = [&](std::int64_t sample) {
    const auto at = std::partition_point(time_ns.begin(), time_ns.end(),
                                         [&](std::int64_t time) { return grid->index(time) < sample; });
    return static_cast<std::size_t>(at - time_ns.begin());
  };
  std::size_t first = row_at(static_cast<std::int64_t>(begin) - reach);
  first -= std::min<std::size_t>(first, 1);
  const std::size_t end = std::min(time_ns.size(), row_at(static_cast<std::int64_t>(begin + count) + reach) + 1);
  const auto times = time_ns.subspan(first, end - first);
  around.time_ns.assign(times.begin(), times.end());
  family.read(first, end - first, around.values);
  around.seen_before.clear();
  for (std::size_t c = 0; c < family.channels(); ++c) {
    around.seen_before.push_back(first_row[c] < first);
    const auto values = std::span(around.values).subspan(c * times.size(), times.size());
    for (std::size_t row = 0; first_row[c] == kNever && row < values.size(); ++row) {
      if (!std::isnan(values[row])) first_row[c] = first + row;
    }
  }
  merge_extra_rows(around.spec, trace.utc_minus_monotonic_ns, around.time_ns, around.values);
}

TraceStream::TraceStream(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {
  impl_->open(path);
  if (samples() == 0) return;
  impl_->trace.telemetry.channels = read(0, 1).channels;
  name_programs(impl_->trace.events, {}, impl_->trace.telemetry.channels);
  impl_->derived = DerivedChannels();  // a single sample decides nothing
}

TraceStream::~TraceStream() = default;

const NodeTrace& TraceStream::trace() const& {
  return impl_->trace;
}

NodeTrace TraceStream::trace() && {
  return std::move(impl_->trace);
}

std::string TraceStream::long_name(std::string_view family) const {
  for (const JoinedFamily& each : impl_->source->families()) {
    const FamilySpec& spec = each.newest().spec;
    if (spec.path == family) return fmt::format("{} ({})", spec.long_name, spec.source);
  }
  return "";
}

template <class Row>
std::size_t TraceStream::table_size() const {
  std::size_t count = 0;
  for (const TraceReader* each : impl_->source->in_order()) count += each->table_size<Row>();
  return count;
}
template std::size_t TraceStream::table_size<TrainingStep>() const;
template std::size_t TraceStream::table_size<SampledCollective>() const;

/// A table that cannot be read is noted.
template <class Row>
void TraceStream::Impl::read_table(std::vector<Row> NodeTrace::*table) {
  std::vector<LostPart> lost;
  for (const TraceReader* each : source->in_order()) {
    std::vector<Row> part;
    take(part, RowTable<Row>::kName, LostPart::Holds::evidence, lost, [each] { return each->table<Row>(); });
    append(trace.*table, std::move(part));
  }
  if (lost.empty()) return;
  trace.notes.push_back("damaged and omitted: " + in_one_sentence(lost));
  append(trace.lost, std::move(lost));
}

void TraceStream::read_tables() {
  impl_->read_table(&NodeTrace::steps);
  impl_->read_table(&NodeTrace::collectives);
}

std::size_t TraceStream::samples() const {
  return impl_->grid ? impl_->grid->samples() : 0;
}

Telemetry TraceStream::read(std::size_t begin, std::size_t count) {
  Telemetry piece;
  read(begin, count, piece);
  return piece;
}

void TraceStream::read(std::size_t begin, std::size_t count, Telemetry& piece) {
  const auto at_once =
      std::max<std::size_t>(1, kTicksAtOnce / static_cast<std::size_t>(ticks_in_step(impl_->trace.header.interval)));
  if (count > at_once || count == samples()) {
    read_in_parts(begin, count, at_once, piece);
  } else {
    read_measured(begin, count, piece);
  }
  impl_->derived.append_to(piece);
}

/// In fresh memory, in which channels that count nothing take none.
void TraceStream::read_in_parts(std::size_t begin, std::size_t count, std::size_t at_once, Telemetry& piece) {
  const Telemetry& job = impl_->trace.telemetry;
  if (job.channels.size() * count > kMostValues) {
    throw Error(
        fmt::format("{}: {} channels of {} samples are too many to analyse", job.node, job.channels.size(), count));
  }
  piece = Telemetry{.node = job.node,
                    .step_seconds = job.step_seconds,
                    .begin_utc_ns = job.begin_utc_ns + static_cast<std::int64_t>(begin) * impl_->grid->step_ns(),
                    .samples = count,
                    .channels = {},
                    .values = {}};
  const std::vector<JoinedFamily>& families = impl_->source->families();
  for (std::size_t f = 0; f < families.size(); ++f) {
    if (has_values(families[f])) append_channels(impl_->rows[f], piece);
  }
  piece.values.reserve((piece.channels.size() + kDerivedChannels) * count);
  piece.values.resize(piece.channels.size() * count);
  for (std::size_t at = 0; at < count; at += at_once) {
    const std::size_t samples = std::min(at_once, count - at);
    lay_part_on_grid(*impl_->grid, begin + at, samples, families.size(), rows_around(begin + at, samples), at, piece);
  }
}

void TraceStream::close() {
  impl_->source.reset();
  impl_->rows = {};
}

/// The rows of one family after the other, in the memory of the one before.
RowsOf TraceStream::rows_around(std::size_t begin, std::size_t count) {
  return [this, begin, count](std::size_t f) -> const FamilyRows* {
    std::vector<FamilyRows>& rows = impl_->rows;
    rows[f].values.swap(rows[f > 0 ? f - 1 : rows.size() - 1].values);
    if (!has_values(impl_->source->families()[f])) return nullptr;
    impl_->read_around(f, begin, count);
    return &rows[f];
  };
}

void TraceStream::read_measured(std::size_t begin, std::size_t count, Telemetry& piece) {
  piece.node = impl_->trace.telemetry.node;
  const std::vector<JoinedFamily>& families = impl_->source->families();
  std::size_t channels = kDerivedChannels;
  for (const JoinedFamily& family : families) channels += has_values(family) ? family.channels() : 0;
  piece.values.reserve(channels * count);
  lay_on_grid(*impl_->grid, begin, count, families.size(), rows_around(begin, count), piece);
}

}  // namespace reveal
