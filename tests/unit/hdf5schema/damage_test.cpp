// A file may be damaged, or made to break or mislead its reader: data that is not in it must not be read from it.
#include <H5Cpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/chunk_codec.h"
#include "hdf5schema/merge_traces.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace_file.h"
#include "hdf5schema/trace_reader.h"
#include "sample_trace.h"

namespace reveal::tests::damage_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;

/// Two families of one channel, 100 rows.
void write_trace(const std::filesystem::path& path) {
  TraceWriter writer(path, sample_header());
  const auto counters = writer.add_family(counter_family());
  const auto gauges = writer.add_family(gauge_family());
  writer.add_channel(counters, {.metric = "vm.pgfault"});
  writer.add_channel(gauges, {.metric = "mem.free"});
  writer.start();
  for (std::int64_t tick = 0; tick < 100; ++tick) {
    const std::int64_t value = tick * tick;
    ASSERT_TRUE(writer.append_row(counters, tick * kTick, {&value, 1}));
    ASSERT_TRUE(writer.append_row(gauges, tick * kTick, {&value, 1}));
  }
  writer.close();
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Where the file has the first chunk of a dataset.
std::pair<haddr_t, hsize_t> first_chunk(const std::filesystem::path& path, const char* dataset) {
  const H5::H5File file(path.string(), H5F_ACC_RDONLY);
  const hsize_t at[2] = {0, 0};
  unsigned mask = 0;
  haddr_t address = 0;
  hsize_t bytes = 0;
  EXPECT_GE(H5Dget_chunk_info_by_coord(file.openDataSet(dataset).getId(), at, &mask, &address, &bytes), 0);
  return {address, bytes};
}

class DamagedFile : public ::testing::Test {
 protected:
  DamagedFile() { write_trace(path_); }

  [[nodiscard]] std::string refusal() const {
    try {
      const TraceReader reader(path_);
      return reader.damages().empty() ? "was read" : reader.damages().front().text();
    } catch (const Error& error) {
      return error.what();
    }
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "n01.h5";
};

TEST_F(DamagedFile, LosesOneFamilyByNameAndKeepsTheRest) {
  const auto [address, bytes] = first_chunk(path_, "memory/vmstat");
  std::string content = bytes_of(path_);
  content[address + bytes / 2] = static_cast<char>(content[address + bytes / 2] ^ 1);
  write_bytes(path_, content);
  const TraceReader reader(path_);
  ASSERT_EQ(reader.families().size(), 1U);
  EXPECT_EQ(reader.families()[0].spec.path, "memory/meminfo");
  EXPECT_EQ(reader.read(reader.families()[0])[99], 9801.0);
  ASSERT_EQ(reader.damages().size(), 1U);
  EXPECT_EQ(reader.damages()[0].text(), "memory/vmstat: the checksum of a chunk is wrong");
  ASSERT_FALSE(reader.damages()[0].channels.empty()) << "what is lost can be named";
  EXPECT_EQ(reader.damages()[0].spec.subsystem, Subsystem::memory);
}

TEST_F(DamagedFile, IsRefusedEachTimeItIsRead) {
  const auto [address, bytes] = first_chunk(path_, "memory/vmstat");
  std::string content = bytes_of(path_);
  content[address + bytes / 2] = static_cast<char>(content[address + bytes / 2] ^ 1);
  write_bytes(path_, content);
  const TraceReader reader(path_, TraceReader::Check::names);
  const auto damaged = std::find_if(reader.families().begin(), reader.families().end(),
                                    [](const auto& family) { return family.spec.path == "memory/vmstat"; });
  ASSERT_NE(damaged, reader.families().end());
  for (int i = 0; i < 2; ++i) EXPECT_THROW(static_cast<void>(reader.read(*damaged)), Error) << i;
}

TEST_F(DamagedFile, WithALostChunkIndexDoesNotPassForOneThatMeasuredNothing) {
  const std::filesystem::path small = directory_.path() / "small.h5";
  ASSERT_TRUE(compact(path_, small));  // as longer recordings are closed: with an index that a file of 1.8 has
  std::filesystem::rename(small, path_);
  const haddr_t chunk = first_chunk(path_, "memory/vmstat").first;
  std::string content = bytes_of(path_);
  const std::string place(reinterpret_cast<const char*>(&chunk), sizeof chunk);
  const std::size_t entry = content.find(place, content.find("TREE"));  // before it, the number may mean something else
  ASSERT_NE(entry, std::string::npos);
  const std::size_t node = content.rfind("TREE", entry);
  ASSERT_NE(node, std::string::npos);
  content.replace(node + 6, 2, std::string(2, '\0'));  // how many entries it has
  write_bytes(path_, content);
  const std::string words = refusal();
  EXPECT_NE(words.find("chunks are left of"), std::string::npos) << words;
}

TEST_F(DamagedFile, WithoutAFamilyItWasClosedWithSaysSo) {
  {
    const H5::H5File file(path_.string(), H5F_ACC_RDWR);
    file.openGroup("memory").unlink("vmstat");
  }
  EXPECT_EQ(refusal(), "memory/vmstat: is no longer in the file");
}

TEST_F(DamagedFile, IsNotRewrittenInPlaceOfTheWhole) {
  const auto [address, bytes] = first_chunk(path_, "memory/vmstat");
  std::string content = bytes_of(path_);
  content[address + bytes / 2] = static_cast<char>(content[address + bytes / 2] ^ 1);
  write_bytes(path_, content);
  EXPECT_THROW(compact(path_, directory_.path() / "smaller.h5"), Error);
  EXPECT_THROW(compact(path_, directory_.path() / "summary.h5", {.form = Retention::Form::summary}), Error);
}

TEST_F(DamagedFile, IsNotReadThroughASymbolicLinkOrAFifo) {
  const auto link = directory_.path() / "link.h5";
  std::filesystem::create_symlink(path_, link);
  const auto fifo = directory_.path() / "fifo.h5";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& [path, words] :
       {std::pair(link, ": is a symbolic link, not a trace"), std::pair(fifo, ": is not a regular file")}) {
    try {
      const TraceReader reader(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), path.string() + words);
    }
  }
}

TEST_F(DamagedFile, DoesNotReadOtherFiles) {
  const auto other = directory_.path() / "secret";
  write_bytes(other, std::string(4096, 's'));
  {
    const H5::H5File file(path_.string(), H5F_ACC_RDWR);
    H5::Group keys = file.openGroup("memory/vmstat_channels");
    keys.unlink("metric");
    const H5::StrType type(H5::PredType::C_S1, 64);
    const hsize_t one = 1;
    H5::DSetCreatPropList list;
    list.setExternal(other.c_str(), 0, 64);
    keys.createDataSet("metric", type, H5::DataSpace(1, &one), list);
    H5Lcreate_external("other.h5", "/memory", file.getId(), "elsewhere", H5P_DEFAULT, H5P_DEFAULT);
  }
  std::filesystem::copy_file(path_, directory_.path() / "other.h5");
  EXPECT_EQ(refusal(), "memory/vmstat: its data is in another file, which no trace has");
}

TEST_F(DamagedFile, GivesNoMemoryWhereAChunkIsShort) {
  // A zlib stream of three bytes where there should be a hundred numbers, with the right checksum.
  const unsigned char stream[] = {0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27};
  std::vector<unsigned char> chunk(std::begin(stream), std::end(stream));
  const std::uint32_t sum = fletcher32(chunk);
  for (int i = 0; i < 4; ++i) chunk.push_back(static_cast<unsigned char>(sum >> 8 * i));
  {
    const H5::H5File file(path_.string(), H5F_ACC_RDWR);
    const hsize_t at[2] = {0, 0};
    ASSERT_GE(
        H5Dwrite_chunk(file.openDataSet("memory/meminfo").getId(), H5P_DEFAULT, 0, at, chunk.size(), chunk.data()), 0);
    file.unlink("stored");  // as in a trace that has none
  }
  const TraceReader reader(path_);
  for (const TraceReader::Family& family : reader.families()) {
    if (family.spec.path == "memory/meminfo") {
      EXPECT_THROW(static_cast<void>(reader.read(family)), Error);
    }
  }
}

/// 60 chunks of two rows, but only 40 absolute values, in chunks that are wider than that.
void write_trace_with_few_bases(const std::filesystem::path& path) {
  {
    TraceFile trace(path, sample_header(), TraceFile::Form::closed);
    const std::size_t axis = trace.add_axis("100ms", 2);
    const std::size_t family = trace.add_family(counter_family(), axis, 1, 1);
    trace.start();
    const ChannelKey key{.metric = "vm.pgfault"};
    trace.write_channels(family, 0, {&key, 1});
    for (std::int64_t chunk = 0; chunk < 60; ++chunk) {
      const std::int64_t increments[] = {1, 1};
      const std::int64_t times[] = {2 * chunk * kTick, (2 * chunk + 1) * kTick};
      trace.write_rows(family, 1, 2, increments, {&chunk, 1});
      trace.write_times(axis, times);
    }
    trace.close(true);
  }
  const H5::H5File file(path.string(), H5F_ACC_RDWR);
  file.openGroup("memory").unlink("vmstat_base");
  const hsize_t extent[2] = {1, 40};
  const hsize_t most[2] = {1, 64};
  const hsize_t chunk[2] = {1, 64};
  H5::DSetCreatPropList list;
  list.setChunk(2, chunk);
  std::vector<std::int64_t> bases(40);
  std::iota(bases.begin(), bases.end(), 0);
  file.createDataSet("memory/vmstat_base", H5::PredType::STD_I64LE, H5::DataSpace(2, extent, most), list)
      .write(bases.data(), H5::PredType::NATIVE_INT64);
}

TEST(DamagedBases, AreMissingWhereTheyAreFewerThanTheChunksOfRows) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  write_trace_with_few_bases(path);
  const TraceReader reader(path, TraceReader::Check::names);
  ASSERT_EQ(reader.families().size(), 1U);
  const TraceReader::Family& family = reader.families()[0];
  for (const std::size_t first : {0U, 30U, 39U, 40U, 50U}) {
    const TraceReader::Bases bases = reader.read_bases(family, first, 1);
    EXPECT_EQ(bases.first, first);
    ASSERT_EQ(bases.values.size(), 60 - first);
    for (std::size_t i = 0; i < bases.values.size(); ++i) {
      const std::int64_t expected = first + i < 40 ? static_cast<std::int64_t>(first + i) : kMissing;
      EXPECT_EQ(bases.values[i], expected) << first + i;
    }
  }
}

TEST_F(DamagedFile, WithCyclesOfLinksIsReadOnce) {
  {
    const H5::H5File file(path_.string(), H5F_ACC_RDWR);
    for (int i = 0; i < 60; ++i) {
      const std::string name = "memory/again" + std::to_string(i);
      ASSERT_GE(H5Lcreate_hard(file.getId(), "memory", file.getId(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), 0);
    }
  }
  EXPECT_EQ(TraceReader(path_).families().size(), 2U);
  const auto job = directory_.path() / "job.h5";
  merge_traces({{"n01", path_}}, job, MergeForm::self_contained);
  const H5::H5File packed(job.string(), H5F_ACC_RDONLY);
  EXPECT_EQ(packed.openGroup("nodes/n01/memory").getNumObjs(), 9U);
}

}  // namespace
}  // namespace reveal::tests::damage_test
