// Finds earlier runs of the same command and shape fast: a cache in the user's own state directory, made again from the
// run.json files of the job directories whenever it is missing or damaged. Nothing depends on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "postproc/history/run_record.h"

struct sqlite3;

namespace reveal {

/// Where the index is kept; "" and the reason when there is no place for it.
struct StatePlace {
  std::filesystem::path directory;
  std::string why_not;
};
/// $XDG_STATE_HOME/reveal, else ~/.local/state/reveal; never root's.
[[nodiscard]] StatePlace state_place();
/// The directory itself, or the part of its path in which this user cannot make the rest; "" if nothing is in the way.
[[nodiscard]] std::string unwritable_part(const std::filesystem::path& directory);

/// Folders in which job directories of this user were seen.
[[nodiscard]] std::set<std::string> remembered_roots(const std::filesystem::path& state);

class RunIndex {
 public:
  /// Opens or creates `directory`/history.sqlite, alone: other processes wait up to two seconds for their turn. Throws
  /// Error when that cannot be.
  explicit RunIndex(const std::filesystem::path& directory);
  ~RunIndex();
  RunIndex(const RunIndex&) = delete;
  RunIndex& operator=(const RunIndex&) = delete;

  /// True when an index was there that could not be read; it was put aside and the runs known to be found again are in.
  [[nodiscard]] bool rebuilt() const { return rebuilt_; }
  /// Returns the newest 200 and the oldest 10 runs of this key; with a task of an array, of that task
  /// alone.
  [[nodiscard]] std::vector<RunRecord> runs(const std::string& key, const std::string& array_task = "");
  /// The newest runs of all keys, newest first, with their job directories; at most `limit`, and only those that
  /// `wanted` accepts. Records without the text `containing` are not parsed.
  [[nodiscard]] std::vector<std::pair<std::filesystem::path, RunRecord>> newest(
      std::size_t limit, const std::function<bool(const RunRecord&)>& wanted, const std::string& containing = "");
  /// The report of one job directory; an earlier one of the same directory is replaced. Runs with which no later one is
  /// compared lose their channels and facts, and the oldest of very many are forgotten.
  void put(const std::filesystem::path& job_directory, const RunRecord& record);
  /// The run in this directory, if it is known.
  void forget(const std::filesystem::path& job_directory);

 private:
  void open();
  void close();
  void rebuild();
  void remember_root(const std::filesystem::path& root);
  void make_smaller();

  std::filesystem::path directory_;
  int lock_ = -1;
  sqlite3* database_ = nullptr;
  bool rebuilt_ = false;
};

enum class RecordsIn : std::uint8_t {
  youngest,  // a few hundred: a report does not wait for thousands of directories beside its own
  all
};
/// The user's own records in the folders beside each other in `root`, the youngest first.
[[nodiscard]] std::vector<std::pair<std::filesystem::path, RunRecord>> records_in(
    const std::filesystem::path& root, RecordsIn which = RecordsIn::youngest);

}  // namespace reveal
