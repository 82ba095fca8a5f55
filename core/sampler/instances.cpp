#include "core/sampler/instances.h"

#include <algorithm>
#include <utility>

#include "core/kernel_text/kernel_words.h"

namespace reveal {
namespace {

constexpr std::string_view kOther = "other";

}  // namespace

Instances::Instances(const ProbeContext& context, std::span<const FamilyTable> tables, std::span<const Column> columns,
                     std::size_t expected_later)
    : sink_(context.sink), tables_(tables), columns_(columns), shared_(columns.size(), 0) {
  for (const FamilyTable& table : tables) {
    families_.push_back(&context.family(table));
    families_.back()->expect((expected_later + 1) * table.metrics.size());
  }
}

bool Instances::is_level(const Column& column) const noexcept {
  return tables_[column.family].kind == Kind::gauge;
}

void Instances::begin() {
  lasting_.begin_look(sink_.now());
  for (Family* family : families_) family->begin();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (is_level(columns_[i])) shared_[i] = 0;
  }
}

void Instances::store(LastingInstances::Member& member, std::string_view name, DiffedText& text,
                      std::span<const std::string_view> words) {
  numbers_.clear();
  for (const std::string_view word : words) {
    std::int64_t number = 0;
    if (numbers_.size() == columns_.size() || !parse_counter(word, number)) break;
    numbers_.push_back(number);
  }
  if (member.place == LastingInstances::kNoPlace) {
    if (!numbers_.empty() &&
        std::all_of(numbers_.begin(), numbers_.end(), [](std::int64_t number) { return number == 0; })) {
      member.idle = member.before.empty();
      return;
    }
    const bool was_idle = std::exchange(member.idle, false);
    // Its increase since the last look belongs to the others; its own rows go on from here.
    if (name == kOther || !lasting_.admit(member)) {
      if (was_idle) member.before.assign(numbers_.size(), 0);
      share(member);
      return;
    }
    if (!member.before.empty()) share(member);
    member.before = {};
    add_rows(name, first_.emplace_back(), was_idle ? 0 : kMissing);
  }
  const std::vector<std::int32_t>& first = first_[static_cast<std::size_t>(member.place)];
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const Column& column = columns_[i];
    text.set(words[i], *families_[column.family], first[column.family] + column.metric, column.scale);
  }
}

// Its counts at the first look may be older than this recording: it may have been moved here.
void Instances::share(LastingInstances::Member& member) {
  if (other_.empty()) add_rows(kOther, other_);
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    if (is_level(columns_[i])) {
      if (member.place == LastingInstances::kNoPlace) shared_[i] = wrapping_sum(shared_[i], numbers_[i]);
    } else if (i < member.before.size() && numbers_[i] > member.before[i]) {
      shared_[i] = wrapping_sum(shared_[i], numbers_[i] - member.before[i]);
    }
  }
  member.before = numbers_;
}

void Instances::add_rows(std::string_view instance, std::vector<std::int32_t>& first, std::int64_t before) {
  for (std::size_t i = 0; i < families_.size(); ++i) {
    first.push_back(static_cast<std::int32_t>(families_[i]->channels().size()));
    const std::int64_t start = is_counted(tables_[i].kind) ? before : kMissing;
    for (const MetricHelp& metric : tables_[i].metrics) families_[i]->add(metric.name, instance, "node", start);
  }
}

void Instances::end() {
  lasting_.end_look();
  if (other_.empty()) return;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    families_[column.family]->set(other_[column.family] + column.metric, scaled(shared_[i], column.scale));
  }
}

void Instances::skip() noexcept {
  for (Family* family : families_) family->begin();
}

void Instances::commit() noexcept {
  for (Family* family : families_) family->commit();
}

std::string Instances::caveat(std::string_view things) const {
  if (other_.empty()) return "";
  return std::to_string(lasting_.came_later()) + ' ' + std::string(things) +
         " appeared during the recording; those without own channels are summed in the instance \"other\"";
}

}  // namespace reveal
