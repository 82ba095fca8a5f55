// Names, widths and record layouts of the file, shared by writers and readers. Explained in README.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "hdf5schema/trace.h"

namespace reveal {

inline constexpr std::string_view kSchemaName = "reveal.trace";

inline constexpr std::size_t kMetricWidth = 64;
inline constexpr std::size_t kInstanceWidth = 64;
inline constexpr std::size_t kRoleWidth = 8;

/// While it is recorded, the time axis of every dataset ends here: 30 days of flushes. A second unlimited axis would
/// make HDF5 index chunks with a B-tree, which in SWMR mode copies a 2 KiB node per dataset and flush (measured: 7.6 MB
/// instead of 0.26 MB after 10 minutes of 60 datasets). With one unlimited axis, the channels, it uses an array that
/// grows in place. A closed file is indexed by the B-tree of HDF5 1.8, with nodes of any small size.
inline constexpr std::uint64_t kMaxChunks = std::uint64_t{1} << 18;

/// A chunk of a closed file: as long as five minutes, and as many channels as fit into the megabyte that every reader
/// keeps by default. Larger ones are no smaller; shorter ones are.
inline constexpr std::chrono::seconds kClosedChunkTime{300};
inline constexpr std::size_t kClosedChunkValues = std::size_t{1} << 17;

/// How many channels of a closed family share a chunk: as many in every one.
[[nodiscard]] constexpr std::size_t closed_channels_per_chunk(std::size_t channels, std::size_t rows) noexcept {
  const std::size_t most = kClosedChunkValues / (rows == 0 ? 1 : rows);
  if (most == 0) return 1;
  if (channels <= most) return channels == 0 ? 1 : channels;
  const std::size_t chunks = (channels + most - 1) / most;
  return (channels + chunks - 1) / chunks;
}

struct EventRecord {
  std::int64_t time_ns;
  char object[64];
  char code[32];
  char text[192];
};

struct CoverageRecord {
  char probe[48];
  char state[8];
  char reason[240];
};

struct LifeRecord {
  std::int64_t born_ns;
  std::int64_t died_ns;  // 0: alive at the end
};

/// Levels in a unit that comes in fractions are float64; everything else is int64, exactly as in the kernel's text.
[[nodiscard]] constexpr bool stored_as_real(Kind kind, Unit unit) noexcept {
  if (kind != Kind::gauge) return false;
  return unit == Unit::ratio || unit == Unit::percent || unit == Unit::celsius || unit == Unit::watts ||
         unit == Unit::joules;
}

[[nodiscard]] inline bool stored_as_real(const FamilySpec& spec) noexcept {
  return spec.real || stored_as_real(spec.kind, spec.unit);
}

/// 100 ms -> "100ms", 10 s -> "10s": part of an axis' name.
[[nodiscard]] std::string period_name(std::chrono::nanoseconds period);
/// "100ms", or "10s_nfs" where the family has a clock of its own.
[[nodiscard]] std::string axis_name(const FamilySpec& spec);

/// A row for each family of a closed file, so that later losses are seen: see StoredChunks.
struct StoredRecord {
  char path[128];
  std::int64_t channels;
  std::int64_t rows;
  std::int64_t chunks;
  std::int64_t digest;
};

/// Copies as much as fits and fills up with zeros; a full field has no terminator, as HDF5's null-padded strings.
template <std::size_t N>
void copy_text(char (&field)[N], std::string_view text) noexcept {
  for (std::size_t i = 0; i < N; ++i) field[i] = i < text.size() ? text[i] : '\0';
}

[[nodiscard]] EventRecord record_of(const Event& event) noexcept;

}  // namespace reveal
