#include "postproc/history/retention.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/basics/trace_halves.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/zlib_text.h"
#include "postproc/telemetry/job_files.h"
#include "postproc/telemetry/node_folders.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kStillWritten = 600 * kSecond;  // a trace that is flushed every ten seconds

constexpr std::string_view kSummary = kNodeFileEndings.front();
constexpr std::string_view kMergedTraces = "job.h5";
constexpr std::string_view kTraceEnding = ".h5";
constexpr std::string_view kOpenTraceEnding = ".h5.part";
constexpr std::string_view kSchemaOfSummary = "reveal.summary/";
constexpr std::size_t kMostOfSummary = 1 << 20;

/// The directory itself, through no link to it; throws Error if it is another user's. `above`: the open directory that
/// it is in.
Descriptor open_own(int above, const fs::path& directory) {
  const fs::path name = above == AT_FDCWD ? directory : directory.filename();
  Descriptor folder(::openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (folder.get() < 0 || ::fstat(folder.get(), &status) != 0) throw system_error(directory.string(), errno);
  if (status.st_uid != ::geteuid()) throw Error(directory.string() + " belongs to another user");
  return folder;
}

Descriptor open_own(const fs::path& directory) {
  return open_own(AT_FDCWD, directory);
}

struct RunFile {
  std::string name;  // in its folder
  std::uint64_t bytes = 0;
  bool ours = false;  // made by reveal for this user
  bool being_written = false;
  std::int64_t changed_utc_ns = 0;
};

/// The first bytes of our own regular file of that name; "" where it is none.
std::string begin_of(const Descriptor& folder, const std::string& name, std::size_t limit) {
  const Descriptor file(::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  const bool own =
      file.get() >= 0 && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
  std::string text(own ? limit : 0, '\0');
  const ssize_t size = own ? ::pread(file.get(), text.data(), text.size(), 0) : 0;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

/// The record in it; throws Error where there is none, or only a link.
RunRecord record_in(const Descriptor& folder) {
  const std::string text = begin_of(folder, kRunRecordFile, kLargestRunRecord);
  if (text.empty()) throw Error("it holds no record of a run");
  return parse_run(text);
}

bool is_summary(std::string content) {
  try {
    return plain_text(std::move(content), kMostOfSummary).substr(0, 200).find(kSchemaOfSummary) != std::string::npos;
  } catch (const Error&) {
    return false;  // damaged, or not ours
  }
}

/// "n1" of n1.h5 and n1.h5.part; "" for other names.
std::string node_of_trace(const std::string& name) {
  for (const std::string_view ending : {kTraceEnding, kOpenTraceEnding}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return "";
}

bool is_trace(const fs::path& file) {
  try {
    static_cast<void>(TraceReader(file, TraceReader::Check::names));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// "report.json" of ".report.json.4711.tmp", "n1.h5" of ".n1.h5.delivering": a process that was killed left the half
/// that it had written (private_files.h, trace_halves.h, status_file.cpp, downsample_traces.cpp). "" for other names.
std::string whole_of_half(std::string_view name) {
  constexpr std::string_view kHalves[] = {".delivering", ".new", kCompactHalf, kNextHalf, kLastHalf};
  constexpr std::string_view kTemporary = ".tmp";    // behind the number of the process
  constexpr std::string_view kThinner = ".thinner";  // before it
  if (!name.starts_with('.')) return "";
  name.remove_prefix(1);
  for (const std::string_view ending : kHalves) {
    if (name.ends_with(ending)) return std::string(name.substr(0, name.size() - ending.size()));
  }
  std::string_view before = kThinner;
  if (name.ends_with(kTemporary)) {
    name.remove_suffix(kTemporary.size());
    before = ".";
  }
  const std::size_t place = name.rfind(before);
  const bool numbered =
      place != std::string_view::npos && parse_int(name.substr(place + before.size())).value_or(0) > 0;
  return numbered ? std::string(name.substr(0, place)) : "";
}

void add_files_of_node(const std::string& node, std::set<std::string>& names) {
  for (const std::string_view ending : kNodeFileEndings) names.insert(node + std::string(ending));
}

/// The directory of a run, or a folder of nodes in it.
struct RunFolder {
  Descriptor folder;
  fs::path path;
  std::vector<RunFile> files;
};

/// results.h5 beside a report is the user's: a node's files are known by the summary of its analysis, or by a trace
/// that was never analysed.
void mark_ours(std::vector<RunFolder>& folders) {
  constexpr std::size_t kMostOfMerged = 1 << 20;
  std::set<std::string> of_run(kReportFiles.begin(), kReportFiles.end());
  of_run.insert(kDeliveryFiles.begin(), kDeliveryFiles.end());
  std::set<std::string> of_nodes;
  const std::string links = begin_of(folders.front().folder, std::string(kMergedTraces), kMostOfMerged);
  for (const RunFolder& place : folders) {
    for (const RunFile& file : place.files) {
      if (!file.name.ends_with(kSummary) || !is_summary(begin_of(place.folder, file.name, kMostOfSummary))) continue;
      const std::string node = file.name.substr(0, file.name.size() - kSummary.size());
      add_files_of_node(node, of_nodes);
      if (links.find(node + ".h5") != std::string::npos) of_run.emplace(kMergedTraces);
    }
  }
  for (const RunFolder& place : folders) {
    for (const RunFile& file : place.files) {
      const std::string node = node_of_trace(file.name);
      const bool known = of_nodes.contains(file.name) || of_run.contains(file.name);
      if (!node.empty() && file.ours && !known && !file.being_written && is_trace(place.path / file.name)) {
        add_files_of_node(node, of_nodes);
      }
    }
  }
  for (RunFolder& place : folders) {
    const bool first = &place == &folders.front();
    for (RunFile& file : place.files) {
      const bool rests = utc_now_ns() - file.changed_utc_ns >= kStillWritten;
      const std::string whole = rests ? whole_of_half(file.name) : "";
      const std::string& name = whole.empty() ? file.name : whole;
      const bool run = first && (of_run.contains(name) || file.name.starts_with(kMergePartBegin));
      file.ours = file.ours && (run || of_nodes.contains(name));
    }
  }
}

/// Lists the files of the folder at `here`. Those of the first one can be folders of nodes, which are appended.
void list_files(std::size_t here, std::vector<RunFolder>& folders) {
  const int again = ::openat(folders[here].folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto close = [](DIR* stream) { ::closedir(stream); };
  const std::unique_ptr<DIR, decltype(close)> stream(again < 0 ? nullptr : ::fdopendir(again), close);
  if (!stream) throw system_error(folders[here].path.string(), errno);
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    const int folder = folders[here].folder.get();
    struct stat status {};
    const bool known = ::fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (here == 0 && known && S_ISDIR(status.st_mode) && is_node_folder(name)) {
      fs::path path = folders[here].path / name;
      Descriptor own = open_own(folder, path);
      folders.push_back({.folder = std::move(own), .path = std::move(path), .files = {}});
      continue;
    }
    RunFile& file = folders[here].files.emplace_back(RunFile{.name = std::string(name)});
    if (!known) continue;
    file.bytes = static_cast<std::uint64_t>(status.st_blocks) * 512;
    file.ours = S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
    file.changed_utc_ns = nanoseconds_of(status.st_mtim);
    file.being_written = name.ends_with(".h5.part") && utc_now_ns() - file.changed_utc_ns < kStillWritten;
  }
}

/// The directory first, which is open, and then its folders of nodes. Throws Error.
std::vector<RunFolder> folders_of_run(Descriptor folder, const fs::path& directory) {
  std::vector<RunFolder> folders;
  folders.push_back({.folder = std::move(folder), .path = directory, .files = {}});
  for (std::size_t here = 0; here < folders.size(); ++here) list_files(here, folders);
  mark_ours(folders);
  return folders;
}

/// Throws Error.
void delete_files(const RunFolder& place, Deletion& deletion) {
  for (const RunFile& file : place.files) {
    if (!file.ours) continue;
    if (::unlinkat(place.folder.get(), file.name.c_str(), 0) != 0) {
      throw system_error((place.path / file.name).string(), errno);
    }
    deletion.bytes += file.bytes;
    ++deletion.files;
  }
}

bool has_file(const Descriptor& folder, const char* name) {
  struct stat status {};
  return ::fstatat(folder.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

/// A clock with an earlier time was not set: reveal is younger.
constexpr std::int64_t kClockIsSet = 1'577'836'800 * kSecond;

std::int64_t recorded_end(const RunRecord& record) {
  constexpr double kLongest = 1e9;  // seconds
  constexpr std::int64_t kLatest = 8'000'000'000 * kSecond;
  const double seconds = record.seconds > 0 ? std::min(record.seconds, kLongest) : 0;
  return std::min(record.begin_utc_ns, kLatest) + static_cast<std::int64_t>(seconds * 1e9);
}

void need_same_run(const Descriptor& folder, const RunRecord& record) {
  if (record.run_id.empty() && has_file(folder, kRunRecordFile)) throw Error("it has a report by now");
  if (!record.run_id.empty() && record_in(folder).run_id != record.run_id) throw Error("it holds another run by now");
}

}  // namespace

StoredRun look_at_run(const fs::path& directory, const RunRecord& record) {
  StoredRun run{.directory = directory, .record = record};
  run.ended_utc_ns = recorded_end(record);
  std::int64_t newest = 0;
  try {
    Descriptor folder = open_own(directory);
    need_same_run(folder, record);
    for (const RunFolder& place : folders_of_run(std::move(folder), directory)) {
      for (const RunFile& file : place.files) {
        if (file.being_written) run.why_not = "it is still being recorded";
        run.bytes += file.ours ? file.bytes : 0;
        ++(file.ours ? run.files : run.others);
        if (file.ours) newest = std::max(newest, file.changed_utc_ns);
      }
    }
  } catch (const Error& error) {
    run.why_not = error.what();
  }
  if (run.ended_utc_ns < kClockIsSet) run.ended_utc_ns = std::max(run.ended_utc_ns, newest);
  return run;
}

std::optional<StoredRun> look_at_unrecorded(const fs::path& directory) {
  StoredRun run{.directory = directory, .record = {}};
  const bool of_reveal = directory.filename().string().starts_with("reveal-");
  bool has_traces = false;
  try {
    Descriptor folder = open_own(directory);
    if (has_file(folder, kRunRecordFile) || (!of_reveal && !has_file(folder, kClaimFile))) return std::nullopt;
    for (const RunFolder& place : folders_of_run(std::move(folder), directory)) {
      for (const RunFile& file : place.files) {
        if (!file.ours) {
          ++run.others;
          continue;
        }
        ++run.files;
        run.bytes += file.bytes;
        has_traces = has_traces || !node_of_trace(file.name).empty();
        run.record.begin_utc_ns = std::max(run.record.begin_utc_ns, file.changed_utc_ns);
      }
    }
  } catch (const Error&) {
    return std::nullopt;  // a directory of another user, or not readable
  }
  if (!has_traces) return std::nullopt;
  run.ended_utc_ns = run.record.begin_utc_ns;
  if (utc_now_ns() - run.record.begin_utc_ns < kStillWritten) run.why_not = "it may still be recorded";
  return run;
}

std::vector<StoredRun> unrecorded_runs_in(const fs::path& folder) {
  std::vector<StoredRun> runs;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    // Known from the list itself: a folder may hold a million files.
    std::error_code unknown;
    if (!entry->is_directory(unknown)) continue;
    if (auto run = look_at_unrecorded(entry->path())) runs.push_back(*std::move(run));
  }
  return runs;
}

std::vector<const StoredRun*> beyond_limits(const std::vector<StoredRun>& runs, const RetentionLimits& limits) {
  std::vector<const StoredRun*> beyond;
  std::size_t kept = 0;
  std::uint64_t bytes = 0;
  bool large = false;  // a run did not fit: no older one stays for it
  for (const StoredRun& run : runs) {
    const bool old = limits.ended_before_utc_ns != 0 && run.ended_utc_ns < limits.ended_before_utc_ns;
    const bool many = limits.most_runs && kept >= *limits.most_runs;
    large = large || (limits.most_bytes && bytes + run.bytes > *limits.most_bytes);
    if (run.why_not.empty() && (old || many || large)) {
      beyond.push_back(&run);
    } else {
      ++kept;
      bytes += run.bytes;
    }
  }
  return beyond;
}

std::string doubt_of_ages(const std::vector<StoredRun>& runs, std::int64_t ended_before_utc_ns,
                          const ClockFacts& clock) {
  constexpr std::int64_t kDay = 86'400 * kSecond;
  const std::string now = "the clock of this machine (" + date_and_time(clock.now_utc_ns) + ")";
  if (std::abs(clock.file_system_ahead_ns) > kDay) {
    return now + " differs from that of the file system (" +
           date_and_time(clock.now_utc_ns + clock.file_system_ahead_ns) + ")";
  }
  for (const StoredRun& run : runs) {
    if (run.ended_utc_ns - clock.now_utc_ns <= kDay) continue;
    return now + " is behind the run in " + run.directory.string() + " (" + date_and_time(run.ended_utc_ns) +
           "): if the clock is right, delete this run by hand";
  }
  const bool all = runs.size() > 1 && std::ranges::all_of(runs, [ended_before_utc_ns](const StoredRun& run) {
                     return run.ended_utc_ns < ended_before_utc_ns;
                   });
  return all && !clock.synchronised ? "all runs are older, and " + now + " is not synchronised" : "";
}

Deletion delete_run(const StoredRun& run) {
  Descriptor folder = open_own(run.directory);
  need_same_run(folder, run.record);
  std::vector<RunFolder> folders = folders_of_run(std::move(folder), run.directory);
  if (run.record.run_id.empty()) {
    const auto now = look_at_unrecorded(run.directory);
    if (!now || !now->why_not.empty()) throw Error("it has changed meanwhile");
  }
  for (const RunFolder& place : folders) {
    if (std::ranges::any_of(place.files, &RunFile::being_written)) throw Error("it is still being recorded");
  }
  // As long as the record is there, an interrupted deletion can be repeated.
  std::vector<RunFile>& own = folders.front().files;
  std::stable_partition(own.begin(), own.end(), [](const RunFile& file) { return file.name != kRunRecordFile; });
  Deletion deletion;
  for (std::size_t i = folders.size(); i-- > 0;) {
    delete_files(folders[i], deletion);
    if (i > 0) ::unlinkat(folders.front().folder.get(), folders[i].path.filename().c_str(), AT_REMOVEDIR);
  }
  deletion.directory_gone = ::rmdir(run.directory.c_str()) == 0;
  return deletion;
}

}  // namespace reveal
