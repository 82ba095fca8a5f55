// The common input of the trace tests: small families with known values.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <thread>

#include "hdf5schema/trace_writer.h"
#include "tests/unit/temporary_directory.h"

namespace reveal {

inline TraceHeader sample_header() {
  return {.job_id = "4711",
          .job_name = "train",
          .user = "alice",
          .node = "n01",
          .command = "python3",
          .run_key = "0123456789abcdef0123456789abcdef",
          .trace_id = "00112233445566778899aabbccddeeff",
          .tool_version = "0.1.0",
          .interval = std::chrono::milliseconds(100),
          .begin_utc_ns = 1'700'000'000'000'000'000,
          .tags = {{"model", "mlp"}}};
}

inline FamilySpec counter_family(std::string path = "memory/vmstat",
                                 std::chrono::nanoseconds period = std::chrono::milliseconds(100)) {
  return {.path = std::move(path),
          .kind = Kind::counter,
          .unit = Unit::count,
          .scope = Scope::node,
          .subsystem = Subsystem::memory,
          .long_name = "Kernel memory counters",
          .source = "/proc/vmstat",
          .period = period};
}

inline FamilySpec gauge_family(std::string path = "memory/meminfo",
                               std::chrono::nanoseconds period = std::chrono::milliseconds(100)) {
  return {.path = std::move(path),
          .kind = Kind::gauge,
          .unit = Unit::bytes,
          .scope = Scope::node,
          .subsystem = Subsystem::memory,
          .long_name = "Memory by use",
          .source = "/proc/meminfo",
          .period = period};
}

/// Simulated time outruns the writer's thread, which would count rows as lost: waits for the buffers handed over.
inline void wait_until_flushed(const TraceWriter& writer, std::int64_t time_ns) {
  while (writer.status().flushed_until_ns < time_ns && writer.status().failure.empty()) std::this_thread::yield();
}

inline FamilySpec real_family() {
  return {.path = "cpu/share",
          .kind = Kind::gauge,
          .unit = Unit::ratio,
          .scope = Scope::cpu,
          .subsystem = Subsystem::cpu,
          .long_name = "Share",
          .source = "test",
          .period = std::chrono::milliseconds(100)};
}

}  // namespace reveal
