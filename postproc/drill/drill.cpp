#include "postproc/drill/drill.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/version.h"
#include "postproc/diagnose/rule.h"
#include "postproc/json/json_fields.h"
#include "postproc/words/ink.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr double kLeastOverlap = 0.5;
/// Below it, others took so much of the job's cpu that the report rightly names them.
constexpr double kLeastShare = 0.85;
constexpr std::string_view kDrillStates[] = {"passed", "failed", "unknown", "skipped"};
constexpr std::size_t kDrillColumn = 19;

/// Bytes of a regular file; nothing where there is none.
std::optional<double> bytes_of(const fs::path& file) {
  struct stat status {};
  if (::lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return static_cast<double>(status.st_size);
}

std::string times_of(const TimeSpan& span) {
  return clock_span(span.begin_utc_ns, span.end_utc_ns, span.begin_utc_ns);
}

/// The finding that fits best, and its interval.
struct Best {
  const Finding* finding = nullptr;
  TimeSpan span;
  double overlap = 0;
};

Best best_of(const Report& report, const std::function<bool(const Finding&)>& wanted, const TimeSpan& injected) {
  Best best;
  for (const Finding& finding : report.findings) {
    if (!wanted(finding)) continue;
    if (best.finding == nullptr) best.finding = &finding;
    for (const TimeSpan& span : finding.intervals) {
      const double overlap = overlap_over_union(span, injected);
      if (best.span == TimeSpan{} || overlap > best.overlap) best = {&finding, span, overlap};
    }
  }
  return best;
}

std::string busy_words(const DrillTruth& truth) {
  if (truth.job_share >= kLeastShare) return "";
  return fmt::format("; other processes took {:.0f} % of the job's cpu meanwhile: repeat the drill on an idle node",
                     100 * (1 - truth.job_share));
}

std::string without_finding(const Report& report, const DrillTruth& truth, const std::string& rules) {
  const RuleSpec* spec = find_rule(find_disturbance(truth.disturbance)->rules.front());
  for (const NotChecked& unchecked : report.not_checked) {
    if (spec != nullptr && unchecked.rule == spec->id) {
      return fmt::format("no finding of {}: not checked ({})", rules, printable(unchecked.reason));
    }
  }
  const Best other = best_of(
      report, [](const Finding& each) { return each.severity >= Severity::notice; }, truth.span);
  if (other.overlap <= 0) return fmt::format("no finding of {}", rules);
  return fmt::format("no finding of {}; the report has {} at that time", rules, printable(other.finding->id));
}

}  // namespace

const Disturbance& outsider_disturbance() {
  // By where the drill is started: in a login session, by a service (cron), or in a batch job.
  static const Disturbance kOutsider{.name = "outsider",
                                     .does = "a process outside the job uses the cpu of the job",
                                     .rules = {"cpu.outsider", "cpu.os_jitter", "node.noisy_neighbour"}};
  return kOutsider;
}

const Disturbance& stopped_disturbance() {
  static const Disturbance kStopped{
      .name = "stopped", .does = "a signal stops the program of the job", .rules = {"job.stopped"}};
  return kStopped;
}

const Disturbance* find_disturbance(std::string_view name) noexcept {
  for (const Disturbance* each : {&outsider_disturbance(), &stopped_disturbance()}) {
    if (each->name == name) return each;
  }
  return nullptr;
}

DrillState missed(const DrillTruth& truth) noexcept {
  return truth.job_share < kLeastShare ? DrillState::unknown : DrillState::failed;
}

void fields(auto& v, Visited<decltype(v), DrillTruth>& truth) {
  v("disturbance", truth.disturbance);
  v("node", truth.node);
  v("begin_utc_ns", truth.span.begin_utc_ns);
  v("end_utc_ns", truth.span.end_utc_ns);
  v("job_share", truth.job_share);
}

std::string render_drill_truth(const DrillTruth& truth) {
  return json_text(JsonWriter::whole(truth), 2) + "\n";
}

DrillTruth parse_drill_truth(const std::string& text) {
  constexpr std::string_view kDocument = "the record of the disturbance";
  const Json json = parse_json(text, kDocument);
  DrillTruth truth;
  JsonReader reader(json, kDocument);
  fields(reader, truth);
  if (find_disturbance(truth.disturbance) == nullptr) throw Error("no disturbance of that name");
  return truth;
}

std::string_view name_of(DrillState state) noexcept {
  return kDrillStates[static_cast<std::size_t>(state)];
}

std::vector<DrillCheck> check_drill_files(const fs::path& directory, const std::string& node) {
  std::vector<DrillCheck> checks;
  const std::string trace = node + ".h5";
  const auto bytes = bytes_of(directory / trace);
  std::error_code error;
  checks.push_back({"trace", DrillState::failed, ""});
  DrillCheck& traced = checks.back();
  if (bytes && *bytes > 0) {
    traced = {"trace", DrillState::passed, fmt::format("{}, {}", trace, quantity(bytes, "bytes"))};
  } else if (fs::exists(directory / (trace + ".part"), error)) {
    traced.sentence = fmt::format("{}.part was not closed: the collector did not end", trace);
  } else {
    traced.sentence =
        fmt::format("no {} in {}: the collector did not start, or did not deliver", trace, directory.string());
  }
  constexpr std::array kFiles = {"report.json", "report.txt", "report.html"};
  std::vector<std::string> there, missing;
  for (const char* file : kFiles) {
    (bytes_of(directory / file).value_or(0) > 0 ? there : missing).emplace_back(file);
  }
  checks.push_back(missing.empty() ? DrillCheck{"report", DrillState::passed, listed(there)}
                                   : DrillCheck{"report", DrillState::failed, "missing: " + listed(missing)});
  return checks;
}

double overlap_over_union(const TimeSpan& one, const TimeSpan& other) noexcept {
  const auto both = std::min(one.end_utc_ns, other.end_utc_ns) - std::max(one.begin_utc_ns, other.begin_utc_ns);
  const auto all = std::max(one.end_utc_ns, other.end_utc_ns) - std::min(one.begin_utc_ns, other.begin_utc_ns);
  return both <= 0 || all <= 0 ? 0 : static_cast<double>(both) / static_cast<double>(all);
}

std::vector<DrillCheck> check_drill_report(const Report& report, const DrillTruth& truth) {
  const std::vector<std::string_view>& rules = find_disturbance(truth.disturbance)->rules;
  const auto named = [&](const Finding& finding) {
    return finding.severity >= Severity::notice && std::ranges::find(rules, finding.id) != rules.end();
  };
  const Best best = best_of(report, named, truth.span);
  if (best.finding == nullptr) {
    const std::vector<std::string> names(rules.begin(), rules.end());
    return {{"finding", missed(truth), without_finding(report, truth, listed(names, 8, " or ")) + busy_words(truth)},
            {"node", DrillState::unknown, "no finding"},
            {"interval", DrillState::unknown, "no finding"}};
  }
  const Finding& finding = *best.finding;
  std::vector<DrillCheck> checks;
  checks.push_back({"finding", DrillState::passed, fmt::format("{} ({})", finding.id, finding.title)});
  const bool there = std::ranges::find(finding.nodes, truth.node) != finding.nodes.end();
  std::vector<std::string> nodes;
  for (const std::string& node : finding.nodes) nodes.push_back(printable(node, 64));
  checks.push_back({"node", there ? DrillState::passed : DrillState::failed,
                    there ? truth.node : fmt::format("{} instead of {}", listed(nodes), truth.node)});
  const bool overlaps = best.overlap >= kLeastOverlap;
  checks.push_back({"interval", overlaps ? DrillState::passed : missed(truth),
                    fmt::format("{}; the disturbance: {}; overlap of both {:.0f} %{}", times_of(best.span),
                                times_of(truth.span), 100 * best.overlap, overlaps ? "" : busy_words(truth))});
  return checks;
}

DrillState verdict_of(std::span<const DrillCheck> checks) noexcept {
  const auto any = [&](DrillState state) {
    return std::ranges::any_of(checks, [state](const DrillCheck& check) { return check.state == state; });
  };
  if (any(DrillState::failed)) return DrillState::failed;
  return any(DrillState::unknown) ? DrillState::unknown : DrillState::passed;
}

int exit_status_of(DrillState verdict) noexcept {
  return verdict == DrillState::passed ? 0 : verdict == DrillState::failed ? 1 : 3;
}

std::string drill_as_text(std::span<const DrillCheck> checks, const TextStyle& style) {
  constexpr Ink kInks[] = {Ink::green, Ink::red, Ink::yellow, Ink::dim};
  std::string text;
  std::size_t passed = 0;
  const auto ink_of = [&](DrillState state) { return kInks[static_cast<std::size_t>(state)]; };
  for (const DrillCheck& check : checks) {
    const std::string label = fmt::format("{:<9}{}", name_of(check.state), check.name);
    std::string line = folded(label, check.sentence, kDrillColumn, static_cast<std::size_t>(style.width));
    const std::size_t word = name_of(check.state).size();
    text += painted(line.substr(0, word), ink_of(check.state), style.colour) + line.substr(word);
    passed += check.state == DrillState::passed ? 1 : 0;
  }
  const DrillState verdict = verdict_of(checks);
  constexpr std::string_view kWords[] = {"the drill passed", "the drill failed", "the drill could not be judged"};
  return text + painted(kWords[static_cast<std::size_t>(verdict)], ink_of(verdict), style.colour) +
         fmt::format(": {} of {} checks passed\n", passed, checks.size());
}

std::string drill_as_json(std::span<const DrillCheck> checks, const DrillTruth& truth, double seconds,
                          const std::string& kept) {
  Json rows = Json::array();
  for (const DrillCheck& check : checks) {
    rows.push_back({{"name", check.name}, {"state", name_of(check.state)}, {"sentence", check.sentence}});
  }
  const DrillState verdict = verdict_of(checks);
  const auto time_or_null = [](std::int64_t utc_ns) { return utc_ns == 0 ? Json() : Json(iso_milliseconds(utc_ns)); };
  return json_text(Json{{"schema", "reveal.drill/1"},
                        {"tool_version", REVEAL_VERSION},
                        {"verdict", name_of(verdict)},
                        {"exit_status", exit_status_of(verdict)},
                        {"seconds", four_digits(seconds)},
                        {"disturbance", truth.disturbance},
                        {"node", truth.node},
                        {"begin", time_or_null(truth.span.begin_utc_ns)},
                        {"end", time_or_null(truth.span.end_utc_ns)},
                        {"directory", kept.empty() ? Json() : Json(kept)},
                        {"checks", std::move(rows)}},
                   2) +
         "\n";
}

}  // namespace reveal
