#include "postproc/analysis/input_problems.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reveal::tests::input_problems_test {
namespace {

NodeSummary node_of(const std::string& name, double seconds, bool complete = true) {
  NodeSummary summary;
  summary.node = name;
  summary.seconds = seconds;
  summary.complete = complete;
  summary.trace = name + (complete ? ".h5" : ".h5.part");
  return summary;
}

std::vector<std::string> texts_of(const std::vector<InputProblem>& problems) {
  std::vector<std::string> texts;
  texts.reserve(problems.size());
  for (const InputProblem& problem : problems) texts.push_back(problem.text);
  return texts;
}

TEST(InputProblems, AreSeveralTracesOfANodeOfWhichTheLongestIsKept) {
  std::vector<NodeSummary> nodes = {node_of("n2", 60), node_of("n1", 50), node_of("n1", 60, false), node_of("n1", 60)};
  std::vector<InputProblem> problems;
  drop_duplicates(nodes, problems);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].trace, "n1.h5") << "the closed one of the two longest";
  EXPECT_EQ(nodes[0].seconds, 60);
  EXPECT_EQ(nodes[1].node, "n2");
  EXPECT_EQ(texts_of(problems),
            (std::vector<std::string>{"two traces of n1: n1.h5 (60 s) is used, n1.h5.part (60 s) is not",
                                      "two traces of n1: n1.h5 (60 s) is used, n1.h5 (50 s) is not"}));
}

TEST(InputProblems, AreExpectedNodesWithoutATrace) {
  std::vector<NodeSummary> nodes = {node_of("n1", 60), node_of("n2", 60)};
  nodes[0].expected_nodes = nodes[1].expected_nodes = "n[1-4]";
  std::vector<InputProblem> problems = {{"n4", "n4.h5: is cut off", true}, {"n5", "a line of a node without a trace"}};
  note_missing_nodes(nodes, {"n5"}, {}, problems);
  EXPECT_EQ(texts_of(problems), (std::vector<std::string>{"n4.h5: is cut off", "a line of a node without a trace",
                                                          "n3 has no trace: its collector did not deliver one",
                                                          "n5 has no trace: its collector did not deliver one"}));
  EXPECT_TRUE(problems.back().unusable);
}

TEST(InputProblems, AreFoldersThatCannotBeRead) {
  std::vector<NodeSummary> nodes = {node_of("n1", 60)};
  nodes[0].expected_nodes = "n[1-2]";
  const std::string folder = node_folder("n2");
  std::vector<InputProblem> problems;
  note_missing_nodes(nodes, {}, {{folder, "Permission denied"}, {"nodes-zz", "Input/output error"}}, problems);
  EXPECT_EQ(texts_of(problems), (std::vector<std::string>{"n2 was not read: " + folder + ": Permission denied",
                                                          "the nodes in nodes-zz were not read: Input/output error"}));
}

TEST(InputProblems, AreNotesOfTheNodesEntry) {
  Report report;
  report.job.nodes = {"n1"};
  report.coverage = {{.nodes = {"n1"}, .probes = {}, .note = "cut off after 5 s"}};
  add_problems({{"n1", "a note"}, {"n2", "n2 has no trace", true}, {"n2", "another note"}, {"", "of the job"}}, report);
  EXPECT_TRUE(report.partial);
  EXPECT_EQ(report.job.nodes_missing, std::vector<std::string>{"n2"});
  ASSERT_EQ(report.coverage.size(), 3U);
  EXPECT_EQ(report.coverage[0].note, "cut off after 5 s; a note");
  EXPECT_EQ(report.coverage[1].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(report.coverage[1].note, "n2 has no trace; another note");
  EXPECT_TRUE(report.coverage[2].nodes.empty());
  EXPECT_EQ(report.coverage[2].note, "of the job");
}

TEST(InputProblems, AreTimesThatANodeDidNotRecord) {
  const auto notes = [](double ran, double recorded) {
    Report report;
    report.job.ran_seconds = ran;
    note_unrecorded_time({node_of("n1", recorded)}, report);
    EXPECT_FALSE(report.partial);
    return report.coverage.empty() ? "" : report.coverage.front().note;
  };
  EXPECT_EQ(notes(100, 95.5), "");
  EXPECT_EQ(notes(100, 95), "95 s of the run's 100 s were recorded");
  EXPECT_EQ(notes(10, 9), "") << "a second is nothing";
  EXPECT_EQ(notes(10, 8), "8 s of the run's 10 s were recorded");
}

}  // namespace
}  // namespace reveal::tests::input_problems_test
