// The kernel's text about one process.
#include "core/job/process_stat.h"

#include <gtest/gtest.h>

#include "core/job/cpu_set.h"

namespace reveal::tests::process_stat_test {
namespace {

TEST(ProcessStat, ReadsACommandWithBracketsAndBlanks) {
  const auto stat = parse_process_stat(
      "42 (a) b (c)) R 7 1 1 0 -1 4194304 11 0 22 0 33 44 55 66 20 0 3 0 77 1000 88 18446744073709551615 1 1 0 0 0 0 0 "
      "0 "
      "0 0 0 0 17 5 0 0 0 0 0\n");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->command, "a) b (c)");
  EXPECT_EQ(stat->state, 'R');
  EXPECT_EQ(stat->parent, 7);
  EXPECT_EQ(stat->minor_faults, 11);
  EXPECT_EQ(stat->major_faults, 22);
  EXPECT_EQ(stat->user_ticks, 33);
  EXPECT_EQ(stat->system_ticks, 44);
  EXPECT_EQ(stat->reaped_user_ticks, 55);
  EXPECT_EQ(stat->reaped_system_ticks, 66);
  EXPECT_EQ(stat->threads, 3);
  EXPECT_EQ(stat->start_ticks, 77);
  EXPECT_EQ(stat->resident_pages, 88);
  EXPECT_EQ(stat->last_cpu, 5);
}

TEST(ProcessStat, RefusesWhatIsCutOff) {
  const std::string text = "42 (sh) R 7 1 1 0 -1 4194304 11 0 22 0 33 44 55 66 20 0 3 0 77";
  for (std::size_t size = 0; size < text.size() - 2; ++size) {
    EXPECT_FALSE(parse_process_stat(text.substr(0, size))) << text.substr(0, size);
  }
  EXPECT_TRUE(parse_process_stat(text));
  EXPECT_FALSE(parse_process_stat(")("));
}

TEST(ProcessStat, RefusesNumbersNoMachineHas) {
  const std::string begin = "42 (a) R 7 1 1 0 -1 4194304 11 0 22 0 ";
  EXPECT_TRUE(parse_process_stat(begin + "33 44 55 66 20 0 3 0 77 1000 88 0\n"));
  EXPECT_FALSE(parse_process_stat(begin + "33 44 55 66 20 0 3 0 77 1000 9223372036854775807 0\n"));
  EXPECT_FALSE(parse_process_stat(begin + "33 9223372036854775807 55 66 20 0 3 0 77 1000 88 0\n"));
}

TEST(FieldOf, MatchesWholeKeys) {
  const std::string_view text = "Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\nse.nr_migrations    :     12\n";
  EXPECT_EQ(field_of(text, "Cpus_allowed_list"), "0-1");
  EXPECT_EQ(field_of(text, "Cpus_allowed"), "3");
  EXPECT_EQ(field_of(text, "se.nr_migrations"), "12");
  EXPECT_EQ(field_of(text, "Cpus"), "");
}

TEST(CpuSet, ReadsListsAndDropsNonsense) {
  const CpuSet set = CpuSet::of_list("0-3,8,10-x,99999999,7-5\n");
  EXPECT_EQ(set.size(), 5U);
  EXPECT_TRUE(set.contains(8));
  EXPECT_FALSE(set.contains(10));
  EXPECT_EQ(CpuSet::of_list("").size(), 0U);
}

}  // namespace
}  // namespace reveal::tests::process_stat_test
