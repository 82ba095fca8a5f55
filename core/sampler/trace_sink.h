// The destination of measured values: families of channels, written to a trace, or nowhere (`--check`, tests, which
// look at the families themselves).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/sampler/row_publisher.h"
#include "hdf5schema/trace_writer.h"

namespace reveal {

struct MetricHelp {
  std::string_view name;  // "cpu.user"; "vmstat.<key>" where the kernel names them
  std::string_view help;
};

/// One family as a row of a probe's table; its period is the probe's.
struct FamilyTable {
  std::string_view path;  // "cpu/times"
  Kind kind = Kind::gauge;
  Unit unit = Unit::count;
  Scope scope = Scope::node;
  Subsystem subsystem = Subsystem::cpu;
  std::string_view long_name;
  std::string_view source;
  std::span<const MetricHelp> metrics;
};

class MetricSelection;
class TraceSink;

/// A row of values that become one column of the dataset per commit(). A channel that is not selected has a place in
/// the row only, so that probes treat all channels alike.
class Family {
 public:
  static constexpr std::int32_t kNoChannel = -1;
  /// Channels of one family that appear after the first look at everything. Far more than a host has reason to add:
  /// probes limit changing instances themselves (core/sampler/instances.h).
  static constexpr std::size_t kMostLater = 2048;

  Family(TraceSink& sink, const FamilySpec& spec);

  /// Slow; for new channels. Returns its place in the row; kNoChannel if there were too many. `before`: the value of a
  /// counter until now, if known.
  std::int32_t add(std::string_view metric, std::string_view instance = {}, std::string_view role = "node",
                   std::int64_t before = kMissing);
  /// All metrics of a table for one instance. Returns the place of the first one; the others follow.
  std::int32_t add_all(std::span<const MetricHelp> metrics, std::string_view instance = {});
  void died(std::int32_t channel);
  /// Reserves space in the trace for so many more channels. Call it before the trace begins.
  void expect(std::size_t later);

  void begin() noexcept;  // everything missing
  void set(std::int32_t channel, std::int64_t value) noexcept {
    const auto place = static_cast<std::size_t>(channel);
    if (channel < 0 || place >= row_.size()) return;
    row_[place] = value;
    blocks_set_ |= std::uint64_t{1} << (place / kBlock % kBlockBits);
  }
  /// A counter that fell has no increment; that it did is an event.
  void commit() noexcept;
  /// The same for a row of another time, which is after the last one's.
  void commit_at(std::int64_t time_ns) noexcept;

  [[nodiscard]] const FamilySpec& spec() const noexcept { return spec_; }
  using Channels = std::vector<std::reference_wrapper<const ChannelKey>>;
  [[nodiscard]] const Channels& channels() const noexcept { return channels_; }
  /// Places in the row of the channels that the trace has.
  [[nodiscard]] std::span<const std::int32_t> stored() const noexcept { return stored_; }
  /// The row as committed last.
  [[nodiscard]] std::span<const std::int64_t> row() const noexcept { return row_; }
  /// The value of a channel in it; kMissing if there is no such channel.
  [[nodiscard]] std::int64_t value(std::string_view metric, std::string_view instance = {}) const noexcept;

 private:
  static constexpr std::size_t kBlock = 16;  // channels
  static constexpr std::size_t kBlockBits = 64;
  void notice_resets() noexcept;

  // Members that each tick needs come first: the processor's caches have lost them since the last one.
  TraceSink& sink_;
  TraceWriter::FamilyId id_ = 0;
  bool counted_ = false;
  std::vector<std::int64_t> row_;
  std::vector<std::int32_t> stored_;             // places in the row of the channels that the trace has, in its order
  std::uint64_t blocks_set_ = ~std::uint64_t{};  // those with a channel that was set since the last row
  std::vector<std::int64_t> last_;               // known of each channel; of counters
  std::int64_t next_reset_event_ns_ = 0;
  std::vector<std::int64_t> stored_row_;  // as long as stored_; only where not all are stored
  FamilySpec spec_;
  Channels channels_;
  std::deque<ChannelKey> own_keys_;  // channels that the trace does not have: it keeps the others
  std::size_t later_ = 0;
};

class TraceSink {
 public:
  explicit TraceSink(TraceWriter* writer = nullptr) : writer_(writer) {}
  TraceSink(const TraceSink&) = delete;
  TraceSink& operator=(const TraceSink&) = delete;

  /// `faster`, `clock`, `longest_rest`: see FamilySpec.
  Family& add_family(const FamilyTable& table, std::chrono::nanoseconds period, std::chrono::nanoseconds faster = {},
                     std::string_view clock = {}, std::optional<std::chrono::nanoseconds> longest_rest = {});
  /// Writes at most 512 events of one code at once, then one every ten seconds, which has the number of those left out.
  /// For a code with a fixed number of objects, such as ranks, each object may have as many.
  enum class Budget : std::uint8_t { of_code, of_object };
  void event(std::string object, std::string code, std::string text = {}, Budget budget = Budget::of_code);
  void step(const TrainingStep& step);
  void collective(const SampledCollective& collective);

  /// While muted, rows are filled but not written: the first look at everything, before the trace has begun.
  void mute(bool muted) noexcept { muted_ = muted; }
  /// Writes the rows as they are: those of the first look, once the trace has begun.
  void commit_all(std::int64_t time_ns) noexcept;
  /// From now on only channels that it takes are written. It must outlive the sink's use.
  void select(MetricSelection* selection) noexcept { selection_ = selection; }
  /// Publishes the rows for `reveal watch`, too; nullptr: no more.
  void publish_by(RowPublisher* publisher) noexcept { publisher_ = publisher; }
  void set_now(std::int64_t time_ns) noexcept { now_ns_ = time_ns; }
  [[nodiscard]] std::int64_t now() const noexcept { return now_ns_; }
  [[nodiscard]] TraceWriter* writer() const noexcept { return writer_; }
  [[nodiscard]] const std::deque<Family>& families() const noexcept { return families_; }
  [[nodiscard]] const Family* find(std::string_view path) const noexcept;
  [[nodiscard]] std::uint64_t channels() const noexcept { return channels_; }
  [[nodiscard]] std::uint64_t rows_lost() const noexcept { return rows_lost_; }
  [[nodiscard]] std::uint64_t channels_refused() const noexcept { return channels_refused_; }

 private:
  friend class Family;
  struct EventBudget {
    std::int64_t spent_until_ns = std::numeric_limits<std::int64_t>::min();
    std::uint64_t left_out = 0;
  };
  TraceWriter* writer_;
  std::map<std::string, EventBudget> event_budgets_;  // by code, or code and object
  MetricSelection* selection_ = nullptr;              // null: everything
  RowPublisher* publisher_ = nullptr;
  std::int64_t now_ns_ = 0;
  bool muted_ = false;
  std::uint64_t channels_ = 0;
  std::uint64_t rows_lost_ = 0;
  std::uint64_t channels_refused_ = 0;
  std::deque<Family> families_;  // addresses stay
};

}  // namespace reveal
