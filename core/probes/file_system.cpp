// How full the file systems are that a job writes to: those of its working directory, TMPDIR, /tmp and /dev/shm. They
// are read in child processes, one for local file systems and one for those of servers, because a request to a dead
// server hangs. The former also reads TMPDIR in the environments of the job's processes, which waits for their locks.
// The job's own folders are passed to statvfs: XFS and ext4 show the quota of a folder's project as the size of the
// file system there. Quotas of users and groups show in no statvfs.
// https://man7.org/linux/man-pages/man3/statvfs.3.html
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/kernel_text/mountinfo.h"
#include "core/sampler/asked_child.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::file_system {
namespace {

constexpr std::array<std::string_view, 2> kFolders = {"/tmp", "/dev/shm"};
constexpr std::array<std::string_view, 12> kLocalTypes = {"ext2", "ext3", "ext4",    "xfs",  "btrfs", "tmpfs",
                                                          "zfs",  "f2fs", "overlay", "vfat", "ramfs", "devtmpfs"};

constexpr std::size_t kMostMounts = 16;    // a job may go from one to the next
constexpr std::size_t kMostSearched = 16;  // processes, of a job that has no TMPDIR
constexpr std::string_view kTmpdir = "TMPDIR=";
constexpr std::size_t kLongestFolder = 500;
constexpr std::size_t kLongestRequest = 8000;

/// A file system can fill up in seconds; a server may be busy for some.
constexpr std::chrono::seconds kPeriod{5};
constexpr int kLooksUntilHung = 2;
/// The start waits so long for TMPDIR, and the first look for local file systems: a recording of two seconds has no
/// second one.
constexpr std::chrono::milliseconds kFirstLook{100};

constexpr MetricHelp kBytes[] = {
    {"fs.total", "Size of the file system; like all metrics of this probe, it was read in the previous row."},
    {"fs.free", "Free space."},
    {"fs.available", "Free space for ordinary users."},
};
constexpr MetricHelp kFiles[] = {
    {"fs.files", "Maximum number of files (inodes)."},
    {"fs.files_free", "Number of files that can still be created."},
};
constexpr MetricHelp kAnswers[] = {
    {"fs.not_answering", "1 while the file servers have not answered for ten seconds and longer."}};
constexpr FamilyTable kFamilies[] = {
    {"storage/file_systems", Kind::gauge, Unit::bytes, Scope::device, Subsystem::storage,
     "Space of the job's file systems", "statvfs", kBytes},
    {"storage/file_system_files", Kind::gauge, Unit::count, Scope::device, Subsystem::storage,
     "Files of the job's file systems", "statvfs", kFiles},
    {"storage/file_system_answers", Kind::state, Unit::count, Scope::node, Subsystem::storage,
     "Whether file servers answer", "statvfs", kAnswers},
};

/// Folders are sent in lines, all in one request.
bool fits_a_line(std::string_view folder) {
  return folder.size() <= kLongestFolder && folder.find_first_of("\t\n") == std::string_view::npos;
}

/// "TMPDIR=/scratch/4711" of "HOME=/home/u\0TMPDIR=/scratch/4711\0"; "" where it is no folder's full name.
std::string_view tmpdir_in(std::string_view environ) {
  while (!environ.empty()) {
    const std::string_view entry = environ.substr(0, environ.find('\0'));
    environ.remove_prefix(std::min(entry.size() + 1, environ.size()));
    if (!entry.starts_with(kTmpdir)) continue;
    const std::string_view folder = entry.substr(kTmpdir.size());
    return folder.starts_with('/') && fits_a_line(folder) ? entry : "";
  }
  return "";
}

/// The file system of a folder, where its name leads there without a symbolic link and over no other mount: the job
/// chose the name, and its target may be a server that does not answer. Else that of the mount point.
int status_of(const std::string& root, std::string_view point, std::string_view folder, struct statvfs& status) {
  const std::string mounted = root + std::string(point);
  const Descriptor mount(::open(mounted.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!mount) return -1;
  folder.remove_prefix(std::min(folder.size(), point == "/" ? 1 : point.size() + 1));
  struct open_how how {};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  const std::string below(folder);
  const Descriptor inside(
      below.empty() ? -1 : static_cast<int>(::syscall(SYS_openat2, mount.get(), below.c_str(), &how, sizeof how)));
  return ::fstatvfs(inside ? inside.get() : mount.get(), &status);
}

// Lines "point\tfolder on it", answered by one line each: "point total free available files files_free". A folder that
// is gone, or that only the job's namespace has, is read at its mount point. Before them, numbers of processes: of the
// first one that has it, "TMPDIR=/scratch/4711".
std::string query_file_systems(const std::string& root, std::string_view request) {
  std::string answer;
  std::string_view line;
  while (next_line(request, line)) {
    if (!line.starts_with('/')) {
      if (!answer.empty()) continue;
      const std::string environ = file_text(root + "/proc/" + std::string(line) + "/environ");
      if (const std::string_view entry = tmpdir_in(environ); !entry.empty()) answer = std::string(entry) + '\n';
      continue;
    }
    const std::string_view point = line.substr(0, line.find('\t'));
    struct statvfs status {};
    if (status_of(root, point, line.substr(std::min(point.size() + 1, line.size())), status) != 0) continue;
    if ((status.f_flag & ST_RDONLY) != 0) continue;  // full for ever, and nobody writes to it
    const auto unit = static_cast<std::uint64_t>(status.f_frsize);
    answer += point;
    for (const std::uint64_t value : {status.f_blocks * unit, status.f_bfree * unit, status.f_bavail * unit,
                                      std::uint64_t{status.f_files}, std::uint64_t{status.f_ffree}}) {
      answer += ' ' + std::to_string(value);
    }
    answer += '\n';
  }
  return answer;
}

class FileSystemProbe final : public Probe {
 public:
  explicit FileSystemProbe(const ProbeContext& context)
      : context_(context),
        local_(context, query_file_systems, {.probe = "file_system", .recorded_as = "statvfs/local"}) {
    if (!context.fs.live() && !context.fs.recorded()) {
      throw Unavailable("a copied tree has no data about its file systems");
    }
    local_.need();
    list_processes();
    local_.ask(std::exchange(unread_, {}));
    static_cast<void>(read_tmpdir(local_.answer_within(kFirstLook)));
    follow_job();
    if (points_[0].empty() && points_[1].empty() && !context.fs.recorded()) {
      throw Unavailable("the mounts of this host cannot be read");
    }
    for (std::size_t i = 0; i < families_.size(); ++i) families_[i] = &context.family(kFamilies[i]);
    local_.ask(requests_[0]);
  }

  void sample() noexcept override {
    for (Family* family : families_) family->begin();
    if (context_.job != nullptr && context_.job->generation() != generation_) {
      list_processes();
      follow_job();
    }
    const std::string_view answer =
        std::exchange(is_first_look_, false) ? local_.answer_within(kFirstLook) : local_.answer();
    take(answer);
    if (read_tmpdir(answer)) follow_job();
    query_local();
    if (remote_) {
      take(remote_->answer());
      watch_servers();
      remote_->ask(requests_[1]);
    }
    for (Family* family : families_) family->commit();
  }

  [[nodiscard]] std::string caveat() const override {
    std::string text;
    const auto add = [&text](const std::string& of, const std::string& gaps) {
      if (!gaps.empty()) text += (text.empty() ? "" : "; ") + of + gaps;
    };
    add("local file systems: ", local_.gaps());
    if (remote_) add("file servers: ", remote_->gaps());
    return text;
  }

 private:
  struct Place {
    std::int32_t bytes = Family::kNoChannel;
    std::int32_t files = Family::kNoChannel;
  };

  /// Its own folders, which may have a quota.
  std::vector<std::string> folders_of_job() {
    std::vector<std::string> folders;
    if (context_.job == nullptr) return folders;
    generation_ = context_.job->generation();
    for (const auto& process : context_.job->processes()) {
      if (process->launcher) continue;
      const auto folder = context_.fs.link("/proc/" + std::to_string(process->pid) + "/cwd");
      if (!folder) continue;
      folders.push_back(*folder);
      break;
    }
    if (!tmpdir_.empty()) folders.push_back(tmpdir_);
    std::erase_if(folders, [](const std::string& folder) { return !fits_a_line(folder); });
    return folders;
  }

  /// The processes with an environment to read with the next request: a batch script may set TMPDIR for its children.
  /// None is read twice.
  void list_processes() {
    if (context_.job == nullptr || !tmpdir_.empty()) return;
    for (const auto& process : context_.job->processes()) {
      if (searched_.size() == kMostSearched) break;
      if (!process->launcher && searched_.insert(process->pid).second) unread_ += std::to_string(process->pid) + '\n';
    }
  }

  void query_local() {
    if (unread_.empty()) {
      local_.ask(requests_[0]);
    } else if (local_.ask(unread_ + requests_[0])) {
      unread_.clear();
    }
  }

  /// True when an answer begins with it, for the first time. A recording keeps it apart, because it keeps no answer of
  /// the start but the last one.
  bool read_tmpdir(std::string_view answer) {
    if (context_.job == nullptr || !tmpdir_.empty()) return false;
    tmpdir_ = context_.fs.fact("@tmpdir", [answer] {
      const std::string_view line = answer.substr(0, answer.find('\n'));
      return std::string(line.starts_with(kTmpdir) ? line.substr(kTmpdir.size()) : "");
    });
    return !tmpdir_.empty();
  }

  void follow_job() {
    std::vector<std::string> folders = folders_of_job();
    folders.insert(folders.end(), kFolders.begin(), kFolders.end());
    const std::string mountinfo = context_.fs.text("/proc/self/mountinfo").value_or("");
    for (const std::string& folder : folders) {
      const MountPoint mount = mount_of(mountinfo, folder);
      if (mount.folder.empty() || places_.contains(mount.folder) || places_.size() == kMostMounts) continue;
      const bool local = std::find(kLocalTypes.begin(), kLocalTypes.end(), mount.type) != kLocalTypes.end();
      const std::string line = mount.folder + '\t' + folder + '\n';
      if (requests_[local ? 0 : 1].size() + line.size() > kLongestRequest) continue;
      places_[mount.folder] = {};
      points_[local ? 0 : 1] += mount.folder + '\n';
      requests_[local ? 0 : 1] += line;
    }
    constexpr AskedChildWords kServers{.probe = "file_system", .recorded_as = "statvfs/servers"};
    if (!points_[1].empty() && !remote_) remote_.emplace(context_, query_file_systems, kServers);
  }

  void take(std::string_view answer) {
    std::string_view line;
    while (next_line(answer, line)) {
      const std::string_view point = cut_word(line);
      std::array<std::int64_t, std::size(kBytes) + std::size(kFiles)> values{};
      bool whole = !point.empty();
      for (std::int64_t& value : values) whole = whole && parse_counter(cut_word(line), value);
      const auto found = places_.find(point);
      if (!whole || found == places_.end()) continue;
      Place& place = found->second;
      if (place.bytes == Family::kNoChannel) {
        place.bytes = families_[0]->add_all(kBytes, found->first);
        place.files = families_[1]->add_all(kFiles, found->first);
      }
      for (std::size_t i = 0; i < std::size(kBytes); ++i) {
        families_[0]->set(place.bytes + static_cast<std::int32_t>(i), values[i]);
      }
      if (values[std::size(kBytes)] == 0) continue;  // a file system that makes inodes as it needs them
      for (std::size_t i = 0; i < std::size(kFiles); ++i) {
        families_[1]->set(place.files + static_cast<std::int32_t>(i), values[std::size(kBytes) + i]);
      }
    }
  }

  void watch_servers() {
    if (remote_->state() == AskedChild::State::lost) return;
    unanswered_ = remote_->state() == AskedChild::State::busy ? std::min(unanswered_ + 1, kLooksUntilHung) : 0;
    const bool hangs = unanswered_ == kLooksUntilHung;
    if (families_[2]->channels().empty()) families_[2]->add(kAnswers[0].name);
    families_[2]->set(0, hangs ? 1 : 0);
    if (hangs == hung_) return;
    hung_ = hangs;
    context_.sink.event("file servers", hangs ? "not_answering" : "answering", points_[1]);
  }

  ProbeContext context_;
  AskedChild local_;
  std::optional<AskedChild> remote_;
  std::uint64_t generation_ = 0;
  bool is_first_look_ = true;
  int unanswered_ = 0;  // looks in a row
  bool hung_ = false;
  std::array<std::string, 2> points_;    // local ones, those of servers; one a line
  std::array<std::string, 2> requests_;  // likewise, each with a folder on it
  std::string tmpdir_;
  std::set<int> searched_;  // processes
  std::string unread_;      // processes that were not read, one a line
  std::map<std::string, Place, std::less<>> places_;
  std::array<Family*, std::size(kFamilies)> families_{};
};

std::unique_ptr<Probe> open_file_system(const ProbeContext& context) {
  return std::make_unique<FileSystemProbe>(context);
}

const RegisteredProbe entry{{.name = "file_system",
                             .help = "Free space of the job's file systems, and whether file servers answer",
                             .period = kPeriod,
                             .may_block = true,
                             .families = kFamilies,
                             .open = open_file_system,
                             .remedy = "mount /proc with the mounts of the job's file systems"}};

}  // namespace
}  // namespace reveal::probe::file_system
