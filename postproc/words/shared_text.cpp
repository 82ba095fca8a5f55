#include "postproc/words/shared_text.h"

#include <mutex>
#include <unordered_set>

namespace reveal {
namespace {

struct HashOfText {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
};

/// Its elements never move.
using Texts = std::unordered_set<std::string, HashOfText, std::equal_to<>>;

/// Threads seldom wait for each other, because each takes one of several.
struct Shelf {
  std::mutex mutex;
  Texts texts;
};
constexpr std::size_t kShelves = 16;

const std::string* kept(std::string_view text) {
  static Shelf shelves[kShelves];
  Shelf& shelf = shelves[HashOfText()(text) % kShelves];
  const std::lock_guard lock(shelf.mutex);
  const auto known = shelf.texts.find(text);
  return known != shelf.texts.end() ? &*known : &*shelf.texts.emplace(text).first;
}

const std::string& empty_text() noexcept {
  static const std::string text;
  return text;
}

}  // namespace

SharedText::SharedText() noexcept : text_(&empty_text()) {}

SharedText::SharedText(std::string_view text) : text_(text.empty() ? &empty_text() : kept(text)) {}

}  // namespace reveal
