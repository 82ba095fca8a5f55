// The file in which a running collector shows its newest rows: the job's user can write anything there.
#include "hdf5schema/live_rows.h"

#include <unistd.h>

#include <fstream>

#include "target.h"

namespace reveal::fuzz::live_rows {
namespace {

void run(std::string_view input) {
  static const std::filesystem::path trace =
      std::filesystem::temp_directory_path() / ("reveal-fuzz-" + std::to_string(::getpid()) + ".h5");
  std::ofstream(live_rows_path(trace), std::ios::binary | std::ios::trunc) << input;
  LiveRowsReader reader(trace);
  std::size_t numbers = 0;
  for (int look = 0; look < 2; ++look) {
    static_cast<void>(reader.poll([&](const std::string&, std::int64_t, std::span<const std::int64_t> values) {
      for (const std::int64_t value : values) numbers += value != 0;
    }));
  }
  require(numbers * sizeof(std::int64_t) <= input.size(), "no more numbers than were written");
  std::filesystem::remove(live_rows_path(trace));
}

const RegisteredTarget kTarget{{"live_rows", run}};

}  // namespace
}  // namespace reveal::fuzz::live_rows
