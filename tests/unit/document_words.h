// The words in code of a document of the source tree, by which tests compare it with what a program writes.
#pragma once

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace reveal::tests {

/// `one` and `two` of a text; `document` is a path in the source tree.
inline std::set<std::string> words_in_code(const std::string& document) {
  std::ifstream file(TEST_DATA "/../../" + document);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string> words;
  bool code = false;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '`'); code = !code) {
    if (code) words.insert(part);
  }
  return words;
}

/// The keys of all objects in a document of JSON, and those without a meaning of their own left out: a reason stands
/// beside a null.
template <class Json>
void insert_keys(const Json& json, std::set<std::string>& keys) {
  for (const auto& [key, value] : json.items()) {
    if (json.is_object() && !key.ends_with("_reason")) keys.insert(key);
    if (value.is_structured()) insert_keys(value, keys);
  }
}

}  // namespace reveal::tests
