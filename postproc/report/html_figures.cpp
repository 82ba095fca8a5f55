#include "postproc/report/html_figures.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "postproc/report/job_ending.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr double kWidth = 600;
constexpr double kHeight = 160;
constexpr double kDotsHeight = 100;
constexpr std::size_t kMostColours = 4;

/// The values of a figure, from 0 or below to the largest.
class Range {
 public:
  void add(double value) {
    if (!std::isfinite(value)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  void add(const std::vector<double>& values) {
    for (const double value : values) add(value);
  }
  [[nodiscard]] double high() const { return high_; }
  [[nodiscard]] double y(double value) const {
    constexpr double kMargin = 4;  // for half of a thick line
    const double length = high_ - low_;
    const double part = length > 0 ? (value - low_) / length : 0.5;
    return kHeight - kMargin - part * (kHeight - 2 * kMargin);
  }

 private:
  double low_ = 0, high_ = 0;
};

/// A path with gaps where nothing was measured. Equal neighbours need no points of their own.
std::string path_of(const std::vector<double>& values, const Range& range) {
  const double step = values.size() < 2 ? 0 : kWidth / static_cast<double>(values.size() - 1);
  std::string path;
  const auto known = [&values](std::size_t i) { return i < values.size() && std::isfinite(values[i]); };
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!known(i)) continue;
    const bool begins = i == 0 || !known(i - 1);
    if (!begins && known(i + 1) && values[i] == values[i - 1] && values[i] == values[i + 1]) continue;
    path += fmt::format("{}{:.0f} {:.0f}", begins ? 'M' : 'L', step * static_cast<double>(i), range.y(values[i]));
    if (begins && !known(i + 1)) path += "h2";  // a single point
  }
  return path;
}

std::string drawn(const char* kind, const std::vector<double>& values, const Range& range) {
  const std::string path = path_of(values, range);
  return path.empty() ? "" : fmt::format("<path class=\"{}\" d=\"{}\"/>", kind, path);
}

std::string key(const std::string& kind, const std::string& text) {
  return fmt::format(
      "<span class=\"line-key\"><svg viewBox=\"0 0 28 8\" aria-hidden=\"true\"><path class=\"{}\" d=\"M0 "
      "4H28\"/></svg>{}"
      "</span>",
      kind, text);
}

/// In the unit of the sentences about the metric.
std::string amount_of(const MetricAcrossNodes& metric, std::optional<double> value) {
  const std::string_view name = metric.channel;
  return html(quantity_of(name.substr(0, name.find('/')), value, metric.unit), 40);
}

struct Drawn {
  std::string lines, keys, words;
};

/// The lines of the peers below those that differ.
Drawn lines_of(const MetricAcrossNodes& metric, const Range& range) {
  Drawn drawing;
  std::size_t peers = 0;
  for (const MetricAcrossNodes::Line& line : metric.lines) {
    if (line.differs) continue;
    drawing.lines += drawn("peer", line.values, range);
    ++peers;
  }
  drawing.lines += drawn("median", metric.median, range);
  std::size_t colour = 0;
  for (const MetricAcrossNodes::Line& line : metric.lines) {
    if (!line.differs || colour == kMostColours) continue;
    ++colour;
    const std::string kind = fmt::format("odd odd-{}", colour);
    drawing.lines += drawn(kind.c_str(), line.values, range);
    const std::string text = fmt::format("{} {}", html(line.node, 60), amount_of(metric, line.mean));
    drawing.keys += key(kind, text);
    drawing.words += (drawing.words.empty() ? "" : ", ") + text;
  }
  if (metric.median_mean) {
    const std::string text = fmt::format("median of {} {}", counted(static_cast<double>(metric.peers), "peer"),
                                         amount_of(metric, metric.median_mean));
    drawing.keys += key("median", text);
    drawing.words += (drawing.words.empty() ? "" : ", ") + text;
  }
  if (peers > 0) drawing.keys += key("peer", peers == 1 && !metric.median_mean ? "the other node" : "each peer");
  return drawing;
}

std::string figure_of(const MetricAcrossNodes& metric) {
  Range range;
  range.add(metric.median);
  for (const MetricAcrossNodes::Line& line : metric.lines) range.add(line.values);
  const Drawn drawing = lines_of(metric, range);
  const std::string name = html(metric.channel, 120);
  return fmt::format(
      "<figure><figcaption><code>{0}</code><span class=\"quiet small\">up to {1}</span></figcaption>\n<svg "
      "viewBox=\"0 0 {2} {3}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{0} over the job: "
      "{4}\">{5}</svg>\n<p class=\"keys small\">{6}</p></figure>\n",
      name, amount_of(metric, range.high()), kWidth, kHeight, drawing.words, drawing.lines, drawing.keys);
}

struct Dot {
  std::int64_t begin_utc_ns = 0;
  double seconds = 0;
  const char* kind = "";
  const char* words = "";
};

std::vector<Dot> dots_of(const Report& report) {
  std::vector<Dot> dots;
  for (const EarlierRun& run : report.history.earlier) {
    if (!(run.seconds > 0) || dots.size() == kDrawnRuns) continue;
    dots.push_back({run.begin_utc_ns, run.seconds, run.in_baseline ? "baseline" : "other",
                    run.in_baseline ? "in the baseline" : "not in the baseline"});
  }
  if (const double seconds = seconds_of(report.job); seconds > 0 && !dots.empty()) {
    dots.push_back({report.job.begin_utc_ns, seconds, "this", "this run"});
  }
  return dots;
}

/// The shapes differ, too: colours alone do not tell the runs apart for everyone.
std::string shape_of(const Dot& dot, double x, double y) {
  const std::string title =
      fmt::format("<title>{}, {}: {}</title>", date_and_time(dot.begin_utc_ns), duration(dot.seconds), dot.words);
  if (std::string_view(dot.kind) == "this") {
    return fmt::format("<path class=\"run this\" d=\"M{:.0f} {:.0f}l9 9l-9 9l-9 -9z\">{}</path>", x, y - 9, title);
  }
  return fmt::format("<circle class=\"run {}\" cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"6\">{}</circle>", dot.kind, x, y, title);
}

double seconds_of_job(std::int64_t utc_ns, const Report& report) {
  return static_cast<double>(utc_ns - report.job.begin_utc_ns) / 1e9;
}

/// Words stand in blocks that have room for them; all others have their colour and pattern from the line above.
std::string block_of(const JobPhase& phase, const TimeSpan& all, const Report& report) {
  constexpr double kRoomForWord = 9;  // percent
  const auto percent = [&all](std::int64_t utc_ns) {
    const auto length = static_cast<double>(all.end_utc_ns - all.begin_utc_ns);
    return length > 0 ? std::clamp(100 * static_cast<double>(utc_ns - all.begin_utc_ns) / length, 0.0, 100.0) : 0;
  };
  const double left = percent(phase.span.begin_utc_ns);
  const double width = std::max(0.0, percent(phase.span.end_utc_ns) - left);
  return fmt::format("<i class=\"phase-{}\" style=\"left:{:.2f}%;width:{:.2f}%\" title=\"{}, {}\">{}</i>",
                     name_of(phase.kind), left, width, words_of(phase.kind), when(phase.span, report.job),
                     width >= kRoomForWord ? words_of(phase.kind) : "");
}

/// The strip in words: "waiting until 12 s, computing until 580 s".
std::string spoken(const NodePhases& node, const Report& report) {
  std::vector<std::string> parts;
  for (const JobPhase& phase : node.phases) {
    parts.push_back(
        fmt::format("{} until {:.0f} s", words_of(phase.kind), seconds_of_job(phase.span.end_utc_ns, report)));
  }
  return joined(parts, ", ");
}

std::string strip_of(const NodePhases& node, const Report& report) {
  const TimeSpan all{node.phases.front().span.begin_utc_ns, node.phases.back().span.end_utc_ns};
  std::string blocks;
  for (const JobPhase& phase : node.phases) blocks += block_of(phase, all, report);
  return fmt::format(
      "<div class=\"track\" role=\"img\" aria-label=\"Phases: {}\"><div data-begin=\"{:.1f}\" "
      "data-end=\"{:.1f}\">{}</div></div>",
      spoken(node, report), seconds_of_job(all.begin_utc_ns, report), seconds_of_job(all.end_utc_ns, report), blocks);
}

std::string phases_figure(const NodePhases& node, const Report& report) {
  std::string caption = several_nodes(report) ? "<b>" + html(node_list(node.nodes), 80) + "</b>" : "";
  if (node.phases.empty()) caption += "<span>No phases:</span>";
  for (const PhaseTime& time : phase_times(node)) {
    caption += fmt::format("<span><span class=\"key phase-{}\"></span>{}</span>", name_of(time.kind), time.words);
  }
  for (const std::string& more : {steps_words(node, report.job), node.note}) {
    if (!more.empty()) caption += "<span>" + html(more, 300) + "</span>";
  }
  const std::string one = node.nodes.size() == 1 && several_nodes(report)
                              ? fmt::format(" data-node=\"{}\"", html(node.nodes.front(), 60))
                              : "";
  return fmt::format("<figure class=\"phases\"{}><figcaption>{}</figcaption>{}</figure>\n", one, caption,
                     node.phases.empty() ? "" : strip_of(node, report));
}

}  // namespace

std::string phases_figures(const Report& report) {
  std::string figures;
  for (const NodePhases& node : report.phases) figures += phases_figure(node, report);
  return figures;
}

std::string across_section(const Report& report) {
  std::string figures;
  for (const MetricAcrossNodes& metric : report.across) figures += figure_of(metric);
  if (figures.empty()) return "";
  const bool odd = std::any_of(report.across.begin(), report.across.end(), [](const MetricAcrossNodes& metric) {
    return !metric.lines.empty() && metric.lines.front().differs;
  });
  return fmt::format(
      "<section><h2>The same metric on several nodes</h2>\n<p class=\"quiet small\">Each over the {} of the job, from "
      "0 "
      "up; the number is the mean over the job.{}</p>\n<div class=\"across\">\n{}</div></section>\n",
      duration(static_cast<double>(report.job.end_utc_ns - report.job.begin_utc_ns) / 1e9),
      odd ? " Thick: the nodes that differ; dashed: the median of the others." : "", figures);
}

std::string earlier_runs_figure(const Report& report) {
  const std::vector<Dot> dots = dots_of(report);
  if (dots.size() < 2) return "";
  Range range;
  for (const Dot& dot : dots) range.add(dot.seconds);
  std::string shapes;
  std::string rows;
  for (std::size_t i = 0; i < dots.size(); ++i) {
    const double x = (static_cast<double>(i) + 0.5) * kWidth / static_cast<double>(dots.size());
    constexpr double kRoom = 12;  // for the shape above and below
    const double y = kRoom + range.y(dots[i].seconds) / kHeight * (kDotsHeight - 2 * kRoom);
    shapes += shape_of(dots[i], x, y);
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", date_and_time(dots[i].begin_utc_ns),
                        duration(dots[i].seconds), dots[i].words);
  }
  return fmt::format(
      "<figure class=\"runs\"><figcaption>Run time of this run (diamond) and of the {} before it, the newest at the "
      "right; from 0 to {}. Filled: in the baseline.</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"Run times of {} runs\"><path class=\"axis\" d=\"M0 {}H{}\"/>{}</svg>\n<div "
      "class=\"unseen\"><table><caption>Run times</caption><thead><tr><th scope=\"col\">Began</th><th "
      "scope=\"col\">Run "
      "time</th><th scope=\"col\">Use</th></tr></thead><tbody>{}</tbody></table></div></figure>\n",
      dots.size() - 1, duration(range.high()), kWidth, kDotsHeight, dots.size(), kDotsHeight - 1, kWidth, shapes, rows);
}

}  // namespace reveal
