// Errors of a GPU that its driver reported while the job ran.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <map>

#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_xid {
namespace {

enum class XidSource : std::uint8_t {
  unknown,
  ended,
  repaired,
  application,
  hardware
};  // the highest of several counts

// https://docs.nvidia.com/deploy/xid-errors/index.html
struct Xid {
  int number;
  XidSource source;
  std::string_view words;
};
constexpr std::array kXids = {
    Xid{13, XidSource::application, "a kernel failed, often because of an access outside its memory"},
    Xid{31, XidSource::application, "a kernel used memory that is not its own"},
    Xid{43, XidSource::application, "the driver stopped a process after an error of its own"},
    Xid{45, XidSource::ended, "the driver cleaned up after a process that was killed or failed"},
    Xid{48, XidSource::hardware, "memory error that could not be corrected"},
    Xid{62, XidSource::hardware, "a controller within the GPU stopped"},
    Xid{63, XidSource::repaired, "a page or row of memory was taken out of use"},
    Xid{64, XidSource::hardware, "a page or row of memory could not be taken out of use"},
    Xid{74, XidSource::hardware, "NVLink error"},
    Xid{79, XidSource::hardware, "the GPU has fallen off the bus"},
    Xid{92, XidSource::repaired, "many corrected memory errors"},
    Xid{94, XidSource::hardware, "memory error, contained to one application"},
    Xid{95, XidSource::hardware, "memory error that was not contained"},
    Xid{119, XidSource::hardware, "the GPU's system processor did not answer"},
    Xid{120, XidSource::hardware, "the GPU's system processor failed"},
    Xid{137, XidSource::application, "a kernel used memory of another GPU that is not its own"},
    Xid{140, XidSource::hardware, "memory error from which the driver could not recover"},
};

Xid xid_of(int number) {
  const auto known = std::find_if(kXids.begin(), kXids.end(), [&](const Xid& one) { return one.number == number; });
  return known == kXids.end() ? Xid{number, XidSource::unknown, "look it up in the driver's catalogue"} : *known;
}

/// The errors that the driver reported for a GPU, by their numbers: one fault is often followed by an error of each
/// process that used the GPU.
struct ReportedXids {
  int worst = 0;  // 0 where the events were left out
  bool alike = true;
};
ReportedXids reported_xids(const RuleContext& context, const std::string& gpu) {
  ReportedXids reported;
  for (const Event& event : context.events) {
    if (event.object != gpu || event.code != "xid") continue;
    const int number = static_cast<int>(parse_int(event.text.substr(0, event.text.find(' '))).value_or(0));
    reported.alike = reported.alike && (reported.worst == 0 || number == reported.worst);
    if (reported.worst == 0 || xid_of(number).source > xid_of(reported.worst).source) reported.worst = number;
  }
  return reported;
}

/// Errors that the driver reported for one GPU: counted, or as events where the job ended with the error.
struct ReportedErrors {
  double total = 0;
  std::optional<EventCount> counted;
  std::string lost;  // why; "": it was not
};

std::map<std::string, ReportedErrors> reported_errors(const RuleContext& context) {
  std::map<std::string, ReportedErrors> all;
  for (const Event& event : context.events) {
    if (event.code == "xid") all[event.object].total += 1;
    if (event.code == "gpu_lost") all[event.object].lost = event.text;
  }
  if (all.empty() || !context.channels("gpu.xid").empty()) {
    for (const EventCount& count : counted_events(context, "gpu.xid")) {
      ReportedErrors& reported = all[context.telemetry.channels[count.channel].instance];
      reported.total = std::max(reported.total, count.total);
      reported.counted = count;
    }
  }
  return all;
}

/// "it needs a reset" of "it needs a reset; it could not be opened (2 before it left out)".
std::string_view reason_of_loss(std::string_view text) {
  text = text.substr(0, text.find_first_of(";("));
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty()) return "it did not answer any more";
  return text == "it has fallen off the bus" ? "it fell off the bus" : text;
}

Finding lost_gpu(const RuleContext& context, const std::string& gpu, const ReportedErrors& reported, const Xid& xid) {
  Finding finding = gpu_finding(context, gpu, bad_for_jobs(context, {{"gpu_error", "yes"}}));
  const bool unopened = reported.lost.find("could not be opened") != std::string::npos;
  const std::string_view why = reason_of_loss(reported.lost);
  // An error without a name may be that of the driver, or of a container, instead of the GPU's.
  const bool broken = xid.number > 0 || !why.starts_with("the driver reports");
  finding.severity = broken ? Severity::critical : Severity::warning;
  if (!broken) finding.confidence = Confidence::likely;
  finding.impact.how =
      unopened ? "not known: the job could not use this GPU" : "not known: the work on the GPU at that time has failed";
  finding.evidence.push_back(fact(context, "gpu.xid", gpu, "total", reported.total, 0, "count"));
  finding.evidence.back().detectors = {Method::driver_event};
  finding.sentence = fmt::format("The driver {} {} on {}{}: {}{}.", unopened ? "could not open" : "lost",
                                 gpu_name(context, gpu), context.telemetry.node, unopened ? "" : " while the job ran",
                                 why, xid.number > 0 ? fmt::format(" (Xid {})", xid.number) : "");
  finding.runner_up = {"", "an error of the program: the driver could still reach the GPU then"};
  return finding;
}

std::vector<Finding> check_xid(const RuleContext& context) {
  std::vector<Finding> findings;
  for (const auto& [gpu, reported] : reported_errors(context)) {
    const ReportedXids numbers = reported_xids(context, gpu);
    const Xid xid = xid_of(numbers.worst);
    if (!reported.lost.empty()) {
      findings.push_back(lost_gpu(context, gpu, reported, xid));
      continue;
    }
    const bool application = xid.source == XidSource::application;
    const bool hardware = xid.source == XidSource::hardware;
    const bool ended = xid.source == XidSource::ended;
    JobValues values;
    if (application) values["program_error"] = "yes";
    if (hardware) values = bad_for_jobs(context, {{"gpu_error", "yes"}});
    Finding finding = gpu_finding(context, gpu, values);
    finding.severity = hardware ? Severity::critical : ended ? Severity::info : Severity::notice;
    finding.impact.how = application || hardware ? "not known: the work on the GPU at that time has usually failed"
                         : ended                 ? "none of its own: it follows the end of a process"
                                                 : "not known: no failure was seen";
    if (reported.counted) finding.intervals = {context.span(reported.counted->at.begin, reported.counted->at.end)};
    finding.evidence.push_back(reported.counted ? evidence_of(context, *reported.counted)
                                                : fact(context, "gpu.xid", gpu, "total", reported.total, 0, "count"));
    finding.evidence.back().observed = reported.total;
    finding.evidence.back().detectors = {Method::driver_event};
    finding.sentence = fmt::format(
        "The driver reported {} of {} on {} while the job ran{}: {}.",
        counted(reported.total, hardware && numbers.alike ? "critical error" : "error"), gpu_name(context, gpu),
        context.telemetry.node,
        xid.number > 0 ? fmt::format("{} {}", numbers.alike ? ", Xid" : ", the worst of them Xid", xid.number) : "",
        xid.number > 0 ? xid.words : "the kernel log has its number");
    if (application) finding.runner_up = {"", "a broken GPU: this number usually follows an error of the program"};
    if (ended) finding.runner_up = {"mem.oom_killed", "the end of the process has a cause of its own, as a time limit"};
    if (hardware) finding.runner_up = {"", "an error of the program: such errors have other numbers"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kXid{{
    .id = "gpu.xid",
    .title = "The driver reported an error of a GPU",
    .looks_for =
        "Xid errors of the job's GPUs, and GPUs that the driver lost: gpu.xid and the events with their numbers.",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::gpu,
    .order = 11,
    .look_alikes = "an error of the program (Xid 13; 31; 43; 137),a process that was killed (Xid 45),memory that was "
                   "replaced (Xid 63; 92)",
    .proof = Proof::real,
    .user_remedy = {{"compute-sanitizer   # finds the access; much slower", "program_error"},
                    {"#SBATCH --exclude={nodes}   # until the GPU has been checked", "avoid_node"}},
    .admin_remedy =
        {"dmesg -T | grep 'NVRM: Xid'   # the number and its process; NVIDIA's Xid catalogue lists the remedy",
         {"nvidia-smi -i {gpu} -q | grep -iE 'recovery|remap|pending'", "gpu_error"},
         {"scontrol update nodename={nodes} state=drain reason=xid   # changes the state in Slurm: no new job starts "
          "there; Xid 79: the GPU is off the bus, power off and on",
          "avoid_node"}},
    .verify = {.command = "dmesg -T | grep 'NVRM: Xid'",
               .where = "as root on the node, after the next run",
               .expected = "no line of the time of that run"},
    .sources = {"https://docs.nvidia.com/deploy/xid-errors/index.html"},
    .check = check_xid,
}};

}  // namespace
}  // namespace reveal::rule::gpu_xid
