// A whole watch, of a trace that is closed while it is watched.
#include "postproc/live/watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/trace_writer.h"
#include "synthetic_node.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::watch_test {
namespace {

namespace fs = std::filesystem;

/// Three minutes of a training; from 120 s to 135 s, other processes use its cpus.
void write_disturbed_trace(const fs::path& path) {
  constexpr std::int64_t kTick = 100'000'000;
  const Telemetry telemetry = SyntheticNode().record(180, [](double second, SyntheticNode::Demand& demand) {
    SyntheticNode::training(second, demand);
    if (second >= 120 && second < 135) demand.outsider[0] = demand.outsider[1] = 0.9;
  });
  TraceWriter writer(path, sample_header());
  std::vector<std::size_t> measured;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.family == "derived") continue;
    FamilySpec spec = counter_family("synthetic/" + std::to_string(i));
    spec.kind = channel.kind;
    spec.unit = channel.unit;
    spec.subsystem = channel.subsystem;
    const auto family = writer.add_family(spec);
    writer.add_channel(family, {.metric = channel.metric, .instance = channel.instance, .role = channel.role});
    measured.push_back(i);
  }
  writer.start();
  writer.append_clock({kSecond, 2 * kSecond, 0});
  std::vector<std::int64_t> counts(measured.size());
  for (std::size_t t = 0; t < telemetry.samples; ++t) {
    const std::int64_t time = kSecond + static_cast<std::int64_t>(t) * kTick;
    for (std::size_t f = 0; f < measured.size(); ++f) {
      const auto value = static_cast<std::int64_t>(std::llround(telemetry.series(measured[f])[t]));
      counts[f] = telemetry.channels[measured[f]].kind == Kind::gauge ? value : counts[f] + value;
      writer.append_row(static_cast<TraceWriter::FamilyId>(f), time, std::span(&counts[f], 1));
    }
    if (t % 100 == 99) wait_until_flushed(writer, time);
  }
  writer.close();
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Watch, ForwardsTheAlertsThatItPrints) {
  const TemporaryDirectory directory;
  const fs::path job = directory.path() / "job";
  fs::create_directory(job);
  write_disturbed_trace(directory.path() / "n01.h5");
  fs::rename(directory.path() / "n01.h5", job / "n01.h5.part");
  const WatchOptions options{.directory = job,
                             .form = WatchForm::json,
                             .forward = {.append = directory.path() / "alerts", .spool = directory.path() / "spool"}};
  const std::atomic<bool> stop{false};
  const fs::path printed = directory.path() / "printed";
  std::FILE* out = std::fopen(printed.c_str(), "w");
  ASSERT_NE(out, nullptr);
  auto end = std::async(std::launch::async, [&] { return watch_job(options, out, stop); });
  while (text_of(printed).find("\"watching\"") == std::string::npos) std::this_thread::yield();
  fs::rename(job / "n01.h5.part", job / "n01.h5");
  EXPECT_EQ(end.get(), WatchEnd::job_ended);
  std::fclose(out);

  std::vector<std::string> alerts;
  std::ifstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("reveal.alert/1") != std::string::npos) alerts.push_back(line);
  }
  ASSERT_GE(alerts.size(), 1U);
  std::string appended;
  for (const std::string& alert : alerts) appended += alert + "\n";
  EXPECT_EQ(text_of(directory.path() / "alerts"), appended);
  const auto files = std::distance(fs::directory_iterator(directory.path() / "spool"), fs::directory_iterator());
  EXPECT_EQ(static_cast<std::size_t>(files), alerts.size());
  const auto last = nlohmann::json::parse(alerts.back());
  EXPECT_EQ(last.at("state"), "closed");
  EXPECT_EQ(last.at("node"), sample_header().node);
}

}  // namespace
}  // namespace reveal::tests::watch_test
