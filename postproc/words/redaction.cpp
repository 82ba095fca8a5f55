#include "postproc/words/redaction.h"

#include <algorithm>
#include <charconv>

namespace reveal {
namespace {

constexpr std::string_view kKinds[] = {"user", "host", "path", "address", "value"};
constexpr std::string_view kCommonNames[] = {"root", "localhost", "/", "/root"};
/// Files below these belong to the system or to reveal.
constexpr std::string_view kSystem[] = {"/proc/",
                                        "/sys/",
                                        "/etc/",
                                        "/usr/",
                                        "/bin/",
                                        "/sbin/",
                                        "/lib/",
                                        "/lib64/",
                                        "/var/spool/reveal",
                                        "~/.config/reveal",
                                        "~/.local/state/reveal"};
constexpr std::string_view kDevices = "/dev/";

bool of_word(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
         static_cast<unsigned char>(letter) >= 0x80;
}

char lower_letter(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool begins_word(std::string_view text, std::size_t at) {
  return at == 0 || !of_word(text[at - 1]);
}

constexpr std::string_view kSeparators = " \t\r\n\"'`()[]{}<>|;,=\\";

bool begins_token(std::string_view text, std::size_t at) {
  return at == 0 || kSeparators.find(text[at - 1]) != std::string_view::npos;
}

/// The text up to the next blank, quote, bracket or comma, without the point or colon that ends a sentence.
std::string_view token_at(std::string_view text, std::size_t at) {
  std::string_view token = text.substr(at, text.find_first_of(kSeparators, at) - at);
  while (token.ends_with('.') || token.ends_with(':')) token.remove_suffix(1);
  return token;
}

constexpr std::string_view kQuotes = "\"'`";
constexpr std::string_view kOpening = "([{", kClosing = ")]}";

/// Without closing brackets that the path did not open: "(see /a/b)".
void trim_brackets(std::string_view& path) {
  while (!path.empty() && kClosing.find(path.back()) != std::string_view::npos) {
    const char opening = kOpening[kClosing.find(path.back())];
    if (std::count(path.begin(), path.end(), opening) >= std::count(path.begin(), path.end(), path.back())) return;
    path.remove_suffix(1);
  }
}

/// A path at a place: one in quotes with its blanks, another one up to the next blank. Brackets may be part of it.
std::string_view path_at(std::string_view text, std::size_t at) {
  if (at > 0 && kQuotes.find(text[at - 1]) != std::string_view::npos) {
    const std::size_t end = text.find_first_of(std::string{text[at - 1], '\n'}, at);
    if (end != std::string_view::npos && text[end] != '\n') return text.substr(at, end - at);
  }
  std::string_view path = text.substr(at, text.find_first_of(" \t\r\n\"'`<>|;,=\\", at) - at);
  while (path.ends_with('.') || path.ends_with(':')) path.remove_suffix(1);
  trim_brackets(path);
  return path;
}

bool of_system(std::string_view path) {
  if (path.find("..") != std::string_view::npos) return false;
  for (const std::string_view begin : kSystem) {
    if (path.starts_with(begin)) return true;
  }
  return path.starts_with(kDevices) && path.find('/', kDevices.size()) == std::string_view::npos;
}

bool is_path(std::string_view token) {
  if (token.find(":/") != std::string_view::npos) return true;  // filer01:/export
  const bool begins =
      token.starts_with('/') || token.starts_with("~/") || token.starts_with("./") || token.starts_with("../");
  return begins && token.size() > 1 && !of_system(token);
}

/// 10.1.2.3, 10.1.2.3:6817, 10.1.0.0/16
bool is_ipv4(std::string_view token) {
  for (int part = 0; part < 4; ++part) {
    unsigned number = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
    if (error != std::errc() || number > 255) return false;
    token.remove_prefix(static_cast<std::size_t>(end - token.data()));
    if (part == 3) return token.empty() || token.front() == ':' || token.front() == '/';
    if (!token.starts_with('.')) return false;
    token.remove_prefix(1);
  }
  return false;
}

/// fe80::1, 00:11:22:33:44:55; no time of day and no address of the PCI bus.
bool is_hexadecimal_address(std::string_view token) {
  constexpr std::ptrdiff_t kColonsOfMac = 5;
  token = token.substr(0, token.find_first_of("/%"));
  if (token.find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos) return false;
  return token.find("::") != std::string_view::npos || std::count(token.begin(), token.end(), ':') >= kColonsOfMac;
}

bool looks_like_address(std::string_view token) {
  const std::size_t at = token.find('@');
  const bool mail = at != std::string_view::npos && at > 0 && at + 1 < token.size();
  return mail || token.find("://") != std::string_view::npos || is_ipv4(token) || is_hexadecimal_address(token);
}

}  // namespace

std::string in_lower_case(std::string_view text) {
  std::string copy(text);
  std::transform(copy.begin(), copy.end(), copy.begin(), lower_letter);
  return copy;
}

void Redaction::add(Kind kind, std::string_view name) {
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  if (name.size() < 2 || std::find(std::begin(kCommonNames), std::end(kCommonNames), name) != std::end(kCommonNames)) {
    return;
  }
  const auto shorter = [&](const Known& other) { return other.name.size() < name.size(); };
  known_.insert(std::find_if(known_.begin(), known_.end(), shorter), Known{kind, in_lower_case(name)});
}

Redaction::Match Redaction::known_at(std::string_view text, std::size_t at) const {
  for (const Known& known : known_) {
    if (text.size() - at < known.name.size()) continue;
    if (lower_letter(text[at]) != known.name.front() || in_lower_case(text.substr(at, known.name.size())) != known.name)
      continue;
    const std::size_t end = at + known.name.size();
    if (end < text.size() && of_word(text[end])) continue;
    if (known.name.front() != '/') return {known.kind, known.name.size()};
    return {known.kind, std::max(path_at(text, at).size(), known.name.size() + path_at(text, end).size())};
  }
  return {};
}

std::string Redaction::placeholder(Kind kind, std::string_view name) {
  const auto [entry, added] = numbers_.try_emplace({kind, in_lower_case(name)}, 0);
  std::size_t& count = counts_[static_cast<std::size_t>(kind)];
  if (added) entry->second = ++count;
  return std::string(kKinds[static_cast<std::size_t>(kind)]) + std::to_string(entry->second);
}

Redaction::Match Redaction::match_at(std::string_view text, std::size_t at) const {
  if (!begins_word(text, at)) return {};
  if (const Match known = known_at(text, at); known.length > 0) return known;
  const std::string_view token = begins_token(text, at) ? token_at(text, at) : std::string_view();
  if (looks_like_address(token)) return {Kind::address, token.size()};
  if (is_path(token)) return {Kind::path, path_at(text, at).size()};
  if (at > 0 && text[at - 1] == ':' && is_ipv4(token_at(text, at))) return {Kind::address, token_at(text, at).size()};
  return {};
}

std::string Redaction::redacted(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Match match = match_at(text, at);
    result += match.length > 0 ? placeholder(match.kind, text.substr(at, match.length)) : std::string(1, text[at]);
    at += std::max<std::size_t>(match.length, 1);
  }
  return result;
}

std::string Redaction::replaced() const {
  std::string text;
  for (std::size_t kind = 0; kind < counts_.size(); ++kind) {
    if (counts_[kind] == 0) continue;
    const bool one = counts_[kind] == 1;
    const bool address = static_cast<Kind>(kind) == Kind::address;
    text += (text.empty() ? "" : ", ") + std::to_string(counts_[kind]) + " " + std::string(kKinds[kind]) +
            (one       ? ""
             : address ? "es"
                       : "s");
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace reveal
