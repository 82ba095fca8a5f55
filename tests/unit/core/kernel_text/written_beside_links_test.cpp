// A collector of root may record into a directory in which others put links.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "core/kernel_text/recording.h"
#include "core/sampler/status_file.h"
#include "hdf5schema/basics/error.h"
#include "tests/unit/hdf5schema/sample_trace.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::written_beside_links_test {
namespace {

namespace fs = std::filesystem;

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WrittenBesideLinks, TheStatusFileOverwritesNothingThroughALink) {
  const TemporaryDirectory directory;
  const fs::path victim = directory.path() / "victim";
  std::ofstream(victim) << "precious";
  const fs::path status = directory.path() / "n01.status.json";
  for (const char* name : {"n01.status.json", "n01.status.json.new"})
    fs::create_symlink(victim, directory.path() / name);
  TraceWriter writer(directory.path() / "n01.h5", sample_header());
  const Progress progress;
  const TraceSink sink;
  const UsualRanges ranges(sink);
  {
    const StatusFile file(directory.path() / "n01.h5", "n01", progress, writer, ranges, std::chrono::milliseconds(1));
    while (fs::is_symlink(fs::symlink_status(status)) && text_of_file(victim) == "precious") std::this_thread::yield();
    EXPECT_NE(text_of_file(status).find("reveal.status"), std::string::npos);
  }
  EXPECT_EQ(text_of_file(victim), "precious");
  EXPECT_FALSE(fs::exists(fs::symlink_status(status)));
}

TEST(WrittenBesideLinks, ARecordingIsNotMadeThroughALink) {
  const TemporaryDirectory directory;
  const fs::path elsewhere = directory.path() / "elsewhere";
  fs::create_symlink(elsewhere, directory.path() / kRecordingFile);
  EXPECT_THROW(RecordingWriter{directory.path()}, Error);
  EXPECT_FALSE(fs::exists(elsewhere));
}

}  // namespace
}  // namespace reveal::tests::written_beside_links_test
