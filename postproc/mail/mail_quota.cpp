#include "postproc/mail/mail_quota.h"

#include <dirent.h>
#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/mail/address.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::string_view kHourly = "hour-";
constexpr std::string_view kArray = "array-";
constexpr std::string_view kTold = "told-";
constexpr std::string_view kRenewed = "renewed-";
constexpr std::string_view kTask = "task-";  // record of ArrayTasks
constexpr std::string_view kFault = "fault-";
constexpr const char* kLook = "look-at-arrays";
constexpr std::int64_t kLongestLook = 600;
constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kDay = kHour * 24;
constexpr std::int64_t kKeepArrays = kDay * 60;  // arrays that run longer mail once more
constexpr std::int64_t kKeepTold = kDay * 366;
constexpr std::size_t kLongestArray = 20;
constexpr int kNoLinks = O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;

bool is_number(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Whether the name has the number of an earlier hour or day. The one before now stays: another node's clock may be
/// behind.
bool is_of_the_past(std::string_view name, std::string_view beginning, std::int64_t now) {
  if (!name.starts_with(beginning)) return false;
  name.remove_prefix(beginning.size());
  const auto number = parse_int(name.substr(0, name.find('-')));
  return number && *number < now - 1;
}

/// Faults of earlier days; those of other users stay. A directory that anybody fills is not read to its end.
void forget_faults(const Descriptor& folder, std::int64_t today) {
  constexpr int kMostLooks = 1000;
  DIR* stream = ::fdopendir(::fcntl(folder.get(), F_DUPFD_CLOEXEC, 0));
  if (stream == nullptr) return;
  std::vector<std::string> old;
  for (int looks = 0; looks < kMostLooks; ++looks) {
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) break;
    if (is_of_the_past(entry->d_name, kFault, today)) old.emplace_back(entry->d_name);
  }
  ::closedir(stream);
  for (const std::string& name : old) ::unlinkat(folder.get(), name.c_str(), 0);
}

}  // namespace

bool is_array_id(std::string_view text) noexcept {
  return text.size() <= kLongestArray && is_number(text);
}

std::optional<std::string> shared_mail_state(const std::filesystem::path& home, const std::string& cluster) {
  std::error_code ignored;
  if (!home.is_absolute() || home == "/" || !std::filesystem::is_directory(home, ignored)) return std::nullopt;
  const std::filesystem::path state = home / kMailStates / file_name_part(cluster.empty() ? "slurm" : cluster);
  try {
    make_private_directory(state.string(), Privacy::others_do_not_write);
    require_writable(state.string());
  } catch (const Error&) {
    return std::nullopt;
  }
  if (std::filesystem::is_symlink(state, ignored)) return std::nullopt;  // MailQuota goes through none
  return state.string();
}

MailQuota::MailQuota(const std::string& directory, std::int64_t now_utc_ns)
    : now_seconds_(now_utc_ns / kSecond), folder_(directory) {
  forget_old();
}

bool MailQuota::create(const std::string& name, const std::string& content) {
  const Descriptor file(::openat(folder_.descriptor(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | kNoLinks, 0600));
  if (!file && errno == EEXIST) return false;
  if (!file) throw system_error(folder_.path_of(name), errno);
  // Full disk: the claim stands all the same, only what it was for is unknown.
  static_cast<void>(!content.empty() && ::write(file.get(), content.data(), content.size()) < 0);
  return true;
}

bool MailQuota::claim(const std::string& name, const std::string& line) {
  return create(name, line) || is_of_former_try(folder_.descriptor(), name, line);
}

bool MailQuota::is_of_former_try(int folder, const std::string& name, std::string_view line) const {
  constexpr std::size_t kLongestLine = 200;
  if (!again_) return false;
  const Descriptor file(::openat(folder, name.c_str(), O_RDONLY | O_NONBLOCK | kNoLinks));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  std::array<char, kLongestLine> begin{};
  const ssize_t size = ::read(file.get(), begin.data(), begin.size());
  return size > 0 && std::string_view(begin.data(), static_cast<std::size_t>(size)).starts_with(line);
}

void MailQuota::begin_mail(const std::string& mail, bool again) {
  mail_ = text_hash(mail) + "\n";
  again_ = again;
}

std::string MailQuota::take_hourly(int per_hour, Audience audience) {
  for (int i = 0; i < per_hour; ++i) {
    std::string name = fmt::format("{}{}-{}-{}", kHourly, now_seconds_ / kHour, name_of(audience), i);
    if (create(name, "")) return name;
  }
  return {};
}

std::string MailQuota::take_array(const std::string& user, const std::string& array, Audience audience,
                                  const std::string& task) {
  if (!is_array_id(array)) throw Error("\"" + printable(array, 40) + "\" is not the number of an array job");
  const std::string owner = is_mail_user(user) ? user : "";
  std::string name = fmt::format("{}{}-{}-{}", kArray, array, name_of(audience), owner);
  const std::string line = printable(task, 40) + "\n";
  if (claim(name, line)) return name;
  note(name, line);
  return {};
}

std::vector<std::string> MailQuota::take_findings(const std::string& user, const std::string& run_key,
                                                  const std::set<std::string>& rules, int days) {
  std::vector<std::string> taken;
  for (const std::string& rule : rules) {
    std::string name = std::string(kTold) + text_hash(user + "\n" + run_key + "\n" + rule);
    if (const auto former = time_of(name); former && *former <= now_seconds_ - kDay * days) {
      // Another delivery may replace this claim at the same time: only one of them gets the right to remove it.
      if (!claim_now(fmt::format("{}{}-{}", kRenewed, name.substr(kTold.size()), *former))) continue;
      give_back(name);
    }
    if (claim_now(name)) taken.push_back(std::move(name));
  }
  return taken;
}

std::string MailQuota::share_faults(const std::string& path) {
  const std::string directory = without_slash(path);
  Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | kNoLinks));
  struct stat status {};
  if (!folder || ::fstat(folder.get(), &status) != 0) return system_error(directory, errno).what();
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) return directory + ": it does not belong to root";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0) {
    return directory + ": others may delete files of it (chmod +t)";
  }
  shared_faults_ = std::move(folder);
  forget_faults(shared_faults_, now_seconds_ / kDay);
  return "";
}

/// A claim that cannot be made there holds no mail back.
bool MailQuota::is_claimed_by_others(const std::string& name) const {
  if (!shared_faults_) return false;
  const Descriptor file(::openat(shared_faults_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | kNoLinks, 0600));
  if (!file) return errno == EEXIST && !is_of_former_try(shared_faults_.get(), name, mail_);
  static_cast<void>(::write(file.get(), mail_.data(), mail_.size()) < 0);  // as in create()
  return false;
}

std::string MailQuota::take_fault(const std::string& key) {
  std::string name = fmt::format("{}{}-{}", kFault, now_seconds_ / kDay, text_hash(key));
  if (!claim(name, mail_)) return "";
  if (!is_claimed_by_others(name)) return name;
  folder_.remove(name);  // the mail of the others may fail, and the next one may try
  return "";
}

bool MailQuota::take_look_at_arrays() {
  return create(fmt::format("{}{}-arrays", kHourly, now_seconds_ / kHour), "");
}

bool MailQuota::begin_look_at_arrays() {
  if (const auto former = time_of(kLook); former && *former <= now_seconds_ - kLongestLook) {
    // As in take_findings(): one process only gets the right to remove it.
    if (!claim_now(fmt::format("{}{}-{}", kRenewed, kLook, *former))) return false;
    folder_.remove(kLook);
  }
  return claim_now(kLook);
}

void MailQuota::end_look_at_arrays() noexcept {
  folder_.remove(kLook);
}

std::optional<std::int64_t> MailQuota::time_of(const std::string& name) const {
  struct stat status {};
  if (::fstatat(folder_.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return status.st_mtime;
}

bool MailQuota::is_older(const std::string& name, std::int64_t seconds) const {
  const std::optional<std::int64_t> time = time_of(name);
  return time && *time <= now_seconds_ - seconds;
}

bool MailQuota::claim_now(const std::string& name) {
  if (!claim(name, mail_)) return false;
  // The file's time is the claim's, whatever the clock of the file server.
  const timespec now{static_cast<time_t>(now_seconds_), 0};
  const timespec times[] = {now, now};
  ::utimensat(folder_.descriptor(), name.c_str(), times, AT_SYMLINK_NOFOLLOW);
  return true;
}

void MailQuota::note(const std::string& name, const std::string& task) {
  const Descriptor file(::openat(folder_.descriptor(), name.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | kNoLinks));
  if (!file) return;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  static_cast<void>(::write(file.get(), task.data(), task.size()) < 0);
}

void MailQuota::give_back(const std::string& name) noexcept {
  if (name.empty()) return;
  folder_.remove(name);
  if (shared_faults_ && name.starts_with(kFault)) ::unlinkat(shared_faults_.get(), name.c_str(), 0);
}

/// A user's records of a year are many, and each of his mails comes here: the first one of an hour looks through them.
void MailQuota::forget_old() {
  const std::string look = fmt::format("{}{}-forgotten", kHourly, now_seconds_ / kHour);
  const Descriptor file(::openat(folder_.descriptor(), look.c_str(), O_WRONLY | O_CREAT | O_EXCL | kNoLinks, 0600));
  if (!file && errno == EEXIST) return;  // no space for a file is a reason to look
  for (const std::string& name : folder_.names("")) {
    if (is_of_the_past(name, kHourly, now_seconds_ / kHour) || is_of_the_past(name, kFault, now_seconds_ / kDay) ||
        ((name.starts_with(kArray) || name.starts_with(kTask)) && is_older(name, kKeepArrays)) ||
        (name.starts_with(kRenewed) && is_older(name, kDay)) ||
        (name.starts_with(kTold) && is_older(name, kKeepTold))) {
      folder_.remove(name);
    }
  }
}

}  // namespace reveal
