// A text that thousands of nodes have alike, such as the name of a channel: kept once, and as small as a pointer.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reveal {

class SharedText;

template <class T>
concept OtherText = !std::same_as<T, SharedText> && std::convertible_to<const T&, std::string_view>;

/// Each different text stays until the process ends: together they are no longer than the files that were read. Any
/// thread may make one.
class SharedText {
 public:
  SharedText() noexcept;
  SharedText(std::string_view text);                                           // NOLINT(google-explicit-constructor)
  SharedText(const std::string& text) : SharedText(std::string_view(text)) {}  // NOLINT(google-explicit-constructor)
  SharedText(const char* text) : SharedText(std::string_view(text)) {}         // NOLINT(google-explicit-constructor)

  [[nodiscard]] const std::string& str() const noexcept { return *text_; }
  operator const std::string&() const noexcept { return *text_; }  // NOLINT(google-explicit-constructor)
  operator std::string_view() const noexcept { return *text_; }    // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool empty() const noexcept { return text_->empty(); }
  void clear() noexcept { *this = SharedText(); }

  /// For an unordered map: quicker than the hash of the letters.
  struct Hash {
    std::size_t operator()(const SharedText& shared) const noexcept {
      return std::hash<const std::string*>()(shared.text_);
    }
  };

  friend bool operator==(const SharedText& a, const SharedText& b) noexcept { return a.text_ == b.text_; }
  friend bool operator==(const SharedText& a, const OtherText auto& b) noexcept {
    return std::string_view(*a.text_) == std::string_view(b);
  }
  friend std::strong_ordering operator<=>(const SharedText& a, const SharedText& b) noexcept {
    return a.text_ == b.text_ ? std::strong_ordering::equal : *a.text_ <=> *b.text_;
  }
  friend std::strong_ordering operator<=>(const SharedText& a, const OtherText auto& b) noexcept {
    return std::string_view(*a.text_) <=> std::string_view(b);
  }

 private:
  const std::string* text_;
};

using SharedPairs = std::vector<std::pair<SharedText, SharedText>>;

}  // namespace reveal
