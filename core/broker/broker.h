// `reveal-collect --job slurm:ID --spool DIR`: one node of a Slurm job from its prolog to its epilog, in two processes.
// The broker stays root: it keeps the lock, watches the job's end and the kill switch, and reads no text of the user's.
// The sampler becomes the job's user for good before it does anything else, and so does the process that delivers the
// trace.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

namespace reveal {

struct BrokerOptions {
  std::string job;   // "4711"
  std::string node;  // a file name
  std::filesystem::path spool;
  std::filesystem::path disable_file;
  std::string config;   // the site's reveal.conf
  std::string request;  // the user's text behind --reveal=; root passes it on and does not interpret it
  int lock_fd = -1;     // locked by the plug-in; free again means: done
  int restart = 0;      // how often the job was requeued before
  bool orphan = false;  // only deliver the files of a killed broker
  uid_t uid = 0;
  gid_t gid = 0;
};

/// How the sampler ended, as its exit status.
enum SamplerEnd : int { kSampled = 0, kSamplerFailed = 1, kTooShort = 10 };

/// Sockets behind which a process with privileges answers the sampler.
struct SamplerSockets {
  int perf_broker = -1;  // the broker, which opens counters of the job's cgroup
  int call_broker = -1;  // a process of the broker's that counts calls, begun with the first question; -1: forbidden
};

/// `sample` runs in the sampler: records into `trace` until SIGTERM or the job's end, returns a SamplerEnd.
/// The broker's exit status is 0 unless it could not even begin.
using SampleJob = std::function<int(const std::filesystem::path& trace, const SamplerSockets& sockets)>;
int run_broker(const BrokerOptions& options, const SampleJob& sample);

}  // namespace reveal
