#include "postproc/json/shallow_json.h"

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

constexpr int kDeepest = 64;

}  // namespace

const std::string& shallow(const std::string& json) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    switch (json[i]) {
      case '"':
        in_text = !in_text;
        break;
      case '\\':
        if (in_text) ++i;
        break;
      case '[':
      case '{':
        if (!in_text && ++depth > kDeepest) throw Error("JSON nested deeper than any of ours");
        break;
      case ']':
      case '}':
        if (!in_text) --depth;
        break;
      default:
        break;
    }
  }
  return json;
}

}  // namespace reveal
