// Tries what the site allows, one change at a time, a few times for each job and node: it is made after the finding was
// there for some seconds without a break, its effect is measured, and it is taken back if it did not help. Everything
// is an event of the trace, with the rule as its object: hdf5schema/README.md lists the codes. A collector that ends
// meanwhile takes the change back. One that is killed leaves it as it is: it is inside the job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/intervention/intervention.h"
#include "hdf5schema/vocabulary.h"

namespace reveal {

/// Sums since the start; kMissing where they are not known.
struct JobTimes {
  std::int64_t waiting_ns = kMissing;  // threads that were ready and had no cpu
  std::int64_t used_ns = kMissing;     // cpu time
  bool all_waiting_known = true;       // no thread is left out
};

class Trials {
 public:
  static constexpr std::size_t kBefore = 10;  // seconds with the finding, which the effect is compared with
  static constexpr std::size_t kAfter = 10;   // seconds in which it is measured
  static constexpr std::int64_t kSettleNs = 2'000'000'000;     // from the change until then
  static constexpr std::int64_t kPatienceNs = 60'000'000'000;  // for seconds that can be measured
  static constexpr int kMostTries = 3;
  // It helped if the job uses so much more cpu time, and its threads wait less by such a part of what it gained. A part
  // of the waiting itself would be no measure: of a hundred threads, 98 wait on two cpus instead of 99 on one. No more
  // relief is expected than there was waiting, and none where some of it is not known.
  static constexpr double kLeastGain = 1.1;
  static constexpr double kLeastRelief = 0.5;
  static constexpr double kLeastActive = 0.1;  // cpus used: a smaller part of those before is a stopped job

  using RecordEvent = std::function<void(const std::string& rule, const char* code, const std::string& text)>;

  /// `rules`: ids of the rules on whose findings may be acted.
  Trials(const InterventionContext& context, std::span<const std::string> rules, RecordEvent record);
  /// Whether the next look does something: once a second.
  [[nodiscard]] bool is_due(std::int64_t now_ns) const noexcept { return now_ns >= next_ns_; }
  /// Once per tick, or only where it is due.
  void look(std::int64_t now_ns, const JobTimes& times);
  /// Takes back what is under way.
  void end(const std::string& why);

 private:
  struct Trial {
    std::string rule;
    std::unique_ptr<Intervention> kind;
    std::vector<JobLoad> before, after;  // one for each second
    std::int64_t changed_ns = 0;
    int tries = 0;
    bool given_up = false;          // it did not help, or was tried often enough
    std::string refused;            // the reason of the last second
    std::size_t refused_for = 0;    // seconds
    std::set<std::string> reasons;  // that the trace has
  };

  std::optional<JobLoad> load_since_last(std::int64_t now_ns, const JobTimes& times);
  void watch(Trial& trial, std::int64_t now_ns, const JobLoad& load);
  void refuse(Trial& trial, const std::string& reason);
  void measure(Trial& trial, std::int64_t now_ns, const std::optional<JobLoad>& load);
  enum class Effect : std::uint8_t { known, not_known };
  void take_back(Trial& trial, const std::string& why, Effect effect);

  RecordEvent record_;
  std::vector<Trial> trials_;
  Trial* under_way_ = nullptr;
  std::int64_t next_ns_ = 0;
  std::int64_t last_ns_ = 0;
  JobTimes last_;
};

}  // namespace reveal
