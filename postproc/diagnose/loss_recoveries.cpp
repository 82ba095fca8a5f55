// https://www.kernel.org/doc/html/latest/networking/snmp_counter.html
#include "postproc/diagnose/loss_recoveries.h"

#include <cmath>
#include <cstddef>

namespace reveal {

std::optional<std::vector<double>> recoveries_that_stood(const RuleContext& context) {
  auto stood = context.total_if_measured(kRecoveries);
  if (!stood) return std::nullopt;
  for (const std::string_view metric : kUndoneRecoveries) {
    const auto undone = context.total_if_measured(metric);
    if (!undone) continue;
    for (std::size_t t = 0; t < stood->size(); ++t) {
      if (!std::isnan((*undone)[t])) (*stood)[t] -= (*undone)[t];
    }
  }
  return stood;
}

std::string_view metric_of_duplicates(const RuleContext& context) {
  constexpr std::string_view kSegments = "tcpext.TCPDSACKRecvSegs";
  return context.total_if_measured(kSegments) ? kSegments : std::string_view("tcpext.TCPDSACKRecv");
}

}  // namespace reveal
