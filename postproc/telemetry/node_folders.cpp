#include "postproc/telemetry/node_folders.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolderBegin = "nodes-";
constexpr std::uint32_t kNodeFolders = 128;

/// FNV-1a, which no version may change: files of earlier ones are looked for by it.
/// https://datatracker.ietf.org/doc/html/draft-eastlake-fnv
std::uint32_t fnv_hash(std::string_view text) noexcept {
  std::uint32_t hash = 0x811c9dc5;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
  return hash;
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return is_node_folder(entry.path().filename().native()) &&
         entry.symlink_status(ignored).type() == fs::file_type::directory;
}

/// False if `visit` was.
bool visit_names(const fs::path& directory, const std::function<bool(const fs::directory_entry&)>& visit,
                 std::error_code& error) {
  fs::directory_iterator entry(directory, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (!visit(*entry)) return false;
  }
  return true;
}

/// "n01" of "n01.h5.part"; nothing for a file of another kind.
std::string_view node_of_file(std::string_view name) {
  constexpr std::string_view kEndings[] = {".h5", ".h5.part", ".h5.earlier", ".summary.json"};
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return {};
}

}  // namespace

std::string node_folder(std::string_view node) {
  return fmt::format("{}{:02x}", kFolderBegin, fnv_hash(node) % kNodeFolders);
}

bool is_node_folder(std::string_view name) noexcept {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return name.size() == kFolderBegin.size() + 2 && name.starts_with(kFolderBegin) &&
         name.find_first_not_of(kDigits, kFolderBegin.size()) == std::string_view::npos;
}

std::vector<UnreadFolder> visit_node_files(const fs::path& directory,
                                           const std::function<bool(const fs::path&)>& visit) {
  std::vector<fs::path> folders;
  std::error_code error;
  const auto visit_or_keep = [&](const fs::directory_entry& entry) {
    if (!is_folder(entry)) return visit(entry.path());
    folders.push_back(entry.path());
    return true;
  };
  const bool goes_on = visit_names(directory, visit_or_keep, error);
  if (error) throw Error(directory.string() + ": " + error.message());
  if (!goes_on) return {};
  std::sort(folders.begin(), folders.end());
  std::vector<UnreadFolder> unread;
  for (const fs::path& folder : folders) {
    const auto visit_file = [&](const fs::directory_entry& entry) { return visit(entry.path()); };
    if (!visit_names(folder, visit_file, error)) break;
    if (error) unread.push_back({folder.filename().string(), error.message()});
    error.clear();
  }
  return unread;
}

fs::path job_directory_of(const fs::path& file) {
  fs::path folder = file.parent_path();
  const std::string name = file.filename().string();
  const std::string_view node = node_of_file(name);
  return !node.empty() && folder.filename() == node_folder(node) ? folder.parent_path() : folder;
}

}  // namespace reveal
