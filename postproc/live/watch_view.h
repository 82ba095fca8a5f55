// What `reveal watch` shows: one line or one JSON object per alert, or a page that is drawn again every second.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
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
  double watching_percent = 0;  // of a core, all of this program; NaN in the first second
  std::int64_t now_utc_ns = 0;
  std::string hang = {};  // ranks that wait for each other now; "": none are known to
};

/// The news of the watch itself, not of the job: one line, or one JSON object.
[[nodiscard]] std::string watch_line(std::int64_t now_utc_ns, const std::string& text);
[[nodiscard]] std::string watch_json(std::int64_t now_utc_ns, std::string_view news, const std::string& text);
[[nodiscard]] std::string alert_line(const AlertNotice& notice);
[[nodiscard]] std::string alert_json(const AlertNotice& notice);
/// The end, with what it cost: one line, or one JSON object.
[[nodiscard]] std::string end_line(const WatchPage& page, const std::string& how);
[[nodiscard]] std::string end_json(const WatchPage& page, const std::string& how);
/// Lines that fit into the style's width and height.
[[nodiscard]] std::vector<std::string> draw_page(const WatchPage& page, const ViewStyle& style);

/// "▁▃█": from 0 to the largest; a blank where nothing was measured.
[[nodiscard]] std::string sparkline(const std::deque<double>& values, std::size_t width);

}  // namespace reveal
