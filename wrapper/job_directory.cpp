#include "wrapper/job_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "hdf5schema/basics/child_answer.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kClaim = ".h5.claimed";
/// In the claims of a directory that we made. Any other one is the job's, which may even run in it: it stays.
constexpr std::string_view kMadeForClaims = "made";

/// Where this node's trace will be: until then, it may be written elsewhere, or not yet.
std::string claim_of(const std::string& directory, const std::string& node) {
  return directory + "/" + node + std::string(kClaim);
}

bool is_made_for_claims(const std::string& claim) {
  return file_text(claim, kMadeForClaims.size()) == kMadeForClaims;
}

/// A node of the same job may have made it a moment ago. Only a few files are looked at: the job's own directory may
/// hold a million of them, or the claims of a thousand nodes, and the command waits.
bool has_claim_of_its_maker(const std::string& directory) {
  constexpr int kMostLookedAt = 32;
  int looked_at = 0;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().native().ends_with(kClaim) && is_made_for_claims(entry->path().string())) return true;
    if (++looked_at == kMostLookedAt) break;
  }
  return false;
}

/// False if another run of this node was first.
bool claim(const std::string& directory, const std::string& node, bool made) {
  const bool remove_at_end = made || has_claim_of_its_maker(directory);
  const std::string file = claim_of(directory, node);
  const Descriptor claimed(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!claimed && errno != EEXIST) throw system_error(file, errno);
  // Without the word, an empty directory may be left.
  if (claimed && remove_at_end) static_cast<void>(write_all(claimed.get(), kMadeForClaims));
  return static_cast<bool>(claimed);
}

void release(const std::string& directory, const std::string& node) noexcept try {
  ::unlink(claim_of(directory, node).c_str());
} catch (const std::exception&) {  // no memory: the next run takes another directory
}

bool holds_trace_of(const std::string& path, const std::string& node) {
  struct stat status {};
  const std::string trace = path + "/" + node + ".h5";
  const std::string open_trace = trace + ".part";
  return ::lstat(trace.c_str(), &status) == 0 || ::lstat(open_trace.c_str(), &status) == 0;
}

/// /var/tmp and not /tmp: it survives a reboot, and it is rarely in memory.
std::string spools_of_user() {
  return "/var/tmp/reveal-" + std::to_string(::geteuid());
}

std::string make_spool(const std::string& job_directory) {
  std::string name =
      private_directory(spools_of_user()) + "/" + fs::path(job_directory).filename().string() + ".XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw system_error(name, errno);
  return name;
}

}  // namespace

std::string choose_job_directory(const RunSettings& settings, const Environment& environment) {
  std::string name;
  if (!settings.output.empty()) {
    name = expand_pattern(settings.output, environment);
  } else if (const std::string job = environment("SLURM_JOB_ID"); !job.empty()) {
    name = "reveal-" + file_name_part(job);
  } else {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
    name = "reveal-" + std::string(text) + "-" + std::to_string(::getpid());
  }
  std::error_code error;
  fs::path path = fs::absolute(name, error);
  if (error) throw Error(name + ": " + error.message());
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "DIR/"
  return path.string();
}

JobDirectory make_job_directory(const std::string& path, const std::string& node, IsOnNetwork on_network) {
  constexpr int kMostRuns = 1000;
  for (int run = 1; run <= kMostRuns; ++run) {
    const std::string candidate = run == 1 ? path : path + "-" + std::to_string(run);
    struct stat status {};
    const bool made = ::lstat(candidate.c_str(), &status) != 0;
    make_private_directory(candidate, Privacy::others_do_not_write);
    if (holds_trace_of(candidate, node)) continue;
    require_writable(candidate);
    if (!claim(candidate, node, made)) continue;
    if (holds_trace_of(candidate, node)) {  // another run has ended meanwhile
      release(candidate, node);
      continue;
    }
    try {
      return {candidate, on_network(candidate) ? make_spool(candidate) : candidate};
    } catch (const Error&) {
      release(candidate, node);
      throw;
    }
  }
  throw Error(path + " holds " + std::to_string(kMostRuns) + " runs already");
}

JobDirectory make_job_directory_within(std::chrono::milliseconds limit, const std::string& path,
                                       const std::string& node) {
  constexpr char kMade = '+';
  constexpr char kNotMade = '-';
  constexpr std::size_t kLongest = 16384;
  const ChildAnswer answer = query_child(
      [&] {
        try {
          const JobDirectory made = make_job_directory(path, node);
          return kMade + made.path + '\0' + made.recording;
        } catch (const std::exception& error) {
          return kNotMade + std::string(error.what());
        }
      },
      limit, kLongest);
  if (answer.start_error != 0) throw system_error(path, answer.start_error);
  if (answer.text.empty()) {
    throw Error(path + ": the file system did not answer within " + std::to_string(limit.count()) + " ms");
  }
  const std::string said = answer.text.substr(1);
  const std::size_t end_of_path = said.find('\0');
  if (answer.text.front() != kMade || end_of_path == std::string::npos) throw Error(said);
  return {said.substr(0, end_of_path), said.substr(end_of_path + 1)};
}

void abandon(const JobDirectory& directory, const std::string& node) noexcept try {
  const bool made = is_made_for_claims(claim_of(directory.path, node));
  release(directory.path, node);
  if (directory.spooled()) ::rmdir(directory.recording.c_str());
  if (made) ::rmdir(directory.path.c_str());
} catch (const std::exception&) {  // no memory: an empty directory is left
}

namespace {

/// Throws Error; returns why the spool could not be removed.
std::string move_out_of_spool(const JobDirectory& directory) {
  std::string left;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory.recording)) files.push_back(entry.path());
  for (const fs::path& file : files) {
    std::error_code ignored;
    if (file.filename().native().starts_with('.'))
      fs::remove(file, ignored);  // left by a collector that was killed while it made a smaller trace
    else if (std::string why = move_file(file, fs::path(directory.path) / file.filename()); !why.empty())
      left = std::move(why);
  }
  if (left.empty() && ::rmdir(directory.recording.c_str()) != 0)
    left = system_error(directory.recording + ": was delivered but cannot be removed", errno).what();
  return left;
}

}  // namespace

std::string deliver(const JobDirectory& directory, const std::string& node) try {
  std::string left = directory.spooled() ? move_out_of_spool(directory) : std::string();
  release(directory.path, node);
  return left;
} catch (...) {
  release(directory.path, node);
  throw;
}

namespace {

bool is_undelivered(const fs::path& spool) {
  constexpr std::chrono::minutes kStillWritten{10};  // an open trace is flushed every ten seconds
  const auto young = fs::file_time_type::clock::now() - kStillWritten;
  bool has_trace = false;
  std::error_code error;
  for (fs::directory_iterator entry(spool, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == "report.json") return false;
    const bool is_file = entry->symlink_status(error).type() == fs::file_type::regular;
    if (!is_file || !(name.ends_with(".h5") || name.ends_with(".h5.part"))) continue;
    const auto changed = entry->last_write_time(error);
    if (error || changed > young) return false;
    has_trace = true;
  }
  return has_trace;
}

}  // namespace

std::vector<std::string> undelivered_in(const std::string& spools) {
  constexpr std::size_t kMostSpools = 1000;
  std::vector<std::string> found;
  std::error_code error;
  std::size_t seen = 0;
  for (fs::directory_iterator entry(spools, error), end; !error && entry != end && seen < kMostSpools;
       entry.increment(error), ++seen) {
    std::error_code unknown;
    const bool is_folder = entry->symlink_status(unknown).type() == fs::file_type::directory;
    if (is_folder && is_undelivered(entry->path())) found.push_back(entry->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> undelivered_traces() {
  const std::string spools = existing_private_directory(spools_of_user());
  return spools.empty() ? std::vector<std::string>() : undelivered_in(spools);
}

}  // namespace reveal
