// The metrics that `reveal probes` lists.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "postproc/diagnose/collector_query.h"

namespace reveal {

class ListedMetrics {
 public:
  ListedMetrics() {
    for (const auto& probe : nlohmann::json::parse(probes_as_json())) {
      for (const auto& metric : probe.at("metrics")) {
        std::string name = metric.at("name");
        // "mem.<key>" stands for every key.
        if (const std::size_t open = name.find('<'); open != std::string::npos) {
          name.replace(open, name.find('>') + 1 - open, "*");
        }
        if (name != "*") patterns_.push_back(std::move(name));  // the site's own may have any name
      }
    }
  }
  [[nodiscard]] bool has(const std::string& metric) const {
    return std::any_of(patterns_.begin(), patterns_.end(),
                       [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), metric.c_str(), 0) == 0; });
  }
  [[nodiscard]] const std::vector<std::string>& patterns() const { return patterns_; }

 private:
  std::vector<std::string> patterns_;
};

}  // namespace reveal
