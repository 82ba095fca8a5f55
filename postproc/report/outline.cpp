#include "postproc/report/outline.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "postproc/diagnose/causal_links.h"
#include "postproc/diagnose/remedy.h"
#include "postproc/diagnose/rule.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/lists.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

using SectionId = Section::Id;
using RowKind = Row::Kind;

constexpr std::size_t kAnyNumber = 1000;
constexpr std::size_t kMostNodes = 40;
constexpr std::size_t kMostDeviationsShown = 40;
constexpr std::size_t kMostEpisodes = 100;
constexpr std::size_t kMostReasons = 3;
constexpr std::size_t kMostPlaces = 100;

Line prose(std::string text) {
  return {{std::move(text)}};
}

Line code(std::string text) {
  return {{std::move(text), true}};
}

std::vector<Line> lines_of(const std::vector<std::string>& texts) {
  std::vector<Line> lines;
  lines.reserve(texts.size());
  for (const std::string& text : texts) lines.push_back(prose(text));
  return lines;
}

Cell cell(std::string text, std::string before = {}, std::string after = {}) {
  return {{prose(std::move(text))}, std::move(before), std::move(after)};
}

/// A value beside others of which the largest is `whole`.
Cell drawn(Cell one, std::optional<double> value, std::optional<double> whole) {
  if (value && whole && *value >= 0 && *whole > 0 && std::isfinite(*whole)) one.share = std::min(1.0, *value / *whole);
  return one;
}

std::optional<double> larger(std::optional<double> one, std::optional<double> other) {
  return one && other ? std::optional(std::max(*one, *other)) : std::nullopt;
}

/// Returns the largest value of all nodes.
std::optional<double> largest(const std::vector<JobTotals>& rows, std::optional<double> JobTotals::*value) {
  std::optional<double> most;
  for (const JobTotals& row : rows) {
    if (!row.node.empty() && row.*value) most = std::max(most.value_or(0), *(row.*value));
  }
  return most;
}

/// Rows without text are none.
void add(std::vector<Part>& parts, std::string label, std::vector<Line> lines, RowKind kind = RowKind::prose,
         Shown shown = kEverywhere) {
  std::erase_if(lines, [](const Line& line) {
    return std::all_of(line.begin(), line.end(), [](const Span& span) { return span.text.empty(); });
  });
  if (!lines.empty()) parts.push_back(Row{std::move(label), std::move(lines), kind, shown});
}

void add(std::vector<Part>& parts, std::string label, std::string text, RowKind kind = RowKind::prose,
         Shown shown = kEverywhere) {
  add(parts, std::move(label), {prose(std::move(text))}, kind, shown);
}

/// Commands and sentences, each as it is.
void add_steps(std::vector<Part>& parts, std::string_view label, const std::vector<RemedyStep>& steps,
               RowKind kind = RowKind::steps) {
  Row row{.label = std::string(label), .lines = {}, .kind = kind};
  for (const RemedyStep& step : steps) {
    if (step.text.empty()) continue;
    const bool typed = kind == RowKind::steps && form_of(step.text) != LineForm::prose;
    row.lines.push_back(typed ? code(step.text) : prose(step.text));
    row.kinds.push_back(step.kind);
  }
  if (!row.lines.empty()) parts.emplace_back(std::move(row));
}

void add_form(std::vector<Part>& parts, const std::vector<RemedyStep>& steps, LineForm form) {
  if (steps.empty()) return;
  const bool ordered = is_step(form) || form == LineForm::prose;
  add_steps(parts, heading_of(form, steps.front().kind), steps, ordered ? RowKind::steps : RowKind::command);
}

Section job_section(const Report& report) {
  const ReportJob& job = report.job;
  Section section{SectionId::job, ""};
  auto& parts = section.parts;
  add(parts, "", job_title(job));
  add(parts, "user", job.user, RowKind::aside);
  add(parts, "cluster", job.cluster, RowKind::aside);
  add(parts, several_nodes(report) ? "nodes" : "node", node_list(job.nodes), RowKind::aside);
  add(parts, "", job.state);
  if (job.exit_code) {
    add(parts, "exit status", std::to_string(*job.exit_code), RowKind::prose, *job.exit_code == 0 ? kWeb : kEverywhere);
  }
  if (job.begin_utc_ns != 0) add(parts, "began", date_and_time(job.begin_utc_ns));
  add(parts, "", run_time(job));
  for (const auto& [key, value] : job.tags) add(parts, "tag", {code(key + "=" + value)});
  return section;
}

Section totals_section(const Report& report) {
  Section section{SectionId::totals, "The job"};
  if (report.job.command != job_title(report.job)) {
    add(section.parts, "command", {code(report.job.command)}, RowKind::prose, kWeb);
  }
  add(section.parts, "directory", {code(report.directory)}, RowKind::prose, kWeb);
  if (report.totals.empty()) return section;
  const std::vector<std::string> known = used(report.totals.front());
  const bool some = std::any_of(report.totals.begin() + 1, report.totals.end(),
                                [](const JobTotals& node) { return !used(node).empty(); });
  const char* const none = some ? "not known: not all nodes were measured" : "nothing was measured";
  add(section.parts, "totals", known.empty() ? none : listed(known, known.size(), "; "));
  for (const NodePhases& node : report.phases) {
    const std::string place = several_nodes(report) ? node_list(node.nodes) + ": " : "";
    add(section.parts, "phases", place + phases_line(node, report.job), RowKind::prose, kAll);
  }
  return section;
}

/// Behind the findings: eight rows would push the remedy off the first screen.
Section each_node_section(const Report& report) {
  Section section{SectionId::each_node, "What each node used"};
  Table table{.columns = {{"Node", kEverywhere, 11},
                          {"CPUs used", kEverywhere, 15},
                          {"Peak memory", kEverywhere, 20},
                          {"Read", kEverywhere, 9},
                          {"Wrote", kEverywhere, 9},
                          {"Waiting"},
                          {"Network", kWeb},
                          {"Energy", kWeb}},
              .more = "node",
              .most_on_page = 8,
              .most = kMostNodes,
              .fold = "Each node",
              .grid = true};
  const bool has_gpus = largest(report.totals, &JobTotals::gpus).has_value();
  if (has_gpus) {
    table.columns.push_back({"GPU use", kWeb});
    table.columns.push_back({"GPU memory", kWeb});
    table.columns.push_back({"GPU energy", kWeb});
  }
  const auto of_nodes = [&report](std::optional<double> JobTotals::*value) {
    return [value, most = largest(report.totals, value)](const JobTotals& row, std::string text) {
      return drawn(cell(std::move(text)), row.*value, most);
    };
  };
  const auto read = of_nodes(&JobTotals::read_bytes);
  const auto written = of_nodes(&JobTotals::written_bytes);
  const auto waiting = of_nodes(&JobTotals::wait_share);
  const auto network = of_nodes(&JobTotals::network_bytes);
  const auto energy = of_nodes(&JobTotals::energy_joules);
  const auto gpu_energy = of_nodes(&JobTotals::gpu_energy_joules);
  for (const JobTotals& row : report.totals) {
    if (row.node.empty()) continue;
    table.rows.push_back({cell(row.node), drawn(cell(cpus_used(row)), row.cpu_used_share, 1),
                          drawn(cell(memory_used(row)), row.memory_peak, row.memory_limit),
                          read(row, amount(row.read_bytes)), written(row, amount(row.written_bytes)),
                          waiting(row, waited(row)), network(row, amount(row.network_bytes)),
                          energy(row, quantity(row.energy_joules, "J"))});
    if (!has_gpus) continue;
    std::vector<Cell>& cells = table.rows.back();
    cells.push_back(drawn(cell(gpus_used(row)), row.gpu_used_share, 1));
    cells.push_back(drawn(cell(gpu_memory_used(row)), row.gpu_memory_peak, row.gpu_memory_total));
    cells.push_back(gpu_energy(row, quantity(row.gpu_energy_joules, "J")));
  }
  if (table.rows.size() > 1) section.parts.emplace_back(std::move(table));  // else the job is the node
  return section;
}

Section sources_section(const Report& report) {
  Section section{SectionId::sources, "Where these numbers come from", true};
  if (report.totals.empty()) return section;
  const JobTotals& whole = report.totals.front();
  add(section.parts, "not known", lines_of(unknown(whole)), RowKind::list, kInFull);
  std::vector<std::string> sources;
  for (const TotalsNumber& total : kTotalsNumbers) {
    const auto note = whole.notes.find(total.key);
    std::string word(total.key);
    std::replace(word.begin(), word.end(), '_', ' ');
    if ((whole.*total.value) && note != whole.notes.end()) sources.push_back(word + ": " + note->second);
  }
  add(section.parts, "source", lines_of(sources), RowKind::list, kInFull);
  return section;
}

/// The timeline of an evidence's channel; empty if the report has none.
std::vector<double> course_of(const Evidence& evidence, const Report& report) {
  const std::string name = channel_name(evidence.metric, evidence.instance);
  for (const TimelineChannel& line : report.timeline) {
    if (line.name == name && line.node == evidence.node) return line.values;
  }
  return {};
}

Table evidence_table(const Finding& finding, const Report& report) {
  Table table{.label = "evidence",
              .caption = "Evidence",
              .columns = {{"Channel"}, {"Observed"}, {"Expected"}, {"Compared"}, {"Found by", kInFull}, {"When", kWeb}},
              .most_on_page = 3,
              .most = kAnyNumber,
              .fold = "Evidence"};
  for (const Evidence& one : finding.evidence) {
    const bool setting = one.feature == "value" && !one.observed;  // a text, where channels have their instance
    Cell channel{{code(setting ? one.metric : channel_name(one.metric, one.instance))}};
    const bool said = finding.nodes.size() == 1 && finding.nodes.front() == one.node;  // as the finding's place
    if (several_nodes(report) && !one.node.empty() && !said) channel.lines[0].push_back({" on " + one.node});
    channel.course = course_of(one, report);
    const std::string by = one.detectors.empty() ? "" : listed(names_of(one.detectors), 6, "+");
    const bool timed = one.span.begin_utc_ns != 0;
    const std::int64_t known = report.job.begin_utc_ns == 0 ? one.span.begin_utc_ns : report.job.begin_utc_ns;
    // A mean against the rest of the job needs no word.
    const bool usual = timed && (one.feature == "mean" || one.feature == "total");
    const auto whole = larger(one.observed, one.expected);
    table.rows.push_back(
        {channel,
         drawn(cell(setting ? one.instance : quantity_of(one.metric, one.observed, one.unit), ": "), one.observed,
               whole),
         one.expected
             ? drawn(cell(quantity_of(one.metric, one.expected, one.unit), usual ? ", usually " : ", expected "),
                     one.expected, whole)
             : Cell{},
         cell(usual || one.feature == "value" ? "" : one.feature, " (", ")"), cell(by, ", found by "),
         cell(timed ? clock_span(one.span.begin_utc_ns, one.span.end_utc_ns, known) : "whole job", ", ")});
  }
  return table;
}

std::string place_of(const Finding& finding) {
  std::string text = node_list(finding.nodes);
  if (!finding.instances.empty()) text += (text.empty() ? "" : ": ") + listed(finding.instances);
  return text;
}

Card card_of(const Finding& finding, std::size_t number, const Report& report) {
  Card card{&finding, number, place_of(finding)};
  auto& parts = card.parts;
  std::vector<std::string> times;
  for (const TimeSpan& span : finding.intervals) times.push_back(when(span, report.job));
  add(parts, "where", card.place);
  add(parts, "when", lines_of(times), RowKind::series);
  add(parts, "cost", impact(finding.impact));
  // The remedy comes before the reason: a first screen may end below it. And what the reader does comes first in it.
  const bool for_admins = only_admins_act(finding.remedy);
  add(parts, "fixed by", who_acts(finding.remedy), RowKind::prose, for_admins ? kInFull : kEverywhere);
  if (for_admins) {
    const std::string& step = finding.remedy.admin.front();
    const bool told = step == kAdminsWereTold || step == kStepsAreAbove;
    add(parts, "for you", told ? "the job needs no change" : std::string(kNothingForUsers));
  }
  const RemedyTexts remedy = steps_of(finding);
  for (const LineForm form : kTypedForms) {
    if (form == LineForm::run_under) add_form(parts, remedy.advice, LineForm::prose);
    add_form(parts, steps_with_form(remedy.user, form), form);
  }
  add_steps(parts, "for admins", remedy.admin);
  std::vector<std::string> tried;
  tried.reserve(finding.interventions.size());
  for (const InterventionResult& one : finding.interventions) tried.push_back(one.sentence);
  add(parts, "tried", lines_of(tried), RowKind::list);
  std::vector<Line> led_to;
  for (const Finding* effect : effects_of(finding, report.findings)) {
    led_to.push_back({{effect->id, true}, {": " + effect->sentence}});
  }
  add(parts, "led to", led_to, RowKind::list);
  add(parts, "caused by", {code(finding.caused_by)});
  if (!finding.evidence.empty()) parts.emplace_back(evidence_table(finding, report));
  add(parts, "python", lines_of(finding.main_threads), RowKind::list);
  if (!finding.runner_up.why_not.empty()) {
    const std::string& id = finding.runner_up.id;
    Line line{{finding.runner_up.why_not}};
    if (!id.empty()) {
      line.push_back({" ("});
      line.push_back({id, true});
      line.push_back({")"});
    }
    add(parts, "considered", {std::move(line)}, RowKind::aside);
  }
  add(parts, "verify", finding.remedy.verify, RowKind::prose, kInFull);
  add(parts, "source", lines_of(finding.sources), RowKind::links, kWeb);
  add(parts, "rule",
      {{{finding.id, true}, {fmt::format(" ({}, {})", name_of(finding.kind), name_of(finding.subsystem))}}},
      RowKind::prose, kWeb);
  return card;
}

void add_findings(const Report& report, std::vector<Section>& sections) {
  Section first{SectionId::finding, "Finding"};
  Section notes{SectionId::notes, "Also noted"};
  std::size_t number = 0;
  for (const Finding* finding : shown_findings(report)) {
    Section& section = number == 0 ? first : notes;
    ++number;
    section.cards.push_back(card_of(*finding, number, report));
  }
  Section rest{SectionId::left_out, left_out_line(report), true};
  for (const Finding& finding : report.findings) {
    if (!is_shown(finding)) rest.cards.push_back(card_of(finding, 0, report));
  }
  for (Section* section : {&first, &notes, &rest}) sections.push_back(std::move(*section));
}

std::string difference(double percent) {
  return fmt::format("{:+.0f} %", percent);
}

/// In the units of the sentences about that channel.
std::string channel_quantity(const std::string& channel, std::optional<double> value, const std::string& unit) {
  return quantity_of(std::string_view(channel).substr(0, channel.find('/')), value, unit);
}

Table deviations_table(const PeerComparison& comparison) {
  Table table{.caption = "Different from the other nodes of the same group over the whole job",
              .columns = {{"Node"}, {"Channel"}, {"This node"}, {"Its peers"}, {"Difference"}, {"t"}},
              .most = kMostDeviationsShown,
              .left_out = comparison.deviations_left_out,
              .shown = kWeb};
  for (const PeerDeviation& one : comparison.deviations) {
    const std::optional<double> whole = larger(one.observed, one.expected);
    table.rows.push_back({cell(one.node), Cell{{code(one.channel)}},
                          drawn(cell(channel_quantity(one.channel, one.observed, one.unit)), one.observed, whole),
                          drawn(cell(channel_quantity(one.channel, one.expected, one.unit)), one.expected, whole),
                          cell(difference(one.percent)), cell(fmt::format("{:.1f}", one.t))});
  }
  return table;
}

Table facts_table(const PeerComparison& comparison) {
  Table table{.label = "settings",
              .caption = "Settings in which some nodes differ",
              .columns = {{"Setting"}, {"Nodes"}, {"Value"}, {"On the others"}},
              .most = kAnyNumber,
              .fold = "Settings in which some nodes differ",
              .shown = kInFull};
  for (const FactDifference& fact : comparison.facts) {
    table.rows.push_back({Cell{{code(fact.key)}}, cell(node_list(fact.nodes), " on "), cell(fact.value, " is "),
                          cell(fact.usual, ", elsewhere ")});
  }
  return table;
}

Table changes_table(const HistoryComparison& history) {
  Table table{.caption = "New in this run",
              .columns = {{"What"}, {"This run"}, {"Earlier runs"}, {"Difference"}, {"Different since"}},
              .most = kAnyNumber,
              .left_out = history.changes_left_out,
              .shown = kWeb};
  for (const HistoryChange& one : history.changes) {
    const bool fact = one.what == HistoryChange::What::configuration;
    const auto set = [](const std::string& value) { return value.empty() ? std::string("not set") : value; };
    const std::optional<double> whole = fact ? std::nullopt : larger(one.observed, one.expected);
    table.rows.push_back(
        {Cell{{code(one.name)}},
         drawn(cell(fact ? set(one.now) : channel_quantity(one.name, one.observed, one.unit)), one.observed, whole),
         drawn(cell(fact ? set(one.before) : channel_quantity(one.name, one.expected, one.unit)), one.expected, whole),
         cell(fact ? "" : difference(one.percent) + (one.drift ? ", slowly" : "")),
         cell(one.since_utc_ns == 0 ? "" : date_and_time(one.since_utc_ns))});
  }
  return table;
}

Section compared_section(const Report& report) {
  Section section{SectionId::compared, "Compared with"};
  auto& parts = section.parts;
  if (several_nodes(report)) {
    const std::string peers = peers_line(report);
    add(parts, "other nodes", peers, RowKind::prose, report.comparison.compared ? kEverywhere : kInFull);
    for (const PeerGroup& group : report.comparison.groups) {
      if (peers.find(group.reason) != std::string::npos) continue;
      add(parts, node_list(group.nodes), group.reason, RowKind::prose, kInFull);
    }
    const Straggler& straggler = report.comparison.straggler;
    add(parts, "straggler", straggler.node.empty() ? straggler.reason : straggler.node, RowKind::prose, kInFull);
  }
  const bool known = report.history.status != HistoryStatus::never_compared;
  add(parts, "earlier runs", history_line(report), RowKind::prose, known ? kEverywhere : kInFull);
  if (!report.history.why_not.empty()) {
    add(parts, "baseline", "this run is not used as a baseline: " + report.history.why_not, RowKind::prose, kInFull);
  }
  if (!report.comparison.facts.empty()) parts.emplace_back(facts_table(report.comparison));
  if (!report.comparison.deviations.empty()) parts.emplace_back(deviations_table(report.comparison));
  if (!report.history.changes.empty()) parts.emplace_back(changes_table(report.history));
  return section;
}

std::string place_name(const LocalityPlace& place) {
  return place.numa ? fmt::format("NUMA node {}", *place.numa) : "not known";
}

/// Where the main threads of Python stood over the whole job.
Table python_table(const Report& report) {
  Table table{.label = "python",
              .caption = "The place of the main thread of each Python process, in one sample a second.",
              .columns = {{"Node"}, {"Process"}, {"Samples"}, {"Functions"}},
              .more = "process",
              .most = kMostPlaces,
              .shown = kInFull};
  for (const PythonThread& thread : report.python) {
    std::vector<std::string> places;
    places.reserve(thread.places.size());
    for (const PythonPlace& place : thread.places) {
      const double share = thread.samples > 0 ? 100 * place.samples / thread.samples : 0;
      places.push_back(fmt::format("{} {:.0f} %", place.place, share));
    }
    table.rows.push_back({cell(thread.node), cell(thread.process, " "),
                          cell(number(std::round(thread.samples)), ", of ", " samples"),
                          cell(listed(places, places.size(), "; "), ": ")});
  }
  return table;
}

/// A table where there is a near and a far, else one line.
Section locality_section(const Report& report) {
  Section section{SectionId::locality, "Where cpus, devices and processes are", true};
  Table table{.label = "places",
              .caption = "By NUMA node. Access to another NUMA node goes through the link between the sockets.",
              .columns = {{"Node"}, {"Place"}, {"CPUs"}, {"GPUs"}, {"Network"}, {"Interrupts"}, {"Processes"}},
              .more = "place",
              .most = kMostPlaces,
              .shown = kInFull};
  for (const LocalityMap& map : report.locality) {
    for (const LocalityPlace& place : map.places) {
      std::string cpus = place.cpus;
      if (!place.job_cpus.empty() && place.job_cpus != cpus) cpus += fmt::format(" (the job's: {})", place.job_cpus);
      const auto list = [](std::vector<std::string> words, std::string before) {
        for (std::size_t i = 0; i + 1 < words.size(); ++i) words[i] += ',';
        return words.empty() ? Cell{} : Cell{lines_of(words), std::move(before)};
      };
      table.rows.push_back({cell(map.node), cell(place_name(place), " "), cpus.empty() ? Cell{} : cell(cpus, ": cpus "),
                            list(place.gpus, "; GPUs "), list(place.networks, "; network "),
                            list(place.interrupts, "; interrupts "), list(place.processes, "; processes ")});
    }
  }
  if (!table.rows.empty()) section.parts.emplace_back(std::move(table));
  std::map<std::string, std::vector<std::string>> notes;
  for (const LocalityMap& map : report.locality) notes[map.note].push_back(map.node);
  for (const auto& [note, nodes] : notes) {
    add(section.parts, "places", several_nodes(report) && !note.empty() ? node_list(nodes) + ": " + note : note,
        RowKind::prose, kInFull);
  }
  if (!report.python.empty()) section.parts.emplace_back(python_table(report));
  return section;
}

Cell reasons_of(const ReportEpisode& episode) {
  Cell reasons;
  for (std::size_t i = 0; i < std::min(episode.reasons.size(), kMostReasons); ++i) {
    const ReportEpisode::Reason& reason = episode.reasons[i];
    std::string text = " " + reason.feature;
    if (reason.observed && reason.expected) {
      text += fmt::format(": {}, otherwise {}", quantity_of(reason.metric, reason.observed, reason.unit),
                          quantity_of(reason.metric, reason.expected, reason.unit));
    }
    reasons.lines.push_back({{channel_name(reason.metric, reason.instance), true}, {text}});
  }
  if (!episode.detectors.empty()) reasons.fold = "by detector";
  for (const ReportEpisode::DetectorView& view : episode.detectors) {
    reasons.folded.push_back(prose(std::string(name_of(view.method)) + ":"));
    for (const ReportEpisode::Contribution& part : view.channels) {
      reasons.folded.push_back(
          {{channel_name(part.metric, part.instance), true}, {" " + one_decimal(100 * part.share) + " %"}});
    }
  }
  return reasons;
}

constexpr std::pair<Method, std::string_view> kDetectorMeanings[] = {
    {Method::interval_scan, "change of level over an interval"},
    {Method::error_counters, "error counter"},
    {Method::robust_z, "windows in which single channels deviate"},
    {Method::robust_mahalanobis, "windows at a large Mahalanobis distance"},
    {Method::robust_forest, "windows that an isolation forest separates"},
    {Method::neighbours, "windows without a near neighbour"},
    {Method::level_neighbours, "the same for levels"},
    {Method::layer_mixture, "windows that are unlikely in a Gaussian mixture per layer"},
    {Method::paper_z, "deviation of single channels, as in the paper"},
    {Method::paper_mahalanobis, "Mahalanobis distance, as in the paper"},
    {Method::paper_forest, "isolation forest, as in the paper"},
};

/// Explains the detectors of these intervals.
std::string detector_caption(const Report& report) {
  std::set<Method> used;
  bool shares = false;
  for (const ReportEpisode& episode : report.episodes) {
    used.insert(episode.methods.begin(), episode.methods.end());
    shares = shares || !episode.detectors.empty();
  }
  std::vector<std::string> meanings;
  for (const auto& [method, meaning] : kDetectorMeanings) {
    if (used.contains(method)) meanings.push_back(fmt::format("{}: {}", name_of(method), meaning));
  }
  std::string text = "Intervals that differed from the rest of this run.";
  if (!meanings.empty()) text += " " + listed(meanings, meanings.size(), "; ") + ".";
  if (shares) text += " By detector: the share of a channel in its score; a negative one lowers the score.";
  return text;
}

/// Single happenings; of a training's many steps only the first and the last one that are marked.
Section happened_section(const Report& report) {
  Section section{SectionId::happened, "What happened, in order", true};
  Table table{
      .label = "-", .columns = {{"Node"}, {"When"}, {"Kind", kWeb}, {"What"}}, .most = kAnyNumber, .shown = kInFull};
  const ReportMark* last = nullptr;
  for (const ReportMark& mark : report.marks) {
    if (mark.kind == ReportMark::Kind::training) last = &mark;
  }
  bool first = true;
  for (const ReportMark& mark : report.marks) {
    const bool training = mark.kind == ReportMark::Kind::training;
    if (training && !std::exchange(first, false) && &mark != last) continue;
    const double seconds = static_cast<double>(mark.span.begin_utc_ns - report.job.begin_utc_ns) / 1e9;
    const std::string at = report.job.begin_utc_ns == 0 ? "" : one_decimal(seconds) + " s ";
    table.rows.push_back({several_nodes(report) ? cell(mark.node, "", " ") : Cell{},
                          cell(fmt::format("{}({} UTC)", at, clock_time(mark.span.begin_utc_ns))),
                          cell(std::string(name_of(mark.kind))),
                          cell(training ? "training " + mark.text : mark.text, ": ")});
  }
  if (!table.rows.empty()) section.parts.emplace_back(std::move(table));
  return section;
}

Section episodes_section(const Report& report) {
  Section section{SectionId::episodes, "Anomalous intervals"};
  if (report.episodes.empty()) return section;
  if (!shows_intervals(report)) {  // below "healthy" they would only unsettle
    const auto count = static_cast<double>(report.episodes.size());
    section.heading = counted(count, "interval") + " that differed from the rest of this run";
    section.folded = true;
  }
  Table table{.label = "-",
              .caption = detector_caption(report),
              .columns = {{"Node"}, {"When"}, {"Subsystem"}, {"Detectors"}, {"Metric and feature", kWeb}, {"Claim"}},
              .most = kMostEpisodes,
              .fold = "Each interval",
              .shown = kInFull};
  for (const ReportEpisode& episode : report.episodes) {
    const Cell node = several_nodes(report) ? cell(episode.node, "", " ") : Cell{};
    Cell methods = cell(listed(names_of(episode.methods), 6, "+"), " [", "]");
    for (const Label label : episode.labels) methods.lines.push_back(prose(std::string(name_of(label))));
    table.rows.push_back({node, cell(when(episode.span, report.job)),
                          cell(std::string(name_of(episode.subsystem)), ", "), methods, reasons_of(episode),
                          cell(episode.claim, ": ")});
  }
  section.parts.emplace_back(std::move(table));
  return section;
}

/// Nodes that delivered alike are one row, whatever their number.
std::vector<NodeCoverage> alike(const std::vector<NodeCoverage>& all) {
  std::vector<NodeCoverage> groups;
  std::map<std::tuple<std::optional<double>, std::optional<double>, std::optional<double>, std::string_view>,
           std::size_t>
      index;
  for (const NodeCoverage& one : all) {
    const auto [known, added] = index.try_emplace(
        {one.samples_expected, one.samples_present, one.clock_error_seconds, one.note}, groups.size());
    if (added) {
      groups.push_back({one.nodes, one.samples_expected, one.samples_present, one.clock_error_seconds, {}, one.note});
    } else {
      auto& nodes = groups[known->second].nodes;
      nodes.insert(nodes.end(), one.nodes.begin(), one.nodes.end());
    }
  }
  return groups;
}

Table coverage_table(const Report& report) {
  Table table{.label = "coverage",
              .columns = {{"Nodes"}, {"Samples"}, {"Clock error", kWeb}, {"Note"}},
              .more = "node group",
              .most_on_page = 2,
              .most = kAnyNumber,
              .fold = "Each group of nodes"};
  for (const NodeCoverage& coverage : alike(report.coverage)) {
    const auto known = [](std::optional<double> count) { return count ? number(*count) : std::string("unknown"); };
    const std::string nodes = node_list(coverage.nodes);
    // The last sample is taken when the command has ended, between two ticks, so there may be one more than expected.
    const bool all = coverage.samples_expected.has_value() && coverage.samples_present > coverage.samples_expected;
    const std::string samples =
        known(all ? coverage.samples_expected : coverage.samples_present) + " of " + known(coverage.samples_expected);
    const bool all_unknown = !coverage.samples_present && !coverage.samples_expected;
    std::string_view note = coverage.note;
    if (note.starts_with(nodes + " ")) note.remove_prefix(nodes.size() + 1);  // "n04 has no trace: ..."
    table.rows.push_back(
        {cell(nodes), all_unknown ? Cell{} : cell(samples, ": ", " samples"),
         coverage.clock_error_seconds ? cell("up to " + quantity(*coverage.clock_error_seconds * 1e9, "ns")) : Cell{},
         cell(std::string(note), !all_unknown    ? "; "
                                 : nodes.empty() ? ""
                                                 : ": ")});
  }
  return table;
}

/// Words for probes that are read faster; of others, the name.
std::string faster_words(const std::string& probe) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"tcp_peers", "TCP by peer"}, {"process_numa", "NUMA maps"}, {"python", "Python frames"}};
  for (const auto& [name, words] : kWords) {
    if (name == probe) return std::string(words);
  }
  return probe;
}

/// "n01 for 4.0 s in 2 intervals from 10:32:07 to 10:32:19 UTC (380 additional readings): TCP by peer, Python frames"
std::string faster_line(const NodeFasterReading& faster) {
  std::vector<std::string> probes;
  probes.reserve(faster.probes.size());
  for (const std::string& probe : faster.probes) probes.push_back(faster_words(probe));
  return fmt::format("{} for {:.1f} s in {} from {} to {} UTC ({}): {}", faster.node, faster.seconds,
                     counted(faster.intervals, "interval"), clock_time(faster.from_first_to_last.begin_utc_ns),
                     clock_time(faster.from_first_to_last.end_utc_ns), counted(faster.readings, "additional reading"),
                     listed(probes));
}

/// The nodes with the longest time; the others by name.
std::vector<std::string> faster_lines(const Report& report) {
  constexpr std::size_t kMostFaster = 3;
  std::vector<const NodeFasterReading*> longest;
  for (const NodeFasterReading& one : report.faster) longest.push_back(&one);
  std::stable_sort(longest.begin(), longest.end(),
                   [](const auto* one, const auto* other) { return one->seconds > other->seconds; });
  std::vector<std::string> lines, more;
  for (const NodeFasterReading* one : longest) {
    if (lines.size() < kMostFaster) {
      lines.push_back(faster_line(*one));
    } else {
      more.push_back(one->node);
    }
  }
  if (!more.empty()) {
    lines.push_back(counted(static_cast<double>(more.size()), "more node") + ": " + node_list(more));
  }
  return lines;
}

std::string own_cost(const Report& report) {
  // The highest of all nodes: the average delays no job.
  const auto most = std::max_element(report.overhead.begin(), report.overhead.end(), [](const auto& a, const auto& b) {
    return a.cpu_percent_of_core.value_or(-1) < b.cpu_percent_of_core.value_or(-1);
  });
  if (most == report.overhead.end()) return "";
  std::string cost = most->cpu_percent_of_core
                         ? fmt::format("reveal used {} % of one core", number(*most->cpu_percent_of_core))
                         : "the cpu time of reveal was not measured";
  if (most->bytes_per_second) cost += fmt::format(", wrote {}", quantity(most->bytes_per_second, "bytes/s"));
  if (most->late_ticks.value_or(0) > 0) cost += ", " + counted(*most->late_ticks, "late sample");
  if (!most->reason.empty()) cost += " (" + most->reason + ")";
  if (report.overhead.size() > 1) cost += fmt::format(" (most: {})", most->node);
  return cost;
}

Section measured_section(const Report& report) {
  Section section{SectionId::measured, "Coverage and cost of the measurement"};
  auto& parts = section.parts;
  if (report.coverage.empty()) {
    add(parts, "coverage", "nothing was measured");
  } else {
    parts.emplace_back(coverage_table(report));
  }
  add(parts, "not measured", lines_of(gaps(report)), RowKind::list, kInFull);
  add(parts, "muted", lines_of(muted_lines(report)), RowKind::list);
  add(parts, "feedback", lines_of(feedback_lines(report)), RowKind::list);
  // Without a finding it says what "no problem" covers.
  if (shown_findings(report).empty()) add(parts, "checked", checked_line(report), RowKind::prose, kPage);
  add(parts, "read faster", lines_of(faster_lines(report)), RowKind::list, kInFull);
  add(parts, "own cost", own_cost(report));
  add(parts, "privileges",
      fmt::format("{} privileges{}", report.privileged ? "with" : "without",
                  report.shared_node ? ", on a shared node" : ""),
      RowKind::prose, kWeb);
  return section;
}

Section cost_section(const Report& report) {
  const std::size_t nodes = report.overhead.size();
  Section section{SectionId::cost, fmt::format("reveal's own cost on {}", counted(static_cast<double>(nodes), "node")),
                  true};
  Table table{.columns = {{"Node"}, {"CPU, of one core"}, {"Written"}, {"Late samples"}, {"Channels"}},
              .most = kAnyNumber,
              .shown = kWeb};
  for (const NodeOverhead& one : report.overhead) {
    const std::string reason = one.reason.empty() ? "" : " (" + one.reason + ")";
    table.rows.push_back({cell(one.node + reason), cell(quantity(one.cpu_percent_of_core, "percent")),
                          cell(quantity(one.bytes_per_second, "bytes/s")), cell(quantity(one.late_ticks, "count")),
                          cell(quantity(one.channels, "count"))});
  }
  if (nodes > 0) section.parts.emplace_back(std::move(table));
  return section;
}

Section not_checked_section(const Report& report) {
  std::set<std::string_view> rules;
  for (const NotChecked& one : report.not_checked) rules.insert(one.rule);
  Section section{SectionId::not_checked, counted(static_cast<double>(rules.size()), "rule") + " not checked", true};
  Table table{.label = "-", .columns = {{"Rules"}, {"Why not"}}, .most = kAnyNumber, .shown = kInFull};
  for (const NotChecked& group : by_reason(report.not_checked)) {
    table.rows.push_back({Cell{{code(group.rule)}}, cell(group.reason, ": ")});
  }
  if (!table.rows.empty()) section.parts.emplace_back(std::move(table));
  return section;
}

}  // namespace

bool names_place(const Finding& finding, std::string_view text) {
  const auto has = [text](const std::string& part) { return text.find(part) != std::string_view::npos; };
  return has(node_list(finding.nodes)) && (finding.instances.empty() || has(listed(finding.instances)));
}

std::vector<Section> outline(const Report& report) {
  std::vector<Section> sections{job_section(report)};
  const auto add_totals = [&] {
    for (auto* make : {totals_section, sources_section}) sections.push_back(make(report));
  };
  const bool found = !shown_findings(report).empty();
  if (!found) add_totals();
  add_findings(report, sections);
  sections.push_back(compared_section(report));
  if (found) add_totals();  // above a finding they would push its remedy off the first screen
  for (auto* make : {each_node_section, locality_section, happened_section, episodes_section, measured_section,
                     cost_section, not_checked_section}) {
    sections.push_back(make(report));
  }
  return sections;
}

std::string text_of(const Line& line) {
  std::string text;
  for (const Span& span : line) text += span.text;
  return text;
}

bool is_typed(const Line& line) {
  return !line.empty() && line.front().code;
}

std::vector<std::string> marks_of(const Row& row) {
  std::vector<StepKind> kinds = row.kinds;
  kinds.resize(row.lines.size(), StepKind::next);
  return step_marks(kinds, row.kind == RowKind::steps ? StepOrder::numbered : StepOrder::none);
}

bool is_alternative(const Row& row, std::size_t line) {
  return line > 0 && line < row.kinds.size() && row.kinds[line] == StepKind::alternative;
}

const Row* first_step(const Card& card) {
  for (const Part& part : card.parts) {
    const Row* row = std::get_if<Row>(&part);
    if (row != nullptr && (row->kind == RowKind::steps || row->kind == RowKind::command)) return row;
  }
  return nullptr;
}

std::string joined(const std::vector<Line>& lines, std::string_view separator) {
  std::string text;
  for (const Line& line : lines) text += (text.empty() ? "" : std::string(separator)) + text_of(line);
  return text;
}

std::string row_as_sentence(const Table& table, const std::vector<Cell>& cells, unsigned shown) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string inside = joined(cells[i].lines, " ");
    if ((table.columns[i].shown & shown) != 0 && !inside.empty()) text += cells[i].before + inside + cells[i].after;
  }
  return text;
}

bool repeats(const Verdict& verdict, std::string_view sentence) {
  if (sentence.ends_with('.')) sentence.remove_suffix(1);
  return verdict.sentence.find(sentence) != std::string::npos;
}

}  // namespace reveal
