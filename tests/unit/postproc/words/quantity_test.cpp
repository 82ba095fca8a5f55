#include "postproc/words/quantity.h"

#include <gtest/gtest.h>

#include <limits>

namespace reveal::tests::quantity_test {
namespace {

TEST(Quantity, HasThreeDigitsAndAUnit) {
  EXPECT_EQ(quantity(1.5 * 1024 * 1024 * 1024, "bytes"), "1.5 GiB");
  EXPECT_EQ(quantity(0, "bytes"), "0 bytes");
  EXPECT_EQ(quantity(12, "count"), "12");
  EXPECT_EQ(quantity(12'345, "count"), "12,345");
  EXPECT_EQ(quantity(std::nullopt, "bytes"), "not measured");
}

TEST(Quantity, IsInTheUnitOfItsSize) {
  EXPECT_EQ(quantity(1536, "bytes"), "1.5 KiB");
  EXPECT_EQ(quantity(126'701'535'232.0, "bytes"), "118 GiB");
  EXPECT_EQ(quantity(-2'097'152.0, "bytes/s"), "-2 MiB/s");
  EXPECT_EQ(quantity(471e6, "ns/s"), "0.471 s each second");
  EXPECT_EQ(quantity(0.471, "s/s"), "0.471 s each second");
  EXPECT_EQ(quantity(700e3, "ns"), "700 us");
  EXPECT_EQ(quantity(2.4e9, "Hz"), "2.4 GHz");
  EXPECT_EQ(quantity(98.25, "percent"), "98.2 %");
  EXPECT_EQ(quantity(12345.6, "count"), "12,346");
  EXPECT_EQ(quantity(1e9, "count/s"), "1,000,000,000/s");
  EXPECT_EQ(quantity(0.98, "CPUs"), "0.98 CPUs");
  EXPECT_EQ(quantity(std::numeric_limits<double>::quiet_NaN(), "bytes"), "not measured");
}

TEST(Quantity, IsInTheUnitOfTheValueThatIsShown) {
  EXPECT_EQ(quantity(999.6e6, "ns"), "1 s");
  EXPECT_EQ(quantity(999.4e6, "ns"), "999 ms");
  EXPECT_EQ(quantity(999.7e3, "ns"), "1 ms");
  EXPECT_EQ(quantity(999.6e6, "Hz"), "1 GHz");
  EXPECT_EQ(quantity(999.8, "W"), "1 kW");
  EXPECT_EQ(quantity(1023.9 * 1024, "bytes"), "1 MiB");
  EXPECT_EQ(quantity(1023.9 * 1024, "bytes/s"), "1 MiB/s");
  EXPECT_EQ(quantity(1010.0 * 1024, "bytes"), "1,010 KiB");
  EXPECT_EQ(quantity(-999.6e6, "ns"), "-1 s");
}

TEST(Quantity, OfNothingHasNoSign) {
  EXPECT_EQ(number(-0.0), "0");
  EXPECT_EQ(quantity(-0.0, "W"), "0 W");
  EXPECT_EQ(quantity(-0.0, "cpus"), "0 cpus");
  EXPECT_EQ(duration(-0.0), "0 s");
}

TEST(Quantity, OfOneHasNoPlural) {
  EXPECT_EQ(quantity(1, "cpus"), "1 cpu");
  EXPECT_EQ(quantity(1.001, "threads waiting"), "1 thread waiting");
  EXPECT_EQ(quantity(1, "processes"), "1 process");
  EXPECT_EQ(quantity(1, "bytes"), "1 byte");
  EXPECT_EQ(quantity(0, "cpus"), "0 cpus");
  EXPECT_EQ(quantity(1, "s"), "1 s");
}

TEST(Quantity, OfCpusEndsWithTheHundredths) {
  EXPECT_EQ(quantity(0.00616, "cpus"), "0.01 cpus");
  EXPECT_EQ(quantity(0.000372, "cpus"), "< 0.01 cpus");
  EXPECT_EQ(quantity(0.0, "cpus"), "0 cpus");
  EXPECT_EQ(quantity(1.006, "cpus"), "1.01 cpus");
  EXPECT_EQ(quantity(127.96, "cpus"), "128 cpus");
  EXPECT_EQ(quantity(2, "cpus"), "2 cpus");
}

TEST(Quantity, OfShortTimesIsInMilliseconds) {
  EXPECT_EQ(quantity(0.000372, "s"), "0.372 ms");
  EXPECT_EQ(quantity(0.0704, "s"), "70.4 ms");
  EXPECT_EQ(quantity(0.25, "s"), "0.25 s");
  EXPECT_EQ(quantity(0, "s"), "0 s");
}

TEST(Duration, EndsWithTheHundredths) {
  EXPECT_EQ(duration(0.000372), "< 0.01 s");
  EXPECT_EQ(duration(0.0246), "0.02 s");
  EXPECT_EQ(duration(0), "0 s");
  EXPECT_EQ(duration(47.31), "47.3 s");
  EXPECT_EQ(duration(310), "5 min 10 s");
  EXPECT_EQ(duration(86'461), "1 d 0 h 1 min");
  EXPECT_EQ(duration(std::numeric_limits<double>::quiet_NaN()), "unknown time");
}

TEST(Counted, IsOneThingEvenIfItWasAddedUpFromRates) {
  EXPECT_EQ(counted(0.9999999999999999, "process"), "1 process");
  EXPECT_EQ(counted(1, "node"), "1 node");
  EXPECT_EQ(counted(2, "node"), "2 nodes");
  EXPECT_EQ(counted(0, "node"), "0 nodes");
}

TEST(ComparedTimes, HaveTheSameDigits) {
  const Scale seconds = time_scale(1);
  EXPECT_EQ(compared_time(1, seconds), "1.00 s");
  EXPECT_EQ(compared_time(0.999, seconds), "1.00 s");
  EXPECT_EQ(compared_time(310, seconds), "5 min 10 s");
  EXPECT_EQ(two_decimals(-0.000372), "0.00");
  EXPECT_EQ(two_decimals(-0.01), "-0.01");
  const Scale milliseconds = time_scale(0.052);
  EXPECT_EQ(compared_time(0.05213, milliseconds), "52.13 ms");
}

}  // namespace
}  // namespace reveal::tests::quantity_test
