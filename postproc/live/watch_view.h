// The output of `reveal watch`: one line or one JSON object per alert, or a page that is drawn again every second.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "postproc/live/watched_node.h"

namespace reveal {

struct ViewStyle {
  std::size_t width = 80;
  std::size_t height = 24;
  bool colour = false;
  bool blocks = false;  // the terminal shows UTF-8
};

struct WatchPage {
  std::string directory;
  const std::vector<std::unique_ptr<WatchedNode>>& nodes;
  const std::vector<AlertNotice>& alerts;  // the last word on each
  const CpuBudget& budget;
  double watching_percent = 0;  // percent of a core, for all of this program; NaN in the first second
  std::int64_t now_utc_ns = 0;
  std::string hang = {};     // ranks that wait for each other now; "": none are known to
  std::string silence = {};  // nodes of which nothing is heard; "": none
  std::string problem = {};  // with a place to which alerts are forwarded
};

/// News of the watch itself, not of the job.
struct WatchNotice {
  std::string news;  // waiting, watching, silent, heard_again, hang, hang_over, problem or ended
  std::int64_t published_utc_ns = 0;
  std::string text;
  bool operator==(const WatchNotice&) const = default;
};

/// The last notice, with the cost of the watch.
struct WatchSummary {
  struct Node {
    std::string node;
    LiveState state = LiveState::waiting;
    double seconds = 0;  // seconds of the job
    std::size_t channels = 0;
    std::optional<double> collector_percent;
    std::int64_t heard_utc_ns = 0;  // its newest row
    bool operator==(const Node&) const = default;
  };
  WatchNotice notice;
  std::optional<double> watching_percent;
  std::int64_t runs = 0;
  std::int64_t runs_skipped = 0;
  std::vector<Node> nodes;
  bool operator==(const WatchSummary&) const = default;
};
[[nodiscard]] WatchSummary watch_summary(const WatchPage& page, const std::string& text);

/// One line, or one JSON object.
[[nodiscard]] std::string watch_line(const WatchNotice& notice);
[[nodiscard]] std::string watch_json(const WatchNotice& notice);
[[nodiscard]] std::string alert_line(const AlertNotice& notice);
[[nodiscard]] std::string alert_json(const AlertNotice& notice);
[[nodiscard]] std::string end_line(const WatchPage& page, const std::string& text);
[[nodiscard]] std::string end_json(const WatchSummary& summary);
/// Lines that fit into the style's width and height.
[[nodiscard]] std::vector<std::string> draw_page(const WatchPage& page, const ViewStyle& style);

}  // namespace reveal
