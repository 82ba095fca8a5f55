#include "hdf5schema/live_rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace reveal {
namespace {

constexpr char kMagic[8] = {'r', 'e', 'v', 'e', 'a', 'l', 'L', '1'};
/// Then a fresh file follows; readers of the old one still have it open. 40 s of 1,000 channels at 10 Hz.
constexpr std::uint64_t kMostBytes = 4 << 20;
constexpr std::uint32_t kMostFamilies = 4096;
constexpr std::size_t kMostHeader = 1 << 20;
constexpr std::uint32_t kMostValues = 1 << 20;
constexpr std::size_t kReadBytes = 256 << 10;
/// The limit for one file: a hole in it could be read for days.
constexpr std::uint64_t kMostRead = 4 * kMostBytes;

template <typename Number>
Number number_at(const char* at) {
  Number value{};
  std::memcpy(&value, at, sizeof value);
  return value;
}

void append_number(std::string& text, std::uint32_t value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::filesystem::path with_ending(std::filesystem::path trace, const char* ending) {
  trace += ending;
  return trace;
}

}  // namespace

std::filesystem::path live_rows_path(const std::filesystem::path& trace) {
  return with_ending(trace, ".live");
}
std::filesystem::path watch_marker_path(const std::filesystem::path& trace) {
  return with_ending(trace, ".watch");
}

LiveRowsWriter::LiveRowsWriter(const std::filesystem::path& trace, std::vector<std::string> families)
    : path_(live_rows_path(trace)), families_(std::move(families)) {
  failed_ = !begin_file();
}

LiveRowsWriter::~LiveRowsWriter() {
  if (file_) ::unlink(path_.c_str());
}

/// A new file, never one that lies there: a link would lead the rows elsewhere.
bool LiveRowsWriter::begin_file() {
  ::unlink(path_.c_str());
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) return false;
  std::string header(kMagic, sizeof kMagic);
  append_number(header, static_cast<std::uint32_t>(families_.size()));
  for (const std::string& family : families_) {
    append_number(header, static_cast<std::uint32_t>(family.size()));
    header += family;
  }
  bytes_ = header.size();
  return write_all(file_.get(), header);
}

bool LiveRowsWriter::write(std::span<const std::int64_t> words, std::span<const std::int64_t> more) {
  if (!failed_ && bytes_ > kMostBytes) failed_ = !begin_file();
  for (const auto& part : {words, more}) {
    failed_ = failed_ || !write_all(file_.get(), {reinterpret_cast<const char*>(part.data()), part.size_bytes()});
    bytes_ += part.size_bytes();
  }
  return !failed_;
}

LiveRowsReader::LiveRowsReader(const std::filesystem::path& trace) : path_(live_rows_path(trace)) {}

bool LiveRowsReader::open() {
  Descriptor file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  file_ = std::move(file);
  inode_ = status.st_ino;
  header_read_ = damaged_ = false;
  read_ = 0;
  pending_.clear();
  return true;
}

bool LiveRowsReader::poll(const Take& take) {
  if (!file_ && !open()) return false;
  read_more(take);
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0) {
    file_.close();
    return false;
  }
  if (status.st_ino != inode_) {  // a fresh file follows; the old one does not grow any more
    read_more(take);
    if (!open()) return false;
    read_more(take);
  }
  return !damaged_;
}

bool LiveRowsReader::read_header() {
  const std::size_t size = pending_.size();
  std::size_t at = sizeof kMagic + sizeof(std::uint32_t);
  if (size < at) return false;
  const auto count = number_at<std::uint32_t>(pending_.data() + sizeof kMagic);
  if (std::memcmp(pending_.data(), kMagic, sizeof kMagic) != 0 || count > kMostFamilies) {
    damaged_ = true;
    return false;
  }
  std::vector<std::string> families;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (size - at < sizeof(std::uint32_t)) return false;
    const auto length = number_at<std::uint32_t>(pending_.data() + at);
    at += sizeof length;
    if (at + length > kMostHeader) damaged_ = true;
    if (damaged_ || size - at < length) return false;
    families.emplace_back(pending_.data() + at, length);
    at += length;
  }
  families_ = std::move(families);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(at));
  header_read_ = true;
  return true;
}

void LiveRowsReader::read_more(const Take& take) {
  std::vector<std::int64_t> values;
  while (!damaged_) {
    const std::size_t had = pending_.size();
    pending_.resize(had + kReadBytes);
    const ssize_t got = ::read(file_.get(), pending_.data() + had, kReadBytes);
    pending_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) return;
    read_ += static_cast<std::uint64_t>(got);
    if (read_ > kMostRead) {
      damaged_ = true;
      pending_.clear();
      return;
    }
    if (!header_read_ && !read_header()) continue;
    std::size_t at = 0;
    constexpr std::size_t kHead = kLiveRowHead * sizeof(std::int64_t);
    while (pending_.size() - at >= kHead) {
      const auto tag = static_cast<std::uint64_t>(number_at<std::int64_t>(pending_.data() + at));
      const auto family = static_cast<std::uint32_t>(tag);
      const auto count = static_cast<std::uint32_t>(tag >> 32);
      if (family >= families_.size() || count > kMostValues) {
        damaged_ = true;  // the flushes still come
        pending_.clear();
        return;
      }
      const std::size_t bytes = count * sizeof(std::int64_t);
      if (pending_.size() - at - kHead < bytes) break;
      values.resize(count);
      if (count > 0) std::memcpy(values.data(), pending_.data() + at + kHead, bytes);
      take(families_[family], number_at<std::int64_t>(pending_.data() + at + sizeof(std::int64_t)), values);
      at += kHead + bytes;
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

}  // namespace reveal
