// libFuzzer's side: REVEAL_FUZZ_TARGET names the target. Built with clang and -DREVEAL_FUZZ=ON.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

const reveal::fuzz::Target& chosen() {
  static const reveal::fuzz::Target* const target = [] {
    const char* name = std::getenv("REVEAL_FUZZ_TARGET");
    for (const reveal::fuzz::Target& known : reveal::fuzz::targets()) {
      if (name != nullptr && known.name == name) return &known;
    }
    for (const reveal::fuzz::Target& known : reveal::fuzz::targets()) {
      std::fprintf(stderr, "%s\n", std::string(known.name).c_str());
    }
    std::fprintf(stderr, "REVEAL_FUZZ_TARGET must be one of these\n");
    std::exit(2);
  }();
  return *target;
}

void change(std::string& piece, std::size_t most) {
  const std::size_t size = piece.size();
  piece.resize(std::max(most, size));
  piece.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(piece.data()), size, std::max<std::size_t>(most, 1)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen().run({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (chosen().mutate == nullptr) return LLVMFuzzerMutate(data, size, most);
  std::string input(reinterpret_cast<const char*>(data), size);
  chosen().mutate(input, most, seed, change);
  if (input.size() > most) return size;
  std::memcpy(data, input.data(), input.size());
  return input.size();
}
