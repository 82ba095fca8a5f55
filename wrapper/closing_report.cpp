#include "wrapper/closing_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <system_error>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"
#include "wrapper/collector.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kReportLimit = 120s;
constexpr auto kLeaseLimit = 30s;
constexpr auto kOpenTraceAge = 35s;  // three flushes and a half

bool newer(const std::string& file, const std::string& than) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  if (error) return false;
  const auto other = fs::last_write_time(than, error);
  return !error && time > other;
}

// A newer time alone would not do: the report may have been begun before our trace was there and finished after.
bool reports_on(const std::string& directory, const std::string& node) {
  const std::string trace = node + ".h5";
  if (!newer(directory + "/report.json", directory + "/" + trace)) return false;
  return file_text(directory + "/report.json").find('"' + trace + '"') != std::string::npos;
}

}  // namespace

bool others_still_record(const std::string& directory, const std::string& node) {
  const auto now = file_time_now(directory);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".h5.part") || name == node + ".h5.part") continue;
    const auto changed = entry.last_write_time(error);
    if (!error && now - changed < kOpenTraceAge) return true;
  }
  return false;
}

ReportResult build_report(const std::string& directory, const std::string& node, int status, bool quiet,
                          const BlockedSignals& signals) {
  if (others_still_record(directory, node)) return {ReportEnd::left_to_others, {}};
  const std::string by_hand = "; try: reveal report " + directory;
  ReportLease lease(directory, node);
  const auto deadline = std::chrono::steady_clock::now() + kLeaseLimit;
  while (!lease.take()) {
    if (::access(directory.c_str(), W_OK) != 0) return {ReportEnd::failed, "cannot write into " + directory};
    if (std::chrono::steady_clock::now() >= deadline) return {ReportEnd::failed, "another node is at it" + by_hand};
    if (interrupted_within(50ms)) return {ReportEnd::failed, "interrupted" + by_hand};
  }
  if (reports_on(directory, node)) return {ReportEnd::left_to_others, {}};

  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ProgramStart start;
  start.argv = {find_program("reveal"), "report", directory, "--exit-code", std::to_string(status)};
  start.input = null.get();
  // Standard output belongs to the command: what it printed may be the input of a program.
  start.output = quiet ? null.get() : STDERR_FILENO;
  if (quiet) start.error = null.get();
  const StartedProgram started = start_program(start, signals);
  if (started.pid < 0) {
    return {ReportEnd::failed, "reveal: " + std::generic_category().message(started.error_number)};
  }
  const WaitResult waited = wait_for_end(started.pid, std::nullopt, kReportLimit);
  if (waited.end != WaitEnd::ended) {
    ::kill(started.pid, SIGKILL);
    static_cast<void>(wait_for_end(started.pid, std::nullopt, 1s));
    return {ReportEnd::failed, (waited.end == WaitEnd::deadline ? "not finished in 120 s" : "interrupted") + by_hand};
  }
  if (waited.status.value_or(0) != 0) {
    return {ReportEnd::failed, "reveal report ended with status " + std::to_string(*waited.status) + by_hand};
  }
  return {ReportEnd::built, {}};
}

}  // namespace reveal
