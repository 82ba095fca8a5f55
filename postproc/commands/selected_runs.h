// The runs of this user that a command is about: in a folder, or all that reveal remembers.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postproc/commands/command.h"
#include "postproc/history/run_record.h"

namespace reveal {

struct RunSelection {
  std::string_view instead;  // ends the error of a user without a history: "`reveal list DIR` lists ..."
  std::string folder = {};   // "": all runs that reveal remembers
  std::string name = {};     // name of the job or the program; "": any

  void add_folder_option(CLI::App& app);
  void add_name_option(CLI::App& app);
};

/// At most `limit` runs with their directories, the newest first. Throws Error.
[[nodiscard]] std::vector<std::pair<std::filesystem::path, RunRecord>> selected_runs(
    const RunSelection& selection, std::size_t limit, const std::function<bool(const RunRecord&)>& wanted);

/// "30d", "2w", "12h" in nanoseconds; nothing for anything else.
[[nodiscard]] std::optional<std::int64_t> parse_age(const std::string& text);

/// Whether the run was not removed.
[[nodiscard]] bool is_there(const std::filesystem::path& directory);

}  // namespace reveal
