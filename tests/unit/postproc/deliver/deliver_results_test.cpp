// The analysis of a node's own traces, in its epilog and after it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "delivering_node.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/trace_reader.h"
#include "postproc/analysis/downsample_traces.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/deliver/deliver.h"
#include "postproc/report/report.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/publish.h"

namespace reveal::tests::deliver_results_test {
namespace {

namespace fs = std::filesystem;

TEST_F(Deliver, KeepsOneRowAMinuteOnceTheNodeIsAnalysed) {
  const std::uintmax_t whole = fs::file_size(spool_of_ten_minutes("n01") / "n01.h5");
  settings_.downsample_traces = true;
  const Delivery delivery = deliver(base_ / "spool-n01", "n01", job_, "", settings_, {});
  ASSERT_TRUE(delivery.report_built);
  const fs::path trace = delivery.directory / "n01.h5";
  EXPECT_LT(fs::file_size(trace), whole / 2);
  EXPECT_EQ(TraceReader(trace).events().at(0).code, "summary");
  EXPECT_TRUE(report_is_fresh(delivery.directory));
  const NodeSummary made = *summary_of(list_traces(delivery.directory).at(0));
  EXPECT_TRUE(made.downsampled);
  EXPECT_NEAR(made.seconds, 600, 1);

  // Neither other settings nor a copy make the rest whole again.
  fs::last_write_time(trace, fs::last_write_time(trace) + std::chrono::hours(1));
  ReportOptions options;
  options.settings.pipeline = "paper";
  options.reuse_summaries = false;
  std::vector<InputProblem> problems;
  const Report again = build_report(delivery.directory, options, problems);
  EXPECT_EQ(again.coverage.size(), made.part.coverage.size());
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].text.find("the results of that analysis are used"), std::string::npos);
  downsample_traces(delivery.directory);  // nothing more to do
  EXPECT_EQ(TraceReader(trace).events().size(), 1U);
}

TEST_F(Deliver, KeepsThinnedTracesOfTwoSamplersApart) {
  settings_.downsample_traces = true;
  for (int run = 0; run < 2; ++run) {
    spool_of_ten_minutes("n01");
    ASSERT_TRUE(deliver(base_ / "spool-n01", "n01", job_, "", settings_, {}).moved);
  }
  for (const ListedTrace& trace : list_traces(base_ / "work/reveal-4711")) {
    const auto summary = summary_of(trace);
    ASSERT_TRUE(summary.has_value()) << trace.path;
    EXPECT_TRUE(summary->downsampled);
  }
  EXPECT_TRUE(fs::exists(base_ / "work/reveal-4711/n01-2.summary.json"));
}

TEST_F(Deliver, LetsTheEpilogGoBeforeAnAnalysisThatTakesLonger) {
  settings_.most_seconds = 1e-6;
  bool there_before = false;
  const Delivery delivery = deliver(spool("n01"), "n01", job_, "", settings_, {}, {}, [&](const Delivery&) {
    there_before =
        fs::exists(base_ / "work/reveal-4711/n01.h5") && !fs::exists(base_ / "work/reveal-4711/n01.summary.json");
  });
  EXPECT_TRUE(there_before);
  EXPECT_FALSE(delivery.needs_job);
  EXPECT_TRUE(delivery.report_built);
}

TEST_F(Deliver, AnalysesACopyOnTheNodeOfATraceThatIsDeliveredAlready) {
  settings_.most_seconds = 1e-6;
  settings_.report = ReportWhen::job;
  const fs::path trace = base_ / "work/reveal-4711/n01.h5";
  const Delivery delivery = deliver(spool("n01"), "n01", job_, "", settings_, {}, {}, [&](const Delivery&) {
    EXPECT_TRUE(fs::exists(base_ / "spool-n01/n01.h5"));
    fs::rename(trace, base_ / "away");  // no reader finds it
  });
  fs::rename(base_ / "away", trace);
  EXPECT_EQ(delivery.why, "");
  EXPECT_TRUE(summary_of(list_traces(delivery.directory).at(0)).has_value());
  EXPECT_TRUE(fs::is_empty(base_ / "spool-n01"));
}

TEST_F(Deliver, LosesNothingWhereANodeEndsBeforeItsAnalysisDoes) {
  settings_.most_seconds = 1e-6;
  const fs::path from = spool("n01");
  ChildProcess node = fork_child([&] {
    static_cast<void>(deliver(from, "n01", job_, "", settings_, {}, {}, [](const Delivery&) { ::_exit(0); }));
    return 1;
  });
  ASSERT_EQ(exit_status(node.wait()), 0);
  const fs::path directory = base_ / "work/reveal-4711";
  EXPECT_TRUE(fs::exists(directory / "n01.h5")) << "whatever becomes of the node's own disk";
  const Delivery again = deliver(from, "n01", job_, "", settings_, {});
  EXPECT_EQ(again.directory, directory);
  EXPECT_TRUE(again.report_built);
  EXPECT_FALSE(fs::exists(directory / "n01-2.h5"));
  EXPECT_TRUE(fs::is_empty(from));
}

TEST_F(Deliver, ThinsATraceThatIsDeliveredAlready) {
  const fs::path from = spool_of_ten_minutes("n01");
  const std::uintmax_t whole = fs::file_size(from / "n01.h5");
  settings_.most_seconds = 1e-6;
  settings_.downsample_traces = true;
  fs::copy_file(from / "n01.h5", base_ / "whole.h5");
  fs::last_write_time(base_ / "whole.h5", fs::last_write_time(from / "n01.h5"));
  const Delivery delivery = deliver(from, "n01", job_, "", settings_, {});
  ASSERT_TRUE(delivery.report_built) << delivery.why;
  const ListedTrace trace = list_traces(delivery.directory).at(0);
  EXPECT_LT(trace.bytes, whole / 2);
  EXPECT_TRUE(summary_of(trace).value().downsampled);
  EXPECT_TRUE(fs::is_empty(from));

  fs::copy_file(base_ / "whole.h5", from / "n01.h5");  // as if it had not come to remove it
  fs::last_write_time(from / "n01.h5", fs::last_write_time(base_ / "whole.h5"));
  settings_.report = ReportWhen::lazy;
  EXPECT_TRUE(deliver(from, "n01", job_, "", settings_, {}).moved);
  EXPECT_FALSE(fs::exists(delivery.directory / "n01-2.h5"));
  EXPECT_EQ(fs::file_size(delivery.directory / "n01.h5"), trace.bytes);
}

TEST_F(Deliver, LeavesNoThinnedTraceBesideTheWholeOneWhereItsSummaryIsRefused) {
  const fs::path directory = base_ / "work/reveal-4711";
  const std::uintmax_t whole = fs::file_size(spool_of_ten_minutes("n01") / "n01.h5");
  settings_.most_seconds = 1e-6;
  settings_.report = ReportWhen::job;
  settings_.downsample_traces = true;
  const Delivery delivery = deliver(base_ / "spool-n01", "n01", job_, "", settings_, {}, {}, [&](const Delivery&) {
    fs::create_directories(directory / "n01.summary.json/in the way");
  });
  EXPECT_NE(delivery.why.find("n01.summary.json"), std::string::npos) << delivery.why;
  EXPECT_EQ(fs::file_size(directory / "n01.h5"), whole);
  for (const auto& entry : fs::directory_iterator(directory)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".n01")) << entry.path();
  }
}

TEST_F(Deliver, GivesTheResultsTheNameThatTheirTraceGot) {
  const Delivery first = deliver_node("n01");
  const std::string earlier = read_text_file(first.directory / "n01.summary.json", 1 << 20);
  settings_.most_seconds = 1e-6;
  settings_.report = ReportWhen::job;
  spool("n01");
  EXPECT_EQ(deliver(base_ / "spool-n01", "n01", job_, "", settings_, {}).why, "");
  EXPECT_EQ(read_text_file(first.directory / "n01.summary.json", 1 << 20), earlier);
  for (const ListedTrace& trace : list_traces(first.directory)) {
    EXPECT_TRUE(summary_of(trace).has_value()) << trace.path;
  }
  EXPECT_TRUE(fs::exists(first.directory / "n01-2.summary.json"));
}

TEST_F(Deliver, LeavesTheTraceOfALaterRunInTheSpool) {
  settings_.most_seconds = 1e-6;
  settings_.report = ReportWhen::job;
  const Delivery delivery = deliver(spool("n01"), "n01", job_, "", settings_, {}, {}, [&](const Delivery&) {
    // A next collector of this job has delivered what it found, and recorded under the name that was free.
    fs::remove(base_ / "spool-n01/n01.h5");
    record(base_ / "spool-n01/n01.h5", "n01");
    fs::last_write_time(base_ / "spool-n01/n01.h5",
                        fs::last_write_time(base_ / "work/reveal-4711/n01.h5") + std::chrono::seconds(1));
  });
  EXPECT_TRUE(fs::exists(base_ / "spool-n01/n01.h5"));
  EXPECT_FALSE(fs::exists(delivery.directory / "n01.summary.json")) << "of another trace";
}

TEST_F(Deliver, BuildsTheSameReportFromTracesAndFromSummaries) {
  spool_of_ten_minutes("n01");
  spool_of_ten_minutes("n02");
  fs::rename(base_ / "spool-n02/n02.h5", base_ / "spool-n01/n02.h5");
  ReportOptions options;
  options.now_utc_ns = 1'700'000'000'000'000'000;
  std::vector<InputProblem> problems;
  const std::string from_traces = render_json(build_report(base_ / "spool-n01", options, problems));
  ASSERT_TRUE(fs::exists(base_ / "spool-n01/n02.summary.json"));
  EXPECT_EQ(render_json(build_report(base_ / "spool-n01", options, problems)), from_traces);
  EXPECT_TRUE(problems.empty());
}

}  // namespace
}  // namespace reveal::tests::deliver_results_test
