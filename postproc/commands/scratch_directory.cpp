#include "postproc/commands/scratch_directory.h"

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

/// The directory of this process, in the directory of this user for all processes.
fs::path temporary_place(const std::string& use) {
  const std::string all =
      private_directory((fs::temp_directory_path() / (prefix_of(use) + std::to_string(::geteuid()))).string());
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

}  // namespace

ScratchDirectory::ScratchDirectory(const std::string& use, Place place)
    : path_(place == Place::temporary ? temporary_place(use) : place_here(use)), place_(place) {}

ScratchDirectory::~ScratchDirectory() {
  if (kept_) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (place_ == Place::temporary) fs::remove(path_.parent_path(), ignored);  // if no other process has one in it
}

bool ScratchDirectory::is_one(const fs::path& directory, const std::string& use) {
  return directory.filename().string().starts_with(prefix_of(use));
}

}  // namespace reveal
