// Calls of CUDA and NCCL that returned an error: which, where, and when the first of them did. A program may hide it,
// and often prints the error of a later call. https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/telemetry/call_facts.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/times.h"

namespace reveal::rule::stack_errors {
namespace {

/// The gravest last.
enum class Meaning : std::uint8_t {
  harmless,   // healthy programs get it
  no_memory,  // an allocator frees its cache and tries again
  failed,
  broken,  // every later call fails as well
};

struct Code {
  std::int64_t number;
  Meaning meaning;
  std::string_view name;  // "": not in the table
  std::string_view words;
  std::string_view remedy = {};  // the value that lines of the remedy need
};

// The runtime's and the driver's numbers are the same; the names are those of the runtime.
constexpr Code kCudaCodes[] = {
    {1, Meaning::failed, "cudaErrorInvalidValue", "an argument is not valid"},
    {2, Meaning::no_memory, "cudaErrorMemoryAllocation", "no memory was left", "no_memory"},
    {3, Meaning::failed, "cudaErrorInitializationError", "CUDA could not be initialised, as after a fork", "no_gpu"},
    {4, Meaning::harmless, "cudaErrorCudartUnloading", "the program was about to end"},
    {9, Meaning::failed, "cudaErrorInvalidConfiguration", "a kernel cannot have so many threads or blocks"},
    {35, Meaning::failed, "cudaErrorInsufficientDriver", "the driver is older than the CUDA library, or there is none",
     "no_gpu"},
    {46, Meaning::failed, "cudaErrorDevicesUnavailable", "another process has the GPU for itself", "no_gpu"},
    {98, Meaning::failed, "cudaErrorInvalidDeviceFunction", "the program was not compiled for this GPU",
     "architecture"},
    {100, Meaning::failed, "cudaErrorNoDevice", "no GPU was found", "no_gpu"},
    {101, Meaning::failed, "cudaErrorInvalidDevice", "there is no GPU of this number", "no_gpu"},
    {209, Meaning::failed, "cudaErrorNoKernelImageForDevice", "the program was not compiled for this GPU",
     "architecture"},
    {214, Meaning::broken, "cudaErrorECCUncorrectable", "a memory error of the GPU that could not be corrected",
     "bad_memory"},
    {400, Meaning::failed, "cudaErrorInvalidResourceHandle", "a stream or an event is not valid"},
    {600, Meaning::harmless, "cudaErrorNotReady", "not ready yet"},
    {700, Meaning::broken, "cudaErrorIllegalAddress", "a kernel used memory that is not its own", "kernel_failed"},
    {701, Meaning::failed, "cudaErrorLaunchOutOfResources", "a kernel needs more threads or registers than there are"},
    {702, Meaning::broken, "cudaErrorLaunchTimeout", "a kernel ran for too long", "kernel_failed"},
    {704, Meaning::harmless, "cudaErrorPeerAccessAlreadyEnabled", "access to another GPU is enabled already"},
    {709, Meaning::harmless, "cudaErrorContextIsDestroyed", "the program was about to end"},
    {710, Meaning::broken, "cudaErrorAssert", "an assertion in a kernel failed", "kernel_failed"},
    {715, Meaning::broken, "cudaErrorIllegalInstruction", "a kernel had an illegal instruction", "kernel_failed"},
    {716, Meaning::broken, "cudaErrorMisalignedAddress", "a kernel used a misaligned address", "kernel_failed"},
    {717, Meaning::broken, "cudaErrorInvalidAddressSpace", "a kernel used an address of the wrong kind",
     "kernel_failed"},
    {718, Meaning::broken, "cudaErrorInvalidPc", "a kernel jumped out of its code", "kernel_failed"},
    {719, Meaning::broken, "cudaErrorLaunchFailure", "a kernel failed", "kernel_failed"},
    {801, Meaning::failed, "cudaErrorNotSupported", "this GPU or driver does not support it"},
    {802, Meaning::failed, "cudaErrorSystemNotReady", "the system of the GPUs is not ready: see the fabric manager",
     "no_gpu"},
};
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html
constexpr Code kNcclCodes[] = {
    {1, Meaning::broken, "ncclUnhandledCudaError", "a call of CUDA failed inside NCCL"},
    {2, Meaning::broken, "ncclSystemError", "a call of the operating system failed: network, sockets, shared memory"},
    {3, Meaning::broken, "ncclInternalError", "an error inside NCCL"},
    {4, Meaning::failed, "ncclInvalidArgument", "an argument is not valid"},
    {5, Meaning::failed, "ncclInvalidUsage", "it was called in a wrong way"},
    {6, Meaning::broken, "ncclRemoteError", "another rank has failed, or cannot be reached"},
    {7, Meaning::harmless, "ncclInProgress", "not ready yet"},
};

Code code_of(bool nccl, std::int64_t number) {
  const std::span<const Code> codes = nccl ? std::span<const Code>(kNcclCodes) : std::span<const Code>(kCudaCodes);
  const auto known = std::find_if(codes.begin(), codes.end(), [&](const Code& one) { return one.number == number; });
  return known == codes.end() ? Code{number, Meaning::failed, "", ""} : *known;
}

/// The record of one error of a function.
struct Recorded {
  double calls = 0;              // 0: not counted, as in older traces
  const Event* first = nullptr;  // it came up to a second before
};
using RecordedCodes = std::map<std::int64_t, Recorded>;
constexpr std::size_t kCountedCodes = 4;  // errors of a function that a collector counts one by one

/// "(3 calls so far)"; 0 where there is no number.
double calls_so_far(std::string_view word) {
  const auto calls = word.starts_with('(') ? parse_int(word.substr(1)) : std::nullopt;
  return calls && *calls > 0 ? static_cast<double>(*calls) : 0;
}

/// The recorded error codes of a function of a process.
RecordedCodes codes_of(const RuleContext& context, std::string_view process, std::string_view function) {
  RecordedCodes codes;
  for (const Event& event : context.events) {
    if (event.code != "call_error" || event.object != process) continue;
    std::string_view rest = event.text;
    if (next_word(rest) != function || next_word(rest) != "returned") continue;
    const auto number = parse_int(next_word(rest));
    if (!number) continue;
    Recorded& code = codes[*number];
    const std::string_view word = next_word(rest);
    const bool counted = next_word(rest) == "calls";
    code.calls = std::max(code.calls, counted ? calls_so_far(word) : 0);
    if (code.first == nullptr) code.first = &event;
  }
  return codes;
}

bool are_counted(const RecordedCodes& codes) {
  return !codes.empty() &&
         std::all_of(codes.begin(), codes.end(), [](const auto& each) { return each.second.calls > 0; });
}

/// The calls that returned one of the errors, from the row of the first event on.
EventCount calls_with(const RuleContext& context, const EventCount& all, const Recorded& code) {
  EventCount some = all;
  some.total = code.calls;
  for (std::size_t t = all.at.begin; t < all.at.end; ++t) {
    if (!context.happened_in(*code.first, context.span(all.at.begin, t + 1))) continue;
    some.at.begin = t;
    break;
  }
  return some;
}

/// The code with the gravest meaning; nothing where none was recorded.
std::optional<Code> gravest(bool nccl, const RecordedCodes& codes) {
  std::optional<Code> worst;
  for (const auto& [number, recorded] : codes) {
    const Code code = code_of(nccl, number);
    if (!worst || code.meaning > worst->meaning) worst = code;
  }
  return worst;
}

/// Failed calls whose gravest error is the same.
struct Errors {
  bool nccl = false;
  std::optional<Code> code;       // nothing: it was not recorded
  std::set<std::int64_t> others;  // numbers of other errors that these functions returned
  double total = 0;
  std::string first_function;
  Interval at;
  std::set<std::string> processes, functions;
  std::vector<EventCount> counts;
};

void add(const RuleContext& context, const EventCount& count, Errors& errors) {
  const CallInstance call = call_instance(context.telemetry.channels[count.channel].instance);
  if (errors.counts.empty() || count.at.begin < errors.at.begin) {
    errors.first_function = call.function;
    errors.at.begin = count.at.begin;
  }
  errors.at.end = std::max(errors.at.end, count.at.end);
  errors.total += count.total;
  errors.processes.insert(context.rank_name(std::string(call.process)));
  errors.functions.emplace(call.function);
  errors.counts.push_back(count);
}

Finding describe(const RuleContext& context, const Errors& errors) {
  const Meaning meaning = errors.code ? errors.code->meaning : Meaning::failed;
  JobValues values;
  if (errors.nccl) values["nccl_failed"] = "yes";
  if (errors.code && !errors.code->remedy.empty()) values[std::string(errors.code->remedy)] = "yes";
  Finding finding = context.finding(values);
  finding.severity = meaning == Meaning::broken ? Severity::warning : Severity::notice;
  finding.confidence = Confidence::certain;
  finding.intervals = {context.span(errors.at.begin, errors.at.end)};
  finding.instances.assign(errors.processes.begin(), errors.processes.end());
  finding.impact.how = meaning == Meaning::no_memory ? "not known: allocators give memory back and try again"
                                                     : "not known: the work of that moment has usually failed";
  constexpr std::size_t kMostCounts = 4;
  for (std::size_t i = 0; i < std::min(kMostCounts, errors.counts.size()); ++i)
    finding.evidence.push_back(evidence_of(context, errors.counts[i]));
  std::string what =
      errors.code ? fmt::format("{} {}{}{}", errors.nccl ? "the NCCL result" : "the CUDA error", errors.code->number,
                                errors.code->name.empty() ? "" : fmt::format(", {}", errors.code->name),
                                errors.code->words.empty() ? "" : fmt::format(" ({})", errors.code->words))
                  : std::string("an error");
  if (!errors.others.empty()) {
    std::vector<std::string> others;
    for (const std::int64_t number : errors.others) others.push_back(std::to_string(number));
    what = fmt::format("errors: the gravest is {}, the others are {}", what, listed(others, 4));
  }
  const std::vector<std::string> functions(errors.functions.begin(), errors.functions.end());
  finding.sentence = fmt::format(
      "{} of {} by {} on {} returned {}{} at {} UTC.", counted(errors.total, "call"), listed(functions, 3),
      listed(finding.instances, 3), context.telemetry.node, what,
      errors.total > 1 ? fmt::format("{} first {}", errors.others.empty() ? "," : ";", errors.first_function) : "",
      clock_time(finding.intervals.front().begin_utc_ns));
  if (meaning == Meaning::no_memory) {
    finding.runner_up = {"gpu.mem_pressure", "that rule reads how full the GPU was; here calls were refused"};
  } else {
    finding.runner_up = {"", "errors that healthy programs get: not ready yet, the end of the program"};
  }
  return finding;
}

/// The errors that functions of CUDA's runtime returned in each process.
std::set<std::pair<std::string, std::int64_t>> errors_of_the_runtime(const RuleContext& context,
                                                                     std::span<const EventCount> counts) {
  std::set<std::pair<std::string, std::int64_t>> errors;
  for (const EventCount& count : counts) {
    const CallInstance call = call_instance(context.telemetry.channels[count.channel].instance);
    if (call.process.empty() || call_facts(call.function).library != CallLibrary::cuda) continue;
    for (const auto& [code, recorded] : codes_of(context, call.process, call.function)) {
      errors.emplace(call.process, code);
    }
  }
  return errors;
}

std::vector<Finding> check(const RuleContext& context) {
  std::map<std::pair<bool, std::int64_t>, Errors> by_code;
  const std::vector<EventCount> counts = counted_events(context, "stack.errors");
  const std::set<std::pair<std::string, std::int64_t>> of_runtime = errors_of_the_runtime(context, counts);
  for (const EventCount& count : counts) {
    const CallInstance call = call_instance(context.telemetry.channels[count.channel].instance);
    if (call.process.empty()) continue;
    const RecordedCodes codes = codes_of(context, call.process, call.function);
    const CallLibrary library = call_facts(call.function).library;
    const bool passed_on = std::any_of(codes.begin(), codes.end(), [&](const auto& each) {
      return of_runtime.contains({std::string(call.process), each.first});
    });
    if (library == CallLibrary::cuda_driver && passed_on) continue;  // the runtime called the driver: one error
    const bool nccl = library == CallLibrary::nccl;
    const auto add_to = [&](const std::optional<Code>& code, const EventCount& calls) -> Errors& {
      Errors& errors = by_code[{nccl, code ? code->number : -1}];
      errors.nccl = nccl;
      errors.code = code;
      add(context, calls, errors);
      return errors;
    };
    if (are_counted(codes)) {
      EventCount rest = count;
      for (const auto& [number, recorded] : codes) {
        const Code code = code_of(nccl, number);
        if (code.meaning != Meaning::harmless) add_to(code, calls_with(context, count, recorded));
        rest.total -= recorded.calls;
      }
      if (codes.size() >= kCountedCodes && rest.total >= 1) add_to(std::nullopt, rest);
      continue;
    }
    const std::optional<Code> code = gravest(nccl, codes);
    if (code && code->meaning == Meaning::harmless) continue;
    Errors& errors = add_to(code, count);
    for (const auto& [number, recorded] : codes) errors.others.insert(number);
    if (code) errors.others.erase(code->number);
  }
  std::vector<Finding> findings;
  findings.reserve(by_code.size());
  for (const auto& [key, errors] : by_code) findings.push_back(describe(context, errors));
  return findings;
}

const RegisteredRule kRule{{
    .id = "stack.errors",
    .title = "Calls of CUDA or NCCL returned errors",
    .looks_for = "Calls of the job's processes into CUDA and NCCL that returned an error (stack.errors: --stack), with "
                 "number and name of the error, the calls that returned it, and the first of them.",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::gpu,
    .order = 12,
    .look_alikes = "results that mean \"not ready yet\", the end of a program",
    .proof = Proof::test_double,
    .user_remedy =
        {{"compute-sanitizer   # names an access to wrong memory; much slower", "kernel_failed"},
         {"export CUDA_LAUNCH_BLOCKING=1   # in one run: the call that failed then returns the error; slower",
          "kernel_failed"},
         {"#SBATCH --exclude={nodes}   # until the GPU was reset or replaced", "job,bad_memory"},
         {"nvidia-smi   # on {node}, in such a job: the GPUs that it sees, and the newest CUDA version of the driver",
          "no_gpu"},
         {"export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET   # in one run: NCCL writes why", "nccl_failed"},
         {"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   # PyTorch then loses less memory between blocks",
          "no_memory,torch"}},
    .advice = {{"Use less memory on the GPU: a smaller batch, or gradient checkpointing.", "no_memory"},
               {"Start again from a checkpoint that is older than the error.", "bad_memory"},
               {"Compile for this GPU (nvcc -arch=native), or install a build of PyTorch that names it: "
                "torch.cuda.get_arch_list().",
                "architecture"}},
    .admin_remedy =
        {{"nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT   # on {nodes}", "bad_memory"},
         {"dmesg -T | grep -iE 'nvrm|nvlink|mlx5|link'   # on {nodes}: messages of GPUs and network at that "
          "time",
          "!no_memory,!architecture"}},
    .verify = {.expected = "stack.errors is 0"},
    .sources = {"https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
                "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html",
                "https://docs.pytorch.org/docs/stable/notes/cuda.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::stack_errors
