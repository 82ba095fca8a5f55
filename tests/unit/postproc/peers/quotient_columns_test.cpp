// The time of one request, compared among three nodes and more.
#include "postproc/peers/quotient_columns.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "postproc/peers/job_rule.h"
#include "rules_tried.h"
#include "spmd_job.h"

namespace reveal::tests::quotient_columns_test {
namespace {

/// Each node reads and writes like the others, a little more in every second block.
void add(NodeProfile& profile, const std::string& name, const std::string& unit, double mean, double spread) {
  ProfileChannel channel{
      .name = name, .unit = unit, .subsystem = Subsystem::storage, .kind = Kind::counter, .mean = mean};
  for (std::size_t b = 0; b < 12; ++b) {
    const double wander = 1 + spread * (b % 2 == 0 ? 1 : -1);
    channel.blocks.push_back(static_cast<float>(mean * wander));
  }
  profile.channels.push_back(std::move(channel));
}

struct Disk {
  double reads = 100;          // per second
  double seconds_each = 3e-3;  // time of a read; a write takes twice as long
};

/// Four nodes; the disk of the first is `odd`.
std::vector<NodeProfile> job_with(const Disk& odd) {
  std::vector<NodeProfile> profiles = SpmdJob{.nodes = 4}.record();
  for (std::size_t n = 0; n < profiles.size(); ++n) {
    const Disk disk = n == 0 ? odd : Disk{};
    const double natural = 1 + 0.02 * static_cast<double>(n);
    add(profiles[n], "disk.reads", "count/s", disk.reads * natural, 0.2);
    add(profiles[n], "disk.read_bytes", "bytes/s", 1e5 * disk.reads * natural, 0.2);
    add(profiles[n], "disk.read_time", "s/s", disk.reads * disk.seconds_each, 0.21);
    add(profiles[n], "disk.writes", "count/s", disk.reads * natural, 0.2);
    add(profiles[n], "disk.write_bytes", "bytes/s", 1e5 * disk.reads * natural, 0.2);
    add(profiles[n], "disk.write_time", "s/s", 2 * disk.reads * disk.seconds_each, 0.21);
    std::sort(profiles[n].channels.begin(), profiles[n].channels.end(),
              [](const ProfileChannel& a, const ProfileChannel& b) { return a.name < b.name; });
  }
  return profiles;
}

std::vector<std::string> telling(const PeerComparison& comparison) {
  std::vector<std::string> channels;
  for (const PeerDeviation& deviation : comparison.deviations) {
    if (deviation.telling) channels.push_back(deviation.node + " " + deviation.channel);
  }
  std::sort(channels.begin(), channels.end());
  return channels;
}

TEST(QuotientColumns, FindADiskThatIsSlowAllTheTimeOnOneOfFourNodes) {
  const std::vector<NodeProfile> profiles = job_with({.seconds_each = 30e-3});
  const PeerComparison comparison = compare_peers(pointers(profiles));
  EXPECT_EQ(telling(comparison), (std::vector<std::string>{"n0001 disk.time_per_read", "n0001 disk.time_per_write"}));
  const auto found = tried(kJobRules, run_job_rules({.comparison = comparison, .nodes = {}, .job = {}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "node.differs");
  EXPECT_EQ(found[0].severity, Severity::notice) << "a state of the node, no amount of work";
  EXPECT_NE(found[0].sentence.find("disk.time_per_read 29.9 ms instead of 2.88 ms"), std::string::npos)
      << found[0].sentence;
}

TEST(QuotientColumns, LeaveANodeAloneThatSimplyDoesMoreWork) {
  EXPECT_TRUE(telling(compare_peers(pointers(job_with({.reads = 600, .seconds_each = 30e-3})))).empty())
      << "its requests wait for each other";
  EXPECT_TRUE(telling(compare_peers(pointers(job_with({.reads = 180})))).empty()) << "more reads, no longer ones";
  EXPECT_TRUE(telling(compare_peers(pointers(job_with({})))).empty());
}

TEST(QuotientColumns, NeedRequestsToSpeakOfTheTimeOfOne) {
  std::vector<NodeProfile> profiles = job_with({});
  for (NodeProfile& profile : profiles) {
    for (ProfileChannel& channel : profile.channels) {
      if (channel.name != "disk.reads") continue;
      channel.mean = 1;
      channel.blocks.clear();
    }
  }
  for (const QuotientColumn& column : quotient_columns(pointers(profiles))) {
    EXPECT_NE(column.metric->name, "disk.time_per_read");
  }
  EXPECT_TRUE(quotient_columns(pointers(std::vector<NodeProfile>(2))).empty()) << "nothing was measured";
}

}  // namespace
}  // namespace reveal::tests::quotient_columns_test
