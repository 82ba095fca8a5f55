// Settings of NCCL, CUDA and PyTorch that are meant for a search for errors, in the environment of a job that uses
// them.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"

namespace reveal::rule::nccl_debug {
namespace {

struct DebugSetting {
  const char* name;
  const char* line;           // line of the remedy
  std::string_view harmless;  // values, separated by blanks; with any other the setting costs time
  std::string_view library;   // a job that has not loaded it is not slowed down
  std::string_view cost;
};

// NVIDIA's manual calls all of these "Debugging": nothing that a production job should keep.
constexpr std::array kSettings = {
    DebugSetting{"CUDA_LAUNCH_BLOCKING", "unset CUDA_LAUNCH_BLOCKING", "0", "cuda",
                 "the program waits for every kernel"},
    DebugSetting{"TORCH_DISTRIBUTED_DEBUG", "unset TORCH_DISTRIBUTED_DEBUG", "OFF INFO", "torch",
                 "every collective is checked against the other ranks"},
    DebugSetting{"NCCL_DEBUG", "unset NCCL_DEBUG", "NONE VERSION WARN INFO", "nccl", "every call is logged"},
    DebugSetting{
        "NCCL_P2P_DISABLE",
        "unset NCCL_P2P_DISABLE   # if the job then hangs, set it again and tell the administrators: IOMMU or ACS", "0",
        "nccl", "GPUs of a node do not exchange data directly"},
    DebugSetting{
        "NCCL_SHM_DISABLE",
        "unset NCCL_SHM_DISABLE   # if the job then fails, set it again: /dev/shm of the container is too small", "0",
        "nccl", "ranks of a node exchange data over the network"},
    DebugSetting{"NCCL_ALGO", "unset NCCL_ALGO", "", "nccl", "NCCL cannot choose the algorithm by size"},
    DebugSetting{"NCCL_PROTO", "unset NCCL_PROTO", "", "nccl", "NCCL cannot choose the protocol by size"},
    DebugSetting{"NCCL_BUFFSIZE", "unset NCCL_BUFFSIZE", "", "nccl",
                 "NCCL does not use the buffer size that it is tuned for"},
    DebugSetting{"NCCL_MAX_NCHANNELS", "unset NCCL_MAX_NCHANNELS", "", "nccl",
                 "NCCL may use fewer channels than it would"},
};

std::vector<RemedyLine> unset_lines() {
  std::vector<RemedyLine> lines;
  lines.reserve(kSettings.size());
  for (const DebugSetting& setting : kSettings) lines.emplace_back(setting.line, setting.name);
  return lines;
}

/// NCCL and PyTorch take their words in any case.
std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// PyTorch brings NCCL and the CUDA runtime along without saying so.
bool loaded(std::string_view libraries, std::string_view library) {
  if (library == "torch") return libraries.find("torch") != std::string_view::npos;
  return has_word(libraries, library) || has_word(libraries, "torch_cuda");
}

std::vector<Finding> check(const RuleContext& context) {
  const std::string libraries = context.snapshot_value("job.libraries");
  if (libraries.empty()) throw Unavailable("not measured: the libraries the job loaded (job.libraries)");
  Finding finding = context.finding();
  JobValues values;
  for (const DebugSetting& setting : kSettings) {
    const std::string value = context.snapshot_value("env." + std::string(setting.name));
    if (value.empty() || has_word(setting.harmless, upper(value)) || !loaded(libraries, setting.library)) continue;
    finding.instances.emplace_back(setting.name);
    values[setting.name] = value;
    finding.sentence += finding.sentence.empty() ? fmt::format("{}={} is set in the job on {}: {}", setting.name, value,
                                                               context.telemetry.node, setting.cost)
                                                 : fmt::format("; {}={}: {}", setting.name, value, setting.cost);
    finding.evidence.push_back({.metric = "env." + std::string(setting.name),
                                .instance = value,
                                .node = context.telemetry.node,
                                .feature = "value",
                                .span = context.span(0, context.telemetry.samples),
                                .detectors = {Method::environment}});
  }
  if (finding.instances.empty()) return {};
  finding.remedy = context.finding(values).remedy;
  finding.sentence += ".";
  finding.severity = Severity::notice;
  finding.confidence = Confidence::certain;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.impact.how = "not known: only a run without the setting shows it";
  return {finding};
}

const RegisteredRule kRule{{
    .id = "nccl.debug_env_left",
    .title = "Debug settings are still in the job's environment",
    .looks_for = "Debug variables of NCCL, CUDA and PyTorch in the environment of a job that loaded the library.",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::network,
    .order = 45,
    .proof = Proof::real,
    .user_remedy = unset_lines(),
    .advice = {"Keep such a setting only with a comment and a measurement that shows its benefit."},
    .verify = {.command = "reveal compare THIS_RUN NEXT_RUN",
               .where = "after the next run",
               .expected = "the same run time or a shorter one"},
    .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::nccl_debug
