// The ledger that root keeps on a node about the jobs whose report was built there. The lines of a job come from its
// user, who can put anything in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/ledger/node_ledger.h"

namespace reveal {

/// Facts about a job that its user cannot choose.
struct EndedJob {
  std::string number;
  std::vector<std::string> nodes;
  std::string owner;  // hash_of_owner()
};

/// The lines of `text` that this job can have: its number, its nodes, each node once. They get its owner.
[[nodiscard]] std::vector<LedgerLine> lines_of_job(std::string_view text, const EndedJob& job, std::int64_t now_utc_ns);

struct LedgerLimits {
  std::uintmax_t bytes = std::uintmax_t{8} << 20;
  std::int64_t age_ns = std::int64_t{90} * 24 * 3600 * 1'000'000'000;  // days
};

/// Appends the lines, one process after the other. A ledger with lines that are too old, or too large, is written anew:
/// without them, and half as large as it may be; owners with many lines then lose theirs first. Throws Error; then no
/// line is added in part. The directory must belong to this user and be writable by no other.
void append_lines(const std::filesystem::path& ledger, std::span<const LedgerLine> lines, std::int64_t now_utc_ns,
                  const LedgerLimits& limits = {});

}  // namespace reveal
