// The part of report.json about one node: of 10,000 nodes, the file has 24 MB, and nearly all of it is about the
// others.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace reveal {

/// Copies a report.json, piece by piece, and leaves out entries about other nodes in the lists with an entry for each
/// node. The result is JSON with the same keys: it can have entries too many, and narrow_to_node() removes these. Keeps
/// no more than the result and one entry.
class NodeEntries {
 public:
  explicit NodeEntries(const std::string& node);
  void add(std::string_view piece);
  [[nodiscard]] std::string take();

 private:
  void open(char bracket);
  void close(char bracket);
  void end_of_entry();
  [[nodiscard]] bool is_about_node() const;

  std::string quoted_, trace_;  // as they stand in the entries of the node
  std::string kept_;
  std::string entry_;      // the entry of a list that is being read
  std::string key_;        // the last text between the braces of the report
  std::size_t depth_ = 0;  // open brackets
  bool in_list_ = false;   // with an entry for each node
  bool in_text_ = false, escaped_ = false;
  bool any_kept_ = false;  // entries of this list
};

/// Such a copy of a file, which may be another user's. Throws Error.
[[nodiscard]] std::string read_report_about(const std::filesystem::path& file, const std::string& node);

}  // namespace reveal
