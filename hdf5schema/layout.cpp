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

}  // namespace reveal
