#include "core/stack/stack_functions.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr Ending kStatus = Ending::returns_status;
constexpr Ending kMayThrow = Ending::may_throw;
constexpr Ending kCatchesAll = Ending::catches_all;
constexpr ByteRule kNoBytes = ByteRule::none;
constexpr ByteRule kBytes = ByteRule::plain;
constexpr ByteRule kElements = ByteRule::nccl_count;
constexpr ByteRule kOptions = ByteRule::gloo_count;
constexpr ByteRule kNoSize = ByteRule::unknown;
constexpr PartOfStep kNoPart = PartOfStep::none;
constexpr PartOfStep kWaiting = PartOfStep::waiting;
constexpr Rests kRestsFirst = Rests::first;

using Libraries = decltype(StackFunction::libraries);
constexpr Libraries kCuda = {"libcudart.so"};
constexpr Libraries kCudaDriver = {"libcuda.so"};
constexpr Libraries kNccl = {"libnccl.so", "libtorch_cuda"};  // some wheels link it in
constexpr Libraries kGloo = {"libgloo.so", "libtorch_cpu.so"};
constexpr Libraries kTorch = {"libtorch_cpu.so"};
constexpr Libraries kPython = {"python3", "libpython3"};
constexpr Libraries kMpi = {"libmpi.so", "libmpich.so", "libmpi_"};  // the last is for those of Cray, by compiler

constexpr std::int32_t kCudaNotReady = 600;
constexpr std::int32_t kNcclInProgress = 7;

// The second symbol of a CUDA function is the one of programs that are compiled for a default stream per thread; that
// of a C++ function differs in the constness of an argument.
constexpr StackFunction kFunctions[] = {
    // https://docs.nvidia.com/cuda/cuda-runtime-api/
    {"cudaLaunchKernel", kCuda, {"cudaLaunchKernel", "cudaLaunchKernel_ptsz"}, kStatus, kNoBytes, 0, kCudaNotReady},
    {"cudaLaunchKernelExC",
     kCuda,
     {"cudaLaunchKernelExC", "cudaLaunchKernelExC_ptsz"},
     kStatus,
     kNoBytes,
     0,
     kCudaNotReady},
    {"cudaGraphLaunch", kCuda, {"cudaGraphLaunch", "cudaGraphLaunch_ptsz"}, kStatus, kNoBytes, 0, kCudaNotReady},
    {"cudaMalloc", kCuda, {"cudaMalloc"}, kStatus, kBytes, 2},
    {"cudaMallocAsync", kCuda, {"cudaMallocAsync", "cudaMallocAsync_ptsz"}, kStatus, kBytes, 2},
    {"cudaMallocManaged", kCuda, {"cudaMallocManaged"}, kStatus, kBytes, 2},
    {"cudaMallocHost", kCuda, {"cudaMallocHost"}, kStatus, kBytes, 2},
    {"cudaHostAlloc", kCuda, {"cudaHostAlloc"}, kStatus, kBytes, 2},
    {"cudaFree", kCuda, {"cudaFree"}, kStatus},
    {"cudaFreeAsync", kCuda, {"cudaFreeAsync", "cudaFreeAsync_ptsz"}, kStatus},
    {"cudaMemcpy", kCuda, {"cudaMemcpy", "cudaMemcpy_ptds"}, kStatus, kBytes, 3},
    {"cudaMemcpyAsync", kCuda, {"cudaMemcpyAsync", "cudaMemcpyAsync_ptsz"}, kStatus, kBytes, 3},
    {"cudaStreamSynchronize",
     kCuda,
     {"cudaStreamSynchronize", "cudaStreamSynchronize_ptsz"},
     kStatus,
     kNoBytes,
     0,
     kCudaNotReady,
     kWaiting},
    {"cudaDeviceSynchronize", kCuda, {"cudaDeviceSynchronize"}, kStatus, kNoBytes, 0, kCudaNotReady, kWaiting},
    {"cudaEventSynchronize", kCuda, {"cudaEventSynchronize"}, kStatus, kNoBytes, 0, kCudaNotReady, kWaiting},

    // https://docs.nvidia.com/cuda/cuda-driver-api/ Triton and torch.compile launch here. The runtime calls the driver,
    // too: what such a call waits is in the runtime's function already, and not counted as waiting again. Those that
    // allocate and free memory are left out: UCX replaces their code when it is loaded, which may be after they were
    // attached. A breakpoint ends the process then, or UCX gives up when it reads it.
    // https://github.com/openucx/ucx/blob/master/src/ucm/cuda/cudamem.c
    {"cuLaunchKernel", kCudaDriver, {"cuLaunchKernel", "cuLaunchKernel_ptsz"}, kStatus},
    {"cuLaunchKernelEx", kCudaDriver, {"cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"}, kStatus},
    {"cuGraphLaunch", kCudaDriver, {"cuGraphLaunch", "cuGraphLaunch_ptsz"}, kStatus},
    {"cuMemcpy", kCudaDriver, {"cuMemcpy", "cuMemcpy_ptds"}, kStatus, kBytes, 3},
    {"cuMemcpyAsync", kCudaDriver, {"cuMemcpyAsync", "cuMemcpyAsync_ptsz"}, kStatus, kBytes, 3},
    {"cuMemcpyHtoD", kCudaDriver, {"cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"}, kStatus, kBytes, 3},
    {"cuMemcpyHtoDAsync", kCudaDriver, {"cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz"}, kStatus, kBytes, 3},
    {"cuMemcpyDtoH", kCudaDriver, {"cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds"}, kStatus, kBytes, 3},
    {"cuMemcpyDtoHAsync", kCudaDriver, {"cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz"}, kStatus, kBytes, 3},
    {"cuStreamSynchronize",
     kCudaDriver,
     {"cuStreamSynchronize", "cuStreamSynchronize_ptsz"},
     kStatus,
     kNoBytes,
     0,
     kCudaNotReady},
    {"cuCtxSynchronize", kCudaDriver, {"cuCtxSynchronize", "cuCtxSynchronize_v2"}, kStatus, kNoBytes, 0, kCudaNotReady},
    {"cuEventSynchronize", kCudaDriver, {"cuEventSynchronize"}, kStatus, kNoBytes, 0, kCudaNotReady},

    // https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html The count of a gather is for the data that
    // each rank sends, that of a scatter for the data that each rank gets.
    {"ncclAllReduce", kNccl, {"ncclAllReduce"}, kStatus, kElements, 3, kNcclInProgress, kWaiting, 6},
    {"ncclBroadcast", kNccl, {"ncclBroadcast"}, kStatus, kElements, 3, kNcclInProgress, kWaiting, 6},
    {"ncclReduce", kNccl, {"ncclReduce"}, kStatus, kElements, 3, kNcclInProgress, kWaiting, 7},
    {"ncclAllGather", kNccl, {"ncclAllGather"}, kStatus, kElements, 3, kNcclInProgress, kWaiting, 5},
    {"ncclReduceScatter", kNccl, {"ncclReduceScatter"}, kStatus, kElements, 3, kNcclInProgress, kWaiting, 6},
    {"ncclAlltoAll", kNccl, {"ncclAlltoAll"}, kStatus, kElements, 3, kNcclInProgress, kWaiting, 5},
    {"ncclGather", kNccl, {"ncclGather"}, kStatus, kElements, 3, kNcclInProgress, kWaiting, 6},
    {"ncclScatter", kNccl, {"ncclScatter"}, kStatus, kElements, 3, kNcclInProgress, kWaiting, 6},
    {"ncclSend", kNccl, {"ncclSend"}, kStatus, kElements, 2, kNcclInProgress, kWaiting},
    {"ncclRecv", kNccl, {"ncclRecv"}, kStatus, kElements, 2, kNcclInProgress, kWaiting},
    {"ncclGroupStart", kNccl, {"ncclGroupStart"}, kStatus, kNoBytes, 0, 0, kNoPart, 0, 0, kRestsFirst},
    {"ncclGroupEnd", kNccl, {"ncclGroupEnd"}, kStatus, kNoBytes, 0, kNcclInProgress, kWaiting},
    {"ncclCommInitRank", kNccl, {"ncclCommInitRank"}, kStatus, kNoBytes, 0, kNcclInProgress, kNoPart, kMadeByCall},
    {"ncclCommInitRankConfig",
     kNccl,
     {"ncclCommInitRankConfig"},
     kStatus,
     kNoBytes,
     0,
     kNcclInProgress,
     kNoPart,
     kMadeByCall},
    {"ncclCommInitAll", kNccl, {"ncclCommInitAll"}, kStatus, kNoBytes, 0, kNcclInProgress},
    {"ncclCommSplit", kNccl, {"ncclCommSplit"}, kStatus, kNoBytes, 0, kNcclInProgress},
    {"ncclCommFinalize", kNccl, {"ncclCommFinalize"}, kStatus, kNoBytes, 0, kNcclInProgress},
    {"ncclCommDestroy", kNccl, {"ncclCommDestroy"}, kStatus, kNoBytes, 0, kNcclInProgress, kNoPart, kNoLongerThere},
    {"ncclCommAbort", kNccl, {"ncclCommAbort"}, kStatus, kNoBytes, 0, kNcclInProgress, kNoPart, kNoLongerThere},

    // https://github.com/pytorch/gloo The options begin with the context. Those of an allreduce hold their buffers in
    // two vectors, those of a broadcast and a reduce in two pointers; the number of elements and their size follow.
    // An allgather and an alltoall have a tag in place of the latter.
    {"gloo.allreduce",
     kGloo,
     {"_ZN4gloo9allreduceERKNS_16AllreduceOptionsE", "_ZN4gloo9allreduceERNS_16AllreduceOptionsE"},
     kMayThrow,
     kOptions,
     1,
     0,
     kNoPart,
     kInOptions,
     80},
    {"gloo.broadcast",
     kGloo,
     {"_ZN4gloo9broadcastERNS_16BroadcastOptionsE"},
     kMayThrow,
     kOptions,
     1,
     0,
     kNoPart,
     kInOptions,
     32},
    {"gloo.barrier", kGloo, {"_ZN4gloo7barrierERNS_14BarrierOptionsE"}, kMayThrow, kNoBytes, 0, 0, kNoPart, kInOptions},
    {"gloo.allgather",
     kGloo,
     {"_ZN4gloo9allgatherERNS_16AllgatherOptionsE"},
     kMayThrow,
     kNoSize,
     0,
     0,
     kNoPart,
     kInOptions},
    {"gloo.reduce",
     kGloo,
     {"_ZN4gloo6reduceERNS_13ReduceOptionsE"},
     kMayThrow,
     kOptions,
     1,
     0,
     kNoPart,
     kInOptions,
     32},
    {"gloo.alltoall",
     kGloo,
     {"_ZN4gloo8alltoallERNS_15AlltoallOptionsE"},
     kMayThrow,
     kNoSize,
     0,
     0,
     kNoPart,
     kInOptions},

    // https://pytorch.org/docs/stable/notes/autograd.html One call for each backward pass: a step of the training, or a
    // part of it.
    {"torch.backward",
     kTorch,
     {"_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_"},
     kMayThrow,
     kNoBytes,
     0,
     0,
     PartOfStep::clock,
     0,
     0,
     Rests::last},
    // One collective of gloo's in a thread of PyTorch's, from its begin to its end on this rank; it catches exceptions
    // of gloo. https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupGloo.cpp
    {"c10d.work",
     kTorch,
     {"_ZN4c10d16ProcessGroupGloo9AsyncWork7executeEN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_null_"
      "typeIS1_EEEE",
      "_ZN4c10d16ProcessGroupGloo9AsyncWork7executeERKN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_"
      "null_typeIS1_EEEE"},
     kCatchesAll,
     kNoBytes,
     0,
     0,
     PartOfStep::communication},
    {"c10d.wait",
     kTorch,
     {"_ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"},
     kMayThrow,
     kNoBytes,
     0,
     0,
     kNoPart,
     0,
     0,
     kRestsFirst},

    // The operators in which most models compute. No rule needs them: where counting them costs too much, they are
    // counted for a part of the time. None that the workers of a data loader call all the time: these are forked from a
    // rank, with copies of its breakpoints. https://pytorch.org/docs/stable/torch.html
    {"torch.mm",
     kTorch,
     {"_ZN2at4_ops2mm4callERKNS_6TensorES4_"},
     kMayThrow,
     kNoBytes,
     0,
     0,
     kNoPart,
     0,
     0,
     kRestsFirst},
    {"torch.addmm",
     kTorch,
     {"_ZN2at4_ops5addmm4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_"},
     kMayThrow,
     kNoBytes,
     0,
     0,
     kNoPart,
     0,
     0,
     kRestsFirst},
    {"torch.bmm",
     kTorch,
     {"_ZN2at4_ops3bmm4callERKNS_6TensorES4_"},
     kMayThrow,
     kNoBytes,
     0,
     0,
     kNoPart,
     0,
     0,
     kRestsFirst},
    // The second symbol is that of later versions: sizes may be symbols there, and optional is that of C++17.
    {"torch.convolution",
     kTorch,
     {"_ZN2at4_ops11convolution4callERKNS_6TensorES4_RKN3c108optionalIS2_EENS5_8ArrayRefIlEESB_SB_bSB_l",
      "_ZN2at4_ops11convolution4callERKNS_6TensorES4_RKSt8optionalIS2_EN3c108ArrayRefINS9_6SymIntEEESC_SC_bSC_SB_"},
     kMayThrow,
     kNoBytes,
     0,
     0,
     kNoPart,
     0,
     0,
     kRestsFirst},
    {"torch.softmax",
     kTorch,
     {"_ZN2at4_ops8_softmax4callERKNS_6TensorElb"},
     kMayThrow,
     kNoBytes,
     0,
     0,
     kNoPart,
     0,
     0,
     kRestsFirst},

    // https://docs.python.org/3/howto/instrumentation.html An import within another one is a part of it. Builds without
    // these marks, as conda's, are not measured.
    {"python.gc",
     kPython,
     {"python:gc__start", "python:gc__done"},
     Ending::between_marks,
     kNoBytes,
     0,
     0,
     PartOfStep::gc},
    {"python.import",
     kPython,
     {"python:import__find__load__start", "python:import__find__load__done"},
     Ending::between_marks},

    // https://www.mpi-forum.org/docs/ Error handlers and operations of the program may throw
    // through it. The size of a datatype is known only inside the library: bytes are not counted.
    {"MPI_Init", kMpi, {"MPI_Init"}, kMayThrow},
    {"MPI_Init_thread", kMpi, {"MPI_Init_thread"}, kMayThrow},
    {"MPI_Finalize", kMpi, {"MPI_Finalize"}, kMayThrow},
    {"MPI_Send", kMpi, {"MPI_Send"}, kMayThrow},
    {"MPI_Recv", kMpi, {"MPI_Recv"}, kMayThrow},
    {"MPI_Isend", kMpi, {"MPI_Isend"}, kMayThrow},
    {"MPI_Irecv", kMpi, {"MPI_Irecv"}, kMayThrow},
    {"MPI_Ssend", kMpi, {"MPI_Ssend"}, kMayThrow},
    {"MPI_Sendrecv", kMpi, {"MPI_Sendrecv"}, kMayThrow},
    {"MPI_Probe", kMpi, {"MPI_Probe"}, kMayThrow},
    {"MPI_Wait", kMpi, {"MPI_Wait"}, kMayThrow},
    {"MPI_Waitall", kMpi, {"MPI_Waitall"}, kMayThrow},
    {"MPI_Waitany", kMpi, {"MPI_Waitany"}, kMayThrow},
    {"MPI_Waitsome", kMpi, {"MPI_Waitsome"}, kMayThrow},
    {"MPI_Barrier", kMpi, {"MPI_Barrier"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 1},
    {"MPI_Bcast", kMpi, {"MPI_Bcast"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 5},
    {"MPI_Reduce", kMpi, {"MPI_Reduce"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 7},
    {"MPI_Allreduce", kMpi, {"MPI_Allreduce"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 6},
    {"MPI_Allgather", kMpi, {"MPI_Allgather"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 7},
    {"MPI_Alltoall", kMpi, {"MPI_Alltoall"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 7},
    {"MPI_Reduce_scatter", kMpi, {"MPI_Reduce_scatter"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 6},
    {"MPI_Reduce_scatter_block", kMpi, {"MPI_Reduce_scatter_block"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 6},
    {"MPI_Gather", kMpi, {"MPI_Gather"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 8},
    {"MPI_Gatherv", kMpi, {"MPI_Gatherv"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 9},
    {"MPI_Scatter", kMpi, {"MPI_Scatter"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 8},
    {"MPI_Scatterv", kMpi, {"MPI_Scatterv"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 9},
    {"MPI_Allgatherv", kMpi, {"MPI_Allgatherv"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 8},
    {"MPI_Alltoallv", kMpi, {"MPI_Alltoallv"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 9},
    {"MPI_Scan", kMpi, {"MPI_Scan"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 6},
    {"MPI_Ibarrier", kMpi, {"MPI_Ibarrier"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 1},
    {"MPI_Ibcast", kMpi, {"MPI_Ibcast"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 5},
    {"MPI_Iallreduce", kMpi, {"MPI_Iallreduce"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 6},
    {"MPI_Iallgather", kMpi, {"MPI_Iallgather"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 7},
    {"MPI_Ialltoall", kMpi, {"MPI_Ialltoall"}, kMayThrow, kNoBytes, 0, 0, kNoPart, 7},
    {"MPI_File_write", kMpi, {"MPI_File_write"}, kMayThrow},
    {"MPI_File_write_all", kMpi, {"MPI_File_write_all"}, kMayThrow},
    {"MPI_File_write_at", kMpi, {"MPI_File_write_at"}, kMayThrow},
    {"MPI_File_write_at_all", kMpi, {"MPI_File_write_at_all"}, kMayThrow},
};

constexpr int kArgumentsInRegisters = 6;
constexpr int kMostArguments = 9;

constexpr bool is_whole(const StackFunction& function) {
  const int last = function.argument + (function.rule == kElements ? 1 : 0);
  const bool counted = has_size(function);
  return !function.name.empty() && function.name.find(' ') == std::string_view::npos &&
         !function.libraries[0].empty() && !function.symbols[0].empty() && counted == (function.argument > 0) &&
         last <= kArgumentsInRegisters && (function.rule == kOptions) == (function.offset > 0) &&
         function.communicator >= kNoLongerThere && function.communicator <= kMostArguments &&
         (function.ending != Ending::between_marks || (!counted && !function.symbols[1].empty()));
}
static_assert(std::all_of(std::begin(kFunctions), std::end(kFunctions), is_whole));
static_assert(std::size(kFunctions) < 256, "a number of a function has a byte (CommunicatorCalls)");

constexpr bool is_clock(const StackFunction& function) {
  return function.part == PartOfStep::clock;
}
static_assert(std::count_if(std::begin(kFunctions), std::end(kFunctions), is_clock) == 1);
static_assert(std::count_if(std::begin(kFunctions), std::end(kFunctions),
                            [](const StackFunction& function) { return function.part == PartOfStep::gc; }) == 1);
static_assert(std::all_of(std::begin(kFunctions), std::end(kFunctions), [](const StackFunction& function) {
  return is_clock(function) == (function.rests == Rests::last);
}));

/// With the eight digits of a hash that auditwheel and PyTorch's own builds put into the name of a library of a wheel.
/// https://github.com/pypa/auditwheel
bool is_named_with_hash(std::string_view library, std::string_view file_name) noexcept {
  constexpr std::string_view kEnding = ".so";
  constexpr std::size_t kLeastDigits = 8;
  if (!library.ends_with(kEnding)) return false;
  library.remove_suffix(kEnding.size());
  if (!file_name.starts_with(library)) return false;
  file_name.remove_prefix(library.size());
  if (!file_name.starts_with('-')) return false;
  file_name.remove_prefix(1);
  const std::size_t digits = std::min(file_name.find_first_not_of("0123456789abcdef"), file_name.size());
  return digits >= kLeastDigits && file_name.substr(digits).starts_with(kEnding);
}

bool has_this_name(const StackFunction& function, std::string_view name) noexcept {
  return name.ends_with('*') ? function.name.starts_with(name.substr(0, name.size() - 1)) : function.name == name;
}

}  // namespace

std::span<const StackFunction> stack_functions() noexcept {
  return kFunctions;
}

std::size_t step_function() noexcept {
  return static_cast<std::size_t>(std::find_if(std::begin(kFunctions), std::end(kFunctions), is_clock) -
                                  std::begin(kFunctions));
}

bool belongs_to(const StackFunction& function, std::string_view file_name) noexcept {
  return std::any_of(function.libraries.begin(), function.libraries.end(), [file_name](std::string_view library) {
    return !library.empty() && (file_name.starts_with(library) || is_named_with_hash(library, file_name));
  });
}

bool is_stack_library(std::string_view file_name) noexcept {
  return std::any_of(std::begin(kFunctions), std::end(kFunctions),
                     [file_name](const StackFunction& function) { return belongs_to(function, file_name); });
}

bool is_among(const StackFunction& function, std::span<const std::string> names) noexcept {
  return std::any_of(names.begin(), names.end(),
                     [&function](const std::string& name) { return has_this_name(function, name); });
}

void check_function_names(std::span<const std::string> names) {
  std::vector<std::string> known;
  known.reserve(std::size(kFunctions));
  for (const StackFunction& function : kFunctions) known.emplace_back(function.name);
  for (const std::string& name : names) {
    const auto has_it = [&name](const StackFunction& function) { return has_this_name(function, name); };
    if (std::any_of(std::begin(kFunctions), std::end(kFunctions), has_it)) continue;
    const std::optional<std::string> near = nearest(name, known);
    throw Error("unknown function \"" + name + "\"" + (near ? "; did you mean \"" + *near + "\"?" : ""));
  }
}

}  // namespace reveal
