// A node of a Slurm job as the watch on it reports it. All of it is data of the job's owner: lengths, numbers and
// characters are limited here.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "postproc/live/alert_notice.h"
#include "postproc/live/node_view.h"

namespace reveal {

class RemoteNode {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct News {
    std::vector<AlertNotice> alerts;
    std::vector<EarlierInterval> earlier;
    std::string problem;  // "" if there is none
  };
  /// A text of its watch. Texts that are not understood are left out; more than a watch sends are reported once.
  void take(const std::string& json, Time now, News& news);

  [[nodiscard]] bool heard() const { return heard_; }
  /// The job is not recorded there.
  [[nodiscard]] bool unrecorded() const { return report_.view.channels == 0 && !report_.view.problem.empty(); }
  [[nodiscard]] const NodeReport& report() const { return report_; }
  /// As a page shows it: silent if its watch sends nothing.
  [[nodiscard]] NodeView view(Time now) const;

 private:
  [[nodiscard]] bool may_send(Time now);
  void take_report(NodeReport report, Time now);

  NodeReport report_;
  std::vector<NodeView::Meter> history_;
  bool heard_ = false;
  bool named_ = false;  // a problem with its texts
  Time last_report_{};
  Time refilled_{};
  double allowance_ = 0;  // texts that it may still send
};

}  // namespace reveal
