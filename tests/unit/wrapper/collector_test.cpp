// The files that are left when the collector of a launch has ended.
#include "wrapper/collector.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/temporary_directory.h"

namespace reveal::tests::collector_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

TEST(Collector, LeavesNoHalfOfATraceWhereItWasKilled) {
  const TemporaryDirectory directory;
  const fs::path job = directory.path() / "job";
  fs::create_directory(job);
  const Launch launch{.key = "launch@n1", .node = "n1", .shared = true};
  RunDirectory run(launch, directory.path().string(), 1000ms);
  run.write("collector", "4711 1\n");
  run.write("output", job.string() + '\0' + job.string());
  for (const char* file : {"n1.h5", ".n1.h5.compact", ".n1.h5.next", ".n1.h5.last", ".n2.h5.compact"}) {
    std::ofstream(job / file) << "x";
  }
  const CollectorResult result = await_collector(launch, run, 128 + SIGKILL);
  EXPECT_EQ(result.end, CollectorEnd::closed);
  EXPECT_EQ(result.directory.path, job.string());
  for (const char* half : {".n1.h5.compact", ".n1.h5.next", ".n1.h5.last"})
    EXPECT_FALSE(fs::exists(job / half)) << half;
  EXPECT_TRUE(fs::exists(job / "n1.h5"));
  EXPECT_TRUE(fs::exists(job / ".n2.h5.compact")) << "that of another node, which may still be written";
  EXPECT_TRUE(run.leave(1000ms));
}

}  // namespace
}  // namespace reveal::tests::collector_test
