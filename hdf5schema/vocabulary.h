// The meaning of a number in a trace: the words that all writers and readers share.
// `Kind`, `Unit`, `Scope` and `Subsystem` are stored by name in every dataset, so a trace explains itself.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace reveal {

/// Missing value of an int64 dataset; float64 datasets use NaN. Never 0.
inline constexpr std::int64_t kMissing = std::numeric_limits<std::int64_t>::min();

/// gauge: a level, comparable as it is. counter: only the increase means something; stored as increments.
/// event: a counter of rare, discrete happenings (errors, drops, OOM). state: a small enumeration (for example a cpu
/// number).
enum class Kind : std::uint8_t { gauge, counter, event, state };

/// Stored, and compared, as increments; everything else as levels.
[[nodiscard]] constexpr bool is_counted(Kind kind) noexcept {
  return kind == Kind::counter || kind == Kind::event;
}

/// Base units. Times of counters are whole nanoseconds, and energies whole microjoules, so that they stay integers.
enum class Unit : std::uint8_t {
  count,
  bytes,
  nanoseconds,
  hertz,
  ratio,
  percent,
  celsius,
  watts,
  joules,
  microjoules
};

/// The object that one channel of a family describes.
enum class Scope : std::uint8_t { node, cpu, numa, device, interface, interrupt, cgroup, job, process, reveal };

/// The paper's five subsystems (section 4.4), plus the job's own processes and reveal itself.
enum class Subsystem : std::uint8_t { cpu, gpu, memory, network, storage, process, self };

[[nodiscard]] std::string_view name_of(Kind) noexcept;
[[nodiscard]] std::string_view name_of(Unit) noexcept;  // the HDF5 attribute `units`: "bytes", "ns", "Hz", ...
[[nodiscard]] std::string_view name_of(Scope) noexcept;
[[nodiscard]] std::string_view name_of(Subsystem) noexcept;
[[nodiscard]] std::optional<Kind> kind_of(std::string_view) noexcept;
[[nodiscard]] std::optional<Unit> unit_of(std::string_view) noexcept;
[[nodiscard]] std::optional<Scope> scope_of(std::string_view) noexcept;
[[nodiscard]] std::optional<Subsystem> subsystem_of(std::string_view) noexcept;

}  // namespace reveal
