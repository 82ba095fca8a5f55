#include "core/job/loaded_libraries.h"

#include <array>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::int64_t kLibrariesPeriod = 10'000'000'000;
constexpr int kLooks = 2;
constexpr std::size_t kMostRemembered = 1024;

// Exact beginnings of file names: the rest of a map is the user's and is not kept. PyTorch may hold NCCL inside its own
// library for CUDA.
struct Library {
  std::string_view file;
  std::string_view name;
};
constexpr std::array kLibraries = {
    Library{"libnccl.so", "nccl"},        Library{"librccl.so", "rccl"},   Library{"libtorch_cuda.so", "torch_cuda"},
    Library{"libtorch_cpu.so", "torch"},  Library{"libcudart.so", "cuda"}, Library{"libcuda.so", "cuda"},
    Library{"libamdhip64.so", "hip"},     Library{"libmpi.so", "mpi"},     Library{"libucp.so", "ucx"},
    Library{"libfabric.so", "libfabric"}, Library{"libgloo.so", "gloo"},   Library{"libibverbs.so", "verbs"}};

}  // namespace

std::set<std::string, std::less<>> libraries_in(std::string_view maps) {
  std::set<std::string, std::less<>> found;
  std::string_view line;
  while (next_line(maps, line)) {
    const std::size_t slash = line.rfind('/');
    if (slash == std::string_view::npos) continue;
    const std::string_view file = line.substr(slash + 1);
    for (const Library& library : kLibraries) {
      if (file.starts_with(library.file)) found.emplace(library.name);
    }
  }
  return found;
}

void LoadedLibraries::look(std::int64_t now_ns, const Job& job) {
  if (next_ns_ == 0) next_ns_ = now_ns + kLibrariesPeriod;  // a program that just began has loaded nothing yet
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + kLibrariesPeriod;
  if (looks_.size() > kMostRemembered) looks_.clear();
  const std::string names = fs_.fact("@job/libraries", [&]() -> std::string {
    for (const auto& process : job.processes()) {
      if (process->launcher || looks_[process->pid] >= kLooks) continue;
      ++looks_[process->pid];
      const std::string maps = fs_.unrecorded_text("/proc/" + std::to_string(process->pid) + "/maps");
      if (maps.empty()) continue;  // gone, or not ours to read
      std::string text = "looked";
      for (const std::string& name : libraries_in(maps)) text += ' ' + name;
      return text;
    }
    return "";
  });
  std::string_view rest = names;
  if (next_word(rest) != "looked") return;
  looked_ = true;
  for (std::string_view name = next_word(rest); !name.empty(); name = next_word(rest)) seen_.emplace(name);
}

std::string LoadedLibraries::seen() const {
  if (!looked_) return "";
  std::string text;
  for (const std::string& name : seen_) text += (text.empty() ? "" : " ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace reveal
