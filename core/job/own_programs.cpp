#include "core/job/own_programs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string>

namespace reveal {
namespace {

struct OwnProgram {
  std::string_view command;
  ProgramOf program;
  bool is_common = false;  // a name that other programs have, too
};
constexpr OwnProgram kOwnPrograms[] = {{"reveal-run", ProgramOf::reveal},
                                       {"reveal-witness", ProgramOf::reveal},  // a process of reveal-run
                                       {"reveal", ProgramOf::reveal, true},
                                       {"reveal-collect", ProgramOf::collector}};
constexpr std::string_view kOwnFiles[] = {"reveal-run", "reveal", "reveal-collect"};

std::string program_folder(const std::string& file) {
  return file.substr(0, file.rfind('/'));
}

}  // namespace

// The files are identified once: a file server may not answer later. A user can put any file at any path of a mount
// namespace of his own; he cannot choose its inode.
OwnPrograms::OwnPrograms(KernelTree& fs, const std::filesystem::path& folder) : fs_(fs) {
  if (!fs.live()) return;
  for (const std::string_view name : kOwnFiles) {
    if (const File file = file_at((folder / name).c_str()); file != File()) files_.push_back(file);
  }
}

/// The inode of a running program is known without its file server. Nothing has device 0 and inode 0.
OwnPrograms::File OwnPrograms::file_at(const char* path) noexcept {
  struct statx status {};
  if (::statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &status) != 0) return {};
  return {std::uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor, status.stx_ino};
}

ProgramOf OwnPrograms::program_of(int pid, std::string_view command) const {
  const auto own = std::find_if(std::begin(kOwnPrograms), std::end(kOwnPrograms),
                                [command](const OwnProgram& each) { return each.command == command; });
  if (own == std::end(kOwnPrograms)) return ProgramOf::job;
  const bool ours = is_ours(pid, !own->is_common);
  return ours ? own->program : ProgramOf::job;
}

// Without an allocation: it is called again and again for a program of ours.
bool OwnPrograms::is_ours(int pid, bool otherwise) const {
  constexpr std::string_view kName = "@job/program";
  constexpr std::string_view kFolder = "/proc/";
  constexpr std::string_view kLink = "/exe";
  std::array<char, 48> text{};
  char* end = std::copy(kName.begin(), kName.end(), text.data());
  const char* path = end;
  end = std::copy(kFolder.begin(), kFolder.end(), end);
  end = std::to_chars(end, text.data() + text.size() - kLink.size() - 1, pid).ptr;
  end = std::copy(kLink.begin(), kLink.end(), end);
  const std::string verdict =
      fs_.fact({text.data(), static_cast<std::size_t>(end - text.data())}, [this, path]() -> std::string {
        if (!fs_.live()) return "";
        const File its = file_at(path);
        return its != File() && std::find(files_.begin(), files_.end(), its) != files_.end() ? "ours" : "other";
      });
  return verdict.empty() ? is_beside_us(path, otherwise) : verdict == "ours";
}

/// In a copied tree and in recordings of earlier versions, which may have no links to files of programs.
bool OwnPrograms::is_beside_us(std::string_view path, bool otherwise) const {
  const auto its = fs_.link(path);
  const auto ours = fs_.link("/proc/self/exe");
  return its && ours ? program_folder(*its) == program_folder(*ours) : otherwise;
}

}  // namespace reveal
