#include "postproc/analysis/node_addresses.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace reveal {
namespace {

bool is_of_address(char letter) {
  return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f') || letter == '.' || letter == ':';
}

bool is_address(const std::string& word) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return ::inet_pton(AF_INET, word.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, word.c_str(), bytes.data()) == 1;
}

/// Returns the text that replaces this word of a sentence; "" where it stays. `peers`: the addresses in it are other
/// ends of the job's connections, which are private unless they are nodes of the job.
std::string name_of(std::string_view word, const NodesByAddress& names, bool peers) {
  if (word.empty() || !std::all_of(word.begin(), word.end(), is_of_address)) return "";
  const auto known = names.find(word);
  if (known != names.end() && !known->second.empty()) return known->second;
  if (!peers || !is_address(std::string(word))) return "";
  return known != names.end() ? "an address that several nodes share" : "an address outside the recorded nodes";
}

/// Words that look like an address, replaced by the names of the job's nodes.
std::string with_names(std::string_view sentence, const NodesByAddress& names, bool peers) {
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
    const std::string name = name_of(address, names, peers);
    if (name.empty()) {
      text.append(word);
    } else {
      // One node may have several of the addresses in a list.
      if (text.ends_with(name + ", ")) {
        text.resize(text.size() - 2);
      } else {
        text.append(name);
      }
      text.append(word.substr(address.size()));
    }
    if (end < sentence.size()) text += ' ';
    sentence.remove_prefix(std::min(end + 1, sentence.size()));
  }
  return text;
}

}  // namespace

NodesByAddress nodes_by_address(std::span<const NodeSummary> summaries) {
  NodesByAddress nodes;
  for (const NodeSummary& summary : summaries) {
    for (const std::string& address : summary.addresses) {
      const auto [known, fresh] = nodes.emplace(address, summary.node);
      if (!fresh && known->second != summary.node) known->second.clear();
    }
  }
  return nodes;
}

void name_nodes(std::span<const NodeSummary> summaries, std::vector<Finding>& findings) {
  const NodesByAddress names = nodes_by_address(summaries);
  for (Finding& finding : findings) {
    const bool peers = std::any_of(finding.evidence.begin(), finding.evidence.end(),
                                   [](const Evidence& evidence) { return evidence.metric.starts_with("tcp.peer."); });
    finding.sentence = with_names(finding.sentence, names, peers);
  }
}

}  // namespace reveal
