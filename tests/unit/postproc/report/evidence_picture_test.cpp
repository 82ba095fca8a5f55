#include "postproc/report/evidence_picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hdf5schema/zlib_text.h"
#include "postproc/report/deflated.h"
#include "postproc/report/palette_image.h"
#include "report_samples.h"

namespace reveal::tests::evidence_picture_test {
namespace {

TEST(EvidencePicture, ShowsTheFirstChannelOfThePrimaryFinding) {
  const auto picture = evidence_picture(samples::outsider(1));
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->channel, "job.outsider_cpu/cpu1 on n01");
  EXPECT_EQ(picture->expected, "0.004");
  EXPECT_EQ(picture->begin, "10:32:05");
  EXPECT_EQ(picture->band, "10:33:07 to 10:33:22 UTC");
  EXPECT_EQ(picture->bottom, "0");
  EXPECT_EQ(picture->png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_LT(picture->png.size(), 20'000U);
  EXPECT_EQ(picture->words.find("Chart: job.outsider_cpu/cpu1 on n01 from 10:32:05 to "), 0U) << picture->words;
}

TEST(EvidencePicture, IsNoneWithoutAFindingOrItsChannel) {
  EXPECT_FALSE(evidence_picture(samples::healthy()));
  Report report = samples::outsider(1);
  for (TimelineChannel& channel : report.timeline) channel.node = "n02";
  report.findings[0].evidence.resize(1);
  EXPECT_FALSE(evidence_picture(report));
  report.timeline.clear();
  EXPECT_FALSE(evidence_picture(report));
}

TEST(EvidencePicture, HasTheUnitsOfTheSentences) {
  Report report = samples::outsider(1);
  report.findings[0].evidence.resize(1);
  report.findings[0].evidence[0].metric = "disk.io_time";
  report.findings[0].evidence[0].instance = "vda";
  report.timeline[0].name = "disk.io_time/vda";
  report.timeline[0].unit = "s/s";
  report.timeline[0].expected = 0.06;
  const auto picture = evidence_picture(report);
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->expected, "6 % of the time");
  EXPECT_TRUE(picture->top.ends_with(" % of the time")) << picture->top;
}

TEST(EvidencePicture, HasDatesWhereItGoesBeyondMidnight) {
  Report report = samples::outsider(1);
  const std::int64_t day = std::int64_t{86'400} * 1'000'000'000;
  report.timeline[0].values.assign(121, 0.5);
  report.timeline[0].step_seconds = 1440;  // two days
  report.job.end_utc_ns = report.job.begin_utc_ns + 2 * day;
  report.findings[0].intervals = {{report.job.begin_utc_ns + day, report.job.begin_utc_ns + day + day / 24}};
  const auto picture = evidence_picture(report);
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->begin, "2025-11-20 10:32:05");
  EXPECT_EQ(picture->end, "2025-11-22 10:32:05 UTC");
  EXPECT_EQ(picture->band, "2025-11-21 10:32:05 to 11:32:05 UTC");
}

TEST(EvidencePicture, HasOneTimeWhereItIsShorterThanASecond) {
  Report report = samples::outsider(1);
  report.timeline[0].values.assign(5, 0.5);
  report.timeline[0].step_seconds = 0.1;
  const auto picture = evidence_picture(report);
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->begin, "10:32:05 UTC");
  EXPECT_EQ(picture->end, "10:32:05 UTC");
}

TEST(EvidencePicture, LeavesOutWhatIsNotKnown) {
  Report report = samples::outsider(1);
  report.job.begin_utc_ns = 0;
  for (Evidence& evidence : report.findings[0].evidence) evidence.expected.reset();
  const auto picture = evidence_picture(report);
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->expected, "");
  EXPECT_EQ(picture->band, "");
  EXPECT_EQ(picture->begin, "0 s");
  EXPECT_EQ(picture->words.find("expected"), std::string::npos);
}

TEST(EvidencePicture, SurvivesNumbersThatNoReportHas) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {nan, infinity, -infinity, 1e308, -1e308, 0.0}) {
    Report report = samples::outsider(1);
    report.timeline[0].values.assign(10, value);
    static_cast<void>(evidence_picture(report));
    report.timeline[0].values = {value, 1, nan, 2, value};
    report.timeline[0].expected = value;
    static_cast<void>(evidence_picture(report));
    report.timeline[0].step_seconds = value;
    static_cast<void>(evidence_picture(report));
    report.timeline[0].begin_seconds = value;
    static_cast<void>(evidence_picture(report));
  }
  Report report = samples::outsider(1);
  report.job.begin_utc_ns = std::numeric_limits<std::int64_t>::max();
  report.findings[0].intervals = {{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}};
  static_cast<void>(evidence_picture(report));
  report.findings[0].evidence.resize(1);
  report.timeline[0].values.assign(1'000'000, 1);
  EXPECT_FALSE(evidence_picture(report)) << "that would take long";
}

TEST(PaletteImage, IsAPngOfOneByteAPoint) {
  PaletteImage image(2, 1);
  image.set(1, 0, 1);
  image.set(2, 0, 1);  // outside
  image.set(0, -1, 1);
  constexpr PaletteColour kColours[] = {{0, 0, 0, 0}, {255, 128, 0}};
  const std::string file = image.png(kColours);
  // Python: struct.pack('>I', 13) + b'IHDR' + data + struct.pack('>I', zlib.crc32(b'IHDR' + data))
  const std::string header("\0\0\0\rIHDR\0\0\0\2\0\0\0\1\x08\3\0\0\0\xc3\xfc\x8f\xb8", 25);
  EXPECT_EQ(file.substr(8, 25), header);
  EXPECT_NE(file.find(std::string("\0\0\0\6PLTE\0\0\0\xff\x80\0", 14)), std::string::npos);
  EXPECT_NE(file.find(std::string("\0\0\0\2tRNS\0\xff", 10)), std::string::npos);
  EXPECT_NE(file.find(zlib_text(std::string("\0\0\1", 3))), std::string::npos);
  EXPECT_EQ(file.substr(file.size() - 12), std::string("\0\0\0\0IEND\xae\x42\x60\x82", 12));
}

}  // namespace
}  // namespace reveal::tests::evidence_picture_test
