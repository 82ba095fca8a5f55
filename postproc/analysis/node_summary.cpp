#include "postproc/analysis/node_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/json_number.h"
#include "postproc/telemetry/publish.h"
#include "postproc/telemetry/shallow_json.h"

namespace reveal {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kSchema = "reveal.summary/1";

std::string dump(const NodeSummary& summary) {
  Json json;
  json["schema"] = kSchema;
  json["node"] = summary.node;
  json["tool_version"] = summary.tool_version;
  json["config_hash"] = summary.config_hash;
  json["trace"] = {{"file", summary.trace},
                   {"bytes", summary.trace_bytes},
                   {"mtime_ns", summary.trace_mtime_ns},
                   {"complete", summary.complete},
                   {"thinned", summary.thinned}};
  json["seconds"] = summary.seconds;
  json["boot_id"] = summary.boot_id;
  json["insufficient"] = summary.insufficient;
  json["damaged"] = summary.damaged;
  json["expected_nodes"] = summary.expected_nodes;
  json["live_channels"] = summary.live_channels;
  Json aggregates = Json::array();
  for (const ChannelAggregate& channel : summary.aggregates) {
    aggregates.push_back({channel.name, channel.unit, channel.mean, channel.minimum, channel.maximum});
  }
  json["aggregate_columns"] = {"channel", "unit", "mean", "minimum", "maximum"};
  json["aggregates"] = std::move(aggregates);
  json["profile"] = Json::parse(render_profile(summary.profile));
  json["report"] = Json::parse(render_json(summary.part));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void thin(TimelineChannel& channel, std::size_t most) {
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

std::string render_summary(NodeSummary summary) {
  std::string text = dump(summary);
  const auto cut = [&summary](const char* what, std::size_t count) {
    summary.part.omitted[what] += static_cast<double>(count);
  };
  // Least needed first: points of the timeline, then quiet channels, then weak episodes, then what tells a phase of the
  // whole job from one node's, at last whole timelines. The means by which nodes are compared stay.
  for (int round = 0; text.size() > kLargestSummary && round < 12; ++round) {
    for (TimelineChannel& channel : summary.part.timeline) thin(channel, channel.values.size() / 2);
    if (summary.aggregates.size() > 50) {
      cut("aggregates", summary.aggregates.size() / 2);
      summary.aggregates.resize((summary.aggregates.size() + 1) / 2);
    }
    if (auto& episodes = summary.part.episodes; round >= 2 && episodes.size() > 5) {
      cut("episodes", episodes.size() / 2);
      episodes.resize((episodes.size() + 1) / 2);
    }
    if (round == 3) {
      cut("courses", 1);
      for (ProfileChannel& channel : summary.profile.channels) channel.line.clear();
    }
    if (auto& timeline = summary.part.timeline; round >= 4 && !timeline.empty()) {
      cut("timelines", 1);
      timeline.pop_back();
    }
    text = dump(summary);
  }
  return text;
}

NodeSummary parse_summary(const std::string& text) {
  try {
    const Json json = Json::parse(shallow(text));
    if (json.at("schema") != kSchema) throw Error("another schema than " + std::string(kSchema));
    NodeSummary summary;
    summary.node = json.at("node");
    summary.tool_version = json.at("tool_version");
    summary.config_hash = json.at("config_hash");
    summary.trace = json.at("trace").at("file");
    summary.trace_bytes = whole_number<std::uint64_t>(json.at("trace").at("bytes"));
    summary.trace_mtime_ns = whole_number<std::int64_t>(json.at("trace").at("mtime_ns"));
    summary.complete = json.at("trace").at("complete");
    summary.thinned = json.at("trace").value("thinned", false);
    summary.seconds = json.at("seconds");
    summary.boot_id = json.at("boot_id");
    summary.insufficient = json.at("insufficient");
    summary.damaged = json.value("damaged", "");
    summary.expected_nodes = json.at("expected_nodes").get<std::vector<std::string>>();
    summary.live_channels = whole_number<std::size_t>(json.at("live_channels"));
    for (const Json& row : json.at("aggregates")) {
      summary.aggregates.push_back({row.at(0), row.at(1), row.at(2), row.at(3), row.at(4)});
    }
    summary.part = parse_report(json.at("report").dump());
    // Summaries of an earlier version have none: such a node is reported, and not compared.
    if (const auto profile = json.find("profile"); profile != json.end())
      summary.profile = parse_profile(profile->dump());
    summary.profile.node = summary.node;
    return summary;
  } catch (const Json::exception& error) {
    throw Error(std::string("not a summary: ") + error.what());
  }
}

std::string summary_name(const std::filesystem::path& trace) {
  const std::string name = trace.filename().string();
  return name.substr(0, name.rfind(".h5")) + ".summary.json";
}

std::optional<NodeSummary> summary_of(const ListedTrace& trace) {
  try {
    NodeSummary summary =
        parse_summary(read_text_file(trace.path.parent_path() / summary_name(trace.path), 4 * kLargestSummary));
    // A copy of a thinned trace may have another time.
    const bool same_time = summary.thinned || summary.trace_mtime_ns == trace.mtime_ns;
    if (summary.trace != trace.path.filename().string() || summary.trace_bytes != trace.bytes || !same_time) {
      return std::nullopt;
    }
    return summary;
  } catch (const Error&) {
    return std::nullopt;  // missing or damaged: it is made again from the trace
  }
}

std::optional<NodeSummary> fresh_summary(const ListedTrace& trace, const std::string& config_hash) {
  auto summary = summary_of(trace);
  if (summary && !summary->thinned && summary->config_hash != config_hash) summary.reset();
  return summary;
}

}  // namespace reveal
