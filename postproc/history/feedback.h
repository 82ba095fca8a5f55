// "This was not a problem": the word of a user about a finding of one of his jobs, kept in his own state directory and
// honoured by the next reports of the same program and shape.
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

/// The oldest first; nothing where there is no file. Throws Error where it cannot be read.
[[nodiscard]] std::vector<Feedback> read_feedback(const std::filesystem::path& state);

/// Replaces earlier words about the same. Throws Error.
void add_feedback(const std::filesystem::path& state, const Feedback& said);
/// Takes back what was said about the same; false if nothing was. Throws Error.
[[nodiscard]] bool take_back_feedback(const std::filesystem::path& state, const Feedback& said);

/// Lowers findings of the run with this key to an observation and says why. A critical fact, such as broken hardware,
/// stays critical: it concerns others, too.
void honour_feedback(std::span<const Feedback> feedback, std::string_view key, std::vector<Finding>& findings);

}  // namespace reveal
