// Errors of a GPU, of its memory and of its links to other GPUs, while the job ran.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

bool ever_set(const RuleContext& context, std::string_view metric, const std::string& gpu) {
  const auto series = gpu_series(context, metric, gpu);
  return std::any_of(series.begin(), series.end(), [](double value) { return value >= 1; });
}

Finding of_gpu(const RuleContext& context, const std::string& gpu, const JobValues& more = {}) {
  JobValues values = gpu_values(context, gpu);
  values.insert(more.begin(), more.end());
  Finding finding = context.finding(values);
  finding.confidence = Confidence::certain;
  finding.instances = {gpu};
  finding.intervals = {context.span(0, context.telemetry.samples)};
  return finding;
}

/// With it remedies keep a job of the batch system away from the node.
JobValues bad_for_jobs(const RuleContext& context, JobValues more = {}) {
  if (context.values().contains("job")) more["avoid_node"] = "yes";
  return more;
}

struct MemoryState {
  std::string_view metric;
  std::string_view words;
  Severity severity;
};
// A pending row or page costs neither speed nor results: it waits for the next reset.
constexpr std::array kMemoryStates = {
    MemoryState{"gpu.remap_failed", "could not replace a bad row by a spare one", Severity::warning},
    MemoryState{"gpu.remap_pending", "has a bad row of memory that is replaced when the GPU is reset",
                Severity::notice},
    MemoryState{"gpu.retired_pages_pending", "has a bad page of memory that is retired when the GPU is reset",
                Severity::notice}};

std::vector<Finding> check_memory(const RuleContext& context) {
  const std::vector<std::string> gpus = gpus_measured(context);
  std::vector<Finding> findings;
  std::map<std::string, EventCount> uncorrected;
  bool known = !context.channels("gpu.ecc_uncorrected").empty();
  if (known) {
    for (const EventCount& count : counted_events(context, "gpu.ecc_uncorrected")) {
      uncorrected.emplace(context.telemetry.channels[count.channel].instance, count);
    }
  }
  for (const std::string& gpu : gpus) {
    if (const auto found = uncorrected.find(gpu); found != uncorrected.end()) {
      const EventCount& count = found->second;
      Finding finding = of_gpu(context, gpu, bad_for_jobs(context, {{"wrong_results", "yes"}}));
      finding.severity = Severity::critical;
      finding.intervals = {context.span(count.at.begin, count.at.end)};
      finding.impact.how = "not known: results computed from this memory may be wrong";
      finding.evidence.push_back(evidence_of(context, count));
      finding.evidence.back().detectors = {"driver counter"};
      finding.sentence = fmt::format("The memory of {} on {} had {} that could not be corrected while the job ran.",
                                     gpu_name(context, gpu), context.telemetry.node, counted(count.total, "error"));
      findings.push_back(std::move(finding));
      continue;
    }
    for (const MemoryState& state : kMemoryStates) {
      known = known || !gpu_series(context, state.metric, gpu).empty();
      if (!ever_set(context, state.metric, gpu)) continue;
      const bool failed = state.severity >= Severity::warning;
      Finding finding = of_gpu(context, gpu, failed ? bad_for_jobs(context) : JobValues{});
      finding.severity = state.severity;
      finding.impact.how = failed ? "none seen: no error of it while the job ran"
                                  : "none: memory that waits to be replaced costs neither speed nor results";
      finding.evidence.push_back(gpu_evidence(context, gpu, std::string(state.metric), "value", 1, 0, "count"));
      finding.sentence = fmt::format("{} on {} {}.", gpu_name(context, gpu), context.telemetry.node, state.words);
      finding.runner_up = {"", "corrected errors alone: they are left out"};
      findings.push_back(std::move(finding));
      break;
    }
  }
  if (!known) throw Unavailable("not measured: memory errors of GPUs (no ECC, or the driver does not tell them)");
  return findings;
}

enum class XidSource : std::uint8_t { unknown, repaired, application, hardware };  // by what one of several tells

// https://docs.nvidia.com/deploy/xid-errors/index.html
struct Xid {
  int number;
  XidSource source;
  std::string_view words;
};
constexpr std::array kXids = {
    Xid{13, XidSource::application, "a kernel failed, often an access outside of its memory"},
    Xid{31, XidSource::application, "a kernel used memory that is not its own"},
    Xid{43, XidSource::application, "the driver stopped a process after an error of its own"},
    Xid{45, XidSource::application, "the driver cleaned up after a process that was killed"},
    Xid{48, XidSource::hardware, "memory error that could not be corrected"},
    Xid{63, XidSource::repaired, "a page or row of memory was taken out of use"},
    Xid{64, XidSource::hardware, "a page or row of memory could not be taken out of use"},
    Xid{74, XidSource::hardware, "NVLink error"},
    Xid{79, XidSource::hardware, "the GPU has fallen off the bus"},
    Xid{92, XidSource::repaired, "many corrected memory errors"},
    Xid{94, XidSource::hardware, "memory error, contained to one application"},
    Xid{95, XidSource::hardware, "memory error that was not contained"},
    Xid{119, XidSource::hardware, "the GPU's system processor did not answer"},
    Xid{120, XidSource::hardware, "the GPU's system processor failed"},
};

Xid xid_of(int number) {
  const auto known = std::find_if(kXids.begin(), kXids.end(), [&](const Xid& one) { return one.number == number; });
  return known == kXids.end() ? Xid{number, XidSource::unknown, "look it up in the driver's catalogue"} : *known;
}

/// The number that the driver told of a GPU; 0 where its event was left out.
int number_told(const RuleContext& context, const std::string& gpu) {
  int worst = 0;
  for (const Event& event : context.events) {
    if (event.object != gpu || event.code != "xid") continue;
    const int number = static_cast<int>(parse_int(event.text.substr(0, event.text.find(' '))).value_or(0));
    if (worst == 0 || xid_of(number).source > xid_of(worst).source) worst = number;
  }
  return worst;
}

/// What the driver told of one GPU: counted, or as events where the job ended with the error.
struct Told {
  double total = 0;
  std::optional<EventCount> counted;
  std::string lost;  // why; "": it was not
};

std::map<std::string, Told> all_told(const RuleContext& context) {
  std::map<std::string, Told> all;
  for (const Event& event : context.events) {
    if (event.code == "xid") all[event.object].total += 1;
    if (event.code == "gpu_lost") all[event.object].lost = event.text;
  }
  if (all.empty() || !context.channels("gpu.xid").empty()) {
    for (const EventCount& count : counted_events(context, "gpu.xid")) {
      Told& told = all[context.telemetry.channels[count.channel].instance];
      told.total = std::max(told.total, count.total);
      told.counted = count;
    }
  }
  return all;
}

Finding lost_gpu(const RuleContext& context, const std::string& gpu, const Told& told, const Xid& xid) {
  Finding finding = of_gpu(context, gpu, bad_for_jobs(context, {{"gpu_error", "yes"}}));
  finding.severity = Severity::critical;
  finding.impact.how = "not known: what ran on the GPU then has failed";
  finding.evidence.push_back(gpu_evidence(context, gpu, "gpu.xid", "total", told.total, 0, "count"));
  finding.evidence.back().detectors = {"driver event"};
  finding.sentence =
      fmt::format("The driver lost {} on {} while the job ran: {}{}.", gpu_name(context, gpu), context.telemetry.node,
                  told.lost.starts_with("it needs a reset") ? "it needs a reset" : "it fell off the bus",
                  xid.number > 0 ? fmt::format(" (Xid {})", xid.number) : "");
  finding.runner_up = {"", "an error of the program: the driver would still reach the GPU"};
  return finding;
}

std::vector<Finding> check_xid(const RuleContext& context) {
  std::vector<Finding> findings;
  for (const auto& [gpu, told] : all_told(context)) {
    const Xid xid = xid_of(number_told(context, gpu));
    if (!told.lost.empty()) {
      findings.push_back(lost_gpu(context, gpu, told, xid));
      continue;
    }
    const bool application = xid.source == XidSource::application;
    const bool hardware = xid.source == XidSource::hardware;
    JobValues values;
    if (application) values["program_error"] = "yes";
    if (hardware) values = bad_for_jobs(context, {{"gpu_error", "yes"}});
    Finding finding = of_gpu(context, gpu, values);
    finding.severity = hardware ? Severity::critical : Severity::notice;
    finding.impact.how = application || hardware ? "not known: what ran on the GPU then has usually failed"
                                                 : "not known: nothing was seen to fail";
    if (told.counted) finding.intervals = {context.span(told.counted->at.begin, told.counted->at.end)};
    finding.evidence.push_back(told.counted ? evidence_of(context, *told.counted)
                                            : gpu_evidence(context, gpu, "gpu.xid", "total", told.total, 0, "count"));
    finding.evidence.back().observed = told.total;
    finding.evidence.back().detectors = {"driver event"};
    finding.sentence = fmt::format("The driver reported {} of {} on {} while the job ran{}: {}.",
                                   counted(told.total, hardware ? "critical error" : "error"), gpu_name(context, gpu),
                                   context.telemetry.node, xid.number > 0 ? fmt::format(", Xid {}", xid.number) : "",
                                   xid.number > 0 ? xid.words : "the kernel log has its number");
    if (application) finding.runner_up = {"", "a broken GPU: this number follows an error of a program, as a rule"};
    if (hardware) finding.runner_up = {"", "an error of the program: it has other numbers"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

struct Link {
  std::string gpu;
  std::string instance;  // "gpu0/link3"
  bool up_once = false;
  bool down_at_end = false;
};

std::vector<Link> links(const RuleContext& context) {
  std::vector<Link> all;
  for (const std::size_t channel : context.channels("nvlink.active")) {
    Link link{.instance = context.telemetry.channels[channel].instance};
    link.gpu = link.instance.substr(0, link.instance.find('/'));
    for (const double value : context.telemetry.series(channel)) {
      if (std::isnan(value)) continue;
      link.up_once = link.up_once || value >= 1;
      link.down_at_end = value < 1;
    }
    all.push_back(std::move(link));
  }
  return all;
}

/// Links that are up, of each GPU.
std::map<std::string, int> links_up(std::span<const Link> all) {
  std::map<std::string, int> up;
  for (const Link& link : all) up[link.gpu] += link.up_once ? 1 : 0;
  return up;
}

/// Most links that a GPU of the same kind has up; 0 for the only one of its kind.
int links_of_kind(const RuleContext& context, const std::map<std::string, int>& up, const std::string& gpu) {
  int most = 0;
  for (const auto& [other, count] : up) {
    if (other != gpu && gpu_fact(context, other, "name") == gpu_fact(context, gpu, "name"))
      most = std::max(most, count);
  }
  return most;
}

std::vector<Finding> check_links(const RuleContext& context) {
  const std::vector<Link> all = links(context);
  if (all.empty()) throw Unavailable("not measured: nvlink.active (these GPUs have no NVLink, or no GPU was measured)");
  const auto up = links_up(all);
  std::vector<Finding> findings;
  for (const auto& [gpu, count] : up) {
    std::vector<std::string> down;
    std::vector<std::string> never_up;
    const int expected = links_of_kind(context, up, gpu);
    for (const Link& link : all) {
      if (link.gpu != gpu || !link.down_at_end) continue;
      if (link.up_once) {
        down.push_back(link.instance);
      } else if (count < expected) {  // else the board does not use it
        never_up.push_back(link.instance);
      }
    }
    const bool fell = !down.empty();
    if (!fell) down = std::move(never_up);
    if (down.empty()) continue;
    Finding finding = of_gpu(context, gpu, fell ? bad_for_jobs(context) : JobValues{});
    // Boards of the same name may be wired differently.
    finding.severity = fell ? Severity::warning : Severity::notice;
    finding.confidence = fell ? Confidence::certain : Confidence::possible;
    finding.instances = down;
    finding.impact.how = "not known: what the job moved between its GPUs was not compared";
    const auto alive = static_cast<double>(count) - static_cast<double>(fell ? down.size() : 0);
    finding.evidence.push_back(gpu_evidence(context, gpu, "nvlink.active", "links that are up", alive,
                                            std::max<double>(count, expected), "count"));
    finding.sentence = fmt::format(
        "{} of {} on {} {} down{}: {}.", counted(static_cast<double>(down.size()), "NVLink"), gpu_name(context, gpu),
        context.telemetry.node, fell ? "went" : "is",
        fell ? " while the job ran and did not come up again" : ", and its neighbours of the same kind have more",
        listed(down));
    finding.runner_up = {"", "a board without these links: others of the kind have them, or they were up before"};
    findings.push_back(std::move(finding));
  }
  for (const std::string_view metric : {"nvlink.recoveries", "nvlink.crc_errors"}) {
    if (context.channels(metric).empty()) continue;
    for (const EventCount& count : counted_events(context, metric)) {
      if (count.total < context.threshold("min_errors")) continue;
      const std::string instance = context.telemetry.channels[count.channel].instance;
      Finding finding = of_gpu(context, instance.substr(0, instance.find('/')));
      finding.severity = Severity::notice;
      finding.instances = {instance};
      finding.intervals = {context.span(count.at.begin, count.at.end)};
      finding.impact.how = "none seen: the link repeats what was damaged";
      finding.evidence.push_back(evidence_of(context, count));
      finding.evidence.back().detectors = {"driver counter"};
      finding.sentence =
          fmt::format("NVLink {} on {} counted {} while the job ran.", instance, context.telemetry.node,
                      counted(count.total, metric == "nvlink.recoveries" ? "new training" : "checksum error"));
      findings.push_back(std::move(finding));
      break;  // the worst of a kind
    }
  }
  return findings;
}

const RegisteredRule kEcc{{
    .id = "gpu.ecc_remap",
    .title = "A GPU's memory has errors",
    .looks_for =
        "Memory errors that were not corrected (gpu.ecc_uncorrected), and bad memory that waits to be replaced "
        "or cannot be (gpu.remap_pending, gpu.remap_failed, gpu.retired_pages_pending).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 13,
    .look_alikes = "corrected errors alone",
    .proof = Proof::test_double,
    .user_remedy = {{"sbatch --exclude={nodes} ...   # until the GPU was reset or replaced", "avoid_node"}},
    .advice = {{"After errors that were not corrected, start again from a checkpoint that is older than they are.",
                "wrong_results"}},
    .admin_remedy = {"nvidia-smi -i {gpu} -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
                     {"scontrol update nodename={nodes} state=drain reason=gpu-ecc", "avoid_node"},
                     "nvidia-smi -r -i {gpu}   # once nothing runs there: replaces what is pending; failed: RMA"},
    .verify = "remap pending is No after the reset, and the volatile count of uncorrected errors stays 0",
    .sources = {"https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html",
                "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html"},
    .check = check_memory,
}};

const RegisteredRule kXid{{
    .id = "gpu.xid",
    .title = "The driver reported an error of a GPU",
    .looks_for =
        "Xid errors of the job's GPUs, and GPUs that the driver lost: gpu.xid and the events with their numbers.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 11,
    .look_alikes = "an error of the program (Xid 13; 31; 43; 45),memory that was replaced (Xid 63; 92)",
    .proof = Proof::test_double,
    .user_remedy = {{"compute-sanitizer {command} ...   # finds the access; much slower", "program_error"},
                    {"sbatch --exclude={nodes} ...   # until the GPU was looked at", "avoid_node"}},
    .admin_remedy = {"dmesg -T | grep 'NVRM: Xid'   # the number and its process; the catalogue says what to do",
                     {"nvidia-smi -i {gpu} -q | grep -iE 'recovery|remap|pending'", "gpu_error"}},
    .verify = "the same job runs without a line of NVRM: Xid in the kernel's log",
    .sources = {"https://docs.nvidia.com/deploy/xid-errors/index.html"},
    .check = check_xid,
}};

const RegisteredRule kNvlink{{
    .id = "gpu.nvlink_down",
    .title = "An NVLink is down or has errors",
    .looks_for = "NVLinks that went down, that are down while other GPUs of the kind have them up (nvlink.active), or "
                 "that counted errors (nvlink.recoveries, nvlink.crc_errors).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 14,
    .look_alikes = "a board without NVLink or with fewer links,a link that came up again",
    .proof = Proof::test_double,
    .thresholds = {{"min_errors", 10, "errors", "errors of one link from which it is reported"}},
    .user_remedy = {{"sbatch --exclude={nodes} ...   # until the links are up", "avoid_node"},
                    "nvidia-smi nvlink -s -i {gpu}; nvidia-smi topo -m"},
    .admin_remedy = {"nvidia-smi nvlink -e -i {gpu}; systemctl status nvidia-fabricmanager",
                     {"scontrol update nodename={nodes} state=drain reason=nvlink", "avoid_node"}},
    .verify = "nvidia-smi nvlink -s shows all links of the GPU with their speed",
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__NvLink.html",
                "https://github.com/Azure/azurehpc-health-checks"},
    .check = check_links,
}};

}  // namespace
}  // namespace reveal
