// A node whose trace waits in its spool for the end of the job, for the tests of the delivery.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "hdf5schema/basics/config.h"
#include "hdf5schema/trace_writer.h"
#include "postproc/deliver/deliver.h"
#include "tests/unit/hdf5schema/sample_trace.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests {

class Deliver : public testing::Test {
 protected:
  Deliver() {
    std::filesystem::create_directories(base_ / "work");
    std::filesystem::create_directories(base_ / "home");
    settings_.wait_for_nodes = std::chrono::milliseconds(200);
    job_.place = {.id = "4711", .user = "anna", .cluster = "c", .work_dir = (base_ / "work").string(), .home = {}};
    job_.names.state = "TIMEOUT";
    job_.place.nodes = job_.place.watched = {"n01"};
  }

  /// The job has so many nodes: n01, n2, n3 and so on, all of them watched.
  void runs_on(int nodes) {
    for (int node = 2; node <= nodes; ++node) job_.place.watched.push_back("n" + std::to_string(node));
    job_.place.nodes = job_.place.watched;
  }

  std::filesystem::path spool(const std::string& node) {
    const std::filesystem::path spool = base_ / ("spool-" + node);
    std::filesystem::create_directories(spool);
    if (!std::filesystem::exists(spool / (node + ".h5"))) record(spool / (node + ".h5"), node);
    for (const char* left : {".status.json", ".h5.live", ".h5.watch"}) std::ofstream(spool / (node + left)) << "{}";
    return spool;
  }
  static void record(const std::filesystem::path& trace, const std::string& node) {
    constexpr std::int64_t kTenth = 100'000'000;
    TraceWriter writer(trace, {.job_id = "4711", .node = node, .interval = std::chrono::nanoseconds(kTenth)});
    const auto family = writer.add_family({.path = "memory/meminfo", .period = std::chrono::nanoseconds(kTenth)});
    writer.add_channel(family, {.metric = "mem.free"});
    writer.start();
    for (std::int64_t row = 1; row <= 30; ++row) {
      writer.append_row(family, row * kTenth, std::span<const std::int64_t>(&row, 1));
    }
    writer.append_clock({kTenth, 1'700'000'000'000'000'000, 0});
    writer.close();
  }
  /// With values that take space.
  std::filesystem::path spool_of_ten_minutes(const std::string& node) {
    constexpr std::int64_t kTenth = 100'000'000;
    std::filesystem::create_directories(base_ / ("spool-" + node));
    TraceWriter writer(base_ / ("spool-" + node) / (node + ".h5"),
                       {.job_id = "4711", .node = node, .interval = std::chrono::nanoseconds(kTenth)});
    const auto family = writer.add_family({.path = "memory/meminfo", .period = std::chrono::nanoseconds(kTenth)});
    std::vector<std::int64_t> values(20);
    for (std::size_t i = 0; i < values.size(); ++i) writer.add_channel(family, {.metric = "mem.m" + std::to_string(i)});
    writer.start();
    std::minstd_rand random(1);
    for (std::int64_t row = 1; row <= 6000; ++row) {
      for (std::int64_t& value : values) value = static_cast<std::int64_t>(random());
      writer.append_row(family, row * kTenth, values);
      if (row % 100 == 0) wait_until_flushed(writer, row * kTenth);
    }
    writer.append_clock({kTenth, 1'700'000'000'000'000'000, 0});
    writer.close();
    return base_ / ("spool-" + node);
  }
  Delivery deliver_node(const std::string& node, const std::string& request = "") {
    return deliver(spool(node), node, job_, request, settings_, {});
  }

  TemporaryDirectory directory_of_test_;
  const std::filesystem::path base_ = directory_of_test_.path();
  SlurmJob job_;
  DeliverSettings settings_ = deliver_settings({});
};

}  // namespace reveal::tests
