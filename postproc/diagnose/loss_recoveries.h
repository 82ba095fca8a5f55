// Recoveries of a node's connections from lost segments. Each segment sent again too early begins one, too, but the
// kernel undoes those as soon as it learns that the segments had arrived: the others are from losses.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "postproc/diagnose/rule.h"

namespace reveal {

inline constexpr std::string_view kRecoveries = "tcpext.TCPSackRecovery";
/// Recoveries that were undone: by time stamps (RFC 4015), for all or the first of their segments, or by reports of
/// duplicates (RFC 3708).
inline constexpr std::array<std::string_view, 3> kUndoneRecoveries = {"tcpext.TCPFullUndo", "tcpext.TCPPartialUndo",
                                                                      "tcpext.TCPDSACKUndo"};

/// Returns the recoveries per step less those that were undone in it. Nothing if they were not measured.
[[nodiscard]] std::optional<std::vector<double>> recoveries_that_stood(const RuleContext& context);

/// The counter of segments that had arrived already; on older kernels that of reports, each of which may be of several.
[[nodiscard]] std::string_view metric_of_duplicates(const RuleContext& context);

}  // namespace reveal
