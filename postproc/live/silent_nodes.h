// The nodes of a running job that send no rows, folded: "nothing heard of n[02-05] since 12:03:11".
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace reveal {

struct HeardNode {
  std::string node;
  bool silent = false;
  std::int64_t heard_utc_ns = 0;  // its newest row; 0: none yet
  bool ended = false;             // its trace is closed: nothing more is expected of it
};

/// One sentence for all silent nodes, "" if there is none.
[[nodiscard]] std::string silence_of(std::span<const HeardNode> nodes);

/// A trace as a watch follows it.
struct FollowedTrace {
  std::string node;
  bool silent = false;
  std::int64_t newest_ns = 0;      // monotonic, of its newest row; 0: none yet
  std::int64_t newest_utc_ns = 0;  // likewise
};
struct ReplacedTrace {
  std::size_t place = 0, by = 0;
  bool operator==(const ReplacedTrace&) const = default;
};
/// Traces of collectors that were killed: the next collector of the node records in a file of its own.
[[nodiscard]] std::vector<ReplacedTrace> replaced_traces(std::span<const FollowedTrace> traces);

class SilentNodes {
 public:
  struct Change {
    std::string news;  // silent or heard_again
    std::string sentence;
  };
  /// The changes since the last call.
  [[nodiscard]] std::vector<Change> look(std::span<const HeardNode> nodes);

 private:
  std::set<std::string> silent_;
};

}  // namespace reveal
