#include "core/kernel_text/kernel_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/kernel_text/recording.h"
#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

// A kernel file of many records hands out at most this much per read, whatever the buffer.
// https://docs.kernel.org/filesystems/seq_file.html
constexpr std::size_t kKernelPage = 4096;
constexpr std::size_t kLongRecord = 768;

bool has_long_line(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > kLongRecord) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

constexpr int kMostTries = 64;

/// Links and ".." lead to a place below the root. https://man7.org/linux/man-pages/man2/openat2.2.html
int open_inside(int root, const char* path, int flags) noexcept {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_IN_ROOT;
  return static_cast<int>(::syscall(SYS_openat2, root, path, &how, sizeof how));
}

}  // namespace

KernelFile::KernelFile(KernelTree& fs, std::string path, std::size_t expected_size)
    : fs_(&fs), path_(std::move(path)), expected_size_(std::max<std::size_t>(expected_size, 64)) {}

KernelFile::~KernelFile() {
  close();
}

KernelFile::KernelFile(KernelFile&& other) noexcept
    : fs_(std::exchange(other.fs_, nullptr)),
      path_(std::move(other.path_)),
      expected_size_(other.expected_size_),
      buffer_(std::move(other.buffer_)),
      fd_(std::exchange(other.fd_, -1)),
      error_(other.error_),
      may_keep_(other.may_keep_),
      ends_surely_(other.ends_surely_) {}

KernelFile& KernelFile::operator=(KernelFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  fs_ = std::exchange(other.fs_, nullptr);
  path_ = std::move(other.path_);
  expected_size_ = other.expected_size_;
  buffer_ = std::move(other.buffer_);
  fd_ = std::exchange(other.fd_, -1);
  error_ = other.error_;
  may_keep_ = other.may_keep_;
  ends_surely_ = other.ends_surely_;
  return *this;
}

void KernelFile::close() noexcept {
  if (fd_ < 0) return;
  ::close(fd_);
  fd_ = -1;
  if (fs_ != nullptr) ++fs_->kept_files_left_;
}

std::string_view KernelFile::read() noexcept {
  if (fs_ == nullptr) {
    error_ = ENOENT;
    return {};
  }
  if (fs_->reader_) {
    const RecordedText& recorded = fs_->reader_->at('F', path_);
    error_ = recorded.error;
    return recorded.text;
  }
  const std::string_view text = read_live();
  if (fs_->writer_) fs_->writer_->note('F', path_, error_, text);
  return text;
}

std::string_view KernelFile::read_live() noexcept {
  bool keep = true;
  if (fd_ < 0) {
    fd_ = fs_->descriptor_of(path_.c_str(), O_RDONLY | O_NONBLOCK);
    if (fd_ < 0) {
      error_ = errno;
      return {};
    }
    keep = may_keep_ && fs_->kept_files_left_ > 0;
    if (keep) --fs_->kept_files_left_;
  }
  if (buffer_.empty()) buffer_.resize(expected_size_);
  std::size_t size = 0;
  error_ = 0;
  while (true) {
    if (size == buffer_.size()) buffer_.resize(buffer_.size() * 2);
    const ssize_t got = ::pread(fd_, buffer_.data() + size, buffer_.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error_ = errno;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
    // The read that would return 0 costs as much as reading a small file. It is needed only if the kernel may have
    // stopped at the end of its page: a text with short records that is well below a page is complete.
    if (ends_surely_ && size < buffer_.size() && size + kLongRecord < kKernelPage) break;
  }
  const std::string_view text(buffer_.data(), error_ == 0 ? size : 0);
  if (!ends_surely_ && error_ == 0 && size > 0) ends_surely_ = !has_long_line(text);
  if (!keep) {
    ::close(fd_);
    fd_ = -1;
  } else if (error_ != 0) {
    close();
  }
  return text;
}

KernelTree::KernelTree(const std::filesystem::path& root) : root_(root.lexically_normal().string()) {
  while (!root_.empty() && root_.back() == '/') root_.pop_back();
  if (root_.empty()) return;
  std::error_code ignored;
  if (!std::filesystem::is_directory(root_, ignored)) throw Error(root_ + ": not a directory");
  root_descriptor_ = Descriptor(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root_descriptor_.get() < 0) throw system_error(root_, errno);
  const Descriptor probe(open_inside(root_descriptor_.get(), "/", O_PATH));
  stays_inside_ = probe.get() >= 0;  // not before Linux 5.6, nor where a container refuses the call
  if (std::filesystem::exists(root_ + '/' + std::string(kRecordingFile), ignored)) {
    reader_ = std::make_unique<RecordingReader>(root_ + '/' + std::string(kRecordingFile));
  }
}

KernelTree::~KernelTree() = default;

int KernelTree::descriptor_of(const char* path, int flags) const noexcept {
  if (root_.empty()) return ::open(path, flags | O_CLOEXEC);
  if (!stays_inside_) return ::openat(root_descriptor_.get(), path + 1, flags | O_CLOEXEC);
  for (int tries = 0; tries < kMostTries; ++tries) {
    const int descriptor = open_inside(root_descriptor_.get(), path, flags);
    if (descriptor >= 0 || errno != EAGAIN) return descriptor;  // something was renamed meanwhile
  }
  return -1;
}

KernelFile KernelTree::open(std::string path, std::size_t expected_size) {
  return KernelFile(*this, std::move(path), expected_size);
}

KernelFile KernelTree::open_each_time(std::string path, std::size_t expected_size) {
  KernelFile file = open(std::move(path), expected_size);
  file.may_keep_ = false;
  return file;
}

KernelFile KernelTree::require(std::string path, std::string_view why) {
  KernelFile file = open(std::move(path));
  if (file.read().empty()) {
    const std::string reason = file.error() == 0 ? "empty" : std::strerror(file.error());
    throw Unavailable(std::string(why) + " (" + file.path() + ": " + reason + ")");
  }
  return file;
}

int KernelTree::read_once(std::string_view path, std::string& text) {
  KernelFile file = open_each_time(std::string(path), 2048);
  text = file.read();
  return file.error();
}

std::optional<std::string> KernelTree::text(std::string_view path) {
  std::string text;
  if (read_once(path, text) != 0) return std::nullopt;
  return text;
}

std::string KernelTree::unrecorded_text(const std::string& path) const {
  if (reader_) return "";
  const Descriptor file(descriptor_of(path.c_str(), O_RDONLY | O_NONBLOCK));
  std::string text;
  std::array<char, kKernelPage> part;
  while (file) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::string KernelTree::word(std::string_view path) {
  std::string text = this->text(path).value_or("");
  const std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

std::vector<std::string> KernelTree::list(std::string_view path) {
  std::vector<std::string> names;
  if (reader_) {
    std::string_view rest = reader_->at('D', path).text;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      names.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return names;
  }
  int error = 0;
  const int descriptor = descriptor_of(std::string(path).c_str(), O_RDONLY | O_DIRECTORY);
  DIR* directory = descriptor < 0 ? nullptr : ::fdopendir(descriptor);
  if (directory == nullptr) {
    error = errno;
    if (descriptor >= 0) ::close(descriptor);
  } else {
    while (const dirent* entry = ::readdir(directory)) {
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    ::closedir(directory);
    std::sort(names.begin(), names.end());
  }
  if (writer_) {
    std::string text;
    for (const std::string& name : names) text += name + '\n';
    writer_->note('D', path, error, text);
  }
  return names;
}

std::optional<std::string> KernelTree::link(std::string_view path) {
  if (reader_) {
    const RecordedText& recorded = reader_->at('L', path);
    if (recorded.error != 0) return std::nullopt;
    return recorded.text;
  }
  std::array<char, 4096> target;
  const int itself = descriptor_of(std::string(path).c_str(), O_PATH | O_NOFOLLOW);
  const ssize_t size = itself < 0 ? -1 : ::readlinkat(itself, "", target.data(), target.size());
  const int error = size < 0 ? errno : 0;
  if (itself >= 0) ::close(itself);
  const std::string_view text(target.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
  if (writer_) writer_->note('L', path, error, text);
  if (size < 0) return std::nullopt;
  return std::string(text);
}

std::string KernelTree::fact(std::string_view name, const std::function<std::string()>& produce) {
  if (reader_) return reader_->at('@', name).text;
  std::string text = produce();
  if (writer_) writer_->note('@', name, 0, text);
  return text;
}

std::optional<TickTime> KernelTree::upcoming_tick() const {
  if (!reader_) return std::nullopt;
  return reader_->upcoming();
}

std::optional<TickTime> KernelTree::next_tick() {
  if (!reader_) return std::nullopt;
  return reader_->next_tick();
}

void KernelTree::record_to(const std::filesystem::path& directory) {
  writer_ = std::make_unique<RecordingWriter>(directory);
}

void KernelTree::mark_tick(TickTime time) {
  if (writer_) writer_->mark_tick(time);
}

void KernelTree::end_recording() {
  const std::unique_ptr<RecordingWriter> writer = std::move(writer_);
  if (writer) writer->finish();
}

}  // namespace reveal
