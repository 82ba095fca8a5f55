// Queries the collector for the list of metrics. The analysis is independent of probes: it prints the answer of
// reveal-collect.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "hdf5schema/trace.h"
#include "postproc/json/json_fields.h"

namespace reveal {

/// Runs reveal-collect, found beside this program or in PATH, and returns its standard output. Throws Error when there
/// is none, when it fails, or when it answers with more than a few megabytes.
[[nodiscard]] std::string query_collector(const std::vector<std::string>& arguments);

struct NodeRecording {
  std::filesystem::path trace;
  std::filesystem::path root = "/";          // else a copied tree or a recording
  std::chrono::milliseconds duration{2000};  // length of the recording
  std::chrono::milliseconds limit{30'000};   // limit for all: a file system that hangs must not hold the caller
};
/// Runs reveal-collect without a job. Throws Error when it fails, in its own words, or takes longer than the limit.
void record_node(const NodeRecording& recording);

/// `reveal-collect --list-probes --json` with one more entry, "derived", for metrics computed after the run.
[[nodiscard]] std::string probes_as_json();
/// `reveal-collect --list-probes --markdown` with the same.
[[nodiscard]] std::string probes_as_markdown();
/// The JSON as text: every probe with its metrics, in lines of at most `width` where words allow it.
[[nodiscard]] std::string probes_as_text(const std::string& json, std::size_t width);

/// The entry of one probe; throws Error naming the near one for an unknown name.
[[nodiscard]] std::string probe_as_json(const std::string& json, const std::string& name);
/// The same as text: its subject and period, its requirements, its metrics with their meaning.
[[nodiscard]] std::string probe_as_text(const std::string& json, const std::string& name, std::size_t width);

/// The output of `reveal-collect --facts --json`. Throws Error for any other text.
[[nodiscard]] Snapshot facts_of_node(const std::string& json);

/// The output of `reveal-collect --check --json`, sorted by the person who can act on it.
struct ProbeCheck {
  struct Missing {
    std::string name, reason, remedy;
  };
  std::vector<std::string> working;
  std::vector<Missing> needs_job;   // works when a job is named
  std::vector<Missing> off;         // works if requested
  std::vector<Missing> obtainable;  // an administrator can make it work here
  std::vector<Missing> not_here;    // this machine lacks the source

  [[nodiscard]] std::size_t all() const {
    return working.size() + needs_job.size() + off.size() + obtainable.size() + not_here.size();
  }
};
void fields(auto& v, Visited<decltype(v), ProbeCheck::Missing>& probe) {
  v("name", probe.name);
  v("reason", probe.reason);
  v("remedy", probe.remedy);
}
void fields(auto& v, Visited<decltype(v), ProbeCheck>& check) {
  v("working", check.working);
  v("needs_job", check.needs_job);
  v("off", check.off);
  v("obtainable", check.obtainable);
  v("not_here", check.not_here);
}

/// `virtual_machine`: probes that need hardware are not here.
[[nodiscard]] ProbeCheck sorted_check(const std::string& json, bool virtual_machine);

}  // namespace reveal
