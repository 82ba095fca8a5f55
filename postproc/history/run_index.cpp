#include "postproc/history/run_index.h"

#include <fcntl.h>
#include <pwd.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/network_file_system.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kDatabase = "history.sqlite";
constexpr const char* kDamaged = "history.sqlite.damaged";
constexpr const char* kLock = "history.lock";
constexpr const char* kRoots = "history.roots";  // folders in which job directories were seen, one a line
constexpr auto kPatience = 2s;
constexpr int kBusyMs = 2000;
constexpr std::size_t kMostEntries = 5000;  // entries of a folder with job directories
constexpr std::size_t kMostRecords = 300;
constexpr std::size_t kMostRoots = 200;
constexpr std::size_t kLargestRoots = 1 << 20;
constexpr std::int64_t kNewestOfKey = 200;  // runs with which a later one is compared
constexpr std::int64_t kOldestOfKey = 10;
constexpr int kNewestOfTask = 10;  // array tasks: the others may be all of kNewestOfKey
constexpr std::int64_t kMostIndexedRuns = 50'000;

/// The disk is full, or another program is in the index: it is as it was, and is not put aside for that.
class IndexNotUsable final : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void throw_index_error(sqlite3* database) {
  if (database == nullptr) throw IndexNotUsable("not enough memory");
  // A quota is a write that failed. https://www.sqlite.org/rescode.html
  constexpr int kPassing[] = {SQLITE_FULL, SQLITE_NOMEM, SQLITE_BUSY, SQLITE_LOCKED, SQLITE_IOERR_WRITE};
  const int code = ::sqlite3_extended_errcode(database);
  const bool passes = std::any_of(std::begin(kPassing), std::end(kPassing),
                                  [code](int passing) { return code == passing || (code & 0xff) == passing; });
  if (passes) throw IndexNotUsable(::sqlite3_errmsg(database));
  throw Error(::sqlite3_errmsg(database));
}

/// A statement that is finalised whatever happens.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) : database_(database) {
    if (::sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr) != SQLITE_OK) fail();
  }
  ~Statement() { ::sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int at, const std::string& text) {
    if (::sqlite3_bind_text(statement_, at, text.c_str(), static_cast<int>(text.size()), SQLITE_TRANSIENT) != SQLITE_OK)
      fail();
    return *this;
  }
  Statement& bind(int at, std::int64_t number) {
    if (::sqlite3_bind_int64(statement_, at, number) != SQLITE_OK) fail();
    return *this;
  }
  bool step() {
    const int result = ::sqlite3_step(statement_);
    if (result != SQLITE_ROW && result != SQLITE_DONE) fail();
    return result == SQLITE_ROW;
  }
  [[nodiscard]] std::string text(int column) const {
    const auto* bytes = ::sqlite3_column_text(statement_, column);
    if (bytes == nullptr) return {};
    return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column))};
  }

 private:
  [[noreturn]] void fail() const { throw_index_error(database_); }

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

void execute(sqlite3* database, const char* sql) {
  Statement statement(database, sql);
  while (statement.step()) {
  }
}

/// "_3\"" for the JSON behind the key of RunRecord::array, `"4710_3","het":...`; "" outside an array.
std::string task_in_json(std::string_view behind) {
  behind = behind.substr(0, behind.find(','));
  const std::size_t line = behind.rfind('_');
  return line == std::string_view::npos ? "" : std::string(behind.substr(line));
}

/// Not if filling it was interrupted, or another program emptied it.
bool is_filled(sqlite3* database) {
  Statement version(database, "PRAGMA user_version");
  return version.step() && version.text(0) == "1";
}

void insert(sqlite3* database, const fs::path& job_directory, const RunRecord& record) {
  Statement(database, "INSERT OR REPLACE INTO runs (directory, key, begin_utc_ns, record) VALUES (?1, ?2, ?3, ?4)")
      .bind(1, job_directory.string())
      .bind(2, record.key)
      .bind(3, record.begin_utc_ns)
      .bind(4, render_run(record))
      .step();
}

}  // namespace

StatePlace state_place() {
  if (::geteuid() == 0) return {"", "reveal keeps no history for root"};
  const char* base = std::getenv("XDG_STATE_HOME");
  // The specification: a relative path is to be ignored.
  if (base != nullptr && *base == '/') return {fs::path(base) / "reveal", ""};
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') {
    const passwd* user = ::getpwuid(::geteuid());
    home = user == nullptr ? nullptr : user->pw_dir;
  }
  std::error_code error;
  if (home == nullptr || *home != '/' || !fs::is_directory(home, error)) return {"", "there is no home directory"};
  return {fs::path(home) / ".local/state/reveal", ""};
}

std::string unwritable_part(const fs::path& directory) {
  fs::path there = directory;
  std::error_code error;
  while (there.has_relative_path() && !fs::exists(there, error)) there = there.parent_path();
  return ::access(there.c_str(), W_OK | X_OK) == 0 ? "" : there.string();
}

namespace {

/// The newest folders, the oldest of them first.
std::vector<std::string> listed_roots(const fs::path& state) {
  std::vector<std::string> roots;
  try {
    const std::string text = read_text_file(state / kRoots, kLargestRoots);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      if (end > begin) roots.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  } catch (const Error&) {
    return {};  // before the first report of this user
  }
  if (roots.size() > kMostRoots) roots.erase(roots.begin(), roots.end() - kMostRoots);
  return roots;
}

/// Files that others put there would count as runs of this user.
void keep_to_this_user(const fs::path& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) throw system_error(directory.string(), errno);
  if (status.st_uid != ::geteuid()) throw Error(directory.string() + " belongs to another user");
  constexpr fs::perms kOthersWrite = fs::perms::group_write | fs::perms::others_write;
  std::error_code error;
  if ((status.st_mode & 022) != 0) fs::permissions(directory, kOthersWrite, fs::perm_options::remove, error);
  if (error) throw Error(directory.string() + " can be written by others: " + error.message());
}

}  // namespace

std::set<std::string> remembered_roots(const fs::path& state) {
  const std::vector<std::string> roots = listed_roots(state);
  return {roots.begin(), roots.end()};
}

RunIndex::RunIndex(const fs::path& directory) : directory_(directory) {
  std::error_code error;
  const bool created = fs::create_directories(directory, error);
  if (error) throw Error(directory.string() + ": " + error.message());
  if (created) fs::permissions(directory, fs::perms::owner_all, error);
  keep_to_this_user(directory);
  // The locks of SQLite do not hold there.
  if (is_on_network(directory)) throw Error(directory.string() + ": reveal keeps no index on a network file system");
  lock_ = ::open((directory / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0) throw system_error((directory / kLock).string(), errno);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= end) {
      ::close(lock_);
      throw Error((directory / kLock).string() + ": another report is using the index");
    }
    std::this_thread::sleep_for(10ms);
  }
  try {
    try {
      open();
    } catch (const IndexNotUsable&) {
      throw;
    } catch (const Error&) {
      rebuilt_ = true;
      close();
      fs::rename(directory / kDatabase, directory / kDamaged, error);
      if (error) fs::remove(directory / kDatabase, error);
      // Its journal belongs to it, and would be played into the new one.
      fs::remove(directory / (std::string(kDatabase) + "-journal"), error);
      open();
    }
    if (!is_filled(database_)) rebuild();
  } catch (...) {
    close();
    ::close(lock_);
    throw;
  }
}

RunIndex::~RunIndex() {
  close();
  ::close(lock_);
}

void RunIndex::open() {
  const std::string path = (directory_ / kDatabase).string();
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW;
  if (::sqlite3_open_v2(path.c_str(), &database_, kFlags, nullptr) != SQLITE_OK) throw_index_error(database_);
  ::sqlite3_busy_timeout(database_, kBusyMs);
  execute(
      database_,
      "CREATE TABLE IF NOT EXISTS runs (directory TEXT PRIMARY KEY, key TEXT NOT NULL, begin_utc_ns INTEGER NOT NULL, "
      "record TEXT NOT NULL)");
  execute(database_, "CREATE INDEX IF NOT EXISTS runs_by_key ON runs (key, begin_utc_ns)");
  // A file that is damaged further in is found here rather than in the middle of an answer; a cache is small.
  Statement check(database_, "PRAGMA quick_check(1)");
  if (!check.step() || check.text(0) != "ok") throw Error(path + ": damaged");
  static_cast<void>(Statement(database_, "SELECT directory, key, begin_utc_ns, record FROM runs LIMIT 1").step());
}

void RunIndex::close() {
  ::sqlite3_close(database_);
  database_ = nullptr;
}

void RunIndex::rebuild() {
  const std::set<std::string> roots = remembered_roots(directory_);
  execute(database_, "BEGIN");
  for (const std::string& root : roots) {
    for (const auto& [directory, record] : records_in(root)) insert(database_, directory, record);
  }
  execute(database_, "PRAGMA user_version = 1");
  execute(database_, "COMMIT");
}

void RunIndex::remember_root(const fs::path& root) {
  std::vector<std::string> roots = listed_roots(directory_);
  const std::string line = root.string();
  if (line.find('\n') != std::string::npos || std::find(roots.begin(), roots.end(), line) != roots.end()) return;
  roots.push_back(line);
  std::string text;
  for (const std::string& one : roots) text += one + "\n";
  publish_file(directory_, kRoots, text);
}

std::vector<RunRecord> RunIndex::runs(const std::string& key, const std::string& array_task) {
  // The end of "array":"4710_3"; elsewhere in a record, "mlx5_3" ends so, too. The other tasks of a large array would
  // fill the newest runs.
  const std::string containing = array_task.empty() ? "" : "_" + array_task + "\"";
  std::vector<RunRecord> found;
  const auto collect = [&](const char* order, std::int64_t limit) {
    const std::string sql =
        "SELECT record FROM runs WHERE key = ?1 AND (?3 = '' OR "
        "instr(substr(record, instr(record, '\"array\":') + 8, 64), ?3) > 0) "
        "ORDER BY begin_utc_ns " +
        std::string(order) + " LIMIT ?2";
    Statement statement(database_, sql.c_str());
    statement.bind(1, key).bind(2, limit).bind(3, containing);
    while (statement.step()) {
      try {
        found.push_back(parse_run(statement.text(0)));
      } catch (const Error&) {
        continue;  // written by another version
      }
    }
  };
  collect("DESC", kNewestOfKey);
  if (found.size() == static_cast<std::size_t>(kNewestOfKey)) collect("ASC", kOldestOfKey);
  return found;
}

std::vector<std::pair<fs::path, RunRecord>> RunIndex::newest(std::size_t limit,
                                                             const std::function<bool(const RunRecord&)>& wanted,
                                                             const std::string& containing) {
  std::vector<std::pair<fs::path, RunRecord>> found;
  Statement statement(
      database_,
      "SELECT directory, record FROM runs WHERE instr(record, ?1) > 0 OR ?1 = '' ORDER BY begin_utc_ns DESC");
  statement.bind(1, containing);
  while (found.size() < limit && statement.step()) {
    try {
      RunRecord record = parse_run(statement.text(1));
      if (wanted(record)) found.emplace_back(statement.text(0), std::move(record));
    } catch (const Error&) {
      continue;  // written by another version
    }
  }
  return found;
}

void RunIndex::put(const fs::path& job_directory, const RunRecord& record) {
  insert(database_, job_directory, record);
  remember_root(job_directory.parent_path());
  try {
    make_smaller();
  } catch (const Error&) {  // no window functions before SQLite 3.25: it stays as large as it is
    return;
  }
}

/// The channels are most of a record. Without this, opening and checking the index takes longer with every run.
void RunIndex::make_smaller() {
  constexpr std::int64_t kWorthIt = 8192;  // bytes of a record
  constexpr std::size_t kAtOnce = 64;      // a report does not wait long for them
  {
    Statement count(database_, "SELECT count(*) FROM runs");
    if (!count.step() || std::atoll(count.text(0).c_str()) <= kNewestOfKey + kOldestOfKey) return;
  }
  std::vector<std::string> large;  // directories
  {
    std::map<std::pair<std::string, std::string>, int> newer;  // runs of a task, by its key
    Statement old(database_,
                  "SELECT directory, key, substr(record, instr(record, '\"array\":') + 8, 64), length(record) > ?3 "
                  "FROM runs WHERE rowid IN (SELECT id FROM (SELECT rowid AS id, "
                  "row_number() OVER (PARTITION BY key ORDER BY begin_utc_ns DESC) AS from_newest, "
                  "row_number() OVER (PARTITION BY key ORDER BY begin_utc_ns) AS from_oldest FROM runs) "
                  "WHERE from_newest > ?1 AND from_oldest > ?2) ORDER BY begin_utc_ns DESC");
    old.bind(1, kNewestOfKey).bind(2, kOldestOfKey).bind(3, kWorthIt);
    while (large.size() < kAtOnce && old.step()) {
      const std::string task = task_in_json(old.text(2));
      if (!task.empty() && newer[{old.text(1), task}]++ < kNewestOfTask) continue;
      if (old.text(3) == "1") large.push_back(old.text(0));
    }
  }
  std::vector<std::pair<std::string, std::string>> smaller;
  for (const std::string& directory : large) {
    Statement one(database_, "SELECT record FROM runs WHERE directory = ?1");
    if (!one.bind(1, directory).step()) continue;
    try {
      RunRecord record = parse_run(one.text(0));
      record.channels.clear();
      record.zeros.clear();
      record.facts.clear();
      record.mixed_facts.clear();
      smaller.emplace_back(directory, render_run(record));
    } catch (const Error&) {
      continue;  // written by another version
    }
  }
  for (const auto& [directory, record] : smaller) {
    Statement(database_, "UPDATE runs SET record = ?2 WHERE directory = ?1").bind(1, directory).bind(2, record).step();
  }
  Statement(database_,
            "DELETE FROM runs WHERE rowid IN (SELECT rowid FROM runs ORDER BY begin_utc_ns DESC LIMIT -1 OFFSET ?1)")
      .bind(1, kMostIndexedRuns)
      .step();
}

void RunIndex::forget(const fs::path& job_directory) {
  Statement(database_, "DELETE FROM runs WHERE directory = ?1").bind(1, job_directory.string()).step();
}

std::vector<std::pair<fs::path, RunRecord>> records_in(const fs::path& root, RecordsIn which) {
  const bool all = which == RecordsIn::all;
  std::vector<std::pair<std::int64_t, fs::path>> files;
  std::error_code error;
  fs::directory_iterator entries(root, error);
  std::size_t seen = 0;
  for (; !error && entries != fs::directory_iterator() && (all || seen < kMostEntries);
       entries.increment(error), ++seen) {
    const fs::path file = entries->path() / kRunRecordFile;
    struct stat status {};
    if (::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid())
      files.emplace_back(status.st_mtim.tv_sec, entries->path());
  }
  std::sort(files.begin(), files.end(), std::greater<>());
  if (!all && files.size() > kMostRecords) files.resize(kMostRecords);
  std::vector<std::pair<fs::path, RunRecord>> records;
  for (const auto& [time, directory] : files) {
    try {
      records.emplace_back(directory,
                           parse_run(read_text_file(directory / kRunRecordFile, kLargestRunRecord, FileOf::ours)));
    } catch (const Error&) {
      continue;  // a run.json of another user, or a damaged one
    }
  }
  return records;
}

}  // namespace reveal
