#include "postproc/score/score.h"

#include <gtest/gtest.h>

namespace reveal::tests::score_test {
namespace {

TEST(Score, ReadsPeersOutOfChannelNames) {
  const SeriesFile file{
      .interval_seconds = 0.1,
      .channels = {"cpu.user/cpu1", "rank12.utime", "net.n0.rxb/eth0", "disk.reads/vda", "net.host.x"},
      .kind = {"counter", "counter", "", "unheard", "gauge"},
      .subsystem = {"cpu", "process", "network", "", "network"},
      .samples = 1,
      .values = {1, 2, 3, 4, 5}};
  const Telemetry t = telemetry_of(file);
  const auto is = [&](std::size_t c, const char* metric, const char* instance) {
    EXPECT_EQ(t.channels[c].metric, metric);
    EXPECT_EQ(t.channels[c].instance, instance);
  };
  is(0, "cpu.user", "cpu1");
  is(1, "rank.utime", "rank12");
  is(2, "net.n.rxb/eth0", "n0");
  is(3, "disk.reads/vda", "");
  is(4, "net.host.x", "");
  EXPECT_EQ(t.channels[0].kind, Kind::counter);
  EXPECT_EQ(t.channels[2].kind, Kind::gauge);
  EXPECT_EQ(t.channels[3].kind, Kind::gauge);
  EXPECT_EQ(t.channels[1].subsystem, Subsystem::process);
  EXPECT_EQ(t.step_seconds, 0.1);
}

TEST(Score, SaysInOneLineWhatWasJudgedAndWhatStandsOut) {
  ScoreResult result{.samples = 1000, .channels = 20, .interval_seconds = 0.1};
  EXPECT_EQ(as_line(result), "1000 samples x 20 channels at 0.1 s: 0 strong intervals, 0 weak: no abnormal interval");
  result.strong = 1;
  result.strongest = "samples 500 to 600 (50 s to 60 s), c0";
  EXPECT_EQ(as_line(result),
            "1000 samples x 20 channels at 0.1 s: 1 strong interval, 0 weak; strongest: samples 500 to 600 (50 s to 60 "
            "s), c0");
  result.insufficient = "28 windows, at least 30 are needed";
  EXPECT_EQ(as_line(result), "1000 samples x 20 channels at 0.1 s: not judged: 28 windows, at least 30 are needed");
}

TEST(Score, WritesTheContractsColumns) {
  const SeriesFile file{.channels = {"a", "b,1"}};
  Detection detection;
  detection.windows.push_back({.begin = 0, .end = 30, .score = 0.25});
  detection.windows.push_back({.begin = 10,
                               .end = 40,
                               .score = 6,
                               .tier = Tier::strong,
                               .agreement = 2,
                               .reasons = {{.channel = 1, .share = 0.75}, {.channel = 0, .share = 0.25}}});
  detection.windows.push_back({.begin = 20, .end = 50, .score = 2, .tier = Tier::weak});
  EXPECT_EQ(windows_csv(detection, file),
            "begin,end,score,flagged,tier,agreement,top_channels\n"
            "0,30,0.25,0,none,0,\n"
            "10,40,6,1,strong,2,b_1:0.75;a:0.25\n"
            "20,50,2,0,weak,0,\n");

  detection.episodes.push_back({.begin = 7, .end = 41, .score = 6, .tier = Tier::strong, .subsystem = Subsystem::gpu});
  detection.episodes.push_back({.begin = 0, .end = 5, .score = 5, .tier = Tier::none, .labels = {Label::edge}});
  EXPECT_EQ(episodes_csv(detection, file),
            "begin,end,score,tier,labels,subsystem,top_channels\n"
            "7,41,6,strong,,gpu,\n");
}

TEST(Score, WritesNamesOnOneLineWithoutEscapeSequences) {
  const SeriesFile file{.channels = {"a\r\x1b[2Jb"}};
  Detection detection;
  detection.windows.push_back({.begin = 0, .end = 30, .score = 1, .reasons = {{.channel = 0, .share = 1}}});
  EXPECT_EQ(windows_csv(detection, file),
            "begin,end,score,flagged,tier,agreement,top_channels\n"
            "0,30,1,0,none,0,a b:1\n");
}

}  // namespace
}  // namespace reveal::tests::score_test
