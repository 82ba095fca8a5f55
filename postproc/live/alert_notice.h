// An alert as it is published.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "postproc/live/alert_book.h"

namespace reveal {

struct AlertNotice {
  AlertNews news = AlertNews::opened;
  std::int64_t published_utc_ns = 0;
  std::string node;
  int number = 0;  // within the node
  AlertState state = AlertState::open;
  Tier tier = Tier::none;
  std::int64_t begin_utc_ns = 0;
  std::int64_t end_utc_ns = 0;  // so far, while it is open
  Subsystem subsystem = Subsystem::cpu;
  double score = 0;
  std::vector<Method> methods;
  std::vector<Label> labels;
  std::string claim;
  struct Reason {
    std::string channel, unit;
    std::optional<double> observed, expected;
    double share = 0;
    std::string program = {};  // name of its process; "": it has none, or it is not known
    bool operator==(const Reason&) const = default;
  };
  std::vector<Reason> reasons;
  std::int64_t window_end_utc_ns = 0;  // time of the newest row in the detection run
  std::int64_t last_run_utc_ns = 0;    // time of the newest row in the detection run before
  bool operator==(const AlertNotice&) const = default;
};

}  // namespace reveal
