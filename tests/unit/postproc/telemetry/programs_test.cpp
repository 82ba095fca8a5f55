#include "postproc/telemetry/programs.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"

namespace reveal::tests::programs_test {
namespace {

std::vector<Event> events() {
  return {{1 * kSecond, "process 7", "process_begin", "rank0 python3"},
          {2 * kSecond, "process 8", "process_begin", "slot2 cc1plus"},
          {3 * kSecond, "process 8", "process_end", "slot2"},
          {3 * kSecond, "process 9", "process_begin", "slot2 cc1plus"},
          {10 * kSecond, "process 10", "process_begin", "slot2 ld"},  // took the place of an idle one
          {20 * kSecond, "process 10", "process_end", "slot2"}};
}

TEST(Programs, AreThoseOfTheProcessesInAPlace) {
  EXPECT_EQ(program_in(events(), "rank0"), "python3");
  EXPECT_EQ(program_in(events(), "slot2"), "") << "several, one after the other";
  EXPECT_EQ(program_in(events(), "slot2", {1 * kSecond, 9 * kSecond}), "cc1plus");
  EXPECT_EQ(program_in(events(), "slot2", {11 * kSecond, 15 * kSecond}), "ld");
  EXPECT_EQ(program_in(events(), "slot2", {21 * kSecond, 30 * kSecond}), "") << "nothing was there";
  EXPECT_EQ(program_in(events(), "slot3"), "");
}

TEST(Programs, AreNotReadFromDamagedEvents) {
  const std::vector<Event> damaged = {{1, "process 7", "process_begin", ""},
                                      {2, "process 7", "process_begin", "slot1"},
                                      {3, "process 7", "process_end", ""},
                                      {4, "process 7", "process_begin", "slot2 \x1b[31mred"},
                                      {5, "process 7", "process_begin", "slot3 " + std::string(5000, 'x')}};
  EXPECT_EQ(program_in(damaged, "slot1"), "");
  EXPECT_EQ(program_in(damaged, "slot2").find('\x1b'), std::string::npos);
  EXPECT_LE(program_in(damaged, "slot3").size(), 43U);
}

TEST(Programs, NameChannelsOfProcessesOnly) {
  std::vector<Channel> channels = {
      {.metric = "process.cpu_time", .instance = "rank0", .scope = Scope::process},
      {.metric = "process.gpu_memory", .instance = "rank0/gpu1", .scope = Scope::process},
      {.metric = "process.cpu_time", .instance = "slot2", .scope = Scope::process},
      {.metric = "site.metric", .instance = "rank0", .scope = Scope::node},
  };
  name_programs(events(), {11 * kSecond, 12 * kSecond}, channels);
  EXPECT_EQ(instance_in_words(channels[0]), "python3 (rank 0)");
  EXPECT_EQ(instance_in_words(channels[1]), "python3 (rank 0) on gpu1");
  EXPECT_EQ(instance_in_words(channels[2]), "ld (slot 2)");
  EXPECT_EQ(instance_in_words(channels[3]), "rank0");
  name_programs({}, {}, channels);
  EXPECT_EQ(instance_in_words(channels[2]), "slot2") << "its number where the program is not known";
}

}  // namespace
}  // namespace reveal::tests::programs_test
