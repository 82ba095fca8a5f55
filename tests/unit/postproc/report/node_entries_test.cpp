// report.json without the entries about other nodes.
#include "postproc/report/node_entries.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "hdf5schema/basics/error.h"
#include "postproc/report/narrowed.h"
#include "report_samples.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::node_entries_test {
namespace {

std::string about(const std::string& json, const std::string& node, std::size_t piece = 1 << 20) {
  NodeEntries entries(node);
  for (std::size_t at = 0; at < json.size(); at += piece) entries.add(std::string_view(json).substr(at, piece));
  return entries.take();
}

Report narrowed(const std::string& json, const std::string& node) {
  Report report = parse_report(json);
  narrow_to_node(report, node);
  return report;
}

TEST(NodeEntries, GiveTheSameReportOfANodeAsTheWholeFile) {
  for (const auto& [name, report] : samples::all()) {
    const std::string json = render_json(report);
    for (const std::string& node : parse_report(json).job.nodes) {
      Report whole = narrowed(json, node);
      std::erase_if(whole.files, [&](const auto& file) {
        return file.first.starts_with("trace ") && file.first != "trace " + node;
      });
      EXPECT_EQ(render_json(narrowed(about(json, node), node)), render_json(whole)) << name << ", " << node;
    }
  }
}

TEST(NodeEntries, AreTheSameInPiecesOfAnySize) {
  const std::string json = render_json(samples::many_nodes());
  const std::string whole = about(json, "n05");
  EXPECT_LT(whole.size(), json.size());
  for (const std::size_t piece : {1U, 2U, 7U, 4096U}) EXPECT_EQ(about(json, "n05", piece), whole) << piece;
}

TEST(NodeEntries, AreNoMoreOfThousandsOfNodesThanOfOne) {
  Report report = samples::many_nodes();
  const auto add_node = [&report](const std::string& node) {
    report.totals.emplace_back().node = node;
    report.overhead.emplace_back().node = node;
    report.files.emplace_back("trace " + node, node + ".h5");
  };
  add_node("n05");
  const std::string one = about(render_json(report), "n05");
  for (int node = 100; node < 3000; ++node) add_node("n" + std::to_string(node));
  const std::string thousands = about(render_json(report), "n05");
  EXPECT_LT(thousands.size(), one.size() + 100) << "only white space may differ";
  EXPECT_EQ(render_json(parse_report(thousands)), render_json(parse_report(one)));
}

TEST(NodeEntries, LeaveListsOfOtherThingsAndTextsAlone) {
  EXPECT_EQ(
      about(R"({"tags":["n1","n2"],"job":{"totals":[{"node":"n2"},3]},"totals":[{"a":"n1"},{"a":"n2"},[["n1"]]]})",
            "n1"),
      R"({"tags":["n1","n2"],"job":{"totals":[{"node":"n2"},3]},"totals":[{"a":"n1"},[["n1"]]]})");
  EXPECT_EQ(about(R"({"totals":[],"overhead":[ ],"x":"],[\"","episodes":[{"text":"]}\\"},{"n1":"n1,]\""}]})", "n1"),
            R"({"totals":[],"overhead":[],"x":"],[\"","episodes":[{"n1":"n1,]\""}]})");
}

TEST(NodeEntries, OfATextThatIsNoReportAreNone) {
  for (const std::string_view text : {"", "]]]]}}", "[[[[", R"({"totals":[{]}})", R"({"totals":[{"node":"n1"}}})",
                                      R"({"totals":[{"node":"n1")", R"("\)", R"({"totals":["n1)", ",,,"}) {
    EXPECT_THROW(static_cast<void>(parse_report(about(std::string(text), "n1", 3))), Error) << text;
  }
}

TEST(NodeEntries, AreReadFromAFileAndThroughNoLink) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "report.json";
  std::ofstream(file) << render_json(samples::many_nodes());
  EXPECT_EQ(narrowed(read_report_about(file, "n05"), "n05").job.nodes, samples::many_nodes().job.nodes);
  std::filesystem::create_symlink("report.json", directory.path() / "link");
  EXPECT_THROW(static_cast<void>(read_report_about(directory.path() / "link", "n05")), Error);
  EXPECT_THROW(static_cast<void>(read_report_about(directory.path(), "n05")), Error);
  std::ofstream(directory.path() / "large") << "";
  std::filesystem::resize_file(directory.path() / "large", kLargestReport + 1);
  EXPECT_THROW(static_cast<void>(read_report_about(directory.path() / "large", "n05")), Error);
}

}  // namespace
}  // namespace reveal::tests::node_entries_test
