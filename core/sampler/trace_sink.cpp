#include "core/sampler/trace_sink.h"

#include <algorithm>
#include <utility>

#include "core/sampler/metric_selection.h"

namespace reveal {
namespace {

// One event for a family that goes on falling. Some counters of the kernel fall by a tick now and then (idle time):
// that is no reset.
// https://docs.kernel.org/filesystems/proc.html (iowait)
constexpr std::int64_t kResetEventPeriod = 60'000'000'000;
constexpr std::int64_t kResetFactor = 2;

// A job that starts a hundred processes a second has two hundred events a second. Of each kind the first are kept, and
// one now and then.
constexpr std::int64_t kEventsAtOnce = 512;
constexpr std::int64_t kEventPeriod = 10'000'000'000;

}  // namespace

Family::Family(TraceSink& sink, const FamilySpec& spec) : sink_(sink), counted_(is_counted(spec.kind)), spec_(spec) {
  if (sink_.writer_ != nullptr) id_ = sink_.writer_->add_family(spec_);
}

std::int32_t Family::add_all(std::span<const MetricHelp> metrics, std::string_view instance) {
  const auto first = static_cast<std::int32_t>(channels_.size());
  for (const MetricHelp& metric : metrics) add(metric.name, instance);
  return first;
}

std::int32_t Family::add(std::string_view metric, std::string_view instance, std::string_view role,
                         std::int64_t before) {
  if (!sink_.muted_) {
    if (later_ == kMostLater) {
      if (sink_.channels_refused_++ == 0) {
        sink_.event("family " + spec_.path, "channels_refused",
                    "more than " + std::to_string(kMostLater) + " came late");
      }
      return kNoChannel;
    }
    ++later_;
  }
  ChannelKey key{.metric = std::string(metric),
                 .instance = std::string(instance),
                 .role = std::string(role),
                 .born_ns = sink_.now_ns_};
  const auto place = static_cast<std::int32_t>(channels_.size());
  const bool always = sink_.selection_ == nullptr || spec_.subsystem == Subsystem::self;
  const bool selected = always || sink_.selection_->take(metric, instance);
  if (selected) {
    stored_.push_back(place);
    stored_row_.push_back(kMissing);
    ++sink_.channels_;
  }
  if (selected && sink_.writer_ != nullptr) {
    const TraceWriter::ChannelId channel = sink_.writer_->add_channel(id_, std::move(key), before);
    channels_.emplace_back(sink_.writer_->key(id_, channel));
  } else {
    channels_.emplace_back(own_keys_.emplace_back(std::move(key)));
  }
  row_.push_back(kMissing);
  return place;
}

void Family::died(std::int32_t channel) {
  if (channel < 0 || static_cast<std::size_t>(channel) >= channels_.size()) return;
  if (channels_[static_cast<std::size_t>(channel)].get().died_ns != 0) return;
  const auto stored = std::lower_bound(stored_.begin(), stored_.end(), channel);
  if (sink_.writer_ == nullptr || stored == stored_.end() || *stored != channel) return;
  sink_.writer_->channel_died(id_, static_cast<TraceWriter::ChannelId>(stored - stored_.begin()), sink_.now_ns_);
}

void Family::expect(std::size_t later) {
  if (sink_.writer_ != nullptr) sink_.writer_->expect_channels(id_, later);
}

void Family::begin() noexcept {
  std::fill(row_.begin(), row_.end(), kMissing);
  blocks_set_ = ~std::uint64_t{};
}

void Family::commit() noexcept {
  commit_at(sink_.now_ns_);
}

void Family::commit_at(std::int64_t time_ns) noexcept {
  if (sink_.writer_ == nullptr || sink_.muted_ || stored_.empty()) return;
  if (counted_) notice_resets();
  std::span<const std::int64_t> row(row_);
  if (stored_.size() < row_.size()) {
    std::transform(stored_.begin(), stored_.end(), stored_row_.begin(),
                   [this](std::int32_t place) { return row_[static_cast<std::size_t>(place)]; });
    row = stored_row_;
  }
  if (!sink_.writer_->append_row(id_, time_ns, row)) ++sink_.rows_lost_;
  if (sink_.publisher_ != nullptr) sink_.publisher_->publish(id_, time_ns, row);
}

/// Most counters stay as they are: what nobody has set is not even read.
void Family::notice_resets() noexcept {
  if (last_.size() < row_.size()) last_.resize(row_.size(), kMissing);
  const std::uint64_t blocks = std::exchange(blocks_set_, 0);
  std::size_t fell = 0;
  std::size_t first = 0;
  for (std::size_t begin = 0; begin < row_.size(); begin += kBlock) {
    if ((blocks >> (begin / kBlock % kBlockBits) & 1) == 0) continue;
    const std::size_t end = std::min(begin + kBlock, row_.size());
    for (std::size_t i = begin; i < end; ++i) {
      const bool known = row_[i] != kMissing;
      if (known && row_[i] < last_[i] / kResetFactor && fell++ == 0) first = i;
      last_[i] = known ? row_[i] : last_[i];
    }
  }
  if (fell == 0 || sink_.now_ns_ < next_reset_event_ns_) return;
  next_reset_event_ns_ = sink_.now_ns_ + kResetEventPeriod;
  const ChannelKey& key = channels_[first];
  std::string text = key.metric + (key.instance.empty() ? "" : '/' + key.instance) + " fell";
  if (fell > 1) text += ", and " + std::to_string(fell - 1) + " more";
  sink_.event("family " + spec_.path, "counter_reset", std::move(text));
}

std::int64_t Family::value(std::string_view metric, std::string_view instance) const noexcept {
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    if (channels_[i].get().metric == metric && channels_[i].get().instance == instance) return row_[i];
  }
  return kMissing;
}

Family& TraceSink::add_family(const FamilyTable& table, std::chrono::nanoseconds period,
                              std::chrono::nanoseconds faster, std::string_view clock,
                              std::optional<std::chrono::nanoseconds> longest_rest) {
  FamilySpec spec;
  spec.path = table.path;
  spec.kind = table.kind;
  spec.unit = table.unit;
  spec.scope = table.scope;
  spec.subsystem = table.subsystem;
  spec.long_name = table.long_name;
  spec.source = table.source;
  spec.period = period;
  spec.faster = faster;
  spec.clock = clock;
  spec.longest_rest = longest_rest;
  return families_.emplace_back(*this, spec);
}

void TraceSink::event(std::string object, std::string code, std::string text, Budget of) {
  if (writer_ == nullptr) return;
  EventBudget& budget = event_budgets_[of == Budget::of_code ? code : code + ' ' + object];
  budget.spent_until_ns = std::max(budget.spent_until_ns, now_ns_ - kEventsAtOnce * kEventPeriod) + kEventPeriod;
  if (budget.spent_until_ns > now_ns_) {
    budget.spent_until_ns -= kEventPeriod;
    ++budget.left_out;
    return;
  }
  if (budget.left_out > 0) {
    text += (text.empty() ? "(" : " (") + std::to_string(std::exchange(budget.left_out, 0)) + " before it left out)";
  }
  writer_->append_event({now_ns_, std::move(object), std::move(code), std::move(text)});
}

void TraceSink::step(const TrainingStep& step) {
  if (writer_ != nullptr) writer_->append_step(step);
}

void TraceSink::collective(const SampledCollective& collective) {
  if (writer_ != nullptr) writer_->append_collective(collective);
}

void TraceSink::commit_all(std::int64_t time_ns) noexcept {
  set_now(time_ns);
  for (Family& family : families_) family.commit();
}

const Family* TraceSink::find(std::string_view path) const noexcept {
  for (const Family& family : families_) {
    if (family.spec().path == path) return &family;
  }
  return nullptr;
}

}  // namespace reveal
