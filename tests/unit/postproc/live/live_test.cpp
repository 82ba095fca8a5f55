#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/trace_writer.h"
#include "postproc/detect/pipeline.h"
#include "postproc/json/json_fields.h"
#include "postproc/live/alert_book.h"
#include "postproc/live/cpu_budget.h"
#include "postproc/live/live_detector.h"
#include "postproc/live/live_trace.h"
#include "postproc/live/watch_view.h"
#include "postproc/telemetry/row_store.h"
#include "synthetic_node.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::live_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<ChannelKey> keys(std::initializer_list<const char*> metrics) {
  std::vector<ChannelKey> all;
  for (const char* metric : metrics) all.push_back({.metric = metric});
  return all;
}

std::span<const double> series_of(const LiveBlock& block, const std::string& metric) {
  for (std::size_t i = 0; i < block.telemetry.channels.size(); ++i) {
    if (block.telemetry.channels[i].metric == metric) return block.telemetry.series(i);
  }
  return {};
}

TEST(RowStore, EarlyRowsWaitUntilTheTraceReachesBackToThem) {
  RowStore rows(std::chrono::seconds(600));
  const std::size_t family = rows.learn(counter_family(), keys({"vm.faults"}));
  rows.append(family, std::vector<std::int64_t>{kTick, 2 * kTick}, std::vector<double>{kNaN, 5});
  rows.append_early(family, 4 * kTick, std::vector<std::int64_t>{112});
  rows.append_early(family, 5 * kTick, std::vector<std::int64_t>{115});
  EXPECT_TRUE(rows.rows_wait());
  EXPECT_EQ(rows.newest_ns(), 2 * kTick);
  // The flush brings the rows 3 and 4, the latter for the second time.
  rows.append(family, std::vector<std::int64_t>{3 * kTick, 4 * kTick}, std::vector<double>{1, 6});
  EXPECT_FALSE(rows.rows_wait());
  EXPECT_EQ(rows.newest_ns(), 5 * kTick);
  rows.append_early(family, 6 * kTick, std::vector<std::int64_t>{100});  // a reset: unknown, not negative
  rows.append_early(family, 7 * kTick, std::vector<std::int64_t>{kMissing});
  rows.append_early(family, 8 * kTick, std::vector<std::int64_t>{104});
  const auto block = rows.block(sample_header(), 0);
  ASSERT_TRUE(block);
  const auto values = series_of(*block, "vm.faults");
  const std::vector<double> expected{5, 1, 6, 3, 4 / 3.0, 4 / 3.0, 4 / 3.0};  // the increase after a gap covers the gap
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_DOUBLE_EQ(values[i], expected[i]) << i;
}

TEST(RowStore, ChannelsThatAppearAreKeptUntilTheTraceNamesThem) {
  RowStore rows(std::chrono::seconds(600));
  const std::size_t family = rows.learn(gauge_family(), keys({"mem.free"}));
  rows.append(family, std::vector<std::int64_t>{kTick, 2 * kTick}, std::vector<double>{7, 7});
  rows.append_early(family, 2 * kTick, std::vector<std::int64_t>{7});
  rows.append_early(family, 3 * kTick, std::vector<std::int64_t>{7, 40});
  rows.append_early(family, 4 * kTick, std::vector<std::int64_t>{7, 41});
  EXPECT_TRUE(rows.names_missing());
  EXPECT_EQ(rows.block(sample_header(), 0)->telemetry.channels.size(), 1U);
  rows.learn(gauge_family(), keys({"mem.free", "mem.dirty"}));
  EXPECT_FALSE(rows.names_missing());
  const auto block = rows.block(sample_header(), 0);
  const auto dirty = series_of(*block, "mem.dirty");
  ASSERT_EQ(dirty.size(), 3U);
  EXPECT_TRUE(std::isnan(dirty[0]));
  EXPECT_EQ(dirty[1], 40);
  EXPECT_EQ(dirty[2], 41);
}

TEST(RowStore, LeavesOutAnEarlyRowThatIsWiderThanAFamilyCanBe) {
  RowStore rows(std::chrono::seconds(600));
  const std::size_t family = rows.learn(gauge_family(), keys({"mem.free"}));
  rows.append(family, std::vector<std::int64_t>{kTick, 2 * kTick}, std::vector<double>{7, 7});
  rows.append_early(family, 2 * kTick, std::vector<std::int64_t>{7});
  rows.append_early(family, 3 * kTick, std::vector<std::int64_t>(1 << 20, 7));
  EXPECT_FALSE(rows.names_missing());
  EXPECT_EQ(rows.newest_ns(), 2 * kTick);
}

TEST(RowStore, OfRowsCloserThanTheStepsOfADetectionRunKeepsOneForEach) {
  using namespace std::chrono_literals;
  constexpr std::int64_t kFine = 20'000'000;
  constexpr std::int64_t kOffset = 30'000'000;  // steps of the wall clock do not begin where those of the monotonic do
  RowStore rows(600s);
  FamilySpec counters = counter_family();
  FamilySpec levels = gauge_family();
  counters.period = levels.period = 20ms;
  const std::size_t faults = rows.learn(counters, keys({"vm.faults"}), kOffset);
  const std::size_t free = rows.learn(levels, keys({"mem.free"}), kOffset);
  // Ticks at 10, 30, 50 ms: 40, 60, 80 ms of the wall clock.
  const auto time_of = [](std::int64_t tick) { return tick * kFine - 10'000'000; };
  for (std::int64_t tick = 1; tick <= 21; tick += 3) {
    std::vector<std::int64_t> times;
    std::vector<double> values;
    for (std::int64_t t = tick; t < tick + 3; ++t) {
      times.push_back(time_of(t));
      values.push_back(static_cast<double>(t));
    }
    rows.append(faults, times, std::vector<double>{tick == 1 ? kNaN : 2, 2, tick == 10 ? kNaN : 2});
    rows.append(free, times, values);
  }
  rows.append_early(faults, time_of(21), std::vector<std::int64_t>{1000});
  for (std::int64_t tick = 22; tick <= 34; ++tick)
    rows.append_early(faults, time_of(tick), std::vector<std::int64_t>{1000 + 2 * (tick - 21)});
  TraceHeader header = sample_header();
  header.interval = 20ms;
  const auto block = rows.block(header, kOffset);
  ASSERT_TRUE(block);
  EXPECT_DOUBLE_EQ(block->telemetry.step_seconds, 0.1);
  EXPECT_EQ(block->telemetry.begin_utc_ns, kTick);
  const auto counted = series_of(*block, "vm.faults");
  EXPECT_EQ(std::vector<double>(counted.begin(), counted.end()), std::vector<double>({10, 8, 10, 10, 10, 10}));
  EXPECT_EQ(series_of(*block, "mem.free")[1], 14);
  EXPECT_DOUBLE_EQ(rows.level("vm.faults", time_of(20), time_of(30)).value(), 100);
}

TEST(RowStore, ForgetsWhatIsOlderThanADetectionRunNeeds) {
  RowStore rows(std::chrono::seconds(10));
  const std::size_t family = rows.learn(gauge_family(), keys({"mem.free"}));
  for (std::int64_t t = 1; t <= 5000; ++t)
    rows.append(family, std::vector<std::int64_t>{t * kTick}, std::vector<double>{static_cast<double>(t)});
  const auto block = rows.block(sample_header(), 0);
  EXPECT_FALSE(block->starts);
  EXPECT_EQ(block->telemetry.samples, 100U);
  EXPECT_EQ(block->first_ns, 4900 * kTick);
  EXPECT_EQ(series_of(*block, "mem.free").back(), 5000);
  EXPECT_EQ(block->time_of(100), 5000 * kTick);
}

/// Bytes in memory.
double resident() {
  constexpr double kPage = 4096;
  std::ifstream file("/proc/self/statm");
  double size = 0;
  double pages = 0;
  file >> size >> pages;
  return pages * kPage;
}

TEST(RowStore, HoldsTenMinutesOfAThousandChannelsInFortyMegabytes) {
#ifdef __has_feature
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "the address sanitizer keeps memory that was freed";
#endif
#endif
  constexpr std::int64_t kChannels = 1000;
  constexpr std::int64_t kRows = 100;
  std::vector<ChannelKey> channels(kChannels);
  for (std::size_t i = 0; i < channels.size(); ++i) channels[i].metric = "c" + std::to_string(i);
  std::vector<double> values(kChannels * kRows);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 1000);
  const double before = resident();
  RowStore rows(kLiveBlock);
  const std::size_t family = rows.learn(gauge_family(), channels);
  for (std::int64_t first = 1; first < 9000; first += kRows) {
    std::vector<std::int64_t> times;
    for (std::int64_t t = first; t < first + kRows; ++t) times.push_back(t * kTick);
    rows.append(family, times, values);
  }
  EXPECT_LT(resident() - before, 40e6);
  const auto block = rows.block(sample_header(), 0);
  EXPECT_EQ(block->telemetry.samples, 6000U);
  EXPECT_EQ(block->telemetry.series(999).back(), 999);
}

TEST(CpuBudget, UrgentRunsBorrowAndWhatDoesNotFitIsCounted) {
  CpuBudget budget(0.1);
  EXPECT_FALSE(budget.allows(CpuBudget::Need::routine, 100, 0.5));
  EXPECT_TRUE(budget.allows(CpuBudget::Need::routine, 105, 0.5));  // five seconds saved half a second
  double spent = 0;
  std::int64_t refused = 0;
  for (int second = 0; second < 1000; ++second) {
    if (budget.allows(CpuBudget::Need::urgent, 105 + second, 0.5)) {
      budget.spend(0.5);
      spent += 0.5;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 700);
  EXPECT_EQ(budget.skipped(), refused);
  EXPECT_LT(spent, 0.1 * 1000 + 10);  // the share, and the limit of borrowing
}

/// A detection run on a job of 100 s in which an episode was seen.
struct DetectionRun {
  LiveBlock block;
  Detection detection;
  explicit DetectionRun(double now_seconds) {
    block.starts = true;
    block.telemetry.step_seconds = 0.1;
    block.telemetry.samples = static_cast<std::size_t>(now_seconds * 10);
    block.telemetry.channels.push_back({.metric = "cpu.user", .instance = "cpu0"});
  }
  DetectionRun& with(double begin, double end, Tier tier) {
    detection.episodes.push_back({.begin = static_cast<std::size_t>(begin * 10),
                                  .end = static_cast<std::size_t>(end * 10),
                                  .methods = {Method::interval_scan},
                                  .score = 6,
                                  .tier = tier,
                                  .reasons = {{.channel = 0, .observed = 2, .expected = 1, .share = 1}},
                                  .claim = "it rose"});
    return *this;
  }
};

std::vector<AlertNews> published(AlertBook& book, const DetectionRun& run, bool ended = false) {
  std::vector<AlertNews> news;
  for (const AlertChange& change : book.update(run.detection, run.block, ended)) news.push_back(change.news);
  return news;
}

using News = std::vector<AlertNews>;

TEST(AlertBook, TellsOnceWhenItOpensAndOnceWhenItCloses) {
  AlertBook book;
  EXPECT_EQ(published(book, DetectionRun(90)), News{});
  EXPECT_EQ(published(book, DetectionRun(90).with(84, 90, Tier::strong)), News{AlertNews::opened});
  EXPECT_EQ(published(book, DetectionRun(91).with(84, 91, Tier::strong)), News{});
  EXPECT_TRUE(book.expects_news());
  EXPECT_EQ(published(book, DetectionRun(100).with(84, 97, Tier::strong)), News{AlertNews::closed});
  EXPECT_EQ(published(book, DetectionRun(101).with(84.5, 97.3, Tier::strong)), News{});
  EXPECT_FALSE(book.expects_news());
  EXPECT_EQ(published(book, DetectionRun(102).with(84.5, 97.3, Tier::strong), true), News{});
  ASSERT_EQ(book.published().size(), 1U);
  EXPECT_EQ(book.published()[0].number, 1);
  EXPECT_EQ(book.published()[0].begin_ns, 84'500'000'000);
}

TEST(AlertBook, NumbersItsAlertsAfterThoseOfAnEarlierTrace) {
  AlertBook earlier;
  EXPECT_EQ(published(earlier, DetectionRun(90).with(84, 90, Tier::strong)), News{AlertNews::opened});
  AlertBook book;
  book.number_after(earlier);
  EXPECT_EQ(published(book, DetectionRun(90).with(84, 90, Tier::strong)), News{AlertNews::opened});
  EXPECT_EQ(book.published().at(0).number, 2);
  book.number_after(AlertBook());
  EXPECT_EQ(published(book, DetectionRun(100).with(84, 90, Tier::strong).with(94, 100, Tier::strong)),
            (News{AlertNews::closed, AlertNews::opened}));
  EXPECT_EQ(book.published().at(1).number, 3);
}

TEST(AlertBook, TakesBackOnlyBySayingSo) {
  AlertBook book;
  EXPECT_EQ(published(book, DetectionRun(90).with(84, 90, Tier::strong)), News{AlertNews::opened});
  EXPECT_EQ(published(book, DetectionRun(91).with(84, 91, Tier::none)), News{});  // weaker, but still there
  EXPECT_EQ(published(book, DetectionRun(92)), News{});
  EXPECT_EQ(published(book, DetectionRun(93)), News{});
  EXPECT_EQ(published(book, DetectionRun(94)), News{AlertNews::withdrawn});
  EXPECT_EQ(published(book, DetectionRun(95)), News{});
  EXPECT_EQ(published(book, DetectionRun(96).with(84, 96, Tier::strong)), News{});  // this time it must be over
  EXPECT_EQ(published(book, DetectionRun(100).with(84, 96, Tier::strong)), News{AlertNews::closed});
}

TEST(AlertBook, TakesBackWithTheMethodsOfThePublishedAlert) {
  AlertBook book;
  const auto update = [&book](const DetectionRun& run) {
    return book.update(run.detection, run.block, false,
                       [](Episode& episode) { episode.methods.push_back(Method::neighbours); });
  };
  const auto opened = update(DetectionRun(90).with(84, 90, Tier::strong));
  ASSERT_EQ(opened.size(), 1U);
  const std::vector<Method> methods{Method::interval_scan, Method::neighbours};
  EXPECT_EQ(opened[0].alert.episode.methods, methods);
  EXPECT_TRUE(update(DetectionRun(91).with(84, 91, Tier::strong)).empty());
  EXPECT_TRUE(update(DetectionRun(92)).empty());
  EXPECT_TRUE(update(DetectionRun(93)).empty());
  const auto withdrawn = update(DetectionRun(94));
  ASSERT_EQ(withdrawn.size(), 1U);
  EXPECT_EQ(withdrawn[0].news, AlertNews::withdrawn);
  EXPECT_EQ(withdrawn[0].alert.episode.methods, methods);
}

TEST(AlertBook, ForgottenIsNotWithdrawn) {
  AlertBook book;
  EXPECT_EQ(published(book, DetectionRun(100).with(84, 96, Tier::strong)), News{AlertNews::closed});
  for (int run = 0; run < 5; ++run) {
    DetectionRun later(100);
    later.block.starts = false;
    later.block.first_ns = 90 * kSecond;
    EXPECT_EQ(published(book, later), News{});
  }
}

TEST(AlertBook, ClosesWhatWasOpenBeforeAPauseThatIsLongerThanABlock) {
  AlertBook book;
  EXPECT_EQ(published(book, DetectionRun(100).with(94, 100, Tier::strong)), News{AlertNews::opened});
  const auto later = [](std::int64_t first_seconds) {
    DetectionRun run(100);
    run.block.starts = false;
    run.block.first_ns = first_seconds * kSecond;
    return run;
  };
  EXPECT_EQ(published(book, later(3600)), News{});
  EXPECT_EQ(published(book, later(3601)), News{});
  EXPECT_TRUE(book.expects_news());
  EXPECT_EQ(published(book, later(3602)), News{AlertNews::closed});
  EXPECT_EQ(published(book, later(3603)), News{});
  EXPECT_FALSE(book.expects_news());
  ASSERT_EQ(book.published().size(), 1U);
  EXPECT_EQ(book.published()[0].state, AlertState::closed);
  EXPECT_EQ(book.published()[0].end_ns, 100 * kSecond);
}

TEST(AlertBook, GoesOnWithAnOpenOneThatFillsTheBlock) {
  AlertBook book;
  EXPECT_EQ(published(book, DetectionRun(100).with(94, 100, Tier::strong)), News{AlertNews::opened});
  DetectionRun later(100);
  later.block.starts = false;
  later.block.first_ns = 96 * kSecond;
  for (int run = 0; run < 5; ++run) {
    DetectionRun seen = later;
    EXPECT_EQ(published(book, seen.with(0, 100, Tier::strong)), News{});
  }
  EXPECT_TRUE(book.expects_news());
  EXPECT_EQ(published(book, later, true), News{AlertNews::closed}) << "the job has ended";
}

TEST(AlertBook, IsSilentWhileLittleIsKnown) {
  AlertBook book;
  EXPECT_EQ(published(book, DetectionRun(50).with(40, 46, Tier::strong)), News{});
  EXPECT_EQ(published(book, DetectionRun(90).with(40, 80, Tier::strong)), News{});  // nearly half of the seen time
  EXPECT_EQ(published(book, DetectionRun(90).with(40, 80, Tier::strong), true), News{AlertNews::closed});
}

TEST(AlertBook, AWeakOneIsWorthAWordWhenItIsOverAndSeenTwice) {
  AlertBook book;
  EXPECT_EQ(published(book, DetectionRun(90).with(84, 90, Tier::weak)), News{});
  EXPECT_EQ(published(book, DetectionRun(95).with(84, 92, Tier::weak)), News{AlertNews::closed});
  EXPECT_EQ(published(book, DetectionRun(96).with(84, 92, Tier::strong)), News{AlertNews::revised});
}

TEST(AlertBook, KeepsTheNamesOfItsChannelsWhereverTheNextRunHasThem) {
  AlertBook book;
  DetectionRun first = DetectionRun(90).with(84, 90, Tier::strong);
  EXPECT_EQ(published(book, first), News{AlertNews::opened});
  DetectionRun second = DetectionRun(91).with(84, 91, Tier::strong);  // a device appeared
  second.block.telemetry.channels.insert(second.block.telemetry.channels.begin(), {.metric = "disk.reads"});
  second.detection.episodes[0].reasons[0].channel = 1;
  EXPECT_EQ(published(book, second), News{});
  const Alert alert = book.published().at(0);
  ASSERT_EQ(alert.episode.reasons.size(), 1U);
  EXPECT_EQ(alert.channels.at(alert.episode.reasons[0].channel).name(), "cpu.user/cpu0");
}

TEST(AlertNotice, IsOneLineOrOneObject) {
  AlertNotice notice{.news = AlertNews::opened,
                     .published_utc_ns = 96 * kSecond,
                     .node = "n01",
                     .number = 2,
                     .tier = Tier::strong,
                     .begin_utc_ns = 84 * kSecond,
                     .end_utc_ns = 90 * kSecond,
                     .subsystem = Subsystem::network,
                     .methods = {Method::interval_scan, Method::neighbours},
                     .claim = "it rose",
                     .reasons = {{"net.rx_bytes/eth0", "bytes/s", 2e6, kNaN, 1}}};
  EXPECT_EQ(alert_line(notice),
            "00:01:36 opened n01 #2 network strong since 00:01:24 (6 s so far): it rose [GAP+KNN; net.rx_bytes/eth0]");
  const Json json = parse_json(alert_json(notice), "an alert");
  EXPECT_EQ(json.at("begin"), "1970-01-01T00:01:24Z");
  EXPECT_EQ(json.at("methods"), (Json{"GAP", "KNN"}));
  EXPECT_TRUE(json.at("reasons").at(0).at("expected").is_null());
  EXPECT_EQ(json.at("reasons").at(0).at("expected_reason"), "not measured");
  notice.news = AlertNews::withdrawn;
  notice.state = AlertState::withdrawn;
  EXPECT_EQ(alert_line(notice),
            "00:01:36 withdrawn n01 #2 network strong 00:01:24 to 00:01:30 (6 s): no longer different from the rest of "
            "the job");
}

TEST(WatchNotice, IsOneLineOrOneObject) {
  const WatchNotice notice{"watching", 96 * kSecond, "watching job"};
  EXPECT_EQ(watch_line(notice), "00:01:36 watching job");
  EXPECT_EQ(
      watch_json(notice),
      R"({"schema":"reveal.watch/1","news":"watching","published":"1970-01-01T00:01:36Z","text":"watching job"})");
}

TEST(WatchSummary, HasTheCostOfTheWatchOrTheReasonWhyItIsUnknown) {
  const WatchSummary summary{.notice = {"ended", 96 * kSecond, "the job has ended"},
                             .watching_percent = kNaN,
                             .runs = 3,
                             .nodes = {{"n01", LiveState::closed, 62, 700, 0.25, 90 * kSecond}}};
  const Json end = parse_json(end_json(summary), "the end");
  EXPECT_EQ(end.at("news"), "ended");
  EXPECT_TRUE(end.at("watching_cpu_percent_of_core").is_null());
  EXPECT_EQ(end.at("watching_cpu_percent_of_core_reason"), "not measured");
  EXPECT_EQ(end.at("runs"), 3);
  EXPECT_EQ(
      end.at("nodes").at(0),
      parse_json(R"({"node":"n01","state":"ended","seconds":62,"channels":700,"collector_cpu_percent_of_core":0.25,)"
                 R"("heard":"1970-01-01T00:01:30Z"})",
                 "a node"));
}

/// Plays a telemetry second by second into live detection.
struct Replay {
  RowStore rows{kLiveBlock};
  LiveDetector detector;
  CpuBudget budget{4};
  std::vector<AlertChange> published;

  explicit Replay(const Telemetry& telemetry) {
    TraceHeader header = sample_header();
    header.node = telemetry.node;
    std::vector<std::size_t> families;
    for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
      const Channel& channel = telemetry.channels[i];
      if (channel.family == "derived") continue;
      FamilySpec spec = counter_family("synthetic/" + std::to_string(i));
      spec.kind = channel.kind;
      spec.unit = channel.unit;
      spec.subsystem = channel.subsystem;
      families.push_back(i);
      rows.learn(spec, {{.metric = channel.metric, .instance = channel.instance, .role = channel.role}});
    }
    for (std::size_t f = 0; f < families.size(); ++f)
      rows.append(f, std::vector<std::int64_t>{kSecond}, std::vector<double>{kNaN});
    for (std::size_t t = 0; t < telemetry.samples; ++t) {
      const auto time = kSecond + static_cast<std::int64_t>(t + 1) * kTick;
      for (std::size_t f = 0; f < families.size(); ++f)
        rows.append(f, std::vector<std::int64_t>{time}, std::vector<double>{telemetry.series(families[f])[t]});
      const bool ended = t + 1 == telemetry.samples;
      for (AlertChange& change : detector.advance(rows, header, 0, static_cast<double>(time) * 1e-9, ended, budget)) {
        published.push_back(std::move(change));
      }
    }
  }
};

TEST(LiveDetector, AgreesWithTheReportWithinASecond) {
  const SyntheticNode node;
  const auto life = [](double second, SyntheticNode::Demand& demand) {
    SyntheticNode::training(second, demand);
    if (second >= 120 && second < 135) demand.outsider[0] = demand.outsider[1] = 0.9;
  };
  const Telemetry telemetry = node.record(180, life);
  const Detection report = find_pipeline("reveal").run(telemetry, {.keep_windows = false});
  ASSERT_FALSE(report.episodes.empty());
  const Episode& episode = report.episodes.front();
  ASSERT_EQ(episode.tier, Tier::strong);

  const Replay live(telemetry);
  ASSERT_GE(live.published.size(), 2U);
  EXPECT_EQ(live.published.front().news, AlertNews::opened);
  EXPECT_LT(live.published.front().alert.end_ns, kSecond + 135 * kSecond);  // while it lasted
  std::vector<Alert> standing;
  for (const Alert& alert : live.detector.book().published()) {
    if (alert.state != AlertState::withdrawn) standing.push_back(alert);
  }
  ASSERT_EQ(standing.size(), 1U);
  constexpr std::int64_t kTolerance = kSecond;
  EXPECT_NEAR(standing[0].begin_ns - kSecond, static_cast<std::int64_t>(episode.begin) * kTick, kTolerance);
  EXPECT_NEAR(standing[0].end_ns - kSecond, static_cast<std::int64_t>(episode.end) * kTick, kTolerance);
  EXPECT_EQ(standing[0].episode.subsystem, episode.subsystem);
  EXPECT_EQ(standing[0].episode.tier, episode.tier);
}

TEST(LiveDetector, IsSilentOnAnUndisturbedJob) {
  const SyntheticNode node;
  const Replay live(node.record(180, SyntheticNode::training));
  EXPECT_TRUE(live.published.empty());
  EXPECT_GT(live.budget.runs(), 30);
}

/// A trace as the collector writes it, a flush every hundred rows. It is written elsewhere and copied after each flush:
/// HDF5 does not open a file for reading that the same process writes.
class GrowingTrace {
 public:
  explicit GrowingTrace(std::filesystem::path path) : path_(std::move(path)), writer_(file(), sample_header()) {
    family_ = writer_.add_family(counter_family());
    writer_.add_channel(family_, {.metric = "vm.faults"});
    writer_.start();
    writer_.append_clock({kSecond, 2 * kSecond, 0});
  }
  void grow_to(std::int64_t rows) {
    for (; rows_ < rows; ++rows_) {
      writer_.append_row(family_, kSecond + rows_ * kTick, std::vector<std::int64_t>{100 + 3 * rows_});
      if (rows_ % 100 == 99) wait_until_flushed(writer_, kSecond + rows_ * kTick);
    }
    show(".part");
  }
  void close() {
    writer_.close();
    show("");
    std::filesystem::remove(path_.string() + ".part");
  }

 private:
  [[nodiscard]] std::filesystem::path file() const { return private_.path() / "trace.h5"; }
  void show(const std::string& ending) {
    std::filesystem::copy_file(file().string() + ending, path_.string() + ".copy");
    std::filesystem::rename(path_.string() + ".copy", path_.string() + ending);
  }

  TemporaryDirectory private_;
  std::filesystem::path path_;
  TraceWriter writer_;
  TraceWriter::FamilyId family_ = 0;
  std::int64_t rows_ = 0;
};

TEST(LiveTrace, FollowsFlushesToTheEnd) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  LiveTrace live(path, kLiveBlock);
  live.poll(now);
  EXPECT_EQ(live.state(), LiveState::waiting);
  EXPECT_EQ(live.node(), "n01");
  GrowingTrace trace(path);
  trace.grow_to(100);
  live.poll(now += std::chrono::seconds(2));
  EXPECT_EQ(live.state(), LiveState::catching);  // no collector shows rows early
  EXPECT_EQ(live.rows().newest_ns(), kSecond + 99 * kTick);
  EXPECT_EQ(live.utc_of(kSecond), 2 * kSecond);
  EXPECT_TRUE(std::filesystem::exists(watch_marker_path(path)));
  trace.grow_to(250);
  live.poll(now += std::chrono::seconds(2));
  EXPECT_EQ(live.rows().newest_ns(), kSecond + 199 * kTick);
  live.poll(now += std::chrono::seconds(20));
  EXPECT_EQ(live.state(), LiveState::silent);
  trace.close();
  live.poll(now += std::chrono::seconds(2));
  EXPECT_EQ(live.state(), LiveState::closed);
  EXPECT_EQ(live.rows().newest_ns(), kSecond + 249 * kTick);
  const auto block = live.block();
  const auto values = series_of(*block, "vm.faults");
  EXPECT_EQ(values.size(), 249U);
  EXPECT_EQ(std::count(values.begin(), values.end(), 3.0), 249);
}

TEST(LiveTrace, ReadsTheRestOfAFlushThatLeavesTheTimeOfTheFileAsItWas) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  const std::filesystem::path part = path.string() + ".part";
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  GrowingTrace trace(path);
  trace.grow_to(100);
  const auto written = std::filesystem::last_write_time(part);
  LiveTrace live(path, kLiveBlock);
  live.poll(now);
  trace.grow_to(200);
  std::filesystem::last_write_time(part, written);
  live.poll(now += std::chrono::seconds(2));
  EXPECT_EQ(live.rows().newest_ns(), kSecond + 199 * kTick);
}

TEST(LiveTrace, RowsShownEarlyJoinTheFlushedOnes) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  GrowingTrace trace(path);
  trace.grow_to(100);
  LiveTrace live(path, kLiveBlock);
  live.poll(now);
  LiveRowsWriter early(path, {"memory/vmstat"});
  const auto show = [&](std::int64_t row) {
    ASSERT_TRUE(early.write(std::vector<std::int64_t>{live_row_tag(0, 1), kSecond + row * kTick, 100 + 3 * row}));
  };
  for (std::int64_t row = 150; row < 230; ++row) show(row);
  live.poll(now += std::chrono::seconds(2));
  EXPECT_EQ(live.rows().newest_ns(), kSecond + 99 * kTick);  // the rows between are not known
  trace.grow_to(200);
  live.poll(now += std::chrono::seconds(2));
  EXPECT_EQ(live.rows().newest_ns(), kSecond + 229 * kTick);
  live.poll(now += std::chrono::seconds(1));
  EXPECT_EQ(live.state(), LiveState::live);
  const auto block = live.block();
  const auto values = series_of(*block, "vm.faults");
  EXPECT_EQ(std::count(values.begin(), values.end(), 3.0), 229);
}

TEST(LiveTrace, BeginsWithItsRecordingAlsoWhereTheClockWasSetSince) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  const std::int64_t utc = sample_header().begin_utc_ns;
  constexpr std::int64_t kSetBy = 10'800 * kSecond;
  {
    TraceWriter writer(path, sample_header());
    const auto family = writer.add_family(counter_family());
    writer.add_channel(family, {.metric = "vm.faults"});
    writer.start();
    writer.append_clock({kSecond + kTick, utc + kTick, 0});
    for (std::int64_t i = 1; i <= 3; ++i) {
      writer.append_clock({kSecond + i * 10 * kSecond, utc + kSetBy + i * 10 * kSecond, 0});
    }
    for (std::int64_t row = 1; row < 10; ++row) {
      writer.append_row(family, kSecond + row * kTick, std::vector<std::int64_t>{100 + 3 * row});
    }
    writer.close();
  }
  LiveTrace live(path, kLiveBlock);
  live.poll(std::chrono::steady_clock::time_point(std::chrono::hours(1)));
  EXPECT_EQ(live.begin_ns(), kSecond);
  EXPECT_EQ(live.utc_of(kSecond), utc + kSetBy);
}

TEST(LiveTrace, NamesItsNodeByTheFileWhereTheTraceHasNoNameOfAFile) {
  const auto node_of = [](const std::string& named) {
    const TemporaryDirectory directory;
    const auto path = directory.path() / "n01.h5";
    TraceHeader header = sample_header();
    header.node = named;
    TraceWriter writer(path, header);
    const auto family = writer.add_family(counter_family());
    writer.add_channel(family, {.metric = "vm.faults"});
    writer.start();
    writer.append_row(family, kSecond, std::vector<std::int64_t>{100});
    writer.close();
    LiveTrace live(path, kLiveBlock);
    live.poll(std::chrono::steady_clock::time_point(std::chrono::hours(1)));
    EXPECT_EQ(live.header().job_id, "4711") << "it was not read";
    return live.node();
  };
  for (const char* elsewhere : {"", ".", "..", "../n02", "/etc/n02"}) EXPECT_EQ(node_of(elsewhere), "n01") << elsewhere;
  EXPECT_EQ(node_of("n02"), "n02");
}

TEST(LiveTrace, LeavesNoMarkerBehind) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  GrowingTrace trace(path);
  trace.grow_to(100);
  {
    LiveTrace live(path, kLiveBlock);
    live.poll(std::chrono::steady_clock::time_point(std::chrono::hours(1)));
    EXPECT_TRUE(std::filesystem::exists(watch_marker_path(path)));
  }
  EXPECT_FALSE(std::filesystem::exists(watch_marker_path(path)));
}

}  // namespace
}  // namespace reveal::tests::live_test
