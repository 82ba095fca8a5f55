// Short texts of the kernel and of processes, by the functions that take them apart.
#include "core/gpu/drm_clients.h"
#include "core/gpu/gpu_files.h"
#include "core/job/cpu_set.h"
#include "core/job/loaded_libraries.h"
#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/metric_selection.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/text.h"
#include "target.h"

namespace reveal::fuzz::kernel_text {
namespace {

void run(std::string_view input) {
  static_cast<void>(parse_process_stat(input));
  static_cast<void>(parse_schedstat(input));
  if (const auto client = parse_drm_client(input)) {
    require(client->id >= 0 && client->engines.size() <= 16, "a GPU's client with a number and few engines");
  }
  require(parse_gpu_request(input).gpus.size() <= GpuRequest::kMostGpus, "a request for few GPUs");
  static_cast<void>(field_of(input, "Tgid"));
  for (const auto& [name, value] : allowed_environment(input)) {
    require(input.find(name) != std::string_view::npos, "an environment variable that is not there");
  }
  static_cast<void>(libraries_in(input));
  static_cast<void>(parse_duration(input));
  static_cast<void>(parse_bytes(input));
  static_cast<void>(split_names(input));
  const std::vector<int> cpus = parse_cpu_list(input);
  require(parse_cpu_list(format_cpu_list(cpus)) == cpus, "a list of cpus is written as it was read");
  static_cast<void>(CpuSet::of_list(input));
  const std::size_t half = input.size() / 2;
  const bool meet = patterns_meet(input.substr(0, half), input.substr(half));
  require(meet == patterns_meet(input.substr(half), input.substr(0, half)), "patterns meet both ways or not at all");
  std::string_view rest = input;
  std::int64_t value = 0;
  while (!rest.empty()) {
    const std::string_view word = cut_word(rest);
    if (word.empty() && rest.empty()) break;
    static_cast<void>(parse_counter(word, value));
  }
}

const RegisteredTarget kTarget{{"kernel_text", run}};

}  // namespace
}  // namespace reveal::fuzz::kernel_text
