// Cause before symptom: which finding brings another one about, so that one disturbance is one finding that tells its
// chain. Two findings that no row of the table links stay two.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/finding.h"

namespace reveal {

/// A rule whose finding explains another rule's, where they were seen at the same time.
struct CausalLink {
  std::string_view cause;
  std::string_view effect;
  std::string_view words;  // the effect, as what the cause led to: "packets dropped by that cpu"
  /// What one node suffers, another one sees: the sender of packets that the receiver drops.
  bool across_nodes = false;
  /// It comes long after its cause, which must be worth acting on by itself; others come within seconds.
  bool late = false;
};
[[nodiscard]] std::span<const CausalLink> causal_links() noexcept;

/// Sets `caused_by` of each finding that another one of them explains: all its intervals but a fifth lie in the
/// other's, or up to five seconds behind, and it began with the other or within ten seconds, so that what has been
/// there all the time explains nothing that comes later. The first cause of a chain gets the words of the chain, and
/// the chain's greatest severity and cost. At most one finding per rule.
void link_causes(std::vector<Finding>& findings);

/// The findings that this one led to, directly or not, in order of their onset.
[[nodiscard]] std::vector<const Finding*> effects_of(const Finding& cause, std::span<const Finding> findings);

}  // namespace reveal
