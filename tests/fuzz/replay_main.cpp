// Runs every target over its corpus, or over the files given: an old failure must not come back.
//
//   fuzz_replay CORPUS            all targets, each over CORPUS/NAME/*
//   fuzz_replay CORPUS NAME FILE...
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "target.h"

namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::size_t replay(const reveal::fuzz::Target& target, const fs::path& folder) {
  std::size_t count = 0;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    target.run(content_of(entry.path()));
    ++count;
  }
  target.run("");
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const fs::path corpus = argv[1];
  bool complete = true;
  for (const reveal::fuzz::Target& target : reveal::fuzz::targets()) {
    if (argc > 2) {
      if (target.name != argv[2]) continue;
      for (int i = 3; i < argc; ++i) target.run(content_of(argv[i]));
      continue;
    }
    const std::size_t inputs = replay(target, corpus / target.name);
    std::printf("%-14s %zu inputs\n", std::string(target.name).c_str(), inputs);
    complete = complete && inputs > 0;
  }
  if (!complete) std::printf("a target has no corpus\n");
  return complete ? 0 : 1;
}
