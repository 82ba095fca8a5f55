// Everything that a watch prints and forwards, in the form that was chosen. Where the news comes from is the caller's.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "postproc/live/alert_forwarding.h"
#include "postproc/live/silent_nodes.h"
#include "postproc/live/watch.h"
#include "postproc/live/watch_view.h"

namespace reveal {

class WatchOutput {
 public:
  /// Throws Error if alerts cannot be forwarded. `options` outlive it.
  WatchOutput(const WatchOptions& options, std::FILE* out);
  ~WatchOutput();
  WatchOutput(const WatchOutput&) = delete;
  WatchOutput& operator=(const WatchOutput&) = delete;

  void begin_page();
  void say(const std::string& news, const std::string& text);
  void publish(AlertNotice notice);
  void publish_earlier(const EarlierInterval& interval);
  /// It concerns the whole job, and is forwarded as alerts are.
  void publish_hang(bool begun, const std::string& sentence);
  void publish_silence(const WatchedJob& job);
  /// For WatchForm::step.
  void send(const NodeReport& report);
  void say_problem(const std::string& problem);
  void say_problems_of_forwarding();
  /// Once a second.
  void draw(const WatchedJob& job);
  void say_end(const WatchedJob& job, const std::string& text);
  /// The processor time of this program in percent of a core; NaN in the first second.
  [[nodiscard]] double watching_percent() const;

 private:
  class Screen;
  void put_line(const std::string& line);
  void put_news(const std::string& line, const std::string& json);
  [[nodiscard]] WatchPage page_of(const WatchedJob& job) const;

  const WatchOptions& options_;
  std::FILE* out_;
  std::vector<AlertNotice> alerts_;
  std::vector<EarlierInterval> earlier_;
  SilentNodes silence_;
  AlertForwarding forwarding_;
  std::string problem_;  // the last one
  std::unique_ptr<Screen> screen_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point next_draw_{};
  std::chrono::steady_clock::time_point next_silence_{};
  double cpu_before_;
};

}  // namespace reveal
