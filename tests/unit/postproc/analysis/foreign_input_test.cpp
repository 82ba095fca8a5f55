// Files of other users in a job directory are read with limits, and nothing is written for them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hdf5schema/basics/error.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/json/shallow_json.h"
#include "postproc/report/report.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/publish.h"
#include "postproc/words/sanitize.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::foreign_input_test {
namespace {

TEST(Json, NestedWithoutEndIsRefused) {
  const std::string deep(100'000, '[');
  EXPECT_THROW(static_cast<void>(shallow(deep)), Error);
  EXPECT_THROW(static_cast<void>(parse_report(deep)), Error);
  EXPECT_THROW(static_cast<void>(parse_summary(deep)), Error);
  const std::string brackets_in_text =
      R"({"a": "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["})";
  EXPECT_EQ(shallow(brackets_in_text), brackets_in_text);
  for (const char* text : {R"("")", R"("a")", R"("\\")", R"("\\\"")", R"("\"\\")", R"("\n\\\\")"}) {
    EXPECT_THROW(static_cast<void>(shallow(text + deep)), Error) << text << " ends";
  }
  for (const char* text : {R"(")", R"("\")", R"("\\\")", R"("a\"\")"}) {
    EXPECT_EQ(shallow(text + deep), text + deep) << text << " goes on";
  }
}

TEST(Json, IsNotEchoedWhole) {
  const std::string text =
      R"({"schema": "reveal.report/1", "verdict": {"status": ")" + std::string(100'000, 'A') + R"("}})";
  try {
    static_cast<void>(parse_report(text));
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 200U);
  }
}

TEST(JobDirectory, ListsTheEarlierSegmentWhereNothingFollows) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "n1.h5.earlier") << "rows";
  std::ofstream(directory.path() / "n2.h5.earlier") << "rows";
  std::ofstream(directory.path() / "n2.h5.part") << "rows";
  const std::vector<ListedTrace> traces = list_traces(directory.path());
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[0].path.filename(), "n1.h5.earlier");
  EXPECT_EQ(traces[0].node, "n1");
  EXPECT_TRUE(traces[0].part);
  EXPECT_EQ(traces[1].path.filename(), "n2.h5.part");
}

TEST(Publish, KeepsFilesForTheirOwner) {
  const TemporaryDirectory directory;
  publish_file(directory.path(), "report.txt", "text");
  struct stat status {};
  ASSERT_EQ(::stat((directory.path() / "report.txt").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(Publish, WritesNothingIntoADirectoryOfSomebodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const TemporaryDirectory directory;
  ASSERT_EQ(::chown(directory.path().c_str(), 54321, 54321), 0);
  EXPECT_THROW(publish_file(directory.path(), "report.txt", "text"), Error);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Publish, ReadsNoTextThroughALink) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "secret") << "secret";
  std::filesystem::create_symlink("secret", directory.path() / "report.json");
  EXPECT_THROW(static_cast<void>(read_text_file(directory.path() / "report.json", 1000)), Error);
}

TEST(Publish, HandsOutputsToWhoMayWriteThem) {
  const TemporaryDirectory directory;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  send_outputs_to(ends[1]);
  write_output(directory.path() / "asked.csv", "1,2\n");
  write_output(directory.path() / "not_asked.csv", "3,4\n");
  send_outputs_to(-1);
  ::close(ends[1]);
  write_outputs_from(ends[0], {directory.path() / "asked.csv"});
  ::close(ends[0]);
  EXPECT_EQ(read_text_file(directory.path() / "asked.csv", 100), "1,2\n");
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "not_asked.csv"));
}

TEST(Terminal, IsNotSentControlsThatJsonLeavesIn) {
  EXPECT_EQ(without_controls("\x1b[1mok\x1b[0m \xc2\x9b"
                             "31m \x7f \xe2\x80\xae caf\xc3\xa9\n"),
            "\x1b[1mok\x1b[0m \\u009b31m \\u007f \\u202e caf\xc3\xa9\n");
}

}  // namespace
}  // namespace reveal::tests::foreign_input_test
