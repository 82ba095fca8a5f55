// The profile inside NODE.summary.json: columns rather than keys, because there are hundreds of rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "hdf5schema/basics/error.h"
#include "postproc/peers/node_profile.h"
#include "postproc/telemetry/json_number.h"
#include "postproc/telemetry/shallow_json.h"

namespace reveal {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kVersion = 1;
constexpr std::size_t kMostForeignBlocks = 10'000;  // of a file that somebody else may have written
constexpr std::size_t kMostLine = 100'000;

/// 1.234e9 as 1234000000, in as few characters as they have.
Json short_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (std::trunc(value) == value && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

double number(const Json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::string render_profile(const NodeProfile& profile) {
  Json json = Json::object();
  json["version"] = kVersion;
  json["begin_utc_ns"] = profile.begin_utc_ns;
  json["end_utc_ns"] = profile.end_utc_ns;
  json["block_ns"] = profile.block_ns;
  json["first_block"] = profile.first_block;
  json["line_step_ns"] = profile.line_step_ns;
  json["channel_columns"] = {"channel", "unit",   "subsystem", "kind", "inherited",
                             "mean",    "blocks", "low",       "high", "line"};
  Json rows = Json::array();
  for (const ProfileChannel& channel : profile.channels) {
    Json blocks = Json::array();
    // A float widened to double prints as many digits as it never had.
    for (const float block : channel.blocks) blocks.push_back(short_number(four_digits(static_cast<double>(block))));
    rows.push_back({channel.name, channel.unit, name_of(channel.subsystem), name_of(channel.kind),
                    channel.inherited ? 1 : 0, short_number(channel.mean), std::move(blocks), short_number(channel.low),
                    short_number(channel.high), channel.line});
  }
  json["channels"] = std::move(rows);
  json["channels_left_out"] = profile.channels_left_out;
  json["zeros"] = profile.zeros;
  Json facts = Json::object();
  for (const auto& [key, value] : profile.facts) facts[key] = value;
  json["facts"] = std::move(facts);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

NodeProfile parse_profile(const std::string& text) {
  try {
    const Json json = Json::parse(shallow(text));
    NodeProfile profile;
    if (whole_number<int>(json.at("version")) != kVersion) throw Error("a profile of another version");
    profile.begin_utc_ns = whole_number<std::int64_t>(json.at("begin_utc_ns"));
    profile.end_utc_ns = whole_number<std::int64_t>(json.at("end_utc_ns"));
    profile.block_ns = whole_number<std::int64_t>(json.at("block_ns"));
    profile.line_step_ns = whole_number<std::int64_t>(json.at("line_step_ns"));
    for (const Json& row : json.at("channels")) {
      ProfileChannel channel;
      channel.name = row.at(0).get<std::string>();
      channel.unit = row.at(1).get<std::string>();
      const auto subsystem = subsystem_of(row.at(2).get<std::string>());
      const auto kind = kind_of(row.at(3).get<std::string>());
      if (!subsystem || !kind) continue;  // of a later version
      channel.subsystem = *subsystem;
      channel.kind = *kind;
      channel.inherited = row.at(4).get<int>() != 0;
      channel.mean = number(row.at(5));
      for (const Json& block : row.at(6)) channel.blocks.push_back(static_cast<float>(number(block)));
      channel.low = number(row.at(7));
      channel.high = number(row.at(8));
      channel.line = row.at(9).get<std::string>();
      if (!std::isfinite(channel.mean) || channel.blocks.size() > kMostForeignBlocks ||
          channel.line.size() > kMostLine) {
        throw Error("a profile with impossible numbers");
      }
      profile.channels.push_back(std::move(channel));
    }
    profile.channels_left_out = whole_number<std::size_t>(json.at("channels_left_out"));
    profile.zeros = json.at("zeros").get<std::vector<std::string>>();
    for (const auto& [key, value] : json.at("facts").items()) profile.facts.emplace_back(key, value.get<std::string>());
    const bool sound = profile.block_ns > 0 && profile.line_step_ns > 0 && profile.end_utc_ns >= profile.begin_utc_ns &&
                       profile.begin_utc_ns >= 0;
    if (!sound) throw Error("a profile without a time axis");
    profile.first_block = profile.begin_utc_ns / profile.block_ns;
    // Written sorted; searched by halves, so somebody else's order must not matter.
    std::sort(profile.channels.begin(), profile.channels.end(),
              [](const ProfileChannel& a, const ProfileChannel& b) { return a.name < b.name; });
    std::sort(profile.zeros.begin(), profile.zeros.end());
    std::sort(profile.facts.begin(), profile.facts.end());
    return profile;
  } catch (const Json::exception& error) {
    throw Error(std::string("not a profile: ") + error.what());
  }
}

}  // namespace reveal
