// What a node sent again over TCP, by peer and time. A sender counts what became of the segments that its receiver
// seemed to miss: those that had arrived already are reported back as duplicates, those that were lost are not.
// https://www.rfc-editor.org/rfc/rfc3708
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/finding.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// To one peer, in the slots in which something was sent again or reported as a duplicate; three lists of one length.
struct SentAgainTo {
  std::string peer;  // an address
  std::vector<double> slots;
  std::vector<double> segments;
  std::vector<double> duplicates;
  bool operator==(const SentAgainTo&) const = default;
};

struct SentAgain {
  std::int64_t begin_utc_ns = 0;   // of slot 0
  std::int64_t slot_ns = 0;        // longer where much was sent again, so that the lists stay short
  std::vector<SentAgainTo> peers;  // of which both numbers were counted
  bool operator==(const SentAgain&) const = default;
};

[[nodiscard]] SentAgain sent_again_of(const Telemetry& telemetry);

/// Segments sent again, and those of them that had arrived already. Kernels without TCPDSACKRecvSegs count one for each
/// report of several: then too few seem to have arrived, and too many to be lost.
struct AgainInSpan {
  double segments = 0;
  double duplicates = 0;
};
/// To these addresses, in the slots that the span touches; nothing where it was not counted for any of them.
[[nodiscard]] std::optional<AgainInSpan> sent_again_in(const SentAgain& all, std::span<const std::string> addresses,
                                                       TimeSpan span);

}  // namespace reveal
