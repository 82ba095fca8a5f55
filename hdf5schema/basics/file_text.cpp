#include "hdf5schema/basics/file_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"

namespace reveal {

std::string file_text(const std::string& path, std::size_t most) {
  constexpr std::size_t kPiece = 64 << 10;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  while (file && text.size() < most) {
    const std::size_t begin = text.size();
    text.resize(std::min(begin + kPiece, most));
    const ssize_t got = ::read(file.get(), text.data() + begin, text.size() - begin);
    text.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0 || (got < 0 && errno != EINTR)) break;
  }
  return text;
}

std::string read_text_file(const std::filesystem::path& path, std::size_t limit, FileOf owner, Follow follow) {
  const int link = follow == Follow::no ? O_NOFOLLOW : 0;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | link));
  if (file.get() < 0 && errno == ELOOP && follow == Follow::no) throw Error(path.string() + ": is a symbolic link");
  if (file.get() < 0) throw system_error(path.string(), errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_error(path.string(), errno);
  if (!S_ISREG(status.st_mode)) throw Error(path.string() + ": not a regular file");
  if (owner == FileOf::ours && status.st_uid != ::geteuid()) throw Error(path.string() + ": belongs to another user");
  if (static_cast<std::size_t>(status.st_size) > limit)
    throw Error(path.string() + ": too large for a file of this kind");
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(path.string(), errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

}  // namespace reveal
