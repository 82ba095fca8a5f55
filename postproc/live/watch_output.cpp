#include "postproc/live/watch_output.h"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "postproc/live/step_lines.h"
#include "postproc/words/sparkline.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kDraw = 1s;
constexpr auto kSilence = 5s;  // nodes that fall silent together are named together
constexpr std::size_t kMostAlerts = 1000;
constexpr std::size_t kMostEarlier = 100;

/// The number of this task in its step.
std::size_t task_of_step() {
  const char* task = std::getenv("SLURM_PROCID");
  return task == nullptr ? 0 : static_cast<std::size_t>(std::strtoul(task, nullptr, 10));
}

}  // namespace

/// Draws over the page before; the last one stays when the object goes.
class WatchOutput::Screen {
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
    // Letters of two columns, as in Chinese names, make a line wider than it has letters: it must not wrap.
    std::string text = "\x1b[?7l" + (drawn_ > 0 ? to_begin_of_page(style) : "");
    const std::vector<std::string> lines = draw_page(page, style);
    for (const std::string& line : lines) text += line + "\x1b[K\n";
    text += "\x1b[J\x1b[?7h";
    drawn_ = lines.size();
    width_ = style.width;
    height_ = style.height;
    put(text);
  }

 private:
  /// A terminal that was resized has wrapped the lines anew, and nobody knows how many there are: it is cleared.
  [[nodiscard]] std::string to_begin_of_page(const ViewStyle& style) const {
    if (style.width != width_ || style.height != height_) return "\x1b[2J\x1b[H";
    return fmt::format("\x1b[{}A\r", drawn_);
  }

  void put(const std::string& text) const {
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
  }

  std::FILE* out_;
  bool colour_;
  bool utf8_;
  std::size_t drawn_ = 0;               // lines
  std::size_t width_ = 0, height_ = 0;  // size of the terminal at that time
};

WatchOutput::WatchOutput(const WatchOptions& options, std::FILE* out)
    : options_(options), out_(out), forwarding_(options.forward), cpu_before_(cpu_seconds()) {}

WatchOutput::~WatchOutput() = default;

void WatchOutput::begin_page() {
  if (options_.form == WatchForm::page) screen_ = std::make_unique<Screen>(out_, options_.colour);
}

void WatchOutput::put_line(const std::string& line) {
  std::fputs(line.c_str(), out_);
  if (std::fflush(out_) != 0) throw Error("standard output: cannot be written");
}

void WatchOutput::put_news(const std::string& line, const std::string& json) {
  if (options_.form == WatchForm::lines) put_line(line + "\n");
  if (options_.form == WatchForm::json) put_line(json + "\n");
  if (options_.form == WatchForm::step) put_line(step_lines(task_of_step(), json));
}

void WatchOutput::say(const std::string& news, const std::string& text) {
  const WatchNotice notice{news, utc_now_ns(), text};
  put_news(watch_line(notice), watch_json(notice));
}

void WatchOutput::publish_hang(bool begun, const std::string& sentence) {
  const WatchNotice notice{begun ? "hang" : "hang_over", utc_now_ns(), sentence};
  put_news(watch_line(notice), watch_json(notice));
  forwarding_.forward({notice.published_utc_ns, notice.news, watch_json(notice)});
}

void WatchOutput::publish(AlertNotice notice) {
  const std::string json = alert_json(notice);
  put_news(alert_line(notice), json);
  forwarding_.forward(
      {notice.published_utc_ns, fmt::format("{}-{}-{}", name_of(notice.news), notice.number, notice.node), json});
  const auto known = std::find_if(alerts_.begin(), alerts_.end(), [&](const AlertNotice& other) {
    return other.node == notice.node && other.number == notice.number;
  });
  if (known != alerts_.end()) alerts_.erase(known);
  alerts_.push_back(std::move(notice));
  if (alerts_.size() > kMostAlerts) alerts_.erase(alerts_.begin());
}

void WatchOutput::publish_earlier(const EarlierInterval& interval) {
  const EarlierNotice notice{{"before", utc_now_ns(), words_of_earlier(interval)}, interval};
  put_news(watch_line(notice.notice), earlier_json(notice));
  if (earlier_.size() < kMostEarlier) earlier_.push_back(interval);
}

void WatchOutput::publish_silence(const WatchedJob& job) {
  const Clock::time_point now = Clock::now();
  if (now < next_silence_) return;
  next_silence_ = now + kSilence;
  for (const SilentNodes::Change& change : silence_.look(heard_nodes(job.nodes))) say(change.news, change.sentence);
}

void WatchOutput::send(const NodeReport& report) {
  put_line(step_lines(task_of_step(), report_json(report)));
}

void WatchOutput::say_problem(const std::string& problem) {
  say("problem", problem);
  problem_ = problem;
}

void WatchOutput::say_problems_of_forwarding() {
  for (const std::string& problem : forwarding_.take_problems()) say_problem(problem);
}

void WatchOutput::draw(const WatchedJob& job) {
  const Clock::time_point now = Clock::now();
  if (screen_ == nullptr || now < next_draw_) return;
  next_draw_ = now + kDraw;
  screen_->draw(page_of(job));
}

void WatchOutput::say_end(const WatchedJob& job, const std::string& text) {
  forwarding_.finish();
  say_problems_of_forwarding();
  const WatchPage page = page_of(job);
  if (screen_ != nullptr) {
    screen_->draw(page);
    screen_.reset();
  }
  const std::string json = end_json(watch_summary(page, text));
  if (options_.form == WatchForm::page) put_line(end_line(page, text) + "\n");
  put_news(end_line(page, text), json);
}

double WatchOutput::watching_percent() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  return seconds >= 1 ? 100 * (cpu_seconds() - cpu_before_) / seconds : std::numeric_limits<double>::quiet_NaN();
}

WatchPage WatchOutput::page_of(const WatchedJob& job) const {
  return {.job = job,
          .alerts = alerts_,
          .earlier = earlier_,
          .watching_percent = watching_percent(),
          .now_utc_ns = utc_now_ns(),
          .problem = problem_};
}

}  // namespace reveal
