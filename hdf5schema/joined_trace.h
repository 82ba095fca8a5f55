// A trace with the segment before it, if there is one, as one trace for all readers: a recording that keeps only its
// last minutes lies in two files while it runs, and after a crash.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hdf5schema/joined_family.h"
#include "hdf5schema/trace_reader.h"

namespace reveal {

/// Where a trace that keeps only its last minutes has the rows before those of PATH or PATH.part: a trace of its own.
[[nodiscard]] std::filesystem::path earlier_segment(const std::filesystem::path& trace);

class JoinedTrace {
 public:
  /// Throws Error where `trace` cannot be read. Without the segment before it, where that does not fit.
  explicit JoinedTrace(const std::filesystem::path& trace);
  JoinedTrace(const JoinedTrace&) = delete;
  JoinedTrace& operator=(const JoinedTrace&) = delete;

  [[nodiscard]] const TraceReader& newest() const noexcept { return newest_; }
  /// Oldest first.
  [[nodiscard]] std::vector<const TraceReader*> in_order() const;
  [[nodiscard]] const std::vector<JoinedFamily>& families() const noexcept { return families_; }
  /// Why the segment before is there and not joined; "" when it is joined, or none is there.
  [[nodiscard]] const std::string& left_out() const noexcept { return left_out_; }

  /// Drops the segment before.
  void forget_earlier();
  /// Drops rows older than `keep` before the last one; returns whether there were any.
  bool keep_last(std::chrono::nanoseconds keep);

 private:
  void join(std::int64_t keep_from_ns);

  TraceReader newest_;
  std::optional<TraceReader> earlier_;
  std::vector<JoinedFamily> families_;
  std::string left_out_;
};

}  // namespace reveal
