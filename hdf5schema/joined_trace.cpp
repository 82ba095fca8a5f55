#include "hdf5schema/joined_trace.h"

#include <algorithm>
#include <limits>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();

std::int64_t begin_of(const TraceReader& trace) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  for (const TraceReader::Family& family : trace.families()) {
    if (!family.time_ns.empty()) begin = std::min(begin, family.time_ns.front());
  }
  return begin;
}

}  // namespace

std::filesystem::path earlier_segment(const std::filesystem::path& trace) {
  std::filesystem::path path = trace;
  if (path.extension() == ".part") path.replace_extension();
  path += ".earlier";
  return path;
}

JoinedTrace::JoinedTrace(const std::filesystem::path& trace) : newest_(trace) {
  const std::filesystem::path before = earlier_segment(trace);
  std::error_code ignored;
  try {
    if (std::filesystem::exists(before, ignored)) earlier_.emplace(before);
    // A collector that was killed between the two steps of a new segment leaves one file under both names.
    if (earlier_ && begin_of(newest_) <= begin_of(*earlier_)) earlier_.reset();
    join(kFirst);
  } catch (const Error& error) {  // the newest rows without those before them
    left_out_ = error.what();
    forget_earlier();
  }
}

std::vector<const TraceReader*> JoinedTrace::in_order() const {
  if (!earlier_) return {&newest_};
  return {&*earlier_, &newest_};
}

void JoinedTrace::forget_earlier() {
  families_.clear();
  earlier_.reset();
  join(kFirst);
}

bool JoinedTrace::keep_last(std::chrono::nanoseconds keep) {
  std::int64_t end = kFirst;
  std::size_t rows = 0;
  for (const JoinedFamily& family : families_) {
    const auto times = family.newest().time_ns;
    if (!times.empty()) end = std::max(end, times.back());
    rows += family.rows();
  }
  join(keep.count() > 0 && end > keep.count() ? end - keep.count() : kFirst);
  std::size_t kept = 0;
  for (const JoinedFamily& family : families_) kept += family.rows();
  return kept < rows;
}

void JoinedTrace::join(std::int64_t keep_from_ns) {
  families_.clear();
  for (const TraceReader::Family& family : newest_.families()) families_.emplace_back(newest_, family);
  if (!earlier_) return;
  if (earlier_->families().size() != families_.size()) throw Error("the previous segment has other families");
  for (std::size_t i = 0; i < families_.size(); ++i)
    families_[i].prepend(*earlier_, earlier_->families()[i], keep_from_ns);
}

}  // namespace reveal
