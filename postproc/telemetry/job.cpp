#include "postproc/telemetry/job.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/trace_reader.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

constexpr std::string_view kTrace = ".h5";
constexpr std::string_view kPart = ".h5.part";
constexpr std::string_view kMerged = "job.h5";
constexpr std::string_view kRecovered = ".recovered.h5";
constexpr std::string_view kEarlier = ".h5.earlier";
constexpr std::size_t kMostBytes = 1 << 20;                 // size of all names
constexpr std::size_t kLongestName = 255;                   // length of a host's name: POSIX
constexpr std::int64_t kLargestNumber = 1'000'000'000'000;  // number of a node
constexpr std::size_t kMostDigits = 12;

/// Names up to a limit: a list of 30 kB could expand to gigabytes.
class Names {
 public:
  [[nodiscard]] bool full() const { return names_.size() >= kMostExpectedNodes || bytes_ >= kMostBytes; }
  void add(std::string name) {
    if (name.empty() || name.size() > kLongestName || full()) return;
    bytes_ += name.size();
    names_.push_back(std::move(name));
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::size_t bytes_ = 0;
};

void expand_range(const std::string& prefix, std::string_view range, const std::string& suffix, Names& names) {
  if (prefix.size() + suffix.size() > kLongestName) return;
  const std::size_t dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const auto low = parse_int(low_text);
  const auto high = dash == std::string_view::npos ? low : parse_int(range.substr(dash + 1));
  if (!low || !high || *low < 0 || *high > kLargestNumber || low_text.size() > kMostDigits) return;
  for (std::int64_t i = *low; i <= *high && !names.full(); ++i) {
    names.add(fmt::format("{}{:0{}}{}", prefix, i, low_text.size(), suffix));
  }
}

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

std::vector<std::string> expand_node_list(std::string_view list) {
  Names names;
  while (!list.empty() && !names.full()) {
    // A comma inside brackets separates ranges, not names.
    std::size_t end = 0;
    int depth = 0;
    while (end < list.size() && (list[end] != ',' || depth > 0)) {
      depth += list[end] == '[' ? 1 : list[end] == ']' ? -1 : 0;
      ++end;
    }
    const std::string_view item = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const std::size_t open = item.find('[');
    const std::size_t close = item.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
      names.add(std::string(item));
      continue;
    }
    const std::string prefix(item.substr(0, open));
    const std::string suffix(item.substr(close + 1));
    std::string_view ranges = item.substr(open + 1, close - open - 1);
    while (!ranges.empty()) {
      const std::size_t comma = std::min(ranges.find(','), ranges.size());
      expand_range(prefix, ranges.substr(0, comma), suffix, names);
      ranges.remove_prefix(std::min(comma + 1, ranges.size()));
    }
  }
  return names.take();
}

std::string expected_nodes(const Snapshot& snapshot) {
  for (const auto& [key, value] : snapshot) {
    if (key == "env.SLURM_JOB_NODELIST" || key == "job.nodelist") return value;
  }
  return "";
}

}  // namespace reveal
