#include "postproc/analysis/annotated_windows.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/version.h"
#include "postproc/detect/paper/detector.h"
#include "postproc/detect/paper/paper_pipeline.h"
#include "postproc/detect/paper/pruning.h"
#include "postproc/json/json_fields.h"
#include "postproc/telemetry/load.h"
#include "postproc/telemetry/telemetry_csv.h"
#include "postproc/telemetry/telemetry_table.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kTextPerCall = 1 << 20;

/// The channels that meet a pattern. Throws Error for a pattern that meets none.
std::vector<std::size_t> channels_of(const Telemetry& telemetry, const std::vector<std::string>& patterns) {
  std::vector<bool> wanted(telemetry.channels.size(), false);
  for (const std::string& pattern : patterns) {
    bool met = false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!meets_pattern(pattern, telemetry.channels[i])) continue;
      met = wanted[i] = true;
    }
    if (!met) throw Error("this trace has no channel \"" + pattern + "\"");
  }
  std::vector<std::size_t> channels;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) channels.push_back(i);
  }
  return channels;
}

bool overlap(const TimeSpan& a, const TimeSpan& b) {
  return a.begin_utc_ns < b.end_utc_ns && b.begin_utc_ns < a.end_utc_ns;
}

Json column(const std::string& name, const char* type, const std::string& description) {
  return {{"name", name}, {"titles", name}, {"datatype", type}, {"dc:description", description}};
}

}  // namespace

struct AnnotatedWindows::Impl {
  const Report& report;
  NodeTrace trace;
  WindowVotes votes;
  FeatureMatrix features;

  [[nodiscard]] TimeSpan span_of(std::size_t window) const {
    const Telemetry& telemetry = trace.telemetry;
    const auto at = [&telemetry](std::size_t sample) {
      return telemetry.begin_utc_ns + std::llround(static_cast<double>(sample) * telemetry.step_seconds * 1e9);
    };
    return {at(votes.grid.first_sample(window)), at(votes.grid.end_sample(window))};
  }

  /// How clearly the clearest interval stands out that the report has in this time.
  [[nodiscard]] Tier tier_in(const TimeSpan& span) const {
    Tier clearest = Tier::none;
    for (const ReportEpisode& episode : report.episodes) {
      if (episode.node == trace.telemetry.node && overlap(episode.span, span))
        clearest = std::max(clearest, episode.tier);
    }
    return clearest;
  }

  [[nodiscard]] std::string findings_in(const TimeSpan& span) const {
    std::string ids;
    for (const Finding& finding : report.findings) {
      if (std::find(finding.nodes.begin(), finding.nodes.end(), trace.telemetry.node) == finding.nodes.end()) continue;
      const auto meets = [&span](const TimeSpan& interval) { return overlap(interval, span); };
      if (std::none_of(finding.intervals.begin(), finding.intervals.end(), meets)) continue;
      ids += (ids.empty() ? "" : ";") + finding.id;
    }
    return ids;
  }

  [[nodiscard]] std::string column_of(const FeatureMatrix::Column& column) const {
    return fmt::format("{}:{}", trace.telemetry.channels[column.channel].name(), column.feature->name);
  }
};

AnnotatedWindows::AnnotatedWindows(const Report& report, const ListedTrace& trace,
                                   const std::vector<std::string>& metrics)
    : impl_(new Impl{.report = report, .trace = load_trace(trace.path), .votes = {}, .features = {}}) {
  const Telemetry& telemetry = impl_->trace.telemetry;
  const DetectOptions options;
  const WindowGrid grid =
      window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, 0, telemetry.samples);
  if (grid.count == 0) {
    throw Error(trace.path.string() + ": " + too_short(telemetry.samples, grid.length, telemetry.step_seconds));
  }
  const std::vector<std::size_t> chosen = channels_of(telemetry, metrics);
  if (grid.count >= kLeastWindows) {
    impl_->votes = window_votes(telemetry, options, grid);
  } else {
    impl_->votes.grid = grid;
    impl_->votes.channels = prune(telemetry, 0, telemetry.samples, options.prune_above);
    for (const Detector& detector : detectors()) impl_->votes.methods.push_back(detector.method);
  }
  impl_->features =
      feature_matrix(telemetry, metrics.empty() ? impl_->votes.channels : chosen, grid, is_summed_in_paper);
}

AnnotatedWindows::~AnnotatedWindows() = default;

void AnnotatedWindows::write_csv(const std::function<void(std::string_view)>& out) const {
  const WindowVotes& votes = impl_->votes;
  std::string text = "begin,end";
  for (const Method method : votes.methods)
    fmt::format_to(std::back_inserter(text), ",score_{0},top_{0}", name_of(method));
  text += ",agreement,interval,findings";
  for (const FeatureMatrix::Column& column : impl_->features.columns) text += ',' + csv_field(impl_->column_of(column));
  text += '\n';
  for (std::size_t window = 0; window < votes.grid.count; ++window) {
    const TimeSpan span = impl_->span_of(window);
    text += iso_milliseconds(span.begin_utc_ns) + ',' + iso_milliseconds(span.end_utc_ns);
    if (votes.scores.empty()) {  // too few windows to rank
      text.append(2 * votes.methods.size() + 1, ',');
    } else {
      for (std::size_t m = 0; m < votes.methods.size(); ++m) {
        fmt::format_to(std::back_inserter(text), ",{},{}", votes.scores[m][window], votes.flags[m][window] ? 1 : 0);
      }
      fmt::format_to(std::back_inserter(text), ",{}", votes.agreement(window));
    }
    fmt::format_to(std::back_inserter(text), ",{},{}", name_of(impl_->tier_in(span)),
                   csv_field(impl_->findings_in(span)));
    for (Eigen::Index column = 0; column < impl_->features.values.cols(); ++column) {
      const double value = impl_->features.values(static_cast<Eigen::Index>(window), column);
      text += ',';
      if (!std::isnan(value)) fmt::format_to(std::back_inserter(text), "{}", value);
      if (text.size() >= kTextPerCall) out(std::exchange(text, {}));
    }
    text += '\n';
  }
  out(text);
}

std::string AnnotatedWindows::schema() const {
  const Telemetry& telemetry = impl_->trace.telemetry;
  const ReportJob& job = impl_->report.job;
  Json columns = Json::array();
  columns.push_back(column("begin", "dateTime", "begin of the window, UTC"));
  columns.push_back(column("end", "dateTime", "end of the window, exclusive, UTC"));
  for (const Method method : impl_->votes.methods) {
    const std::string name(name_of(method));
    columns.push_back(column("score_" + name, "double",
                             "score by detector " + name +
                                 " of arXiv 2510.26008, section 4.3, of the channels that "
                                 "pruning retains; higher is more unusual"));
    columns.push_back(column("top_" + name, "boolean", "1 in the highest 1 % of score_" + name));
  }
  columns.push_back(column("agreement", "integer", "number of detectors that have the window in their highest 1 %"));
  columns.push_back(column("interval", "string",
                           "strong, weak or none: the clearest interval that the report has in this time, on this "
                           "node"));
  columns.push_back(column("findings", "string",
                           "rules with a finding in this time on this node, separated by ';'; reveal rules ID explains "
                           "one"));
  for (const FeatureMatrix::Column& each : impl_->features.columns) {
    columns.push_back(column(impl_->column_of(each), "double",
                             fmt::format("{} ({}) of {}", each.feature->name, each.feature->reference,
                                         column_name(telemetry.channels[each.channel], telemetry.step_seconds))));
  }
  Json tags = Json::object();
  for (const auto& [key, value] : job.tags) tags[key] = value;
  const WindowGrid& grid = impl_->votes.grid;
  const Json table = {
      {"@context", "http://www.w3.org/ns/csvw"},
      {"dc:title", fmt::format("Annotated windows of {} on node {}",
                               job.id.empty() ? impl_->report.directory : "job " + job.id, telemetry.node)},
      {"dc:creator", "reveal " REVEAL_VERSION},
      {"tableSchema", {{"columns", std::move(columns)}}},
      {"notes",
       {{{"job", job.id},
         {"name", job.name},
         {"node", telemetry.node},
         {"report", impl_->report.report_id},
         {"verdict", name_of(impl_->report.verdict.status)},
         {"tags", std::move(tags)},
         {"windows", grid.count},
         {"window_seconds", static_cast<double>(grid.length) * telemetry.step_seconds},
         {"stride_seconds", static_cast<double>(grid.stride) * telemetry.step_seconds},
         {"step_seconds", telemetry.step_seconds}}}}};
  return table.dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
}

}  // namespace reveal
