#include "postproc/diagnose/collector_query.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"

namespace reveal::tests::collector_query_test {
namespace {

TEST(ProbeCheck, SortsByTheFieldAbsenceAndNotByWords) {
  const std::string answer = R"json([
    {"name": "cpu", "state": "ok", "reason": ""},
    {"name": "job", "state": "absent", "reason": "a", "remedy": "run under reveal-run", "absence": "needs_job"},
    {"name": "writeback", "state": "absent", "reason": "b", "remedy": "mount -o remount", "absence": "obtainable"},
    {"name": "stack", "state": "absent", "reason": "c", "remedy": "reveal-run --stack", "absence": "off"},
    {"name": "lustre", "state": "absent", "reason": "no job was named", "remedy": "admin: it", "absence": "not_here"},
    {"name": "newer", "state": "failed", "reason": "off by default", "absence": "seldom"},
    {"name": "older", "state": "absent", "reason": "off by default"},
    {"name": "energy", "state": "absent", "reason": "no RAPL", "remedy": "chmod", "absence": "hardware"}])json";
  const ProbeCheck real = sorted_check(answer, false);
  EXPECT_EQ(real.all(), 8U);
  ASSERT_EQ(real.obtainable.size(), 2U);
  EXPECT_EQ(real.obtainable[0].name, "writeback");
  EXPECT_EQ(real.obtainable[1].name, "energy");
  ASSERT_EQ(real.needs_job.size(), 1U);
  EXPECT_EQ(real.needs_job[0].name, "job");
  ASSERT_EQ(real.off.size(), 1U);
  EXPECT_EQ(real.off[0].name, "stack");
  ASSERT_EQ(real.not_here.size(), 3U);
  EXPECT_EQ(real.not_here[0].name, "lustre");
  const ProbeCheck guest = sorted_check(answer, true);
  ASSERT_EQ(guest.obtainable.size(), 1U);
  EXPECT_EQ(guest.not_here[3].name, "energy");
}

TEST(NodeFacts, AreAnObjectOfTexts) {
  const Snapshot facts = facts_of_node(R"({"cpu.count": "2", "odd": 7})");
  EXPECT_EQ(facts, (Snapshot{{"cpu.count", "2"}}));
  EXPECT_THROW(static_cast<void>(facts_of_node("[]")), Error);
  EXPECT_THROW(static_cast<void>(facts_of_node("{")), Error);
}

TEST(ProbeCheck, ExplainsOneProbe) {
  const std::string list = R"([{"name": "cpu", "help": "Time of each cpu", "period_seconds": 0.1,
    "period_seconds_on_1152_cpus": 5.0, "privilege": "root", "remedy": "",
    "metrics": [{"name": "cpu.user", "unit": "ns", "kind": "counter", "scope": "cpu", "source": "/proc/stat",
                 "help": "Running user code."}]}])";
  EXPECT_EQ(probe_as_text(list, "cpu", 80),
            "cpu: Time of each cpu\n"
            "  read every 0.1 s, less often on many cpus (1152: 5 s)\n"
            "  needs root\n"
            "\n  cpu.user  [ns, counter, per cpu]\n"
            "      Running user code.\n"
            "      from /proc/stat\n");
  EXPECT_EQ(probe_as_text(list, "cpu.user", 80), probe_as_text(list, "cpu", 80));
  try {
    static_cast<void>(probe_as_text(list, "cpus", 80));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no probe \"cpus\"; did you mean \"cpu\"?");
  }
}

}  // namespace
}  // namespace reveal::tests::collector_query_test
