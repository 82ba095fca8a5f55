// Where in a function a breakpoint is cheap. The kernel emulates a few instructions; all others it must single-step out
// of line, which costs nine microseconds instead of one in a virtual machine: such a function is not measured.
// https://docs.kernel.org/trace/uprobetracer.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace reveal {

/// How far behind its begin the function that starts with this x86-64 code can be probed: 0, or behind endbr64 and an
/// instruction that leaves arguments and stack as they were. Nothing where the kernel would single-step.
[[nodiscard]] std::optional<std::uint64_t> cheap_probe_at(std::span<const std::byte> code) noexcept;

/// The bytes of a function that are needed for the decision.
inline constexpr std::size_t kFirstInstructions = 16;

}  // namespace reveal
