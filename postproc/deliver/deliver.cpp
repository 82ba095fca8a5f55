#include "postproc/deliver/deliver.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "hdf5schema/basics/config_file.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/basics/report_lease.h"
#include "hdf5schema/basics/request.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/basics/wall_clock.h"
#include "postproc/merge/job.h"
#include "postproc/merge/publish.h"
#include "postproc/report/job_facts.h"
#include "postproc/report/job_report.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kClaimFile = ".job";
constexpr std::size_t kSmallFile = 64 << 10;
constexpr auto kLook = 100ms;
constexpr double kShareOfLimit =
    0.6;  // of an epilog's time, for the analysis and for waiting; closing the trace needs some
// Measured: 0.3 s for a trace of 1 MB; twice that, for a node under load.
constexpr double kSecondsPerByte = 0.6e-6;

std::string claim_of(const SlurmJob& job) {
  return job.cluster + " " + job.id + " " + std::to_string(job.restart) + "\n";
}

/// The directory is this job's, of whichever of its nodes came first. Throws Error if it cannot be used at all.
bool claim(const fs::path& directory, const SlurmJob& job) {
  make_private_directory(directory.string());
  require_writable(directory.string());
  const std::string text = claim_of(job);
  const fs::path marker = directory / kClaimFile;
  const Descriptor file(::open(marker.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file) {
    // Another program's run may be in it without a claim.
    bool occupied = false;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      occupied = occupied || name.ends_with(".h5") || name.ends_with(".h5.part");
    }
    if (!occupied) return ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::unlink(marker.c_str());
    return false;
  }
  if (errno != EEXIST) throw system_error(marker.string(), errno);
  // The first node may be between its open and its write.
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::string theirs = read_text_file(marker, kSmallFile);
    if (!theirs.empty()) return theirs == text;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

fs::path claim_free(const fs::path& wanted, const SlurmJob& job) {
  constexpr int kMostRuns = 1000;
  for (int run = 1; run <= kMostRuns; ++run) {
    fs::path candidate = run == 1 ? wanted : fs::path(wanted.string() + "-" + std::to_string(run));
    if (claim(candidate, job)) return candidate;
  }
  throw Error(wanted.string() + " holds " + std::to_string(kMostRuns) + " runs already");
}

bool has_summary(const fs::path& directory, const std::string& node) {
  std::error_code ignored;
  return fs::exists(directory / (node + ".summary.json"), ignored);
}

std::size_t delivered(const fs::path& directory, const std::vector<std::string>& nodes) {
  return static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](const std::string& node) { return has_summary(directory, node); }));
}

bool belongs_to(const std::string& name, const std::string& node) {
  return name.starts_with(node + ".") || name.starts_with(node + "-");
}

/// A second collector of the same job on this node (the first one was ended in the middle) takes the next name.
fs::path free_place(const fs::path& directory, const fs::path& trace, const std::string& node) {
  const std::string ending = trace.filename().string().ends_with(".part") ? ".h5.part" : ".h5";
  fs::path place = directory / trace.filename();
  for (int run = 2; fs::exists(fs::symlink_status(place)); ++run) {
    place = directory / fmt::format("{}-{}{}", node, run, ending);
  }
  return place;
}

/// Traces before summaries: whoever sees a summary may begin with the report. Nothing delivered before is replaced.
void move_all(const fs::path& spool, const fs::path& directory, const std::string& node) {
  std::vector<fs::path> traces;
  std::vector<fs::path> summaries;
  for (const auto& entry : fs::directory_iterator(spool)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    if (name.starts_with("." + node + ".") || name == node + ".status.json") {
      fs::remove(entry.path(), ignored);  // of a sampler that was cut short
    } else if (!belongs_to(name, node)) {
      continue;  // another node's, on shared spools
    } else if (name.ends_with(".summary.json")) {
      summaries.push_back(entry.path());
    } else {
      traces.push_back(entry.path());
    }
  }
  std::sort(traces.begin(), traces.end());
  bool renamed = false;
  for (const fs::path& trace : traces) {
    const fs::path place = free_place(directory, trace, node);
    renamed = renamed || place.filename() != trace.filename();
    move_file(trace, place);
  }
  for (const fs::path& summary : summaries) {
    std::error_code ignored;
    if (renamed)
      fs::remove(summary, ignored);  // it speaks of another name; the report makes a new one
    else
      move_file(summary, directory / summary.filename());
  }
}

double estimated_seconds(const fs::path& spool) {
  double bytes = 0;
  for (const TraceFile& trace : list_traces(spool)) bytes += static_cast<double>(trace.bytes);
  return bytes * kSecondsPerByte;
}

/// Until every node's summary is in a report: one that comes while another builds is seen by that one afterwards.
bool build_when_complete(const fs::path& directory, const std::string& node, const SlurmJob& job,
                         const DeliverSettings& settings, const AnalysisSettings& analysis) {
  std::vector<std::string> nodes = job.nodes;
  if (nodes.empty()) nodes.push_back(node);
  const auto end = SteadyClock::now() + settings.wait_for_nodes;
  bool built = false;
  std::size_t reported = 0;
  while (true) {
    {
      ReportLease lease(directory.string(), node);
      if (!lease.take()) return built;
      while (delivered(directory, nodes) < nodes.size() && SteadyClock::now() < end) std::this_thread::sleep_for(kLook);
      reported = delivered(directory, nodes);
      ReportOptions options;
      options.settings = analysis;
      options.history = history_options(analysis);
      options.expected_nodes = nodes;
      options.now_utc_ns = utc_now_ns();
      std::vector<InputProblem> problems;
      write_report(directory, build_report(directory, options, problems));
      built = true;
    }
    if (delivered(directory, nodes) == reported) return built;
  }
}

constexpr std::string_view kKeys[] = {"report",      "report_limit", "interval", "probes",
                                      "min_seconds", "spool_max",    "keep_days"};
constexpr struct {
  std::string_view name;
  ReportWhen when;
} kReportNames[] = {{"epilog", ReportWhen::epilog}, {"job", ReportWhen::job}, {"lazy", ReportWhen::lazy}};

}  // namespace

DeliverSettings read_deliver_settings(const std::string& config) {
  DeliverSettings settings;
  std::error_code ignored;
  if (!fs::exists(config, ignored)) return settings;
  const ConfigFile file = parse_config(read_text_file(config, kSmallFile), config);
  for (const ConfigEntry& entry : file.entries) {
    if (entry.section != "slurm") continue;
    if (std::find(std::begin(kKeys), std::end(kKeys), entry.key) == std::end(kKeys)) {
      throw file.unknown_key(entry, std::vector<std::string>(std::begin(kKeys), std::end(kKeys)));
    }
    if (entry.key == "report_limit") {
      const auto limit = parse_duration(file.single(entry));
      if (!limit || *limit > 60s) throw file.error(entry.line, "report_limit is a time of at most 60s, for example 5s");
      settings.wait_for_nodes = std::chrono::duration_cast<std::chrono::milliseconds>(*limit * kShareOfLimit);
      settings.most_seconds = std::chrono::duration<double>(*limit).count() * kShareOfLimit;
    }
    if (entry.key != "report") continue;  // the collector's and the janitor's
    const auto* known = std::find_if(std::begin(kReportNames), std::end(kReportNames),
                                     [&](const auto& each) { return each.name == file.single(entry); });
    if (known == std::end(kReportNames)) throw file.error(entry.line, "report is epilog, job or lazy");
    settings.report = known->when;
  }
  return settings;
}

bool take_marker(const fs::path& directory, const char* name) noexcept {
  return static_cast<bool>(
      Descriptor(::openat(Descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)).get(), name,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)));
}

std::vector<fs::path> delivery_candidates(const SlurmJob& job, const std::string& request) {
  std::vector<fs::path> candidates;
  const std::string restart = job.restart > 0 ? "-r" + std::to_string(job.restart) : "";
  const std::string standard = "reveal-" + file_name_part(job.id) + restart;
  if (const std::string pattern = requested(request, "output"); !pattern.empty()) {
    try {
      const fs::path path = expand_pattern(pattern, pattern_environment(job)) + restart;
      if (path.is_absolute()) candidates.push_back(path.lexically_normal());
      if (path.is_relative() && fs::path(job.work_dir).is_absolute()) {
        candidates.push_back((fs::path(job.work_dir) / path).lexically_normal());
      }
    } catch (const Error&) {  // a pattern we do not know: the standard place
    }
  }
  for (const fs::path& base : {fs::path(job.work_dir), fs::path(job.home)}) {
    std::error_code ignored;
    if (base.is_absolute() && base != "/" && fs::is_directory(base, ignored)) candidates.push_back(base / standard);
  }
  return candidates;
}

Delivery deliver(const fs::path& spool, const std::string& node, const SlurmJob& job, const SlurmJob& place,
                 const std::string& request, const DeliverSettings& settings, const AnalysisSettings& analysis) {
  Delivery delivery;
  delivery.directory = spool;
  const bool small = estimated_seconds(spool) <= settings.most_seconds;
  if (small && settings.report == ReportWhen::epilog) write_summaries(spool, node, analysis);
  for (const fs::path& candidate : delivery_candidates(place, request)) {
    try {
      const fs::path directory = claim_free(candidate, place);
      if (!job.state.empty()) publish_file(directory, kJobFactsFile, render_slurm_job(job));
      move_all(spool, directory, node);
      delivery.directory = directory;
      delivery.moved = true;
      break;
    } catch (const std::exception& error) {
      delivery.why += (delivery.why.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  if (settings.report == ReportWhen::lazy) return delivery;
  if (settings.report == ReportWhen::job || !small) {
    delivery.needs_job = true;
    return delivery;
  }
  delivery.report_built = build_when_complete(delivery.directory, node, job, settings, analysis);
  return delivery;
}

}  // namespace reveal
