#include "core/job/tcp_openings.h"

#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

/// The number below a name; nothing where there is none.
std::optional<std::int64_t> number_below(std::string_view name, std::string_view names, std::string_view numbers) {
  for (std::string_view word = cut_word(names); !word.empty(); word = cut_word(names)) {
    const std::string_view number_word = cut_word(numbers);
    std::int64_t number = 0;
    if (word == name) return parse_counter(number_word, number) ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TcpOpenings> tcp_openings(std::string_view snmp) noexcept {
  constexpr std::string_view kTcp = "Tcp:";
  std::string_view names;
  std::string_view numbers;
  while (next_line(snmp, names)) {
    if (!names.starts_with(kTcp)) continue;
    if (!next_line(snmp, numbers) || !numbers.starts_with(kTcp)) return std::nullopt;
    const auto active = number_below("ActiveOpens", names, numbers);
    const auto passive = number_below("PassiveOpens", names, numbers);
    if (!active || !passive) return std::nullopt;
    return TcpOpenings{*active, *passive};
  }
  return std::nullopt;
}

}  // namespace reveal
