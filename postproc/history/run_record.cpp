#include "postproc/history/run_record.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/json_number.h"
#include "postproc/telemetry/shallow_json.h"

namespace reveal {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kSchema = "reveal.run/1";
constexpr std::size_t kMostChannels = 400;
constexpr std::size_t kMostRecordedFacts = 300;

/// Part of what makes runs comparable, so it cannot be what changed between them; or a moment's choice.
constexpr std::string_view kNotConfiguration[] = {"env.SLURM_JOB_NAME", "env.SLURM_JOB_NUM_NODES", "env.SLURM_NTASKS",
                                                  "job.cpus_"};

}  // namespace

const RunChannel* RunRecord::find(std::string_view channel) const {
  const auto at = std::lower_bound(channels.begin(), channels.end(), channel,
                                   [](const RunChannel& one, std::string_view wanted) { return one.name < wanted; });
  return at != channels.end() && at->name == channel ? &*at : nullptr;
}

double RunRecord::value_of(std::string_view channel) const {
  if (const RunChannel* known = find(channel)) return known->value;
  return std::binary_search(zeros.begin(), zeros.end(), channel) ? 0 : std::numeric_limits<double>::quiet_NaN();
}

void summarise_nodes(const std::vector<const NodeProfile*>& nodes, RunRecord& record) {
  struct Sum {
    RunChannel channel;
    double sum = 0;
    std::size_t nodes = 0;
  };
  std::map<std::string, Sum> sums;
  std::map<std::string, std::size_t> zeros;
  std::map<std::string, std::map<std::string, std::size_t>> facts;
  for (const NodeProfile* node : nodes) {
    for (const std::string& zero : node->zeros) ++zeros[zero];
    for (const ProfileChannel& channel : node->channels) {
      // One device's share is chance; the node's total is the job's.
      if (channel.inherited || channel.name.find('/') != std::string::npos) continue;
      Sum& sum = sums[channel.name];
      if (sum.nodes == 0) sum.channel = {channel.name, channel.unit, channel.subsystem, channel.kind, 0};
      if (sum.channel.unit != channel.unit) continue;
      sum.sum += channel.mean;
      ++sum.nodes;
    }
    for (const auto& [key, value] : node->facts) ++facts[key][value];
  }
  for (auto& [name, sum] : sums) {
    if (record.channels.size() >= kMostChannels) break;
    const auto zero = zeros.find(name);
    sum.channel.value =
        four_digits(sum.sum / static_cast<double>(sum.nodes + (zero == zeros.end() ? 0 : zero->second)));
    record.channels.push_back(sum.channel);
  }
  for (const auto& [name, count] : zeros) {
    if (sums.count(name) == 0 && name.find('/') == std::string::npos) record.zeros.push_back(name);
  }
  for (const auto& [key, values] : facts) {
    const bool configured = std::none_of(std::begin(kNotConfiguration), std::end(kNotConfiguration),
                                         [&key = key](std::string_view prefix) { return key.starts_with(prefix); });
    // Where nodes differ among themselves, the peers' comparison has the word.
    if (configured && values.size() == 1 && record.facts.size() < kMostRecordedFacts) {
      record.facts.emplace_back(key, values.begin()->first);
    }
  }
}

std::string render_run(const RunRecord& record) {
  Json json = Json::object();
  json["schema"] = kSchema;
  json["run_id"] = record.run_id;
  json["key"] = record.key;
  json["name"] = record.name;
  json["command"] = record.command;
  json["nodes"] = record.nodes;
  json["ranks"] = record.ranks;
  json["begin_utc_ns"] = record.begin_utc_ns;
  json["seconds"] = record.seconds;
  json["verdict"] = record.verdict;
  json["findings"] = record.findings;
  json["accepted"] = record.accepted;
  json["why_not"] = record.why_not;
  json["channel_columns"] = {"channel", "unit", "subsystem", "kind", "value"};
  json["channels"] = Json::array();
  for (const RunChannel& channel : record.channels) {
    json["channels"].push_back(
        {channel.name, channel.unit, name_of(channel.subsystem), name_of(channel.kind), channel.value});
  }
  json["zeros"] = record.zeros;
  json["facts"] = Json::object();
  for (const auto& [key, value] : record.facts) json["facts"][key] = value;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

RunRecord parse_run(const std::string& text) {
  try {
    const Json json = Json::parse(shallow(text));
    if (json.at("schema") != kSchema) throw Error("another schema than " + std::string(kSchema));
    RunRecord record;
    record.run_id = json.at("run_id").get<std::string>();
    record.key = json.at("key").get<std::string>();
    record.name = json.at("name").get<std::string>();
    record.command = json.at("command").get<std::string>();
    record.nodes = whole_number<std::size_t>(json.at("nodes"));
    record.ranks = json.at("ranks").get<std::string>();
    record.begin_utc_ns = whole_number<std::int64_t>(json.at("begin_utc_ns"));
    record.seconds = json.at("seconds").get<double>();
    record.verdict = json.at("verdict").get<std::string>();
    record.findings = json.at("findings").get<std::vector<std::string>>();
    record.accepted = json.at("accepted").get<bool>();
    record.why_not = json.at("why_not").get<std::string>();
    for (const Json& row : json.at("channels")) {
      const auto subsystem = subsystem_of(row.at(2).get<std::string>());
      const auto kind = kind_of(row.at(3).get<std::string>());
      if (!subsystem || !kind || !row.at(4).is_number()) continue;  // of a later version
      record.channels.push_back(
          {row.at(0).get<std::string>(), row.at(1).get<std::string>(), *subsystem, *kind, row.at(4).get<double>()});
    }
    record.zeros = json.at("zeros").get<std::vector<std::string>>();
    for (const auto& [key, value] : json.at("facts").items()) record.facts.emplace_back(key, value.get<std::string>());
    std::sort(record.channels.begin(), record.channels.end(),
              [](const RunChannel& a, const RunChannel& b) { return a.name < b.name; });
    std::sort(record.zeros.begin(), record.zeros.end());
    std::sort(record.facts.begin(), record.facts.end());
    if (!(record.seconds >= 0) || record.begin_utc_ns < 0) throw Error("a run with an impossible time");
    return record;
  } catch (const Json::exception& error) {
    throw Error(std::string("not a record of a run: ") + error.what());
  }
}

}  // namespace reveal
