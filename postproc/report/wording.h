// Times, places and people as a person reads them, the same words in the text and in the HTML report.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/report/report.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/times.h"

namespace reveal {

/// "62.0 s to 77.0 s of the job (10:33:07 to 10:33:22 UTC)", "at 62.0 s of the job (10:33:07 UTC)"; with dates where it
/// is not the day on which the job began; the clock alone when the job's begin is not known.
[[nodiscard]] std::string when(const TimeSpan&, const ReportJob&);

[[nodiscard]] std::string_view name_of(Coverage::State) noexcept;
[[nodiscard]] std::optional<Coverage::State> coverage_state_of(std::string_view) noexcept;

[[nodiscard]] inline bool several_nodes(const Report& report) noexcept {
  return report.job.nodes.size() > 1;
}

[[nodiscard]] std::string_view words_of(JobPhase::Kind) noexcept;

/// The time of all phases of a kind, and "writing 45 s (7 %, 10 times)".
struct PhaseTime {
  JobPhase::Kind kind = JobPhase::Kind::not_measured;
  double seconds = 0;
  std::size_t count = 0;
  std::string words = {};
};
/// The longest first.
[[nodiscard]] std::vector<PhaseTime> phase_times(const NodePhases&);
/// "training steps from 41.0 s to 580.2 s of the job"; "" where none were recorded.
[[nodiscard]] std::string steps_words(const NodePhases&, const ReportJob&);
/// All of it in one line, with the note.
[[nodiscard]] std::string phases_line(const NodePhases&, const ReportJob&);

/// "Finding", "Healthy", ...: the first word of a report. A job that failed on healthy nodes is called "Failed".
[[nodiscard]] std::string_view headline(const Verdict&) noexcept;

/// "job.outsider_cpu/cpu1"
[[nodiscard]] std::string channel_name(std::string_view metric, std::string_view instance);

/// "job 4711 (array 4711_3) resnet50", or the name of the program outside a batch system.
[[nodiscard]] std::string job_title(const ReportJob&);
/// "ran 62 s", or "recorded for 60 s" if its run time is not known; "" if neither is known.
[[nodiscard]] std::string run_time(const ReportJob&);

/// "cpu 0.29 of 2 cpus", "memory 512 MiB of 23 GiB", ...: the known values, those that users need most first.
[[nodiscard]] std::vector<std::string> used(const JobTotals&);
/// "network: the node is shared", ...: unknown values with their reasons.
[[nodiscard]] std::vector<std::string> unknown(const JobTotals&);
/// "0.29 of 2 cpus", "512 MiB of 23 GiB"; "not measured".
[[nodiscard]] std::string cpus_used(const JobTotals&);
/// "16 % of 4 GPUs"
[[nodiscard]] std::string gpus_used(const JobTotals&);
/// "2.45 GiB of 79.6 GiB"
[[nodiscard]] std::string gpu_memory_used(const JobTotals&);
[[nodiscard]] std::string memory_used(const JobTotals&);
[[nodiscard]] std::string amount(std::optional<double> bytes);
[[nodiscard]] std::string waited(const JobTotals&);

/// How severe a finding is, and how sure its cause: "warning, cause likely", "notice, cause not known" where the rule
/// names none, "notice, measured fact" where it states a fact; "observation, cause likely" of one that is no fault.
[[nodiscard]] std::string level_words(const Finding&);
/// ", cost about 10 s (11.9 % of the run)", behind these words; "" where no loss was measured.
[[nodiscard]] std::string cost_beside(const Finding&);

/// The finding's sentence. What it measured is told flatly; where another cause was not ruled out, the end says so.
[[nodiscard]] std::string told(const Finding&);
/// The same with the seconds that the job lost; with those that it may have lost where the cause is only possible.
[[nodiscard]] std::string told_with_cost(const Finding&);
/// "cpu.outsider must be gone": the answer of `reveal compare` if the remedy helped.
[[nodiscard]] std::string expected_of_comparison(const Finding&);

/// "about 6 s"; "less than 0.01 s", whatever the word is.
[[nodiscard]] std::string estimated(std::string_view word, const std::string& amount);
/// "about 13.2 s (11 % of the run)", "at most 3 % of the run"; "" where no loss was measured.
[[nodiscard]] std::string cost_words(const Impact&);
/// Whether time may have been lost, of which the amount could not be measured.
[[nodiscard]] bool is_cost_unknown(const Impact&);
/// "about 13.2 s (11 % of the run): how"
[[nodiscard]] std::string impact(const Impact&);

/// Whether the lines only show something, or are none.
[[nodiscard]] bool only_shows(const std::vector<std::string>& lines);
/// Whether the job's owner can look at most, and administrators have steps.
[[nodiscard]] bool only_admins_act(const Remedy&);
/// The person who has to act: "you", "the administrators of this system", both, or why neither is known.
[[nodiscard]] std::string who_acts(const Remedy&);

/// Missing measurements with their reason, "gpu: no NVIDIA driver", followed by the nodes unless it is so on all of
/// them.
[[nodiscard]] std::vector<std::string> gaps(const Report&);

/// One line about the other nodes, and one about earlier runs.
[[nodiscard]] std::string peers_line(const Report&);
[[nodiscard]] std::string history_line(const Report&);

// No longer than a line of a terminal has room for.
inline constexpr std::string_view kNothingForUsers = "show your administrators this report; the job needs no change";
// In place of the administrators' steps in a mail.
inline constexpr std::string_view kAdminsWereTold = "They were told by mail.";
inline constexpr std::string_view kStepsAreAbove = "The steps are above.";

/// "cpu.outsider on n03: warning (cpu.outsider@n03 in reveal.conf:12)"
[[nodiscard]] std::vector<std::string> muted_lines(const Report& report);
/// "cpu.outsider on n03: Your feedback of 2026-11-24: my own download", for findings that the feedback made
/// observations.
[[nodiscard]] std::vector<std::string> feedback_lines(const Report& report);
/// "76 of 85 rules about nodes. Not checked: 6 (no gpu.utilization), 3 (other reasons)"; "" if all were checked.
[[nodiscard]] std::string checked_line(const Report&);

/// Rules that could not be checked, by the same reason: {"mem.a, mem.b", "no /proc/vmstat"}.
[[nodiscard]] std::vector<NotChecked> by_reason(std::span<const NotChecked>);

}  // namespace reveal
