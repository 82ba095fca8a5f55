#include "postproc/json/shallow_json.h"

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kMostKeys = 2000;  // keys of an object: a search takes time for each key

}  // namespace

const std::string& shallow(const std::string& json) {
  int depth = 0;
  std::size_t keys[kDeepest + 1] = {};
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
        if (in_text) break;
        if (++depth > kDeepest) throw Error("the JSON is nested deeper than reveal allows");
        keys[depth] = 0;
        break;
      case ']':
      case '}':
        if (!in_text && depth > 0) --depth;
        break;
      case ':':
        if (!in_text && ++keys[depth] > kMostKeys) throw Error("a JSON object has more keys than reveal allows");
        break;
      default:
        break;
    }
  }
  return json;
}

}  // namespace reveal
