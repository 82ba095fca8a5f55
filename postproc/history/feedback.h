// Feedback: a user records that a finding of a job was not a problem. It is kept in the user's state directory and
// applied to the next reports of the same program and shape.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/finding.h"

namespace reveal {

struct Feedback {
  std::string key;          // RunRecord::key: of the program and its shape
  std::string job;          // its name, for lists
  std::string rule;         // id
  std::string fingerprint;  // only the finding on these nodes and things; "": each finding of the rule
  std::string words;        // "was not a problem"
  std::int64_t said_utc_ns = 0;
  bool operator==(const Feedback&) const = default;
};

inline constexpr const char* kFeedbackFile = "feedback.json";

/// The oldest first; empty without a file. Throws Error if the file cannot be read.
[[nodiscard]] std::vector<Feedback> read_feedback(const std::filesystem::path& state);

/// Replaces earlier feedback on the same finding. Throws Error.
void add_feedback(const std::filesystem::path& state, const Feedback& said);
/// Deletes the feedback on the same finding; false if there is none. Throws Error.
[[nodiscard]] bool take_back_feedback(const std::filesystem::path& state, const Feedback& said);

/// Lowers findings of the run with this key to an observation, with the reason. A critical fact, such as broken
/// hardware, stays critical: it concerns other users, too.
void apply_feedback(std::span<const Feedback> feedback, std::string_view key, std::vector<Finding>& findings);

}  // namespace reveal
