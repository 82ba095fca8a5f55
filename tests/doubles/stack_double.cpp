// A substitute in tests for NCCL, the CUDA runtime, gloo and PyTorch: functions with the real names that obey their
// arguments. Compiled without optimisation, they begin with the same instruction as those of the real libraries.
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

extern "C" {

/// Takes `comm` nanoseconds, and returns `op`.
int ncclAllReduce(const void* /*send*/, void* /*receive*/, std::size_t /*count*/, int /*type*/, int op, void* comm,
                  void* /*stream*/) {
  const auto nanoseconds = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(comm));
  const timespec time{.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
  if (nanoseconds > 0) nanosleep(&time, nullptr);
  return op;
}

/// Its communicator is the seventh argument, which lies on the stack.
int ncclReduce(const void* /*send*/, void* /*receive*/, std::size_t /*count*/, int /*type*/, int /*op*/, int /*root*/,
               void* /*comm*/, void* /*stream*/) {
  return 0;
}

/// The first byte is the communicator that is made.
struct UniqueId {
  unsigned char bytes[128];
};
int ncclCommInitRank(void** comm, int ranks, UniqueId id, int /*rank*/) {
  constexpr int kInvalidArgument = 4;
  if (ranks <= 0) return kInvalidArgument;
  *comm = reinterpret_cast<void*>(static_cast<std::uintptr_t>(id.bytes[0]));
  return 0;
}

int ncclCommDestroy(void* /*comm*/) {
  return 0;
}

/// Has a gigabyte.
int cudaMalloc(void** /*pointer*/, std::size_t bytes) {
  constexpr int kOutOfMemory = 2;
  return bytes > (std::size_t{1} << 30) ? kOutOfMemory : 0;
}

int cudaFree(void* /*pointer*/) {
  return 0;
}

/// torch::autograd::Engine::execute(), one call for each backward pass.
int backward() __asm__(
    "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_");
int backward() {
  return 0;
}
}

namespace gloo {
/// The rank and the number of ranks lie where those of gloo do.
struct Context {
  const void* methods = nullptr;
  int rank = 0;
  int size = 0;
};
/// Its count and the size of an element lie where those of gloo do.
struct AllreduceOptions {
  const Context* context = nullptr;
  bool fails = false;
  char buffers[71]{};
  std::size_t elements = 1000;
  std::size_t element_size = 4;
};
void allreduce(const AllreduceOptions& options) {
  if (options.fails) throw std::runtime_error("the other rank has gone");
}
}  // namespace gloo

/// c10d::ProcessGroupGloo::AsyncWork::execute(), which catches what the collective throws. It takes so long, and fails
/// if that is negative.
void work(std::int64_t nanoseconds) __asm__(
    "_ZN4c10d16ProcessGroupGloo9AsyncWork7executeEN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_null_"
    "typeIS1_EEEE");
void work(std::int64_t nanoseconds) {
  const timespec time{.tv_sec = 0, .tv_nsec = nanoseconds};
  if (nanoseconds > 0) nanosleep(&time, nullptr);
  try {
    gloo::allreduce({.fails = nanoseconds < 0});
  } catch (const std::exception&) {
    return;
  }
}
