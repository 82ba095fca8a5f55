#include "postproc/detect/pipelines/sample_window.h"

#include <algorithm>
#include <utility>

#include "postproc/numerics/present_values.h"

namespace reveal {

SampleWindow::SampleWindow(WindowPool& pool, const Telemetry& like, std::size_t factor, std::size_t samples) {
  const std::size_t values = samples * like.channels.size();
  *this = pool.take(values, samples);
  if (telemetry_.values.capacity() < values) {
    telemetry_.values.reserve(values + values / 8);  // nodes of a job differ by a few channels
    rows_.assign(telemetry_.values.capacity() / samples, Row::zeros);
  } else if (telemetry_.samples != samples) {
    rows_.assign(telemetry_.values.capacity() / samples, Row::of_other_window);
  } else {
    std::replace(rows_.begin(), rows_.end(), Row::written, Row::of_other_window);
  }
  telemetry_.node = like.node;
  telemetry_.step_seconds = like.step_seconds * static_cast<double>(factor);
  telemetry_.begin_utc_ns = like.begin_utc_ns;
  telemetry_.samples = samples;
  telemetry_.channels = like.channels;
  telemetry_.values.resize(values);
}

void SampleWindow::put(std::size_t channel, std::size_t at, std::span<const double> values) {
  const auto to = telemetry_.series(channel).subspan(at, values.size());
  Row& row = rows_[channel];
  if (row == Row::of_other_window) {
    std::copy(values.begin(), values.end(), to.begin());
  } else if (copy_onto_zeros(values, to)) {
    row = Row::written;
  }
}

void SampleWindow::keep_last(std::size_t samples) {
  for (std::size_t c = 0; c < telemetry_.channels.size(); ++c) {
    if (rows_[c] == Row::zeros) continue;
    rows_[c] = Row::of_other_window;
    const auto row = telemetry_.series(c);
    std::copy(row.end() - static_cast<std::ptrdiff_t>(samples), row.end(), row.begin());
  }
}

void WindowPool::give(SampleWindow window) {
  if (window.telemetry_.values.capacity() == 0) return;
  const std::lock_guard lock(mutex_);
  windows_.push_back(std::move(window));
}

void WindowPool::free_all() {
  const std::lock_guard lock(mutex_);
  windows_.clear();
}

SampleWindow WindowPool::take(std::size_t values, std::size_t samples) {
  const std::lock_guard lock(mutex_);
  const auto fits = [values](const SampleWindow& window) {
    const std::size_t capacity = window.telemetry_.values.capacity();
    return capacity >= values && capacity / 2 <= values;
  };
  auto found = std::find_if(windows_.begin(), windows_.end(), [&](const SampleWindow& window) {
    return fits(window) && window.telemetry_.samples == samples;
  });
  if (found == windows_.end()) found = std::find_if(windows_.begin(), windows_.end(), fits);
  SampleWindow window;
  if (found == windows_.end()) {
    windows_.clear();
  } else {
    window = std::move(*found);
    windows_.erase(found);
  }
  return window;
}

}  // namespace reveal
