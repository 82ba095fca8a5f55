#include "postproc/report/evidence_picture.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "postproc/report/palette_image.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/metric_facts.h"

namespace reveal {
namespace {

constexpr int kPictureWidth = 480;  // beside the labels in a column of 600
constexpr int kPictureHeight = 130;
constexpr int kSharp = 2;  // points of the file for each one shown
constexpr int kLineWidth = 3;
constexpr int kDash = 14;
constexpr int kLeastBand = 4;       // pixels of a second within a day
constexpr double kMostOfJob = 0.9;  // a band over all of the job hides what happened within
constexpr std::size_t kMostBands = 50;

enum PictureColour : std::uint8_t { kNoColour, kGridColour, kBandColour, kExpectedColour, kLineColour };
// Middle tones, and translucent areas: readable on white and on black.
constexpr PaletteColour kPictureColours[] = {
    {0, 0, 0, 0}, {138, 148, 163, 90}, {224, 150, 40, 80}, {176, 122, 40, 255}, {45, 125, 210, 255}};

/// More than a report has: reports are files of users, and a picture must not take long.
constexpr std::size_t kMostPicturePoints = 5000;
constexpr double kLongestRun = 3.2e8;                           // seconds, ten years
constexpr std::int64_t kLastBegin = 4'100'000'000'000'000'000;  // in the year 2099

bool can_be_drawn(const TimelineChannel& channel) {
  const auto points = static_cast<double>(channel.values.size());
  return points > 1 && channel.values.size() <= kMostPicturePoints && std::abs(channel.begin_seconds) < kLongestRun &&
         channel.step_seconds > 0 && points * channel.step_seconds < kLongestRun &&
         channel.begin_seconds + channel.step_seconds * (points - 1) > channel.begin_seconds;
}

/// The timeline has the sum over the instances where the evidence is about all of them.
bool is_evidence(const TimelineChannel& channel, const Evidence& evidence) {
  if (!evidence.node.empty() && channel.node != evidence.node) return false;
  return channel.name == channel_name(evidence.metric, evidence.instance) || channel.name == evidence.metric;
}

/// The first channel of the evidence that the timeline has.
std::optional<TimelineChannel> drawn_channel(const Finding& finding, const Report& report) {
  constexpr std::size_t kMost = 64;  // a report of another user may have millions
  std::vector<const TimelineChannel*> drawable;
  for (const TimelineChannel& channel : report.timeline) {
    if (drawable.size() < kMost && can_be_drawn(channel)) drawable.push_back(&channel);
  }
  for (std::size_t i = 0; i < std::min(finding.evidence.size(), kMost); ++i) {
    const Evidence& evidence = finding.evidence[i];
    for (const TimelineChannel* channel : drawable) {
      if (!is_evidence(*channel, evidence)) continue;
      TimelineChannel drawn = *channel;
      const bool alone = channel->name == channel_name(evidence.metric, evidence.instance);
      if (!drawn.expected && alone && evidence.unit == channel->unit) drawn.expected = evidence.expected;
      return drawn;
    }
  }
  return std::nullopt;
}

struct ValueRange {
  double low = 0, high = 0;
};

/// From zero, so that a small change does not look large.
std::optional<ValueRange> range_of(const TimelineChannel& channel) {
  ValueRange range;
  bool any = false;
  const auto include = [&](double value) {
    if (!std::isfinite(value)) return;
    any = true;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  };
  for (const double value : channel.values) include(value);
  if (!any) return std::nullopt;
  if (channel.expected) include(*channel.expected);
  if (range.high <= range.low) range.high = range.low + 1;
  return std::isfinite(range.high - range.low) ? std::optional(range) : std::nullopt;
}

class EvidenceDrawing {
 public:
  EvidenceDrawing(const TimelineChannel& channel, ValueRange range)
      : channel_(channel), range_(range), image_(kPictureWidth * kSharp, kPictureHeight * kSharp) {}

  void grid() {
    for (int part = 0; part <= 4; ++part) {
      const int y = part * (image_.height() - kSharp) / 4;
      image_.fill(0, y, image_.width(), y + kSharp, kGridColour);
    }
  }

  void band(double begin_seconds, double end_seconds) {
    const int left = static_cast<int>(x_of(begin_seconds));
    const int right = std::max(static_cast<int>(x_of(end_seconds)), left + kLeastBand * kSharp);
    image_.fill(left, 0, right, image_.height(), kBandColour);
  }

  void expected(double value) {
    const int y = static_cast<int>(y_of(value));
    for (int x = 0; x < image_.width(); x += 2 * kDash)
      image_.fill(x, y - kSharp, x + kDash, y + kSharp, kExpectedColour);
  }

  void values() {
    for (std::size_t i = 0; i < channel_.values.size(); ++i) {
      if (!std::isfinite(channel_.values[i])) continue;
      const std::size_t before = i > 0 && std::isfinite(channel_.values[i - 1]) ? i - 1 : i;
      image_.line(x_of(seconds_of(before)), y_of(channel_.values[before]), x_of(seconds_of(i)),
                  y_of(channel_.values[i]), kLineWidth, kLineColour);
    }
  }

  [[nodiscard]] std::string png() const { return image_.png(kPictureColours); }
  [[nodiscard]] double first_second() const { return channel_.begin_seconds; }
  [[nodiscard]] double last_second() const { return seconds_of(channel_.values.size() - 1); }

 private:
  [[nodiscard]] double seconds_of(std::size_t i) const {
    return channel_.begin_seconds + channel_.step_seconds * static_cast<double>(i);
  }
  /// 0 for what is no number, which std::clamp() would keep.
  [[nodiscard]] static double within(double share) { return share > 0 ? std::min(share, 1.0) : 0; }
  [[nodiscard]] double x_of(double seconds) const {
    const double share = (seconds - first_second()) / (last_second() - first_second());
    return within(share) * (image_.width() - 1);
  }
  [[nodiscard]] double y_of(double value) const {
    const double share = (value - range_.low) / (range_.high - range_.low);
    const int edge = kLineWidth / 2 + 1;  // a line along the edge keeps its width
    return edge + (1 - within(share)) * (image_.height() - 1 - 2 * edge);
  }

  const TimelineChannel& channel_;
  ValueRange range_;
  PaletteImage image_;
};

/// False for times that a user may have written into the file.
bool is_plausible(std::int64_t utc_ns) {
  return utc_ns > 0 && utc_ns < kLastBegin;
}

double seconds_between(std::int64_t begin_utc_ns, std::int64_t end_utc_ns) {
  return (static_cast<double>(end_utc_ns) - static_cast<double>(begin_utc_ns)) / 1e9;
}

std::vector<TimeSpan> bands_of(const Finding& finding, const ReportJob& job) {
  if (!is_plausible(job.begin_utc_ns) || finding.kind == FindingKind::peer || finding.kind == FindingKind::history)
    return {};
  const double run = seconds_between(job.begin_utc_ns, job.end_utc_ns);
  std::vector<TimeSpan> bands;
  for (const TimeSpan& span : finding.intervals) {
    const double length = seconds_between(span.begin_utc_ns, span.end_utc_ns);
    if (span.begin_utc_ns != 0 && length <= kMostOfJob * run && bands.size() < kMostBands) bands.push_back(span);
  }
  return bands;
}

/// The times at its left and right edge.
void add_times(const EvidenceDrawing& drawing, const ReportJob& job, EvidencePicture& picture) {
  if (!is_plausible(job.begin_utc_ns)) {
    picture.begin = duration(drawing.first_second());
    picture.end = duration(drawing.last_second());
    return;
  }
  const auto utc_ns = [&job](double seconds) { return job.begin_utc_ns + static_cast<std::int64_t>(seconds * 1e9); };
  const std::int64_t begin = utc_ns(drawing.first_second());
  constexpr std::string_view kTo = " to ";
  const std::string both = clock_span(begin, utc_ns(drawing.last_second()), begin);
  const std::size_t to = both.find(kTo);  // a chart of less than a second has one time
  picture.begin = both.substr(0, to);
  picture.end = to == std::string::npos ? both : both.substr(to + kTo.size());
}

void add_labels(const TimelineChannel& channel, const EvidenceDrawing& drawing, ValueRange range, const Report& report,
                EvidencePicture& picture) {
  picture.channel = channel.name;
  if (several_nodes(report) && !channel.node.empty()) picture.channel += " on " + channel.node;
  // In the units of the sentences.
  const auto shown = [&channel, metric = std::string_view(channel.name).substr(0, channel.name.find('/'))](
                         std::optional<double> value) { return quantity_of(metric, value, channel.unit); };
  picture.top = shown(range.high);
  picture.bottom = shown(range.low);
  add_times(drawing, report.job, picture);
  if (channel.expected) picture.expected = shown(channel.expected);
}

std::string picture_in_words(const EvidencePicture& picture) {
  std::string words =
      fmt::format("Chart: {} from {} to {}, up to {}", picture.channel, picture.begin, picture.end, picture.top);
  if (!picture.expected.empty()) words += ", expected " + picture.expected;
  if (!picture.band.empty()) words += "; the finding: " + picture.band;
  return words + ".";
}

}  // namespace

std::optional<EvidencePicture> evidence_picture(const Report& report) {
  const std::vector<const Finding*> shown = shown_findings(report);
  if (shown.empty()) return std::nullopt;
  const std::optional<TimelineChannel> channel = drawn_channel(*shown.front(), report);
  const std::optional<ValueRange> range = channel ? range_of(*channel) : std::nullopt;
  if (!range) return std::nullopt;
  EvidencePicture picture{.width = kPictureWidth, .height = kPictureHeight};
  EvidenceDrawing drawing(*channel, *range);
  drawing.grid();
  const std::vector<TimeSpan> bands = bands_of(*shown.front(), report.job);
  for (const TimeSpan& span : bands) {
    drawing.band(seconds_between(report.job.begin_utc_ns, span.begin_utc_ns),
                 seconds_between(report.job.begin_utc_ns, span.end_utc_ns));
  }
  if (channel->expected) drawing.expected(*channel->expected);
  drawing.values();
  picture.png = drawing.png();
  if (!bands.empty()) {
    picture.band = clock_span(bands.front().begin_utc_ns, bands.front().end_utc_ns, report.job.begin_utc_ns);
  }
  if (bands.size() > 1) picture.band += fmt::format(" and {} more", bands.size() - 1);
  add_labels(*channel, drawing, *range, report, picture);
  picture.words = picture_in_words(picture);
  return picture;
}

}  // namespace reveal
