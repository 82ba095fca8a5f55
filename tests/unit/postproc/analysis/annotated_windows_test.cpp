#include "postproc/analysis/annotated_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/trace_writer.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::annotated_windows_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kBegin = 1'700'000'000'000'000'000;  // UTC of monotonic 0

struct Node {
  std::int64_t ticks = 1000;
  std::string name = "n01";
  std::string second_channel = "net.level";
  std::int64_t missing_from = INT64_MAX, missing_to = INT64_MAX;  // ticks in which nothing could be read
};

/// A level that rises by one in each tick, and one that stands still but for 50 s to 60 s.
ListedTrace write_node(const TemporaryDirectory& directory, const Node& node) {
  const std::filesystem::path path = directory.path() / (node.name + ".h5");
  TraceHeader header = sample_header();
  header.node = node.name;
  TraceWriter writer(path, header);
  const auto levels = writer.add_family(gauge_family());
  writer.add_channel(levels, {.metric = "mem.available"});
  writer.add_channel(levels, {.metric = node.second_channel, .instance = "eth0,\"x\""});
  writer.start();
  writer.append_clock({0, kBegin, 1000});
  for (std::int64_t tick = 1; tick <= node.ticks; ++tick) {
    const bool missing = tick >= node.missing_from && tick < node.missing_to;
    const bool disturbed = tick >= 500 && tick < 600;
    const std::int64_t row[] = {missing ? kMissing : tick, missing ? kMissing : disturbed ? 100 + tick % 7 : tick % 3};
    writer.append_row(levels, tick * kTick, row);
    if (tick % 100 == 0) wait_until_flushed(writer, tick * kTick - 2 * kTick);
  }
  writer.close();
  return {.path = path, .node = node.name};
}

Report report() {
  Report report;
  report.job.id = "4711";
  report.job.tags = {{"model", "toy"}};
  Finding finding;
  finding.id = "net.tcp_retrans_fault";
  finding.nodes = {"n01"};
  finding.intervals = {{kBegin + 500 * kTick, kBegin + 600 * kTick}};
  report.findings = {finding};
  report.findings.push_back(finding);
  report.findings.back().nodes = {"n02"};
  report.findings.back().id = "cpu.outsider";
  ReportEpisode episode;
  episode.node = "n01";
  episode.tier = Tier::weak;
  episode.span = finding.intervals.front();
  report.episodes = {episode};
  return report;
}

struct Table {
  std::vector<std::vector<std::string>> rows;  // the first one names the columns
  nlohmann::json schema;
};

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields{""};
  bool quoted = false;
  for (const char letter : line) {
    if (letter == '"') {
      quoted = !quoted;
    } else if (letter == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += letter;
    }
  }
  return fields;
}

Table exported(const std::vector<Node>& nodes, const std::vector<std::string>& metrics) {
  const TemporaryDirectory directory;
  const Report of = report();
  std::vector<ListedTrace> traces;
  for (const Node& node : nodes) traces.push_back(write_node(directory, node));
  AnnotatedWindows windows(of, traces, metrics);
  Table table{.rows = {}, .schema = nlohmann::json::parse(windows.schema())};
  std::string text;
  windows.write_csv([&text](std::string_view more) { text += more; });
  EXPECT_TRUE(windows.left_out().empty());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) table.rows.push_back(fields_of(line));
  return table;
}

std::string value_at(const Table& table, const std::string& column, std::size_t row) {
  const auto& names = table.rows.front();
  const auto place = std::find(names.begin(), names.end(), column);
  return place == names.end() ? "no column " + column
                              : table.rows.at(1 + row)[static_cast<std::size_t>(place - names.begin())];
}

TEST(AnnotatedWindows, HaveScoresFindingsAndFeatures) {
  const Table table = exported({Node{}}, {"mem.*"});
  ASSERT_EQ(table.rows.size(), 1U + 97);
  const auto at = [&table](const std::string& column, std::size_t window) { return value_at(table, column, window); };
  EXPECT_EQ(at("begin", 0), "2023-11-14T22:13:20.100Z");
  EXPECT_EQ(at("end", 0), "2023-11-14T22:13:23.100Z");
  EXPECT_EQ(at("node", 0), "n01");
  EXPECT_EQ(at("mem.available:mean", 0), "16.5");  // mean of 2 to 31: a sample is the row at its end
  EXPECT_EQ(at("mem.available:mean", 1), "26.5");
  EXPECT_EQ(at("mem.available:minimum", 96), "962");
  for (const auto& [window, interval, findings] : {std::tuple{46, "none", ""},
                                                   {47, "weak", "net.tcp_retrans_fault"},
                                                   {59, "weak", "net.tcp_retrans_fault"},
                                                   {60, "none", ""}}) {
    EXPECT_EQ(at("interval", static_cast<std::size_t>(window)), interval) << window;
    EXPECT_EQ(at("findings", static_cast<std::size_t>(window)), findings) << window;
  }
  int highest = 0;
  for (std::size_t window = 0; window < 97; ++window) highest += at("top_Z", window) == "1" ? 1 : 0;
  EXPECT_EQ(highest, 1) << "1 % of 97 windows";
}

TEST(AnnotatedWindows, HaveASchemaOfTheirColumns) {
  const Table table = exported({Node{}}, {});
  std::vector<std::string> names;
  for (const auto& column : table.schema["tableSchema"]["columns"]) {
    names.push_back(column["name"]);
    EXPECT_NE(column["dc:description"], "") << names.back();
  }
  std::vector<std::string> header = table.rows.front();
  ASSERT_EQ(names.size(), header.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::erase(names[i], '"');  // the reader of this test drops them
    EXPECT_EQ(names[i], header[i]);
  }
  for (const auto& row : table.rows) EXPECT_EQ(row.size(), header.size());
  EXPECT_EQ(table.schema["notes"][0]["tags"]["model"], "toy");
  EXPECT_EQ(table.schema["notes"][0]["nodes"][0]["windows"], 97);
}

TEST(AnnotatedWindows, AreOneTableOfSeveralNodes) {
  const Table table = exported({{}, {.ticks = 700, .name = "n,2", .second_channel = "net.other"}}, {"*"});
  ASSERT_EQ(table.rows.size(), 1U + 97 + 67);
  for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.rows.front().size());
  EXPECT_EQ(value_at(table, "node", 96), "n01");
  EXPECT_EQ(value_at(table, "node", 97), "n,2");
  EXPECT_EQ(value_at(table, "net.level/eth0,x:minimum", 0), "0");
  EXPECT_EQ(value_at(table, "net.other/eth0,x:minimum", 0), "") << "n01 has no such channel";
  EXPECT_EQ(value_at(table, "net.level/eth0,x:minimum", 97), "") << "the other node has no such channel";
  EXPECT_EQ(value_at(table, "net.other/eth0,x:minimum", 97), "0");
  EXPECT_EQ(value_at(table, "findings", 47), "net.tcp_retrans_fault");
  EXPECT_EQ(value_at(table, "findings", 97 + 47), "") << "a finding of the first node";
  EXPECT_EQ(table.schema["tableSchema"]["columns"][2]["name"], "node");
  EXPECT_EQ(table.schema["notes"][0]["nodes"][1]["node"], "n,2");
  EXPECT_EQ(table.schema["notes"][0]["nodes"][1]["windows"], 67);
}

TEST(AnnotatedWindows, OfTheOtherNodesAreExportedIfATraceIsTooShort) {
  const TemporaryDirectory directory;
  const Report of = report();
  AnnotatedWindows windows(
      of, {write_node(directory, {.ticks = 20, .name = "n00"}), write_node(directory, {.ticks = 700})}, {});
  std::string text;
  windows.write_csv([&text](std::string_view more) { text += more; });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 67);
  ASSERT_EQ(windows.left_out().size(), 1U);
  EXPECT_NE(windows.left_out()[0].find("n00.h5: 1.9 s were recorded"), std::string::npos) << windows.left_out()[0];
}

TEST(AnnotatedWindows, HaveNoScoresWhereNothingWasMeasured) {
  const Table never = exported({{}, {.name = "n02", .missing_from = 0}}, {});
  EXPECT_NE(value_at(never, "score_Z", 0), "");
  for (const char* column : {"score_Z", "top_Z", "score_MAHA", "score_IF", "agreement", "mem.available:mean"}) {
    for (const std::size_t window : {0, 96}) EXPECT_EQ(value_at(never, column, 97 + window), "") << column;
  }
  const Table partly = exported({{.missing_from = 200, .missing_to = 300}}, {});
  for (const std::size_t window : {17, 29}) EXPECT_NE(value_at(partly, "score_Z", window), "") << window;
  for (const std::size_t window : {19, 27}) EXPECT_EQ(value_at(partly, "score_Z", window), "") << window;
}

TEST(AnnotatedWindows, HaveNoScoresWhereTooFewAreThereToRank) {
  const TemporaryDirectory directory;
  const Report of = report();
  std::string text;
  AnnotatedWindows(of, {write_node(directory, {.ticks = 200})}, {"mem.*"}).write_csv([&](std::string_view more) {
    text += more;
  });
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const std::size_t columns = fields_of(line).size();
  std::getline(lines, line);
  EXPECT_EQ(fields_of(line).size(), columns);
  EXPECT_NE(line.find("Z,n01,,,,,,,,none,,16.5,"), std::string::npos) << line;
}

TEST(AnnotatedWindows, HaveNoEscapeSequenceOfTheReport) {
  const TemporaryDirectory directory;
  Report of = report();
  of.findings.front().id = "net\x1b[2J.rule";
  std::string text;
  AnnotatedWindows(of, {write_node(directory, {})}, {"mem.*"}).write_csv([&](std::string_view more) { text += more; });
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find(",net.rule,"), std::string::npos);
}

TEST(AnnotatedWindows, EndWhenTheirOutputCannotBeWritten) {
  const TemporaryDirectory directory;
  const Report of = report();
  AnnotatedWindows windows(of, {write_node(directory, {}), write_node(directory, {.name = "n02"})}, {"mem.*"});
  std::size_t pieces = 0;
  const auto full_after_the_header = [&pieces](std::string_view) {
    if (++pieces > 1) throw Error("no space left");
  };
  EXPECT_THROW(windows.write_csv(full_after_the_header), Error);
  EXPECT_EQ(pieces, 2U) << "the second node was tried";
}

TEST(AnnotatedWindows, NeedEnoughWindowsAndKnownChannels) {
  const TemporaryDirectory directory;
  const Report of = report();
  const ListedTrace trace = write_node(directory, {.ticks = 20});
  EXPECT_THROW(AnnotatedWindows(of, {trace}, {}), Error);
  const TemporaryDirectory other;
  const ListedTrace longer = write_node(other, {});
  EXPECT_THROW(AnnotatedWindows(of, {longer}, {"gpu.*"}), Error);
}

}  // namespace
}  // namespace reveal::tests::annotated_windows_test
