#include "postproc/analysis/annotated_windows.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/version.h"
#include "postproc/detect/paper/detector.h"
#include "postproc/detect/paper/paper_pipeline.h"
#include "postproc/detect/paper/pruning.h"
#include "postproc/json/json_fields.h"
#include "postproc/telemetry/left_out_traces.h"
#include "postproc/telemetry/load.h"
#include "postproc/telemetry/telemetry_csv.h"
#include "postproc/telemetry/telemetry_table.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kTextPerCall = 1 << 20;

/// The channels that meet a pattern; adds the patterns that any channel meets to `met`.
std::vector<std::size_t> channels_of(const Telemetry& telemetry, const std::vector<std::string>& patterns,
                                     std::set<std::string>& met) {
  std::vector<std::size_t> channels;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    bool wanted = false;
    for (const std::string& pattern : patterns) {
      if (!meets_pattern(pattern, telemetry.channels[i])) continue;
      met.insert(pattern);
      wanted = true;
    }
    if (wanted) channels.push_back(i);
  }
  return channels;
}

/// As feature_matrix() has them.
std::vector<const Feature*> features_of(const Channel& channel) {
  if (is_summed_in_paper(channel)) return {&event_feature()};
  std::vector<const Feature*> all;
  for (const Feature& feature : features()) all.push_back(&feature);
  return all;
}

std::string feature_column(const Channel& channel, const Feature& feature) {
  return printable(fmt::format("{}:{}", channel.name(), feature.name));
}

/// A node's windows with all that their lines need.
struct NodeWindows {
  const Report& report;
  const std::string& node;
  const Telemetry& telemetry;
  WindowVotes votes;
  FeatureMatrix features;

  [[nodiscard]] TimeSpan span_of(std::size_t window) const {
    const auto at = [this](std::size_t sample) {
      return telemetry.begin_utc_ns + std::llround(static_cast<double>(sample) * telemetry.step_seconds * 1e9);
    };
    return {at(votes.grid.first_sample(window)), at(votes.grid.end_sample(window))};
  }

  /// Whether the detectors saw a value of the window: they take a missing one for the mean.
  [[nodiscard]] bool is_ranked(std::size_t window) const {
    if (votes.scores.empty()) return false;  // too few windows
    const auto least = static_cast<std::ptrdiff_t>((1 - kMaxMissing) * static_cast<double>(votes.grid.length));
    return std::any_of(votes.channels.begin(), votes.channels.end(), [&](std::size_t channel) {
      const auto values = telemetry.series(channel).subspan(votes.grid.first_sample(window), votes.grid.length);
      return std::count_if(values.begin(), values.end(), [](double v) { return !std::isnan(v); }) >= least;
    });
  }

  /// How clearly the clearest interval stands out that the report has in this time.
  [[nodiscard]] Tier tier_in(const TimeSpan& span) const {
    Tier clearest = Tier::none;
    for (const ReportEpisode& episode : report.episodes) {
      if (episode.node == node && episode.span.overlaps(span)) clearest = std::max(clearest, episode.tier);
    }
    return clearest;
  }

  [[nodiscard]] std::string findings_in(const TimeSpan& span) const {
    std::string ids;
    for (const Finding& finding : report.findings) {
      if (std::find(finding.nodes.begin(), finding.nodes.end(), node) == finding.nodes.end()) continue;
      const auto meets = [&span](const TimeSpan& interval) { return interval.overlaps(span); };
      if (std::none_of(finding.intervals.begin(), finding.intervals.end(), meets)) continue;
      ids += (ids.empty() ? "" : ";") + printable(finding.id);
    }
    return ids;
  }

  /// The columns from `begin` to `findings`.
  void write_marks(std::size_t window, std::string& text) const {
    const TimeSpan span = span_of(window);
    text += iso_milliseconds(span.begin_utc_ns) + ',' + iso_milliseconds(span.end_utc_ns) + ',' +
            csv_field(printable(node));
    if (is_ranked(window)) {
      for (std::size_t m = 0; m < votes.methods.size(); ++m) {
        fmt::format_to(std::back_inserter(text), ",{},{}", votes.scores[m][window], votes.flags[m][window] ? 1 : 0);
      }
      fmt::format_to(std::back_inserter(text), ",{}", votes.agreement(window));
    } else {
      text.append(2 * detectors().size() + 1, ',');
    }
    fmt::format_to(std::back_inserter(text), ",{},{}", name_of(tier_in(span)), csv_field(findings_in(span)));
  }
};

Json column(const std::string& name, const char* type, const std::string& description) {
  return {{"name", name}, {"titles", name}, {"datatype", type}, {"dc:description", description}};
}

}  // namespace

struct AnnotatedWindows::Impl {
  struct Node {
    ListedTrace trace;
    std::string name;  // as the report has it
    WindowGrid grid;
    double step_seconds = 0;
    std::size_t channels = 0;           // all of the trace
    std::vector<std::size_t> retained;  // by pruning
  };
  struct TableColumn {
    std::string name, description;
  };

  const Report& report;
  LeftOutTraces left_out;
  std::vector<Node> nodes;
  std::optional<NodeTrace> loaded;  // the trace of the only node: it is read once
  std::set<std::string> channels;   // whose features are columns
  std::vector<TableColumn> columns;
  std::map<std::string, std::size_t> places;  // the columns by name

  void add_columns(const Telemetry& telemetry, std::size_t number) {
    const Channel& channel = telemetry.channels[number];
    channels.insert(channel.name());
    for (const Feature* feature : features_of(channel)) {
      const std::string name = feature_column(channel, *feature);
      if (!places.emplace(name, columns.size()).second) continue;
      columns.push_back({name, printable(fmt::format("{} ({}) of {}", feature->name, feature->reference,
                                                     column_name(channel, telemetry.step_seconds)))});
    }
  }

  void open(const ListedTrace& listed, const std::vector<std::string>& metrics, std::set<std::string>& met) {
    const DetectOptions options;
    NodeTrace trace = load_trace(listed.path);
    const Telemetry& telemetry = trace.telemetry;
    const WindowGrid grid =
        window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, 0, telemetry.samples);
    if (grid.count == 0) {
      throw Error(listed.path.string() + ": " + too_short(telemetry.samples, grid.length, telemetry.step_seconds));
    }
    Node node{.trace = listed,
              .name = telemetry.node.empty() ? listed.node : telemetry.node,
              .grid = grid,
              .step_seconds = telemetry.step_seconds,
              .channels = telemetry.channels.size(),
              .retained = prune(telemetry, 0, telemetry.samples, options.prune_above)};
    left_out.need_first_of(node.name, listed.path);
    const auto chosen = metrics.empty() ? node.retained : channels_of(telemetry, metrics, met);
    for (const std::size_t number : chosen) add_columns(telemetry, number);
    nodes.push_back(std::move(node));
    if (left_out.single()) loaded = std::move(trace);
  }

  [[nodiscard]] NodeWindows windows_of(const Node& node, const Telemetry& telemetry) const {
    const DetectOptions options;
    NodeWindows windows{
        .report = report, .node = node.name, .telemetry = telemetry, .votes = {.grid = node.grid}, .features = {}};
    windows.votes.channels = node.retained;
    if (node.grid.count >= kLeastWindows) {
      windows.votes = window_votes(telemetry, node.retained, options, node.grid);
    }
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
      if (channels.contains(telemetry.channels[i].name())) numbers.push_back(i);
    }
    windows.features = feature_matrix(telemetry, numbers, node.grid, is_summed_in_paper);
    return windows;
  }

  /// For each column of the table, the one of the node's features; -1: the node has none.
  [[nodiscard]] std::vector<Eigen::Index> in_table(const NodeWindows& windows) const {
    std::vector<Eigen::Index> from(columns.size(), -1);
    Eigen::Index number = 0;
    for (const FeatureMatrix::Column& each : windows.features.columns) {
      const auto place = places.find(feature_column(windows.telemetry.channels[each.channel], *each.feature));
      if (place != places.end() && from[place->second] < 0) from[place->second] = number;
      ++number;
    }
    return from;
  }

  void write_node(const Node& node, const std::function<void(std::string_view)>& out) {
    const NodeTrace trace = loaded ? *std::exchange(loaded, std::nullopt) : load_trace(node.trace.path);
    const Telemetry& telemetry = trace.telemetry;
    if (telemetry.channels.size() != node.channels || telemetry.samples < node.grid.end_sample(node.grid.count - 1)) {
      throw Error(node.trace.path.string() + ": it has changed while it was exported");
    }
    const NodeWindows windows = windows_of(node, telemetry);
    const std::vector<Eigen::Index> from = in_table(windows);
    std::string text;
    for (std::size_t window = 0; window < node.grid.count; ++window) {
      windows.write_marks(window, text);
      for (const Eigen::Index place : from) {
        text += ',';
        if (place < 0) continue;
        const double value = windows.features.values(static_cast<Eigen::Index>(window), place);
        if (!std::isnan(value)) fmt::format_to(std::back_inserter(text), "{}", value);
      }
      text += '\n';
      if (text.size() >= kTextPerCall) out(std::exchange(text, {}));
    }
    out(text);
  }
};

AnnotatedWindows::AnnotatedWindows(const Report& report, const std::vector<ListedTrace>& traces,
                                   const std::vector<std::string>& metrics)
    : impl_(new Impl{.report = report,
                     .left_out = LeftOutTraces(traces.size()),
                     .nodes = {},
                     .loaded = {},
                     .channels = {},
                     .columns = {},
                     .places = {}}) {
  std::set<std::string> met;
  for (const ListedTrace& trace : traces) impl_->left_out.take([&] { impl_->open(trace, metrics, met); });
  if (impl_->nodes.empty()) throw impl_->left_out.error();
  for (const std::string& pattern : metrics) {
    if (met.contains(pattern)) continue;
    throw Error((impl_->left_out.single() ? "this trace has no channel \"" : "no node has a channel \"") + pattern +
                '"');
  }
}

AnnotatedWindows::~AnnotatedWindows() = default;

void AnnotatedWindows::write_csv(const std::function<void(std::string_view)>& out) {
  std::string text = "begin,end,node";
  for (const Detector& detector : detectors())
    fmt::format_to(std::back_inserter(text), ",score_{0},top_{0}", name_of(detector.method));
  text += ",agreement,interval,findings";
  for (const Impl::TableColumn& each : impl_->columns) text += ',' + csv_field(each.name);
  out(text + '\n');
  const auto give = [&](std::string_view piece) { impl_->left_out.give([&] { out(piece); }); };
  for (const Impl::Node& node : impl_->nodes) impl_->left_out.take([&] { impl_->write_node(node, give); });
}

const std::vector<std::string>& AnnotatedWindows::left_out() const {
  return impl_->left_out.sentences();
}

std::string AnnotatedWindows::schema() const {
  const ReportJob& job = impl_->report.job;
  Json columns = Json::array();
  columns.push_back(column("begin", "dateTime", "begin of the window, UTC"));
  columns.push_back(column("end", "dateTime", "end of the window, exclusive, UTC"));
  columns.push_back(column("node", "string", "node of the window; always there, also in the table of one node"));
  for (const Detector& detector : detectors()) {
    const std::string name(name_of(detector.method));
    columns.push_back(column("score_" + name, "double",
                             "score by detector " + name +
                                 " of arXiv 2510.26008, section 4.3, of the channels that "
                                 "pruning retains; higher is more unusual; empty where nothing was measured"));
    columns.push_back(column("top_" + name, "boolean", "1 in the highest 1 % of score_" + name));
  }
  columns.push_back(column("agreement", "integer", "number of detectors that have the window in their highest 1 %"));
  columns.push_back(column("interval", "string",
                           "strong, weak or none: the clearest interval that the report has in this time, on this "
                           "node"));
  columns.push_back(column("findings", "string",
                           "rules with a finding in this time on this node, separated by ';'; reveal rules ID explains "
                           "one"));
  for (const Impl::TableColumn& each : impl_->columns) columns.push_back(column(each.name, "double", each.description));
  Json tags = Json::object();
  for (const auto& [key, value] : job.tags) tags[key] = value;
  Json nodes = Json::array();
  for (const Impl::Node& node : impl_->nodes) {
    nodes.push_back({{"node", node.name},
                     {"windows", node.grid.count},
                     {"window_seconds", static_cast<double>(node.grid.length) * node.step_seconds},
                     {"stride_seconds", static_cast<double>(node.grid.stride) * node.step_seconds},
                     {"step_seconds", node.step_seconds}});
  }
  const Json table = {
      {"@context", "http://www.w3.org/ns/csvw"},
      {"dc:title", "Annotated windows of " + (job.id.empty() ? impl_->report.directory : "job " + job.id)},
      {"dc:creator", "reveal " REVEAL_VERSION},
      {"tableSchema", {{"columns", std::move(columns)}}},
      {"notes",
       {{{"job", job.id},
         {"name", job.name},
         {"report", impl_->report.report_id},
         {"verdict", name_of(impl_->report.verdict.status)},
         {"tags", std::move(tags)},
         {"nodes", std::move(nodes)}}}}};
  return table.dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
}

}  // namespace reveal
