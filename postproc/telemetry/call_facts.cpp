#include "postproc/telemetry/call_facts.h"

#include <algorithm>
#include <iterator>

namespace reveal {
namespace {

constexpr CallLibrary kCuda = CallLibrary::cuda;
constexpr CallLibrary kDriver = CallLibrary::cuda_driver;
constexpr CallLibrary kNccl = CallLibrary::nccl;
constexpr CallLibrary kGloo = CallLibrary::gloo;
constexpr CallLibrary kTorch = CallLibrary::torch;
constexpr CallLibrary kPython = CallLibrary::python;
constexpr CallLibrary kMpi = CallLibrary::mpi;
constexpr Meets kNobody = Meets::nobody;
constexpr Meets kSome = Meets::some;
constexpr Meets kAll = Meets::all;

/// Whole names first: the first row that fits is taken. The last rows are for traces of other versions.
constexpr CallFacts kCallFacts[] = {
    {"cudaLaunchKernel", kCuda, kNobody, CallRole::launches},
    {"cudaLaunchKernelExC", kCuda, kNobody, CallRole::launches},
    {"cudaGraphLaunch", kCuda, kNobody, CallRole::launches_many},
    {"cudaMalloc", kCuda, kNobody, CallRole::allocates},
    {"cudaMallocAsync", kCuda},
    {"cudaMallocManaged", kCuda},
    {"cudaMallocHost", kCuda, kNobody, CallRole::allocates},
    {"cudaHostAlloc", kCuda, kNobody, CallRole::allocates},
    {"cudaFree", kCuda, kNobody, CallRole::allocates},
    {"cudaFreeAsync", kCuda},
    {"cudaMemcpy", kCuda, kNobody, CallRole::waits_for_gpu},
    {"cudaMemcpyAsync", kCuda, kNobody, CallRole::waits_for_gpu},  // from and to memory that is not pinned
    {"cudaStreamSynchronize", kCuda, kNobody, CallRole::waits_for_gpu},
    {"cudaDeviceSynchronize", kCuda, kNobody, CallRole::waits_for_gpu},
    {"cudaEventSynchronize", kCuda, kNobody, CallRole::waits_for_gpu},
    {"cuLaunchKernel", kDriver, kNobody, CallRole::launches},
    {"cuLaunchKernelEx", kDriver, kNobody, CallRole::launches},
    {"cuGraphLaunch", kDriver, kNobody, CallRole::launches_many},
    {"cuMemcpy", kDriver, kNobody, CallRole::waits_for_gpu},
    {"cuMemcpyAsync", kDriver, kNobody, CallRole::waits_for_gpu},
    {"cuMemcpyHtoD", kDriver, kNobody, CallRole::waits_for_gpu},
    {"cuMemcpyHtoDAsync", kDriver, kNobody, CallRole::waits_for_gpu},
    {"cuMemcpyDtoH", kDriver, kNobody, CallRole::waits_for_gpu},
    {"cuMemcpyDtoHAsync", kDriver, kNobody, CallRole::waits_for_gpu},
    {"cuStreamSynchronize", kDriver, kNobody, CallRole::waits_for_gpu},
    {"cuCtxSynchronize", kDriver, kNobody, CallRole::waits_for_gpu},
    {"cuEventSynchronize", kDriver, kNobody, CallRole::waits_for_gpu},
    {"ncclAllReduce", kNccl, kAll},
    {"ncclBroadcast", kNccl, kAll},
    {"ncclReduce", kNccl, kAll},
    {"ncclAllGather", kNccl, kAll},
    {"ncclReduceScatter", kNccl, kAll},
    {"ncclAlltoAll", kNccl, kAll},
    {"ncclGather", kNccl, kAll},
    {"ncclScatter", kNccl, kAll},
    {"ncclSend", kNccl, kSome},
    {"ncclRecv", kNccl, kSome},
    {"ncclGroupStart", kNccl},
    {"ncclGroupEnd", kNccl, kSome},
    {"ncclCommInitRank", kNccl},
    {"ncclCommInitRankConfig", kNccl},
    {"ncclCommInitAll", kNccl},
    {"ncclCommSplit", kNccl},
    {"ncclCommFinalize", kNccl},
    {"ncclCommDestroy", kNccl},
    {"ncclCommAbort", kNccl},
    {"gloo.allreduce", kGloo, kAll},
    {"gloo.broadcast", kGloo, kAll},
    {"gloo.barrier", kGloo, kAll},
    {"gloo.allgather", kGloo, kAll},
    {"gloo.reduce", kGloo, kAll},
    {"gloo.alltoall", kGloo, kAll},
    {"c10d.work", kGloo, kSome},  // a collective of gloo's, which is counted as such
    {"c10d.wait", kGloo, kSome},
    {"torch.backward", kTorch, kNobody, CallRole::pass},
    {"torch.mm", kTorch},
    {"torch.addmm", kTorch},
    {"torch.bmm", kTorch},
    {"torch.convolution", kTorch},
    {"torch.softmax", kTorch},
    {"python.gc", kPython},
    {"python.import", kPython},
    {"MPI_Init", kMpi},
    {"MPI_Init_thread", kMpi},
    {"MPI_Finalize", kMpi, kAll},
    {"MPI_Send", kMpi, kSome},
    {"MPI_Recv", kMpi, kSome},
    {"MPI_Isend", kMpi, kSome},
    {"MPI_Irecv", kMpi, kSome},
    {"MPI_Ssend", kMpi, kSome},
    {"MPI_Sendrecv", kMpi, kSome},
    {"MPI_Probe", kMpi, kSome},
    {"MPI_Wait", kMpi, kSome},
    {"MPI_Waitall", kMpi, kSome},
    {"MPI_Waitany", kMpi, kSome},
    {"MPI_Waitsome", kMpi, kSome},
    {"MPI_Barrier", kMpi, kAll},
    {"MPI_Bcast", kMpi, kAll},
    {"MPI_Reduce", kMpi, kAll},
    {"MPI_Allreduce", kMpi, kAll},
    {"MPI_Allgather", kMpi, kAll},
    {"MPI_Alltoall", kMpi, kAll},
    {"MPI_Reduce_scatter", kMpi, kAll},
    {"MPI_Reduce_scatter_block", kMpi, kAll},
    {"MPI_Gather", kMpi, kAll},
    {"MPI_Gatherv", kMpi, kAll},
    {"MPI_Scatter", kMpi, kAll},
    {"MPI_Scatterv", kMpi, kAll},
    {"MPI_Allgatherv", kMpi, kAll},
    {"MPI_Alltoallv", kMpi, kAll},
    {"MPI_Scan", kMpi, kAll},
    {"MPI_Ibarrier", kMpi, kAll},
    {"MPI_Ibcast", kMpi, kAll},
    {"MPI_Iallreduce", kMpi, kAll},
    {"MPI_Iallgather", kMpi, kAll},
    {"MPI_Ialltoall", kMpi, kAll},
    {"MPI_File_write", kMpi},
    {"MPI_File_write_all", kMpi},
    {"MPI_File_write_at", kMpi},
    {"MPI_File_write_at_all", kMpi},
    {"cuda*", kCuda},
    {"cu*", kDriver},
    {"nccl*", kNccl},
    {"gloo.*", kGloo, kAll},
    {"c10d.*", kGloo, kSome},
    {"torch.*", kTorch},
    {"python.*", kPython},
    {"MPI_*", kMpi},
};
constexpr CallFacts kUnknown;

constexpr bool fits(std::string_view pattern, std::string_view function) {
  return pattern.ends_with('*') ? function.starts_with(pattern.substr(0, pattern.size() - 1)) : function == pattern;
}

}  // namespace

const CallFacts& call_facts(std::string_view function) noexcept {
  const auto* const row = std::find_if(std::begin(kCallFacts), std::end(kCallFacts),
                                       [function](const CallFacts& each) { return fits(each.function, function); });
  return row == std::end(kCallFacts) ? kUnknown : *row;
}

}  // namespace reveal
