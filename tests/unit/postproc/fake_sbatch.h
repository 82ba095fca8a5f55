// An sbatch, found before others as long as the object lives, that writes down how it was called and refuses what a
// shell pattern matches.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/text.h"
#include "postproc/telemetry/publish.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests {

class FakeSbatch {
 public:
  explicit FakeSbatch(const std::string& refused = "none") : path_(process_environment("PATH")) {
    const std::string at = directory_.path().string();
    std::ofstream(directory_.path() / "sbatch") << "#!/bin/sh\necho \"$@\" >>" << at << "/words; cat >" << at
                                                << "/script\ncase \"$*\" in " << refused << ") exit 1 ;; esac\n";
    std::filesystem::permissions(directory_.path() / "sbatch", std::filesystem::perms::owner_all);
    ::setenv("PATH", (at + ":" + path_).c_str(), 1);
  }
  ~FakeSbatch() { ::setenv("PATH", path_.c_str(), 1); }
  FakeSbatch(const FakeSbatch&) = delete;
  FakeSbatch& operator=(const FakeSbatch&) = delete;
  [[nodiscard]] std::string words() const { return read_text_file(directory_.path() / "words", 10'000); }
  [[nodiscard]] std::string script() const { return read_text_file(directory_.path() / "script", 1000); }
  /// The ends of the lines, which say how large a job it is.
  [[nodiscard]] std::vector<std::string> sizes() const {
    std::vector<std::string> sizes;
    const std::string text = words();
    std::string_view rest = text;
    for (std::string_view line; next_line(rest, line);) {
      const std::size_t begin = line.find(" --export=NONE");
      sizes.push_back((line.starts_with("--reveal=off") ? "off" : "") + std::string(line.substr(begin + 14)));
    }
    return sizes;
  }

 private:
  TemporaryDirectory directory_;
  std::string path_;
};

}  // namespace reveal::tests
