#include "postproc/ledger/local_ledger.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFirstPart = 128 << 10;                                  // longer than a line can be
constexpr std::int64_t kOncePerDay = std::int64_t{24} * 3600 * 1'000'000'000;  // old lines go once a day at most
constexpr int kNoLink = O_NOFOLLOW | O_CLOEXEC;

/// So many bytes for each owner that all of them have at most `most`: what an owner does not need is left to others.
std::size_t fair_share(std::vector<std::size_t> needs, std::size_t most) {
  std::sort(needs.begin(), needs.end());
  std::size_t left = most;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    const std::size_t share = left / (needs.size() - i);
    if (needs[i] > share) return share;
    left -= needs[i];
  }
  return most;
}

/// The newest lines of each owner as text of at most `most` bytes: a user with many short jobs does not push out
/// others.
std::string fair_part(std::span<const LedgerLine> lines, std::size_t most) {
  std::vector<std::string> texts;
  texts.reserve(lines.size());
  std::map<std::string, std::size_t> needed;
  for (const LedgerLine& line : lines) {
    texts.push_back(render_ledger({&line, 1}));
    needed[line.owner] += texts.back().size();
  }
  std::vector<std::size_t> needs;
  needs.reserve(needed.size());
  for (const auto& [owner, bytes] : needed) needs.push_back(bytes);
  const std::size_t share = fair_share(std::move(needs), most);
  std::map<std::string, std::size_t> kept;
  for (std::size_t i = lines.size(); i-- > 0;) {
    std::size_t& bytes = kept[lines[i].owner];
    bytes += texts[i].size();  // once it is too much, older lines are left out, too
    if (bytes > share) texts[i].clear();
  }
  std::string text;
  for (const std::string& one : texts) text += one;
  return text;
}

class LocalLedger {
 public:
  LocalLedger(const fs::path& ledger, const LedgerLimits& limits)
      : path_(ledger),
        limits_(limits),
        folder_(::open(path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | kNoLink)),
        turn_(open_in_folder(name() + ".lock", O_RDWR | O_CREAT)) {
    if (::flock(turn_.get(), LOCK_EX) != 0) throw system_error(path_.string(), errno);
    file_ = open_in_folder(name(), O_RDWR | O_APPEND | O_CREAT);
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) throw system_error(path_.string(), errno);
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || status.st_nlink != 1)
      throw Error(path_.string() + ": is no ledger of this user alone");
    size_ = status.st_size;
  }

  void add(std::span<const LedgerLine> lines, std::int64_t now_utc_ns) {
    std::string text = render_ledger(lines);
    const bool is_full = static_cast<std::uintmax_t>(size_) + text.size() > limits_.bytes;
    if (is_full || first_end() < now_utc_ns - limits_.age_ns - kOncePerDay) {
      write_anew(text, now_utc_ns);
      return;
    }
    if (ends_in_part_of_a_line()) text.insert(0, 1, '\n');
    if (!write_all(file_.get(), text)) {
      const int why = errno;
      static_cast<void>(::ftruncate(file_.get(), size_));
      throw system_error(path_.string(), why);
    }
  }

 private:
  [[nodiscard]] std::string name() const { return path_.filename().string(); }

  [[nodiscard]] Descriptor open_in_folder(const std::string& name, int flags) const {
    if (!folder_) throw system_error(path_.parent_path().string(), errno);
    require_private_directory(folder_.get(), path_.parent_path().string(), Privacy::others_do_not_write);
    Descriptor file(::openat(folder_.get(), name.c_str(), flags | kNoLink, 0600));
    if (!file) throw system_error((path_.parent_path() / name).string(), errno);
    return file;
  }

  /// Left by a writer that was killed, or a node that lost power: it must not take the next line along.
  [[nodiscard]] bool ends_in_part_of_a_line() const {
    char last = '\n';
    return size_ > 0 && ::pread(file_.get(), &last, 1, size_ - 1) == 1 && last != '\n';
  }

  /// The end of the job in the first line: never in a ledger without lines, long ago in a damaged line.
  [[nodiscard]] std::int64_t first_end() const {
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    if (size_ == 0) return kNever;
    std::string text(kFirstPart, '\0');
    const ssize_t got = ::pread(file_.get(), text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    const ParsedLedger first = parse_ledger(text.substr(0, text.find('\n')), kNever);
    return first.lines.empty() ? 0 : first.lines.front().end_utc_ns;
  }

  void write_anew(const std::string& more, std::int64_t now_utc_ns) const {
    // Its lines were checked when they came. A clock that is behind by now must not cost those of the last days.
    const std::int64_t latest = now_utc_ns + limits_.age_ns;
    ParsedLedger kept = parse_ledger(read_text_file(path_, kLargestLedger, FileOf::ours), latest);
    std::erase_if(kept.lines, [&](const LedgerLine& line) { return line.end_utc_ns < now_utc_ns - limits_.age_ns; });
    std::string text = render_ledger(kept.lines);
    const std::size_t half = limits_.bytes / 2;
    if (text.size() + more.size() > limits_.bytes) text = fair_part(kept.lines, half - std::min(half, more.size()));
    // On the disk before it takes the place of the ledger of months: XFS may leave an empty file after a power cut.
    publish_file(path_.parent_path(), name(), text + more, Synced::content);
  }

  fs::path path_;
  const LedgerLimits& limits_;
  Descriptor folder_, turn_, file_;
  off_t size_ = 0;
};

}  // namespace

std::vector<LedgerLine> lines_of_job(std::string_view text, const EndedJob& job, std::int64_t now_utc_ns) {
  std::vector<LedgerLine> lines;
  std::set<std::string> left(job.nodes.begin(), job.nodes.end());
  for (LedgerLine& line : parse_ledger(text, now_utc_ns).lines) {
    if (line.job != job.number || left.erase(line.node) == 0) continue;
    line.owner = job.owner;
    line.job_nodes = std::min(line.job_nodes, job.nodes.size());
    for (LedgerFinding& finding : line.findings) finding.nodes = std::min(finding.nodes, line.job_nodes);
    lines.push_back(std::move(line));
  }
  return lines;
}

void append_lines(const fs::path& ledger, std::span<const LedgerLine> lines, std::int64_t now_utc_ns,
                  const LedgerLimits& limits) {
  if (!lines.empty()) LocalLedger(ledger, limits).add(lines, now_utc_ns);
}

}  // namespace reveal
