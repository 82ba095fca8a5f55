#include "hdf5schema/layout.h"

namespace reveal {

std::string period_name(std::chrono::nanoseconds period) {
  struct Step {
    std::int64_t nanoseconds;
    const char* suffix;
  };
  constexpr Step kSteps[] = {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}};
  for (const auto& [nanoseconds, suffix] : kSteps) {
    if (period.count() >= nanoseconds && period.count() % nanoseconds == 0)
      return std::to_string(period.count() / nanoseconds) + suffix;
  }
  return std::to_string(period.count()) + "ns";
}

std::string axis_name(const FamilySpec& spec) {
  return period_name(spec.period) + (spec.clock.empty() ? "" : "_" + spec.clock);
}

EventRecord record_of(const Event& event) noexcept {
  EventRecord record{};
  record.time_ns = event.time_ns;
  copy_text(record.object, event.object);
  copy_text(record.code, event.code);
  copy_text(record.text, event.text);
  return record;
}

StepRecord record_of(const TrainingStep& step) noexcept {
  StepRecord record{.rank = {},
                    .number = step.number,
                    .begin_ns = step.begin_ns,
                    .duration_ns = step.duration_ns,
                    .waiting_ns = step.waiting_ns,
                    .bytes = step.bytes};
  copy_text(record.rank, step.rank);
  return record;
}

CollectiveRecord record_of(const SampledCollective& collective) noexcept {
  CollectiveRecord record{.rank = {},
                          .function = {},
                          .communicator = collective.communicator,
                          .ranks = collective.ranks,
                          .id = collective.id,
                          .number = collective.number,
                          .begin_ns = collective.begin_ns,
                          .last = collective.last};
  copy_text(record.rank, collective.rank);
  copy_text(record.function, collective.function);
  return record;
}

}  // namespace reveal
