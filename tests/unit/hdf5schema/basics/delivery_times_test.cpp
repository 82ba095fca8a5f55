// How fast a node analyses, learnt from the processor time of earlier deliveries.
#include "hdf5schema/basics/delivery_times.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/unit/temporary_directory.h"

namespace reveal::tests::delivery_times_test {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;

DeliveryTimes times_of(std::initializer_list<DeliveryTime> list) {
  DeliveryTimes times;
  for (const DeliveryTime& time : list) times.add(time);
  return times;
}

TEST(DeliveryTimes, AreExpectedByTheBytesOfTheTrace) {
  EXPECT_DOUBLE_EQ(expected_analysis_seconds(10e6, false), 3);
  EXPECT_DOUBLE_EQ(expected_analysis_seconds(10e6, true), 4.5);
}

TEST(DeliveryTimes, LeaveTheUsualPaceWhereNothingIsKnown) {
  EXPECT_EQ(DeliveryTimes().paces_of(1000).analysis, 1);
}

TEST(DeliveryTimes, AreAUsersOwnOnceHeHasThree) {
  DeliveryTimes times = times_of({{1000, kNow, 10, 20}, {1000, kNow, 10, 22}});
  EXPECT_EQ(times.paces_of(1000).analysis, 1) << "two are not enough";
  times.add({1000, kNow, 10, 30});
  EXPECT_DOUBLE_EQ(times.paces_of(1000).analysis, 2.2);
  EXPECT_EQ(times.paces_of(1001).analysis, 1) << "nobody is judged by one other user";
}

TEST(DeliveryTimes, AreNotMovedByOneUserForOthers) {
  const DeliveryTimes honest = times_of({{1000, kNow, 10, 8}, {1001, kNow, 10, 7}, {1002, kNow, 10, 9}});
  EXPECT_DOUBLE_EQ(honest.paces_of(7).analysis, 0.9);
  for (const double lie : {0.001, 86'000.0}) {
    DeliveryTimes times = honest;
    for (int i = 0; i < 1000; ++i) times.add({666, kNow, 1, lie});
    EXPECT_GE(times.paces_of(7).analysis, 0.8) << lie;
    EXPECT_LE(times.paces_of(7).analysis, 1) << lie;
    EXPECT_EQ(times.deliveries(), 11U) << "eight of a user are kept";
    EXPECT_EQ(times.owners(), 4U);
  }
}

TEST(DeliveryTimes, KeepAnalysesAndMergesApart) {
  EXPECT_DOUBLE_EQ(expected_merge_seconds(1000), 2);
  DeliveryTimes times = times_of({{1000, kNow, 10, 20}, {1000, kNow, 10, 20}, {1000, kNow, 10, 20}});
  EXPECT_EQ(times.paces_of(1000).merge, 1) << "a slow analysis is no slow report";
  for (int i = 0; i < 20; ++i) times.add({1000, kNow, 10, 5, DeliveryWork::merge});
  EXPECT_DOUBLE_EQ(times.paces_of(1000).analysis, 2) << "reports push out no analysis";
  EXPECT_DOUBLE_EQ(times.paces_of(1000).merge, 0.5);
  EXPECT_EQ(times.deliveries(), 11U);
  EXPECT_EQ(times.paces_of(7).merge, 1) << "nobody is judged by one other user";
}

TEST(DeliveryTimes, AreWithinAQuarterAndFour) {
  EXPECT_EQ(times_of({{1, kNow, 1, 80'000}, {1, kNow, 1, 80'000}, {1, kNow, 1, 80'000}}).paces_of(1).analysis, 4);
  EXPECT_EQ(times_of({{1, kNow, 80'000, 1}, {1, kNow, 80'000, 1}, {1, kNow, 80'000, 1}}).paces_of(1).analysis, 0.25);
  EXPECT_EQ(bounded_pace(std::numeric_limits<double>::quiet_NaN()), 1);
  EXPECT_EQ(bounded_pace(std::numeric_limits<double>::infinity()), 1);
  EXPECT_EQ(bounded_pace(-3), 0.25);
}

TEST(DeliveryTimes, LeaveOutWhatSaysNothing) {
  EXPECT_EQ(times_of({{1, kNow, 0.4, 1},
                      {1, kNow, 0, 1},
                      {1, kNow, 1, 0},
                      {1, kNow, -1, 1},
                      {1, kNow, 1, 1e9},
                      {1, kNow, 1e9, 1},
                      {1, kNow, std::nan(""), 1},
                      {1, kNow, 1, std::nan("")}})
                .deliveries(),
            0U);
}

TEST(DeliveryTimes, AreLimitedInNumber) {
  DeliveryTimes times;
  for (unsigned owner = 0; owner < 1000; ++owner) times.add({owner, kNow, 1, 2});
  EXPECT_EQ(times.deliveries(), 256U);
  EXPECT_LT(times.text().size(), 64U << 10);
}

TEST(DeliveryTimes, AreReadBackAndRefuseWhatCannotBe) {
  const std::string text =
      times_of({{1000, kNow, 1.5, 3}, {1001, kNow - 5, 2, 0.25}, {1000, kNow, 4, 5, DeliveryWork::merge}}).text();
  EXPECT_EQ(text, "1000 1800000000 1500 3000\n1001 1799999995 2000 250\n1000 1800000000 4000 5000 merge\n");
  EXPECT_EQ(DeliveryTimes::of_text(text, kNow).text(), text);
  for (const char* wrong :
       {"", "1000", "1000 1800000000 1500", "1000 1800000000 1500 3000 1", "1000 1800000000 1500 3000 merge 1",
        "1000 1800000000 1500 3000 merged", "-1 1800000000 1500 3000", "4294967296 1800000000 1500 3000",
        "1000 1800000001 1500 3000", "1000 1500000000 1500 3000", "1000 1800000000 99999999999999999999 1", "a b c d",
        "1000 1800000000 1.5 3"}) {
    EXPECT_EQ(DeliveryTimes::of_text(wrong, kNow).deliveries(), 0U) << wrong;
  }
  EXPECT_EQ(DeliveryTimes::of_text("nonsense\n" + text + "1000 18", kNow).text(), text) << "a damaged line is left out";
}

TEST(DeliveryTimes, AreKeptInTheSpoolForTheirOwnerOnly) {
  const TemporaryDirectory spool;
  EXPECT_EQ(DeliveryTimes::in_spool(spool.path(), kNow).deliveries(), 0U);
  const DeliveryTimes times = times_of({{1000, kNow, 1.5, 3}});
  times.keep_in_spool(spool.path());
  EXPECT_EQ(DeliveryTimes::in_spool(spool.path(), kNow).text(), times.text());
  struct stat status {};
  ASSERT_EQ(::stat((spool.path() / "delivery-times").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  std::filesystem::rename(spool.path() / "delivery-times", spool.path() / "elsewhere");
  std::filesystem::create_symlink("elsewhere", spool.path() / "delivery-times");
  EXPECT_EQ(DeliveryTimes::in_spool(spool.path(), kNow).deliveries(), 0U) << "through a link";
  std::filesystem::remove(spool.path() / "delivery-times");
  std::ofstream(spool.path() / "delivery-times") << std::string(65 << 10, '1');
  EXPECT_EQ(DeliveryTimes::in_spool(spool.path(), kNow).deliveries(), 0U) << "larger than it can be";
}

}  // namespace
}  // namespace reveal::tests::delivery_times_test
