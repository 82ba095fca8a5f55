#include "postproc/compare/job_comparison.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <span>

#include "hdf5schema/basics/error.h"
#include "postproc/report/job_ending.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

using Runs = std::vector<ComparedRun>;

constexpr double kLongestRun = 1e10;                  // seconds; longer ones are no runs
constexpr double kRecordedVariance = 0.1 * 0.1 / 12;  // variance of rounding: a trace has a row every tenth of a second
constexpr double kReportedVariance = 0.01 * 0.01 / 12;  // reveal-run reports hundredths
constexpr std::size_t kLeastEarlierRuns = 3;
constexpr const char* kWelch = "Welch's t of the runs of both sides";

constexpr std::string_view kCauseChanges[] = {"appeared", "went", "stayed", "not known"};
constexpr std::string_view kTimeChanges[] = {"same", "slower", "faster", "not known"};

double seconds_between(std::int64_t begin_ns, std::int64_t end_ns) {
  return (static_cast<double>(end_ns) - static_cast<double>(begin_ns)) * 1e-9;
}

std::optional<double> recorded_seconds(const Report& report) {
  if (report.job.begin_utc_ns == 0 || report.job.end_utc_ns <= report.job.begin_utc_ns) return std::nullopt;
  return seconds_between(report.job.begin_utc_ns, report.job.end_utc_ns);
}

std::optional<double> possible(std::optional<double> seconds) {
  return seconds && *seconds > 0 && *seconds < kLongestRun ? seconds : std::nullopt;
}

using NumberOfRun = std::function<std::optional<double>(const Report&)>;

std::vector<double> numbers_of_runs(const Runs& runs, const NumberOfRun& number) {
  std::vector<double> values;
  for (const ComparedRun& run : runs) {
    if (const auto value = number(run.report)) values.push_back(*value);
  }
  return values;
}

/// Returns nothing for a job that failed: its time is no measure of its speed.
std::optional<double> unless_failed(const Report& report, std::optional<double> value) {
  return has_failed(report.job) ? std::nullopt : value;
}

/// Two or more equal values.
bool show_no_spread(const std::vector<double>& values) {
  return values.size() > 1 && std::all_of(values.begin(), values.end(), [&](double one) { return one == values[0]; });
}

void add_interval(ComparedNumber& number, double least_variance) {
  if (!number.known()) return;
  // An interval of no width would be a certainty that no few runs have.
  if (least_variance <= 0 && show_no_spread(number.before) && show_no_spread(number.after)) {
    number.reason = "the runs of each side have equal values, which show no spread";
    return;
  }
  number.difference = welch_difference(number.before, number.after, least_variance);
  if (number.difference) {
    number.method = kWelch;
  } else {
    number.reason = "the spread between runs is not known: this needs two or more runs on each side";
  }
}

/// With a single run on one side, the spread of the other side, or of earlier runs, must do for both.
void add_borrowed_interval(ComparedNumber& time, const std::vector<double>& earlier, double least_variance) {
  if (!time.known() || time.difference) return;
  const bool enough_earlier = earlier.size() >= kLeastEarlierRuns;
  time.difference =
      pooled_difference(time.before, time.after,
                        enough_earlier ? std::span<const double>(earlier) : std::span<const double>(), least_variance);
  if (!time.difference) return;
  time.reason.clear();
  time.method = "Student's t; assumption: both sides have the spread of ";
  if (time.before.size() + time.after.size() > 2) time.method += "the runs of the larger side";
  if (enough_earlier) {
    time.method += fmt::format("{}{} of this command in reveal's history", time.method.ends_with("side") ? " and " : "",
                               counted(static_cast<double>(earlier.size()), "earlier run"));
  }
}

bool all_reported(const Runs& runs) {
  return std::all_of(runs.begin(), runs.end(), [](const ComparedRun& run) {
    return has_failed(run.report.job) || possible(run.report.job.ran_seconds).has_value();
  });
}

/// The time of the command, or that of the recording: nothing for a recording that may have been cut.
std::optional<double> run_seconds(const Report& report, bool reported) {
  if (!reported && report.partial) return std::nullopt;
  return unless_failed(report, possible(reported ? report.job.ran_seconds : recorded_seconds(report)));
}

ComparedNumber run_times(const Runs& before, const Runs& after, bool reported, const std::vector<double>& earlier) {
  const auto seconds = [reported](const Report& report) { return run_seconds(report, reported); };
  ComparedNumber time{reported ? "run time" : "recorded time", "s", {}, {}, {}, "", ""};
  time.before = numbers_of_runs(before, seconds);
  time.after = numbers_of_runs(after, seconds);
  if (!time.known()) time.reason = "one side has no successful run with a known time";
  add_interval(time, reported ? kReportedVariance : kRecordedVariance);
  add_borrowed_interval(time, earlier, reported ? kReportedVariance : kRecordedVariance);
  return time;
}

/// Steps are counted in what was recorded: a cut recording has too few for the run's time.
std::optional<double> seconds_per_step(const Report& report, bool reported) {
  if (report.partial || report.totals.empty()) return std::nullopt;
  const double steps = report.totals.front().steps.value_or(0);
  const auto seconds = run_seconds(report, reported);
  return seconds && steps >= 1 ? std::optional(*seconds / steps) : std::nullopt;
}

using NumberOfTotals = std::optional<double> JobTotals::*;

const char* key_of(NumberOfTotals number) {
  const auto* const known = std::find_if(std::begin(kTotalsNumbers), std::end(kTotalsNumbers),
                                         [number](const TotalsNumber& one) { return one.value == number; });
  return known == std::end(kTotalsNumbers) ? "" : known->key;
}

/// Why no run has all of these numbers of its totals, or none that counts.
std::string why_no(std::initializer_list<NumberOfTotals> numbers, const Runs& runs) {
  std::string why(kNotMeasured);
  for (const ComparedRun& run : runs) {
    if (run.report.totals.empty()) continue;
    const JobTotals& totals = run.report.totals.front();
    const auto* const missing = std::find_if(
        numbers.begin(), numbers.end(), [&totals](NumberOfTotals number) { return !(totals.*number).has_value(); });
    if (missing == numbers.end()) {  // then its note is about its source
      why = "one side has no run that succeeded and was recorded completely";
      continue;
    }
    const auto note = totals.notes.find(key_of(*missing));
    if (note != totals.notes.end()) return note->second;
  }
  return why;
}

ComparedNumber step_times(const Runs& before, const Runs& after, bool reported) {
  const auto seconds = [reported](const Report& report) { return seconds_per_step(report, reported); };
  ComparedNumber time{
      "time per backward pass", "s", numbers_of_runs(before, seconds), numbers_of_runs(after, seconds), {}, "", ""};
  if (!time.known()) time.reason = why_no({&JobTotals::steps}, time.before.empty() ? before : after);
  add_interval(time, 0);
  return time;
}

/// A quotient of two totals of the whole job.
struct Quotient {
  std::string_view name;
  std::string_view unit;
  double scale;
  NumberOfTotals part;
  NumberOfTotals whole;
};
constexpr Quotient kQuotients[] = {
    {"instructions per cycle", "ratio", 1, &JobTotals::instructions, &JobTotals::cycles},
    {"stalled cycles", "percent", 100, &JobTotals::stalled_cycles, &JobTotals::cycles},
    {"remote memory reads", "percent", 100, &JobTotals::remote_reads, &JobTotals::cache_misses},
    {"memory bandwidth", "bytes/s", 1, &JobTotals::memory_traffic, &JobTotals::seconds},
};

std::vector<ComparedNumber> hardware_numbers(const Runs& before, const Runs& after) {
  std::vector<ComparedNumber> numbers;
  for (const Quotient& quotient : kQuotients) {
    const auto value = [&quotient](const Report& report) -> std::optional<double> {
      if (report.totals.empty()) return std::nullopt;
      const auto part = report.totals.front().*quotient.part;
      const auto whole = report.totals.front().*quotient.whole;
      if (!part || !whole || !(*whole > 0)) return std::nullopt;
      return unless_failed(report, quotient.scale * *part / *whole);
    };
    ComparedNumber compared{std::string(quotient.name), std::string(quotient.unit), {}, {}, {}, "", ""};
    compared.before = numbers_of_runs(before, value);
    compared.after = numbers_of_runs(after, value);
    if (!compared.known())
      compared.reason = why_no({quotient.part, quotient.whole}, compared.before.empty() ? before : after);
    add_interval(compared, 0);
    numbers.push_back(std::move(compared));
  }
  return numbers;
}

bool was_judged(const Report& report) {
  return report.verdict.status != VerdictStatus::insufficient_data;
}

/// Percent of the run that the spans cover together.
std::optional<double> percent_of_run(const Report& report, std::vector<TimeSpan> spans) {
  const auto run = recorded_seconds(report);
  if (!run) return std::nullopt;
  std::sort(spans.begin(), spans.end(), [](TimeSpan a, TimeSpan b) { return a.begin_utc_ns < b.begin_utc_ns; });
  double covered = 0;
  std::int64_t until = report.job.begin_utc_ns;
  for (const TimeSpan& span : spans) {
    const std::int64_t begin = std::max(span.begin_utc_ns, until);
    const std::int64_t end = std::min(span.end_utc_ns, report.job.end_utc_ns);
    if (end <= begin) continue;
    covered += seconds_between(begin, end);
    until = end;
  }
  return 100 * covered / *run;
}

std::optional<double> strong_percent(const Report& report) {
  const auto left_out = report.omitted.find("episodes");
  if (!was_judged(report) || (left_out != report.omitted.end() && left_out->second > 0)) return std::nullopt;
  std::vector<TimeSpan> spans;
  for (const ReportEpisode& episode : report.episodes) {
    if (episode.tier == Tier::strong) spans.push_back(episode.span);
  }
  return percent_of_run(report, spans);
}

ComparedNumber anomalous_shares(const Runs& before, const Runs& after) {
  ComparedNumber share{"in anomalous intervals",
                       "percent",
                       numbers_of_runs(before, strong_percent),
                       numbers_of_runs(after, strong_percent),
                       {},
                       "",
                       ""};
  if (!share.known()) share.reason = "one side has no run that could be judged completely";
  add_interval(share, 0);
  return share;
}

/// Muting a finding does not remove its cause.
bool is_found_in(const Report& report, const std::string& id) {
  const auto has_id = [&id](const auto& one) { return one.id == id; };
  return std::any_of(report.findings.begin(), report.findings.end(), has_id) ||
         std::any_of(report.muted.begin(), report.muted.end(), has_id);
}

/// Why the rule could not look for its cause in this run, or "".
std::string why_not_judged_in(const Report& report, const std::string& id) {
  if (is_found_in(report, id)) return "";
  if (!was_judged(report)) return "the run could not be judged";
  const auto at = std::find_if(report.not_checked.begin(), report.not_checked.end(),
                               [&](const NotChecked& one) { return one.rule == id; });
  if (at == report.not_checked.end()) return "";
  return at->reason.empty() ? "its rule was not checked" : at->reason;
}

CauseOnSide cause_in(const Runs& runs, const std::string& id) {
  CauseOnSide side{.runs = runs.size(), .judged = 0, .found = 0, .why_not = ""};
  for (const ComparedRun& run : runs) {
    const std::string why_not = why_not_judged_in(run.report, id);
    if (side.why_not.empty()) side.why_not = why_not;
    side.judged += why_not.empty() ? 1 : 0;
    side.found += is_found_in(run.report, id) ? 1 : 0;
  }
  return side;
}

CauseChange change_of(const CauseOnSide& before, const CauseOnSide& after) {
  if (before.judged == 0 || after.judged == 0) return CauseChange::not_known;
  if (before.found == 0) return CauseChange::appeared;
  return after.found == 0 ? CauseChange::went : CauseChange::stayed;
}

std::set<std::string> fingerprints_in(const Runs& runs, const std::string& id) {
  std::set<std::string> all;
  for (const ComparedRun& run : runs) {
    for (const Finding& finding : run.report.findings) {
      if (finding.id == id && !finding.fingerprint.empty()) all.insert(finding.fingerprint);
    }
  }
  return all;
}

bool in_the_same_place(const Runs& before, const Runs& after, const std::string& id) {
  const std::set<std::string> theirs = fingerprints_in(after, id);
  const std::set<std::string> ours = fingerprints_in(before, id);
  return std::any_of(ours.begin(), ours.end(), [&](const std::string& one) { return theirs.count(one) > 0; });
}

/// In runs where the rule could not be checked, or where its finding has no interval, the share is unknown, not 0.
ComparedNumber share_of_cause(const Runs& before, const Runs& after, const std::string& id) {
  const auto percent = [&id](const Report& report) -> std::optional<double> {
    if (!why_not_judged_in(report, id).empty()) return std::nullopt;
    std::vector<TimeSpan> spans;
    for (const Finding& finding : report.findings) {
      if (finding.id != id) continue;
      std::copy_if(finding.intervals.begin(), finding.intervals.end(), std::back_inserter(spans),
                   [](const TimeSpan& span) { return span.end_utc_ns > span.begin_utc_ns; });
    }
    if (spans.empty() && is_found_in(report, id)) return std::nullopt;
    return percent_of_run(report, spans);
  };
  ComparedNumber share{id, "percent", numbers_of_runs(before, percent), numbers_of_runs(after, percent), {}, "", ""};
  if (!share.known()) share.reason = "not known in any run of one side";
  add_interval(share, 0);
  return share;
}

/// The causes that both sides together reported, without those about differences from earlier runs, because these are
/// compared here anyway.
std::map<std::string, const Finding*> causes_of(const Runs& before, const Runs& after) {
  std::map<std::string, const Finding*> gravest;
  for (const Runs* side : {&before, &after}) {
    for (const ComparedRun& run : *side) {
      for (const Finding& finding : run.report.findings) {
        if (finding.kind == FindingKind::history) continue;
        const Finding*& known = gravest[finding.id];
        if (known == nullptr || finding.severity > known->severity) known = &finding;
      }
    }
  }
  return gravest;
}

std::vector<ComparedCause> compare_causes(const Runs& before, const Runs& after) {
  std::vector<ComparedCause> causes;
  for (const auto& [id, finding] : causes_of(before, after)) {
    ComparedCause cause{.id = id, .title = finding->title, .severity = finding->severity};
    cause.before = cause_in(before, id);
    cause.after = cause_in(after, id);
    cause.change = change_of(cause.before, cause.after);
    cause.same_place = in_the_same_place(before, after, id);
    if (finding->kind == FindingKind::anomaly) {
      cause.share = share_of_cause(before, after, id);
    } else {
      cause.share.reason = "the cause lasts for the whole run";
    }
    causes.push_back(std::move(cause));
  }
  std::stable_sort(causes.begin(), causes.end(), [](const ComparedCause& a, const ComparedCause& b) {
    return a.change != b.change ? a.change < b.change : a.severity > b.severity;
  });
  return causes;
}

/// Amounts that tell runs apart whose traces have no ids. Two that began at once on one node, on the same tick, may
/// have used the same amounts, as one that sleeps; then their collectors did not.
std::string amounts_of_run(const Report& report) {
  const ReportJob& job = report.job;
  std::string identity = fmt::format("{}\n{}\n{}\n{}\n{}", job.cluster, job.id, job.begin_utc_ns, job.end_utc_ns,
                                     job.ran_seconds.value_or(0));
  for (const std::string& node : job.nodes) identity += "\n" + node;
  for (const NodeOverhead& own : report.overhead)
    identity += fmt::format("\n{} {}", own.cpu_percent_of_core.value_or(0), own.bytes_per_second.value_or(0));
  if (report.totals.empty()) return identity;
  for (const TotalsNumber& total : kTotalsNumbers) {
    identity += fmt::format("\n{}", (report.totals.front().*total.value).value_or(0));
  }
  return identity;
}

std::span<const std::string> trace_ids_of(const Report& report) {
  const std::span<const std::string> ids = report.job.trace_ids;
  return ids.first(std::min(ids.size(), kMostTraceIds));
}

/// Reports of older traces, and of replays, have no ids.
bool hold_the_same_run(const Report& a, const Report& b) {
  const std::span<const std::string> ids = trace_ids_of(a);
  const std::span<const std::string> others = trace_ids_of(b);
  if (!ids.empty() && !others.empty()) {
    return std::find_first_of(ids.begin(), ids.end(), others.begin(), others.end()) != ids.end();
  }
  return a.job.begin_utc_ns != 0 && a.job.begin_utc_ns == b.job.begin_utc_ns && amounts_of_run(a) == amounts_of_run(b);
}

void refuse_doubles(const Runs& before, const Runs& after) {
  std::vector<const ComparedRun*> known;
  known.reserve(before.size() + after.size());
  for (const Runs* side : {&before, &after}) {
    for (const ComparedRun& run : *side) {
      const auto same = std::find_if(known.begin(), known.end(), [&run](const ComparedRun* earlier) {
        return hold_the_same_run(earlier->report, run.report);
      });
      if (same != known.end())
        throw Error(fmt::format("{} and {} hold the same run", (*same)->directory, run.directory));
      known.push_back(&run);
    }
  }
}

using TextOfRun = std::function<std::string(const Report&)>;

std::vector<std::string> texts_of_runs(const Runs& runs, const TextOfRun& text) {
  std::set<std::string> all;
  for (const ComparedRun& run : runs) all.insert(text(run.report));
  all.erase("");
  return {all.begin(), all.end()};
}

/// Conditions that should be the same on both sides, so that the difference is that of the change alone.
struct SameOnBothSides {
  std::string_view what;
  std::string (*text)(const Report&);
};
constexpr SameOnBothSides kSameOnBothSides[] = {
    {"commands", [](const Report& report) { return report.job.command; }},
    {"clusters", [](const Report& report) { return report.job.cluster; }},
    {"nodes", [](const Report& report) { return node_list(report.job.nodes); }},
    {"versions of reveal", [](const Report& report) { return report.tool_version; }},
};

void note_differences(const Runs& before, const Runs& after, std::vector<std::string>& notes) {
  for (const SameOnBothSides& same : kSameOnBothSides) {
    const std::vector<std::string> ours = texts_of_runs(before, same.text);
    const std::vector<std::string> theirs = texts_of_runs(after, same.text);
    if (ours == theirs || ours.empty() || theirs.empty()) continue;
    notes.push_back(fmt::format("the {} differ: {} before, {} after", same.what, listed(ours, 4), listed(theirs, 4)));
  }
  const auto key = [](const Report& report) { return report.job.run_key; };
  const std::vector<std::string> ours = texts_of_runs(before, key);
  const std::vector<std::string> theirs = texts_of_runs(after, key);
  if (ours != theirs && !ours.empty() && !theirs.empty()) {
    notes.emplace_back("the program or its arguments differ: they also contribute to the difference");
  }
}

/// One line for all of them, with the shortest of their reasons: short runs are often many.
void note_not_judged(const Runs& before, const Runs& after, std::vector<std::string>& notes) {
  constexpr std::size_t kLongestReason = 120;
  std::vector<std::string> directories;
  std::string reason;
  for (const Runs* side : {&before, &after}) {
    for (const ComparedRun& run : *side) {
      if (was_judged(run.report)) continue;
      directories.push_back(run.directory);
      const std::string& sentence = run.report.verdict.sentence;
      if (!sentence.empty() && (reason.empty() || sentence.size() < reason.size())) reason = sentence;
    }
  }
  if (directories.empty()) return;
  if (reason.ends_with('.')) reason.pop_back();
  if (!reason.empty()) reason = " (" + shortened(reason, kLongestReason) + ")";
  notes.push_back(directories.size() == 1
                      ? fmt::format("{} could not be judged{}: its causes are not known", directories[0], reason)
                      : fmt::format("{} runs could not be judged{}: their causes are not known: {}", directories.size(),
                                    reason, listed(directories, 4)));
}

void note_left_out(const Runs& runs, bool reported, std::vector<std::string>& notes) {
  for (const ComparedRun& run : runs) {
    const bool failed = has_failed(run.report.job);
    const bool untimed = !failed && !run_seconds(run.report, reported);
    if (failed) notes.push_back(run.directory + " failed: its time is not compared");
    if (run.report.partial) {
      notes.push_back(run.directory + " is incomplete: part of its data is missing" +
                      (untimed ? ", so its recorded time is not compared" : ""));
    } else if (untimed) {
      notes.push_back("the run time of " + run.directory + " is not known");
    }
    for (const MutedFinding& muted : run.report.muted) {
      notes.push_back(fmt::format("{} has a muted finding, which counts as found: {}", run.directory, muted.id));
    }
  }
}

std::string sentence_about_time(const JobComparison& comparison) {
  const ComparedNumber& time = comparison.run_time;
  if (!time.known()) return fmt::format("The times cannot be compared: {}.", time.reason);
  const std::string words = time_difference(arithmetic_mean(time.before), arithmetic_mean(time.after), time.difference);
  switch (comparison.change) {
    case TimeChange::slower:
    case TimeChange::faster:
      return fmt::format("The {} was {}.", time.name, words);
    case TimeChange::same:
      return fmt::format("The runs show no difference in the {}: {}.", time.name, words);
    case TimeChange::not_known:
      return fmt::format("The {} was {}; {}.", time.name, words, time.reason);
  }
  return "";
}

}  // namespace

std::string_view name_of(CauseChange change) noexcept {
  return kCauseChanges[static_cast<std::size_t>(change)];
}

std::string_view name_of(TimeChange change) noexcept {
  return kTimeChanges[static_cast<std::size_t>(change)];
}

TimeChange time_change(const std::optional<MeanDifference>& difference) noexcept {
  if (!difference) return TimeChange::not_known;
  if (!difference->significant()) return TimeChange::same;
  return difference->difference > 0 ? TimeChange::slower : TimeChange::faster;
}

std::string time_difference(double before, double after, const std::optional<MeanDifference>& difference) {
  const double longer = difference ? difference->difference : after - before;
  const Scale scale = time_scale(before);
  const std::string shown = two_decimals(std::abs(longer) * scale.factor);
  std::string words = fmt::format("{} instead of {}", compared_time(after, scale), compared_time(before, scale));
  words += shown == "0.00" ? fmt::format(", a difference of less than 0.01 {}", scale.unit)
                           : fmt::format(": {} {} {} ({:.1f} %)", shown, scale.unit, longer < 0 ? "shorter" : "longer",
                                         100 * std::abs(longer) / before);
  if (difference) {
    words += fmt::format(", {:.0f} % confidence interval of the difference {} {} to {} {}", 100 * kConfidence,
                         two_decimals(difference->low * scale.factor), scale.unit,
                         two_decimals(difference->high * scale.factor), scale.unit);
  }
  return words;
}

JobComparison compare_jobs(const std::vector<ComparedRun>& before, const std::vector<ComparedRun>& after,
                           const std::vector<double>& earlier_seconds) {
  refuse_doubles(before, after);
  JobComparison comparison;
  for (const ComparedRun& run : before) comparison.before.push_back(run.directory);
  for (const ComparedRun& run : after) comparison.after.push_back(run.directory);
  const bool reported = all_reported(before) && all_reported(after);
  comparison.run_time = run_times(before, after, reported, earlier_seconds);
  comparison.change = time_change(comparison.run_time.difference);
  comparison.sentence = sentence_about_time(comparison);
  comparison.step_time = step_times(before, after, reported);
  comparison.hardware = hardware_numbers(before, after);
  comparison.anomalous = anomalous_shares(before, after);
  comparison.causes = compare_causes(before, after);
  note_differences(before, after, comparison.notes);
  note_not_judged(before, after, comparison.notes);
  note_left_out(before, reported, comparison.notes);
  note_left_out(after, reported, comparison.notes);
  return comparison;
}

}  // namespace reveal
