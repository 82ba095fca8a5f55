#include "postproc/live/slurm_watch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "postproc/live/remote_node.h"
#include "postproc/live/slurm_program.h"
#include "postproc/live/step_lines.h"
#include "postproc/live/watch_output.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kRead = 200ms;
constexpr auto kShow = 1s;
constexpr auto kStartPatience = 30s;   // with srun, which waits for resources and for slow nodes
constexpr auto kAnswerPatience = 10s;  // with squeue
constexpr auto kStopPatience = 4s;     // with the watches on the nodes, which end with their standard input
constexpr auto kErrorDelay = 5s;       // errors of a step that ends with its job are no news
constexpr auto kEndOfJob = 10s;        // until squeue knows that a job has ended whose steps were ended
constexpr std::size_t kMostErrorLines = 20;
constexpr std::size_t kMostErrorBytes = 64 << 10;

std::vector<QueuedJob> listed_jobs(const std::string& number) {
  std::vector<std::string> words = squeue_options(number);
  words.insert(words.begin(), "squeue");
  return parse_queue(output_of_slurm(words, kAnswerPatience));
}

/// Also where squeue does not answer. A job that it no longer knows has ended.
bool lists_as_running(const QueuedJob& job) {
  try {
    for (const QueuedJob& listed : listed_jobs(job.id)) {
      if (listed.id == job.id) return listed.runs();
    }
    return false;
  } catch (const Error& error) {
    return std::string_view(error.what()).find("Invalid job id") == std::string_view::npos;
  }
}

/// Errors of srun and of the watches on the nodes, which are printed only if the step goes on.
class DelayedErrors {
 public:
  void take(const std::string& errors, Clock::time_point now) {
    if (errors.empty()) return;
    if (waiting_.empty()) due_ = now + kErrorDelay;
    if (waiting_.size() < kMostErrorBytes) waiting_ += errors;
  }
  /// On one line; "" while there is none.
  [[nodiscard]] std::string take_due(Clock::time_point now) {
    if (waiting_.empty() || now < due_ || printed_ == kMostErrorLines) return "";
    std::string errors = errors_of_slurm(std::exchange(waiting_, {}));
    if (!errors.empty()) ++printed_;
    return errors;
  }
  [[nodiscard]] const std::string& waiting() const { return waiting_; }

 private:
  std::string waiting_;
  Clock::time_point due_{};
  std::size_t printed_ = 0;
};

class SlurmWatch {
 public:
  SlurmWatch(const QueuedJob& job, const std::vector<std::string>& on_node, const WatchOptions& options, std::FILE* out)
      : job_(job), output_(options, out), lines_(job.nodes), nodes_(job.nodes), srun_(words(on_node), variables()) {}

  WatchEnd run(const std::atomic<bool>& stop) {
    while (true) {
      const std::string text = srun_.read(kRead);
      take(text);
      if (stop) return stopped();
      if (const auto status = srun_.ended()) return ended();
      if (!any_heard() && Clock::now() - began_ > kStartPatience) throw not_started();
      show();
    }
  }

 private:
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& on_node) const {
    std::vector<std::string> words = words_of_srun(job_);
    words.insert(words.end(), on_node.begin(), on_node.end());
    return words;
  }
  static std::vector<std::string> variables() { return {std::string(kWatchStepVariable) + "=1"}; }

  [[nodiscard]] bool any_heard() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [](const RemoteNode& node) { return node.heard(); });
  }

  [[nodiscard]] bool any_recorded() const {
    return std::any_of(nodes_.begin(), nodes_.end(),
                       [](const RemoteNode& node) { return node.heard() && !node.unrecorded(); });
  }

  void take(const std::string& text) {
    const Clock::time_point now = Clock::now();
    for (const StepLineReader::Text& one : lines_.take(text)) {
      RemoteNode::News news;
      nodes_[one.task].take(one.text, now, news);
      say_begin();
      for (AlertNotice& notice : news.alerts) output_.publish(std::move(notice));
      for (const EarlierInterval& interval : news.earlier) output_.publish_earlier(interval);
      if (!news.problem.empty()) output_.say_problem(name_of(one.task) + " " + news.problem);
    }
    errors_.take(srun_.take_errors(), now);
    output_.say_problems_of_forwarding();
  }

  [[nodiscard]] std::string name_of(std::size_t task) const {
    return nodes_[task].heard() ? nodes_[task].report().view.node : fmt::format("node {} of the job", task + 1);
  }

  [[nodiscard]] std::string title() const {
    return fmt::format("job {} on {}", job_.number, counted(static_cast<double>(job_.nodes), "node"));
  }

  void say_begin() {
    if (said_begin_ || !any_recorded()) return;
    said_begin_ = true;
    output_.begin_page();
    output_.say("watching", "watching " + title() + ": one line per alert; the report at the end names the cause");
  }

  void show() {
    const Clock::time_point now = Clock::now();
    if (!said_begin_ || now < next_show_) return;
    next_show_ = now + kShow;
    if (const std::string errors = errors_.take_due(now); !errors.empty()) output_.say_problem(errors);
    follow_hang();
    const WatchedJob job = this->job();
    output_.publish_silence(job);
    output_.draw(job);
  }

  /// Ranks that wait for those of another node, which still work, are no hang: all nodes must have rows and see one.
  [[nodiscard]] std::string hang() const {
    std::string sentence;
    for (const RemoteNode& node : nodes_) {
      const NodeReport& report = node.report();
      if (node.unrecorded()) continue;
      if (report.view.heard_utc_ns == 0) return "";
      if (!report.has_calls) continue;
      if (report.hang.empty()) return "";
      if (sentence.empty()) sentence = report.hang;
    }
    return sentence;
  }

  void follow_hang() {
    const std::string sentence = hang();
    if (sentence.empty() == hang_.empty()) return;
    hang_ = sentence;
    output_.publish_hang(!sentence.empty(), sentence.empty() ? "The ranks make progress again." : sentence);
  }

  [[nodiscard]] WatchedJob job() const {
    WatchedJob job{.title = title(), .nodes = {}, .hang = hang_};
    const Clock::time_point now = Clock::now();
    for (std::size_t task = 0; task < nodes_.size(); ++task) {
      const NodeReport& report = nodes_[task].report();
      NodeView view = nodes_[task].view(now);
      if (!nodes_[task].heard()) view = {.node = name_of(task), .problem = "nothing heard of its watch yet"};
      job.nodes.push_back(std::move(view));
      job.runs += report.runs;
      job.runs_skipped += report.runs_skipped;
      if (report.watching_percent) job.most_on_node = std::max(job.most_on_node.value_or(0), *report.watching_percent);
    }
    std::sort(job.nodes.begin(), job.nodes.end(), [](const NodeView& a, const NodeView& b) { return a.node < b.node; });
    return job;
  }

  [[nodiscard]] Error not_started() const {
    const std::string words = words_of_slurm(errors_.waiting());
    return Error("job " + job_.number + ": srun did not start the watch on its nodes: " +
                 (words.empty() ? fmt::format("no answer within {} s", kStartPatience.count()) : words));
  }

  /// The watches end by themselves, and remove their marks for the collectors.
  WatchEnd stopped() {
    srun_.close_input();
    const Clock::time_point end = Clock::now() + kStopPatience;
    while (!srun_.ended() && Clock::now() < end) take(srun_.read(kRead));
    srun_.end();
    output_.say_end(job(), "stopped watching; this does not end the job");
    return WatchEnd::stopped;
  }

  WatchEnd ended() {
    take(srun_.read(0ms));
    if (!any_heard()) throw not_started();
    if (!any_recorded()) throw Error("job " + job_.number + ": " + unrecorded());
    const std::string over = "the job has ended; its report: reveal show " + job_.id;
    if (job_has_ended()) {
      output_.say_end(job(), over);
      return WatchEnd::job_ended;
    }
    const std::string words = words_of_slurm(errors_.waiting());
    output_.say_end(job(),
                    "the watch on the nodes has ended, and the job goes on" + (words.empty() ? "" : ": " + words));
    return WatchEnd::nodes_lost;
  }

  [[nodiscard]] std::string unrecorded() const {
    const auto node = std::find_if(nodes_.begin(), nodes_.end(), [](const RemoteNode& one) { return one.heard(); });
    return node->report().view.problem + "; reveal records a job that was started with --reveal";
  }

  [[nodiscard]] bool job_has_ended() const {
    const bool closed = std::all_of(nodes_.begin(), nodes_.end(), [](const RemoteNode& node) {
      return node.report().view.ended() || node.unrecorded();
    });
    if (closed) return true;
    const Clock::time_point end = Clock::now() + kEndOfJob;
    while (lists_as_running(job_)) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(1s);
    }
    return true;
  }

  const QueuedJob& job_;
  WatchOutput output_;
  StepLineReader lines_;
  std::vector<RemoteNode> nodes_;  // by task
  DelayedErrors errors_;
  std::string hang_;
  bool said_begin_ = false;
  Clock::time_point began_ = Clock::now();
  Clock::time_point next_show_{};
  SlurmProgram srun_;  // last: it ends first
};

}  // namespace

std::vector<std::string> words_of_srun(const QueuedJob& job) {
  const std::string nodes = std::to_string(job.nodes);
  std::vector<std::string> words = {"srun"};
  // Components of a heterogeneous job are reached through the first one.
  const std::size_t plus = job.number.find('+');
  if (plus == std::string::npos) {
    words.push_back("--jobid=" + job.id);
  } else {
    words.push_back("--jobid=" + job.number.substr(0, plus));
    words.push_back("--het-group=" + job.number.substr(plus + 1));
  }
  // It shares all that the job has and reserves nothing. It may use every cpu of the job (no --exact): bound to one, it
  // would always disturb the same rank. Limits of the login machine are not its own (--propagate).
  for (const char* option :
       {"--overlap", "--cpus-per-task=1", "--mem=0", "--gres=none", "--mpi=none", "--cpu-bind=none", "--no-kill",
        "--kill-on-bad-exit=0", "--wait=0", "--propagate=NONE", "--chdir=/", "--job-name=reveal-watch"}) {
    words.emplace_back(option);
  }
  words.push_back("--nodes=" + nodes);
  words.push_back("--ntasks=" + nodes);
  words.emplace_back("--ntasks-per-node=1");
  return words;
}

QueuedJob find_running_job(const std::string& number) {
  need_whole_job(number);
  std::vector<QueuedJob> listed;
  try {
    listed = listed_jobs(number);
  } catch (const Error& error) {
    throw Error("no directory " + number + " or reveal-" + number + " here, and squeue: " + error.what());
  }
  return running_job(number, std::move(listed));
}

WatchEnd watch_slurm_job(const QueuedJob& job, const std::vector<std::string>& on_node, const WatchOptions& options,
                         std::FILE* out, const std::atomic<bool>& stop) {
  return SlurmWatch(job, on_node, options, out).run(stop);
}

}  // namespace reveal
