// The output of `reveal watch`: one line or one JSON object per alert, or a page that is drawn again every second.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "postproc/live/alert_notice.h"
#include "postproc/live/node_view.h"
#include "postproc/live/silent_nodes.h"

namespace reveal {

struct ViewStyle {
  std::size_t width = 80;
  std::size_t height = 24;
  bool colour = false;
  bool blocks = false;  // the terminal shows UTF-8
};

/// The watched job at this moment.
struct WatchedJob {
  std::string title;  // its directory or number
  std::vector<NodeView> nodes;
  std::int64_t runs = 0;  // detection runs on all nodes
  std::int64_t runs_skipped = 0;
  std::optional<double> most_on_node = {};  // percent of a core that watching takes on its nodes, at most
  std::string hang = {};                    // ranks that wait for each other now; "": none are known to
};

struct WatchPage {
  const WatchedJob& job;
  const std::vector<AlertNotice>& alerts;  // the last news of each
  const std::vector<EarlierInterval>& earlier;
  double watching_percent = 0;  // percent of a core, for all of this program; NaN in the first second
  std::int64_t now_utc_ns = 0;
  std::string problem = {};  // the last one, for example with a place to which alerts are forwarded
};

[[nodiscard]] std::vector<HeardNode> heard_nodes(const std::vector<NodeView>& nodes);

/// News of the watch itself, not of the job.
struct WatchNotice {
  std::string news;  // waiting, watching, before, silent, heard_again, hang, hang_over, problem or ended
  std::int64_t published_utc_ns = 0;
  std::string text;
  bool operator==(const WatchNotice&) const = default;
};

struct EarlierNotice {
  WatchNotice notice;
  EarlierInterval interval;
  bool operator==(const EarlierNotice&) const = default;
};
[[nodiscard]] std::string words_of_earlier(const EarlierInterval& interval);

/// The last notice, with the cost of the watch.
struct WatchSummary {
  struct Node {
    std::string node;
    LiveState state = LiveState::waiting;
    double seconds = 0;  // seconds of the job
    std::size_t channels = 0;
    std::optional<double> collector_percent;
    std::int64_t heard_utc_ns = 0;  // its newest row
    std::optional<double> iterations_per_second, iteration;
    std::int64_t iterations_planned = 0;
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
[[nodiscard]] std::string earlier_json(const EarlierNotice& notice);
[[nodiscard]] std::string report_json(const NodeReport& report);
[[nodiscard]] std::string end_line(const WatchPage& page, const std::string& text);
[[nodiscard]] std::string end_json(const WatchSummary& summary);
/// Lines that fit into the style's width and height.
[[nodiscard]] std::vector<std::string> draw_page(const WatchPage& page, const ViewStyle& style);

}  // namespace reveal
