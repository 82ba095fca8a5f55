#include "postproc/deliver/deliver.h"

#include <fcntl.h>
#include <limits.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/config.h"
#include "hdf5schema/basics/delivery_times.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/basics/report_lease.h"
#include "hdf5schema/basics/request.h"
#include "postproc/analysis/downsample_traces.h"
#include "postproc/analysis/job_history.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/job_summaries.h"
#include "postproc/analysis/slurm_job_record.h"
#include "postproc/deliver/missing_nodes.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/node_folders.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kSmallFile = 64 << 10;
constexpr int kMostRuns = 1000;          // runs of one name
constexpr auto kSpread = 2ms;            // between the summaries of two nodes of a job, once their epilogs are over
constexpr auto kLongestSpread = 10s;     // for all of them
constexpr auto kSpreadInEpilog = 200us;  // the same for their traces, while the epilog waits
constexpr auto kLongestSpreadInEpilog = 1s;
/// Share of an epilog's time for the analysis and for waiting: closing the trace needs some, too.
constexpr double kShareOfLimit = 0.6;
constexpr double kUnderLoad = 2;                  // relative to an idle cpu
constexpr double kMostMergeAfterEpilog = 20;      // seconds of an idle cpu
constexpr double kMostAnalysisAfterEpilog = 300;  // likewise: the broker gives up after a quarter of an hour
constexpr auto kWaitAfterEpilog = 30s;            // for the other nodes
constexpr auto kSubmission = 60s;                 // longest time from the marker of a report job to its submission
constexpr double kMergeBytes = 40e6;              // the program itself
constexpr double kBytesPerNode = 125e3;           // its summary in a merge; measured 1,184 MB for 10,000
constexpr double kShareOfMemory = 0.5;  // for a merge: address space is limited, too, and some summaries are larger

std::string claim_of(const JobPlace& job) {
  return job.cluster + " " + job.id + " " + std::to_string(job.restart) + "\n";
}

enum class Claim : std::uint8_t { fresh, ours, taken };

/// The directory is this job's, of whichever of its nodes came first. Throws Error if it cannot be used at all.
Claim claim(const fs::path& directory, const JobPlace& job) {
  const std::string text = claim_of(job);
  const fs::path marker = directory / kClaimFile;
  make_private_directory(directory.string(), Privacy::others_do_not_write);
  require_writable(directory.string());
  const Descriptor file(::open(marker.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file) {
    // Another program's run may be in it without a claim.
    bool occupied = false;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      occupied = occupied || name.ends_with(".h5") || name.ends_with(".h5.part") || is_node_folder(name);
    }
    if (!occupied && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
      return Claim::fresh;
    const int why = errno;
    ::unlink(marker.c_str());
    if (!occupied) {
      ::rmdir(directory.c_str());  // only if it is empty
      throw system_error(directory.string(), why);
    }
    return Claim::taken;
  }
  if (errno != EEXIST) throw system_error(marker.string(), errno);
  // The first node may be between its open and its write.
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::string theirs = read_text_file(marker, kSmallFile);
    if (!theirs.empty()) return theirs == text ? Claim::ours : Claim::taken;
    std::this_thread::sleep_for(10ms);
  }
  return Claim::taken;
}

/// The directory, opened, if its claim is this job's: few operations on names, because nearly all of a thousand nodes
/// come here. Throws Error if it is ours and cannot be used.
Descriptor open_claimed(const fs::path& directory, const std::string& text) {
  constexpr std::size_t kLongestClaim = 1024;
  Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Descriptor marker(folder ? ::openat(folder.get(), kClaimFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                                 : -1);
  std::array<char, kLongestClaim> room{};
  const ssize_t size = marker ? ::read(marker.get(), room.data(), room.size()) : -1;
  if (size <= 0 || std::string_view(room.data(), static_cast<std::size_t>(size)) != text) return {};
  require_private_directory(folder.get(), directory.string(), Privacy::others_do_not_write);
  return folder;
}

/// A directory that was ours for nothing is not left behind, unless another node came meanwhile.
void withdraw(const fs::path& directory) noexcept {
  constexpr std::string_view kOurs[] = {kClaimFile, kAskedFile, kSlurmJobRecordFile};
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code not_empty;
    if (is_node_folder(name) && fs::remove(entry->path(), not_empty)) continue;
    if (std::find(std::begin(kOurs), std::end(kOurs), name) == std::end(kOurs)) return;
  }
  for (const std::string_view name : kOurs) fs::remove(directory / name, error);
  fs::remove(directory, error);
}

/// The directories in which a run may lie: `wanted`, and the numbered ones beside it if the name was taken.
fs::path numbered(const fs::path& wanted, int run) {
  return run == 1 ? wanted : fs::path(wanted.string() + "-" + std::to_string(run));
}

struct Claimed {
  fs::path directory;
  Descriptor folder;  // the same, open
  bool fresh = false;
};

NodeFiles layout_of(const JobPlace& job) {
  return job.nodes.size() > kMostNodesInADirectory ? NodeFiles::in_folders : NodeFiles::flat;
}

/// The files of one node in a job's directory.
struct NodePlace {
  fs::path directory;
  Descriptor own;  // a folder in the job's directory
  int folder = -1;
};

/// Throws Error.
NodePlace place_of_node(const Claimed& claimed, const std::string& node, const JobPlace& job) {
  if (layout_of(job) == NodeFiles::flat) return {claimed.directory, {}, claimed.folder.get()};
  const std::string name = node_folder(node);
  const auto open_folder = [&] {
    return Descriptor(::openat(claimed.folder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  };
  NodePlace place{.directory = claimed.directory / name, .own = {}};
  place.own = open_folder();
  if (!place.own && errno == ENOENT) {
    if (::mkdirat(claimed.folder.get(), name.c_str(), 0700) == 0)
      sync_directory(claimed.folder.get(), claimed.directory);
    place.own = open_folder();
  }
  if (!place.own) throw system_error(place.directory.string(), errno);
  require_private_directory(place.own.get(), place.directory.string(), Privacy::others_do_not_write);
  place.folder = place.own.get();
  return place;
}

Claimed claim_free(const Candidate& wanted, const JobPlace& job) {
  if (!wanted.make_parents && !fs::is_directory(wanted.path.parent_path())) {
    throw Error(wanted.path.parent_path().string() + " is not a directory");
  }
  for (int run = 1; run <= kMostRuns; ++run) {
    fs::path candidate = numbered(wanted.path, run);
    if (Descriptor folder = open_claimed(candidate, claim_of(job))) return {std::move(candidate), std::move(folder)};
    const Claim got = claim(candidate, job);
    if (got == Claim::taken) continue;
    Descriptor folder(::open(candidate.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder) throw system_error(candidate.string(), errno);
    return {std::move(candidate), std::move(folder), got == Claim::fresh};
  }
  throw Error(wanted.path.string() + " holds " + std::to_string(kMostRuns) + " runs already");
}

/// Nodes with a summary, whether they were expected or not.
std::set<std::string> delivered(const fs::path& directory) {
  static constexpr std::string_view kEnding = ".summary.json";
  std::set<std::string> nodes;
  try {
    visit_node_files(directory, [&nodes](const fs::path& path) {
      const std::string name = path.filename().string();
      if (name.ends_with(kEnding) && name.front() != '.') nodes.insert(name.substr(0, name.size() - kEnding.size()));
      return true;
    });
  } catch (const Error&) {  // it was renamed, or the file system is away
  }
  return nodes;
}

bool contains_all(const std::set<std::string>& delivered, const std::vector<std::string>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const std::string& node) { return delivered.contains(node); });
}

bool belongs_to(const std::string& name, const std::string& node) {
  return name.starts_with(node + ".") || name.starts_with(node + "-");
}

/// Whether it belongs to the trace of the node or to a further one (n1-2.h5), and not to a node whose name only begins
/// like this one's.
bool is_of_trace(std::string_view name, std::string_view node) {
  if (!name.starts_with(node)) return false;
  name.remove_prefix(node.size());
  if (name.starts_with('-')) {
    name.remove_prefix(1);
    const std::size_t digits = name.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos) return false;
    name.remove_prefix(digits);
  }
  return name.starts_with('.');
}

/// True if the file is under this name already: an earlier delivery was killed before it removed it from the spool. Its
/// size may differ: one of the two may have been thinned, which keeps the time.
bool stands_already(const fs::path& file, int folder, const std::string& name) {
  struct stat ours {};
  struct stat there {};
  return ::fstatat(folder, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && ::lstat(file.c_str(), &ours) == 0 &&
         nanoseconds_of(ours.st_mtim) == nanoseconds_of(there.st_mtim);
}

struct Waiting {
  std::vector<fs::path> traces, summaries;
};

/// This node's files in the spool. Files that are of no use any more are removed.
Waiting waiting_in(const fs::path& spool, const std::string& node) {
  Waiting found;
  for (const auto& entry : fs::directory_iterator(spool)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    // Files of a run that found no place, or of a sampler that was killed.
    const bool report = std::find(std::begin(kReportFiles), std::end(kReportFiles), name) != std::end(kReportFiles);
    const bool passing = name == node + ".h5.live" || name == node + ".h5.watch" || name == node + ".status.json" ||
                         (name.starts_with('.') && is_of_trace(name.substr(1), node));
    if (report || passing) {
      fs::remove(entry.path(), ignored);
    } else if (!belongs_to(name, node)) {
      continue;  // another node's, on shared spools
    } else {
      (name.ends_with(".summary.json") ? found.summaries : found.traces).push_back(entry.path());
    }
  }
  std::sort(found.traces.begin(), found.traces.end());
  return found;
}

/// Files go from the spool to the job's directory. They leave the spool once all of their new names are on the disk.
class Move {
 public:
  Move(NodePlace to, const std::string& node) : to_(std::move(to)), node_(node) {}

  void trace(const fs::path& from) {
    const std::string own = from.filename().string();
    const std::string ending = own.ends_with(".part") ? ".h5.part" : ".h5";
    // A second collector of the same job on this node (the first one was ended in the middle) takes the next name.
    const auto name_of = [&](int number) { return number == 1 ? own : fmt::format("{}-{}{}", node_, number, ending); };
    const FileOfSpool file = file_of_spool(from);  // before it is read
    const std::string name = copied_or_there(from, name_of);
    placed_.push_back({from, name, file});
    if (!own.ends_with(".earlier") && name != own) new_names_[summary_name(from)] = name;
  }

  void summary(const fs::path& from) {
    const std::string own = from.filename().string();
    const auto renamed = new_names_.find(own);
    const FileOfSpool file = file_of_spool(from);
    if (renamed == new_names_.end()) {
      copy_over(from, to_.folder, to_.directory, own);
    } else {
      publish_renamed(from, renamed->second);
    }
    placed_.push_back({from, own, file});
  }

  /// The results of this node's traces, which are there: their copies in the spool were analysed, and maybe thinned. So
  /// no node reads its trace back from the file server. A summary comes before its thinned trace: while the two do not
  /// fit, the trace that is there is whole. Only a moment before: a node that sees the last summary builds the report,
  /// and would analyse the whole trace again.
  void results() {
    const std::vector<Placed> delivered = placed_;  // summary() adds to them
    for (const Placed& file : delivered) {
      if (!file.from.filename().string().starts_with(node_ + ".h5") || is_of_a_later_run(file)) continue;
      const fs::path result = file.from.parent_path() / summary_name(file.from);
      std::error_code none;
      if (!fs::exists(result, none)) continue;
      const bool is_thinned = file_of_spool(file.from).bytes != file.copied.bytes;
      const auto thinned = is_thinned ? copy_aside(file.from, to_.folder, to_.directory, file.name) : nullptr;
      summary(result);
      if (thinned) thinned->publish(Synced::content);
    }
  }

  /// Returns why their names may not be on the disk, "" if they are.
  [[nodiscard]] std::string sync() const {
    try {
      if (!placed_.empty()) sync_directory(to_.folder, to_.directory);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  /// Returns why a delivered file is still in the spool, "" if there is none.
  [[nodiscard]] std::string finish() {
    std::string left = sync();
    if (!left.empty()) return left;
    for (const Placed& file : placed_) {
      if (is_of_a_later_run(file)) continue;
      if (::unlink(file.from.c_str()) != 0)
        left = system_error(file.from.string() + ": was delivered and cannot be removed", errno).what();
    }
    placed_.clear();
    return left;
  }

 private:
  struct IsThere {
    std::string name;
  };
  struct FileOfSpool {
    std::int64_t mtime_ns = 0;
    off_t bytes = 0;
  };
  struct Placed {
    fs::path from;
    std::string name;  // in the directory
    FileOfSpool copied;
  };

  static FileOfSpool file_of_spool(const fs::path& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return {};
    return {nanoseconds_of(status.st_mtim), status.st_size};
  }

  /// True also where the file is gone: once the epilog has been let go, the next collector of this job may deliver what
  /// it finds in the spool, and use the name again.
  static bool is_of_a_later_run(const Placed& file) {
    return file_of_spool(file.from).mtime_ns != file.copied.mtime_ns;
  }

  /// The name of the file. It is looked for only where it cannot be new: nearly all of a thousand nodes come once.
  std::string copied_or_there(const fs::path& from, const std::function<std::string(int)>& name_of) const {
    const auto next_name = [&](int number) {
      if (number > 1 && stands_already(from, to_.folder, name_of(number - 1))) throw IsThere{name_of(number - 1)};
      return name_of(number);
    };
    try {
      return copy_new(from, to_.folder, to_.directory, next_name);
    } catch (const IsThere& there) {
      return there.name;
    } catch (const Error&) {  // no space for a second one
      if (stands_already(from, to_.folder, name_of(1))) return name_of(1);
      throw;
    }
  }

  void publish_renamed(const fs::path& from, const std::string& trace) const {
    std::optional<NodeSummary> theirs;
    try {
      theirs = parse_summary(read_text_file(from, kLargestSummary));
    } catch (const std::exception&) {
      return;  // the report makes a new one
    }
    theirs->trace = trace;
    publish_summary(to_.directory / trace, *std::move(theirs), Synced::yes);
  }

  NodePlace to_;
  const std::string& node_;
  std::vector<Placed> placed_;
  std::map<std::string, std::string> new_names_;  // by the summary of each trace
};

/// Traces before summaries: a node that sees a summary may begin with the report. Files that were delivered before are
/// not replaced. All of them stay in the spool for now.
void place_all(Move& move, const fs::path& spool, const std::string& node) {
  const Waiting waiting = waiting_in(spool, node);
  try {
    for (const fs::path& trace : waiting.traces) move.trace(trace);
    for (const fs::path& summary : waiting.summaries) move.summary(summary);
  } catch (const std::exception& error) {
    static_cast<void>(move.finish());
    throw Error(std::string(error.what()) + "; kept in " + spool.string());
  }
}

/// Whatever becomes of the results, the traces are delivered, and the report makes results that are missing. Returns
/// the failures in one line.
std::string deliver_results(Move& move) {
  std::string why;
  try {
    move.results();
  } catch (const std::exception& error) {
    why = error.what();
  }
  const std::string left = move.finish();
  return why.empty() || left.empty() ? why + left : why + "; " + left;
}

/// The analysis of this node's own traces.
double analysis_seconds(const fs::path& spool, const DeliverSettings& settings) {
  double bytes = 0;
  for (const ListedTrace& trace : list_traces(spool)) bytes += static_cast<double>(trace.bytes);
  return kUnderLoad * settings.paces.analysis * expected_analysis_seconds(bytes, settings.downsample_traces);
}

double merge_seconds(std::size_t nodes, const DeliveryPaces& paces) {
  return kUnderLoad * paces.merge * expected_merge_seconds(nodes);
}

/// The same moment for thousands of nodes would be too much for one directory.
void wait_for_turn(const std::string& node, const JobPlace& job, std::chrono::nanoseconds spread,
                   std::chrono::nanoseconds longest) {
  const auto turn = std::find(job.nodes.begin(), job.nodes.end(), node) - job.nodes.begin();
  std::this_thread::sleep_for(time_of_turn(static_cast<std::size_t>(turn), job.nodes.size(), spread, longest));
}

void wait_for_nodes(const fs::path& directory, NodeFiles layout, const std::vector<std::string>& nodes,
                    SteadyClock::time_point end) {
  MissingNodes missing(directory, layout, nodes, delivered(directory));
  for (Looks looks(end); !missing.have_come() && looks.wait();) {
  }
}

enum class ReportMaker : std::uint8_t { this_node, another_node, job };

/// The names that the node which queried the controller left beside the traces.
JobNames published_names(const fs::path& directory, JobNames names) {
  const auto record = read_slurm_job_record(directory);
  if (!record) return names;
  if (names.name.empty()) names.name = record->name;
  if (names.array_job.empty()) {
    names.array_job = record->array_job;
    names.array_task = record->array_task;
  }
  return names;
}

/// The new name stands in the directory before it is renamed: a process that has it open finds it. An empty directory
/// takes the name first, and is replaced: NFS has no RENAME_NOREPLACE.
/// https://man7.org/linux/man-pages/man2/rename.2.html
fs::path rename_to_names(const fs::path& directory, const SlurmJob& job, const std::string& request) {
  const std::vector<Candidate> unnamed = delivery_candidates(job, request);
  const std::vector<Candidate> named = delivery_candidates({job.place, published_names(directory, job.names)}, request);
  if (named.empty() || unnamed.empty() || named.front().path == unnamed.front().path) return directory;
  if (directory.parent_path() != unnamed.front().path.parent_path()) return directory;  // it found no place there
  std::error_code ignored;
  fs::create_directories(named.front().path.parent_path(), ignored);
  fs::path target;
  try {
    for (int run = 1; run <= kMostRuns; ++run) {
      target = numbered(named.front().path, run);
      if (::mkdir(target.c_str(), 0700) != 0) {
        if (errno == EEXIST) continue;
        break;
      }
      publish_file(directory, kMovedToFile, target.string());
      if (::rename(directory.c_str(), target.c_str()) == 0) return target;
      const bool taken = errno == ENOTEMPTY || errno == EEXIST;  // by another job, which found it empty
      ::rmdir(target.c_str());
      if (!taken) break;
    }
  } catch (const Error&) {  // no space for the new name: it keeps the old one
    ::rmdir(target.c_str());
  }
  fs::remove(directory / kMovedToFile, ignored);
  return directory;
}

/// Until every node's summary is in a report: one that comes while another builds is seen by that one afterwards.
/// `let_epilog_go`: before the traces of nodes without a summary are analysed here. The directory gets its name first,
/// since the history and the mail state where the report is: a node that published its summary writes nothing more
/// there, unless it still makes its trace smaller.
ReportMaker build_when_complete(Delivery& delivery, const std::string& node, const SlurmJob& job,
                                const std::string& request, const DeliverSettings& settings,
                                const AnalysisSettings& analysis, const std::function<void()>& let_epilog_go) {
  fs::path& directory = delivery.directory;
  std::vector<std::string> nodes = job.place.watched;
  if (nodes.empty()) nodes.push_back(node);
  const auto end = SteadyClock::now() + settings.wait_for_nodes;
  bool built = false;
  bool named = false;
  const auto maker = [&built](ReportMaker other) { return built ? ReportMaker::this_node : other; };
  std::set<std::string> reported;
  while (true) {
    {
      ReportLease lease(directory.string(), node);
      if (!lease.take()) {
        if (lease.failure() == 0 || delivered_to(delivery) != directory) return maker(ReportMaker::another_node);
        throw system_error(directory.string(), lease.failure());
      }
      if (has_report_job(directory)) return maker(ReportMaker::job);  // a slower node has left the report to it
      wait_for_nodes(directory, layout_of(job.place), nodes, end);
      if (has_report_job(directory)) return maker(ReportMaker::job);
      reported = delivered(directory);
      if (!contains_all(reported, nodes)) let_epilog_go();
      if (delivery.moved && !named && !settings.downsample_traces && contains_all(reported, job.place.nodes)) {
        named = true;
        directory = rename_to_names(directory, job, request);
        lease.follow(directory.string());
      }
      ReportOptions options;
      options.settings = analysis;
      options.history = history_options(analysis);
      // Steps on other nodes of the job deliver here, too; this node has no list of them.
      options.expected_nodes = nodes;
      options.expected_nodes.insert(options.expected_nodes.end(), reported.begin(), reported.end());
      options.now_utc_ns = utc_now_ns();
      std::vector<InputProblem> problems;
      write_report(directory, build_report(directory, options, problems));
      delivery.of_all_nodes = !built && nodes.size() > 1 && contains_all(reported, job.place.nodes);
      built = true;
    }
    if (delivered(directory) == reported) return ReportMaker::this_node;
  }
}

/// Whether this is the way to the open directory.
bool leads_to(const fs::path& path, int folder) {
  struct stat open {};
  struct stat named {};
  return ::fstat(folder, &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

}  // namespace

DeliverSettings deliver_settings(const Config& config) {
  const std::string report = config.text(config_key("slurm", "report"));
  const auto share = config.time(config_key("slurm", "report_limit")) * kShareOfLimit;
  return {.report = report == "job"    ? ReportWhen::job
                    : report == "lazy" ? ReportWhen::lazy
                                       : ReportWhen::epilog,
          .wait_for_nodes = std::chrono::duration_cast<std::chrono::milliseconds>(share),
          .most_seconds = std::chrono::duration<double>(share).count(),
          .downsample_traces = config.text(config_key("slurm", "retain")) == "summary"};
}

std::chrono::seconds longest_analysis(const Delivery& delivery) noexcept {
  constexpr double kSlowNode = 3;  // relative to the estimate
  return std::chrono::seconds(std::llround(kSlowNode * delivery.seconds_after_epilog));
}

std::chrono::nanoseconds time_of_turn(std::size_t turn, std::size_t nodes, std::chrono::nanoseconds spread,
                                      std::chrono::nanoseconds longest) noexcept {
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(nodes, 1));
  return static_cast<std::int64_t>(turn) * std::min(spread, longest / count);
}

double merge_bytes(std::size_t nodes) noexcept {
  return kMergeBytes + kBytesPerNode * static_cast<double>(nodes);
}

EpilogLimits epilog_limits(const DeliveryPaces& paces, double memory) {
  const double own = kUnderLoad * paces.analysis * expected_analysis_seconds(1, false);
  const double in_time = kMostMergeAfterEpilog / merge_seconds(1, paces);
  const double in_memory = std::max(0.0, kShareOfMemory * memory - kMergeBytes) / kBytesPerNode;
  const double most = std::max(1.0, std::min(in_time, in_memory));  // one node has nothing to merge
  return {.nodes = static_cast<std::size_t>(std::llround(most)), .trace_bytes = kMostAnalysisAfterEpilog / own};
}

bool take_marker(const fs::path& directory, const char* name) noexcept {
  return take_marker(Descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)).get(), name);
}

bool take_marker(int folder, const char* name) noexcept {
  return static_cast<bool>(
      Descriptor(::openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)));
}

bool has_report_job(const fs::path& directory) noexcept try {
  const Descriptor folder = open_as_it_is(directory);
  struct stat marker {};
  if (!folder || ::fstatat(folder.get(), kReportJobFile, &marker, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (marker.st_size > 0) return true;
  std::error_code error;
  const auto made = fs::last_write_time(directory / kReportJobFile, error);
  return !error && file_time_now(directory.string()) - made < kSubmission;
} catch (const std::exception&) {  // without memory
  return false;
}

void confirm_report_job(const Delivery& delivery) noexcept {
  constexpr std::string_view kSubmitted = "submitted\n";
  const Descriptor marker(::openat(delivery.folder.get(), kReportJobFile, O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  [[maybe_unused]] const auto written = ::write(marker.get(), kSubmitted.data(), kSubmitted.size());
}

std::vector<Candidate> delivery_candidates(const SlurmJob& job, const std::string& request) {
  std::vector<Candidate> candidates;
  const std::string restart = job.place.restart > 0 ? "-r" + std::to_string(job.place.restart) : "";
  const std::string standard = "reveal-" + file_name_part(job.place.id) + restart;
  if (const std::string pattern = requested(request, "output"); !pattern.empty()) {
    try {
      const fs::path path = expand_pattern(pattern, pattern_environment(job)) + restart;
      if (path.is_absolute()) candidates.push_back({path.lexically_normal(), true});
      if (path.is_relative() && fs::path(job.place.work_dir).is_absolute()) {
        candidates.push_back({(fs::path(job.place.work_dir) / path).lexically_normal(), true});
      }
    } catch (const Error&) {  // an unknown pattern: the standard place
    }
  }
  for (const fs::path& base : {fs::path(job.place.work_dir), fs::path(job.place.home)}) {
    if (base.is_absolute() && base != "/") candidates.push_back({base / standard});
  }
  return candidates;
}

fs::path delivered_to(const Delivery& delivery) {
  if (!delivery.folder || leads_to(delivery.directory, delivery.folder.get())) return delivery.directory;
  std::array<char, PATH_MAX> text{};
  const Descriptor file(::openat(delivery.folder.get(), kMovedToFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : -1;
  fs::path named(size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : std::string());
  return leads_to(named, delivery.folder.get()) ? named : delivery.directory;
}

Delivery deliver(const fs::path& spool, const std::string& node, const SlurmJob& job, const std::string& request,
                 const DeliverSettings& settings, const AnalysisSettings& analysis, const LearnNames& learn,
                 const LetEpilogGo& let_epilog_go) {
  const JobPlace& place = job.place;
  Delivery delivery;
  delivery.directory = spool;
  const double own = analysis_seconds(spool, settings);
  const double merge = merge_seconds(place.watched.size(), settings.paces);
  const bool too_many_nodes = place.watched.size() > epilog_limits(settings.paces, settings.memory).nodes;
  // A node analyses its own trace, wherever the report is built: one cpu could not do that for a thousand nodes.
  const bool analyses = settings.report != ReportWhen::lazy;
  const bool in_epilog = analyses && own <= settings.most_seconds;
  const bool wants_job = settings.report == ReportWhen::job || (analyses && own > kMostAnalysisAfterEpilog);
  delivery.needs_job = wants_job || (analyses && too_many_nodes);
  if (!in_epilog) delivery.seconds_after_epilog = own;
  const bool merge_in_epilog = in_epilog && own + merge <= settings.most_seconds;
  const auto add_problem = [&why = delivery.why](const std::string& problem) {
    if (!problem.empty()) why += (why.empty() ? "" : "; ") + problem;
  };
  const auto analyse = [&](const fs::path& directory) {
    write_summaries(directory, node, analysis);
    if (!settings.downsample_traces) return;
    for (const std::string& problem : downsample_traces(directory, node)) add_problem(problem);
  };
  const bool results_later = analyses && !in_epilog;
  std::optional<Move> move;
  if (in_epilog) analyse(spool);
  wait_for_turn(node, place, kSpreadInEpilog, kLongestSpreadInEpilog);
  for (const Candidate& candidate : delivery_candidates(job, request)) {
    Claimed claimed;
    try {
      claimed = claim_free(candidate, place);
      const fs::path& directory = claimed.directory;
      if (learn && !delivery.names) delivery.names = learn(directory, claimed.fresh);
      // Nodes of different pace estimate the merge differently: the first ones decide. Before a summary is there, since
      // the node that has all of them looks for the marker.
      const bool decides = wants_job || claimed.fresh || delivery.names;
      delivery.submits_job = delivery.needs_job && decides && take_marker(claimed.folder.get(), kReportJobFile);
      const JobNames& names = delivery.names ? *delivery.names : job.names;
      if (!names.state.empty())
        publish_file(directory, kSlurmJobRecordFile, render_slurm_job_record(record_of({place, names})));
      move.emplace(place_of_node(claimed, node, place), node);
      place_all(*move, spool, node);
      add_problem(results_later ? move->sync() : move->finish());
      delivery.directory = directory;
      // It came later, and the first ones make the report themselves.
      if (delivery.needs_job && !decides) delivery.needs_job = has_report_job(directory);
      delivery.folder = std::move(claimed.folder);
      delivery.moved = true;
      break;
    } catch (const std::exception& error) {
      add_problem(error.what());
      if (delivery.submits_job) ::unlinkat(claimed.folder.get(), kReportJobFile, 0);
      delivery.submits_job = false;
      if (claimed.fresh) withdraw(claimed.directory);
    }
  }
  if (!analyses || (in_epilog && delivery.needs_job)) return delivery;
  try {
    DeliverSettings waiting = settings;
    if (!merge_in_epilog) {
      if (let_epilog_go) let_epilog_go(delivery);
      wait_for_turn(node, place, kSpread, kLongestSpread);
      if (results_later) analyse(spool);
      if (results_later && delivery.moved) add_problem(deliver_results(*move));
      waiting.wait_for_nodes = kWaitAfterEpilog + std::chrono::milliseconds(std::llround(own * 1e3));
    }
    if (delivery.needs_job) return delivery;
    const ReportMaker maker = build_when_complete(delivery, node, job, request, waiting, analysis, [&] {
      if (let_epilog_go) let_epilog_go(delivery);
    });
    delivery.report_built = maker == ReportMaker::this_node;
    delivery.of_other_nodes = delivery.report_built && place.watched.size() > 1;
    delivery.needs_job = maker == ReportMaker::job;
  } catch (const Error& error) {  // the delivered files matter more than the report
    add_problem("no report: " + std::string(error.what()));
    delivery.of_other_nodes = place.watched.size() > 1;
  }
  if (delivery.report_built && delivery.moved && settings.downsample_traces &&
      contains_all(delivered(delivery.directory), place.nodes)) {
    delivery.directory = rename_to_names(delivery.directory, job, request);
  }
  return delivery;
}

}  // namespace reveal
