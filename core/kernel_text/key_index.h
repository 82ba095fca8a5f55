// Keys of a kernel text, numbered in the order they were first seen. A file with lines in a constant order costs one
// comparison per key and tick; lines that come, go or move cost a hash look-up.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/kernel_text/kernel_words.h"
#include "core/kernel_text/recording.h"

namespace reveal {

class KeyIndex {
 public:
  static constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);

  /// Call before the first key of each tick.
  void rewind() noexcept { expected_ = 0; }

  [[nodiscard]] std::size_t find(std::string_view key) noexcept {
    if (expected_ < keys_.size() && *keys_[expected_] == key) return expected_++;
    const auto found = numbers_.find(key);
    if (found == numbers_.end()) return kUnknown;
    expected_ = found->second + 1;
    return found->second;
  }

  std::size_t add(std::string_view key) {
    const auto [at, added] = numbers_.emplace(std::string(key), keys_.size());
    if (added) keys_.push_back(&at->first);
    expected_ = at->second + 1;
    return at->second;
  }

  [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }

 private:
  std::size_t expected_ = 0;
  std::vector<const std::string*> keys_;
  std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>> numbers_;
};

/// A value for each key, as its channel.
template <typename Value>
class KeyedValues {
 public:
  /// Call before the first key of each tick.
  void rewind() noexcept { keys_.rewind(); }

  /// `make()` returns the value of a new key. The reference is valid until the next call.
  template <typename Make>
  Value& at(std::string_view key, const Make& make) {
    std::size_t number = keys_.find(key);
    if (number == KeyIndex::kUnknown) {
      values_.push_back(make());
      number = keys_.add(key);
    }
    return values_[number];
  }

 private:
  KeyIndex keys_;
  std::vector<Value> values_;
};

}  // namespace reveal
