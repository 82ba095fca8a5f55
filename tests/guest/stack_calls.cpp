// The job of stack.sh: calls functions of the doubles of NCCL and CUDA in a folder, once their code shows that they are
// probed.
//
//   stack_calls count FOLDER    1,000 all-reduces of 2,048 bytes, 10 of which fail, and 30 allocations of 4,096 bytes;
//                               exits with 7
//   stack_calls watch FOLDER    says when a breakpoint has come, and exits with 0 when it has gone and calls still work
//
// Exit status 9: the breakpoint did not come, or did not go, within two minutes.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using AllReduce = int (*)(const void* send, void* receive, std::size_t count, int type, int operation, void* comm,
                          void* stream);
using Malloc = int (*)(void** pointer, std::size_t bytes);

constexpr int kFloat32 = 7;
constexpr std::size_t kElements = 512;

void* function_of(const std::string& library, const char* name) {
  void* file = dlopen(library.c_str(), RTLD_NOW);
  void* function = file == nullptr ? nullptr : dlsym(file, name);
  if (function == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(8);
  }
  return function;
}

bool has_breakpoint(const void* function) {
  constexpr unsigned char kInt3 = 0xcc;
  return *static_cast<const volatile unsigned char*>(function) == kInt3;
}

void wait_until(const void* function, bool attached) {
  constexpr int kTenthsOfSeconds = 1200;
  for (int i = 0; i < kTenthsOfSeconds; ++i) {
    if (has_breakpoint(function) == attached) return;
    usleep(100'000);
  }
  std::printf("a breakpoint did not %s\n", attached ? "come" : "go");
  std::exit(9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string what = argv[1];
  const std::string folder = argv[2];
  void* reduce_code = function_of(folder + "/libnccl.so.2", "ncclAllReduce");
  void* malloc_code = function_of(folder + "/libcudart.so.13", "cudaMalloc");
  const auto reduce = reinterpret_cast<AllReduce>(reduce_code);
  wait_until(reduce_code, true);
  wait_until(malloc_code, true);
  sleep(3);  // the probe of the return comes before that of the entry
  std::printf("attached\n");
  std::fflush(stdout);
  if (what == "count") {
    for (int i = 0; i < 1000; ++i) {
      reduce(nullptr, nullptr, kElements, kFloat32, i % 100 == 0 ? 4 : 0, nullptr, nullptr);
    }
    for (int i = 0; i < 30; ++i) reinterpret_cast<Malloc>(malloc_code)(nullptr, 4096);
    sleep(4);  // an answer may come a row late
    return 7;
  }
  wait_until(reduce_code, false);
  wait_until(malloc_code, false);
  for (int status = 0; status < 100; ++status) {
    if (reduce(nullptr, nullptr, kElements, kFloat32, status, nullptr, nullptr) != status) return 1;
  }
  std::printf("detached, and 100 calls returned what they should\n");
  return 0;
}
