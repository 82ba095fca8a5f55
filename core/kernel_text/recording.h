// A host recorded tick by tick in one file, `DIR/ticks.rec`: everything a collector read, written only when it changed.
// Everything before the first tick line was read while the probes opened.
//
//   reveal recording 1
//   + 0 F/proc/stat           the next number stands for this text; F file, D directory, L link, @ fact
//   $ 0 1181                  its text is now these 1181 bytes, and a newline
//   ! 0 2                     it cannot be read now, for this errno
//   = 123456789 1700000000    a tick: monotonic and UTC nanoseconds; what follows was read in it
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/kernel_text/kernel_tree.h"

namespace reveal {

inline constexpr std::string_view kRecordingFile = "ticks.rec";

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};

struct RecordedText {
  std::string text;
  int error = 0;
};

class RecordingReader {
 public:
  /// Throws Error if this is no recording. One that ends in the middle of a tick ends with the tick before.
  explicit RecordingReader(const std::string& path);
  /// The last text read under this name; ENOENT if it was never read. Valid until next_tick().
  [[nodiscard]] const RecordedText& at(char kind, std::string_view path) const noexcept;
  [[nodiscard]] std::optional<TickTime> next_tick();
  [[nodiscard]] const std::optional<TickTime>& upcoming() const noexcept { return next_; }

 private:
  bool load_until_tick();

  std::string path_;
  std::ifstream stream_;
  std::vector<RecordedText*> by_number_;
  std::unordered_map<std::string, RecordedText, TextHash, std::equal_to<>> texts_;
  std::optional<TickTime> next_;
};

class RecordingWriter {
 public:
  explicit RecordingWriter(const std::filesystem::path& directory);  // throws Error
  void note(char kind, std::string_view path, int error, std::string_view text) noexcept;
  void mark_tick(TickTime time);
  void finish();  // throws Error if something could not be written

 private:
  struct Known {
    std::size_t number = 0;
    std::size_t fingerprint = 0;
  };
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  void put(std::string_view text) noexcept;

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  bool cut_off_ = false;
  std::string key_;
  std::unordered_map<std::string, Known, TextHash, std::equal_to<>> known_;
};

}  // namespace reveal
