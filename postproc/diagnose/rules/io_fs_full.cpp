// A file system that the job writes to ran full, or out of files.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::io_fs_full {
namespace {

constexpr double kMiB = 1024.0 * 1024;
constexpr double kHardlyAny = 16 * kMiB;

struct Least {
  double first = kNaN;  // at the first look
  double most = kNaN;
  double left = kNaN;
  double of = kNaN;
  double share = kNaN;
  std::size_t sample = 0;
};

/// The least that was left of it in the run.
Least least_left(const RuleContext& context, std::string_view left, std::string_view of, const std::string& place) {
  Least least;
  const auto channels = context.channels(left, place);
  const auto wholes = context.channels(of, place);
  if (channels.empty() || wholes.empty()) return least;
  const auto series = context.telemetry.series(channels.front());
  const auto whole = context.telemetry.series(wholes.front());
  for (std::size_t t = 0; t < series.size(); ++t) {
    const double share = series[t] / whole[t];
    if (std::isnan(share)) continue;
    if (std::isnan(least.first)) least.first = series[t];
    least.most = std::fmax(least.most, series[t]);
    if (share >= least.share) continue;
    least.left = series[t];
    least.of = whole[t];
    least.share = share;
    least.sample = t;
  }
  return least;
}

/// A read-only file system (squashfs, an image) has room for nothing from the first look to the last. One that was full
/// before the first look can still make files, or has space that is reserved for root.
bool is_read_only(const RuleContext& context, const std::string& place) {
  for (const std::string_view metric : {"fs.available", "fs.free", "fs.files_free"}) {
    for (const std::size_t channel : context.channels(metric, place)) {
      const auto series = context.telemetry.series(channel);
      if (std::any_of(series.begin(), series.end(), [](double left) { return left > 0; })) return false;
    }
  }
  return true;
}

/// So little is left that the next file of any size fails.
bool is_full(const Least& least, bool files) {
  return files ? least.left == 0 && least.first > 0 : least.left < kHardlyAny;
}

/// A row has the space that was left at the row before it.
std::size_t read_at(const RuleContext& context, std::size_t channel, std::size_t sample) {
  return sample - std::min(sample, context.steps(context.telemetry.channels[channel].period_seconds));
}

/// From when on it was as full as is reported: the least may have been left much later.
std::size_t full_since(const RuleContext& context, std::size_t channel, const Least& least, bool files) {
  const double full = files ? 0 : kHardlyAny;
  const double nearly = std::min(context.threshold("min_share") * least.of,
                                 files ? context.threshold("min_files") : context.threshold("min_left") * 1e6);
  const double limit = is_full(least, files) ? full : nearly;
  const auto series = context.telemetry.series(channel);
  const auto first = std::find_if(series.begin(), series.end(), [limit](double left) { return left <= limit; });
  return read_at(context, channel, static_cast<std::size_t>(first - series.begin()));
}

/// The other file system of the job that always had the most room. Files in /dev/shm take memory, and users cannot
/// write to /: the directories on it that they can write to are not known.
JobValues room_elsewhere(const RuleContext& context, const std::string& full) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  JobValues values;
  double most = 0;
  for (const std::size_t channel : context.channels("fs.available")) {
    const std::string& place = context.telemetry.channels[channel].instance;
    if (place == full || place == "/dev/shm" || place == "/") continue;
    const Least bytes = least_left(context, "fs.available", "fs.total", place);
    const Least files = least_left(context, "fs.files_free", "fs.files", place);
    if (!(bytes.left > most) || bytes.left < context.threshold("min_left") * 1e6) continue;
    if (bytes.share < context.threshold("min_share")) continue;
    if (files.most > 0 && files.left < context.threshold("min_files")) continue;
    most = bytes.left;
    values = {{"room_at", place}, {"room", number(std::floor(bytes.left / kGiB))}};
  }
  return most >= kGiB ? values : JobValues{};
}

/// Size from which a file is worth a look: a thousandth of the file system, in whole MiB.
double large_file(double size) {
  constexpr double kMost = 100 * kMiB;
  return std::clamp(std::round(size / 1000 / kMiB) * kMiB, kMiB, kMost);
}

JobValues values_of(const RuleContext& context, const std::string& place, bool files) {
  const double size = least_left(context, "fs.available", "fs.total", place).of;
  JobValues values = room_elsewhere(context, place);
  values["place"] = place;
  if (size > 0) values["large"] = fmt::format("{:.0f}M", large_file(size) / kMiB);
  if (files) values["files"] = "yes";
  if (place == "/dev/shm") values["shared_memory"] = "yes";
  return values;
}

Finding describe(const RuleContext& context, const std::string& place, const Least& least, bool files) {
  Finding finding = context.finding(values_of(context, place, files));
  finding.instances = {place};
  const std::size_t channel = context.channels(files ? "fs.files_free" : "fs.available", place).front();
  finding.intervals = {context.span(full_since(context, channel, least, files), context.telemetry.samples)};
  finding.confidence = Confidence::certain;
  finding.severity = is_full(least, files) ? Severity::warning : Severity::notice;
  finding.impact.how = "not known: failed writes were not measured";
  finding.evidence.push_back({.metric = files ? "fs.files_free" : "fs.available",
                              .instance = place,
                              .node = context.telemetry.node,
                              .feature = "least of the run",
                              .observed = least.left,
                              .expected = std::nullopt,
                              .unit = files ? "count" : "bytes",
                              .span = finding.intervals.front(),
                              .detectors = {Method::snapshot}});
  const auto amount = [files](double value) { return files ? number(value) : quantity(value, "bytes"); };
  finding.sentence =
      fmt::format("{} on {} is {}: {} of {}{} were left {} after the recording began.", place, context.telemetry.node,
                  is_full(least, files) ? "full" : "nearly full", amount(least.left), amount(least.of),
                  files ? " files" : "", duration(context.seconds(read_at(context, channel, least.sample))));
  finding.runner_up = {"", "who filled it is not known: the job, or others that can write there"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const auto places = context.channels("fs.available");
  if (places.empty()) throw Unavailable("not measured: fs.available");
  std::vector<Finding> findings;
  for (const std::size_t channel : places) {
    const std::string& place = context.telemetry.channels[channel].instance;
    const Least bytes = least_left(context, "fs.available", "fs.total", place);
    if (is_read_only(context, place)) continue;
    if (bytes.share < context.threshold("min_share") && bytes.left < context.threshold("min_left") * 1e6) {
      findings.push_back(describe(context, place, bytes, false));
      continue;
    }
    const Least files = least_left(context, "fs.files_free", "fs.files", place);
    const bool few = files.left < context.threshold("min_files");
    const bool counts = files.most > 0;  // some file systems count no files
    if (few && counts && files.share < context.threshold("min_share"))
      findings.push_back(describe(context, place, files, true));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "io.fs_full",
    .title = "A file system where the job can write is full",
    .looks_for =
        "Free space and free inodes for the working directory, TMPDIR, /tmp and /dev/shm: fs.available, "
        "fs.files_free. Where XFS or ext4 limits a project's folder, or a server its share, this limit counts "
        "as the size. Quotas of users and groups cannot be seen: writes fail (\"Disk quota exceeded\") although "
        "df shows free space.",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::storage,
    .order = 14,
    .proof = Proof::real,
    .checks_node = true,
    .thresholds = {{"min_share", 0.01, "ratio", "share of the file system below which it counts as full"},
                   {"min_left", 1024, "MB", "free space below which it counts as full, in addition to min_share"},
                   {"min_files", 10000, "files", "free inodes below which it also counts as full"}},
    // Depths are bounded: the file system may be a server's with a billion files.
    .user_remedy = {{"df -h {place}   # on {node}: free space", "!files"},
                    {"df -i {place}   # on {node}: free inodes", "files"},
                    {"find {place} -xdev -maxdepth 5 -user \"$USER\" -type f -size +{large} -printf '%s %p\\n' "
                     "2>/dev/null | sort -n | tail   # on {node}: your large files, in bytes",
                     "!files"},
                    {"find {place} -xdev -maxdepth 5 -user \"$USER\" -printf '%h\\n' 2>/dev/null | sort | uniq -c | "
                     "sort -n | tail   # on {node}: your folders with most files",
                     "files"}},
    .advice =
        {{"Write to another file system, such as that of {room_at}, which had at least {room} GiB left: set TMPDIR, "
          "or the job's output and checkpoint directory.",
          "room_at,!shared_memory"},
         {"Write to another file system: set TMPDIR, or the job's output and checkpoint directory.",
          "!room_at,!shared_memory"},
         {"Delete files there, or ask the administrators for more space. The limit can be a quota: your site's "
          "documentation names the command that shows it.",
          "!shared_memory", kOr},
         {"Workers of a DataLoader pass their batches through /dev/shm: use fewer of them, or "
          "torch.multiprocessing.set_sharing_strategy(\"file_system\").",
          "shared_memory,torch"},
         {"In a container, start it with a larger /dev/shm: docker run --shm-size=16g, or --ipc=host.", "shared_memory",
          kOr}},
    .admin_remedy =
        {{"find {place} -xdev -maxdepth 4 -type f -size +{large} -mtime +7 -printf '%s %u %p\\n' | sort -n | tail   # "
          "on {node}: large files that are older than a week, with their owners",
          "!shared_memory,!files"},
         {"find {place} -xdev -maxdepth 2 -type f -printf '%s %u %p\\n' | sort -n | tail   # on {node}: files "
          "that ended jobs left, with their owners",
          "shared_memory,!files"},
         {"find {place} -xdev -maxdepth 4 -printf '%u\\n' | sort | uniq -c | sort -n | tail   # on {node}: "
          "the owners of most files",
          "files"}},
    .verify = {.command = "df -h; df -i",
               .where = "on the node, at the end of the next run",
               .expected = "free space and free inodes in the file system of that directory"},
    .sources = {"https://man7.org/linux/man-pages/man3/statvfs.3.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::io_fs_full
