// The profile inside NODE.summary.json: columns rather than keys, because there are hundreds of rows.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/json/json_fields.h"
#include "postproc/peers/node_profile.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), ProfileTrend>& trend) {
  v("low", trend.low);
  v("high", trend.high);
  v("line", trend.line);
}

/// Version 1 of the profile has `low`, `high` and `line` as members of each channel.
void trend_fields(auto& v, auto& trend) {
  v("trend", trend);
}
inline void trend_fields(JsonReader& reader, Rare<ProfileTrend>& trend) {
  ProfileTrend read;
  fields(reader, read);
  if (read != ProfileTrend()) trend = std::move(read);
}

void fields(auto& v, Visited<decltype(v), ProfileChannel>& channel) {
  v("channel", channel.name);
  v("unit", channel.unit);
  v.name("subsystem", channel.subsystem, subsystem_of);
  v.name("kind", channel.kind, kind_of);
  v("inherited", channel.carried_over);
  v("mean", channel.mean);
  v("blocks", channel.blocks);
  trend_fields(v, channel.trend);
}

/// Facts that many channels share.
struct ChannelTraits {
  SharedText unit;
  Subsystem subsystem = Subsystem::cpu;
  Kind kind = Kind::gauge;
  bool carried_over = false;
  auto operator<=>(const ChannelTraits&) const = default;
};

void fields(auto& v, Visited<decltype(v), ChannelTraits>& traits) {
  v("unit", traits.unit);
  v.name("subsystem", traits.subsystem, subsystem_of);
  v.name("kind", traits.kind, kind_of);
  v("inherited", traits.carried_over);
}

/// The trend of one of the channels.
struct StoredTrend {
  std::size_t channel = 0;
  ProfileTrend trend;
};

void fields(auto& v, Visited<decltype(v), StoredTrend>& stored) {
  v("channel", stored.channel);
  v.inlined(stored.trend);
}

/// All channels. Hundreds of values in one text are read ten times as fast as one by one.
struct ChannelColumns {
  std::string names;  // folded_names()
  std::vector<double> means;
  std::string blocks;  // packed_decimals(), joined by commas
  std::string traits;  // in `of_many`
  std::vector<ChannelTraits> of_many;
  std::vector<StoredTrend> trends;
};

void fields(auto& v, Visited<decltype(v), ChannelColumns>& columns) {
  v("names", columns.names);
  v("means", columns.means);
  v("blocks", columns.blocks);
  v("traits", columns.traits);
  v("of_many", columns.of_many);
  v.table("trend_columns", "trends", columns.trends);
}

/// Names in one text: each with the number of letters that it shares with the one before.
[[nodiscard]] std::string folded_names(const std::vector<SharedText>& names);
[[nodiscard]] std::vector<SharedText> unfolded_names(std::string_view text);

[[nodiscard]] ChannelColumns columns_of(const std::vector<ProfileChannel>& channels);
/// Throws Error where the columns do not fit each other.
[[nodiscard]] std::vector<ProfileChannel> channels_of(ChannelColumns columns);

void channel_fields(auto& v, auto& profile) {
  v.table("channel_columns", "channels", profile.channels);
}
inline void channel_fields(JsonWriter& writer, const NodeProfile& profile) {
  writer("columns", columns_of(profile.channels));
}
inline void channel_fields(JsonReader& reader, NodeProfile& profile) {
  reader.table("channel_columns", "channels", profile.channels);  // form of version 1
  ChannelColumns columns;
  reader("columns", columns);
  if (profile.channels.empty()) profile.channels = channels_of(std::move(columns));
}

void zero_fields(auto& v, auto& profile) {
  v("zeros", profile.zeros);
}
inline void zero_fields(JsonWriter& writer, const NodeProfile& profile) {
  writer("zero_names", folded_names(profile.zeros));
}
inline void zero_fields(JsonReader& reader, NodeProfile& profile) {
  std::vector<std::string> zeros;
  reader("zeros", zeros);  // form of version 1
  profile.zeros.assign(zeros.begin(), zeros.end());
  std::string names;
  reader("zero_names", names);
  if (profile.zeros.empty()) profile.zeros = unfolded_names(names);
}

void fields(auto& v, Visited<decltype(v), NodeProfile>& profile) {
  v.schema("version", 2, 1);
  v("begin_utc_ns", profile.begin_utc_ns);
  v("end_utc_ns", profile.end_utc_ns);
  v("block_ns", profile.block_ns);
  v("first_block", profile.first_block);
  v("line_step_ns", profile.sparkline_step_ns);
  channel_fields(v, profile);
  v("channels_left_out", profile.channels_left_out);
  v("all_trends", profile.all_trends);
  zero_fields(v, profile);
  v.dictionary("facts", profile.facts);
  if constexpr (std::remove_reference_t<decltype(v)>::kReads) check_profile(profile);
}

}  // namespace reveal
