#include "postproc/live/watch_view.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/live/watch_fields.h"
#include "postproc/live/watched_node.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/ink.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/sparkline.h"

namespace reveal {
namespace {

constexpr std::size_t kSparkWidth = 30;
constexpr std::size_t kTopChannels = 3;
constexpr std::size_t kMostNodes = 8;
constexpr std::size_t kMostCosts = 4;
constexpr std::size_t kMostEarlierShown = 3;
constexpr std::size_t kRoomForAlerts = 12;  // lines, with the title
constexpr std::size_t kLongestWatchLine = 1000;
constexpr std::string_view kCausesLater = "alerts show changes; the report at the end names their cause";

Ink ink_of(const AlertNotice& notice) {
  if (notice.state == AlertState::withdrawn) return Ink::dim;
  return notice.tier == Tier::strong ? Ink::red : Ink::yellow;
}

std::string seconds_of(std::int64_t nanoseconds) {
  return duration(static_cast<double>(nanoseconds) * 1e-9);
}

std::string times_of(const AlertNotice& notice) {
  const std::string length = seconds_of(notice.end_utc_ns - notice.begin_utc_ns);
  if (notice.state == AlertState::open)
    return fmt::format("since {} ({} so far)", clock_time(notice.begin_utc_ns), length);
  return fmt::format("{} to {} ({})", clock_time(notice.begin_utc_ns), clock_time(notice.end_utc_ns), length);
}

std::string state_of(const NodeView& node, std::int64_t now_utc_ns) {
  if (!node.problem.empty() && node.state == LiveState::waiting) return printable(node.problem, 200);
  if (node.state == LiveState::silent) return fmt::format("silent for {}", duration(node.silent_seconds));
  std::string text(name_of(node.state));
  const double behind = static_cast<double>(now_utc_ns - node.heard_utc_ns) * 1e-9;
  if (node.state == LiveState::catching && behind > 0 && behind < 3600)
    text += fmt::format(", {:.0f} s behind", behind);
  return text;
}

/// The costs of four nodes, or of many the largest one.
std::string cost_of_collectors(const std::vector<NodeView>& nodes) {
  std::vector<std::string> all;
  double most = 0;
  for (const NodeView& node : nodes) {
    if (!node.collector_percent) continue;
    most = std::max(most, *node.collector_percent);
    all.push_back(nodes.size() > 1 ? fmt::format("{} {:.2f} %", node.node, *node.collector_percent)
                                   : fmt::format("{:.2f} %", *node.collector_percent));
  }
  if (all.empty()) return "not known yet";
  return all.size() <= kMostCosts ? listed(all) : fmt::format("at most {:.2f} % on {} nodes", most, all.size());
}

std::string cost_of(const WatchPage& page) {
  const WatchedJob& job = page.job;
  std::string text =
      "cost: collector " + cost_of_collectors(job.nodes) +
      fmt::format("; watching {}, {}",
                  std::isfinite(page.watching_percent) ? fmt::format("{:.1f} % of a core", page.watching_percent)
                                                       : "not known yet",
                  counted(static_cast<double>(job.runs), "detection run"));
  if (job.runs_skipped > 0) text += fmt::format(", {} skipped", job.runs_skipped);
  if (job.most_on_node) text += fmt::format("; on each node at most {:.1f} % of a core", *job.most_on_node);
  return text;
}

std::string facts_of_earlier(const EarlierInterval& interval) {
  const std::string program = interval.program.empty() ? "" : " (" + interval.program + ")";
  return fmt::format("{}: {}{} {} its usual range {} to {} ({} of {} counters outside)", interval.node,
                     interval.farthest, program, interval.direction.empty() ? "outside" : interval.direction,
                     clock_time(interval.begin_utc_ns), clock_time(interval.end_utc_ns), interval.channels,
                     interval.of_channels);
}

class Lines {
 public:
  explicit Lines(const ViewStyle& style) : style_(style) {}

  void add(std::string_view text, Ink ink = Ink::plain) {
    if (lines_.size() >= style_.height) return;
    lines_.push_back(painted(printable(text, style_.width), ink, style_.colour));
  }
  std::vector<std::string> take() { return std::move(lines_); }
  [[nodiscard]] std::size_t left() const { return style_.height - std::min(style_.height, lines_.size()); }

 private:
  const ViewStyle& style_;
  std::vector<std::string> lines_;
};

void draw_pace(const Pace& pace, Lines& lines) {
  lines.add(fmt::format("  {:18} {:>14}", pace.estimated ? "iterations (est.)" : "backward passes",
                        number(pace.per_second) + " /s"));
}

void draw_meters(const NodeView& node, const ViewStyle& style, Lines& lines) {
  for (const MetricFact& meter : meters()) {
    const auto found = std::find_if(node.meters.begin(), node.meters.end(),
                                    [&meter](const NodeView::Meter& one) { return one.metric == meter.metric; });
    if (found == node.meters.end() || found->values.empty() || std::isnan(found->values.back())) continue;
    std::string line =
        fmt::format("  {:18} {:>14}", meter.meter, quantity_of(meter.metric, found->values.back(), meter.meter_unit));
    if (style.blocks) line += "  " + sparkline(found->values, kSparkWidth);
    lines.add(line);
  }
}

/// Ranks work in step: one line for the whole job, from the node that knows it.
void draw_progress(const std::vector<NodeView>& nodes, Lines& lines) {
  for (const NodeView& node : nodes) {
    const std::string words = words_of_progress(node.pace);
    if (words.empty()) continue;
    lines.add(words, Ink::bold);
    return;
  }
}

void draw_earlier(const WatchPage& page, Lines& lines) {
  if (page.earlier.empty()) return;
  lines.add("before this watch (rough check of the collector, not judged by rules)", Ink::dim);
  const std::size_t from = page.earlier.size() - std::min(page.earlier.size(), kMostEarlierShown);
  for (std::size_t i = from; i < page.earlier.size(); ++i)
    lines.add("  " + facts_of_earlier(page.earlier[i]), Ink::dim);
  if (from > 0) lines.add(fmt::format("  and {} earlier ones", from), Ink::dim);
}

/// The line of a page without alerts: their absence means nothing while little was analysed.
std::string without_alerts(const WatchedJob& job) {
  double longest = 0;
  for (const NodeView& node : job.nodes) longest = std::max(longest, node.seconds);
  if (job.runs == 0 || longest < kFirstAlertSeconds) {
    return fmt::format("no alerts yet: {} recorded, one minute is needed", duration(longest));
  }
  return fmt::format("no alert: no abnormal interval in {} detection runs", job.runs);
}

void draw_alert(const AlertNotice& notice, Lines& lines) {
  const std::string_view state = notice.state == AlertState::open ? "OPEN" : name_of(notice.state);
  lines.add(fmt::format("  {:9} {} #{}  {} {}  {}", state, notice.node, notice.number, name_of(notice.subsystem),
                        name_of(notice.tier), times_of(notice)),
            ink_of(notice));
  if (notice.state != AlertState::withdrawn) lines.add("            " + notice.claim);
}

std::string title_of(const WatchedJob& job) {
  std::string title = "reveal watch " + job.title;
  if (job.nodes.empty()) return title;
  const NodeView& node = job.nodes.front();
  if (!node.job.empty()) title += "   job " + node.job;
  if (!node.job_name.empty()) title += " " + node.job_name;
  if (!node.command.empty()) title += "   " + node.command;
  return title;
}

void draw_node(const NodeView& node, std::int64_t now_utc_ns, Lines& lines) {
  lines.add(fmt::format("{}   {}   {} of the job, {} channels", node.node, state_of(node, now_utc_ns),
                        duration(node.seconds), node.channels),
            node.state == LiveState::silent ? Ink::red : Ink::bold);
}

void draw_alerts(const WatchPage& page, Lines& lines) {
  if (page.alerts.empty()) return lines.add(without_alerts(page.job));
  lines.add("alerts", Ink::bold);
  // The newest are the ones that matter: they are shown if not all fit.
  const std::size_t most = std::max<std::size_t>(1, lines.left() / 2);
  const std::size_t from = page.alerts.size() > most ? page.alerts.size() - most : 0;
  for (std::size_t i = page.alerts.size(); i-- > from;) draw_alert(page.alerts[i], lines);
}

}  // namespace

std::string alert_line(const AlertNotice& notice) {
  std::string line =
      fmt::format("{} {} {} #{} {} {} {}", clock_time(notice.published_utc_ns), name_of(notice.news), notice.node,
                  notice.number, name_of(notice.subsystem), name_of(notice.tier), times_of(notice));
  if (notice.news == AlertNews::withdrawn) {
    return printable(line + ": no longer different from the rest of the job", kLongestWatchLine);
  }
  if (!notice.claim.empty()) line += ": " + notice.claim;
  std::vector<std::string> channels;
  for (const AlertNotice::Reason& reason : notice.reasons) {
    if (channels.size() < kTopChannels) channels.push_back(reason.channel);
  }
  line += fmt::format(" [{}; {}]", joined(names_of(notice.methods), "+"), joined(channels, ", "));
  return printable(line, kLongestWatchLine);
}

std::string alert_json(const AlertNotice& notice) {
  return json_text(JsonWriter::whole(notice));
}

std::string words_of_earlier(const EarlierInterval& interval) {
  return "before this watch: " + facts_of_earlier(interval) + "; rough check of the collector, not judged by rules";
}

std::string earlier_json(const EarlierNotice& notice) {
  return json_text(JsonWriter::whole(notice));
}

std::string report_json(const NodeReport& report) {
  return json_text(JsonWriter::whole(report));
}

std::vector<HeardNode> heard_nodes(const std::vector<NodeView>& nodes) {
  std::vector<HeardNode> heard;
  heard.reserve(nodes.size());
  for (const NodeView& node : nodes) {
    heard.push_back({node.node, node.state == LiveState::silent, node.heard_utc_ns, node.ended()});
  }
  return heard;
}

WatchSummary watch_summary(const WatchPage& page, const std::string& text) {
  WatchSummary summary{.notice = {"ended", page.now_utc_ns, text},
                       .watching_percent = page.watching_percent,
                       .runs = page.job.runs,
                       .runs_skipped = page.job.runs_skipped,
                       .nodes = {}};
  summary.nodes.reserve(page.job.nodes.size());
  for (const NodeView& node : page.job.nodes) {
    WatchSummary::Node& last = summary.nodes.emplace_back();
    last = {.node = node.node,
            .state = node.state,
            .seconds = node.seconds,
            .channels = node.channels,
            .collector_percent = node.collector_percent,
            .heard_utc_ns = node.heard_utc_ns,
            .iterations_per_second = std::nullopt,
            .iteration = std::nullopt,
            .iterations_planned = node.pace.planned};
    if (node.pace.known()) last.iterations_per_second = node.pace.per_second;
    if (std::isfinite(node.pace.done)) last.iteration = node.pace.done;
  }
  return summary;
}

std::string watch_line(const WatchNotice& notice) {
  return printable(clock_time(notice.published_utc_ns) + " " + notice.text, kLongestWatchLine);
}

std::string watch_json(const WatchNotice& notice) {
  return json_text(JsonWriter::whole(notice));
}

std::string end_line(const WatchPage& page, const std::string& text) {
  return printable(fmt::format("{} {}; {}", clock_time(page.now_utc_ns), text, cost_of(page)), kLongestWatchLine);
}

std::string end_json(const WatchSummary& summary) {
  return json_text(JsonWriter::whole(summary));
}

std::vector<std::string> draw_page(const WatchPage& page, const ViewStyle& style) {
  const std::vector<NodeView>& nodes = page.job.nodes;
  Lines lines(style);
  lines.add(title_of(page.job), Ink::bold);
  lines.add(date_and_time(page.now_utc_ns), Ink::dim);
  lines.add(cost_of(page), Ink::dim);
  lines.add(kCausesLater, Ink::dim);
  if (!page.problem.empty()) lines.add(page.problem, Ink::red);
  if (nodes.empty()) {
    lines.add("");
    lines.add("no trace yet; waiting for a run to start");
    return lines.take();
  }
  draw_progress(nodes, lines);
  // Numbers only if they leave space for the alerts.
  const bool few = nodes.size() * (meters().size() + 3) + kRoomForAlerts <= style.height;
  for (std::size_t i = 0; i < std::min(nodes.size(), kMostNodes); ++i) {
    lines.add("");
    draw_node(nodes[i], page.now_utc_ns, lines);
    if (few && nodes[i].pace.known()) draw_pace(nodes[i].pace, lines);
    if (few) draw_meters(nodes[i], style, lines);
  }
  if (nodes.size() > kMostNodes) lines.add(fmt::format("  and {} nodes more", nodes.size() - kMostNodes), Ink::dim);
  lines.add("");
  draw_earlier(page, lines);
  if (const std::string silence = silence_of(heard_nodes(nodes)); !silence.empty()) lines.add(silence, Ink::red);
  if (!page.job.hang.empty()) lines.add(page.job.hang, Ink::red);
  draw_alerts(page, lines);
  return lines.take();
}

}  // namespace reveal
