// Parts of a merge, which any process of the job's user could have written: the frames of a file, and what is in them.
//
// Input: two bytes with the length of the records, the lowest first, the records, the texts; or frames. Its checksum is
// always right, because a mutated input would never pass it.
#include "postproc/analysis/merge_part.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <array>
#include <fstream>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/zlib_text.h"
#include "postproc/telemetry/job_files.h"
#include "postproc/words/sanitize.h"
#include "target.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::fuzz::merge_part {
namespace {

constexpr const char* kConfigHash = "0";
constexpr std::size_t kLengthBytes = 2;
constexpr std::size_t kChecksumDigits = 8;

/// A job of one node whose trace and summary are empty and of 1970: as the records of the corpus have them.
class Job {
 public:
  Job() : trace_{.path = directory_.path() / "n01.h5", .node = "n01"} {
    const std::string summary_file = directory_.path() / summary_name(trace_.path);
    std::ofstream(summary_file).flush();
    const std::array<timespec, 2> times{};
    require(::utimensat(AT_FDCWD, summary_file.c_str(), times.data(), 0) == 0, "a summary of 1970");
    NodeSummary summary;
    summary.node = "n01";
    summary.profile.end_utc_ns = summary.profile.block_ns = summary.profile.sparkline_step_ns = kSecond;
    write_part(directory_.path(), {}, kConfigHash, std::array{PartNode{trace_, summary, {}}});
    require(summary_in_part().has_value(), "a part that was written is read");
    head_ = file_text(part_file());
    head_.resize(head_.find('\n') - kChecksumDigits);
  }

  void read(std::string_view frames) const {
    std::ofstream(part_file(), std::ios::binary | std::ios::trunc)
        << fmt::format("{}{:0{}x}\n", head_, checksum_of(frames), kChecksumDigits) << frames;
    std::optional<NodeSummary> summary = summary_in_part();
    if (!summary) return;
    try {
      static_cast<void>(render_summary(std::move(*summary)));
    } catch (const Error&) {
      return;
    }
  }

 private:
  [[nodiscard]] std::string part_file() const { return directory_.path() / fmt::format("{}1-of-1", kMergePartBegin); }
  [[nodiscard]] std::optional<NodeSummary> summary_in_part() const {
    std::size_t remarks = 0;
    const auto remark = [&remarks](const std::string& text) {
      require(printable(text) == text, "a remark is one harmless line");
      ++remarks;
    };
    auto found = summaries_in_parts(directory_.path(), {&trace_, 1}, kConfigHash, 1, remark);
    require(found.size() == 1 && remarks <= 1, "one node, and at most one remark on its part");
    return std::move(found.front());
  }

  const TemporaryDirectory directory_;
  const ListedTrace trace_;
  std::string head_;  // the first line of a part, without its checksum
};

std::string frame_of(std::string_view bytes) {
  const std::string stored = zlib_text(bytes, Deflating::fast);
  return fmt::format("{} {}\n", bytes.size(), stored.size()) + stored;
}

void run(std::string_view input) {
  static const Job job;
  job.read(input);
  if (input.size() < kLengthBytes) return;
  const auto low = static_cast<unsigned char>(input[0]);
  const auto high = static_cast<unsigned char>(input[1]);
  const std::size_t length = std::size_t{high} << 8U | low;
  input.remove_prefix(kLengthBytes);
  const std::size_t records = std::min(length, input.size());
  job.read(frame_of(input.substr(records)) + frame_of(input.substr(0, records)));
}

const RegisteredTarget kTarget{{"merge_part", run}};

}  // namespace
}  // namespace reveal::fuzz::merge_part
