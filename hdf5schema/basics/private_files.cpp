#include "hdf5schema/basics/private_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"

namespace reveal {

namespace fs = std::filesystem;

void make_private_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (::mkdir(path.c_str(), 0700) == 0) return;
  if (errno != EEXIST) throw system_error(path, errno);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw system_error(path, errno);
  if (!S_ISDIR(status.st_mode)) throw Error(path + " is not a directory");
  // Others could put links in the way of what is written there under our name.
  if (status.st_uid != ::geteuid()) throw Error(path + " belongs to somebody else");
  if ((status.st_mode & 022) != 0) throw Error(path + " can be written by others; try: chmod go-w " + path);
}

std::string private_directory(const std::string& path) {
  constexpr int kMostTaken = 100;
  for (int number = 0; number <= kMostTaken; ++number) {
    std::string candidate = number == 0 ? path : path + "." + std::to_string(number);
    if (::mkdir(candidate.c_str(), 0700) == 0) return candidate;
    if (errno != EEXIST) throw system_error(candidate, errno);
    struct stat status {};
    const bool ours = ::lstat(candidate.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                      status.st_uid == ::geteuid() && (status.st_mode & 077) == 0;
    if (ours) return candidate;
  }
  throw Error(path + " and " + std::to_string(kMostTaken) + " names beside it are not directories of this user alone");
}

// Permission bits do not say it all (read-only mounts, quotas, root squash): the only test is to try.
void require_writable(const std::string& path) {
  std::string trial = path + "/.reveal-run.XXXXXX";
  const Descriptor file(::mkostemp(trial.data(), O_CLOEXEC));  // never through a link that somebody put there
  if (!file) throw system_error(path, errno);
  const bool written = ::write(file.get(), "x", 1) == 1;
  const int error_number = errno;
  ::unlink(trial.c_str());
  if (!written) throw system_error(path, error_number);
}

void move_file(const fs::path& from, const fs::path& to) {
  const fs::path unfinished = to.parent_path() / ("." + to.filename().string() + ".delivering");
  std::error_code error;
  const auto modified = fs::last_write_time(from, error);
  fs::copy_file(from, unfinished, fs::copy_options::overwrite_existing, error);
  if (!error) fs::last_write_time(unfinished, modified, error);  // a summary knows its trace by it
  if (!error) fs::rename(unfinished, to, error);
  if (error) {
    std::error_code ignored;
    fs::remove(unfinished, ignored);
    throw Error(to.string() + ": " + error.message() + "; kept in " + from.string());
  }
  fs::remove(from, error);
}

}  // namespace reveal
