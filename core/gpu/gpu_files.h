// The files in which a kernel driver shows one GPU, read by the child process of a probe, and the request that the
// child gets: "fast" or "slow", "at=TIME", NUMBER=ADDRESS of each GPU, and "pid=PID" of each process of the job. The
// answer begins with the same first word and has, for each GPU, "asleep NUMBER" or "NUMBER METRIC VALUE METRIC VALUE
// ..."; "process PID NUMBER METRIC VALUE ..."; and once "fact NUMBER KEY VALUE".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kernel_text/kernel_tree.h"

namespace reveal {

enum class GpuPace : std::uint8_t { fast, slow };

struct GpuRequest {
  static constexpr std::string_view kFast = "fast";
  static constexpr std::string_view kSlow = "slow";
  static constexpr std::size_t kMostGpus = 32;

  GpuPace pace = GpuPace::fast;
  std::int64_t time_ns = 0;
  std::vector<std::pair<std::string, std::string>> gpus;  // number and address
  std::vector<int> pids;
};
[[nodiscard]] GpuRequest parse_gpu_request(std::string_view words);
/// The longest part of the answer that can be sent and has whole lines.
void cut_answer(std::string& answer);

/// " METRIC VALUE" behind the text.
void append_value(std::string& text, std::string_view metric, std::int64_t value);
/// "250" for the word "250000000" and the divisor 1,000,000; "" if it is no number, or 0.
[[nodiscard]] std::string whole_units(std::string_view word, std::int64_t divisor);

class GpuFiles {
 public:
  GpuFiles(KernelTree& fs, std::string number, const std::string& address);

  /// Reading any other file would wake a GPU that sleeps.
  [[nodiscard]] bool is_asleep();
  struct Scale {
    std::int64_t multiplier = 1;
    std::int64_t divisor = 1;
  };
  /// A file that holds a number. Of several files of one metric (the parts of a GPU), the largest value counts.
  void add(std::string_view metric, const std::string& path, Scale scale, GpuPace pace);
  [[nodiscard]] bool has(std::string_view metric) const;
  /// Values of all files, or of those that are read each second. One that cannot be read is left out.
  void append_values(std::string& line, GpuPace pace);

  /// A line for the answer, unless the value is empty.
  void append_fact(std::string& answer, std::string_view key, const std::string& value) const;

  [[nodiscard]] KernelTree& tree() const noexcept { return fs_; }
  [[nodiscard]] const std::string& number() const noexcept { return number_; }
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }

 private:
  struct Reading {
    std::string_view metric;
    KernelFile file;
    Scale scale;
    GpuPace pace;
    std::int64_t value;  // in this answer
  };

  KernelTree& fs_;
  std::string number_;
  std::string folder_;  // "/sys/bus/pci/devices/0000:c1:00.0"
  KernelFile status_;
  std::vector<Reading> readings_;
};

}  // namespace reveal
