// Facts about the functions of the software stack that are not in a trace, one row each: adding a function to the
// collector's table (core/stack/stack_functions.cpp) is adding a row here, too. tests/call_facts_test.py compares them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reveal {

enum class CallLibrary : std::uint8_t {
  unknown,
  cuda,
  cuda_driver,
  nccl,
  gloo,  // with PyTorch's layer above it
  torch,
  python,
  mpi,
};

/// The other ranks that make a call which belongs to it, and for which it may wait.
enum class Meets : std::uint8_t { nobody, some, all };

enum class CallRole : std::uint8_t {
  other,
  launches,       // a kernel
  launches_many,  // kernels of a graph
  waits_for_gpu,  // it ends when the GPU has finished earlier work
  pass,           // one for each backward pass of a training
  allocates,      // or frees memory, each time through the driver
};

struct CallFacts {
  std::string_view function;  // as in the instance "rank0/ncclAllReduce"; "gloo.*": each that begins so
  CallLibrary library = CallLibrary::unknown;
  Meets meets = Meets::nobody;
  CallRole role = CallRole::other;
};

/// The parts of a channel's instance "rank0/ncclAllReduce".
struct CallInstance {
  std::string_view process;  // "": it names none
  std::string_view function;
};
[[nodiscard]] constexpr CallInstance call_instance(std::string_view instance) noexcept {
  const std::size_t slash = instance.rfind('/');
  if (slash == std::string_view::npos) return {{}, instance};
  return {instance.substr(0, slash), instance.substr(slash + 1)};
}

/// A row without facts for a function that is not in the table.
[[nodiscard]] const CallFacts& call_facts(std::string_view function) noexcept;

/// Whether all ranks of a communicator make the call, or none gets on.
[[nodiscard]] inline bool is_collective(std::string_view function) noexcept {
  return call_facts(function).meets == Meets::all;
}
/// Whether the call may wait for other ranks: a collective, or a message.
[[nodiscard]] inline bool waits_for_ranks(std::string_view function) noexcept {
  return call_facts(function).meets != Meets::nobody;
}

}  // namespace reveal
