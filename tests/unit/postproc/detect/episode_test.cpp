#include "postproc/detect/episode.h"

#include <gtest/gtest.h>

namespace reveal::tests::episode_test {
namespace {

TEST(Method, IsCalledInReportsAsBeforeItWasAnEnumerator) {
  constexpr std::pair<Method, std::string_view> kNames[] = {
      {Method::interval_scan, "GAP"},
      {Method::paper_forest, "IF"},
      {Method::interval_search, "interval search"},
      {Method::kernel_counter, "kernel counter"},
      {Method::kernel_state, "kernel state"},
      {Method::driver_counter, "driver counter"},
      {Method::driver_event, "driver event"},
      {Method::own_request, "the collector's own request"},
      {Method::snapshot, "snapshot"},
      {Method::environment, "environment"},
      {Method::peer_comparison, "PEERS"},
      {Method::run_history, "HISTORY"},
  };
  for (const auto& [method, name] : kNames) {
    EXPECT_EQ(name_of(method), name);
    EXPECT_EQ(method_of(name), method);
  }
  EXPECT_EQ(method_of("PEER"), std::nullopt);
  EXPECT_EQ(method_of(""), std::nullopt);
}

}  // namespace
}  // namespace reveal::tests::episode_test
