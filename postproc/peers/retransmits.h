// TCP segments that a node retransmitted, by peer and time. A sender counts the fate of the segments that its receiver
// seemed to miss: those that had arrived already are reported back as duplicates, lost ones are not.
// https://www.rfc-editor.org/rfc/rfc3708
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/finding.h"
#include "postproc/diagnose/sent_again.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// To one peer, in the slots with retransmits or duplicates: lists of one length. The last two have the parts that
/// belong to times at which packets overtook each other, and are empty where there are none.
struct RetransmitsTo {
  std::string peer;  // an address
  std::vector<double> slots;
  std::vector<double> segments;
  std::vector<double> duplicates;
  std::vector<double> overtaken = {};
  std::vector<double> overtaken_duplicates = {};
  bool operator==(const RetransmitsTo&) const = default;
};

struct Retransmits {
  std::int64_t begin_utc_ns = 0;     // begin of slot 0
  std::int64_t slot_ns = 0;          // longer where there are many, so that the lists stay short
  std::vector<RetransmitsTo> peers;  // peers for which both numbers were counted
  bool operator==(const Retransmits&) const = default;
};

[[nodiscard]] Retransmits retransmits_of(const Telemetry& telemetry);

/// To these addresses, in the slots that the span touches; nothing where it was not counted for any of them.
[[nodiscard]] std::optional<RetransmitCount> retransmits_in(const Retransmits& all,
                                                            std::span<const std::string> addresses, TimeSpan span);

}  // namespace reveal
