// A cheap check every second: are many channels outside their ranges so far? It reports nothing; it only triggers the
// next detection run early.
#pragma once

#include <cstdint>
#include <vector>

#include "postproc/telemetry/row_store.h"

namespace reveal {

class PreFilter {
 public:
  /// Checks the window that ends here; windows come in the order of time.
  [[nodiscard]] bool alarmed_by(const RowStore& rows, std::int64_t until_ns);

 private:
  struct Range {
    double low = 0;
    double high = 0;
    int windows = 0;
  };
  std::vector<std::vector<Range>> ranges_;  // [family][channel]
};

}  // namespace reveal
