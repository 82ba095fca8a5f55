// The profile inside NODE.summary.json: columns rather than keys, because there are hundreds of rows.
#pragma once

#include "postproc/json/json_fields.h"
#include "postproc/peers/node_profile.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), ProfileChannel>& channel) {
  v("channel", channel.name);
  v("unit", channel.unit);
  v.name("subsystem", channel.subsystem, subsystem_of);
  v.name("kind", channel.kind, kind_of);
  v("inherited", channel.carried_over);
  v("mean", channel.mean);
  v("blocks", channel.blocks);
  v("low", channel.low);
  v("high", channel.high);
  v("line", channel.sparkline);
}

void fields(auto& v, Visited<decltype(v), NodeProfile>& profile) {
  v.schema("version", 1);
  v("begin_utc_ns", profile.begin_utc_ns);
  v("end_utc_ns", profile.end_utc_ns);
  v("block_ns", profile.block_ns);
  v("first_block", profile.first_block);
  v("line_step_ns", profile.sparkline_step_ns);
  v.table("channel_columns", "channels", profile.channels);
  v("channels_left_out", profile.channels_left_out);
  v("zeros", profile.zeros);
  v.dictionary("facts", profile.facts);
  if constexpr (std::remove_reference_t<decltype(v)>::kReads) check_profile(profile);
}

}  // namespace reveal
