#include <gtest/gtest.h>

#include <algorithm>

#include "gpu_training.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::gpu_errors_test {
namespace {

using R = RuleRecording;

R::Course once_at(double when, double count, double step = 0.1) {
  return [=](double second) { return std::abs(second - when) < step / 2 ? count / step : 0; };
}

TEST(RuleGpuEcc, IsCriticalWhereAnErrorWasNotCorrected) {
  GpuTraining bad;
  bad.set("gpu.ecc_uncorrected", once_at(100, 2), 1);
  const auto found = bad.findings("gpu.ecc_remap");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The memory of gpu1 (0000:81:00.0) on n2 had 1.9 errors that could not be corrected while the job ran.");
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu1"});
  EXPECT_NEAR(bad.node.second_of(found[0].intervals[0].begin_utc_ns), 100, 1);
}

TEST(RuleGpuEcc, KnowsTheErrorsOfAGpuThatIsDivided) {
  R divided;
  divided.begin = {{"gpu.gpu0.mig", "enabled"}, {"gpu.gpu0.address", "0000:81:00.0"}};
  divided.counter("gpu.ecc_uncorrected", "gpu0", once_at(100, 2))
      .counter("gpu.ecc_uncorrected", "gpu1", once_at(100, 2));
  const auto found = divided.findings("gpu.ecc_remap");
  ASSERT_EQ(found.size(), 1U) << "gpu1 is not the job's";
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu0"});
  EXPECT_NE(found[0].sentence.find("gpu0 (0000:81:00.0, divided by MIG)"), std::string::npos) << found[0].sentence;
}

TEST(RuleGpuEcc, AlarmsNobodyForARowThatWaitsForAReset) {
  GpuTraining pending;
  pending.set("gpu.remap_pending", R::always(1), 0);
  const auto found = pending.findings("gpu.ecc_remap");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  GpuTraining failed;
  failed.set("gpu.remap_failed", R::always(1), 0).set("gpu.remap_pending", R::always(1), 0);
  EXPECT_EQ(failed.findings("gpu.ecc_remap").at(0).severity, Severity::warning);
  EXPECT_TRUE(found[0].remedy.user.empty() && found[0].remedy.advice.empty()) << "nothing is wrong with this node";
}

TEST(RuleGpuEcc, IsSilentOnCorrectedErrorsAndSaysWhereNothingIsCounted) {
  GpuTraining corrected;
  corrected.node.counter("gpu.ecc_corrected", "gpu0", once_at(50, 5));
  EXPECT_TRUE(corrected.findings("gpu.ecc_remap").empty());
  R none;
  none.gauge("gpu.utilization", "gpu0", R::always(97));
  EXPECT_THROW(static_cast<void>(none.findings("gpu.ecc_remap")), Unavailable);
}

std::vector<Finding> with_xid(const std::string& number) {
  GpuTraining bad;
  bad.set("gpu.xid", once_at(120, 1), 0);
  bad.node.events.push_back({120'000'000'000, "gpu0", "xid", number});
  return bad.findings("gpu.xid");
}

TEST(RuleGpuXid, TellsABrokenGpuFromABrokenProgram) {
  const auto lost = with_xid("79");
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].severity, Severity::critical);
  EXPECT_NE(lost[0].sentence.find("Xid 79: the GPU has fallen off the bus"), std::string::npos) << lost[0].sentence;
  const auto program = with_xid("31");
  ASSERT_EQ(program.size(), 1U);
  EXPECT_EQ(program[0].severity, Severity::notice);
  ASSERT_EQ(program[0].remedy.user.size(), 1U);
  EXPECT_TRUE(program[0].remedy.user[0].starts_with("compute-sanitizer "));
  const auto ended = with_xid("45");
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].severity, Severity::info) << "a process that was killed";
  EXPECT_TRUE(ended[0].remedy.user.empty());
  EXPECT_EQ(with_xid("999")[0].severity, Severity::notice) << "nothing is known of it";
}

TEST(RuleGpuXid, DoesNotTakeWhatFollowsAFaultForMoreOfIt) {
  GpuTraining bad;
  for (const char* number : {"45", "48", "45", "45"})
    bad.node.events.push_back({120'000'000'000, "gpu0", "xid", number});
  const auto found = bad.findings("gpu.xid");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_EQ(
      found[0].sentence,
      "The driver reported 4 errors of gpu0 (0000:80:00.0) on n2 while the job ran, the worst of them Xid 48: memory "
      "error that could not be corrected.");
}

bool excludes_a_node(const Finding& finding) {
  return std::any_of(finding.remedy.user.begin(), finding.remedy.user.end(),
                     [](const std::string& line) { return line.find("--exclude") != std::string::npos; });
}

TEST(RuleGpuXid, KeepsJobsAwayOnlyFromABrokenGpu) {
  for (const auto& [number, broken] : {std::pair{"79", true},
                                       {"48", true},
                                       {"62", true},
                                       {"140", true},
                                       {"63", false},
                                       {"31", false},
                                       {"137", false},
                                       {"999", false}}) {
    GpuTraining training;
    training.set("gpu.xid", once_at(120, 1), 0);
    training.node.begin.emplace_back("env.SLURM_JOB_ID", "4711");
    training.node.events.push_back({120'000'000'000, "gpu0", "xid", number});
    const auto found = training.findings("gpu.xid");
    ASSERT_EQ(found.size(), 1U);
    EXPECT_TRUE(found[0].sentence.starts_with("The driver reported 1 " + std::string(broken ? "critical " : "") +
                                              "error of gpu0 (0000:80:00.0) on n2 while the job ran, Xid " + number +
                                              ": "))
        << found[0].sentence;
    EXPECT_EQ(excludes_a_node(found[0]), broken) << number;
    EXPECT_EQ(found[0].severity, broken ? Severity::critical : Severity::notice) << number;
  }
}

TEST(RuleGpuXid, TakesEventsWhereTheJobEndedWithTheError) {
  GpuTraining died;
  died.node.events.push_back({299'900'000'000, "gpu1", "xid", "79"});
  const auto found = died.findings("gpu.xid");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu1"});
  EXPECT_EQ(found[0].evidence.at(0).observed, 1);
}

TEST(RuleGpuXid, NamesAGpuThatTheDriverLost) {
  GpuTraining lost;
  lost.node.events.push_back({200'000'000'000, "gpu1", "gpu_lost", "it has fallen off the bus"});
  const auto found = lost.findings("gpu.xid");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_NE(found[0].sentence.find("it fell off the bus"), std::string::npos) << found[0].sentence;
}

TEST(RuleGpuXid, NamesAGpuThatWasLostBeforeTheJob) {
  GpuTraining lost;
  lost.node.events.push_back({0, "gpu1", "gpu_lost", "it needs a reset; it could not be opened"});
  const auto found = lost.findings("gpu.xid");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_EQ(found[0].sentence, "The driver could not open gpu1 (0000:81:00.0) on n2: it needs a reset.");
  EXPECT_EQ(found[0].impact.how, "not known: the job could not use this GPU");
  GpuTraining unknown;
  unknown.node.events.push_back({0, "gpu1", "gpu_lost", "the driver reports an unknown error; it could not be opened"});
  const auto other = unknown.findings("gpu.xid");
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].severity, Severity::warning);
  EXPECT_EQ(other[0].sentence,
            "The driver could not open gpu1 (0000:81:00.0) on n2: the driver reports an unknown error.");
}

TEST(RuleGpuXid, IsSilentWithoutOne) {
  EXPECT_TRUE(GpuTraining().findings("gpu.xid").empty());
}

GpuTraining with_links(const std::vector<R::Course>& links_of_second) {
  GpuTraining training;
  for (int gpu = 0; gpu < 2; ++gpu) {
    for (std::size_t link = 0; link < links_of_second.size(); ++link) {
      training.node.gauge("nvlink.active", "gpu" + std::to_string(gpu) + "/link" + std::to_string(link),
                          gpu == 1 ? links_of_second[link] : R::always(1));
    }
  }
  return training;
}

TEST(RuleGpuNvlink, NamesLinksThatWentDownOrThatNeighboursHave) {
  const auto fell =
      with_links({R::always(1), [](double second) { return second < 200 ? 1.0 : 0.0; }}).findings("gpu.nvlink_down");
  ASSERT_EQ(fell.size(), 1U);
  EXPECT_EQ(fell[0].sentence,
            "1 NVLink of gpu1 (0000:81:00.0) on n2 went down while the job ran and did not come up again: gpu1/link1.");
  EXPECT_EQ(fell[0].instances, std::vector<std::string>{"gpu1/link1"});
  EXPECT_EQ(fell[0].confidence, Confidence::certain);
  const auto never = with_links({R::always(1), R::always(0)}).findings("gpu.nvlink_down");
  ASSERT_EQ(never.size(), 1U);
  EXPECT_EQ(never[0].confidence, Confidence::possible);
  EXPECT_EQ(never[0].severity, Severity::notice);
}

TEST(RuleGpuNvlink, IsSilentOnALinkThatCameUpAgain) {
  EXPECT_TRUE(with_links({R::always(1), R::event(1, 0)}).findings("gpu.nvlink_down").empty());
  EXPECT_TRUE(with_links({R::always(1), [](double second) { return second < 30 ? 0.0 : 1.0; }})
                  .findings("gpu.nvlink_down")
                  .empty());
}

TEST(RuleGpuNvlink, IsSilentOnBoardsWithoutLinksAndWithAllOfThem) {
  EXPECT_TRUE(with_links({R::always(1), R::always(1)}).findings("gpu.nvlink_down").empty());
  GpuTraining single(1);
  single.node.gauge("nvlink.active", "gpu0/link0", R::always(0));
  EXPECT_TRUE(single.findings("gpu.nvlink_down").empty()) << "a board that does not use it";
  EXPECT_THROW(static_cast<void>(GpuTraining().findings("gpu.nvlink_down")), Unavailable);
}

TEST(RuleGpuNvlink, IsSilentOnAGpuThatIsDivided) {
  GpuTraining divided = with_links({R::always(1), R::always(0)});
  divided.fact("mig", "enabled", 1);
  EXPECT_TRUE(divided.findings("gpu.nvlink_down").empty());
}

TEST(RuleGpuNvlink, ReportsErrorsOfALink) {
  GpuTraining errors = with_links({R::always(1)});
  errors.node.counter("nvlink.crc_errors", "gpu0/link0", once_at(30, 25));
  EXPECT_EQ(errors.findings("gpu.nvlink_down").at(0).severity, Severity::notice);
  GpuTraining few = with_links({R::always(1)});
  few.node.counter("nvlink.crc_errors", "gpu0/link0", once_at(30, 2));
  EXPECT_TRUE(few.findings("gpu.nvlink_down").empty());
}

}  // namespace
}  // namespace reveal::tests::gpu_errors_test
