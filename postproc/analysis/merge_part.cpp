#include "postproc/analysis/merge_part.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/version.h"
#include "hdf5schema/zlib_text.h"
#include "postproc/analysis/packed_fields.h"
#include "postproc/analysis/parallel.h"
#include "postproc/analysis/summary_fields.h"
#include "postproc/report/fields.h"
#include "postproc/telemetry/job_files.h"
#include "postproc/telemetry/publish.h"
#include "postproc/words/sanitize.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), FileState>& state) {
  v("bytes", state.bytes);
  v("mtime_ns", state.mtime_ns);
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kForm = "reveal.part/4";
constexpr std::string_view kOf = "-of-";
constexpr std::size_t kLargestPart = std::size_t{512} << 20;
constexpr std::size_t kUsualFrame = std::size_t{1} << 20;  // records that are compressed together
constexpr std::size_t kLargestFrame = std::size_t{64} << 20;
constexpr std::size_t kLongestHead = 1024;
constexpr std::size_t kLargestNode = 64 * kLargestSummary;  // memory
constexpr std::size_t kQuoted = 40;

/// Variables that give a process its number, from 0, and the number of processes. A batch job of Slurm has those of
/// srun, too: mpirun's are asked first.
struct Launcher {
  const char* number;
  const char* count;
};
constexpr Launcher kRankVariables[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

std::optional<PartNumber> checked_part(std::optional<std::int64_t> number, std::optional<std::int64_t> count) {
  if (!number || !count || *number < 1 || *number > *count || *count > std::int64_t{kMostParts}) return std::nullopt;
  return PartNumber{static_cast<std::size_t>(*number), static_cast<std::size_t>(*count)};
}

std::string name_of_part(PartNumber part) {
  return fmt::format("{}{}{}{}", kMergePartBegin, part.number, kOf, part.count);
}

/// Nothing for the name of another file.
std::optional<PartNumber> part_of_name(std::string_view name) {
  if (!name.starts_with(kMergePartBegin)) return std::nullopt;
  name.remove_prefix(kMergePartBegin.size());
  const std::size_t of = name.find(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  return checked_part(parse_int(name.substr(0, of)), parse_int(name.substr(of + kOf.size())));
}

std::string words_of(PartNumber part) {
  return fmt::format("part {} of {}", part.number, part.count);
}

bool fewer_first(const PartNumber& a, const PartNumber& b) {
  return a.count != b.count ? a.count < b.count : a.number < b.number;
}

std::vector<PartNumber> parts_in(const fs::path& directory) {
  std::vector<PartNumber> parts;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const auto part = part_of_name(entry->path().filename().native());
    if (part && parts.size() < kMostParts) parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(), fewer_first);
  return parts;
}

/// The first line of a part, which a person can read.
std::string head_line(const std::string& config_hash, std::uint32_t checksum) {
  return fmt::format("{} {} {} {:08x}\n", kForm, REVEAL_VERSION, config_hash, checksum);
}

[[noreturn]] void refuse_damaged() {
  throw Error("it is damaged or cut off");
}

/// The checksum of the rest. Throws Error where this program cannot read the part.
std::uint32_t checksum_in_head(std::string_view line, const std::string& config_hash) {
  if (next_word(line) != kForm) throw Error("it is no part of a merge");
  const std::string_view version = next_word(line);
  if (version != REVEAL_VERSION) {
    throw Error(fmt::format("reveal {} wrote it, and this is reveal {}", printable(version, kQuoted), REVEAL_VERSION));
  }
  if (next_word(line) != config_hash) throw Error("it was written with other settings");
  const std::string_view sum = next_word(line);
  std::uint32_t checksum = 0;
  const auto read = std::from_chars(sum.data(), sum.data() + sum.size(), checksum, 16);
  if (read.ec != std::errc() || !line.empty()) refuse_damaged();
  return checksum;
}

/// Compressed bytes behind a line with their size before and after.
std::string frame_of(std::string_view bytes) {
  if (bytes.size() > kLargestFrame) throw Error("too many nodes for one part: take more parts");
  const std::string stored = zlib_text(bytes, Deflating::fast);
  return fmt::format("{} {}\n", bytes.size(), stored.size()) + stored;
}

/// The frames of a part, one after the other: a small file can be a large one, compressed.
class Frames {
 public:
  explicit Frames(std::string_view content) : rest_(content) {}
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  /// Throws Error.
  [[nodiscard]] std::string next() {
    const std::size_t end = rest_.substr(0, kLongestHead).find('\n');
    if (end == std::string_view::npos) refuse_damaged();
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    const std::size_t plain = size_in(line);
    const std::size_t stored = size_in(line);
    if (plain > std::min(kLargestFrame, budget_)) throw Error("it would need too much memory");
    if (stored > rest_.size()) refuse_damaged();
    std::string bytes = plain_text(std::string(rest_.substr(0, stored)), plain);
    rest_.remove_prefix(stored);
    if (bytes.size() != plain) refuse_damaged();
    budget_ -= plain;
    return bytes;
  }

 private:
  static std::size_t size_in(std::string_view& line) {
    const auto size = parse_int(next_word(line));
    if (!size || *size < 0) refuse_damaged();
    return static_cast<std::size_t>(*size);
  }

  std::string_view rest_;
  std::size_t budget_ = kLargestPart;  // for all frames
};

/// One node's files, which tell whether the part has their content, and the size of its summary's bytes.
struct Record {
  std::string trace;
  FileState trace_state, summary_state;
  std::size_t bytes = 0;
};

void fields(auto& v, Visited<decltype(v), Record>& record) {
  v("trace", record.trace);
  v("trace_state", record.trace_state);
  v("summary_state", record.summary_state);
  v("bytes", record.bytes);
}

/// The result of reading one part.
struct ReadPart {
  std::size_t outdated = 0;  // nodes
  std::string failure;
};

/// The parts of one job. Several threads read one part each.
class Reading {
 public:
  Reading(std::span<const ListedTrace> traces, const std::string& config_hash)
      : traces_(traces), config_hash_(config_hash), summaries_(traces.size()), taken_(traces.size()) {
    for (std::size_t i = 0; i < traces.size(); ++i) places_.emplace(traces[i].path.filename().string(), i);
  }

  [[nodiscard]] ReadPart read(const fs::path& file) {
    ReadPart part;
    try {
      read(read_text_file(file, kLargestPart), part);
    } catch (const Error& error) {
      part.failure = error.what();
    }
    return part;
  }

  [[nodiscard]] std::vector<std::optional<NodeSummary>> take() { return std::move(summaries_); }

 private:
  void read(std::string_view content, ReadPart& part) {
    const std::size_t end = content.substr(0, kLongestHead).find('\n');
    if (end == std::string_view::npos) throw Error("it is no part of a merge");
    const std::uint32_t checksum = checksum_in_head(content.substr(0, end), config_hash_);
    content.remove_prefix(end + 1);
    if (checksum_of(content) != checksum) refuse_damaged();
    Frames frames(content);
    const std::string packed_texts = frames.next();
    PackedTexts texts(packed_texts);
    while (!frames.at_end()) read_records(frames.next(), texts, part);
  }

  void read_records(std::string_view rest, PackedTexts& texts, ReadPart& part) {
    while (!rest.empty()) {
      PackedReader reader(rest, texts, kLargestNode);
      Record record;
      reader.get(record);
      rest.remove_prefix(rest.size() - reader.left());
      if (record.bytes > rest.size()) refuse_damaged();
      const auto place = place_of(record);
      if (!place) ++part.outdated;
      if (place && claim(*place)) summaries_[*place] = summary_in(rest.substr(0, record.bytes), texts);
      rest.remove_prefix(record.bytes);
    }
  }

  /// Nothing where the directory has other files by now.
  [[nodiscard]] std::optional<std::size_t> place_of(const Record& record) const {
    const auto known = places_.find(record.trace);
    if (known == places_.end()) return std::nullopt;
    const ListedTrace& trace = traces_[known->second];
    if (record.trace_state != FileState{trace.bytes, trace.mtime_ns}) return std::nullopt;
    if (state_of_summary(trace) != record.summary_state) return std::nullopt;
    return known->second;
  }

  /// False where this or another part had the node before.
  [[nodiscard]] bool claim(std::size_t place) {
    const std::lock_guard lock(mutex_);
    return !std::exchange(taken_[place], '\1');
  }

  static NodeSummary summary_in(std::string_view bytes, PackedTexts& texts) {
    PackedReader reader(bytes, texts, kLargestNode);
    NodeSummary summary;
    reader.get(summary);
    if (reader.left() > 0) refuse_damaged();
    summary.profile.node = summary.node;
    return summary;
  }

  std::span<const ListedTrace> traces_;
  const std::string& config_hash_;
  std::unordered_map<std::string, std::size_t> places_;  // by the name of the trace
  std::vector<std::optional<NodeSummary>> summaries_;
  std::mutex mutex_;
  std::vector<char> taken_;  // whether the summary of this place is read, or was
};

void remark_on_missing(const std::vector<PartNumber>& parts, const Remark& remark) {
  std::map<std::size_t, std::size_t> found;  // by the number of all of them
  for (const PartNumber& part : parts) ++found[part.count];
  for (const auto& [count, there] : found) {
    if (there < count)
      remark(
          fmt::format("{} of {} parts are missing: the summaries of their "
                      "nodes are read one by one",
                      count - there, count));
  }
}

void remark_on(PartNumber number, const ReadPart& part, const Remark& remark) {
  if (!part.failure.empty()) {
    remark(
        fmt::format("{} is not used, because {}: the summaries of its nodes "
                    "are read one by one",
                    words_of(number), part.failure));
  } else if (part.outdated > 0) {
    remark(
        fmt::format("{} is older than {} of the summaries in the directory, "
                    "which are read instead",
                    words_of(number), part.outdated));
  }
}

}  // namespace

std::optional<PartNumber> part_number(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  return checked_part(parse_int(text.substr(0, slash)), parse_int(text.substr(slash + 1)));
}

PartNumber part_of_environment(const Environment& environment) {
  for (const Launcher& launcher : kRankVariables) {
    const std::string number = environment(launcher.number);
    const std::string count = environment(launcher.count);
    if (number.empty() || count.empty()) continue;
    const auto from_zero = parse_int(number);
    const bool sound = from_zero && *from_zero < std::int64_t{kMostParts};
    if (const auto part = sound ? checked_part(*from_zero + 1, parse_int(count)) : std::nullopt) return *part;
    throw Error(fmt::format("{}={} and {}={} give no part of 1 to {} parts; --part 3/8 does", launcher.number,
                            printable(number, kQuoted), launcher.count, printable(count, kQuoted), kMostParts));
  }
  return {};
}

std::span<const ListedTrace> traces_of_part(std::span<const ListedTrace> all, PartNumber part) {
  const std::size_t begin = all.size() * (part.number - 1) / part.count;
  const std::size_t end = all.size() * part.number / part.count;
  return all.subspan(begin, end - begin);
}

std::optional<FileState> state_of_summary(const ListedTrace& trace) {
  struct stat status {};
  const fs::path path = trace.path.parent_path() / summary_name(trace.path);
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return FileState{static_cast<std::uint64_t>(status.st_size), nanoseconds_of(status.st_mtim)};
}

void write_part(const fs::path& directory, PartNumber part, const std::string& config_hash,
                std::span<const PartNode> nodes) {
  PackedWriter writer;
  std::string frames;   // behind that of the texts, which are known at the end
  std::string records;  // records of the next frame
  std::size_t plain = 0;
  for (const PartNode& node : nodes) {
    writer.put(node.summary);
    const std::string summary = writer.take();
    writer.put(Record{.trace = node.trace.path.filename().string(),
                      .trace_state = {node.trace.bytes, node.trace.mtime_ns},
                      .summary_state = node.state,
                      .bytes = summary.size()});
    records += writer.take();
    records += summary;
    if (records.size() < kUsualFrame) continue;
    plain += records.size();
    frames += frame_of(std::exchange(records, {}));
    if (plain > kLargestPart / 2) throw Error("too many nodes for one part: take more parts");
  }
  if (!records.empty()) frames += frame_of(records);
  frames.insert(0, frame_of(writer.texts()));
  publish_file(directory, name_of_part(part), frames.insert(0, head_line(config_hash, checksum_of(frames))));
}

std::vector<std::optional<NodeSummary>> summaries_in_parts(const fs::path& directory,
                                                           std::span<const ListedTrace> traces,
                                                           const std::string& config_hash, std::size_t threads,
                                                           const Remark& remark) {
  const std::vector<PartNumber> numbers = parts_in(directory);
  if (numbers.empty()) return {};
  Reading reading(traces, config_hash);
  std::vector<ReadPart> parts(numbers.size());
  run_parallel(numbers.size(), threads,
               [&](std::size_t i) { parts[i] = reading.read(directory / name_of_part(numbers[i])); });
  if (remark) {
    for (std::size_t i = 0; i < numbers.size(); ++i) remark_on(numbers[i], parts[i], remark);
    remark_on_missing(numbers, remark);
  }
  return reading.take();
}

void remove_parts(const fs::path& directory) noexcept try {
  std::error_code ignored;
  for (const PartNumber& part : parts_in(directory)) fs::remove(directory / name_of_part(part), ignored);
} catch (const std::exception&) {
  return;  // without memory for their names
}

}  // namespace reveal
