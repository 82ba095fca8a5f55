// report.html: one file that opens from a mail attachment, without network and, except for the charts, without scripts.
// Its Content-Security-Policy forbids the browser to fetch anything, whatever a job is called.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "postproc/report/assets.h"
#include "postproc/report/report.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kMostNotes = 3;  // the rest is folded away
constexpr std::size_t kMostFindings = 20;
constexpr std::size_t kMostTotals = 41;  // nodes, and the whole job
constexpr std::size_t kMostListedEpisodes = 100;
constexpr std::size_t kMostReasons = 3;
constexpr std::size_t kLongLine = 2000;

constexpr Subsystem kSubsystems[] = {Subsystem::cpu,     Subsystem::gpu,     Subsystem::memory,
                                     Subsystem::network, Subsystem::storage, Subsystem::process};

// The licence asks for it in every copy, and a report is one.
constexpr std::string_view kLibraryLicence =
    "dygraphs 2, Copyright (c) 2006-2017 Dan Vanderkam and contributors. Permission is hereby granted, free of charge, "
    "to any person obtaining a copy of this software and associated documentation files (the \"Software\"), to deal in "
    "the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, "
    "distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is "
    "furnished to do so, subject to the following conditions: The above copyright notice and this permission notice "
    "shall be included in all copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED \"AS IS\", "
    "WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, "
    "FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE "
    "LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING "
    "FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.";

bool several_nodes(const Report& report) {
  return report.job.nodes.size() > 1;
}

std::string row(std::string_view term, const std::string& description) {
  return description.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, description);
}

std::string bullets(const std::vector<std::string>& lines) {
  std::string list;
  for (const std::string& line : lines) list += "<li>" + html(line) + "</li>";
  return list.empty() ? "" : "<ul>" + list + "</ul>";
}

std::string cell(std::string_view label, const std::string& content, std::string_view css = {}) {
  const std::string style = css.empty() ? "" : fmt::format(" class=\"{}\"", css);
  return fmt::format("<td data-label=\"{}\"{}>{}</td>", label, style, content);
}

std::string head_row(std::initializer_list<std::string_view> columns) {
  std::string cells;
  for (const std::string_view column : columns) cells += fmt::format("<th scope=\"col\">{}</th>", column);
  return "<thead><tr>" + cells + "</tr></thead>\n";
}

std::string verdict_section(const Report& report) {
  const Verdict& verdict = report.verdict;
  const bool failed = verdict.job_failed && verdict.status == VerdictStatus::healthy;
  std::string sentence = html(verdict.sentence, 300);
  if (!shown_findings(report).empty()) sentence = "<a href=\"#finding-1\">" + sentence + "</a>";
  std::string section = fmt::format("<section class=\"verdict {}\"><div class=\"word\">{}</div><h1>{}</h1>\n",
                                    failed ? "failed" : name_of(verdict.status), headline(verdict), sentence);
  return section + "</section>\n";
}

std::string job_section(const Report& report) {
  const ReportJob& job = report.job;
  std::vector<std::string> parts = {"<b>" + html(job_title(job), 180) + "</b>"};
  if (!job.user.empty()) parts.push_back("user " + html(job.user, 60));
  if (!job.cluster.empty()) parts.push_back("cluster " + html(job.cluster, 60));
  if (!job.nodes.empty()) parts.push_back((several_nodes(report) ? "nodes " : "node ") + html(node_list(job.nodes)));
  if (!job.state.empty()) parts.push_back(html(job.state, 60));
  if (job.exit_code) parts.push_back(fmt::format("exit status {}", *job.exit_code));
  if (job.begin_utc_ns != 0) parts.push_back("began " + date_and_time(job.begin_utc_ns));
  if (const std::string ran = run_time(job); !ran.empty()) parts.push_back(ran);
  parts.push_back(fmt::format("measured {} privileges{}", report.privileged ? "with" : "without",
                              report.shared_node ? " on a shared node" : ""));
  std::string line = listed(parts, parts.size(), " &middot; ");
  if (!report.directory.empty()) line += "<br>in <code>" + html(report.directory, 200) + "</code>";
  if (!job.command.empty() && job.command != job_title(job))
    line += "<br>command <code>" + html(job.command, 300) + "</code>";
  for (const auto& [key, value] : job.tags) {
    line += fmt::format("<br>tag <code>{}={}</code>", html(key, 60), html(value, 120));
  }
  return "<p class=\"job\">" + line + "</p>\n";
}

std::string totals_section(const Report& report) {
  if (report.totals.empty()) return "";
  const bool one = report.totals.size() == 2;  // the whole job is that node
  std::string table =
      "<section><h2>What the job used</h2>\n<div class=\"scroll\"><table class=\"stack\">" +
      head_row({"Node", "CPUs used", "Memory, at most", "Read", "Written", "Waited for a CPU", "Network", "Energy"}) +
      "<tbody>\n";
  const std::size_t end = one ? 1 : std::min(report.totals.size(), kMostTotals);
  for (std::size_t i = 0; i < end; ++i) {
    const JobTotals& row = report.totals[i];
    const std::string& node = one ? report.totals[1].node : row.node;
    table += "<tr>" + cell("Node", node.empty() ? counted(row.nodes, "node") : html(node, 60)) +
             cell("CPUs used", html(cpus_used(row))) + cell("Memory, at most", html(memory_used(row))) +
             cell("Read", html(amount(row.read_bytes))) + cell("Written", html(amount(row.written_bytes))) +
             cell("Waited for a CPU", html(waited(row))) + cell("Network", html(amount(row.network_bytes))) +
             cell("Energy", html(quantity(row.energy_joules, "J"))) + "</tr>\n";
  }
  table += "</tbody></table></div>\n";
  if (end < report.totals.size() && !one) {
    table += fmt::format("<p class=\"quiet\">{} more nodes are in report.json.</p>\n", report.totals.size() - end);
  }
  std::string notes;
  for (const auto& [key, member] : kTotalsNumbers) {
    const auto note = report.totals.front().notes.find(key);
    if (note == report.totals.front().notes.end()) continue;
    std::string word(key);
    std::replace(word.begin(), word.end(), '_', ' ');
    notes += fmt::format("<li>{}: {}{}</li>", word, (report.totals.front().*member) ? "" : "not known, ",
                         html(note->second, kLongLine));
  }
  if (!notes.empty()) {
    table +=
        "<details><summary>Where these numbers come from</summary><ul class=\"small\">" + notes + "</ul></details>\n";
  }
  return table + "</section>\n";
}

std::string evidence_table(const Finding& finding, const Report& report) {
  std::string table = "<div class=\"scroll\"><table class=\"stack\"><caption>Evidence</caption>" +
                      head_row({"Channel", "Feature", "Observed", "Expected", "When", "Found by"}) + "<tbody>\n";
  for (const Evidence& one : finding.evidence) {
    std::string channel = "<code>" + html(channel_name(one.metric, one.instance), 120) + "</code>";
    if (several_nodes(report) && !one.node.empty()) channel += " on " + html(one.node, 60);
    const std::string expected = one.expected ? html(quantity_of(one.metric, one.expected, one.unit)) : "not known";
    const bool timed = one.span.begin_utc_ns != 0;
    const std::string time =
        timed ? clock_time(one.span.begin_utc_ns) + " to " + clock_time(one.span.end_utc_ns) : "whole job";
    const std::string by = one.detectors.empty() ? "rule" : html(listed(one.detectors));
    table += "<tr>" + cell("Channel", channel) + cell("Feature", html(one.feature, 80)) +
             cell("Observed", html(quantity_of(one.metric, one.observed, one.unit))) + cell("Expected", expected) +
             cell("When", time) + cell("Found by", by) + "</tr>\n";
  }
  return table + "</tbody></table></div>\n";
}

std::string source_links(const Finding& finding) {
  std::string links;
  for (const std::string& source : finding.sources) {
    const bool web = source.starts_with("https://") || source.starts_with("http://");
    const std::string shown = html(source, 300);
    if (!links.empty()) links += "<br>";
    links += web ? fmt::format("<a rel=\"noopener noreferrer\" href=\"{}\">{}</a>", shown, shown) : shown;
  }
  return links;
}

/// `number`: 0 for what is not numbered.
std::string finding_card(const Finding& finding, std::size_t number, const Report& report) {
  std::string card = number == 0 ? "<article class=\"card\"><header><h3>"
                                 : fmt::format("<article class=\"card\" id=\"finding-{0}\"><header><h3>{0}. ", number);
  card += html(finding.title, 200) + "</h3>";
  card += fmt::format("<span class=\"level {0}\">{0}, {1}</span></header>\n", name_of(finding.severity),
                      name_of(finding.confidence));
  if (!finding.sentence.empty()) card += "<p>" + html(finding.sentence, kLongLine) + "</p>\n";

  std::string where = html(node_list(finding.nodes));
  if (!finding.instances.empty()) where += (where.empty() ? "" : ": ") + html(listed(finding.instances));
  std::string times;
  for (const TimeSpan& span : finding.intervals) times += (times.empty() ? "" : "<br>") + when(span, report.job);
  std::string commands;
  for (const std::string& line : finding.remedy.user) {
    commands += (commands.empty() ? "" : "\n") + html(line, kLongLine);
  }
  std::string rejected;
  if (!finding.runner_up.why_not.empty()) {
    if (!finding.runner_up.id.empty()) rejected = "<code>" + html(finding.runner_up.id, 80) + "</code>: ";
    rejected += html(finding.runner_up.why_not);
  }

  card += "<dl>\n";
  card += row("Where", where);
  card += row("When", times);
  card += row("Cost", html(impact(finding.impact)));
  card += row("Fixed by", html(who_acts(finding.remedy)));
  if (!commands.empty()) card += row("Run this", "<pre><code>" + commands + "</code></pre>");
  card += row("To change", bullets(finding.remedy.advice));
  // Not in a command block: a user must not take it for something to run.
  card += row("For the administrators", bullets(finding.remedy.admin));
  card += row("Verify", html(finding.remedy.verify));
  card += row("Look-alike", rejected);
  card += row("Sources", source_links(finding));
  card += row("Rule", fmt::format("<code>{}</code> <span class=\"quiet\">({}, {})</span>", html(finding.id, 80),
                                  name_of(finding.kind), name_of(finding.subsystem)));
  card += "</dl>\n";
  if (!finding.evidence.empty()) card += evidence_table(finding, report);
  return card + "</article>\n";
}

std::string primary_section(const Report& report) {
  const std::vector<const Finding*> shown = shown_findings(report);
  if (shown.empty()) return "";
  return "<section><h2>Finding</h2>\n" + finding_card(*shown.front(), 1, report) + "</section>\n";
}

std::string notes_section(const Report& report) {
  const std::vector<const Finding*> shown = shown_findings(report);
  if (shown.size() < 2) return "";
  std::string section = "<section><h2>Also noted</h2>\n";
  const std::size_t end = std::min(shown.size(), kMostFindings);
  const std::size_t open_end = std::min(end, kMostNotes + 1);
  for (std::size_t i = 1; i < open_end; ++i) section += finding_card(*shown[i], i + 1, report);
  if (open_end < end) {
    section += fmt::format("<details><summary>{} more</summary>\n", end - open_end);
    for (std::size_t i = open_end; i < end; ++i) section += finding_card(*shown[i], i + 1, report);
    section += "</details>\n";
  }
  if (shown.size() > end) {
    section += fmt::format("<p class=\"quiet\">{} more are in report.json.</p>\n", shown.size() - end);
  }
  return section + "</section>\n";
}

/// What nobody has to read, folded away.
std::string left_out_section(const Report& report) {
  const std::string line = left_out_line(report);
  if (line.empty()) return "";
  std::string cards;
  std::size_t count = 0;
  for (const Finding& finding : report.findings) {
    if (finding.severity >= Severity::notice || ++count > kMostFindings) continue;
    cards += finding_card(finding, 0, report);
  }
  return "<section><details><summary>" + line + "</summary>\n" + cards + "</details></section>\n";
}

/// Node by subsystem, only the nodes with something to show: on 40 nodes the one that differs must not drown. A cell
/// holds the worst interval and, over the whole job, how many channels the peers do not share.
std::string node_section(const Report& report) {
  if (!several_nodes(report) || (report.episodes.empty() && report.comparison.cells.empty())) return "";
  std::map<std::string, std::map<Subsystem, Tier>> marks;
  for (const ReportEpisode& episode : report.episodes) {
    if (std::find(episode.labels.begin(), episode.labels.end(), "COMMON") != episode.labels.end()) continue;
    Tier& mark = marks[episode.node][episode.subsystem];
    mark = std::max(mark, episode.tier);
  }
  std::map<std::pair<std::string, Subsystem>, const PeerCell*> cells;
  for (const PeerCell& cell : report.comparison.cells) {
    cells[{cell.node, cell.subsystem}] = &cell;
    marks.try_emplace(cell.node);
  }
  std::string table = "<section><h2>Nodes and subsystems</h2>\n<div class=\"scroll\"><table>";
  table += "<thead><tr><th scope=\"col\">Node</th>";
  for (const Subsystem subsystem : kSubsystems) table += fmt::format("<th scope=\"col\">{}</th>", name_of(subsystem));
  table += "</tr></thead><tbody>\n";
  for (const auto& [node, by_subsystem] : marks) {
    table += "<tr><th scope=\"row\">" + html(node, 60) + "</th>";
    for (const Subsystem subsystem : kSubsystems) {
      const auto at = by_subsystem.find(subsystem);
      std::string mark(at == by_subsystem.end() || at->second == Tier::none ? "" : name_of(at->second));
      std::string css = mark.empty() ? "quiet" : "mark-" + mark;
      if (const auto cell_at = cells.find({node, subsystem}); cell_at != cells.end()) {
        const PeerCell& odd = *cell_at->second;
        mark += fmt::format("{}{} unlike its peers, up to {:+.0f} %", mark.empty() ? "" : "; ",
                            counted(static_cast<double>(odd.channels), "channel"), odd.percent);
        if (css == "quiet") css = "mark-notice";
      }
      table += fmt::format("<td class=\"{}\">{}</td>", css, mark.empty() ? "-" : mark);
    }
    table += "</tr>\n";
  }
  table += "</tbody></table></div>\n";
  std::set<std::string> measured;
  for (const NodeCoverage& coverage : report.coverage) {
    if (coverage.samples_present.value_or(0) > 0) measured.insert(coverage.nodes.begin(), coverage.nodes.end());
  }
  std::vector<std::string> quiet;
  std::vector<std::string> silent;
  for (const std::string& node : report.job.nodes) {
    if (marks.count(node) == 0) (measured.count(node) == 0 ? silent : quiet).push_back(node);
  }
  if (!quiet.empty()) table += "<p class=\"quiet\">Nothing of their own on " + html(node_list(quiet)) + ".</p>\n";
  if (!silent.empty()) table += "<p>No data from " + html(node_list(silent)) + ".</p>\n";
  return table + "</section>\n";
}

std::string deviations_table(const PeerComparison& comparison) {
  if (comparison.deviations.empty()) return "";
  constexpr std::size_t kMostRows = 40;
  std::string table =
      "<div class=\"scroll\"><table class=\"stack\"><caption>Over the whole job unlike the other nodes of "
      "the same role</caption>" +
      head_row({"Node", "Channel", "This node", "Its peers", "Difference", "t"}) + "<tbody>\n";
  for (std::size_t i = 0; i < std::min(comparison.deviations.size(), kMostRows); ++i) {
    const PeerDeviation& one = comparison.deviations[i];
    table +=
        "<tr>" + cell("Node", html(one.node, 60)) + cell("Channel", "<code>" + html(one.channel, 120) + "</code>") +
        cell("This node", html(quantity(one.observed, one.unit))) +
        cell("Its peers", html(quantity(one.expected, one.unit))) +
        cell("Difference", fmt::format("{:+.0f} %", one.percent)) + cell("t", fmt::format("{:.1f}", one.t)) + "</tr>\n";
  }
  table += "</tbody></table></div>\n";
  const std::size_t more =
      comparison.deviations.size() + comparison.deviations_left_out - std::min(comparison.deviations.size(), kMostRows);
  if (more > 0) table += fmt::format("<p class=\"quiet\">{} more; see report.json.</p>\n", more);
  return table;
}

std::string changes_table(const HistoryComparison& history) {
  if (history.changes.empty()) return "";
  std::string table = "<div class=\"scroll\"><table class=\"stack\"><caption>New in this run</caption>" +
                      head_row({"What", "This run", "Earlier runs", "Difference", "Unlike since"}) + "<tbody>\n";
  for (const HistoryChange& one : history.changes) {
    const bool fact = one.what == HistoryChange::What::configuration;
    const auto set = [](const std::string& value) { return value.empty() ? std::string("not set") : html(value, 120); };
    table += "<tr>" + cell("What", "<code>" + html(one.name, 120) + "</code>") +
             cell("This run", fact ? set(one.now) : html(quantity(one.observed, one.unit))) +
             cell("Earlier runs", fact ? set(one.before) : html(quantity(one.expected, one.unit))) +
             cell("Difference", fact ? "" : fmt::format("{:+.0f} %{}", one.percent, one.drift ? ", slowly" : "")) +
             cell("Unlike since", one.since_utc_ns == 0 ? "" : date_and_time(one.since_utc_ns)) + "</tr>\n";
  }
  return table + "</tbody></table></div>\n";
}

std::string comparison_section(const Report& report) {
  const bool several = several_nodes(report);
  std::string section = "<section><h2>Compared with</h2>\n<dl>\n";
  if (several) {
    section += row("Other nodes", html(peers_line(report), kLongLine));
    for (const PeerGroup& role : report.comparison.roles) {
      if (!role.reason.empty()) section += row(html(node_list(role.nodes)), html(role.reason, kLongLine));
    }
    for (const FactDifference& fact : report.comparison.facts) {
      section +=
          row("Configuration", fmt::format("<code>{}</code> is {} on {}, elsewhere {}", html(fact.key, 80),
                                           html(fact.value, 120), html(node_list(fact.nodes)), html(fact.usual, 120)));
    }
    const Straggler& straggler = report.comparison.straggler;
    section += row("Straggler", straggler.node.empty() ? html(straggler.reason, kLongLine) : html(straggler.node, 60));
  }
  section += row("Earlier runs", html(history_line(report), kLongLine));
  if (!report.history.why_not.empty()) {
    section += row("Baseline", "this run is not used as one: " + html(report.history.why_not, 200));
  }
  return section + "</dl>\n" + deviations_table(report.comparison) + changes_table(report.history) + "</section>\n";
}

std::string reasons_of(const ReportEpisode& episode) {
  std::string text;
  for (std::size_t i = 0; i < std::min(episode.reasons.size(), kMostReasons); ++i) {
    const ReportEpisode::Reason& reason = episode.reasons[i];
    if (i > 0) text += "<br>";
    text += fmt::format("<code>{}</code> {}", html(channel_name(reason.metric, reason.instance), 120),
                        html(reason.feature, 80));
    if (reason.observed && reason.expected) {
      text += html(fmt::format(": {}, otherwise {}", quantity_of(reason.metric, reason.observed, reason.unit),
                               quantity_of(reason.metric, reason.expected, reason.unit)));
    }
  }
  return text;
}

/// Behind a disclosure: for those who ask why the detectors say so.
std::string detector_views(const ReportEpisode& episode) {
  if (episode.detectors.empty()) return "";
  std::string text = "<details><summary>by detector</summary>";
  for (const ReportEpisode::DetectorView& view : episode.detectors) {
    text += html(view.method, 20) + ":";
    for (const ReportEpisode::Contribution& part : view.channels) {
      text += fmt::format("<br><code>{}</code> {:.1f} %", html(channel_name(part.metric, part.instance), 120),
                          100 * part.share);
    }
    text += "<br>";
  }
  return text + "</details>";
}

std::string episodes_section(const Report& report) {
  if (report.episodes.empty()) return "";
  // Below "healthy" they would only unsettle.
  const bool folded = !shows_intervals(report);
  std::string section = folded ? "<section><details><summary>" +
                                     counted(static_cast<double>(report.episodes.size()), "anomalous interval") +
                                     "</summary>\n"
                               : "<section><h2>Anomalous intervals</h2>\n";
  section += "<div class=\"scroll\"><table class=\"stack\">";
  section +=
      "<caption>Where this run differed from the rest of itself. Z: deviation of single channels, MAHA: "
      "Mahalanobis distance, IF: isolation forest, KNN: nearest neighbours, GAP: change of level over an "
      "interval. By detector: a channel's share of what it says, negative where it speaks against it.</caption>";
  section += head_row({"When", "Subsystem", "Metric and feature", "Claim", "Detectors"}) + "<tbody>\n";
  for (std::size_t i = 0; i < std::min(report.episodes.size(), kMostListedEpisodes); ++i) {
    const ReportEpisode& episode = report.episodes[i];
    std::string time = several_nodes(report) ? html(episode.node, 60) + "<br>" : "";
    time += when(episode.span, report.job);
    std::string methods = html(listed(episode.methods));
    for (const std::string& label : episode.labels)
      methods += "<br><span class=\"quiet\">" + html(label, 40) + "</span>";
    section += "<tr>" + cell("When", time) + cell("Subsystem", std::string(name_of(episode.subsystem))) +
               cell("Metric and feature", reasons_of(episode) + detector_views(episode)) +
               cell("Claim", html(episode.claim)) + cell("Detectors", methods) + "</tr>\n";
  }
  section += "</tbody></table></div>\n";
  if (report.episodes.size() > kMostListedEpisodes) {
    section += fmt::format("<p class=\"quiet\">{} more are in report.json.</p>\n",
                           report.episodes.size() - kMostListedEpisodes);
  }
  return section + (folded ? "</details></section>\n" : "</section>\n");
}

/// Charts need no more digits than pixels.
nlohmann::json coarse(double value) {
  if (!std::isfinite(value)) return nullptr;
  const std::string digits = fmt::format("{:.4g}", value);
  double rounded = value;
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  if (std::trunc(rounded) == rounded && std::abs(rounded) < 1e15) return static_cast<std::int64_t>(rounded);
  return rounded;
}

/// An interval of a numbered finding.
struct Band {
  TimeSpan span;
  std::size_t number = 0;
  std::string_view kind;
};

/// Shading (nearly) all of the job would hide what happened within.
std::vector<Band> bands(const Report& report) {
  constexpr double kMostOfRun = 0.9;
  const ReportJob& job = report.job;
  if (job.begin_utc_ns == 0) return {};
  const auto run = static_cast<double>(job.end_utc_ns - job.begin_utc_ns);
  std::vector<Band> all;
  std::size_t number = 0;
  for (const Finding* finding : shown_findings(report)) {
    ++number;
    if (finding->kind == FindingKind::peer || finding->kind == FindingKind::history) continue;
    for (const TimeSpan& span : finding->intervals) {
      const auto length = static_cast<double>(span.end_utc_ns - span.begin_utc_ns);
      if (span.begin_utc_ns == 0 || length > kMostOfRun * run) continue;
      all.push_back({span, number, finding->severity >= Severity::warning ? "finding" : "notice"});
    }
  }
  return all;
}

nlohmann::json timeline_data(const Report& report) {
  using Json = nlohmann::json;
  const std::int64_t begin = report.job.begin_utc_ns;
  Json data = {{"begin_utc_ms", begin == 0 ? Json(nullptr) : Json(begin / 1'000'000)},
               {"several_nodes", several_nodes(report)},
               {"channels", Json::array()},
               {"intervals", Json::array()}};
  double first = 0;
  double last = 0;
  for (const TimelineChannel& channel : report.timeline) {
    if (channel.values.empty()) continue;
    double largest = 0;
    for (const double value : channel.values) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    const Scale scale = scale_for(largest, channel.unit);
    Json values = Json::array();
    for (const double value : channel.values) values.push_back(coarse(value * scale.factor));
    first = std::min(first, channel.begin_seconds);
    last = std::max(last, channel.begin_seconds + channel.step_seconds * static_cast<double>(channel.values.size()));
    data["channels"].push_back({{"node", printable(channel.node, 60)},
                                {"name", printable(channel.name, 120)},
                                {"unit", printable(scale.unit, 30)},
                                {"begin", channel.begin_seconds},
                                {"step", channel.step_seconds},
                                {"values", std::move(values)}});
  }
  data["window"] = {first, last};
  for (const Band& band : bands(report)) {
    data["intervals"].push_back({{"begin", static_cast<double>(band.span.begin_utc_ns - begin) / 1e9},
                                 {"end", static_cast<double>(band.span.end_utc_ns - begin) / 1e9},
                                 {"kind", band.kind},
                                 {"label", std::to_string(band.number)}});
  }
  return data;
}

/// JSON inside a <script> element: "</script>" or "<!--" in a name must not end or open anything.
std::string inline_json(const nlohmann::json& json) {
  std::string escaped;
  for (const char c : json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&') {
      escaped += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string timeline_section(const Report& report) {
  if (report.timeline.empty()) return "";
  std::string legend;
  std::size_t last = 0;
  const std::vector<const Finding*> shown = shown_findings(report);
  for (const Band& band : bands(report)) {
    if (band.number == last || band.number > kMostNotes + 1) continue;
    last = band.number;
    legend +=
        fmt::format("{}<span class=\"key {}\"></span><a href=\"#finding-{}\">{}. {}</a>", legend.empty() ? "" : " ",
                    band.kind, band.number, band.number, html(shown[band.number - 1]->title, 80));
  }
  return "<section><h2>Timeline</h2>\n<p id=\"timeline-legend\" class=\"quiet small\" hidden>Seconds since the job "
         "began. " +
         legend +
         "</p>\n<p id=\"timeline-help\" class=\"quiet small\" hidden>Drag to zoom all charts, double-click for the "
         "whole "
         "job.</p>\n"
         "<noscript><p>The charts need JavaScript, which is blocked here. Everything they support is written above and "
         "below; the numbers are in report.json.</p></noscript>\n"
         "<div id=\"timeline-controls\" class=\"controls\"></div>\n<div id=\"charts\"></div>\n</section>\n";
}

std::string coverage_section(const Report& report) {
  std::string section = "<section><h2>Measured, and what it cost</h2>\n";
  if (report.coverage.empty()) {
    section += "<p>Nothing was measured.</p>\n";
  } else {
    section += "<div class=\"scroll\"><table class=\"stack\">" + head_row({"Nodes", "Samples", "Clock error", "Note"}) +
               "<tbody>\n";
    for (const NodeCoverage& coverage : report.coverage) {
      const auto known = [](std::optional<double> count) { return count ? number(*count) : std::string("unknown"); };
      const std::string samples = known(coverage.samples_present) + " of " + known(coverage.samples_expected);
      const std::string clock =
          coverage.clock_error_seconds ? "up to " + quantity(*coverage.clock_error_seconds * 1e9, "ns") : "not known";
      section += "<tr>" + cell("Nodes", html(node_list(coverage.nodes))) + cell("Samples", samples) +
                 cell("Clock error", clock) + cell("Note", coverage.note.empty() ? "-" : html(coverage.note)) +
                 "</tr>\n";
    }
    section += "</tbody></table></div>\n";
    const std::string missing = bullets(gaps(report));
    if (!missing.empty())
      section += "<p class=\"quiet small\">Not measured</p>\n<div class=\"small\">" + missing + "</div>\n";
  }
  if (report.overhead.empty()) return section + "</section>\n";

  std::string table = "<div class=\"scroll\"><table class=\"stack\"><caption>reveal's own cost</caption>" +
                      head_row({"Node", "CPU, of one core", "Written", "Late samples", "Channels"}) + "<tbody>\n";
  for (const NodeOverhead& one : report.overhead) {
    std::string node = html(one.node, 60);
    if (!one.reason.empty()) node += " <span class=\"quiet\">(" + html(one.reason) + ")</span>";
    table += "<tr>" + cell("Node", node) + cell("CPU, of one core", quantity(one.cpu_percent_of_core, "percent")) +
             cell("Written", quantity(one.bytes_per_second, "bytes/s")) +
             cell("Late samples", quantity(one.late_ticks, "count")) +
             cell("Channels", quantity(one.channels, "count")) + "</tr>\n";
  }
  table += "</tbody></table></div>\n";
  if (report.overhead.size() > 4) {
    table = fmt::format("<details><summary>reveal's own cost on {} nodes</summary>\n{}</details>\n",
                        report.overhead.size(), table);
  }
  return section + table + "</section>\n";
}

std::string not_checked_section(const Report& report) {
  if (report.not_checked.empty()) return "";
  std::string section = "<section><h2>Not checked</h2>\n<ul class=\"small\">\n";
  for (const NotChecked& group : by_reason(report.not_checked)) {
    section += "<li><code>" + html(group.rule, kLongLine) + "</code>: " + html(group.reason) + "</li>\n";
  }
  return section + "</ul></section>\n";
}

std::string footer(const Report& report) {
  std::vector<std::string> parts = {"reveal " + html(report.tool_version, 40)};
  if (!report.report_id.empty()) parts.push_back("report " + html(report.report_id, 80));
  if (report.created_utc_ns != 0) parts.push_back("made " + date_and_time(report.created_utc_ns));
  if (!report.supersedes.empty()) parts.push_back("replaces " + html(report.supersedes, 80));
  for (const auto& [what, count] : report.omitted) {
    parts.push_back(fmt::format("left out: {} {}", number(count), html(what, 60)));
  }
  for (const auto& [what, path] : report.files) {
    parts.push_back(fmt::format("{}: <code>{}</code>", html(what, 60), html(path, 200)));
  }
  return "<footer>" + listed(parts, parts.size(), " &middot; ") + "</footer>\n";
}

std::string scripts(const Report& report) {
  if (report.timeline.empty()) return "";
  // The map lies beside the file in the package, not beside the report.
  std::string_view library = assets::dygraphs_js();
  library = library.substr(0, library.rfind("\n//# sourceMappingURL"));
  return fmt::format(
      "<script type=\"application/json\" id=\"timeline-data\">{}</script>\n<!-- {} -->\n<script>{}</script>\n"
      "<script>{}</script>\n",
      inline_json(timeline_data(report)), kLibraryLicence, library, assets::report_js());
}

}  // namespace

std::string render_html(const Report& report) {
  std::string_view chart_style = assets::dygraphs_css();
  chart_style = chart_style.substr(0, chart_style.rfind("\n/*# sourceMappingURL"));
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>reveal: {} - {}</title>\n"
      "<style>{}\n{}</style>\n</head>\n<body>\n<main>\n",
      html(job_title(report.job), 180), headline(report.verdict), chart_style, assets::report_css());
  page += verdict_section(report);
  page += job_section(report);
  page += totals_section(report);
  page += primary_section(report);
  page += timeline_section(report);
  page += notes_section(report);
  page += left_out_section(report);
  page += node_section(report);
  page += comparison_section(report);
  page += episodes_section(report);
  page += coverage_section(report);
  page += not_checked_section(report);
  page += footer(report);
  page += "</main>\n" + scripts(report) + "</body>\n</html>\n";
  return page;
}

}  // namespace reveal
