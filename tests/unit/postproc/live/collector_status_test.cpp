#include "postproc/live/collector_status.h"

#include <gtest/gtest.h>

namespace reveal::tests::collector_status_test {
namespace {

CollectorStatus status_with(const std::string& members) {
  return parse_collector_status(R"({"schema":"reveal.status/1","cpu_percent_of_core":0.25)" + members + "}");
}

TEST(CollectorStatus, HasItsCostAndTheIntervalsThatAreOver) {
  const CollectorStatus status = status_with(
      R"(,"iterations_planned":3000,"closed_episodes":[{"begin_utc_ns":1700000091000000000,
          "end_utc_ns":1700000103000000000,"channels":10,"of_channels":240,"farthest":"cpu.user/cpu3",
          "direction":"below","ranges":25.0}],"closed_episodes_left_out":0)");
  EXPECT_EQ(status.cpu_percent, 0.25);
  EXPECT_EQ(status.iterations_planned, 3000);
  EXPECT_EQ(status.closed, (std::vector<EarlierInterval>{{"", 1'700'000'091'000'000'000, 1'700'000'103'000'000'000, 10,
                                                          240, "cpu.user/cpu3", "below"}}));
}

TEST(CollectorStatus, OfAnEarlierVersionHasNoDirectionAndNoPlan) {
  const CollectorStatus status = status_with(
      R"(,"closed_episodes":[{"begin_utc_ns":1,"end_utc_ns":2,"channels":1,"of_channels":2,"farthest":"a"}])");
  EXPECT_EQ(status.iterations_planned, 0);
  ASSERT_EQ(status.closed.size(), 1U);
  EXPECT_EQ(status.closed[0].direction, "");
}

TEST(CollectorStatus, OfAnotherHandIsReadWithLimits) {
  EXPECT_ANY_THROW(static_cast<void>(parse_collector_status("")));
  EXPECT_ANY_THROW(static_cast<void>(parse_collector_status("[]")));
  EXPECT_ANY_THROW(static_cast<void>(parse_collector_status(R"({"schema":"other"})")));
  EXPECT_ANY_THROW(static_cast<void>(status_with(R"(,"closed_episodes":{})")));
  EXPECT_ANY_THROW(static_cast<void>(status_with(R"(,"closed_episodes":[{"begin_utc_ns":1e300}])")));
  EXPECT_EQ(status_with(R"(,"iterations_planned":-5)").iterations_planned, 0);
  EXPECT_EQ(status_with(R"(,"iterations_planned":9223372036854775807)").iterations_planned, 0);
  const std::string impossible =
      R"({"begin_utc_ns":5,"end_utc_ns":5,"channels":1,"of_channels":2,"farthest":"a"},
         {"begin_utc_ns":1,"end_utc_ns":2,"channels":3,"of_channels":2,"farthest":"a"},
         {"begin_utc_ns":1,"end_utc_ns":2,"channels":1,"of_channels":2})";
  EXPECT_TRUE(status_with(",\"closed_episodes\":[" + impossible + "]").closed.empty());
  const std::string one = R"({"begin_utc_ns":1,"end_utc_ns":2,"channels":1,"of_channels":2,"direction":"\u001b[2J",
                              "farthest":"\u001b[31m)" +
                          std::string(300, 'x') + R"("})";
  std::string many = one;
  for (int i = 0; i < 100; ++i) many += "," + one;
  const CollectorStatus status = status_with(",\"closed_episodes\":[" + many + "]");
  ASSERT_EQ(status.closed.size(), 8U);
  EXPECT_LE(status.closed[0].farthest.size(), 99U);
  EXPECT_EQ(status.closed[0].farthest.find('\x1b'), std::string::npos);
  EXPECT_EQ(status.closed[0].direction, "");
}

}  // namespace
}  // namespace reveal::tests::collector_status_test
