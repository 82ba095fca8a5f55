// Whether the ranks of a running job wait for each other and make no progress: the report's rule, applied to the newest
// rows.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/live/live_trace.h"
#include "postproc/live/watched_node.h"

namespace reveal {

class HangWatch {
 public:
  /// `settings` outlive it.
  explicit HangWatch(const AnalysisSettings& settings) : settings_(settings) {}

  enum class News : std::uint8_t { begun, over };
  struct Change {
    News news = News::begun;
    std::string sentence;
  };
  /// Looks every few seconds, and returns the changes.
  [[nodiscard]] std::optional<Change> look(std::span<const std::unique_ptr<WatchedNode>> nodes,
                                           std::chrono::steady_clock::time_point now);
  /// The sentence of the hang that lasts; "" while there is none.
  [[nodiscard]] const std::string& sentence() const { return sentence_; }
  /// The calls of ranks are measured on one of the nodes.
  [[nodiscard]] bool has_calls() const { return has_calls_; }

 private:
  const AnalysisSettings& settings_;
  std::chrono::steady_clock::time_point next_{};
  std::chrono::steady_clock::time_point first_seen_{};
  std::string sentence_;
  bool has_calls_ = false;
  int missed_ = 0;  // looks in a row that saw no hang
};

struct SeenHang {
  std::string sentence;
  bool detailed = false;  // the newest collectives of all ranks are known
};

/// The hang that lasts while these rows are the newest ones; no sentence while there is none, where calls are not
/// measured, and where the rule is switched off or muted.
[[nodiscard]] SeenHang hang_in(std::span<LiveTrace* const> nodes, const AnalysisSettings& settings);

}  // namespace reveal
