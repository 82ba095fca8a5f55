// A kernel text that a probe reads again and again: between two ticks a few digits change, and all else stays where it
// was. Such a text is compared, not parsed; a text with a changed layout is parsed again. On hosts of any size that is
// most of the work of reading /proc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/trace_sink.h"

namespace reveal {

class DiffedText {
 public:
  /// `compared`: false where too little stays as it was, or too much would have to be kept: always parsed.
  explicit DiffedText(bool compared = true) : compared_(compared) {}

  /// Takes the text of this tick. If it is the last one but for digits of the numbers set by the last parse, those go
  /// to their channels, and true is returned. Otherwise some may have gone there: the caller begins its families anew,
  /// and parses this text and all others that these families have numbers of.
  [[nodiscard]] bool update(std::string_view text) noexcept;

  /// Returns the text; set() and ignore() then follow in the order of its words.
  [[nodiscard]] std::string_view parse();
  /// If the word is a number, `scale` times it is the channel's value; Family::kNoChannel: of no channel. If anything
  /// changes that is neither set nor ignored, the next text is parsed again.
  void set(std::string_view word, Family& family, std::int32_t channel, std::int64_t scale = 1);
  /// The rest of a line, which may change.
  void ignore(std::string_view rest);

 private:
  struct Span {
    std::uint32_t begin = 0, end = 0;
  };
  struct Target {
    Family* family = nullptr;  // null: ignored
    std::int32_t channel = Family::kNoChannel;
    std::int64_t scale = 1;
  };
  [[nodiscard]] std::size_t first_difference(std::size_t from) const noexcept;

  std::string_view text_;
  std::string last_;
  bool compared_;
  bool repeatable_ = false;
  std::vector<Span> spans_;  // numbers in last_, with the blanks that a longer number would use
  std::vector<Target> targets_;
};

/// update() for texts with numbers of the same families: each of `places` has a `file` and its `text`. False if one of
/// them does not repeat: then all are to be parsed.
template <typename Places>
[[nodiscard]] bool update_all(Places& places) noexcept {
  bool repeat = true;
  for (auto& place : places) repeat = place.text.update(place.file.read()) && repeat;
  return repeat;
}

}  // namespace reveal
