#include "postproc/live/watch_view.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/live/watch_fields.h"
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

std::string state_of(const WatchedNode& node, std::int64_t now_utc_ns) {
  const LiveTrace& trace = node.trace();
  if (!trace.problem().empty() && trace.state() == LiveState::waiting) return printable(trace.problem(), 200);
  if (trace.state() == LiveState::silent) return fmt::format("silent for {}", duration(node.silent_seconds()));
  std::string text(name_of(trace.state()));
  const double behind = static_cast<double>(now_utc_ns - trace.utc_of(trace.rows().newest_ns())) * 1e-9;
  if (trace.state() == LiveState::catching && behind > 0 && behind < 3600)
    text += fmt::format(", {:.0f} s behind", behind);
  return text;
}

std::string cost_of(const WatchPage& page) {
  std::vector<std::string> collectors;
  for (const auto& node : page.nodes) {
    if (const auto percent = node->collector_percent())
      collectors.push_back(page.nodes.size() > 1 ? fmt::format("{} {:.2f} %", node->trace().node(), *percent)
                                                 : fmt::format("{:.2f} %", *percent));
  }
  std::string text =
      "cost: collector " + (collectors.empty() ? "not known yet" : listed(collectors, 4)) +
      fmt::format("; watching {}, {}",
                  std::isfinite(page.watching_percent) ? fmt::format("{:.1f} % of a core", page.watching_percent)
                                                       : "not known yet",
                  counted(static_cast<double>(page.budget.runs()), "detection run"));
  if (page.budget.skipped() > 0) text += fmt::format(", {} skipped", page.budget.skipped());
  return text;
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

/// Ranks work in step: one number for the whole job.
void draw_pace(const Pace& pace, Lines& lines) {
  lines.add(fmt::format("  {:18} {:>14}", pace.estimated ? "iterations (est.)" : "backward passes",
                        number(pace.per_second) + " /s"));
}

void draw_meters(const WatchedNode& node, const ViewStyle& style, Lines& lines) {
  for (std::size_t i = 0; i < meters().size(); ++i) {
    const std::deque<double>& values = node.history()[i];
    if (values.empty() || std::isnan(values.back())) continue;
    const MetricFact& meter = meters()[i];
    std::string line =
        fmt::format("  {:18} {:>14}", meter.meter, quantity_of(meter.metric, values.back(), meter.meter_unit));
    if (style.blocks) line += "  " + sparkline(std::vector<double>(values.begin(), values.end()), kSparkWidth);
    lines.add(line);
  }
}

/// The line of a page without alerts: their absence means nothing while little was analysed.
std::string without_alerts(const WatchPage& page) {
  double longest = 0;
  for (const auto& node : page.nodes) longest = std::max(longest, node->job_seconds());
  if (page.budget.runs() == 0 || longest < kFirstAlertSeconds) {
    return fmt::format("no alerts yet: {} recorded, one minute is needed", duration(longest));
  }
  return fmt::format("no alert: no abnormal interval in {} detection runs", page.budget.runs());
}

void draw_alert(const AlertNotice& notice, Lines& lines) {
  const std::string_view state = notice.state == AlertState::open ? "OPEN" : name_of(notice.state);
  lines.add(fmt::format("  {:9} {} #{}  {} {}  {}", state, notice.node, notice.number, name_of(notice.subsystem),
                        name_of(notice.tier), times_of(notice)),
            ink_of(notice));
  if (notice.state != AlertState::withdrawn) lines.add("            " + notice.claim);
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

WatchSummary watch_summary(const WatchPage& page, const std::string& text) {
  WatchSummary summary{.notice = {"ended", page.now_utc_ns, text},
                       .watching_percent = page.watching_percent,
                       .runs = page.budget.runs(),
                       .runs_skipped = page.budget.skipped(),
                       .nodes = {}};
  summary.nodes.reserve(page.nodes.size());
  for (const auto& node : page.nodes) {
    const LiveTrace& trace = node->trace();
    summary.nodes.push_back({trace.node(), trace.state(), node->job_seconds(), trace.rows().channels(),
                             node->collector_percent(), node->heard_utc_ns()});
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
  Lines lines(style);
  const TraceHeader* header = page.nodes.empty() ? nullptr : &page.nodes.front()->trace().header();
  std::string title = "reveal watch " + page.directory;
  if (header != nullptr && !header->job_id.empty()) title += "   job " + header->job_id;
  if (header != nullptr && !header->job_name.empty()) title += " " + header->job_name;
  if (header != nullptr && !header->command.empty()) title += "   " + header->command;
  lines.add(title, Ink::bold);
  lines.add(date_and_time(page.now_utc_ns), Ink::dim);
  lines.add(cost_of(page), Ink::dim);
  lines.add(kCausesLater, Ink::dim);
  if (!page.problem.empty()) lines.add(page.problem, Ink::red);
  if (page.nodes.empty()) {
    lines.add("");
    lines.add("no trace yet; waiting for a run to start");
    return lines.take();
  }
  // Numbers only if they leave space for the alerts.
  const bool few = page.nodes.size() * (meters().size() + 3) + kRoomForAlerts <= style.height;
  std::size_t shown = 0;
  for (const auto& node : page.nodes) {
    if (++shown > kMostNodes) {
      lines.add(fmt::format("  and {} nodes more", page.nodes.size() - kMostNodes), Ink::dim);
      break;
    }
    lines.add("");
    lines.add(
        fmt::format("{}   {}   {} of the job, {} channels", node->trace().node(), state_of(*node, page.now_utc_ns),
                    duration(node->job_seconds()), node->trace().rows().channels()),
        node->trace().state() == LiveState::silent ? Ink::red : Ink::bold);
    if (few && node->pace()) draw_pace(*node->pace(), lines);
    if (few) draw_meters(*node, style, lines);
  }
  lines.add("");
  if (!page.silence.empty()) lines.add(page.silence, Ink::red);
  if (!page.hang.empty()) lines.add(page.hang, Ink::red);
  if (page.alerts.empty()) {
    lines.add(without_alerts(page));
    return lines.take();
  }
  lines.add("alerts", Ink::bold);
  // The newest are the ones that matter: they are shown if not all fit.
  const std::size_t most = std::max<std::size_t>(1, lines.left() / 2);
  const std::size_t from = page.alerts.size() > most ? page.alerts.size() - most : 0;
  for (std::size_t i = page.alerts.size(); i-- > from;) draw_alert(page.alerts[i], lines);
  return lines.take();
}

}  // namespace reveal
