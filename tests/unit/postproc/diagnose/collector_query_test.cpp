#include "postproc/diagnose/collector_query.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"

namespace reveal::tests::collector_query_test {
namespace {

TEST(ProbeCheck, SortsByWhoCanDoSomething) {
  const std::string answer = R"json([
    {"name": "cpu", "state": "ok", "reason": ""},
    {"name": "job", "state": "absent", "reason": "no job was named (--job)", "remedy": "run under reveal-run"},
    {"name": "writeback", "state": "absent", "reason": "not readable", "remedy": "admin: mount -o remount"},
    {"name": "outsiders", "state": "absent", "reason": "without a job every process is an outsider"},
    {"name": "stack", "state": "absent", "reason": "it is off by default (--stack)", "remedy": "reveal-run --stack"},
    {"name": "lustre", "state": "absent", "reason": "none", "remedy": "nothing is lost; admin: chmod"},
    {"name": "energy", "state": "absent", "reason": "no RAPL, or a virtual machine", "remedy": "admin: chmod"}])json";
  const ProbeCheck real = sorted_check(answer, false);
  EXPECT_EQ(real.all(), 7U);
  ASSERT_EQ(real.obtainable.size(), 2U);
  EXPECT_EQ(real.obtainable[0].name, "writeback");
  ASSERT_EQ(real.needs_job.size(), 2U);
  EXPECT_EQ(real.needs_job[0].name, "job");
  EXPECT_EQ(real.needs_job[1].name, "outsiders");
  ASSERT_EQ(real.off.size(), 1U);
  EXPECT_EQ(real.off[0].name, "stack");
  EXPECT_EQ(real.not_here[0].name, "lustre");
  const ProbeCheck guest = sorted_check(answer, true);
  ASSERT_EQ(guest.obtainable.size(), 1U);
  EXPECT_EQ(guest.not_here[1].name, "energy");
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
