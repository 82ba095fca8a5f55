#include "postproc/report/node_entries.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "postproc/json/json_fields.h"
#include "postproc/report/report.h"

namespace reveal {
namespace {

constexpr std::size_t kListDepth = 2;         // brackets around the entries: those of the report and of the list
constexpr std::size_t kLongestKey = 64;       // name of a list
constexpr std::string_view kFiles = "files";  // "trace n01" for each node, and the reports of the job
constexpr std::string_view kTraceBegin = "\"trace ";

/// Lists of a report in which narrow_to_node() keeps the entries that name the node.
constexpr std::string_view kNodeLists[] = {"coverage", "totals",   "overhead", "locality", "python",
                                           "findings", "episodes", "phases",   "timeline", kFiles};

std::string quoted_in_json(const std::string& text) {
  return json_text(Json(text));
}

}  // namespace

NodeEntries::NodeEntries(const std::string& node)
    : quoted_(quoted_in_json(node)), trace_(quoted_in_json("trace " + node)) {}

std::string NodeEntries::take() {
  return std::move(kept_);
}

void NodeEntries::add(std::string_view piece) {
  std::size_t begin = 0;  // begin of the part that is not copied yet
  const auto copy_until = [&](std::size_t end) {
    (in_list_ ? entry_ : kept_).append(piece.substr(begin, end - begin));
    begin = end;
  };
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    if (in_text_) {
      if (depth_ == 1 && c != '"' && key_.size() < kLongestKey) key_ += c;
      if (!escaped_ && c == '"') in_text_ = false;
      escaped_ = !escaped_ && c == '\\';
      continue;
    }
    switch (c) {
      case '"':
        in_text_ = true;
        if (depth_ == 1) key_.clear();
        break;
      case '[':
      case '{':
        copy_until(i + 1);
        open(c);
        break;
      case ']':
      case '}':
        if (in_list_ && depth_ == kListDepth) copy_until(i);
        close(c);
        break;
      case ',':
        if (!in_list_ || depth_ != kListDepth) break;
        copy_until(i);
        end_of_entry();
        ++begin;  // commas stand between the entries that are kept
        break;
      default:
        break;
    }
  }
  copy_until(piece.size());
}

void NodeEntries::open(char bracket) {
  const bool of_report = ++depth_ == kListDepth && bracket == '[';
  if (!of_report || std::find(std::begin(kNodeLists), std::end(kNodeLists), key_) == std::end(kNodeLists)) return;
  in_list_ = true;
  any_kept_ = false;
}

void NodeEntries::close(char bracket) {
  if (in_list_ && depth_ == kListDepth) {
    if (bracket == ']') end_of_entry();
    in_list_ = false;
    kept_ += std::exchange(entry_, {});  // a list that does not end as it began is no JSON
  }
  if (depth_ > 0) --depth_;
}

void NodeEntries::end_of_entry() {
  if (is_about_node()) {
    if (any_kept_) kept_ += ',';
    kept_ += entry_;
    any_kept_ = true;
  }
  entry_.clear();
}

bool NodeEntries::is_about_node() const {
  if (key_ == kFiles) {
    return entry_.find(kTraceBegin) == std::string::npos ? entry_.find('{') != std::string::npos
                                                         : entry_.find(trace_) != std::string::npos;
  }
  return entry_.find(quoted_) != std::string::npos;
}

std::string read_report_about(const std::filesystem::path& file, const std::string& node) {
  const Descriptor open(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
  struct stat status {};
  if (!open || ::fstat(open.get(), &status) != 0) throw system_error(file.string(), errno);
  if (!S_ISREG(status.st_mode)) throw Error(file.string() + ": not a regular file");
  NodeEntries entries(node);
  std::array<char, 64 << 10> piece{};
  std::size_t size = 0;
  while (true) {
    const ssize_t got = ::read(open.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(file.string(), errno);
    if (got == 0) return entries.take();
    size += static_cast<std::size_t>(got);
    if (size > kLargestReport) throw Error(file.string() + ": too large for a file of this kind");
    entries.add({piece.data(), static_cast<std::size_t>(got)});
  }
}

}  // namespace reveal
