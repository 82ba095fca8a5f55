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
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/trace_writer.h"
#include "postproc/live/watched_node.h"
#include "synthetic_node.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::watch_test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTick = 100'000'000;

bool disturbed(double second) {
  return second >= 120 && second < 135;
}

Telemetry training(double outsiders) {
  return SyntheticNode().record(180, [outsiders](double second, SyntheticNode::Demand& demand) {
    SyntheticNode::training(second, demand);
    if (disturbed(second)) demand.outsider[0] = demand.outsider[1] = outsiders;
  });
}

/// As another process of the job uses cpu time, a lot of it from 120 s to 135 s.
void add_process(Telemetry& telemetry) {
  telemetry.channels.push_back({.metric = "process.cpu_time",
                                .instance = "slot2",
                                .role = "job",
                                .kind = Kind::counter,
                                .unit = Unit::nanoseconds,
                                .scope = Scope::process,
                                .subsystem = Subsystem::process});
  for (std::size_t t = 0; t < telemetry.samples; ++t) {
    const bool busy = disturbed(0.1 * static_cast<double>(t));
    telemetry.values.push_back((busy ? 9e7 : 1e7) + 1e6 * static_cast<double>(t * 7 % 5));
  }
}

/// Three minutes of a training.
void write_trace(const fs::path& path, const Telemetry& telemetry, const std::vector<Event>& events) {
  TraceWriter writer(path, sample_header());
  std::vector<std::size_t> measured;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.family == "derived") continue;
    FamilySpec spec = counter_family("synthetic/" + std::to_string(i));
    spec.kind = channel.kind;
    spec.unit = channel.unit;
    spec.subsystem = channel.subsystem;
    spec.scope = channel.scope;
    const auto family = writer.add_family(spec);
    writer.add_channel(family, {.metric = channel.metric, .instance = channel.instance, .role = channel.role});
    measured.push_back(i);
  }
  writer.start();
  writer.append_clock({kSecond, 2 * kSecond, 0});
  for (const Event& event : events) writer.append_event(event);
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
  write_trace(directory.path() / "n01.h5", training(0.9), {});
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

TEST(WatchedNode, EndsWhereItsCollectorWasKilled) {
  const TemporaryDirectory directory;
  write_trace(directory.path() / "n01.h5", training(0.9), {});
  fs::rename(directory.path() / "n01.h5", directory.path() / "n01.h5.part");
  WatchedNode watched(directory.path() / "n01.h5");
  CpuBudget budget(0.1);
  const auto now = std::chrono::steady_clock::now();
  std::vector<AlertNotice> notices = watched.advance(now, budget);
  EXPECT_FALSE(watched.ended());
  for (AlertNotice& notice : watched.end(now, budget)) notices.push_back(std::move(notice));
  EXPECT_TRUE(watched.ended());
  ASSERT_FALSE(notices.empty());
  EXPECT_EQ(notices.back().state, AlertState::closed);
  EXPECT_TRUE(watched.end(now, budget).empty());
  EXPECT_TRUE(watched.advance(now, budget).empty());
}

TEST(WatchedNode, NamesTheProgramOfAProcessInItsAlerts) {
  const TemporaryDirectory directory;
  Telemetry telemetry = training(0);
  add_process(telemetry);
  write_trace(directory.path() / "n01.h5", telemetry, {{2 * kSecond, "process 7", "process_begin", "slot2 cc1plus"}});
  WatchedNode watched(directory.path() / "n01.h5");
  CpuBudget budget(0.1);
  const std::vector<AlertNotice> notices = watched.advance(std::chrono::steady_clock::now(), budget);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].claim, "CPU time of cc1plus (slot 2) rose to 0.92 cpus from 0.12 cpus for 14 s.");
  ASSERT_FALSE(notices[0].reasons.empty());
  EXPECT_EQ(notices[0].reasons[0].channel, "process.cpu_time/slot2");
  EXPECT_EQ(notices[0].reasons[0].program, "cc1plus");
}

}  // namespace
}  // namespace reveal::tests::watch_test
