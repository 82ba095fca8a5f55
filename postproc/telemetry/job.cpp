#include "postproc/telemetry/job.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/trace_reader.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

constexpr std::string_view kTrace = ".h5";
constexpr std::string_view kPart = ".h5.part";
constexpr std::string_view kMerged = "job.h5";
constexpr std::string_view kRecovered = ".recovered.h5";
constexpr std::string_view kEarlier = ".h5.earlier";

/// The rows before the last segment, of which a crash in between left nothing that can be read.
bool stands_alone(const std::filesystem::path& earlier) {
  std::filesystem::path trace = earlier;
  trace.replace_extension();
  std::filesystem::path part = trace;
  part += ".part";
  std::error_code error;
  if (std::filesystem::exists(trace, error)) return false;
  return !std::filesystem::exists(part, error) || never_started(part);
}

/// Nothing where the file is none of a trace.
std::optional<ListedTrace> listed_trace(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (name == kMerged || name.front() == '.' || name.ends_with(kRecovered)) return std::nullopt;
  const bool earlier = name.ends_with(kEarlier) && stands_alone(path);
  const bool part = earlier || name.ends_with(kPart);
  if (!part && !name.ends_with(kTrace)) return std::nullopt;
  struct stat status {};
  // Links, FIFOs and the like are listed: opening them shows their kind.
  if (::lstat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return std::nullopt;
  return ListedTrace{.path = path,
                     .node = name.substr(0, name.size() - (earlier ? kEarlier
                                                           : part  ? kPart
                                                                   : kTrace)
                                                              .size()),
                     .part = part,
                     .bytes = static_cast<std::uint64_t>(status.st_size),
                     .mtime_ns = nanoseconds_of(status.st_mtim)};
}

/// By the names of files, whichever folder they are in.
bool by_name(const ListedTrace& a, const ListedTrace& b) {
  const int order = a.path.filename().native().compare(b.path.filename().native());
  return order != 0 ? order < 0 : a.path < b.path;
}

}  // namespace

std::vector<ListedTrace> list_traces(const std::filesystem::path& directory, std::vector<UnreadFolder>* unread) {
  std::vector<ListedTrace> traces;
  const std::vector<UnreadFolder> gaps = visit_node_files(directory, [&traces](const std::filesystem::path& path) {
    if (auto trace = listed_trace(path)) traces.push_back(*std::move(trace));
    return true;
  });
  if (!gaps.empty() && (traces.empty() || unread == nullptr)) {
    throw Error(fmt::format("{}: {}", (directory / gaps.front().name).string(), gaps.front().why));
  }
  if (unread != nullptr) *unread = gaps;
  if (traces.empty()) {
    throw Error("no trace (NODE.h5 or NODE.h5.part) in " + directory.string() +
                ": the job ended before its first samples, or its traces are still on its nodes");
  }
  std::sort(traces.begin(), traces.end(), by_name);
  return traces;
}

std::vector<ListedTrace> traces_of_node(const std::filesystem::path& directory, const std::string& node) {
  std::vector<ListedTrace> traces;
  for (const std::filesystem::path& folder : {directory, directory / node_folder(node)}) {
    std::error_code ignored;
    if (folder != directory && std::filesystem::is_symlink(folder, ignored)) continue;
    for (const std::string_view ending : {kTrace, kEarlier, kPart}) {
      if (auto trace = listed_trace(folder / (node + std::string(ending)))) traces.push_back(*std::move(trace));
    }
  }
  return traces;
}

bool has_more_traces_than(const std::filesystem::path& directory, std::size_t count) {
  std::size_t found = 0;
  visit_node_files(directory, [&](const std::filesystem::path& path) {
    const std::string_view name = path.native();
    if (name.ends_with(kTrace) || name.ends_with(kPart)) ++found;
    return found <= count;
  });
  return found > count;
}

std::string expected_nodes(const Snapshot& snapshot) {
  for (const auto& [key, value] : snapshot) {
    if (key == "env.SLURM_JOB_NODELIST" || key == "job.nodelist") return value;
  }
  return "";
}

}  // namespace reveal
