#include "postproc/live/watch.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/host_name.h"
#include "postproc/live/hang_watch.h"
#include "postproc/live/watch_output.h"
#include "postproc/live/watched_node.h"
#include "postproc/telemetry/node_folders.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPoll = 50ms;
constexpr auto kList = 1s;
constexpr auto kReport = 5s;                   // to the machine from which the job is watched
constexpr auto kEmptyDirectoryPatience = 10s;  // with a directory that does not look like a run's
constexpr auto kSettled = 2s;                  // a node that begins while another one ends
constexpr double kLostSeconds = 60;
constexpr std::size_t kPageValues = 60;
constexpr std::size_t kReportValues = 5;
constexpr std::string_view kTrace = ".h5";
constexpr std::string_view kPart = ".h5.part";

/// srun closes the standard input of its tasks when its own one is closed: the person who watched is gone.
bool standard_input_has_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char ignored[256];
  return ::poll(&input, 1, 0) == 1 && ::read(STDIN_FILENO, ignored, sizeof ignored) <= 0;
}

std::string name_of_this_node() {
  const std::string of_slurm = process_environment("SLURMD_NODENAME");
  return of_slurm.empty() ? short_host_name() : of_slurm;
}

class Watch {
 public:
  Watch(const WatchOptions& options, std::FILE* out)
      : options_(options), output_(options, out), budget_(options.share), hangs_(options.settings) {}

  WatchEnd run(const std::atomic<bool>& stop) {
    list_nodes();
    if (const auto end = ended(Clock::now())) return *end;
    output_.begin_page();
    while (!stop && !given_up()) {
      const Clock::time_point now = Clock::now();
      say_begin(now);
      if (now >= next_list_) {
        next_list_ = now + kList;
        list_nodes();
      }
      advance_nodes(now);
      if (const auto hang = hangs_.look(nodes_, now)) {
        output_.publish_hang(hang->news == HangWatch::News::begun, hang->sentence);
      }
      output_.say_problems_of_forwarding();
      show(now);
      if (const auto end = ended(now)) return *end;
      std::this_thread::sleep_for(kPoll);
    }
    output_.say_end(job(kPageValues), nodes_.empty() ? "stopped watching; no run has started in " + directory()
                                                     : "stopped watching; this does not end the job");
    return WatchEnd::stopped;
  }

 private:
  [[nodiscard]] std::string directory() const { return options_.directory.string(); }
  [[nodiscard]] bool in_step() const { return options_.form == WatchForm::step; }
  [[nodiscard]] bool is_patient(Clock::time_point now) const { return now - began_ <= kEmptyDirectoryPatience; }

  /// The reader is gone, or the job is not recorded on this node.
  [[nodiscard]] bool given_up() const {
    return in_step() && (standard_input_has_ended() || (nodes_.empty() && !is_patient(Clock::now())));
  }

  /// NODE.h5.part is being written; a NODE.h5 that was closed before we came is of no interest.
  void list_nodes() {
    std::error_code error;
    std::filesystem::directory_iterator entry(options_.directory, error);
    if (error) {
      if (!nodes_.empty() || in_step()) return;  // it may come (back)
      throw Error(directory() + ": " + error.message());
    }
    // Where a file server fails in the middle, the rest is there at the next look.
    for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name.front() == '.') continue;
      if (name.ends_with(kTrace) || is_node_folder(name)) ended_before_ = true;
      if (!name.ends_with(kPart)) {
        holds_other_files_ = true;
        continue;
      }
      const std::filesystem::path trace = options_.directory / name.substr(0, name.size() - 5);
      if (std::find(traces_.begin(), traces_.end(), trace) != traces_.end()) continue;
      traces_.push_back(trace);
      nodes_.push_back(std::make_unique<WatchedNode>(trace));
    }
    std::sort(nodes_.begin(), nodes_.end(),
              [](const auto& a, const auto& b) { return a->trace().node() < b->trace().node(); });
  }

  void say_begin(Clock::time_point now) {
    if (!nodes_.empty()) {
      if (!std::exchange(said_watching_, true)) {
        output_.say("watching",
                    "watching " + directory() + ": one line per alert; the report at the end names the cause");
      }
      return;
    }
    if (!std::exchange(said_waiting_, true)) {
      output_.say("waiting", "no trace in " + directory() + " yet; waiting for a run to start");
    }
    if (holds_other_files_ && !in_step() && !is_patient(now)) {
      throw Error(directory() + " holds no run: no NODE.h5.part or NODE.h5 in it");
    }
  }

  void advance_nodes(Clock::time_point now) {
    for (const auto& node : nodes_) {
      for (AlertNotice& notice : node->advance(now, budget_)) output_.publish(std::move(notice));
      for (const EarlierInterval& interval : node->take_earlier()) output_.publish_earlier(interval);
    }
  }

  [[nodiscard]] WatchedJob job(std::size_t meter_values) const {
    WatchedJob job{.title = directory(),
                   .nodes = {},
                   .runs = budget_.runs(),
                   .runs_skipped = budget_.skipped(),
                   .hang = hangs_.sentence()};
    job.nodes.reserve(nodes_.size());
    for (const auto& node : nodes_) job.nodes.push_back(node->view(meter_values));
    return job;
  }

  /// The watch of one node would show the dead one, and beside a silent trace no hang is looked for.
  void forget_replaced(Clock::time_point now) {
    std::vector<FollowedTrace> traces;
    traces.reserve(nodes_.size());
    for (const auto& node : nodes_) {
      const LiveTrace& trace = node->trace();
      const std::int64_t newest_ns = trace.rows().newest_ns();
      traces.push_back({.node = trace.node(),
                        .silent = trace.state() == LiveState::silent,
                        .newest_ns = newest_ns,
                        .newest_utc_ns = newest_ns > 0 ? trace.utc_of(newest_ns) : 0});
    }
    const std::vector<ReplacedTrace> replaced = replaced_traces(traces);
    for (const ReplacedTrace& trace : replaced) {
      WatchedNode& dead = *nodes_[trace.place];
      for (AlertNotice& notice : dead.end(now, budget_)) output_.publish(std::move(notice));
      nodes_[trace.by]->number_alerts_after(dead);
    }
    for (std::size_t i = replaced.size(); i-- > 0;) {
      nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(replaced[i].place));
    }
  }

  void show(Clock::time_point now) {
    if (now < (in_step() ? next_report_ : next_show_)) return;
    forget_replaced(now);
    if (in_step()) return send_report(now);
    next_show_ = now + kList;
    const WatchedJob job = this->job(options_.form == WatchForm::page ? kPageValues : 0);
    output_.publish_silence(job);
    output_.draw(job);
  }

  void send_report(Clock::time_point now) {
    WatchedJob job = this->job(kReportValues);
    const bool begun = !job.nodes.empty() && job.nodes.front().heard_utc_ns != 0;
    next_report_ = now + (begun ? kReport : kList);
    NodeReport report{.view = {},
                      .hang = job.hang,
                      .has_calls = hangs_.has_calls(),
                      .runs = job.runs,
                      .runs_skipped = job.runs_skipped,
                      .watching_percent = output_.watching_percent()};
    if (!job.nodes.empty()) report.view = std::move(job.nodes.front());  // a spool holds one node's trace
    report.view.node = name_of_this_node();
    if (job.nodes.empty()) {
      report.view.problem = "the job is not recorded on this node: no trace in " + directory();
      report.view.state = ended_before_ ? LiveState::closed : LiveState::waiting;
    }
    output_.send(report);
  }

  WatchEnd end_with(WatchEnd end, const std::string& text) {
    if (in_step()) send_report(Clock::now());
    output_.say_end(job(kPageValues), text);
    return end;
  }

  std::optional<WatchEnd> ended(Clock::time_point now) {
    if (nodes_.empty()) {
      if (!ended_before_) return std::nullopt;
      return end_with(WatchEnd::job_ended, "the job has ended; its report: reveal show " + directory());
    }
    const bool over = std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
      return node->ended() || node->silent_seconds() > kLostSeconds;
    });
    if (!over) {
      over_since_ = Clock::time_point::max();
      return std::nullopt;
    }
    over_since_ = std::min(over_since_, now);
    if (now - over_since_ < kSettled) return std::nullopt;
    if (std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->ended(); })) {
      std::string lost;
      for (const auto& node : nodes_) {
        if (!node->ended()) lost += (lost.empty() ? "" : ", ") + node->trace().node();
      }
      return end_with(WatchEnd::job_ended, "the job has ended" +
                                               (lost.empty() ? "" : " (no more data from " + lost + ")") +
                                               "; its report: reveal show " + directory());
    }
    return end_with(
        WatchEnd::nodes_lost,
        fmt::format("no data for {:.0f} s, and no trace was closed: the collector or its node is gone", kLostSeconds));
  }

  const WatchOptions& options_;
  WatchOutput output_;
  CpuBudget budget_;
  std::vector<std::filesystem::path> traces_;
  std::vector<std::unique_ptr<WatchedNode>> nodes_;
  HangWatch hangs_;
  bool ended_before_ = false;
  bool holds_other_files_ = false;
  bool said_watching_ = false;
  bool said_waiting_ = false;
  Clock::time_point began_ = Clock::now();
  Clock::time_point next_list_{};
  Clock::time_point next_show_{};
  Clock::time_point next_report_{};
  Clock::time_point over_since_ = Clock::time_point::max();
};

}  // namespace

WatchEnd watch_job(const WatchOptions& options, std::FILE* out, const std::atomic<bool>& stop) {
  return Watch(options, out).run(stop);
}

}  // namespace reveal
