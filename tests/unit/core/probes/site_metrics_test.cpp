#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::site_metrics_test {
namespace {

TEST(SiteMetrics, ReadNumbersFromFilesTheSiteNames) {
  TestHost host;
  host.write("/stats", "snapshot 1.5\nread_bytes 12 samples [bytes]\nopen: 7\n");
  host.write("/level", "42 degrees\n");
  host.write("/metrics.conf",
             "# a comment\n\nlustre.read counter bytes /stats read_bytes\nlustre.open counter bytes /stats open\n"
             "room.level gauge count /level # trailing\nroom.absent gauge count /nowhere\n");
  ProbeBench bench(host, "site", std::nullopt, host.root().string() + "/metrics.conf");
  bench.sample();
  EXPECT_EQ(bench.value("site/counter_bytes", "lustre.read"), 12);
  EXPECT_EQ(bench.value("site/counter_bytes", "lustre.open"), 7);
  EXPECT_EQ(bench.value("site/gauges", "room.level"), 42);
  EXPECT_EQ(bench.value("site/gauges", "room.absent"), kMissing);
}

TEST(SiteMetrics, ReadTheNumberThatIsCountedBehindAWord) {
  TestHost host;
  host.write("/stats",
             "write_bytes 3 samples [bytes] 1 2 30\nread_bytes 12 samples [bytes] 4096 8192 1048576\nMem: 5\n");
  host.write("/metrics.conf",
             "read.times counter count /stats read_bytes:1\nread.bytes counter bytes /stats read_bytes:4\n"
             "read.fifth counter bytes /stats read_bytes:5\nmem gauge bytes /stats Mem:\nmem.first gauge bytes /stats "
             "Mem:1\n");
  ProbeBench bench(host, "site", std::nullopt, host.root().string() + "/metrics.conf");
  bench.sample();
  EXPECT_EQ(bench.value("site/counters", "read.times"), 12);
  EXPECT_EQ(bench.value("site/counter_bytes", "read.bytes"), 1'048'576);
  EXPECT_EQ(bench.value("site/counter_bytes", "read.fifth"), kMissing);
  EXPECT_EQ(bench.value("site/gauge_bytes", "mem"), 5);
  EXPECT_EQ(bench.value("site/gauge_bytes", "mem.first"), 5);
}

TEST(SiteMetrics, NameTheLineThatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"b gauge parsec /level", "\"gauge parsec\""},
      {"b gauge count", "expected NAME KIND UNIT FILE"},
      {"b gauge count level", "\"level\" is not an absolute path"},
      {"b gauge count /level word more", "expected NAME KIND UNIT FILE"},
      {"a gauge count /other", "the metric \"a\" exists already"},
      {"cpu.user gauge count /level", "the metric \"cpu.user\" exists already"},
  };
  for (const auto& [line, reason] : wrong) {
    TestHost host;
    host.write("/metrics.conf", std::string("a gauge count /level\n") + line + "\n");
    try {
      const ProbeBench bench(host, "site", std::nullopt, host.root().string() + "/metrics.conf");
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::string("metrics.conf:2: ") + reason), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace reveal::tests::site_metrics_test
