// report.html: one file that opens from a mail attachment, without network and, except for the charts, without scripts.
// Its Content-Security-Policy forbids the browser to fetch anything, whatever a job is called.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>

#include "postproc/report/assets.h"
#include "postproc/report/html_figures.h"
#include "postproc/report/outline.h"
#include "postproc/report/report.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kMostNotes = 3;      // the rest is folded away
constexpr std::size_t kMostFindings = 20;  // cards of a section; the first section has the main finding alone
constexpr std::size_t kMostLanes = 40;
constexpr std::size_t kMostMetricLanes = 15;
constexpr std::size_t kMostNodesByDetector = 8;
constexpr std::size_t kMostMapRows = 40;
constexpr std::size_t kLongTable = 8;  // rows
constexpr std::size_t kLongList = 8;
constexpr std::size_t kMostFiles = 60;
constexpr std::size_t kLongLine = 2000;
constexpr std::size_t kLongestBanner = 500;

constexpr Subsystem kSubsystemColumns[] = {Subsystem::cpu,     Subsystem::gpu,     Subsystem::memory,
                                           Subsystem::network, Subsystem::storage, Subsystem::process};

constexpr std::pair<std::string_view, std::string_view> kGlossary[] = {
    {"channel", "a measured quantity of one instance: cpu.user/cpu3 is the user time of cpu 3"},
    {"phase",
     "a part of the job in which its processes mainly computed, read, wrote, communicated or waited, by cpu time, GPU "
     "use and bytes"},
    {"detector", "a method that searches channels for intervals that differ; the more agree, the clearer"},
    {"interval", "a part of the job in which channels differ from the rest of the job; strong or weak by how clearly"},
    {"rule", "a known cause with its signal, its look-alikes and its remedy: reveal rules prints all"},
    {"finding", "the result of a rule: cause, place, time, evidence, cost and remedy"},
    {"notice", "a finding that is less than a warning: the loss of time is small, not seen or not known"},
    {"observation", "a finding that is no fault; no loss of time was seen"},
    {"considered", "a cause with a similar signal, and the reason why it is not the one"},
    {"cause likely",
     "What a finding describes was measured. That the rule's cause is the reason is certain, likely "
     "(look-alikes were tested and do not fit) or possible (another reason was not ruled out)."},
    {"cause not known", "something differed, and no rule names the reason"},
    {"measured fact", "a state for which no reason is looked for: a setting, an error, something unused"},
    {"cost",
     "time that the job lost, and how it was estimated: about (an estimate), at most (an upper bound), none seen "
     "(nothing was slower), not known (with the reason)"},
    {"steps",
     "in their order; \"or\" stands before an alternative; those that only show something come first, and a step that "
     "changes a node says so"},
    {"expected", "the value in the rest of the job, on the other nodes or in earlier runs"},
    {"peers", "nodes of the job that do the same work"},
    {"straggler", "the node for which the others wait"},
    {"baseline", "earlier healthy runs of the same command and shape"},
};

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

std::string markup(const Line& line, std::size_t limit = kLongLine) {
  std::string text;
  for (const Span& span : line) {
    const std::string shown = html(span.text, limit);
    text += span.code && !shown.empty() ? "<code>" + shown + "</code>" : shown;
  }
  return text;
}

std::string folded_away(std::string_view title, std::string_view inside) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", title, inside);
}

std::string markup(const std::vector<Line>& lines, std::string_view separator) {
  std::string text;
  for (const Line& line : lines) text += (text.empty() ? "" : std::string(separator)) + markup(line);
  return text;
}

std::string link(const Line& line) {
  const std::string& source = line.front().text;
  const bool web = source.starts_with("https://") || source.starts_with("http://");
  const std::string shown = html(source, 300);
  return web ? fmt::format("<a rel=\"noopener noreferrer\" href=\"{}\">{}</a>", shown, shown) : shown;
}

constexpr std::string_view kOrLine = "<p class=\"quiet\">or</p>";

/// A line to type is a block of its own, so that one that wraps is not taken for two. A sentence is in none: a user
/// must not take it for something to run. An alternative belongs to the step before it.
std::string numbered_steps(const Row& row) {
  std::string items;
  std::size_t steps = 0;
  for (std::size_t i = 0; i < row.lines.size(); ++i) {
    const Line& step = row.lines[i];
    const bool instead = is_alternative(row, i);
    if (!instead) ++steps;
    items += instead ? kOrLine : i == 0 ? "<li>" : "</li><li>";
    items += is_typed(step) ? "<pre><code>" + html(text_of(step), kLongLine) + "</code></pre>" : markup(step);
  }
  return fmt::format("<{0}>{1}</li></{0}>", steps > 1 ? "ol" : "ul", items);
}

/// Lines that belong together are one block.
std::string typed_blocks(const Row& row) {
  std::string text = "<pre><code>";
  for (std::size_t i = 0; i < row.lines.size(); ++i) {
    if (is_alternative(row, i)) {
      text += fmt::format("</code></pre>{}<pre><code>", kOrLine);
    } else if (i > 0) {
      text += "</code><code>";
    }
    text += markup(row.lines[i]);
  }
  return text + "</code></pre>";
}

std::string description(const Row& row) {
  std::string text;
  switch (row.kind) {
    case Row::Kind::prose:
    case Row::Kind::aside:
    case Row::Kind::series:
      return markup(row.lines, "<br>");
    case Row::Kind::list:
      text = "<ul><li>" + markup(row.lines, "</li><li>") + "</li></ul>";
      return row.lines.size() <= kLongList ? text : folded_away(fmt::format("All {}", row.lines.size()), text);
    case Row::Kind::steps:
      text = numbered_steps(row);
      return row.lines.size() <= kLongList ? text : folded_away(fmt::format("All {}", row.lines.size()), text);
    case Row::Kind::command:
      return typed_blocks(row);
    case Row::Kind::links:
      for (const Line& line : row.lines) text += (text.empty() ? "" : "<br>") + link(line);
      return text;
  }
  return text;
}

std::string lay_out(const Row& row) {
  std::string term = html(row.label, 200);
  if (!term.empty() && term[0] >= 'a' && term[0] <= 'z' && row.label != "reveal") term[0] -= 'a' - 'A';
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, description(row));
}

/// Rows of a node carry its name, so that a reader can select one node.
std::string node_attribute(std::string_view node) {
  return node.empty() ? "" : fmt::format(" data-node=\"{}\"", html(node, 60));
}

std::string lay_out(const Cell& cell, const Column& column) {
  std::string inside = markup(cell.lines, "<br>");
  if (!cell.fold.empty()) inside += folded_away(cell.fold, markup(cell.folded, "<br>"));
  const std::string bar = cell.share ? fmt::format(" class=\"bar\" style=\"--share:{:.2f}\"", *cell.share) : "";
  return fmt::format("<td data-label=\"{}\"{}>{}</td>", column.heading, bar, inside.empty() ? "-" : inside);
}

std::string lay_out(const Table& table) {
  const std::size_t end = std::min(table.rows.size(), table.most);
  std::vector<std::size_t> columns;  // with something in them
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const bool any = std::any_of(table.rows.begin(), table.rows.end(),
                                 [c](const auto& row) { return !markup(row[c].lines, "").empty(); });
    if ((table.columns[c].shown & kWeb) != 0 && any) columns.push_back(c);
  }
  std::string html_table = "<div class=\"scroll\"><table class=\"stack\">";
  if (!table.caption.empty()) html_table += "<caption>" + html(table.caption) + "</caption>";
  html_table += "<thead><tr>";
  for (const std::size_t c : columns) html_table += fmt::format("<th scope=\"col\">{}</th>", table.columns[c].heading);
  html_table += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < end; ++i) {
    const Cell& first = table.rows[i].front();
    const bool of_node = table.columns.front().heading == "Node" && !first.lines.empty();
    html_table += "<tr" + node_attribute(of_node ? first.lines.front().front().text : "") + ">";
    for (const std::size_t c : columns) html_table += lay_out(table.rows[i][c], table.columns[c]);
    html_table += "</tr>\n";
  }
  html_table += "</tbody></table></div>\n";
  const std::size_t more = table.rows.size() - end + table.left_out;
  if (more > 0) html_table += fmt::format("<p class=\"quiet\">{} more; see report.json.</p>\n", more);
  return table.fold.empty() || end <= kLongTable
             ? html_table
             : folded_away(fmt::format("{} ({})", table.fold, table.rows.size()), html_table);
}

/// Rows that follow each other are one list.
std::string lay_out(const std::vector<Part>& parts) {
  std::string text;
  bool in_rows = false;
  for (const Part& part : parts) {
    const Row* row = std::get_if<Row>(&part);
    const Table* table = std::get_if<Table>(&part);
    if (((row != nullptr ? row->shown : table->shown) & kWeb) == 0) continue;
    if (in_rows != (row != nullptr)) text += in_rows ? "</dl>\n" : "<dl>\n";
    in_rows = row != nullptr;
    text += row != nullptr ? lay_out(*row) : lay_out(*table);
  }
  return in_rows ? text + "</dl>\n" : text;
}

std::string lay_out(const Card& card, const Verdict& verdict) {
  const Finding& finding = *card.finding;
  std::string text = card.number == 0
                         ? "<article class=\"card\"><header><h3>"
                         : fmt::format("<article class=\"card\" id=\"finding-{0}\"><header><h3>{0}. ", card.number);
  text += html(finding.title, 200) + "</h3>";
  text += fmt::format("<span class=\"level {}\">{}</span></header>\n", name_of(finding.severity), level_words(finding));
  const bool in_banner = verdict.sentence.size() <= kLongestBanner && repeats(verdict, finding.sentence);
  if (!finding.sentence.empty() && !in_banner) {
    text += "<p>" + html(told(finding), kLongLine) + "</p>\n";
  }
  auto parts = card.parts;  // what to do before the numbers
  std::stable_partition(parts.begin(), parts.end(), [](const Part& part) { return std::holds_alternative<Row>(part); });
  return text + lay_out(parts) + "</article>\n";
}

/// The first few open, the others folded away.
std::string cards(const Section& section, const Verdict& verdict) {
  const std::size_t end = std::min(section.cards.size(), kMostFindings);
  std::string text;
  for (std::size_t i = 0; i < end; ++i) {
    if (i == kMostNotes && !section.folded) {
      text += fmt::format("<details class=\"findings\"><summary>{} more</summary>\n", end - kMostNotes);
    }
    text += lay_out(section.cards[i], verdict);
  }
  if (end > kMostNotes && !section.folded) text += "</details>\n";
  const std::size_t more = section.cards.size() - end;
  return more == 0 ? text : text + fmt::format("<p class=\"quiet\">{} more are in report.json.</p>\n", more);
}

std::string lay_out(const Section& section, const Verdict& verdict) {
  const std::string inside = cards(section, verdict) + lay_out(section.parts);
  if (inside.empty()) return "";
  if (section.folded) return "<section>" + folded_away(section.heading, inside) + "</section>\n";
  // The banner above the main finding is its heading for all but screen readers.
  const char* seen = section.id == Section::Id::finding ? " class=\"unseen\"" : "";
  return fmt::format("<section><h2{}>{}</h2>\n{}</section>\n", seen, section.heading, inside);
}

std::string job_paragraph(const Section& section) {
  std::string text;
  for (const Part& part : section.parts) {
    const Row& row = std::get<Row>(part);
    if ((row.shown & kWeb) == 0) continue;
    const std::string label = row.label.empty() ? "" : row.label + " ";
    text += text.empty() ? "<b>" + markup(row.lines.front(), 180) + "</b>"
                         : " &middot; <span>" + label + markup(row.lines.front(), 300) + "</span>";
  }
  return "<p class=\"job\">" + text + "</p>\n";
}

std::string verdict_section(const Report& report) {
  const Verdict& verdict = report.verdict;
  const bool failed = verdict.job_failed && verdict.status == VerdictStatus::healthy;
  std::string sentence = html(verdict.sentence, kLongestBanner);
  if (!shown_findings(report).empty()) sentence = "<a href=\"#finding-1\">" + sentence + "</a>";
  std::string section = fmt::format("<section class=\"verdict {}\"><div class=\"word\">{}</div><h1>{}</h1>\n",
                                    failed ? "failed" : name_of(verdict.status), headline(verdict), sentence);
  return section + "</section>\n";
}

/// A node and a subsystem: its findings, its worst interval and, over the whole job, how many channels the peers do not
/// share.
struct MapCell {
  Tier shade = Tier::none;
  std::vector<std::string> texts;
};
using NodeMap = std::map<std::string, std::map<Subsystem, MapCell>>;

void mark(MapCell& cell, Tier shade, std::string text) {
  cell.shade = std::max(cell.shade, shade);
  if (!text.empty()) cell.texts.push_back(std::move(text));
}

/// A link where the page has the finding's card.
std::string finding_link(std::size_t number) {
  const std::string text = fmt::format("finding {}", number);
  return number <= 1 + kMostFindings ? fmt::format("<a href=\"#finding-{}\">{}</a>", number, text) : text;
}

NodeMap node_map(const Report& report) {
  NodeMap map;
  std::size_t number = 0;
  for (const Finding* finding : shown_findings(report)) {
    ++number;
    if (finding->nodes.size() == report.job.nodes.size()) continue;
    for (const std::string& node : finding->nodes) {
      mark(map[node][finding->subsystem], finding->severity >= Severity::warning ? Tier::strong : Tier::weak,
           finding_link(number));
    }
  }
  std::map<MapCell*, Tier> intervals;
  for (const ReportEpisode& episode : report.episodes) {
    if (!shows_intervals(report) || episode.tier == Tier::none || has_label(episode, Label::common)) continue;
    Tier& worst = intervals[&map[episode.node][episode.subsystem]];
    worst = std::max(worst, episode.tier);
  }
  for (const auto& [cell, tier] : intervals) mark(*cell, tier, std::string(name_of(tier)));
  for (const PeerCell& odd : report.comparison.cells) {
    mark(map[odd.node][odd.subsystem], Tier::weak,
         fmt::format("{} unlike its peers, up to {:+.0f} %", counted(static_cast<double>(odd.channels), "channel"),
                     odd.percent));
  }
  return map;
}

/// Only the nodes with something to show, the clearest first: on 40 nodes the one that differs must not drown.
std::string node_section(const Report& report) {
  const NodeMap marks = node_map(report);
  if (!several_nodes(report) || marks.empty()) return "";
  std::string table =
      "<section><h2>Nodes and subsystems</h2>\n<p class=\"quiet small\">Strong, weak: intervals that differ from the "
      "rest of the run. <span id=\"node-help\" hidden>Click a node: charts, tables and lanes show only that "
      "node.</span></p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Nodes and "
      "subsystems\"><table class=\"map\"><thead><tr><th scope=\"col\">Node</th>";
  for (const Subsystem subsystem : kSubsystemColumns)
    table += fmt::format("<th scope=\"col\">{}</th>", name_of(subsystem));
  table += "</tr></thead><tbody>\n";
  using NodeRow = NodeMap::value_type;
  std::vector<const NodeRow*> rows;
  for (const NodeRow& row : marks) rows.push_back(&row);
  const auto worst = [](const NodeRow* row) {
    const auto lighter = [](const auto& a, const auto& b) { return a.second.shade < b.second.shade; };
    return std::max_element(row->second.begin(), row->second.end(), lighter)->second.shade;
  };
  std::ranges::stable_sort(rows, std::greater{}, worst);
  if (rows.size() > kMostMapRows) rows.resize(kMostMapRows);
  for (const auto* row : rows) {
    const auto& [node, by_subsystem] = *row;
    table += "<tr><th scope=\"row\">" + html(node, 60) + "</th>";
    for (const Subsystem subsystem : kSubsystemColumns) {
      const auto at = by_subsystem.find(subsystem);
      if (at == by_subsystem.end()) {
        table += "<td class=\"quiet\">-</td>";
      } else {
        table +=
            fmt::format("<td class=\"mark-{}\">{}</td>", name_of(at->second.shade), joined(at->second.texts, "; "));
      }
    }
    table += "</tr>\n";
  }
  table += "</tbody></table></div>\n";
  if (marks.size() > kMostMapRows)
    table += fmt::format("<p class=\"quiet\">{} more.</p>\n", marks.size() - kMostMapRows);
  std::set<std::string> measured;
  for (const NodeCoverage& coverage : report.coverage) {
    if (coverage.samples_present.value_or(0) > 0) measured.insert(coverage.nodes.begin(), coverage.nodes.end());
  }
  std::vector<std::string> quiet;
  std::vector<std::string> silent;
  for (const std::string& node : report.job.nodes) {
    if (marks.count(node) == 0) (measured.count(node) == 0 ? silent : quiet).push_back(node);
  }
  if (!quiet.empty())
    table += "<p class=\"quiet\">No findings or intervals of their own: " + html(node_list(quiet)) + ".</p>\n";
  if (!silent.empty()) table += "<p>No data from " + html(node_list(silent)) + ".</p>\n";
  return table + "</section>\n";
}

/// Intervals along the job's time: of a node, a subsystem, a detector or a metric.
struct Lane {
  struct Mark {
    TimeSpan span;
    Tier tier = Tier::none;
    std::string title;
  };
  std::string name, node;
  std::vector<Mark> marks;
};

double seconds_covered(std::vector<Lane::Mark> marks) {
  std::sort(marks.begin(), marks.end(),
            [](const auto& one, const auto& other) { return one.span.begin_utc_ns < other.span.begin_utc_ns; });
  std::int64_t covered = 0;
  std::int64_t end = 0;
  for (const Lane::Mark& mark : marks) {
    covered += std::max<std::int64_t>(0, mark.span.end_utc_ns - std::max(end, mark.span.begin_utc_ns));
    end = std::max(end, mark.span.end_utc_ns);
  }
  return static_cast<double>(covered) / 1e9;
}

/// The time of a lane and its share: of all anomalous time where that is known, else of the run.
std::string total_of(const Lane& lane, const AnomalousTime* exact, double run_seconds) {
  const double seconds = exact != nullptr ? exact->seconds : seconds_covered(lane.marks);
  const double percent = exact != nullptr ? exact->percent : 100 * seconds / run_seconds;
  return fmt::format("{} ({})", duration(seconds), quantity(std::clamp(percent, 0.0, 100.0), "percent"));
}

std::string lay_out(const Lane& lane, const AnomalousTime* exact, const ReportJob& job) {
  const auto run = static_cast<double>(job.end_utc_ns - job.begin_utc_ns);
  const auto percent = [run](double ns) { return std::clamp(100 * ns / run, 0.0, 100.0); };
  std::string text = fmt::format("<li{}><span class=\"name\">{}</span><span class=\"track\">",
                                 node_attribute(lane.node), html(lane.name, 60));
  for (const Lane::Mark& mark : lane.marks) {
    const double left = percent(static_cast<double>(mark.span.begin_utc_ns - job.begin_utc_ns));
    const double right = percent(static_cast<double>(mark.span.end_utc_ns - job.begin_utc_ns));
    text += fmt::format("<i class=\"{}\" style=\"left:{:.2f}%;width:{:.2f}%\" title=\"{}\"></i>", name_of(mark.tier),
                        left, right - left, html(mark.title, 300));
  }
  return text + fmt::format("</span><span class=\"total\">{}</span></li>\n", total_of(lane, exact, run * 1e-9));
}

/// Intervals by one property. An interval that lies on several lanes is drawn on each of them. Where the report has the
/// time of all intervals, it stands beside the lane, and a lane without a drawn interval is there, too.
class Lanes {
 public:
  explicit Lanes(const Report& report) : report_(report) {}
  Lanes(const Report& report, AnomalousTime::By by) : report_(report) {
    for (const AnomalousTime& time : report.anomalous) {
      if (time.by != by) continue;
      exact_[time.name] = &time;
      lanes_[time.name].name = time.name;
    }
  }

  void add(const std::string& name, const ReportEpisode& episode, const std::string& node = "") {
    Lane& lane = lanes_[name];
    lane.name = name;
    lane.node = node;
    lane.marks.push_back(
        {episode.span, episode.tier,
         fmt::format("{}{}, {}, {}", several_nodes(report_) ? episode.node + ", " : "", name_of(episode.subsystem),
                     when(episode.span, report_.job), listed(names_of(episode.methods), 6, "+"))});
  }

  /// The longest first.
  [[nodiscard]] std::string lay_out(std::size_t most = kMostLanes) const {
    std::vector<std::pair<double, const Lane*>> order;
    for (const auto& [name, lane] : lanes_) {
      const AnomalousTime* exact = exact_of(name);
      order.emplace_back(exact != nullptr ? exact->seconds : seconds_covered(lane.marks), &lane);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    const std::size_t end = std::min(order.size(), most);
    std::string text = "<ul class=\"lanes\">\n";
    for (std::size_t i = 0; i < end; ++i) {
      text += reveal::lay_out(*order[i].second, exact_of(order[i].second->name), report_.job);
    }
    text += "</ul>\n";
    return order.size() == end ? text : text + fmt::format("<p class=\"quiet\">{} more.</p>\n", order.size() - end);
  }

 private:
  [[nodiscard]] const AnomalousTime* exact_of(const std::string& name) const {
    const auto at = exact_.find(name);
    return at == exact_.end() ? nullptr : at->second;
  }

  const Report& report_;
  std::map<std::string, Lane> lanes_;
  std::map<std::string, const AnomalousTime*> exact_;
};

std::string drawn_words(const Report& report) {
  const auto omitted = report.omitted.find("episodes");
  if (omitted == report.omitted.end() || omitted->second <= 0) return "";
  return fmt::format(" Drawn are the clearest {} of {}.", report.episodes.size(),
                     counted(static_cast<double>(report.episodes.size()) + omitted->second, "interval"));
}

std::string_view total_words(const Report& report) {
  if (report.anomalous.empty()) return "time, and share of the run";
  return several_nodes(report) ? "time of all intervals, added up over the nodes, and its share of all anomalous time"
                               : "time of all intervals, and its share of all anomalous time";
}

bool is_on_all_nodes(const ReportEpisode& episode) {
  return has_label(episode, Label::common);
}

std::size_t nodes_with_intervals(const Report& report) {
  std::set<std::string_view> nodes;
  for (const ReportEpisode& episode : report.episodes) {
    if (episode.tier != Tier::none && !is_on_all_nodes(episode)) nodes.insert(episode.node);
  }
  return nodes.size();
}

/// The intervals of the table below, drawn: where, and, folded away, found by which detectors in which metrics.
std::string lanes_section(const Report& report) {
  const ReportJob& job = report.job;
  if (!shows_intervals(report) || report.episodes.empty() || job.begin_utc_ns == 0 ||
      job.end_utc_ns <= job.begin_utc_ns)
    return "";
  Lanes subsystems(report, AnomalousTime::By::subsystem);
  Lanes nodes(report);
  Lanes metrics(report, AnomalousTime::By::metric);
  const bool few_nodes = several_nodes(report) && nodes_with_intervals(report) <= kMostNodesByDetector;
  Lanes detectors = few_nodes ? Lanes(report) : Lanes(report, AnomalousTime::By::detector);
  std::size_t drawn = 0;
  for (const ReportEpisode& episode : report.episodes) {
    if (episode.tier == Tier::none) continue;  // each node has some at its begin and end
    ++drawn;
    subsystems.add(std::string(name_of(episode.subsystem)), episode);
    const bool common = is_on_all_nodes(episode);
    if (common) {
      nodes.add("on all nodes", episode);
    } else {
      nodes.add(episode.node, episode, episode.node);
    }
    for (const Method method : episode.methods) {
      detectors.add((few_nodes ? (common ? "all nodes" : episode.node) + " " : "") + std::string(name_of(method)),
                    episode, few_nodes && !common ? episode.node : "");
    }
    std::set<std::string> named;  // once, however many of its instances differ
    for (const ReportEpisode::Reason& reason : episode.reasons) {
      if (named.insert(reason.metric).second) metrics.add(reason.metric, episode);
    }
  }
  if (drawn == 0) return "";
  std::string text = fmt::format(
      "<section><h2>When and where it differed</h2>\n<p class=\"quiet small\">The intervals in which channels differ "
      "from the rest of the run, along its {}. Red and tall: strong; brown and low: weak.{}</p>\n",
      duration(static_cast<double>(job.end_utc_ns - job.begin_utc_ns) / 1e9), drawn_words(report));
  if (several_nodes(report)) {
    text += "<h3 class=\"lanes\">By node <span>time, and share of the run</span></h3>\n" + nodes.lay_out();
  }
  text += fmt::format("<h3 class=\"lanes\">By subsystem <span>{}</span></h3>\n", total_words(report)) +
          subsystems.lay_out();
  text +=
      folded_away(few_nodes ? "By node and detector: time, and share of the run" : "By detector", detectors.lay_out());
  return text + folded_away("By metric", metrics.lay_out(kMostMetricLanes)) + "</section>\n";
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

nlohmann::json mark_data(const Report& report) {
  nlohmann::json marks = nlohmann::json::array();
  for (const ReportMark& mark : report.marks) {
    if (mark.span.begin_utc_ns == 0 || report.job.begin_utc_ns == 0) continue;
    marks.push_back({{"at", coarse(static_cast<double>(mark.span.begin_utc_ns - report.job.begin_utc_ns) / 1e9)},
                     {"kind", name_of(mark.kind)},
                     {"node", printable(mark.node, 60)},
                     {"text", printable(mark.text, 140)}});
  }
  return marks;
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
    const std::string_view metric = std::string_view(channel.name).substr(0, channel.name.find('/'));
    const Scale shown = shown_as(metric, channel.unit);
    Scale scale = scale_for(largest * shown.factor, shown.unit);
    scale.factor *= shown.factor;
    Json values = Json::array();
    for (const double value : channel.values) values.push_back(coarse(value * scale.factor));
    first = std::min(first, channel.begin_seconds);
    last = std::max(last, channel.begin_seconds + channel.step_seconds * static_cast<double>(channel.values.size()));
    data["channels"].push_back(
        {{"node", printable(channel.node, 60)},
         {"name", printable(channel.name, 120)},
         {"unit", printable(scale.unit, 30)},
         {"begin", channel.begin_seconds},
         {"step", channel.step_seconds},
         {"expected", channel.expected ? coarse(*channel.expected * scale.factor) : Json(nullptr)},
         {"expected_text", channel.expected ? quantity_of(metric, channel.expected, channel.unit) : ""},
         {"values", std::move(values)}});
  }
  data["window"] = {first, last};
  data["marks"] = mark_data(report);
  for (const Band& band : bands(report)) {
    const double band_begin = static_cast<double>(band.span.begin_utc_ns - begin) / 1e9;
    const double band_end = static_cast<double>(band.span.end_utc_ns - begin) / 1e9;
    const auto same = std::find_if(data["intervals"].begin(), data["intervals"].end(), [&](const Json& other) {
      return other["begin"] == band_begin && other["end"] == band_end && other["kind"] == band.kind;
    });
    if (same != data["intervals"].end()) {
      (*same)["label"] = (*same)["label"].get<std::string>() + ", " + std::to_string(band.number);
      continue;
    }
    data["intervals"].push_back(
        {{"begin", band_begin}, {"end", band_end}, {"kind", band.kind}, {"label", std::to_string(band.number)}});
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

std::string mark_legend(const Report& report) {
  const auto training = std::count_if(report.marks.begin(), report.marks.end(),
                                      [](const ReportMark& mark) { return mark.kind == ReportMark::Kind::training; });
  std::string text;
  if (training > 0) text += " Ticks at the bottom: training steps.";
  if (static_cast<std::size_t>(training) < report.marks.size()) text += " Dotted lines: what happened, listed below.";
  return text;
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
         legend + mark_legend(report) + "</p>\n" + phases_figures(report) +
         "<p id=\"timeline-help\" class=\"quiet small\" hidden>Drag to zoom all charts, double-click for the "
         "whole "
         "job.</p>\n"
         "<noscript><p>The charts need JavaScript, which is blocked here. The text of this page has all findings; the "
         "numbers are in report.json.</p></noscript>\n"
         "<div id=\"timeline-controls\" class=\"controls\"></div>\n<div id=\"charts\"></div>\n</section>\n";
}

std::string footer(const Report& report) {
  std::vector<std::string> parts = {"reveal " + html(report.tool_version, 40)};
  if (!report.report_id.empty()) parts.push_back("report " + html(report.report_id, 80));
  if (report.created_utc_ns != 0) parts.push_back("made " + date_and_time(report.created_utc_ns));
  if (!report.supersedes.empty()) parts.push_back("replaces " + html(report.supersedes, 80));
  for (const auto& [what, count] : report.omitted) {
    parts.push_back(fmt::format("omitted: {} {}", number(count), html(what, 60)));
  }
  std::vector<std::string> files;
  const std::size_t named = std::min(report.files.size(), kMostFiles);
  for (std::size_t i = 0; i < named; ++i) {
    const auto& [what, path] = report.files[report.files.size() - named + i];  // those of the report are the last
    files.push_back(fmt::format("{}: <code>{}</code>", html(what, 60), html(path, 200)));
  }
  if (named < report.files.size()) files.push_back(fmt::format("{} more", report.files.size() - named));
  const bool many = files.size() > kLongList;
  if (!many) parts.insert(parts.end(), files.begin(), files.end());
  return "<footer>" + joined(parts, " &middot; ") +
         (many ? folded_away(counted(static_cast<double>(report.files.size()), "file"), joined(files, " &middot; "))
               : "") +
         "</footer>\n";
}

std::string glossary() {
  std::string list;
  for (const auto& [term, meaning] : kGlossary) list += fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, meaning);
  return "<section>" + folded_away("What the words mean", "<dl>\n" + list + "</dl>\n") + "</section>\n";
}

std::string scripts(const Report& report) {
  if (report.timeline.empty()) return fmt::format("<script>{}</script>\n", assets::report_js());
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
  for (const Section& section : outline(report)) {
    page += section.id == Section::Id::job ? job_paragraph(section) : lay_out(section, report.verdict);
    if (section.id == Section::Id::finding) page += timeline_section(report);
    if (section.id == Section::Id::left_out) {
      page += node_section(report) + across_section(report) + lanes_section(report);
    }
    if (section.id == Section::Id::compared) page += earlier_runs_figure(report);
  }
  page += glossary();
  page += footer(report);
  page += "</main>\n" + scripts(report) + "</body>\n</html>\n";
  return page;
}

}  // namespace reveal
