#include <spdlog/fmt/fmt.h>
#include <sys/timex.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <set>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/report_lease.h"
#include "hdf5schema/basics/shell_word.h"
#include "hdf5schema/basics/text.h"
#include "postproc/commands/selected_runs.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/history/retention.h"
#include "postproc/history/run_index.h"
#include "postproc/json/json_fields.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

std::string bytes_in_words(std::uint64_t bytes) {
  return quantity(static_cast<double>(bytes), "bytes");
}

/// The treatment of a run that is beyond a limit.
struct CleanedRun {
  const StoredRun* run = nullptr;
  Deletion deletion;
  std::string problem;
};

class Clean final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    selection_.add_folder_option(app);
    app.add_option("--older-than", age_, "delete runs that ended longer ago than this: 30d, 2w, 12h")
        ->type_name("AGE")
        ->check([](const std::string& text) {
          return parse_age(text) ? std::string() : "\"" + text + "\" is no age such as 30d, 2w or 12h";
        });
    app.add_option("--keep", most_runs_, "keep this number of runs, the newest ones, and delete the others")
        ->type_name("N")
        ->check(CLI::Range(0, 1000000));
    app.add_option("--total", total_, "delete the oldest runs until the others need no more than this: 10GB")
        ->type_name("SIZE")
        ->check([](const std::string& text) {
          return parse_bytes(text) ? std::string() : "\"" + text + "\" is no size such as 500MB or 10GB";
        });
    selection_.add_name_option(app);
    app.add_flag("--delete", delete_, "delete them; without it, reveal only prints what it would delete");
  }

  int run(const CommonOptions& common) override {
    if (age_.empty() && !most_runs_ && total_.empty()) take_settings(common.configuration());
    if (age_.empty() && !most_runs_ && total_.empty()) {
      complain("choose which runs to delete: --older-than 30d, --keep 50 or --total 10GB; see reveal clean --help");
      return kUsage;
    }
    const std::vector<StoredRun> runs = stored_runs();
    RetentionLimits bounds = limits();
    const bool by_age = bounds.ended_before_utc_ns != 0;
    const std::string doubt = by_age ? doubt_of_ages(runs, bounds.ended_before_utc_ns, clock_facts(runs)) : "";
    if (!doubt.empty()) {
      complain("no run is deleted by its age: " + printable(doubt, 4096) + "; --keep and --total apply all the same");
      bounds.ended_before_utc_ns = 0;
    }
    const std::vector<const StoredRun*> beyond = beyond_limits(runs, bounds);
    std::vector<CleanedRun> cleaned;
    cleaned.reserve(beyond.size());
    for (const StoredRun* run : beyond) cleaned.push_back(delete_ ? deleted(*run) : CleanedRun{run, {}, ""});
    print(common.json ? as_json(cleaned, runs.size()) : as_text(cleaned, runs));
    const bool failed = std::ranges::any_of(cleaned, [](const CleanedRun& one) { return !one.problem.empty(); });
    for (const CleanedRun& one : cleaned) {
      if (!one.problem.empty()) complain(one.run->directory.string() + ": " + one.problem);
    }
    return failed || !doubt.empty() ? kFailure : 0;
  }

 private:
  void take_settings(const Config& config) {
    for (const std::string& problem : config.problems_of({"report"})) complain(problem);
    const std::int64_t days = config.whole(config_key("report", "keep_days"));
    const std::int64_t runs = config.whole(config_key("report", "keep_number"));
    if (days > 0) age_ = std::to_string(days) + "d";
    if (runs > 0) most_runs_ = static_cast<std::size_t>(runs);
    total_ = config.text(config_key("report", "keep_total"));
  }

  [[nodiscard]] RetentionLimits limits() const {
    RetentionLimits limits{.most_runs = most_runs_};
    if (!age_.empty()) limits.ended_before_utc_ns = utc_now_ns() - *parse_age(age_);
    if (!total_.empty()) limits.most_bytes = parse_bytes(total_);
    return limits;
  }

  [[nodiscard]] ClockFacts clock_facts(const std::vector<StoredRun>& runs) const {
    timex kernel{};
    ClockFacts facts{.now_utc_ns = utc_now_ns(), .synchronised = ::adjtimex(&kernel) != TIME_ERROR};
    if (delete_ && !runs.empty()) {  // a file server has a clock of its own
      const fs::file_time_type there = file_time_now(runs.front().directory.parent_path().string());
      const auto ahead = there - fs::file_time_type::clock::now();
      facts.file_system_ahead_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(ahead).count();
    }
    return facts;
  }

  /// The newest first, without those that were removed.
  [[nodiscard]] std::vector<StoredRun> stored_runs() const {
    std::vector<StoredRun> runs;
    const auto any = [](const RunRecord&) { return true; };
    for (const auto& [directory, record] : selected_runs(selection_, std::numeric_limits<std::size_t>::max(), any)) {
      if (!is_there(directory)) continue;
      const bool typed_by_user = !selection_.folder.empty();
      runs.push_back(look_at_run(typed_by_user ? fs::absolute(directory).lexically_normal() : directory, record));
    }
    if (selection_.name.empty()) add_unrecorded(runs);
    return runs;
  }

  /// Runs that were killed or never analysed have no name and no record.
  void add_unrecorded(std::vector<StoredRun>& runs) const {
    const std::set<std::string> folders = selection_.folder.empty()
                                              ? remembered_roots(state_place().directory)
                                              : std::set<std::string>{fs::absolute(selection_.folder).string()};
    for (const std::string& folder : folders) {
      for (StoredRun& run : unrecorded_runs_in(fs::path(folder).lexically_normal())) runs.push_back(std::move(run));
    }
    std::stable_sort(runs.begin(), runs.end(), [](const StoredRun& one, const StoredRun& other) {
      return one.record.begin_utc_ns > other.record.begin_utc_ns;
    });
  }

  static CleanedRun deleted(const StoredRun& run) {
    CleanedRun cleaned{.run = &run, .deletion = {}, .problem = ""};
    try {
      cleaned.deletion = delete_run(run);
    } catch (const Error& error) {
      cleaned.problem = error.what();
      return cleaned;
    }
    try {
      const StatePlace state = state_place();
      std::error_code error;
      if (!state.directory.empty() && fs::exists(state.directory, error))
        RunIndex(state.directory).forget(run.directory);
    } catch (const Error&) {
      return cleaned;  // `reveal list` marks it as removed
    }
    return cleaned;
  }

  [[nodiscard]] std::string as_text(const std::vector<CleanedRun>& cleaned, const std::vector<StoredRun>& runs) const {
    std::string text;
    std::uint64_t bytes = 0;
    std::size_t count = 0;
    for (const auto& [run, deletion, problem] : cleaned) {
      if (!problem.empty()) continue;
      const bool rest = delete_ ? !deletion.directory_gone : run->others > 0;
      text += fmt::format(
          "{}  {:>9}  {}{}{}\n", date_and_time(run->record.begin_utc_ns), bytes_in_words(run->bytes),
          shell_word(printable(typed(run->directory.string()), 4096)),
          run->record.run_id.empty() ? " (without run.json)" : "",
          rest ? fmt::format(" (keeps {} of yours)", counted(static_cast<double>(run->others), "file")) : "");
      bytes += run->bytes;
      ++count;
    }
    for (const StoredRun& run : runs) {
      if (run.why_not.empty()) continue;
      text += fmt::format("kept: {} ({})\n", shell_word(printable(typed(run.directory.string()), 4096)), run.why_not);
    }
    const std::string what =
        fmt::format("{} of {}, {}", count, counted(static_cast<double>(runs.size()), "run"), bytes_in_words(bytes));
    if (delete_) return text + "deleted " + what + "\n";
    return text + "would delete " + what + (count > 0 ? "; add --delete to delete them\n" : "\n");
  }

  [[nodiscard]] std::string as_json(const std::vector<CleanedRun>& cleaned, std::size_t all) const {
    Json rows = Json::array();
    for (const auto& [run, deletion, problem] : cleaned) {
      rows.push_back({{"directory", run->directory.string()},
                      {"begin_utc", iso_time(run->record.begin_utc_ns)},
                      {"bytes", run->bytes},
                      {"files", run->files},
                      {"other_files", run->others},
                      {"has_record", !run->record.run_id.empty()},
                      {"deleted", delete_ && problem.empty()},
                      {"directory_gone", deletion.directory_gone},
                      {"problem", problem.empty() ? Json() : Json(problem)}});
    }
    return json_text(
               Json{{"schema", "reveal.clean/1"}, {"dry_run", !delete_}, {"runs_seen", all}, {"runs", std::move(rows)}},
               2) +
           "\n";
  }

  RunSelection selection_{.instead = "`reveal clean DIR` looks into a folder"};
  std::string age_, total_;
  std::optional<std::size_t> most_runs_;
  bool delete_ = false;
};

const RegisteredCommand kCleanCommand{
    {.order = 23,
     .name = "clean",
     .help = "Delete your old runs by age, number or total size; without --delete, only list them",
     .examples =
         "  reveal clean --older-than 30d\n"
         "  reveal clean . --keep 50 --total 10GB\n"
         "  reveal clean . --older-than 2w --delete\n"
         "Deletes traces and reports of your own runs, and the directory if nothing else is in it; other files there\n"
         "stay, and links are not followed. A run is deleted if it exceeds one of the limits. Runs without run.json\n"
         "(killed, never analysed, or without history) are included if their directory is reveal-* or that of a Slurm\n"
         "job; their time is that of their newest file. Runs that are still being recorded are left alone. No run is\n"
         "deleted by its age where the clock of this machine contradicts the times of runs or of files. Without a\n"
         "limit here, keep_days, keep_number and keep_total in [report] of reveal.conf are the limits. reveal deletes\n"
         "no run by itself; for every night, put the line `0 5 * * * reveal clean --delete` into your crontab.\n",
     .make = make_command<Clean>}};

}  // namespace
}  // namespace reveal
