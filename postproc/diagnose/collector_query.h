// Asks the collector what can be measured. The analysis knows no probe itself: it prints what reveal-collect answers.
#pragma once

#include <string>
#include <vector>

namespace reveal {

/// Runs reveal-collect, found beside this program or in PATH, and returns its standard output. Throws Error when there
/// is none, when it fails, or when it answers with more than a few megabytes.
[[nodiscard]] std::string ask_collector(const std::vector<std::string>& arguments);

/// `reveal-collect --list-probes --json` with what is computed from it after the run: one more entry, "derived".
[[nodiscard]] std::string probes_as_json();
/// `reveal-collect --list-probes --markdown` with the same.
[[nodiscard]] std::string probes_as_markdown();
/// The JSON as text: every probe with its metrics.
[[nodiscard]] std::string probes_as_text(const std::string& json);
/// `reveal-collect --check --json` as text: what works on this node, what is missing and why.
[[nodiscard]] std::string check_as_text(const std::string& json);

}  // namespace reveal
