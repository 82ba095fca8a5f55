#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::nfs_test {
namespace {

constexpr const char* kMountStats =
    "device proc mounted on /proc with fstype proc\n"
    "device filer:/export/home mounted on /home with fstype nfs4 statvers=1.1\n"
    "\topts:\trw,vers=4.2,rsize=1048576\n"
    "\tage:\t3600\n"
    "\tevents:\t10 20 0 0\n"
    "\tbytes:\t4096 8192 0 0 16384 32768 4 8\n"
    "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
    "\txprt:\ttcp 0 0 2 0 24 9000 8990 10 100 0 2 50 60\n"
    "\tper-op statistics\n"
    "\t        NULL: 1 1 0 44 24 0 3 3 0\n"
    "\t        READ: 100 103 1 22000 1600000 5 700 710 0\n"
    "\t       WRITE: 0 0 0 0 0 0 0 0 0\n"
    "\t     SYMLINK: 2 2 0 400 500 1 2 3 0\n"
    "\t      RENAME: 3 3 0 600 700 1 2 3 0\n"
    "\n";
TEST(Nfs, CountsRequestsOfAMountByKindWithTheirTime) {
  TestHost host;
  host.write("/proc/self/mountstats", kMountStats);
  host.write("/proc/net/rpc/nfs", "net 0 0 0 0\nrpc 9000 13 9100\nproc4 2 1 2\n");
  ProbeBench bench(host, "nfs");
  bench.sample();
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:READ"), 100);
  EXPECT_EQ(bench.value("storage/nfs", "nfs.retransmissions", "/home:READ"), 3);
  EXPECT_EQ(bench.value("storage/nfs", "nfs.timeouts", "/home:READ"), 1);
  EXPECT_EQ(bench.value("storage/nfs_bytes", "nfs.received_bytes", "/home:READ"), 1'600'000);
  EXPECT_EQ(bench.value("storage/nfs_time", "nfs.round_trip_time", "/home:READ"), 700'000'000);
  EXPECT_EQ(bench.value("storage/nfs_time", "nfs.execute_time", "/home:READ"), 710'000'000);
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:WRITE"), kMissing);  // never happened
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:other"), 1 + 2 + 3);
  EXPECT_EQ(bench.value("storage/nfs_mount", "nfs.server_read_bytes", "/home"), 16384);
  EXPECT_EQ(bench.value("storage/nfs_rpc", "nfs.rpc_calls"), 9000);
  EXPECT_EQ(bench.value("storage/nfs_rpc", "nfs.rpc_retransmissions"), 13);
}

TEST(Nfs, CountsWhatTheServerHasNotAnsweredOnAllConnections) {
  TestHost host;
  std::string text = kMountStats;
  host.write("/proc/self/mountstats", text);
  ProbeBench bench(host, "nfs");
  bench.sample();
  EXPECT_EQ(bench.value("storage/nfs_transport", "nfs.unanswered", "/home"), 10);
  const std::string second = "\txprt:\trdma 0 0 2 0 24 50 46 0 100 0 1 2 3\n\txprt:\tlocal 0 1 0 0 7 3 0 0 0 2 0 0\n";
  host.write("/proc/self/mountstats", text.insert(text.find("\tper-op"), second));
  bench.sample();
  EXPECT_EQ(bench.value("storage/nfs_transport", "nfs.unanswered", "/home"), 14);
  host.write("/proc/self/mountstats", "device filer:/export/home mounted on /home with fstype nfs4 statvers=1.1\n");
  bench.sample();
  EXPECT_EQ(bench.value("storage/nfs_transport", "nfs.unanswered", "/home"), kMissing);
}

TEST(Nfs, CountsAKindThatBeginsFromNothing) {
  TestHost host;
  std::string text = kMountStats;
  host.write("/proc/self/mountstats", text);
  ProbeBench bench(host, "nfs");
  bench.sample();
  const std::string none = "WRITE: 0 0 0 0 0 0 0 0 0";
  host.write("/proc/self/mountstats", text.replace(text.find(none), none.size(), "WRITE: 5 6 0 900 400 1 2 3 0"));
  bench.sample();
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:WRITE"), 0);
  EXPECT_EQ(bench.value("storage/nfs_time", "nfs.execute_time", "/home:WRITE"), 0);
  bench.sample();
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:WRITE"), 5);
  EXPECT_EQ(bench.value("storage/nfs", "nfs.retransmissions", "/home:WRITE"), 1);
  EXPECT_EQ(bench.value("storage/nfs_bytes", "nfs.sent_bytes", "/home:WRITE"), 900);
  EXPECT_EQ(bench.value("storage/nfs_time", "nfs.execute_time", "/home:WRITE"), 3'000'000);
}

TEST(Nfs, SurvivesATextCutOffAnywhere) {
  TestHost host;
  const std::string whole = kMountStats;
  host.write("/proc/self/mountstats", whole);
  ProbeBench bench(host, "nfs");
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    host.write("/proc/self/mountstats", whole.substr(0, size));
    bench.sample();
    const std::int64_t reads = bench.value("storage/nfs", "nfs.requests", "/home:READ");
    EXPECT_TRUE(reads == kMissing || reads == 100) << size;
  }
}

TEST(Nfs, IsAbsentWhereNothingIsMountedByIt) {
  TestHost host;
  host.write("/proc/self/mountstats", "device proc mounted on /proc with fstype proc\n");
  const ProbeBench bench(host, "nfs");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
  host.write("/proc/net/rpc/nfs", "net 0 0 0 0\nrpc 0 0 0\n");
  ProbeBench loaded(host, "nfs");
  host.write("/proc/self/mountstats", kMountStats);  // mounted on demand
  loaded.sample();
  EXPECT_EQ(loaded.value("storage/nfs", "nfs.requests", "/home:READ"), 100);
}

}  // namespace
}  // namespace reveal::tests::nfs_test
