#include "postproc/commands/scratch_directory.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <system_error>

#include "hdf5schema/basics/private_files.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

std::string prefix_of(const std::string& use) {
  return "reveal-" + use + "-";
}

/// Directories of processes that were killed.
void clear_old(const fs::path& all) {
  constexpr auto kOld = std::chrono::hours(1);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(all, ignored)) {
    if (fs::file_time_type::clock::now() - entry.last_write_time(ignored) > kOld) fs::remove_all(entry, ignored);
  }
}

bool has_scratch_room(const fs::path& directory) {
  constexpr std::uint64_t kLeastBytes = 16 << 20;
  struct statvfs status {};
  return ::access(directory.c_str(), W_OK | X_OK) == 0 && ::statvfs(directory.c_str(), &status) == 0 &&
         std::uint64_t{status.f_bavail} * status.f_frsize >= kLeastBytes &&
         (status.f_files == 0 || status.f_favail > 0);  // some make inodes as they need them
}

/// The directory for temporary files; where it is full or missing, the first of the others that is not. Throws what the
/// former throws.
fs::path directory_with_room() {
  std::error_code error;
  const fs::path usual = fs::temp_directory_path(error);
  if (!error && has_scratch_room(usual)) return usual;
  for (const char* other : {"/dev/shm", "/var/tmp", "/run"}) {
    if (has_scratch_room(other)) return other;
  }
  return fs::temp_directory_path();
}

/// The directory of this process, in the directory of this user for all processes.
fs::path temporary_place(const fs::path& directory, const std::string& use) {
  const std::string all = private_directory((directory / (prefix_of(use) + std::to_string(::geteuid()))).string());
  clear_old(all);
  fs::path own = fs::path(all) / std::to_string(::getpid());
  fs::remove_all(own);
  make_private_directory(own.string(), Privacy::others_do_not_enter);
  // The end of another process may have removed the empty directory in between, and another user taken its name.
  make_private_directory(all, Privacy::others_do_not_enter);
  return own;
}

fs::path place_here(const std::string& use) {
  fs::path own = fs::current_path() / (prefix_of(use) + std::to_string(::getpid()));
  make_private_directory(own.string(), Privacy::others_do_not_enter);
  return own;
}

fs::path scratch_place(const std::string& use, ScratchDirectory::Place place) {
  using Place = ScratchDirectory::Place;
  if (place == Place::current) return place_here(use);
  return temporary_place(place == Place::with_room ? directory_with_room() : fs::temp_directory_path(), use);
}

}  // namespace

ScratchDirectory::ScratchDirectory(const std::string& use, Place place)
    : path_(scratch_place(use, place)), place_(place) {}

ScratchDirectory::~ScratchDirectory() {
  if (kept_) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (place_ != Place::current) fs::remove(path_.parent_path(), ignored);  // if no other process has one in it
}

bool ScratchDirectory::is_one(const fs::path& directory, const std::string& use) {
  return directory.filename().string().starts_with(prefix_of(use));
}

}  // namespace reveal
