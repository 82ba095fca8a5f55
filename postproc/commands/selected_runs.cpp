#include "postproc/commands/selected_runs.h"

#include <algorithm>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/commands/shared_options.h"
#include "postproc/history/run_index.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using Run = std::pair<fs::path, RunRecord>;
using Wanted = std::function<bool(const RunRecord&)>;

std::vector<Run> remembered(std::size_t limit, const Wanted& wanted) {
  const StatePlace state = state_place();
  if (state.directory.empty()) throw Error(state.why_not);
  std::error_code error;
  if (!fs::exists(state.directory, error)) {  // before the first report, unless no report could make it
    if (const std::string there = unwritable_part(state.directory); !there.empty()) {
      throw Error(there + " cannot be written: reveal cannot remember your runs");
    }
    return {};
  }
  return RunIndex(state.directory).newest(limit, wanted);
}

std::vector<Run> in_folder(const std::string& folder, std::size_t limit, const Wanted& wanted) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw Error(folder + ": no such folder");
  static_cast<void>(fs::directory_iterator(folder, error));
  if (error) throw Error(folder + ": " + error.message());
  std::vector<Run> runs = records_in(folder, RecordsIn::all);
  std::erase_if(runs, [&](const Run& run) { return !wanted(run.second); });
  std::stable_sort(runs.begin(), runs.end(), [](const Run& one, const Run& other) {
    return one.second.begin_utc_ns > other.second.begin_utc_ns;
  });
  if (runs.size() > limit) runs.resize(limit);
  return runs;
}

}  // namespace

void RunSelection::add_folder_option(CLI::App& app) {
  app.add_option("dir", folder, "the job directories in this folder, instead of all runs in reveal's history")
      ->type_name("DIR");
}

void RunSelection::add_name_option(CLI::App& app) {
  app.add_option("--name", name, "only runs of the job or program of this name")->type_name("NAME");
}

std::vector<Run> selected_runs(const RunSelection& selection, std::size_t limit, const Wanted& wanted) {
  const Wanted wanted_too = [&](const RunRecord& run) {
    return (selection.name.empty() || run.name == selection.name || run.command == selection.name) && wanted(run);
  };
  if (!selection.folder.empty()) return in_folder(selection.folder, limit, wanted_too);
  try {
    return remembered(limit, wanted_too);
  } catch (const Error& failure) {
    throw Error(failure.what() + std::string("; ").append(selection.instead));
  }
}

std::optional<std::int64_t> parse_age(const std::string& text) {
  constexpr double kDay = 24.0 * 3600 * kSecond;
  const double days = text.ends_with('w') ? 7 : text.ends_with('d') ? 1 : 0;
  if (days > 0) {
    const auto count = parse_number(std::string_view(text).substr(0, text.size() - 1));
    if (!count || *count > 36500) return std::nullopt;
    return static_cast<std::int64_t>(*count * days * kDay);
  }
  const auto time = parse_duration(text);
  return time ? std::optional(time->count()) : std::nullopt;
}

bool is_there(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / kRunRecordFile, error);
}

}  // namespace reveal
