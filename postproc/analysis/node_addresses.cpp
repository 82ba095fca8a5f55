#include "postproc/analysis/node_addresses.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

bool is_of_address(char letter) {
  return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f') || letter == '.' || letter == ':';
}

/// Words that look like an address, by what the nodes of the job call it.
std::string with_names(std::string_view sentence, const std::map<std::string, std::string, std::less<>>& names) {
  std::string text;
  while (!sentence.empty()) {
    const std::size_t end = std::min(sentence.find(' '), sentence.size());
    std::string_view word = sentence.substr(0, end);
    std::string_view address = word;
    // The end of a sentence or of its part is no part of the address.
    while (!address.empty() &&
           (address.back() == '.' || address.back() == ',' || address.back() == ':' || address.back() == ';')) {
      address.remove_suffix(1);
    }
    const auto known = std::all_of(address.begin(), address.end(), is_of_address) ? names.find(address) : names.end();
    if (known != names.end()) {
      text.append(known->second).append(word.substr(address.size()));
    } else {
      text.append(word);
    }
    if (end < sentence.size()) text += ' ';
    sentence.remove_prefix(std::min(end + 1, sentence.size()));
  }
  return text;
}

}  // namespace

std::vector<std::string> addresses_in(const Snapshot& facts) {
  constexpr std::string_view kKey = "address.";
  std::vector<std::string> addresses;
  for (const auto& [key, value] : facts) {
    if (!key.starts_with(kKey)) continue;
    std::string_view rest = value;
    for (auto address = next_word(rest); !address.empty(); address = next_word(rest)) addresses.emplace_back(address);
  }
  return addresses;
}

void name_nodes(std::span<const NodeSummary> summaries, std::vector<Finding>& findings) {
  std::map<std::string, std::string, std::less<>> names;
  for (const NodeSummary& summary : summaries) {
    for (const std::string& address : summary.addresses) {
      const auto [known, fresh] = names.emplace(address, summary.node);
      if (!fresh && known->second != summary.node) known->second.clear();
    }
  }
  std::erase_if(names, [](const auto& entry) { return entry.second.empty(); });
  if (names.empty()) return;
  for (Finding& finding : findings) finding.sentence = with_names(finding.sentence, names);
}

}  // namespace reveal
