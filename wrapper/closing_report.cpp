#include "wrapper/closing_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/shell_word.h"
#include "hdf5schema/basics/text.h"
#include "wrapper/collector.h"
#include "wrapper/memory_room.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kOpenTraceAge = 35s;  // three flushes and a half
constexpr std::size_t kMostThreads = 8;

/// Returns the cpus that Slurm gave this job on this node; 0 outside of Slurm.
std::size_t cpus_of_slurm() {
  const char* cpus = ::getenv("SLURM_CPUS_ON_NODE");
  return static_cast<std::size_t>(std::max<std::int64_t>(parse_int(cpus != nullptr ? cpus : "").value_or(0), 0));
}

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

std::uint64_t bytes_of_traces(const std::string& directory) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".h5") || name.ends_with(".h5.part")) bytes += entry.file_size(error);
  }
  return bytes;
}

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

/// Runs a subcommand of `reveal`, its lines on our stderr; returns the reason of a failure, or "".
std::string run_reveal(const std::vector<std::string>& words, const ReportOrder& order, std::chrono::milliseconds limit,
                       const BlockedSignals& signals) {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  // Standard output belongs to the command: its output may be the input of a program.
  const StartedProgram started = start_program(
      words,
      {.input = null.get(), .output = order.quiet ? null.get() : STDERR_FILENO, .error = order.quiet ? null.get() : -1},
      signals);
  if (started.pid < 0) return "reveal: " + std::generic_category().message(started.error_number);
  const WaitResult waited = wait_for_end(started.pid, std::nullopt, std::max(limit, 0ms));
  if (waited.end != WaitEnd::ended) {
    ::kill(started.pid, SIGKILL);
    static_cast<void>(wait_for_end(started.pid, std::nullopt, 1s));
    return waited.end == WaitEnd::deadline ? "not finished in time" : "interrupted";
  }
  if (waited.status.value_or(0) == 0) return "";
  return "reveal " + words[1] + " ended with status " + std::to_string(*waited.status);
}

}  // namespace

std::string report_command(const ReportOrder& order) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", order.seconds);
  return "reveal report " + shell_word(order.directory) + " --exit-code " + std::to_string(order.status) + " --ran " +
         seconds + (order.retain == kRetainSummary ? " --retain " + order.retain : "");
}

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

std::uint64_t memory_of_report(std::uint64_t bytes_of_traces) noexcept {
  // Measured: 99, 132 and 166 MiB for traces of 0.66, 1.9 and 3.8 MB.
  constexpr std::uint64_t kAlways = 96 << 20;
  constexpr std::uint64_t kPerByte = 32;
  constexpr std::uint64_t kBudget = 1 << 30;  // more is done one after the other
  return kAlways + std::min(bytes_of_traces * kPerByte, kBudget);
}

ReportResult run_report(const ReportOrder& order, const BlockedSignals& signals) {
  const auto deadline = std::chrono::steady_clock::now() + order.limit;
  const auto left = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  };
  const std::string& directory = order.directory;
  if (others_still_record(directory, order.node)) return {ReportEnd::left_to_others, {}};
  const std::string by_hand = "; try: " + report_command(order);
  ReportLease lease(directory, order.node);
  while (!lease.take()) {
    if (::access(directory.c_str(), W_OK) != 0) return {ReportEnd::failed, "cannot write into " + directory};
    if (left() <= 0ms) return {ReportEnd::failed, "another node is building the report" + by_hand};
    if (interrupted_within(50ms)) return {ReportEnd::failed, "interrupted" + by_hand};
  }
  if (reports_on(directory, order.node)) return {ReportEnd::left_to_others, {}};
  const std::uint64_t needed = memory_of_report(bytes_of_traces(directory));
  if (const auto room = memory_room("/"); room && *room < needed) {
    return {ReportEnd::failed, "the report may need " + mebibytes(needed) + " of memory, but the job's limit leaves " +
                                   mebibytes(*room) + "; elsewhere: " + report_command(order)};
  }

  std::vector<std::string> words{beside_us("reveal"),
                                 "report",
                                 directory,
                                 "--brief",
                                 "--exit-code",
                                 std::to_string(order.status),
                                 "--ran",
                                 std::to_string(order.seconds)};
  // A batch system has given these cpus to the job, which has ended.
  const std::size_t own = std::min<std::size_t>(std::thread::hardware_concurrency(), cpus_of_slurm());
  if (own > 0) words.insert(words.end(), {"--threads", std::to_string(std::min(own, kMostThreads))});
  if (order.retain == kRetainSummary) words.insert(words.end(), {"--retain", order.retain});
  const std::string problem = run_reveal(words, order, left(), signals);
  if (!problem.empty()) return {ReportEnd::failed, problem + by_hand};
  return {ReportEnd::built, {}};
}

std::string mail_report(const ReportOrder& order, const std::string& address, const BlockedSignals& signals) {
  return run_reveal({beside_us("reveal"), "mail", order.directory, "--to", address, "--verbose"}, order, order.limit,
                    signals);
}

}  // namespace reveal
