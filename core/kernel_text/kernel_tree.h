// All kernel text is read here: every path is relative to a root, "/" on a live node, a copied tree, or a recording
// made with `--record`. Probes cannot distinguish them, so a recorded host becomes a test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

class KernelTree;
class RecordingReader;
class RecordingWriter;

/// A moment on the trace's axis and on the wall.
struct TickTime {
  std::int64_t monotonic_ns = 0;
  std::int64_t utc_ns = 0;
};

/// A text that is read again and again: kept open and read with pread on a live node, looked up in a recording.
class KernelFile {
 public:
  KernelFile() = default;
  KernelFile(KernelTree& fs, std::string path, std::size_t expected_size);
  ~KernelFile();
  KernelFile(KernelFile&& other) noexcept;
  KernelFile& operator=(KernelFile&& other) noexcept;

  /// The text now; empty with error() set when it cannot be read. Valid until the next read().
  [[nodiscard]] std::string_view read() noexcept;
  [[nodiscard]] int error() const noexcept { return error_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fs_ != nullptr; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  friend class KernelTree;
  std::string_view read_live() noexcept;
  void close() noexcept;

  KernelTree* fs_ = nullptr;
  std::string path_;
  std::size_t expected_size_ = 0;
  std::vector<char> buffer_;  // from the first read on
  int fd_ = -1;
  int error_ = 0;
  bool may_keep_ = true;
  bool ends_surely_ = false;  // a short read is the end of the text: see read_live()
};

class KernelTree {
 public:
  /// A directory with a file `ticks.rec` is a recording; anything else is a tree. Throws Error.
  explicit KernelTree(const std::filesystem::path& root = "/");
  ~KernelTree();
  KernelTree(const KernelTree&) = delete;
  KernelTree& operator=(const KernelTree&) = delete;

  [[nodiscard]] KernelFile open(std::string path, std::size_t expected_size = 2048);
  /// Opens a file for each read: for files that exist once per cpu and are read every few seconds.
  [[nodiscard]] KernelFile open_each_time(std::string path, std::size_t expected_size = 64);
  /// Opens and reads once; throws Unavailable("why: No such file ...") if that fails.
  [[nodiscard]] KernelFile require(std::string path, std::string_view why);

  /// Reads a text once, for texts that are read rarely; nothing if it cannot be read.
  [[nodiscard]] std::optional<std::string> text(std::string_view path);
  /// The same, never recorded: for texts that may hold secrets and of which a `fact` keeps a harmless part.
  [[nodiscard]] std::string unrecorded_text(const std::string& path) const;
  /// The text without surrounding blanks, "" if it cannot be read.
  [[nodiscard]] std::string word(std::string_view path);
  /// Names in a directory, sorted; empty if it cannot be read.
  [[nodiscard]] std::vector<std::string> list(std::string_view path);
  [[nodiscard]] std::optional<std::string> link(std::string_view path);
  /// A fact of the host that is not kernel text ("@topology"): produced live and recorded, replayed as recorded.
  [[nodiscard]] std::string fact(std::string_view name, const std::function<std::string()>& produce);

  [[nodiscard]] bool live() const noexcept { return root_.empty() && !reader_; }
  [[nodiscard]] bool recorded() const noexcept { return reader_ != nullptr; }
  [[nodiscard]] bool recording() const noexcept { return writer_ != nullptr; }
  [[nodiscard]] const std::string& root() const noexcept { return root_; }

  /// Recording only: the recorded tick that next_tick() will return, and going there; nothing at its end.
  [[nodiscard]] std::optional<TickTime> upcoming_tick() const;
  [[nodiscard]] std::optional<TickTime> next_tick();

  /// From now on, everything read is also written to `directory`.
  void record_to(const std::filesystem::path& directory);
  void mark_tick(TickTime time);
  /// Texts read from now on belong to no tick. Throws Error if the recording is not whole.
  void end_recording();

  /// Files kept open at most; beyond it they are opened for each read, so a low limit costs time, not data.
  void limit_kept_files(int limit) noexcept { kept_files_left_ = limit; }
  /// Other code has opened so many more files of the same limit; fewer, if negative.
  void spare_files(int count) noexcept { kept_files_left_ -= count; }

 private:
  friend class KernelFile;
  int read_once(std::string_view path, std::string& text);
  /// Opens a file below the root and follows links only there: a copied tree may be another user's. -1 with errno.
  [[nodiscard]] int descriptor_of(const char* path, int flags) const noexcept;

  std::string root_;            // "" for "/"
  Descriptor root_descriptor_;  // none for "/"
  bool stays_inside_ = false;
  std::unique_ptr<RecordingReader> reader_;
  std::unique_ptr<RecordingWriter> writer_;
  int kept_files_left_ = 4096;
};

}  // namespace reveal
