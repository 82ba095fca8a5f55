#include "postproc/mail/state_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "hdf5schema/basics/private_files.h"

namespace reveal {

StateFolder::StateFolder(const std::string& directory)
    : path_(without_slash(directory)), folder_(open_private_directory(path_)) {}

std::vector<std::string> StateFolder::names(std::string_view beginning) const {
  std::vector<std::string> found;
  DIR* stream = ::fdopendir(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return found;
  while (const dirent* entry = ::readdir(stream)) {
    if (std::string_view(entry->d_name).starts_with(beginning)) found.emplace_back(entry->d_name);
  }
  ::closedir(stream);
  std::sort(found.begin(), found.end());
  return found;
}

void StateFolder::remove(const std::string& name) const noexcept {
  ::unlinkat(folder_.get(), name.c_str(), 0);
}

}  // namespace reveal
