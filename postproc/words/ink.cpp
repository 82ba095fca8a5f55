#include "postproc/words/ink.h"

namespace reveal {

std::string painted(std::string_view text, Ink ink, bool colour) {
  // ECMA-48, select graphic rendition: colours are bold, and so visible on a light ground, too.
  constexpr std::string_view kCodes[] = {"", "1", "2", "1;31", "1;33", "1;32"};
  if (!colour || ink == Ink::plain) return std::string(text);
  return "\x1b[" + std::string(kCodes[static_cast<std::size_t>(ink)]) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace reveal
