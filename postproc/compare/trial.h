// A command with and without a line, again and again in the order ABBA, so that slow changes meanwhile (a warming cpu,
// a filling cache) count for both alike: exactly for an even number of pairs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "postproc/compare/job_comparison.h"
#include "postproc/compare/script_patch.h"

namespace reveal {

enum class TrialSide : std::uint8_t { without, with };

/// {without, with, with, without, ...}: of `pairs` pairs.
[[nodiscard]] std::vector<TrialSide> abba_order(std::size_t pairs);

struct Trial {
  std::string line;     // as it was given
  std::string command;  // as it was typed
  std::size_t warmup = 0;
  std::vector<double> without, with;  // seconds of each run, in their order
  std::optional<MeanDifference> difference;
  TimeChange change = TimeChange::not_known;
  std::string sentence;
  std::string stopped;  // why fewer runs were made than requested, or ""
  std::string keep;     // the text to type from now on, if the line helps
  ScriptPatch patch;
};

/// Computes difference, change and sentence from the complete pairs of runs.
void conclude_trial(Trial& trial);

[[nodiscard]] std::string trial_as_text(const Trial& trial, const TextStyle& style);
/// Schema reveal.try/1.
[[nodiscard]] std::string trial_as_json(const Trial& trial);

}  // namespace reveal
