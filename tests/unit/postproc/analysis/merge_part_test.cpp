#include "postproc/analysis/merge_part.h"

#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <fstream>
#include <sstream>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/version.h"
#include "hdf5schema/zlib_text.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/job_summaries.h"
#include "postproc/analysis/node_analysis.h"
#include "spmd_job.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::merge_part_test {
namespace {

namespace fs = std::filesystem;

/// A job of six nodes, of which the second does more than the others. Its traces cannot be read: all is in summaries.
class MergePart : public testing::Test {
 protected:
  MergePart() { write_job(directory_.path(), 1); }

  void write_job(const fs::path& directory, unsigned seed) {
    SpmdJob job{.nodes = 6, .odd_node = 1, .shift = 0.5, .own_time = true, .seed = seed};
    for (NodeProfile& profile : job.record()) {
      std::ofstream(directory / (profile.node + ".h5")) << "the trace of " << profile.node << ", number " << seed;
    }
    const std::vector<ListedTrace> traces = list_traces(directory);
    for (NodeProfile& profile : job.record()) {
      const auto trace =
          std::find_if(traces.begin(), traces.end(), [&](const ListedTrace& one) { return one.node == profile.node; });
      publish_summary(trace->path, summary_of_node(std::move(profile), *trace));
    }
  }

  NodeSummary summary_of_node(NodeProfile profile, const ListedTrace& trace) const {
    NodeSummary summary;
    summary.node = profile.node;
    summary.config_hash = hash();
    summary.trace = trace.path.filename().string();
    summary.trace_bytes = trace.bytes;
    summary.trace_mtime_ns = trace.mtime_ns;
    summary.seconds = profile.seconds();
    summary.boot_id = "boot of " + profile.node;
    summary.expected_nodes = "n[0001-0006]";
    summary.part.job.begin_utc_ns = profile.begin_utc_ns;
    summary.part.job.end_utc_ns = profile.end_utc_ns;
    summary.part.job.trace_ids = {fmt::format("{}'s", profile.node)};
    summary.part.not_checked = {{"gpu.starving", "not measured: no GPU"}};
    summary.profile = std::move(profile);
    return summary;
  }

  [[nodiscard]] std::string hash() const { return config_hash(options_.settings); }

  void write_parts(std::size_t count) {
    for (std::size_t i = 1; i <= count; ++i) {
      std::vector<InputProblem> problems;
      write_merge_part(directory_.path(), {i, count}, options_, problems);
      EXPECT_TRUE(problems.empty());
    }
  }

  std::string report() {
    std::vector<InputProblem> problems;
    remarks_.clear();
    options_.remark = [this](const std::string& text) { remarks_.push_back(text); };
    return render_json(build_report(directory_.path(), options_, problems));
  }

  /// Nodes of which the summary comes from a part.
  std::size_t nodes_in_parts(const std::string& hash) {
    remarks_.clear();
    const std::vector<ListedTrace> traces = list_traces(directory_.path());
    const auto found = summaries_in_parts(directory_.path(), traces, hash, 2,
                                          [this](const std::string& text) { remarks_.push_back(text); });
    return static_cast<std::size_t>(
        std::count_if(found.begin(), found.end(), [](const auto& one) { return one.has_value(); }));
  }

  [[nodiscard]] fs::path part_file(std::size_t number, std::size_t count) const {
    return directory_.path() / (".merge-part-" + std::to_string(number) + "-of-" + std::to_string(count));
  }

  void change(const fs::path& file, const std::function<void(std::string&)>& edit) {
    std::string content = file_text(file.string());
    edit(content);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  }

  const TemporaryDirectory directory_;
  ReportOptions options_{.now_utc_ns = 1'800'000'000'000'000'000, .threads = 2};
  std::vector<std::string> remarks_;
};

/// The place of the second one of the frames, each behind a line with its size and the size that it has in the file.
std::size_t second_frame(const std::string& frames) {
  std::size_t plain = 0;
  std::size_t stored = 0;
  std::istringstream(frames) >> plain >> stored;
  return frames.find('\n') + 1 + stored;
}

/// As large as before, and as old.
void make_unreadable(const fs::path& file) {
  const auto time = fs::last_write_time(file);
  const std::string nothing(fs::file_size(file), ' ');
  std::ofstream(file, std::ios::binary | std::ios::trunc) << nothing;
  fs::last_write_time(file, time);
}

TEST_F(MergePart, GivesTheSameReportAsTheSummaries) {
  const std::string serial = report();
  EXPECT_NE(serial.find("\"n0002\""), std::string::npos);
  for (const std::size_t count : {1U, 2U, 4U, 8U}) {
    write_parts(count);
    EXPECT_EQ(report(), serial) << count;
    EXPECT_TRUE(remarks_.empty()) << remarks_.front();
    remove_parts(directory_.path());
  }
}

TEST_F(MergePart, IsReadInsteadOfTheSummaries) {
  const std::string serial = report();
  write_parts(4);
  for (const ListedTrace& trace : list_traces(directory_.path())) {
    make_unreadable(directory_.path() / summary_name(trace.path));
  }
  EXPECT_EQ(report(), serial);
  options_.reuse_summaries = false;
  EXPECT_THROW(static_cast<void>(report()), Error) << "--fresh asks for the traces, which are none";
}

/// Publishes each summary with a line.
std::vector<ListedTrace> with_lines(std::vector<ListedTrace> traces) {
  for (const ListedTrace& trace : traces) {
    NodeSummary summary = *summary_of(trace);
    summary.part.timeline = {{.node = summary.node, .name = "cpu.user", .unit = "cpus", .values = {1, 2, 3}}};
    publish_summary(trace.path, summary);
  }
  return traces;
}

TEST_F(MergePart, LeavesThePointsOfLinesInTheSummaries) {
  const std::vector<ListedTrace> traces = with_lines(list_traces(directory_.path()));
  const std::string serial = report();
  ASSERT_EQ(parse_report(serial).timeline.size(), 6U);
  EXPECT_EQ(parse_report(serial).timeline.at(5).values, (std::vector<double>{1, 2, 3}));
  write_parts(2);
  for (const auto& summary : summaries_in_parts(directory_.path(), traces, hash(), 1, nullptr)) {
    ASSERT_TRUE(summary.has_value());
    EXPECT_EQ(summary->part.timeline.at(0).name, "cpu.user");
    EXPECT_TRUE(summary->part.timeline.at(0).values.empty());
  }
  EXPECT_EQ(report(), serial);
  make_unreadable(directory_.path() / summary_name(traces.back().path));
  EXPECT_EQ(parse_report(report()).timeline.size(), 5U) << "the line of the last node is lost";
  NodeSummary first = *summary_of(traces.front());
  NodeSummary thinned = first;
  thinned.trace_bytes = 1;
  publish_summary(traces.front().path, thinned);
  EXPECT_EQ(stored_lines(traces.front(), first), first.part.timeline) << "also when its trace became smaller";
  NodeSummary others[] = {first, first, first, first};
  others[0].node = "n0009";
  ++others[1].part.job.begin_utc_ns;
  ++others[2].part.job.end_utc_ns;
  others[3].part.job.trace_ids = {"another"};
  for (const NodeSummary& other : others) {
    EXPECT_TRUE(stored_lines(traces.front(), other).empty()) << "another recording: " << &other - others;
  }
}

TEST_F(MergePart, GivesNoLinesOfASummaryThatIsReplacedMeanwhile) {
  const std::vector<ListedTrace> traces = with_lines(list_traces(directory_.path()));
  write_parts(2);
  fs::remove(part_file(2, 2));
  options_.remark = [&](const std::string&) {  // the other part has been read
    NodeSummary newer = *summary_of(traces.front());
    newer.part.job.trace_ids = {"another"};
    publish_summary(traces.front().path, newer);
  };
  std::vector<InputProblem> problems;
  const Report report = build_report(directory_.path(), options_, problems);
  EXPECT_EQ(report.timeline.size(), 5U);
  EXPECT_EQ(report.omitted.at("timelines"), 1);
  for (const TimelineChannel& line : report.timeline) EXPECT_NE(line.node, "n0001");
}

TEST_F(MergePart, HasAsManyNodesAsTheOthers) {
  const std::vector<ListedTrace> traces = list_traces(directory_.path());
  EXPECT_EQ(traces_of_part(traces, {1, 4}).size(), 1U);
  EXPECT_EQ(traces_of_part(traces, {2, 4}).size(), 2U);
  EXPECT_EQ(traces_of_part(traces, {2, 4}).front().node, "n0002");
  EXPECT_EQ(traces_of_part(traces, {4, 4}).back().node, "n0006");
  EXPECT_TRUE(traces_of_part(traces, {1, 8}).empty());
}

TEST_F(MergePart, IsNotUsedForANodeWithANewerSummary) {
  write_parts(2);
  EXPECT_EQ(nodes_in_parts(hash()), 6U);
  const std::vector<ListedTrace> traces = list_traces(directory_.path());
  NodeSummary newer = *summary_of(traces.front());
  newer.boot_id = "another boot";
  publish_summary(traces.front().path, newer);
  EXPECT_EQ(nodes_in_parts(hash()), 5U);
  EXPECT_EQ(remarks_, std::vector<std::string>{"part 1 of 2 is older than 1 of the summaries in the "
                                               "directory, which are read instead"});
  remove_parts(directory_.path());
  const std::string serial = report();
  write_parts(2);
  EXPECT_EQ(report(), serial);
}

TEST_F(MergePart, OfAnotherJobIsNotUsed) {
  write_parts(2);
  const std::string parts[] = {file_text(part_file(1, 2).string()), file_text(part_file(2, 2).string())};
  write_job(directory_.path(), 2222);
  for (std::size_t i = 0; i < 2; ++i) std::ofstream(part_file(i + 1, 2), std::ios::binary) << parts[i];
  EXPECT_EQ(nodes_in_parts(hash()), 0U);
  EXPECT_EQ(remarks_.size(), 2U);
}

TEST_F(MergePart, ThatIsDamagedIsNotUsed) {
  write_parts(2);
  const fs::path file = part_file(2, 2);
  const std::string whole = file_text(file.string());
  const std::string remark =
      "part 2 of 2 is not used, because it is damaged or cut off: the "
      "summaries of its nodes are read one by one";
  for (const std::size_t size : {whole.find('\n') + 1, whole.size() / 2, whole.size() - 1}) {
    change(file, [&](std::string& content) { content = whole.substr(0, size); });
    EXPECT_EQ(nodes_in_parts(hash()), 3U) << size;
    EXPECT_EQ(remarks_, std::vector<std::string>{remark});
  }
  for (std::size_t at = whole.find('\n') + 1; at < whole.size(); at += whole.size() / 9) {
    change(file, [&](std::string& content) {
      content = whole;
      content[at] = static_cast<char>(content[at] ^ 0x10);
    });
    EXPECT_EQ(nodes_in_parts(hash()), 3U) << at;
    EXPECT_EQ(remarks_, std::vector<std::string>{remark});
  }
  change(file, [&](std::string& content) { content.clear(); });
  EXPECT_EQ(nodes_in_parts(hash()), 3U);
  EXPECT_EQ(remarks_.size(), 1U);
}

TEST_F(MergePart, IsCompressed) {
  write_parts(1);
  const std::string part = file_text(part_file(1, 1).string());
  EXPECT_EQ(part.find("not measured: no GPU"), std::string::npos);
  std::istringstream frame(part.substr(part.find('\n') + 1));
  std::size_t plain = 0;
  std::size_t stored = 0;
  frame >> plain >> stored;  // those of the texts, which come first
  EXPECT_GT(plain, 1000U);
  EXPECT_LT(stored, plain / 2);
}

TEST_F(MergePart, ThatWouldFillTheMemoryIsNotUsed) {
  write_parts(1);
  const std::string whole = file_text(part_file(1, 1).string());
  const std::string head = whole.substr(0, whole.find('\n') - 8);
  const auto with_frames = [&](const std::string& frames) {
    return fmt::format("{}{:08x}\n{}", head, checksum_of(frames), frames);
  };
  const auto frame = [](std::size_t plain, const std::string& stored) {
    return fmt::format("{} {}\n{}", plain, stored.size(), stored);
  };
  const std::string zeros = zlib_text(std::string(std::size_t{60} << 20, '\0'));
  const std::string real = whole.substr(whole.find('\n') + 1);
  const std::size_t records = second_frame(real);
  std::size_t plain = 0;
  std::istringstream(real.substr(records)) >> plain;
  const std::string stored = real.substr(real.find('\n', records) + 1);
  std::string again;  // its records again and again, which is sound
  while (again.size() < std::size_t{16} << 20) again += plain_text(stored, plain);
  std::string many = real;
  const std::string sound = frame(again.size(), zlib_text(again));
  for (std::size_t all = 0; all <= std::size_t{512} << 20; all += again.size()) many += sound;
  const std::string too_large[] = {
      frame(std::size_t{65} << 20, zeros),  // larger than a frame is
      many,                                 // all of them together
  };
  for (const std::string& frames : too_large) {
    std::ofstream(part_file(1, 1), std::ios::binary | std::ios::trunc) << with_frames(frames);
    static_cast<void>(nodes_in_parts(hash()));
    EXPECT_EQ(remarks_, std::vector<std::string>{"part 1 of 1 is not used, because it would need too much memory: the "
                                                 "summaries of its nodes are read one by one"})
        << frames.substr(0, 40);
  }
  const std::string hostile[] = {
      frame(10, zeros),                     // more than it says
      frame(std::size_t{61} << 20, zeros),  // less
      "10 18446744073709551615\nx",
      "-1 3\nabc",
      "3 3",
      "\n",
      "3 3\n",
      "a b\n",
      frame(3, "abc") + frame(3, "\xff\xff\xff"),       // not compressed: a text and a record that are none
      frame(std::size_t{60} << 20, zeros) + "1 1\n\1",  // millions of empty texts
  };
  for (const std::string& frames : hostile) {
    std::ofstream(part_file(1, 1), std::ios::binary | std::ios::trunc) << with_frames(frames);
    EXPECT_EQ(nodes_in_parts(hash()), 0U) << frames.substr(0, 40);
    ASSERT_EQ(remarks_.size(), 1U) << frames.substr(0, 40);
    EXPECT_NE(remarks_[0].find("is not used, because"), std::string::npos) << remarks_[0];
  }
}

TEST_F(MergePart, OfAnotherVersionOrWithOtherSettingsIsNotUsed) {
  write_parts(1);
  EXPECT_EQ(nodes_in_parts("0123"), 0U);
  EXPECT_EQ(remarks_, std::vector<std::string>{"part 1 of 1 is not used, because it was written "
                                               "with other settings: "
                                               "the summaries of its nodes are read one by one"});
  change(part_file(1, 1), [](std::string& content) { content.replace(content.find(REVEAL_VERSION), 1, "9"); });
  EXPECT_EQ(nodes_in_parts(hash()), 0U);
  ASSERT_EQ(remarks_.size(), 1U);
  EXPECT_NE(remarks_[0].find("because reveal 9"), std::string::npos) << remarks_[0];
  change(part_file(1, 1), [](std::string& content) { content.replace(content.find('/') + 1, 1, "1"); });
  EXPECT_EQ(nodes_in_parts(hash()), 0U);
  EXPECT_NE(remarks_.at(0).find("because it is no part of a merge"), std::string::npos) << remarks_[0];
}

TEST_F(MergePart, ThatIsMissingIsSaid) {
  const std::string serial = report();
  write_parts(3);
  fs::remove(part_file(2, 3));
  EXPECT_EQ(report(), serial);
  EXPECT_EQ(remarks_, std::vector<std::string>{"1 of 3 parts are missing: the summaries "
                                               "of their nodes are read one by one"});
  EXPECT_EQ(nodes_in_parts(hash()), 4U);
  remove_parts(directory_.path());
  EXPECT_EQ(nodes_in_parts(hash()), 0U);
  EXPECT_TRUE(remarks_.empty()) << "a job without parts is the usual one";
}

TEST(PartNumber, IsReadFromAnOption) {
  EXPECT_EQ(part_number("3/8"), (PartNumber{3, 8}));
  EXPECT_EQ(part_number("1024/1024"), (PartNumber{1024, 1024}));
  for (const char* wrong : {"", "3", "/8", "0/8", "9/8", "3/", "3/8/2", "-1/8", "1/1025", "a/b"}) {
    EXPECT_EQ(part_number(wrong), std::nullopt) << wrong;
  }
}

TEST(PartNumber, IsTheRankUnderMpirunOrSrun) {
  std::map<std::string, std::string> variables;
  const Environment environment = [&variables](const char* name) {
    const auto known = variables.find(name);
    return known == variables.end() ? std::string() : known->second;
  };
  EXPECT_EQ(part_of_environment(environment), (PartNumber{1, 1}));
  variables = {{"SLURM_PROCID", "7"}, {"SLURM_NTASKS", "8"}};
  EXPECT_EQ(part_of_environment(environment), (PartNumber{8, 8}));
  variables.insert({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(part_of_environment(environment), (PartNumber{2, 4})) << "mpirun in a batch job of Slurm";
  variables = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  EXPECT_EQ(part_of_environment(environment), (PartNumber{1, 2}));
  for (const char* wrong : {"8", "-1", "one", "9223372036854775807"}) {
    variables = {{"SLURM_PROCID", wrong}, {"SLURM_NTASKS", "8"}};
    EXPECT_THROW(static_cast<void>(part_of_environment(environment)), Error) << wrong;
  }
}

}  // namespace
}  // namespace reveal::tests::merge_part_test
