#include "hdf5schema/basics/private_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"

namespace reveal {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kCopiedAtOnce = std::size_t{256} << 10;

Descriptor open_directory(const fs::path& directory) {
  // "" is the parent of a name without a slash.
  const char* name = directory.empty() ? "." : directory.c_str();
  Descriptor folder(::open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw system_error(name, errno);
  return folder;
}

/// A regular file, open for reading.
struct Source {
  explicit Source(const fs::path& path)
      : name(path.string()), file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)) {
    if (!file || ::fstat(file.get(), &status) != 0) throw system_error(name, errno);
    if (!S_ISREG(status.st_mode)) throw Error(name + ": is not a regular file");
  }
  [[nodiscard]] mode_t mode() const noexcept { return status.st_mode & 0777; }

  std::string name;
  Descriptor file;
  struct stat status {};
};

void fill(NewFile& copy, const Source& source) {
  std::vector<char> buffer(kCopiedAtOnce);
  while (true) {
    const ssize_t got = ::read(source.file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(source.name, errno);
    if (got == 0) break;
    copy.write({buffer.data(), static_cast<std::size_t>(got)});
  }
  // A summary identifies its trace by the time.
  const timespec times[] = {source.status.st_atim, source.status.st_mtim};
  if (::futimens(copy.descriptor(), times) != 0) throw system_error(source.name + ", its copy", errno);
}

std::string hidden_name(const std::string& name) {
  return "." + name + ".delivering";
}

/// No other process takes it for one that was left behind.
std::string hidden_name_of_process(const std::string& name) {
  return "." + name + "." + std::to_string(::getpid()) + ".tmp";
}

void copy_and_sync(const fs::path& from, const fs::path& to) {
  const Source source(from);
  NewFile copy(to.parent_path(), to.filename(), hidden_name(to.filename()), source.mode());
  fill(copy, source);
  copy.publish(Synced::yes);
}

/// Why a path with this status is no private directory of ours, "" if it is.
std::string flaw_of(const std::string& path, const struct stat& status, Privacy privacy) {
  if (!S_ISDIR(status.st_mode)) return " is not a directory";
  // Others could put links in the way of files written there under our name.
  if (status.st_uid != ::geteuid()) return " belongs to another user";
  if ((status.st_mode & 022) != 0) return " can be written by others; try: chmod go-w " + path;
  if (privacy == Privacy::others_do_not_enter && (status.st_mode & 077) != 0) return " can be entered by others";
  return "";
}

std::string flaw_of(const std::string& path, Privacy privacy) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::string(": ") + std::strerror(errno);
  if (S_ISLNK(status.st_mode) && privacy == Privacy::others_do_not_write) {
    // Through a link of their own, others could lead us into any directory of ours. Links of root are the site's.
    if (status.st_uid != ::geteuid() && status.st_uid != 0) return " is a link of another user";
    if (::stat(path.c_str(), &status) != 0) return std::string(": ") + std::strerror(errno);
  }
  return flaw_of(path, status, privacy);
}

}  // namespace

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void make_private_directory(const std::string& path, Privacy privacy) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (::mkdir(path.c_str(), 0700) == 0) return;
  if (errno != EEXIST) throw system_error(path, errno);
  if (const std::string flaw = flaw_of(path, privacy); !flaw.empty()) throw Error(path + flaw);
}

void require_private_directory(int folder, const std::string& path, Privacy privacy) {
  struct stat status {};
  if (::fstat(folder, &status) != 0) throw system_error(path, errno);
  if (const std::string flaw = flaw_of(path, status, privacy); !flaw.empty()) throw Error(path + flaw);
}

Descriptor open_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw system_error(path, errno);
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder && (errno == ELOOP || errno == ENOTDIR)) throw Error(path + " is not a directory, or a link to one");
  struct stat status {};
  if (!folder || ::fstat(folder.get(), &status) != 0) throw system_error(path, errno);
  const std::string flaw = flaw_of(path, status, Privacy::others_do_not_write);
  if (!flaw.empty()) throw Error(path + flaw);
  return folder;
}

namespace {

constexpr int kMostTaken = 100;  // names that other users may have taken

std::string private_name(const std::string& path, int number) {
  return number == 0 ? path : path + "." + std::to_string(number);
}

}  // namespace

std::string private_directory(const std::string& path) {
  for (int number = 0; number <= kMostTaken; ++number) {
    std::string candidate = private_name(path, number);
    if (::mkdir(candidate.c_str(), 0700) == 0) return candidate;
    if (errno != EEXIST) throw system_error(candidate, errno);
    if (flaw_of(candidate, Privacy::others_do_not_enter).empty()) return candidate;
  }
  throw Error(path + " and " + std::to_string(kMostTaken) + " names beside it are not directories of this user alone");
}

std::string existing_private_directory(const std::string& path) {
  for (int number = 0; number <= kMostTaken; ++number) {
    std::string candidate = private_name(path, number);
    if (struct stat status{}; ::lstat(candidate.c_str(), &status) != 0) return "";
    if (flaw_of(candidate, Privacy::others_do_not_enter).empty()) return candidate;
  }
  return "";
}

// Permission bits are not sufficient (read-only mounts, quotas, root squash): the only test is to try.
void require_writable(const std::string& path) {
  std::string trial = path + "/.reveal-run.XXXXXX";
  const Descriptor file(::mkostemp(trial.data(), O_CLOEXEC));  // never through a link of another user
  if (!file) throw system_error(path, errno);
  const bool written = ::write(file.get(), "x", 1) == 1;
  const int error_number = errno;
  ::unlink(trial.c_str());
  if (!written) throw system_error(path, error_number);
}

NewFile::NewFile(const fs::path& directory, std::string name, std::string hidden, mode_t mode)
    : place_((directory / name).string()),
      name_(std::move(name)),
      hidden_(std::move(hidden)),
      own_folder_(open_directory(directory)),
      folder_(own_folder_.get()) {
  create(mode);
}

NewFile::NewFile(int folder, const fs::path& directory, std::string name, std::string hidden, mode_t mode)
    : place_((directory / name).string()), name_(std::move(name)), hidden_(std::move(hidden)), folder_(folder) {
  create(mode);
}

void NewFile::create(mode_t mode) {
  const auto attempt = [&] {
    return ::openat(folder_, hidden_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  };
  file_ = attempt();
  if (file_ < 0 && errno == EEXIST) {
    ::unlinkat(folder_, hidden_.c_str(), 0);  // left by a process that was killed
    file_ = attempt();
  }
  if (file_ < 0) throw system_error(place_, errno);
  hidden_there_ = true;
}

NewFile::~NewFile() {
  if (file_ >= 0) ::close(file_);
  if (hidden_there_) ::unlinkat(folder_, hidden_.c_str(), 0);
}

void NewFile::write(std::string_view content) {
  if (!write_all(file_, content)) throw system_error(place_, errno);
}

void NewFile::close(Synced synced) {
  if (file_ < 0) return;
  if (synced != Synced::no && ::fsync(file_) != 0) throw system_error(place_, errno);
  // A network file system reports here that the file did not fit.
  // https://man7.org/linux/man-pages/man2/close.2.html
  if (::close(std::exchange(file_, -1)) != 0) throw system_error(place_, errno);
}

void NewFile::publish(Synced synced) {
  close(synced);
  if (::renameat(folder_, hidden_.c_str(), folder_, name_.c_str()) != 0) throw system_error(place_, errno);
  hidden_there_ = false;
  if (synced == Synced::yes) sync_directory(folder_, place_);
}

bool NewFile::publish_as(const std::string& name) {
  close(Synced::content);
  if (::renameat2(folder_, hidden_.c_str(), folder_, name.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) return false;
    // NFS and others cannot do this in one step.
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) throw system_error(place_, errno);
    struct stat there {};
    if (::fstatat(folder_, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) return false;
    if (::renameat(folder_, hidden_.c_str(), folder_, name.c_str()) != 0) throw system_error(place_, errno);
  }
  hidden_there_ = false;
  return true;
}

void publish_file(const fs::path& directory, const std::string& name, std::string_view content, Synced synced,
                  mode_t mode) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) throw system_error(directory.string(), errno);
  if (status.st_uid != ::geteuid())
    throw Error((directory / name).string() + ": not written, the directory belongs to another user");
  NewFile file(directory, name, hidden_name_of_process(name), mode);
  ::fchmod(file.descriptor(), mode);  // whatever the umask
  file.write(content);
  file.publish(synced);
}

void sync_directory(const fs::path& directory) {
  sync_directory(open_directory(directory).get(), directory);
}

void sync_directory(int folder, const fs::path& directory) {
  if (::fsync(folder) == 0) return;
  // Some network and FUSE file systems have no such call for directories.
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) throw system_error(directory.string(), errno);
}

void copy_over(const fs::path& from, int folder, const fs::path& directory, const std::string& name) {
  copy_aside(from, folder, directory, name)->publish(Synced::content);
}

std::unique_ptr<NewFile> copy_aside(const fs::path& from, int folder, const fs::path& directory,
                                    const std::string& name) {
  const Source source(from);
  auto copy = std::make_unique<NewFile>(folder, directory, name, hidden_name_of_process(name), source.mode());
  fill(*copy, source);
  copy->close(Synced::content);
  return copy;
}

std::string copy_new(const fs::path& from, int folder, const fs::path& directory,
                     const std::function<std::string(int)>& name) {
  const Source source(from);
  std::string wanted = name(1);
  NewFile copy(folder, directory, wanted, hidden_name(wanted), source.mode());
  fill(copy, source);
  for (int number = 2; !copy.publish_as(wanted); ++number) wanted = name(number);
  return wanted;
}

std::string move_file(const fs::path& from, const fs::path& to) {
  try {
    copy_and_sync(from, to);
  } catch (const Error& error) {
    throw Error(std::string(error.what()) + "; kept in " + from.string());
  }
  if (::unlink(from.c_str()) == 0) return {};
  return system_error(from.string() + ": was delivered and cannot be removed", errno).what();
}

}  // namespace reveal
