#include "postproc/json/shallow_json.h"

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kMostKeys = 2000;  // keys of an object: a search takes time for each key

/// The quote that ends a text which begins here; the size of all where it has no end. Nearly all of a summary is long
/// texts.
std::size_t end_of_text(const std::string& json, std::size_t begin) {
  for (std::size_t quote = json.find('"', begin); quote != std::string::npos; quote = json.find('"', quote + 1)) {
    std::size_t before = quote;
    while (before > begin && json[before - 1] == '\\') --before;
    if ((quote - before) % 2 == 0) return quote;  // each pair of them is one in the text
  }
  return json.size();
}

}  // namespace

const std::string& shallow(const std::string& json) {
  int depth = 0;
  std::size_t keys[kDeepest + 1] = {};
  for (std::size_t i = 0; i < json.size(); ++i) {
    switch (json[i]) {
      case '"':
        i = end_of_text(json, i + 1);
        break;
      case '[':
      case '{':
        if (++depth > kDeepest) throw Error("the JSON is nested deeper than reveal allows");
        keys[depth] = 0;
        break;
      case ']':
      case '}':
        if (depth > 0) --depth;
        break;
      case ':':
        if (++keys[depth] > kMostKeys) throw Error("a JSON object has more keys than reveal allows");
        break;
      default:
        break;
    }
  }
  return json;
}

}  // namespace reveal
