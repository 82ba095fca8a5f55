#include "postproc/analysis/node_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/zlib_text.h"
#include "postproc/analysis/summary_fields.h"

namespace reveal {
namespace {

constexpr std::size_t kMostForeign = 4 * kLargestSummary;  // size of a file that may come from another version or user

bool is_made_from(const NodeSummary& summary, const ListedTrace& trace) {
  // A copy of a downsampled trace may have another time.
  const bool same_time = summary.downsampled || summary.trace_mtime_ns == trace.mtime_ns;
  return summary.trace == trace.path.filename().string() && summary.trace_bytes == trace.bytes && same_time;
}

/// Throws Error.
NodeSummary read_summary(const ListedTrace& trace) {
  return parse_summary(read_text_file(trace.path.parent_path() / summary_name(trace.path), kMostForeign));
}

std::string dump(const NodeSummary& summary) {
  Json json = JsonWriter::whole(summary);
  json["report"].erase("units");  // for other readers of a report
  return json_text(json) + "\n";
}

}  // namespace

void downsample(TimelineChannel& channel, std::size_t most) {
  const std::size_t size = channel.values.size();
  if (most == 0 || size <= most) return;
  const std::size_t each = (size + most - 1) / most;
  std::vector<double> means;
  for (std::size_t begin = 0; begin < size; begin += each) {
    double sum = 0;
    std::size_t present = 0;
    for (std::size_t i = begin; i < std::min(size, begin + each); ++i) {
      if (std::isnan(channel.values[i])) continue;
      sum += channel.values[i];
      ++present;
    }
    means.push_back(present > 0 ? sum / static_cast<double>(present) : std::numeric_limits<double>::quiet_NaN());
  }
  channel.values = std::move(means);
  channel.step_seconds *= static_cast<double>(each);
}

void leave_points_in_file(NodeSummary& summary) {
  for (TimelineChannel& line : summary.part.timeline) std::vector<double>().swap(line.values);
}

std::string render_summary(NodeSummary summary) {
  std::string text = dump(summary);
  const auto cut = [&summary](const char* what, std::size_t count) {
    summary.part.omitted[what] += static_cast<double>(count);
  };
  // Least needed first: points of the timeline, then weak episodes, then the data that separates a phase of the whole
  // job from one node's, at last whole timelines. The means by which nodes are compared stay.
  for (int round = 0; text.size() > kLargestSummary && round < 12; ++round) {
    for (TimelineChannel& channel : summary.part.timeline) downsample(channel, channel.values.size() / 2);
    if (auto& episodes = summary.part.episodes; round >= 2 && episodes.size() > 5) {
      cut("episodes", episodes.size() / 2);
      episodes.resize((episodes.size() + 1) / 2);
    }
    if (round == 3) {
      cut("courses", 1);
      keep_trends_of({}, summary.profile);
    }
    if (auto& timeline = summary.part.timeline; round >= 4 && !timeline.empty()) {
      cut("timelines", 1);
      timeline.pop_back();
    }
    text = dump(summary);
  }
  return text;
}

NodeSummary parse_summary(std::string content) {
  const Json json = parse_json(plain_text(std::move(content), kMostForeign), "summary");
  JsonReader reader(json, "summary");
  NodeSummary summary;
  fields(reader, summary);
  summary.profile.node = summary.node;
  return summary;
}

NodeSummary publish_summary(const std::filesystem::path& trace, NodeSummary summary, Synced synced) {
  std::string text = render_summary(std::move(summary));
  publish_file(trace.parent_path(), summary_name(trace), zlib_text(text), synced);
  return parse_summary(std::move(text));
}

std::string summary_name(const std::filesystem::path& trace) {
  const std::string name = trace.filename().string();
  return name.substr(0, name.rfind(".h5")) + ".summary.json";
}

bool is_fresh(const NodeSummary& summary, const ListedTrace& trace, const std::string& config_hash) {
  return is_made_from(summary, trace) && (summary.downsampled || summary.config_hash == config_hash);
}

std::optional<NodeSummary> summary_of(const ListedTrace& trace) {
  try {
    NodeSummary summary = read_summary(trace);
    if (!is_made_from(summary, trace)) return std::nullopt;
    return summary;
  } catch (const Error&) {
    return std::nullopt;  // missing or damaged: it is made again from the trace
  }
}

std::vector<TimelineChannel> stored_lines(const ListedTrace& trace, const NodeSummary& summary) {
  try {
    NodeSummary stored = read_summary(trace);
    const ReportJob& there = stored.part.job;
    const ReportJob& here = summary.part.job;
    const bool same = stored.node == summary.node && there.begin_utc_ns == here.begin_utc_ns &&
                      there.end_utc_ns == here.end_utc_ns && there.trace_ids == here.trace_ids;
    return same ? std::move(stored.part.timeline) : std::vector<TimelineChannel>();
  } catch (const Error&) {
    return {};
  }
}

std::optional<NodeSummary> fresh_summary(const ListedTrace& trace, const std::string& config_hash) {
  auto summary = summary_of(trace);
  if (summary && !is_fresh(*summary, trace, config_hash)) summary.reset();
  return summary;
}

}  // namespace reveal
