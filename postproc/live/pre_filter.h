// A cheap question asked every second: does much of the node lie outside everything it did before? It decides nothing;
// it only says that the next detection run should not wait.
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
