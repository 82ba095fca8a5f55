// The report of a job directory as the subcommands make it: settings, progress and problems included.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "postproc/commands/command.h"

namespace reveal {

struct ReportRequest {
  std::string directory;
  std::string pipeline;             // "": as configured
  std::vector<std::string> expect;  // lists of nodes, folded or not
  std::optional<int> exit_code;
  std::optional<double> ran_seconds;
  bool fresh = false;
  bool no_history = false;
  std::size_t threads = 0;  // 0: as many as suit this machine
};

/// Complains about inputs that could not be used as they are. Throws Error when there is not one usable trace.
[[nodiscard]] Report make_report(const ReportRequest& request, const CommonOptions& common);

/// The report that lies in the directory, or where it is missing, stale or damaged a new one, which is written there if
/// the directory is ours. Texts of somebody else's are those of the rule table. Throws Error.
[[nodiscard]] Report stored_or_new_report(const std::string& directory, const CommonOptions& common);

/// Whether stored_report_about() has something to read: a report that is not older than the files of this node.
[[nodiscard]] bool has_report_about(const std::string& directory, const std::string& node);
/// The part of report.json about one node. Opens no other file. Throws Error.
[[nodiscard]] Report stored_report_about(const std::string& directory, const std::string& node,
                                         const CommonOptions& common);
/// The results of this node without its report: those of the whole job, which are made and kept; in a job of hundreds
/// of nodes those of its own trace, which a line on stderr says.
[[nodiscard]] Report new_report_about(const std::string& directory, const std::string& node,
                                      const CommonOptions& common);

}  // namespace reveal
