#include "postproc/history/run_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "hdf5schema/basics/error.h"
#include "postproc/history/run_fields.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kMostChannels = 400;
constexpr std::size_t kMostRecordedFacts = 300;

/// Part of the identity of comparable runs, so it cannot have changed between them; or a moment's choice.
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

std::string task_in_array(const std::string& array) {
  const std::size_t line = array.rfind('_');
  return line == std::string::npos ? "" : array.substr(line + 1);
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
      if (channel.carried_over || channel.name.str().find('/') != std::string::npos) continue;
      Sum& sum = sums[channel.name.str()];
      if (sum.nodes == 0) sum.channel = {channel.name, channel.unit, channel.subsystem, channel.kind, 0};
      if (sum.channel.unit != channel.unit) continue;
      sum.sum += channel.mean;
      ++sum.nodes;
    }
    for (const auto& [key, value] : node->facts) ++facts[key.str()][value.str()];
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
    if (!configured || record.facts.size() + record.mixed_facts.size() >= kMostRecordedFacts) continue;
    if (values.size() == 1) {
      record.facts.emplace_back(key, values.begin()->first);
    } else {
      record.mixed_facts.push_back(key);  // the comparison of the nodes has the word
    }
  }
}

std::string render_run(const RunRecord& record) {
  return json_text(JsonWriter::whole(record)) + "\n";
}

RunRecord parse_run(const std::string& text) {
  const Json json = parse_json(text, kRunRecordFile);
  JsonReader reader(json, kRunRecordFile);
  RunRecord record;
  fields(reader, record);
  if (record.run_id.empty() || record.key.empty()) throw Error("a run without a name");
  if (!(record.seconds >= 0) || record.begin_utc_ns < 0) throw Error("a run with an impossible time");
  std::erase_if(record.channels, [](const RunChannel& channel) { return !std::isfinite(channel.value); });
  std::sort(record.channels.begin(), record.channels.end(),
            [](const RunChannel& a, const RunChannel& b) { return a.name < b.name; });
  std::sort(record.zeros.begin(), record.zeros.end());
  std::sort(record.facts.begin(), record.facts.end());
  std::sort(record.mixed_facts.begin(), record.mixed_facts.end());
  return record;
}

}  // namespace reveal
