// Every file that is not a readable trace is refused with one line that names its kind.
#include <H5Cpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/series_file.h"
#include "hdf5schema/trace_reader.h"
#include "sample_trace.h"

namespace reveal::tests::refusal_test {
namespace {

std::string refusal(const std::filesystem::path& path) {
  try {
    const TraceReader reader(path);
    return "was read";
  } catch (const Error& error) {
    const std::string line = error.what();
    return line.substr(std::min(line.size(), path.string().size()));
  }
}

/// Writes a small closed trace and then changes its root attribute.
void write_with_version(const std::filesystem::path& path, std::int64_t version) {
  TraceWriter writer(path, sample_header());
  writer.add_family(gauge_family());
  writer.start();
  writer.close();
  H5::H5File file(path.string(), H5F_ACC_RDWR);
  file.openGroup("/").openAttribute("schema_version").write(H5::PredType::NATIVE_INT64, &version);
}

TEST(Refusal, NamesWhatTheFileIs) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "x.h5";
  EXPECT_EQ(refusal(path), ": No such file or directory");
  EXPECT_EQ(refusal(directory.path()), ": is a directory, not a trace");
  EXPECT_EQ(refusal("/dev/null"), ": is not a regular file");
  std::ofstream(path) << "";
  EXPECT_EQ(refusal(path), ": is empty");
  std::ofstream(path) << "time,value\n1,2\n";
  EXPECT_EQ(refusal(path), ": is not an HDF5 file");
  std::ofstream(path, std::ios::binary) << "\x89HDF\r\n\x1a\n";
  EXPECT_EQ(refusal(path), ": is cut off after 8 bytes");
}

TEST(Refusal, TellsForeignHdf5AndNewerTracesApart) {
  const TemporaryDirectory directory;
  const auto foreign = directory.path() / "foreign.h5";
  { const H5::H5File file(foreign.string(), H5F_ACC_TRUNC); }
  EXPECT_EQ(refusal(foreign), ": is an HDF5 file, but not a trace of reveal (it has no schema \"reveal.trace\")");
  const auto newer = directory.path() / "newer.h5";
  write_with_version(newer, 7);
  EXPECT_EQ(refusal(newer), ": schema 7, this reveal reads up to 1: upgrade reveal");
  const auto zero = directory.path() / "zero.h5";
  write_with_version(zero, 0);
  EXPECT_EQ(refusal(zero), ": has no valid schema_version");
}

TEST(Refusal, SaysThatAFileMayNotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryDirectory directory;
  const auto path = directory.path() / "x.h5";
  std::ofstream(path) << "secret";
  std::filesystem::permissions(path, std::filesystem::perms::none);
  EXPECT_EQ(refusal(path), ": Permission denied");
}

TEST(ReleasedTrace, Version1IsReadForEver) {
  const TraceReader reader(std::filesystem::path(TEST_DATA) / "traces" / "v1.h5");
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.header().job_id, "4711");
  EXPECT_EQ(reader.header().node, "n01");
  ASSERT_EQ(reader.families().size(), 3U);
  const TraceReader::Family& share = reader.families()[0];
  const TraceReader::Family& meminfo = reader.families()[1];
  const TraceReader::Family& vmstat = reader.families()[2];
  EXPECT_EQ(share.spec.path, "cpu/share");
  EXPECT_EQ(meminfo.spec.period, std::chrono::seconds(1));
  EXPECT_EQ(vmstat.channels.at(1).metric, "vm.pgmajfault");
  ASSERT_EQ(vmstat.time_ns.size(), 150U);
  EXPECT_EQ(vmstat.time_ns[149], 15'900'000'000);
  EXPECT_EQ(reader.read(vmstat)[1], 10.0);
  EXPECT_TRUE(std::isnan(reader.read(vmstat)[0]));
  EXPECT_EQ(reader.read_absolute(vmstat)[149], 2490);
  EXPECT_EQ(reader.read(share)[4], 1.0);
  EXPECT_EQ(reader.read(meminfo)[14], 4096.0 * 140);
  EXPECT_EQ(reader.events().at(0).code, "process_begin");
  EXPECT_EQ(reader.clocks().at(0).max_error_ns, 3);
  EXPECT_EQ(reader.coverage().at(1).reason, "no device");
  EXPECT_EQ(reader.snapshot_end().at(0).second, "always");
}

void write_series(const std::filesystem::path& path, hsize_t names) {
  const H5::H5File file(path.string(), H5F_ACC_TRUNC);
  const hsize_t extent[2] = {3, 2};
  const double values[] = {1, 10, 2, 20, 3, 30};
  file.createDataSet("values", H5::PredType::IEEE_F64LE, H5::DataSpace(2, extent))
      .write(values, H5::PredType::NATIVE_DOUBLE);
  const char* texts[] = {"cpu.user", "mem.dirty", "more"};
  const H5::StrType type(H5::PredType::C_S1, H5T_VARIABLE);
  file.createDataSet("channels", type, H5::DataSpace(1, &names)).write(texts, type);
  const double interval = 0.1;
  file.openGroup("/")
      .createAttribute("interval_seconds", H5::PredType::IEEE_F64LE, H5::DataSpace(H5S_SCALAR))
      .write(H5::PredType::NATIVE_DOUBLE, &interval);
}

std::string series_refusal(const std::filesystem::path& path) {
  try {
    static_cast<void>(read_series_file(path));
    return "was read";
  } catch (const Error& error) {
    const std::string line = error.what();
    return line.substr(std::min(line.size(), path.string().size()));
  }
}

TEST(SeriesFile, IsReadByChannel) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "series.h5";
  write_series(path, 2);
  const SeriesFile series = read_series_file(path);
  EXPECT_EQ(series.interval_seconds, 0.1);
  EXPECT_EQ(series.channels, (std::vector<std::string>{"cpu.user", "mem.dirty"}));
  EXPECT_EQ(series.kind, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(series.samples, 3U);
  EXPECT_EQ(series.values, (std::vector<double>{1, 2, 3, 10, 20, 30}));
}

TEST(SeriesFile, IsRefusedWithTheReason) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "series.h5";
  EXPECT_EQ(series_refusal(path), ": No such file or directory");
  std::ofstream(path) << "a,b\n";
  EXPECT_EQ(series_refusal(path), ": is not an HDF5 file");
  { const H5::H5File file(path.string(), H5F_ACC_TRUNC); }
  EXPECT_EQ(series_refusal(path), ": has no dataset \"values\"");
  write_series(path, 3);
  EXPECT_EQ(series_refusal(path), ": dataset \"values\" has 2 columns, \"channels\" names 3");
}

TEST(SeriesFile, IsRefusedWithAWordThatIsNotKnown) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "series.h5";
  const auto with_word = [&](const char* dataset, const char* word) {
    write_series(path, 2);
    const H5::H5File file(path.string(), H5F_ACC_RDWR);
    const hsize_t channels = 2;
    const char* texts[] = {"", word};
    const H5::StrType type(H5::PredType::C_S1, H5T_VARIABLE);
    file.createDataSet(dataset, type, H5::DataSpace(1, &channels)).write(texts, type);
  };
  with_word("kind", "counter");
  EXPECT_EQ(read_series_file(path).kind, (std::vector<std::string>{"", "counter"}));
  with_word("kind", "Counter");
  EXPECT_EQ(series_refusal(path),
            ": dataset \"kind\" has the unknown word \"Counter\"; reveal score --help lists the known ones");
  with_word("subsystem", "disk");
  EXPECT_EQ(series_refusal(path),
            ": dataset \"subsystem\" has the unknown word \"disk\"; reveal score --help lists the known ones");
}

TEST(SeriesFile, IsRefusedWithMoreTextThanNamesHave) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "s.h5";
  write_series(path, 2);
  {
    H5::H5File file(path.string(), H5F_ACC_RDWR);
    file.unlink("channels");
    const std::string text(1 << 20, 'a');
    const std::vector<const char*> texts(65, text.c_str());
    const hsize_t names = texts.size();
    const H5::StrType type(H5::PredType::C_S1, H5T_VARIABLE);
    file.createDataSet("channels", type, H5::DataSpace(1, &names)).write(static_cast<const void*>(texts.data()), type);
  }
  EXPECT_EQ(series_refusal(path), ": dataset \"channels\": has more text than can be read at once");
}

}  // namespace
}  // namespace reveal::tests::refusal_test
