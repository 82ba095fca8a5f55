// The nodes in an archive of reports: one line for each node of each job, without names of users, jobs and
// commands. Reports were written as the job's user, so a line is made of words that are checked: names of nodes,
// numbers and ids of the rule table. No text of a report gets into it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "postproc/report/report.h"

namespace reveal {

inline constexpr std::string_view kLedgerSchema = "reveal.ledger/1";
inline constexpr std::size_t kLargestLedger = std::size_t{512} << 20;
inline constexpr std::size_t kLongestLedgerLine = 128 << 10;
inline constexpr std::size_t kMostLedgerLines = 1'000'000;  // a call with 300,000 took .54 GB

/// How it is known what a finding cost.
enum class LossKnown : std::uint8_t {
  no,
  estimated,
  at_most,   // an upper bound
  in_cause,  // another finding led to this one, and its cost is counted there
};
[[nodiscard]] std::string_view name_of(LossKnown) noexcept;
[[nodiscard]] std::optional<LossKnown> loss_known_of(std::string_view) noexcept;

struct LedgerFinding {
  std::string rule;  // an id of the rule table
  Severity severity = Severity::notice;
  std::optional<double> seconds;  // seconds of the job's run time
  LossKnown how = LossKnown::no;
  std::size_t nodes = 1;                                // that the finding names
  std::optional<Confidence> confidence = std::nullopt;  // none in lines of versions that did not write it
  bool operator==(const LedgerFinding&) const = default;
};

struct LedgerLine {
  std::string node;
  std::string job;    // its number, or a hash outside a batch system
  std::string array;  // number of the array job; "" if it is none
  std::string owner;  // pseudonym of the directory's owner (owner_key.h)
  std::int64_t begin_utc_ns = 0;
  std::int64_t end_utc_ns = 0;
  std::size_t job_nodes = 1;
  std::vector<LedgerFinding> findings;  // one for each rule

  [[nodiscard]] double seconds() const { return static_cast<double>(end_utc_ns - begin_utc_ns) / 1e9; }
  bool operator==(const LedgerLine&) const = default;
};

/// A line for each node that the report names. Throws Error for a text that is no report, or for names that no node and
/// no job can have.
[[nodiscard]] std::vector<LedgerLine> ledger_lines(const std::string& report_json);

/// A JSON object on each line.
[[nodiscard]] std::string render_ledger(std::span<const LedgerLine> lines);
/// The same without the first lines, where it would be longer than `most` bytes.
[[nodiscard]] std::string render_ledger(std::span<const LedgerLine> lines, std::size_t most);

struct ParsedLedger {
  std::vector<LedgerLine> lines;
  std::size_t refused = 0;  // lines that are no such objects, or claim what cannot be
};
/// Reads what anybody may have written. A line that ends after `now_utc_ns` is refused.
[[nodiscard]] ParsedLedger parse_ledger(std::string_view text, std::int64_t now_utc_ns);

/// Lines in order, each node of a job once. A user's report can replace only lines of his own.
class NodeLedger {
 public:
  NodeLedger() = default;
  explicit NodeLedger(std::size_t most_lines) : most_lines_(most_lines) {}

  /// A line of a ledger. Of two about a node of a job, that of the report with more nodes stays, whichever came first.
  /// Where there are too many, those of the jobs that began first go, and no line of such a job is taken any more.
  void add(LedgerLine line);
  /// A line of a report that was read itself.
  void replace(LedgerLine line);
  /// Takes no lines of jobs that began before the first one here: they were left out when this ledger was too large.
  void begin_here();
  /// Forgets jobs that ended earlier.
  void keep_since(std::int64_t utc_ns);
  [[nodiscard]] std::vector<LedgerLine> lines() const;
  /// Lines that are not in an earlier ledger, or have changed since.
  [[nodiscard]] std::vector<LedgerLine> lines_since(const NodeLedger& earlier) const;

 private:
  using Key = std::tuple<std::int64_t, std::string, std::string, std::string>;  // begin, owner, job, node
  void add(LedgerLine line, bool (*replaces)(const LedgerLine&, const LedgerLine&));

  std::size_t most_lines_ = kMostLedgerLines;
  std::int64_t first_begin_ = 0;
  std::map<Key, LedgerLine> lines_;
};

}  // namespace reveal
