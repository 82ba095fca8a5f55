// Words for quantities, times, names and certainty.
#include "postproc/report/wording.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "postproc/report/mail_html.h"
#include "postproc/words/sanitize.h"
#include "report_samples.h"

namespace reveal::tests::wording_test {
namespace {

/// With one finding of this rule.
Report finding_of(const char* rule, Severity severity, Confidence confidence) {
  Report report = samples::outsider(8);
  report.findings.resize(1);
  report.findings[0].id = rule;
  report.findings[0].severity = severity;
  report.findings[0].confidence = confidence;
  return report;
}

TEST(Wording, SaysHowSureTheCauseIsAndNotTheEvent) {
  struct Case {
    const char* rule;
    Severity severity;
    Confidence confidence;
    const char* words;
  };
  constexpr Case kCases[] = {
      {"cpu.outsider", Severity::warning, Confidence::likely, "warning, cause likely"},
      {"cpu.affinity_too_narrow", Severity::critical, Confidence::certain, "critical, cause certain"},
      {"a.rule_of_a_later_version", Severity::notice, Confidence::possible, "notice, cause possible"},
      {"anomaly.unexplained", Severity::notice, Confidence::possible, "notice, cause not known"},
      {"history.slower", Severity::warning, Confidence::likely, "warning, cause not known"},
      {"job.over_requested", Severity::notice, Confidence::certain, "notice, measured fact"},
      {"node.config_drift", Severity::warning, Confidence::possible, "warning, cause possible"},
  };
  for (const Case& one : kCases) {
    const Report report = finding_of(one.rule, one.severity, one.confidence);
    EXPECT_EQ(level_words(report.findings[0]), one.words);
    EXPECT_NE(render_text(report).find(std::string("  ") + one.words + "\n"), std::string::npos) << one.words;
    EXPECT_NE(render_html(report).find(std::string("\">") + one.words + "</span>"), std::string::npos) << one.words;
    EXPECT_NE(render_mail_html(report, {}).find(std::string("\">") + one.words + "</span>"), std::string::npos)
        << one.words;
  }
}

TEST(Wording, SaysThatMemoryIsWithoutCachedFilesWhereTheseReachedTheLimit) {
  JobTotals totals;
  totals.memory_peak = 20.0 * 1024 * 1024;
  totals.memory_limit = 136.0 * 1024 * 1024;
  totals.notes["memory_peak"] = "the job's control group, page cache not counted";
  EXPECT_EQ(used(totals), std::vector<std::string>{"memory 20 MiB of 136 MiB"});
  totals.notes["memory_peak"] += "; " + std::string(kLimitReachedWithCache) + ", on n01";
  EXPECT_EQ(used(totals), std::vector<std::string>{"memory 20 MiB of 136 MiB (without cached files)"});
}

TEST(Wording, CountsThreadsThatWaitedOnAverage) {
  JobTotals totals;
  totals.wait_share = 0.36;
  EXPECT_EQ(used(totals), std::vector<std::string>{"0.36 threads waited for a cpu"});
  totals.wait_share = 0.996;
  EXPECT_EQ(used(totals), std::vector<std::string>{"1 thread waited for a cpu"});
}

TEST(Wording, CountsNoMoreSamplesThanAll) {
  Report report = samples::outsider(8);
  report.coverage.resize(1);
  report.coverage[0].samples_expected = 414;
  report.coverage[0].samples_present = 415;
  EXPECT_NE(render_text(report).find(": 414 of 414 samples"), std::string::npos) << render_text(report);
}

TEST(Wording, TellsTheCostBesideALevel) {
  Finding finding;
  finding.id = "mem.swap_activity";
  finding.confidence = Confidence::likely;
  EXPECT_EQ(cost_beside(finding), "");
  finding.impact = {.seconds = 10, .percent = 11.9, .how = "it waited"};
  EXPECT_EQ(cost_beside(finding), ", cost about 10 s (11.9 % of the run)");
  EXPECT_EQ(cost_words({.seconds = 0.004, .percent = 0.02, .how = ""}), "less than 0.01 s (0.02 % of the run)");
  finding.confidence = Confidence::possible;
  EXPECT_EQ(cost_beside(finding), ", may have cost about 10 s (11.9 % of the run)");
  finding.severity = Severity::info;
  EXPECT_EQ(level_words(finding), "observation, cause possible") << "it must not look like a fault";
}

TEST(Wording, NamesThePersonWhoActsByTheStepsThatChangeSomething) {
  const std::string site = "the administrators of this system";
  const auto acts = [](std::vector<std::string> user, std::vector<std::string> advice, std::vector<std::string> admin) {
    return who_acts({std::move(user), std::move(advice), std::move(admin), ""});
  };
  EXPECT_EQ(acts({}, {"Use smaller batches."}, {}), "you");
  EXPECT_EQ(acts({"export A=1"}, {}, {}), "you");
  EXPECT_EQ(acts({"nstat -az"}, {}, {"Reseat the cable."}), site) << "a look changes nothing";
  EXPECT_EQ(acts({}, {}, {"Reseat the cable."}), site);
  EXPECT_EQ(acts({}, {"Use smaller batches."}, {"Reseat the cable."}), "you, or " + site);
  EXPECT_EQ(acts({"nstat -az"}, {}, {}), "not known: look for the cause first");
  EXPECT_EQ(acts({}, {}, {}), "not known: reveal has no remedy for this");
}

TEST(Wording, TellsTheMeasurementFlatlyAndACauseThatIsOnlyPossibleAsSuch) {
  Finding finding;
  finding.id = "mem.swap_activity";
  finding.sentence = "1.4 GiB were read back from swap.";
  finding.impact.seconds = 4;
  finding.impact.at_most = true;
  finding.confidence = Confidence::likely;
  EXPECT_EQ(told(finding), "1.4 GiB were read back from swap.");
  EXPECT_EQ(told_with_cost(finding), "1.4 GiB were read back from swap. The job lost at most 4 s.");
  finding.confidence = Confidence::possible;
  EXPECT_EQ(told(finding), "1.4 GiB were read back from swap. Another cause is possible.");
  EXPECT_EQ(told_with_cost(finding), "1.4 GiB were read back from swap. This may have cost at most 4 s.");
  finding.id = "anomaly.unexplained";
  EXPECT_EQ(told(finding), "1.4 GiB were read back from swap.") << "the rule names no cause";
}

TEST(Wording, FoldsNodeNames) {
  const std::vector<std::string> rack = {"n01", "n02", "n03", "n07", "gpu-9", "login"};
  EXPECT_EQ(node_list(rack), "login, gpu-9, n[01-03,07]");
  EXPECT_EQ(node_list(std::vector<std::string>{"n9", "n10", "n11"}), "n9, n[10-11]");
  EXPECT_EQ(node_list(std::vector<std::string>{"10", "11", "13"}), "[10-11,13]");
  EXPECT_EQ(node_list(std::vector<std::string>{}), "");
  EXPECT_EQ(node_list(std::vector<std::string>{"a", "b", "c"}, 2), "a, b and 1 more");
}

TEST(Wording, WritesAndReadsTimes) {
  EXPECT_EQ(iso_time(1'763'634'725'000'000'000), "2025-11-20T10:32:05Z");
  EXPECT_EQ(iso_time(1'763'634'725'100'000'001), "2025-11-20T10:32:05.100000001Z");
  EXPECT_EQ(iso_time(-1), "1969-12-31T23:59:59.999999999Z");
  for (const std::int64_t time : {std::int64_t{1}, std::int64_t{1'763'634'725'120'000'000}}) {
    EXPECT_EQ(parse_iso_time(iso_time(time)), time);
  }
  for (const char* wrong :
       {"", "Z", "2025-11-20", "2025-13-20T10:32:05Z", "2025-11-20T10:32:05", "2025-02-30T00:00:00Z",
        "2025-11-20T10:32:05.Z", "2025-11-20T10:32:05.1234567890Z", "9999-11-20T10:32:05Z", "1969-12-31T23:59:59Z"}) {
    EXPECT_EQ(parse_iso_time(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(duration(15), "15 s");
  EXPECT_EQ(duration(120), "2 min");
  EXPECT_EQ(duration(3599), "59 min 59 s");
  EXPECT_EQ(duration(86'461), "1 d 0 h 1 min");
}

TEST(Wording, TellsTimesOfAJobWithoutTheSignOfAZero) {
  constexpr std::int64_t kBegin = 1'763'634'725'000'000'000;  // 2025-11-20 10:32:05 UTC
  ReportJob job;
  EXPECT_EQ(when({kBegin, kBegin + 15'000'000'000}, job), "10:32:05 to 10:32:20 UTC");
  job.begin_utc_ns = kBegin;
  EXPECT_EQ(when({kBegin - 40'000'000, kBegin + 15'000'000'000}, job),
            "0.0 s to 15.0 s of the job (10:32:04 to 10:32:20 UTC)");
  EXPECT_EQ(when({kBegin + 62'000'000'000, kBegin + 62'000'000'001}, job), "at 62.0 s of the job (10:33:07 UTC)");
  EXPECT_EQ(when({kBegin - 60'000'000, kBegin}, job), "-0.1 s to 0.0 s of the job (10:32:04 to 10:32:05 UTC)");
}

TEST(Wording, TellsTheDatesOfTimesOnOtherDays) {
  constexpr std::int64_t kBegin = 1'763'634'725'000'000'000;  // 2025-11-20 10:32:05 UTC
  constexpr std::int64_t kDay = std::int64_t{86'400} * 1'000'000'000;
  EXPECT_EQ(clock_span(kBegin, kBegin + 1, kBegin - 1), "10:32:05 UTC");
  EXPECT_EQ(clock_span(kBegin + kDay, kBegin + kDay, kBegin), "2025-11-21 10:32:05 UTC");
  ReportJob job;
  job.begin_utc_ns = kBegin;
  EXPECT_EQ(when({kBegin, kBegin + kDay}, job),
            "0.0 s to 86400.0 s of the job (2025-11-20 10:32:05 to 2025-11-21 10:32:05 UTC)");
}

TEST(Wording, NamesSeveritiesBothWays) {
  for (const Severity severity : {Severity::info, Severity::notice, Severity::warning, Severity::critical}) {
    EXPECT_EQ(severity_of(name_of(severity)), severity);
  }
  EXPECT_EQ(severity_of("fatal"), std::nullopt);
  EXPECT_EQ(confidence_of(name_of(Confidence::likely)), Confidence::likely);
  EXPECT_EQ(finding_kind_of(name_of(FindingKind::audit)), FindingKind::audit);
  EXPECT_EQ(verdict_status_of(name_of(VerdictStatus::insufficient_data)), VerdictStatus::insufficient_data);
}

TEST(Wording, NamesGpusOnlyWhereTheJobHasThem) {
  JobTotals totals;
  totals.notes = {{"gpus", "no NVIDIA driver here"}, {"gpu_used_share", "no GPU of the job was measured"}};
  for (const std::vector<std::string>& lines : {used(totals), unknown(totals)}) {
    for (const std::string& line : lines) EXPECT_EQ(line.find("GPU"), std::string::npos) << line;
  }
  totals.gpus = 1;
  totals.gpu_used_share = 0.16;
  totals.gpu_memory_peak = 2.5 * 1024 * 1024 * 1024;
  totals.gpu_memory_total = 80.0 * 1024 * 1024 * 1024;
  totals.gpu_energy_joules = 8030;
  const std::string text = "GPU use 16 % of 1 GPU, GPU memory 2.5 GiB of 80 GiB, GPU energy 8.03 kJ";
  EXPECT_EQ(used(totals), std::vector<std::string>{text});
  totals.gpus = 4;
  totals.gpu_energy_joules.reset();
  EXPECT_EQ(used(totals),
            std::vector<std::string>{"GPU use 16 % of 4 GPUs, GPU memory 2.5 GiB of 80 GiB on the fullest GPU"});
  totals.gpu_used_share.reset();
  totals.gpu_memory_peak.reset();
  for (const char* key : {"gpu_used_share", "gpu_memory_peak", "gpu_energy_joules"}) totals.notes[key] = "divided";
  EXPECT_TRUE(used(totals).empty());
  const std::vector<std::string> missing = unknown(totals);
  EXPECT_NE(std::find(missing.begin(), missing.end(), "GPU use, GPU memory, GPU energy: divided"), missing.end());
}

}  // namespace
}  // namespace reveal::tests::wording_test
