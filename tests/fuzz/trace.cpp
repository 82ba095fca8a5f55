// A whole trace: an untrusted file, through all code that reads one.
#include <unistd.h>

#include <fstream>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/trace_reader.h"
#include "target.h"

namespace reveal::fuzz::trace {
namespace {

template <typename Part>
void read(const Part& part) {
  try {
    static_cast<void>(part());
  } catch (const Error&) {
    return;
  }
}

void run(std::string_view input) {
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("reveal-fuzz-" + std::to_string(::getpid()) + ".trace.h5");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << input;
  try {
    const TraceReader reader(path);
    read([&] { return reader.events(); });
    read([&] { return reader.steps(); });
    read([&] { return reader.collectives(); });
    read([&] { return reader.clocks(); });
    read([&] { return reader.coverage(); });
    read([&] { return reader.snapshot_begin(); });
    read([&] { return reader.snapshot_end(); });
    read([&] { return reader.topology_xml(); });
    for (const TraceReader::Family& family : reader.families()) {
      require(family.time_ns.size() * sizeof(std::int64_t) <= input.size() * 1032, "no more times than can be stored");
      const std::size_t rows = std::min<std::size_t>(family.time_ns.size(), 4096);
      read([&] { return reader.read(family, 0, rows); });
      read([&] { return reader.read_bases(family); });
      read([&] { return reader.read_bases(family, rows / 2, 1); });
    }
  } catch (const Error&) {  // refused
  }
  std::filesystem::remove(path);
}

const RegisteredTarget kTarget{{"trace", run}};

}  // namespace
}  // namespace reveal::fuzz::trace
