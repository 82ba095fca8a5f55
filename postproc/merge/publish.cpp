#include "postproc/merge/publish.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

void publish_file(const std::filesystem::path& directory, const std::string& name, std::string_view content) {
  const std::string target = (directory / name).string();
  const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) throw system_error(directory.string(), errno);
  // O_EXCL: somebody else who may write here cannot make us write through a link of theirs.
  const std::string temporary = "." + name + "." + std::to_string(::getpid()) + ".tmp";
  int raw = ::openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (raw < 0 && errno == EEXIST) {
    ::unlinkat(folder.get(), temporary.c_str(), 0);  // of a process of the same number that died
    raw = ::openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  const Descriptor file(raw);
  if (file.get() < 0) throw system_error(target, errno);
  if (!write_all(file.get(), content) || ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) != 0) {
    const int error = errno;
    ::unlinkat(folder.get(), temporary.c_str(), 0);
    throw system_error(target, error);
  }
}

std::string read_text_file(const std::filesystem::path& path, std::size_t limit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw system_error(path.string(), errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_error(path.string(), errno);
  if (!S_ISREG(status.st_mode)) throw Error(path.string() + ": not a regular file");
  if (static_cast<std::size_t>(status.st_size) > limit)
    throw Error(path.string() + ": too large to be what its name says");
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
