// Rows of interfaces, disks and queues that come and go.
#include "core/sampler/instances.h"

#include <gtest/gtest.h>

#include <array>

#include "hdf5schema/trace_reader.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::instances_test {
namespace {

constexpr MetricHelp kMetrics[] = {{"net.qdisc_drops", "Packets dropped."}};
constexpr std::array kTables = {FamilyTable{"network/qdisc", Kind::counter, Unit::count, Scope::interface,
                                            Subsystem::network, "Queues", "rtnetlink", kMetrics}};
constexpr std::array kColumns = {Instances::Column{0, 0}};

/// Increments of the counter as a trace has them from its first row on, after looks in which it had these values;
/// kMissing: nothing was read.
std::vector<std::int64_t> stored(const std::vector<std::int64_t>& values) {
  const TestHost host;
  host.write("/traces/here", "");
  const std::filesystem::path path = host.root() / "traces" / "node.h5";
  {
    TraceWriter writer(path, {.node = "here", .interval = std::chrono::milliseconds(100)});
    TraceSink sink(&writer);
    KernelTree fs(host.root());
    const Host machine = Host::look(fs);
    Instances instances({.fs = fs, .host = machine, .sink = sink, .period = std::chrono::milliseconds(100)}, kTables,
                        kColumns, 2);
    writer.start();
    DiffedText text;
    std::int64_t now = 1'000'000'000;
    for (const std::int64_t value : values) {
      sink.set_now(now += 100'000'000);
      if (value == kMissing) {
        instances.skip();
      } else {
        const std::string number = std::to_string(value);
        static_cast<void>(text.update(number));
        instances.begin();
        static_cast<void>(text.parse());
        const std::string_view word = number;
        if (auto* member = instances.see("eth0")) instances.store(*member, "eth0", text, std::span(&word, 1));
        instances.end();
      }
      instances.commit();
    }
    writer.close();
  }
  const TraceReader reader(path);
  return reader.read_stored(reader.families().front());
}

TEST(Instances, CountFromZeroWhereTheyWereSeenUnused) {
  EXPECT_EQ(stored({0, 0, 94, 170}), (std::vector<std::int64_t>{94, 76}));
  EXPECT_EQ(stored({94, 170}), (std::vector<std::int64_t>{kMissing, 76})) << "what was counted before it was seen";
}

TEST(Instances, AreNotForgottenWhereNothingWasRead) {
  EXPECT_EQ(stored({0, kMissing, 94, 170}), (std::vector<std::int64_t>{94, 76}));
}

}  // namespace
}  // namespace reveal::tests::instances_test
