// The newest rows of a trace, before the next flush brings them into it: NODE.h5.live beside NODE.h5.part. The file
// exists only while a reader touches NODE.h5.watch every few seconds. One machine writes and reads it, so numbers are
// stored as they lie in memory; counters are absolute, as the kernel has them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

[[nodiscard]] std::filesystem::path live_rows_path(const std::filesystem::path& trace);
[[nodiscard]] std::filesystem::path watch_marker_path(const std::filesystem::path& trace);

/// A row in the file: its family's place in the header, its number of values, its time, then the values.
inline constexpr std::size_t kLiveRowHead = 2;
[[nodiscard]] constexpr std::int64_t live_row_tag(std::uint32_t family, std::uint32_t values) noexcept {
  return static_cast<std::int64_t>(std::uint64_t{values} << 32 | family);
}

class LiveRowsWriter {
 public:
  LiveRowsWriter(const std::filesystem::path& trace, std::vector<std::string> families);
  ~LiveRowsWriter();  // removes the file
  LiveRowsWriter(const LiveRowsWriter&) = delete;
  LiveRowsWriter& operator=(const LiveRowsWriter&) = delete;

  /// Whole rows, in two pieces that may part a row: a fresh file begins before the first. False when the disk takes no
  /// more: nothing is written from then on.
  bool write(std::span<const std::int64_t> words, std::span<const std::int64_t> more = {});

 private:
  bool begin_file();

  std::filesystem::path path_;
  std::vector<std::string> families_;
  Descriptor file_;
  std::uint64_t bytes_ = 0;
  bool failed_ = false;
};

class LiveRowsReader {
 public:
  explicit LiveRowsReader(const std::filesystem::path& trace);

  /// `values` are valid during the call.
  using Take =
      std::function<void(const std::string& family, std::int64_t time_ns, std::span<const std::int64_t> values)>;

  /// Hands over the rows that came since the last call. False while there is no file, or none that can be read.
  bool poll(const Take& take);

 private:
  bool open();
  bool read_header();
  void read_more(const Take& take);

  std::filesystem::path path_;
  Descriptor file_;
  ino_t inode_ = 0;
  std::vector<std::string> families_;
  bool header_read_ = false;
  bool damaged_ = false;       // the rest of this file is no use
  std::uint64_t read_ = 0;     // bytes of this file
  std::vector<char> pending_;  // the beginning of an incomplete record
};

}  // namespace reveal
