// io.slow_reads on a job that waits for storage that does nothing, and on waits that have another reason.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::io_slow_reads_test {
namespace {

using R = RuleRecording;

struct Reader {
  R::Course wait = R::event(0.01, 0.35);  // seconds per second
  R::Course read = R::event(18e6, 4e6);
  R::Course used = R::event(0.9, 0.4);
  R::Course disk = R::event(0.05, 0.02);
};

R record(const Reader& reader) {
  const auto times = [](const R::Course& course, double factor) {
    return [course, factor](double second) { return course(second) * factor; };
  };
  R node;
  node.counter("pressure.io_some", "", times(reader.wait, 1e9))
      .counter("process.read_bytes", "rank0", reader.read, "rank")
      .counter("job.cpu_time", "", times(reader.used, 1e9))
      .counter("disk.io_time", "vda", times(reader.disk, 1e9));
  return node;
}

TEST(RuleSlowReads, SaysThatTheDiskWasIdleMeanwhile) {
  const R node = record({});
  const auto found = node.findings("io.slow_reads");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].subsystem, Subsystem::storage);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.5);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * (1 - 0.4 / 0.9), 0.5);
  EXPECT_EQ(found[0].evidence.size(), 4U);
}

TEST(RuleSlowReads, NamesTheMountsFromWhichDataCame) {
  R node = record({});
  node.counter("nfs.requests", "/data:READ", R::always(50), "node");
  node.counter("nfs.requests", "/home:READ", R::always(0), "node");
  node.counter("nfs.requests", "/home:GETATTR", R::always(9), "node");
  const auto one = node.findings("io.slow_reads");
  ASSERT_EQ(one.size(), 1U);
  EXPECT_TRUE(one[0].sentence.ends_with(" Data came from the NFS mount /data.")) << one[0].sentence;
  node.counter("nfs.requests", "/work:READ", R::always(5), "node");
  const auto two = node.findings("io.slow_reads");
  EXPECT_TRUE(two.at(0).sentence.ends_with(" Data came from the NFS mounts /data, /work.")) << two.at(0).sentence;
}

TEST(RuleSlowReads, LeavesAFullDiskToOthers) {
  EXPECT_TRUE(record({.disk = R::event(0.05, 0.95)}).findings("io.slow_reads").empty());
}

TEST(RuleSlowReads, IsSilentWhenSomebodyElseWaits) {
  EXPECT_TRUE(record({.used = R::always(0.9)}).findings("io.slow_reads").empty());
}

TEST(RuleSlowReads, IsSilentWhenTheJobReadsMoreThanUsual) {
  EXPECT_TRUE(record({.read = R::event(2e6, 90e6)}).findings("io.slow_reads").empty());
}

TEST(RuleSlowReads, IsSilentOnWritesThatAreWaitedFor) {
  EXPECT_TRUE(record({.read = R::event(18e6, 0)}).findings("io.slow_reads").empty());
}

TEST(RuleSlowReads, IsSilentOnColdReadsAtEveryEpoch) {
  const Reader epochs{.wait = R::habit(0.01, 0.4), .read = R::habit(18e6, 4e6), .used = R::habit(0.9, 0.4)};
  EXPECT_TRUE(record(epochs).findings("io.slow_reads").empty());
}

TEST(RuleSlowReads, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("io.slow_reads")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::io_slow_reads_test
