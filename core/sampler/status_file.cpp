#include "core/sampler/status_file.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/private_files.h"

namespace reveal {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLargest = 4000;        // bytes
constexpr std::size_t kLongestFailure = 300;  // likewise, of a text that may have long names in it

/// Names of devices and mounts need not be UTF-8.
std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Json json_of(const UnusualInterval& interval) {
  Json json = {{"begin_utc_ns", interval.begin_utc_ns},
               {"end_utc_ns", interval.end_utc_ns},
               {"channels", interval.channels},
               {"of_channels", interval.of_channels},
               {"farthest", interval.farthest.data()},
               {"direction", interval.above ? "above" : "below"},
               {"ranges", interval.ranges}};
  if (interval.program[0] != '\0') json["program"] = interval.program.data();
  return json;
}

/// Without the oldest intervals, if the text would be too long with them.
std::string with_intervals(Json status, UsualRanges::Closed closed) {
  while (true) {
    Json intervals = Json::array();
    for (const UnusualInterval& interval : closed.newest) intervals.push_back(json_of(interval));
    status["closed_episodes"] = std::move(intervals);
    status["closed_episodes_left_out"] = closed.left_out;
    std::string text = json_text(status);
    if (text.size() <= kLargest || closed.newest.empty()) return text;
    closed.newest.erase(closed.newest.begin());
    ++closed.left_out;
  }
}

}  // namespace

bool directory_is_gone(const std::filesystem::path& directory) noexcept {
  std::error_code ignored;
  const std::filesystem::file_type type = std::filesystem::status(directory, ignored).type();
  return type != std::filesystem::file_type::directory && type != std::filesystem::file_type::none;
}

StatusFile::StatusFile(const std::filesystem::path& trace, std::string node, const Progress& progress,
                       const TraceWriter& writer, const UsualRanges& ranges, std::chrono::milliseconds period)
    : path_(trace.parent_path() / (node + ".status.json")),
      node_(std::move(node)),
      progress_(progress),
      writer_(writer),
      ranges_(ranges),
      period_(period),
      began_(read_clock(CLOCK_MONOTONIC)) {
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error&) {  // the job has all the tasks the user may have: recorded without a status file
    return;
  }
}

StatusFile::~StatusFile() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void StatusFile::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, period_, [] { return false; });
    if (stop.stop_requested()) return;
    const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
    if (directory_is_gone(folder) || writer_.status().writing == TraceWriter::Writing::is_over) hopeless_ = true;
    write();
  }
}

void StatusFile::write() const {
  try {
    // publish_file() is not safe here: traces may be written into a directory of several users.
    const std::string name = path_.filename().string();
    NewFile file(path_.parent_path(), name, "." + name + ".new", 0600);
    file.write(text());
    file.publish(Synced::no);
  } catch (const Error&) {  // the next period comes
    return;
  }
}

std::string StatusFile::text() const {
  const TraceWriter::Status trace = writer_.status();
  const bool is_written = trace.writing == TraceWriter::Writing::goes_on;
  const double elapsed = static_cast<double>(read_clock(CLOCK_MONOTONIC) - began_) * 1e-9;
  const double used = static_cast<double>(read_clock(CLOCK_PROCESS_CPUTIME_ID)) * 1e-9;
  Json status = {
      {"schema", "reveal.status/1"},
      {"node", node_},
      {"utc_ns", read_clock(CLOCK_REALTIME)},
      {"elapsed_seconds", elapsed},
      {"ticks", progress_.ticks.load()},
      {"ticks_missed", progress_.ticks_missed.load()},
      {"ticks_late", progress_.ticks_late.load()},
      {"processes", progress_.processes.load()},
      {"channels", progress_.channels.load()},
      {"rows", trace.rows},
      {"rows_lost", trace.rows_lost},
      {"bytes", trace.bytes},
      {"failure", is_written ? "" : trace.failure.substr(0, kLongestFailure)},
      {"cpu_seconds", used},
      {"cpu_percent_of_core", elapsed > 0 ? 100 * used / elapsed : 0.0},
  };
  if (const std::int64_t planned = progress_.iterations_planned; planned > 0) status["iterations_planned"] = planned;
  return with_intervals(std::move(status), ranges_.closed());
}

}  // namespace reveal
