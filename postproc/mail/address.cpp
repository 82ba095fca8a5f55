#include "postproc/mail/address.h"

#include <algorithm>

namespace reveal {
namespace {

// RFC 5321, 4.5.3.1
constexpr std::size_t kLongestUser = 64;
constexpr std::size_t kLongestLabel = 63;
constexpr std::size_t kLongestAddress = 254;

constexpr bool is_letter_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool is_label(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kLongestLabel && text.front() != '-' && text.back() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter_or_digit(c) || c == '-'; });
}

}  // namespace

bool is_mail_user(std::string_view text) noexcept {
  if (text.empty() || text.size() > kLongestUser) return false;
  // A leading '-' would be an option, a leading '.' a hidden file somewhere; '.' at the end or twice is no dot-atom.
  if (!is_letter_or_digit(text.front()) && text.front() != '_') return false;
  if (text.back() == '.' || text.find("..") != std::string_view::npos) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '+' || c == '-'; });
}

bool is_mail_domain(std::string_view text) noexcept {
  if (text.size() > kLongestAddress) return false;
  while (true) {
    const std::size_t dot = text.find('.');
    if (!is_label(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool is_mail_address(std::string_view text) noexcept {
  const std::size_t at = text.find('@');
  if (text.size() > kLongestAddress || !is_mail_user(text.substr(0, at))) return false;
  return at == std::string_view::npos || is_mail_domain(text.substr(at + 1));
}

std::string_view domain_of(std::string_view address) noexcept {
  const std::size_t at = address.rfind('@');
  return at == std::string_view::npos ? std::string_view() : address.substr(at + 1);
}

std::string qualified(std::string_view address, std::string_view domain) {
  std::string whole(address);
  if (!domain.empty() && address.find('@') == std::string_view::npos) whole.append("@").append(domain);
  return whole;
}

bool same_domain(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

bool same_address(std::string_view a, std::string_view b) noexcept {
  return a.substr(0, a.find('@')) == b.substr(0, b.find('@')) && same_domain(domain_of(a), domain_of(b));
}

}  // namespace reveal
