// The sampled collectives inside NODE.summary.json.
#pragma once

#include "postproc/json/json_fields.h"
#include "postproc/peers/collective_history.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), CollectiveTrend>& trend) {
  v("rank", trend.rank);
  v("function", trend.function);
  v("communicator", trend.communicator);
  v("ranks", trend.ranks);
  v("id", trend.id);
  v("last", trend.last);
  v("ended", trend.ended);
  v("first", trend.first);
  v("begin_utc_ns", trend.begin_utc_ns);
  v("points", trend.points);
}

void fields(auto& v, Visited<decltype(v), CollectiveHistory>& history) {
  v("trends", history.trends);
}

}  // namespace reveal
