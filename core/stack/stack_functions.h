// The functions of a job's software stack that the probe "stack" counts, one row each. Adding one is adding a row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reveal {

/// How to compute the bytes to move or allocate from a function's arguments.
enum class ByteRule : std::uint8_t {
  none,        // they do not
  plain,       // one of them is a number of bytes
  nccl_count,  // one is a number of elements, the next one their ncclDataType_t
  gloo_count,  // one is the address of options, with a number of elements and their size at `offset`
  unknown,     // ranks exchange data, and no argument has their amount
};

/// How it ends. The kernel measures a duration by exchanging the return address on the stack. A C++ exception that
/// comes by does not find its way then, and the program is terminated: a function that may throw is counted at its
/// entry only.
enum class Ending : std::uint8_t {
  may_throw,
  catches_all,     // it returns nothing, and no exception leaves it: exceptions are caught inside
  returns_status,  // an int: 0 is success
  between_marks,   // it is no function: it begins at one mark of the program, and ends at another (USDT)
};

/// The role of a call in a training step.
enum class PartOfStep : std::uint8_t {
  none,
  clock,          // one call for each step
  waiting,        // it ends when other ranks or the GPU have come so far
  communication,  // a collective, which threads of a process carry out beside each other and beside the computing
  gc,             // Python's garbage collector
};

/// The order in which functions rest, if counting all of them costs too much. They are not counted while they rest.
enum class Rests : std::uint8_t {
  first,    // no rule needs it
  by_cost,  // the dearest of these first
  last,     // the steps
};

/// The place of a call's communicator, if that is none of its arguments, which are numbered from 1.
inline constexpr int kInOptions = -1;  // gloo: the first member of the options
/// NCCL: the call stores it at the first argument. The second one is the number of ranks, then come the id that these
/// share, which lies on the stack, and the own rank.
inline constexpr int kMadeByCall = -2;
inline constexpr int kNoLongerThere = -3;  // NCCL: the first argument, which the call destroys

struct StackFunction {
  std::string_view name;                      // as its channels are called
  std::array<std::string_view, 3> libraries;  // see belongs_to(); "": none
  std::array<std::string_view, 2> symbols;    // each one that a library has is counted; or the two marks
  Ending ending = Ending::returns_status;
  ByteRule rule = ByteRule::none;
  int argument = 0;         // from 1: of the bytes, the count or the options
  std::int32_t benign = 0;  // besides 0, a status that is no error
  PartOfStep part = PartOfStep::none;
  int communicator = 0;     // the number of its argument, or one of the places above; 0: it is no collective
  std::int32_t offset = 0;  // place of the number of elements in the options
  Rests rests = Rests::by_cost;
};

/// Codes of the events of rare calls.
inline constexpr std::string_view kGcPause = "gc_pause";
inline constexpr std::string_view kCommunicatorBegin = "communicator_begin";
inline constexpr std::string_view kCommunicatorEnd = "communicator_end";

/// Its bytes are those that ranks exchange.
[[nodiscard]] constexpr bool exchanges(const StackFunction& function) noexcept {
  return function.rule == ByteRule::nccl_count || function.rule == ByteRule::gloo_count ||
         function.rule == ByteRule::unknown;
}

/// The arguments show its bytes.
[[nodiscard]] constexpr bool has_size(const StackFunction& function) noexcept {
  return function.rule != ByteRule::none && function.rule != ByteRule::unknown;
}

/// A place in which a call of a function of the table is seen.
enum class CallPlace : std::uint32_t {
  function,  // its first instruction, and where it returns
  begin,     // a mark
  end,       // the mark behind it
};

[[nodiscard]] std::span<const StackFunction> stack_functions() noexcept;
/// The index of the function with calls that are the steps.
[[nodiscard]] std::size_t step_function() noexcept;

/// Whether functions of the table may be in a library with this file name.
[[nodiscard]] bool is_stack_library(std::string_view file_name) noexcept;
/// The name begins as one of the function's libraries, or is that of one from a Python wheel: "libcudart.so" is also
/// "libcudart-80664282.so.10.2", with the begin of a hash of the file.
[[nodiscard]] bool belongs_to(const StackFunction& function, std::string_view file_name) noexcept;

/// Whether one of the names is the function's: "c10d.wait", or "torch.*" for all that begin so.
[[nodiscard]] bool is_among(const StackFunction& function, std::span<const std::string> names) noexcept;
/// Throws Error for a name that no function has.
void check_function_names(std::span<const std::string> names);

}  // namespace reveal
