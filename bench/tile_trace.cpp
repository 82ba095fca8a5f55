// Traces of any size from a real recording: for measuring how analysis grows with nodes, hours and channels.
//
//   tile_trace RECORDING OUT --nodes 4 --hours 0.2 --channels 700
//   tile_trace RECORDING OUT --hours 1 --disturbed OTHER --piece 30:45 --at 1800     that piece of OTHER, on the last
//   node
//
// Pieces of 20 to 60 s of RECORDING follow each other in random order. `--channels`: that many that change, by further
// copies of them (other instances), each of which goes through its own pieces, so that no copy equals another. Ticks
// are some milliseconds off, and now and then some are missing. Counters go on; a level that drifts goes on from its
// last.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/trace_file.h"
#include "hdf5schema/trace_reader.h"

namespace {

using namespace reveal;

constexpr double kEdgeSeconds = 8;  // left out at both ends of the recording: imports and tear-down
constexpr double kShortestPiece = 20;
constexpr double kLongestPiece = 60;
constexpr double kGapsPerHour = 6;
constexpr double kLongestGap = 3;
constexpr double kJitterSeconds = 0.002;
constexpr double kDriftCrossings = 0.2;  // per second: a level that crosses its median less often drifts
constexpr std::size_t kChunkSeconds = 60;

struct Options {
  std::string recording, out, disturbed, piece = "0:0";
  int nodes = 1;
  double hours = 1;
  std::size_t channels = 0;
  double at = 0;
  std::uint64_t seed = 1;
};

/// A family of a recording, in memory.
struct Source {
  TraceReader::Family family;
  std::vector<double> values;  // [channel][row], NaN where missing
  std::vector<bool> changes;   // per channel
  std::vector<bool> drifts;

  [[nodiscard]] double period() const { return std::chrono::duration<double>(family.spec.period).count(); }
  [[nodiscard]] std::size_t rows() const { return family.time_ns.size(); }
  [[nodiscard]] double value(std::size_t channel, double seconds) const {
    const auto row = static_cast<std::size_t>(std::max(0L, std::lround(seconds / period())));
    return values[channel * rows() + std::min(row, rows() - 1)];
  }
};

void describe(Source& source) {
  for (std::size_t c = 0; c < source.family.channels.size(); ++c) {
    std::vector<double> present;
    for (std::size_t row = 2; row < source.rows(); ++row) {
      const double value = source.values[c * source.rows() + row];
      if (!std::isnan(value)) present.push_back(value);
    }
    std::vector<double> sorted = present;
    std::sort(sorted.begin(), sorted.end());
    const double median = sorted.empty() ? 0 : sorted[sorted.size() / 2];
    std::size_t crossings = 0;
    for (std::size_t i = 1; i < present.size(); ++i) crossings += (present[i] > median) != (present[i - 1] > median);
    const double seconds = static_cast<double>(present.size()) * source.period();
    source.changes.push_back(!sorted.empty() && sorted.front() != sorted.back());
    source.drifts.push_back(source.family.spec.kind == Kind::gauge &&
                            static_cast<double>(crossings) < kDriftCrossings * seconds);
  }
}

struct Recording {
  explicit Recording(const std::string& path) : reader(path) {
    for (const TraceReader::Family& family : reader.families()) {
      if (family.time_ns.size() < 2 || family.channels.empty()) continue;
      sources.push_back({family, reader.read(family), {}, {}});
      describe(sources.back());
      seconds = std::max(seconds, static_cast<double>(family.time_ns.back() - family.time_ns.front()) * 1e-9);
    }
    if (seconds < 2 * kEdgeSeconds + kShortestPiece) throw Error(path + ": is too short to be cut into pieces");
  }
  TraceReader reader;
  std::vector<Source> sources;
  double seconds = 0;
};

/// The second of the recording that is copied to a second of the new trace.
class Pieces {
 public:
  Pieces(double recorded, double wanted, std::mt19937_64& engine) {
    std::uniform_real_distribution<double> length(kShortestPiece, kLongestPiece);
    begins_.push_back({0, 0});  // the recording's own start
    double at = kEdgeSeconds;
    while (at < wanted - kEdgeSeconds) {
      const double piece = std::min(length(engine), recorded - 2 * kEdgeSeconds);
      std::uniform_real_distribution<double> from(kEdgeSeconds, recorded - kEdgeSeconds - piece);
      begins_.push_back({at, from(engine)});
      at += piece;
    }
    begins_.push_back({wanted - kEdgeSeconds, recorded - kEdgeSeconds});
  }
  struct Place {
    double seconds;
    std::size_t piece;
  };
  [[nodiscard]] Place at(double seconds) {
    if (seconds < begins_[now_].at) now_ = 0;
    while (now_ + 1 < begins_.size() && begins_[now_ + 1].at <= seconds) ++now_;
    return {begins_[now_].from + seconds - begins_[now_].at, now_};
  }

 private:
  struct Begin {
    double at, from;
  };
  std::vector<Begin> begins_;
  std::size_t now_ = 0;
};

/// A channel of the new trace.
struct Copy {
  std::size_t channel = 0;  // channel of the source
  std::size_t copy = 0;
  std::optional<std::size_t> disturbed;  // the same channel of the other recording
  double offset = 0;                     // offset of a drifting level
  double last = 0;
  std::size_t piece = 0;
  std::int64_t absolute = 1'000'000;
  double skipped = 0;  // increments of missing ticks
};

class Node {
 public:
  Node(const Recording& recording, const Recording* other, const Options& options, int index)
      : recording_(recording), other_(other), options_(options), engine_(options.seed * 1000 + index) {
    seconds_ = options.hours * 3600;
    const auto gaps = static_cast<std::size_t>(std::lround(kGapsPerHour * options.hours));
    std::uniform_real_distribution<double> anywhere(kEdgeSeconds, seconds_ - kEdgeSeconds);
    std::uniform_real_distribution<double> length(0.1, kLongestGap);
    for (std::size_t i = 0; i < gaps; ++i) {
      const double begin = anywhere(engine_);
      gaps_.push_back({begin, begin + length(engine_)});
    }
    std::sort(gaps_.begin(), gaps_.end());
    if (std::sscanf(options.piece.c_str(), "%lf:%lf", &piece_begin_, &piece_end_) != 2)
      throw Error("--piece wants BEGIN:END in seconds");
  }

  void write(const std::filesystem::path& path, const std::string& name) {
    TraceHeader header = recording_.reader.header();
    header.node = name;
    TraceFile file(path, header, TraceFile::Form::closed);
    std::map<std::string, std::size_t> axes;
    std::vector<std::size_t> copies = copies_of();
    const std::size_t most = *std::max_element(copies.begin(), copies.end());
    for (std::size_t i = 0; i < most; ++i) pieces_.emplace_back(recording_.seconds, seconds_, engine_);
    for (std::size_t i = 0; i < recording_.sources.size(); ++i) {
      const FamilySpec& spec = recording_.sources[i].family.spec;
      const std::string axis = period_name(spec.period) + (spec.clock.empty() ? "" : "_" + spec.clock);
      if (axes.count(axis) == 0) axes[axis] = file.add_axis(axis, rows_per_chunk(recording_.sources[i]));
      layout_.push_back({axes[axis], keys(recording_.sources[i], copies[i])});
      const std::size_t channels = layout_.back().copies.size();
      file.add_family(spec, axes[axis], closed_channels_per_chunk(channels, rows_per_chunk(recording_.sources[i])),
                      channels);
    }
    file.write_snapshot(recording_.reader.snapshot_begin(), recording_.reader.topology_xml());
    file.start();
    for (std::size_t i = 0; i < layout_.size(); ++i) write_family(file, i);
    const std::vector<ClockPair> clocks = recording_.reader.clocks();
    if (!clocks.empty()) file.write_clocks(std::span(clocks).first(1));
    file.write_coverage(recording_.reader.coverage());
    file.write_end_snapshot(recording_.reader.snapshot_end());
    file.close(true);
  }

 private:
  struct Layout {
    std::size_t axis;
    std::vector<Copy> copies;
  };

  static std::size_t rows_per_chunk(const Source& source) {
    return std::max<std::size_t>(
        1, static_cast<std::size_t>(std::lround(static_cast<double>(kChunkSeconds) / source.period())));
  }

  /// Per source, how often its changing channels are there, so that the requested number changes.
  [[nodiscard]] std::vector<std::size_t> copies_of() const {
    std::vector<std::size_t> copies(recording_.sources.size(), 1);
    const auto changing = [](const Source& source) {
      return static_cast<std::size_t>(std::count(source.changes.begin(), source.changes.end(), true));
    };
    std::size_t now = 0;
    for (const Source& source : recording_.sources) now += changing(source);
    for (std::size_t i = 0; now < options_.channels; i = (i + 1) % copies.size()) {
      const Source& source = recording_.sources[i];
      if (source.family.spec.subsystem == Subsystem::self || source.family.spec.kind == Kind::state) continue;
      ++copies[i];
      now += changing(source);
    }
    return copies;
  }

  [[nodiscard]] std::vector<Copy> keys(const Source& source, std::size_t copies) const {
    std::vector<Copy> all;
    for (std::size_t copy = 0; copy < copies; ++copy) {
      for (std::size_t c = 0; c < source.family.channels.size(); ++c) {
        if (copy == 0 || source.changes[c]) all.push_back({.channel = c, .copy = copy, .disturbed = {}});
      }
    }
    return all;
  }

  /// Time of the n-th tick; nothing when it is missing.
  [[nodiscard]] std::optional<std::int64_t> tick(double period, std::size_t n) const {
    const double at = static_cast<double>(n) * period;
    const auto next = std::upper_bound(gaps_.begin(), gaps_.end(), Gap{at, at});
    if (next != gaps_.begin() && at < std::prev(next)->end) return std::nullopt;
    std::mt19937_64 engine(n * 77 + static_cast<std::size_t>(period * 1e3));
    const double late = std::abs(std::normal_distribution<double>(0, kJitterSeconds)(engine));
    return begin_ns() + std::llround((at + std::min(late, period / 4)) * 1e9);
  }

  [[nodiscard]] std::int64_t begin_ns() const { return recording_.sources.front().family.time_ns.front(); }

  [[nodiscard]] double value(const Source& source, const Source* other, Copy& copy, double seconds) {
    const bool disturbed = other != nullptr && copy.copy == 0 && copy.disturbed && seconds >= options_.at &&
                           seconds < options_.at + piece_end_ - piece_begin_;
    if (disturbed) return other->value(*copy.disturbed, piece_begin_ + seconds - options_.at);
    const Pieces::Place place = pieces_[copy.copy].at(seconds);
    double value = source.value(copy.channel, place.seconds);
    if (!source.drifts[copy.channel] || std::isnan(value)) return value;
    if (place.piece != copy.piece) {
      const double joined = copy.last - value;
      copy.offset = std::abs(joined) < std::abs(value) / 2 ? std::round(joined) : 0;
    }
    copy.piece = place.piece;
    return copy.last = value + copy.offset;
  }

  void write_family(TraceFile& file, std::size_t index) {
    const Source& source = recording_.sources[index];
    std::vector<Copy>& copies = layout_[index].copies;
    const Source* other = match(source, copies);
    std::vector<ChannelKey> named;
    for (const Copy& copy : copies) {
      ChannelKey key = source.family.channels[copy.channel];
      key.born_ns = begin_ns();
      key.died_ns = 0;
      if (copy.copy > 0) key.instance += "copy" + std::to_string(copy.copy);
      named.push_back(key);
    }
    file.write_channels(index, 0, named);
    const auto ticks = static_cast<std::size_t>(seconds_ / source.period());
    const std::size_t per_chunk = rows_per_chunk(source);
    const bool first_of_axis = times_written_.insert(layout_[index].axis).second;
    std::vector<std::int64_t> times;
    std::vector<std::vector<double>> rows;
    for (std::size_t n = 0; n <= ticks; ++n) {
      const std::optional<std::int64_t> at = n < ticks ? tick(source.period(), n) : std::nullopt;
      if (n < ticks) {
        std::vector<double> row = row_of(source, other, copies, static_cast<double>(n) * source.period(), n, !!at);
        if (at) {
          times.push_back(*at);
          rows.push_back(std::move(row));
        }
      }
      if (rows.size() < per_chunk && n < ticks) continue;
      if (rows.empty()) break;
      if (first_of_axis) file.write_times(layout_[index].axis, times);
      write_chunk(file, index, source, rows);
      times.clear();
      rows.clear();
    }
  }

  /// The increment of a missing tick is in the next one.
  std::vector<double> row_of(const Source& source, const Source* other, std::vector<Copy>& copies, double seconds,
                             std::size_t n, bool present) {
    std::vector<double> row;
    const bool increments = is_counted(source.family.spec.kind);
    for (Copy& copy : copies) {
      double now = value(source, other, copy, seconds);
      if (increments && n == 0) now = std::nan("");
      if (increments && !std::isnan(now)) {
        now += copy.skipped;
        copy.skipped = present ? 0 : now;
      }
      row.push_back(now);
    }
    return row;
  }

  static void write_chunk(TraceFile& file, std::size_t index, const Source& source,
                          const std::vector<std::vector<double>>& rows) {
    const FamilySpec& spec = source.family.spec;
    const std::size_t channels = rows.front().size();
    std::vector<double> reals(channels * rows.size());
    std::vector<std::int64_t> stored(reals.size(), kMissing);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t c = 0; c < channels; ++c) {
        reals[c * rows.size() + row] = rows[row][c];
        if (!std::isnan(rows[row][c])) stored[c * rows.size() + row] = std::llround(rows[row][c]);
      }
    }
    std::vector<std::int64_t> bases;
    if (is_counted(spec.kind)) bases.assign(channels, 0);
    const bool real = stored_as_real(spec.kind, spec.unit);
    const void* values = real ? static_cast<const void*>(reals.data()) : stored.data();
    file.write_rows(index, channels, rows.size(), values, bases);
  }

  /// The family of the other recording, and in `copies` its channels.
  [[nodiscard]] const Source* match(const Source& source, std::vector<Copy>& copies) const {
    if (other_ == nullptr) return nullptr;
    for (const Source& candidate : other_->sources) {
      if (candidate.family.spec.path != source.family.spec.path) continue;
      for (Copy& copy : copies) {
        const ChannelKey& key = source.family.channels[copy.channel];
        for (std::size_t c = 0; c < candidate.family.channels.size(); ++c) {
          const ChannelKey& theirs = candidate.family.channels[c];
          if (theirs.metric == key.metric && theirs.instance == key.instance) copy.disturbed = c;
        }
      }
      return &candidate;
    }
    return nullptr;
  }

  struct Gap {
    double begin, end;
    bool operator<(const Gap& other) const { return begin < other.begin; }
  };

  const Recording& recording_;
  const Recording* other_;
  const Options& options_;
  std::mt19937_64 engine_;
  double seconds_ = 0;
  double piece_begin_ = 0, piece_end_ = 0;
  std::vector<Gap> gaps_;
  std::vector<Pieces> pieces_;  // per copy
  std::vector<Layout> layout_;
  std::set<std::size_t> times_written_;
};

void run(const Options& options) {
  const Recording recording(options.recording);
  std::optional<Recording> other;
  if (!options.disturbed.empty()) other.emplace(options.disturbed);
  std::filesystem::create_directories(options.out);
  for (int i = 0; i < options.nodes; ++i) {
    char name[16];
    std::snprintf(name, sizeof(name), "n%02d", i + 1);
    const bool last = i + 1 == options.nodes;
    Node(recording, other && last ? &*other : nullptr, options, i)
        .write(std::filesystem::path(options.out) / (std::string(name) + ".h5"), name);
  }
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app("Makes traces of any size from a recording");
  app.add_option("recording", options.recording, "a trace")->required();
  app.add_option("out", options.out, "a folder for the new traces")->required();
  app.add_option("--nodes", options.nodes, "how many traces")->check(CLI::PositiveNumber);
  app.add_option("--hours", options.hours, "length of each")->check(CLI::PositiveNumber);
  app.add_option("--channels", options.channels, "channels that change, at least");
  app.add_option("--disturbed", options.disturbed, "a trace to take a disturbed piece from");
  app.add_option("--piece", options.piece, "which one, BEGIN:END in seconds");
  app.add_option("--at", options.at, "where to put it, in seconds");
  app.add_option("--seed", options.seed, "of the random choice");
  CLI11_PARSE(app, argc, argv);
  run(options);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tile_trace: %s\n", error.what());
    return 1;
  }
}
