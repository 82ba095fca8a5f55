// A training with GPUs that stand still again and again.
#pragma once

#include <cmath>

#include "gpu_training.h"

namespace reveal {

/// Works for 6 s and stands still for 4 s, again and again.
inline RuleRecording::Course then(double standing, double working) {
  return [=](double second) { return std::fmod(second, 10) >= 6 ? standing : working; };
}

inline GpuTraining starving(double cpus, double busiest, double io_wait, int gpus = 2) {
  GpuTraining training(gpus);
  training.set("gpu.utilization", then(3, 97));
  training.set("job.cpu_time", then(cpus * 1e9, 3e9)).set("process.cpu_time", then(busiest * 1e9, 1e9));
  training.set("pressure.io_some", then(io_wait * 1e9, 0.02e9));
  return training;
}

}  // namespace reveal
