// Where the main threads of Python processes stood, sample by sample, out of the events of a trace.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/trace.h"

namespace reveal {

struct PythonSamples {
  static constexpr std::int64_t kFarthest = INT64_MAX / 3;  // limit for times, so that they can be added
  static constexpr std::int32_t kElsewhere = -1;            // its name did not fit into the trace

  struct Sample {
    std::int64_t time_ns = 0;  // on the axis of the events
    std::int32_t place = kElsewhere;
    double weight = 1;  // the part of the usual period for which it stands
  };
  std::string process;               // "rank0"
  std::vector<std::string> places;   // "load (data.py:88)", "train (train.py:40), in wait (threading.py:320)"
  std::vector<Sample> samples;       // in the order of the events; of time, where they were taken faster at times
  std::vector<std::int64_t> unread;  // times at which nothing could be read
};

/// Returns the samples of every process that has some, by name. Other and damaged events are skipped.
[[nodiscard]] std::vector<PythonSamples> python_samples(std::span<const Event> events);

/// Whether a main thread waits there for a worker of PyTorch's DataLoader, which it iterates: in Python's queues and
/// selectors. Threads that only watch others wait like that, too.
/// https://github.com/pytorch/pytorch/blob/main/torch/utils/data/dataloader.py
[[nodiscard]] bool waits_for_loader(std::string_view place);

/// "train(train.py:40)>wait(threading.py:320)" for people.
[[nodiscard]] std::string shown_place(std::string_view place);

}  // namespace reveal
