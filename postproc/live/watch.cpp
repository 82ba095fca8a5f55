#include "postproc/live/watch.h"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "postproc/live/hang_watch.h"
#include "postproc/live/silent_nodes.h"
#include "postproc/live/watch_view.h"
#include "postproc/live/watched_node.h"
#include "postproc/words/sparkline.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPoll = 50ms;
constexpr auto kList = 1s;
constexpr auto kDraw = 1s;
constexpr auto kSilence = 5s;                  // nodes that fall silent together are named together
constexpr auto kEmptyDirectoryPatience = 10s;  // with a directory that does not look like a run's
constexpr auto kSettled = 2s;                  // a node that begins while another one ends
constexpr double kLostSeconds = 60;
constexpr std::string_view kTrace = ".h5";
constexpr std::string_view kPart = ".h5.part";

/// Draws over the page before; the last one stays when the object goes.
class Screen {
 public:
  Screen(std::FILE* out, bool colour) : out_(out), colour_(colour), utf8_(writes_utf8()) { put("\x1b[?25l"); }
  ~Screen() { put("\x1b[?25h"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void draw(const WatchPage& page) {
    ViewStyle style{.colour = colour_, .blocks = utf8_};
    winsize size{};
    if (::ioctl(::fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 2) {
      style.width = size.ws_col - 1U;
      style.height = size.ws_row - 1U;  // the cursor stands below
    }
    std::string text = drawn_ > 0 ? fmt::format("\x1b[{}A\r", std::min(drawn_, style.height)) : "";
    const std::vector<std::string> lines = draw_page(page, style);
    for (const std::string& line : lines) text += line + "\x1b[K\n";
    text += "\x1b[J";
    drawn_ = lines.size();
    put(text);
  }

 private:
  void put(const std::string& text) const {
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
  }

  std::FILE* out_;
  bool colour_;
  bool utf8_;
  std::size_t drawn_ = 0;
};

class Watch {
 public:
  Watch(const WatchOptions& options, std::FILE* out)
      : options_(options), out_(out), budget_(options.share), hangs_(options.settings), forwarding_(options.forward) {}

  WatchEnd run(const std::atomic<bool>& stop) {
    list_nodes();
    if (const auto end = ended(Clock::now())) return *end;
    if (options_.form == WatchForm::page) screen_.emplace(out_, options_.colour);
    bool reported_begin = false;
    bool reported_waiting = false;
    while (!stop) {
      const Clock::time_point now = Clock::now();
      if (nodes_.empty()) {
        if (!std::exchange(reported_waiting, true)) {
          say("waiting", "no trace in " + options_.directory.string() + " yet; waiting for a run to start");
        }
        if (holds_other_files_ && now - began_ > kEmptyDirectoryPatience) {
          throw Error(options_.directory.string() + " holds no run: no NODE.h5.part or NODE.h5 in it");
        }
      } else if (!std::exchange(reported_begin, true)) {
        say("watching",
            "watching " + options_.directory.string() + ": one line per alert; the report at the end names the cause");
      }
      if (now >= next_list_) {
        next_list_ = now + kList;
        list_nodes();
      }
      for (const auto& node : nodes_) {
        for (AlertNotice& notice : node->advance(now, budget_)) publish(std::move(notice));
      }
      if (const auto hang = hangs_.look(nodes_, now)) report_hang(*hang);
      report_problems();
      if (now >= next_silence_) {
        next_silence_ = now + kSilence;
        for (const SilentNodes::Change& change : silence_.look(heard_nodes())) say(change.news, change.sentence);
      }
      if (screen_ && now >= next_draw_) {
        next_draw_ = now + kDraw;
        screen_->draw(page());
      }
      if (const auto end = ended(now)) return *end;
      std::this_thread::sleep_for(kPoll);
    }
    say_end(nodes_.empty() ? "stopped watching; no run has started in " + options_.directory.string()
                           : "stopped watching; this does not end the job");
    return WatchEnd::stopped;
  }

 private:
  /// NODE.h5.part is being written; a NODE.h5 that was closed before we came is of no interest.
  void list_nodes() {
    std::error_code error;
    std::filesystem::directory_iterator entries(options_.directory, error);
    if (error) {
      if (!nodes_.empty()) return;  // it may come back
      throw Error(options_.directory.string() + ": " + error.message());
    }
    for (const auto& entry : entries) {
      const std::string name = entry.path().filename().string();
      if (name.front() == '.') continue;
      if (name.ends_with(kTrace)) ended_before_ = true;
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

  [[nodiscard]] std::vector<HeardNode> heard_nodes() const {
    std::vector<HeardNode> heard;
    heard.reserve(nodes_.size());
    for (const auto& node : nodes_) {
      heard.push_back(
          {node->trace().node(), node->trace().state() == LiveState::silent, node->heard_utc_ns(), node->ended()});
    }
    return heard;
  }

  [[nodiscard]] WatchPage page() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    return {.directory = options_.directory.string(),
            .nodes = nodes_,
            .alerts = alerts_,
            .budget = budget_,
            .watching_percent = seconds >= 1 ? 100 * (cpu_seconds() - cpu_before_) / seconds : std::nan(""),
            .now_utc_ns = utc_now_ns(),
            .hang = hangs_.sentence(),
            .silence = silence_of(heard_nodes()),
            .problem = problem_};
  }

  void say(std::string_view news, const std::string& text) { say({std::string(news), utc_now_ns(), text}); }

  void say(const WatchNotice& notice) {
    if (options_.form == WatchForm::lines) put_line(watch_line(notice));
    if (options_.form == WatchForm::json) put_line(watch_json(notice));
  }

  /// It concerns the whole job, and is forwarded as alerts are.
  void report_hang(const HangWatch::Change& change) {
    const WatchNotice notice{change.news == HangWatch::News::begun ? "hang" : "hang_over", utc_now_ns(),
                             change.sentence};
    say(notice);
    forwarding_.forward({notice.published_utc_ns, notice.news, watch_json(notice)});
  }

  void report_problems() {
    for (std::string& problem : forwarding_.take_problems()) {
      say("problem", problem);
      problem_ = std::move(problem);
    }
  }

  void put_line(const std::string& line) {
    std::fputs((line + "\n").c_str(), out_);
    if (std::fflush(out_) != 0) throw Error("standard output: cannot be written");
  }

  void publish(AlertNotice notice) {
    if (options_.form == WatchForm::lines) put_line(alert_line(notice));
    if (options_.form == WatchForm::json) put_line(alert_json(notice));
    forwarding_.forward({notice.published_utc_ns,
                         fmt::format("{}-{}-{}", name_of(notice.news), notice.number, notice.node),
                         alert_json(notice)});
    const auto known = std::find_if(alerts_.begin(), alerts_.end(), [&](const AlertNotice& other) {
      return other.node == notice.node && other.number == notice.number;
    });
    if (known != alerts_.end()) alerts_.erase(known);
    alerts_.push_back(std::move(notice));
  }

  void say_end(const std::string& text) {
    forwarding_.finish();
    report_problems();
    if (screen_) {
      screen_->draw(page());
      screen_.reset();
    }
    put_line(options_.form == WatchForm::json ? end_json(watch_summary(page(), text)) : end_line(page(), text));
  }

  std::optional<WatchEnd> ended(Clock::time_point now) {
    if (nodes_.empty()) {
      if (!ended_before_) return std::nullopt;
      say_end("the job has ended; its report: reveal show " + options_.directory.string());
      return WatchEnd::job_ended;
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
      say_end("the job has ended" + (lost.empty() ? "" : " (no more data from " + lost + ")") +
              "; its report: reveal show " + options_.directory.string());
      return WatchEnd::job_ended;
    }
    say_end(
        fmt::format("no data for {:.0f} s, and no trace was closed: the collector or its node is gone", kLostSeconds));
    return WatchEnd::nodes_lost;
  }

  const WatchOptions& options_;
  std::FILE* out_;
  CpuBudget budget_;
  std::vector<std::filesystem::path> traces_;
  std::vector<std::unique_ptr<WatchedNode>> nodes_;
  std::vector<AlertNotice> alerts_;
  HangWatch hangs_;
  SilentNodes silence_;
  AlertForwarding forwarding_;
  std::string problem_;  // the last one
  std::optional<Screen> screen_;
  bool ended_before_ = false;
  bool holds_other_files_ = false;
  Clock::time_point began_ = Clock::now();
  double cpu_before_ = cpu_seconds();
  Clock::time_point next_list_{};
  Clock::time_point next_draw_{};
  Clock::time_point next_silence_{};
  Clock::time_point over_since_ = Clock::time_point::max();
};

}  // namespace

WatchEnd watch_job(const WatchOptions& options, std::FILE* out, const std::atomic<bool>& stop) {
  return Watch(options, out).run(stop);
}

}  // namespace reveal
