// A change to the running job that reveal may try where the site allows it. It stays inside the job: it needs no
// privilege, takes nothing from others, and can be taken back. One kind is one file in this folder with a class and a
// registration line; trials.h decides when it is tried, and whether it helped.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/intervention/thread_masks.h"
#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/sampler/host.h"

namespace reveal {

/// The job on this node over the last second or so.
struct JobLoad {
  double seconds = 0;
  double waiting = 0;             // threads that were ready and had no cpu, on average
  double used = 0;                // cpus
  bool all_waiting_known = true;  // otherwise more threads may have waited
};

/// Everything that a kind may look at, and the only thing that it may change. All of it outlives the kind.
struct InterventionContext {
  KernelTree& fs;
  const Job& job;
  const Host& host;
  ThreadMasks& masks;
  uid_t user = 0;             // processes of others stay as they are
  bool batch_system = false;  // the node may belong to other jobs, too
};

/// The finding, as far as one second shows it.
struct SeenFinding {
  bool finding = false;  // it is there
  std::string refused;   // why it is left alone; "": it may be acted on
};

struct Change {
  std::size_t threads = 0;  // that were changed
  std::string text;         // the change in words, without a subject; if there was none, the reason
};

class Intervention {
 public:
  virtual ~Intervention() = default;
  /// Once a second, while nothing is tried.
  virtual SeenFinding look(const JobLoad& load) = 0;
  /// Acts on the finding of the last look.
  virtual Change apply() = 0;
  /// Takes the last change back, where the job has not changed the same thing since.
  virtual Change undo() = 0;
};

struct InterventionSpec {
  std::string_view rule;  // id of the rule with the finding
  std::unique_ptr<Intervention> (*open)(const InterventionContext&) = nullptr;
};

/// A user can only refuse, and does so by any word that does not allow it.
[[nodiscard]] bool refuses(std::string_view word) noexcept;

/// All registered kinds, by rule.
[[nodiscard]] const std::vector<InterventionSpec>& interventions();
/// Null for a rule without one.
[[nodiscard]] const InterventionSpec* find_intervention(std::string_view rule);

struct RegisteredIntervention {
  explicit RegisteredIntervention(const InterventionSpec& spec);
};

}  // namespace reveal
