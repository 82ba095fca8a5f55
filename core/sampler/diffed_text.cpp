#include "core/sampler/diffed_text.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace reveal {

std::size_t DiffedText::first_difference(std::size_t from) const noexcept {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const char* now = text_.data();
  const char* before = last_.data();
  for (; from + kWord <= text_.size(); from += kWord) {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::memcpy(&a, now + from, kWord);
    std::memcpy(&b, before + from, kWord);
    if (a != b) break;
  }
  while (from < text_.size() && now[from] == before[from]) ++from;
  return from;
}

bool DiffedText::update(std::string_view text) noexcept {
  text_ = text;
  if (!repeatable_ || text.size() != last_.size()) return false;
  auto span = spans_.begin();
  for (std::size_t at = first_difference(0); at < text.size(); at = first_difference(span->end)) {
    span = std::find_if(span, spans_.end(), [at](const Span& each) { return at < each.end; });
    if (span == spans_.end() || at < span->begin) return false;
    std::string_view word = text.substr(span->begin, span->end - span->begin);
    std::copy(word.begin(), word.end(), last_.begin() + span->begin);
    const Target& target = targets_[static_cast<std::size_t>(span - spans_.begin())];
    if (target.family == nullptr) {
      if (word.find('\n') != std::string_view::npos) return false;
      continue;
    }
    word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    std::int64_t number = 0;
    if (!parse_counter(word, number)) return false;
    const std::int64_t value = scaled(number, target.scale);
    if (value == kMissing) return false;
    target.family->set(target.channel, value);
  }
  return true;
}

std::string_view DiffedText::parse() {
  if (!compared_) return text_;
  last_ = text_;
  spans_.clear();
  targets_.clear();
  repeatable_ = true;
  return text_;
}

void DiffedText::set(std::string_view word, Family& family, std::int32_t channel, std::int64_t scale) {
  std::int64_t number = 0;
  if (!parse_counter(word, number)) return;
  const std::int64_t value = scaled(number, scale);
  const auto place = static_cast<std::size_t>(channel);
  const bool again = channel >= 0 && place < family.row().size() && family.row()[place] != kMissing;
  family.set(channel, value);
  if (!compared_) return;
  auto begin = static_cast<std::uint32_t>(word.data() - text_.data());
  const std::uint32_t end = begin + static_cast<std::uint32_t>(word.size());
  const std::uint32_t before = spans_.empty() ? 0 : spans_.back().end;
  while (begin > before + 1 && text_[begin - 1] == ' ' && text_[begin - 2] == ' ') --begin;
  // If two numbers set one channel, the last one counts, whichever changes.
  if (begin < before || again || value == kMissing) repeatable_ = false;
  spans_.push_back({begin, end});
  targets_.push_back({&family, channel, scale});
}

void DiffedText::ignore(std::string_view rest) {
  if (!compared_ || rest.empty()) return;
  const auto begin = static_cast<std::uint32_t>(rest.data() - text_.data());
  if (!spans_.empty() && begin < spans_.back().end) repeatable_ = false;
  spans_.push_back({begin, begin + static_cast<std::uint32_t>(rest.size())});
  targets_.push_back({});
}

}  // namespace reveal
