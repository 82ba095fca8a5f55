// Cause before symptom: which finding brings another one about, so that one disturbance is one finding with its
// chain. Two findings that no row of the table links stay two.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/finding.h"

namespace reveal {

/// A rule with findings that explain those of another rule, if both were seen on one node at the same time.
struct CausalLink {
  std::string_view cause;
  std::string_view effect;
  std::string_view words;  // the effect, as a result of the cause: "packets dropped by that cpu"; "" for the same fact
  /// It comes long after its cause, which must be worth acting on by itself; others come within seconds.
  bool late = false;
  /// Only of one and the same port, disk or GPU.
  bool same_device = false;
  /// Seconds around an interval of the cause to which its effect may reach.
  double before = 1;  // the accuracy of the ends of an interval
  double after = 5;   // queues drain, timers run out
  /// Only where no other node has the cause at that time: a setting or a server that all nodes have alike does not make
  /// one of them slower than the others.
  bool alone = false;
};
[[nodiscard]] std::span<const CausalLink> causal_links() noexcept;
[[nodiscard]] bool is_cause_of(std::string_view cause, std::string_view effect) noexcept;

/// Sets `caused_by` and `first_cause` of each finding that findings of another rule explain: all its intervals but a
/// fifth lie within reach of theirs, and its rule found something there within ten seconds of their beginning, so that
/// a permanent state explains nothing that comes later. Before findings of one rule are merged: of two intervals of a
/// rule, one may have a cause and the other none.
void find_causes(std::vector<Finding>& findings);

/// The first cause of a chain gets the words of the chain, and the chain's greatest severity and cost.
void describe_chains(std::vector<Finding>& findings);

/// The findings of the chain that begins with this one, else those that it led to directly; in order of their onset.
[[nodiscard]] std::vector<const Finding*> effects_of(const Finding& cause, std::span<const Finding> findings);

}  // namespace reveal
