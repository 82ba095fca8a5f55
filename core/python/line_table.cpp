#include "core/python/line_table.h"

#include <optional>

namespace reveal {
namespace {

constexpr std::int64_t kMostLines = 10'000'000;
constexpr int kUnitBytes = 2;  // size of an instruction, from 3.10 on

class TableBytes {
 public:
  explicit TableBytes(std::span<const std::byte> table) : rest_(table) {}

  [[nodiscard]] std::optional<unsigned> next() noexcept {
    if (rest_.empty()) return std::nullopt;
    const auto byte = std::to_integer<unsigned>(rest_.front());
    rest_ = rest_.subspan(1);
    return byte;
  }
  /// 6 bits a byte, the low ones first; bit 0 of the number is its sign.
  [[nodiscard]] std::optional<std::int64_t> next_signed() noexcept {
    constexpr unsigned kBits = 6;
    constexpr unsigned kMostBits = 30;
    constexpr unsigned kMore = 64;
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift <= kMostBits; shift += kBits) {
      const auto byte = next();
      if (!byte) return std::nullopt;
      number |= static_cast<std::uint64_t>(*byte & (kMore - 1)) << shift;
      if ((*byte & kMore) == 0) {
        const auto size = static_cast<std::int64_t>(number >> 1);
        return (number & 1) != 0 ? -size : size;
      }
    }
    return std::nullopt;
  }
  void skip_to_entry() noexcept {
    while (!rest_.empty() && (std::to_integer<unsigned>(rest_.front()) & 0x80U) == 0) rest_ = rest_.subspan(1);
  }

 private:
  std::span<const std::byte> rest_;
};

std::int64_t signed_byte(unsigned byte) noexcept {
  return static_cast<std::int8_t>(byte);
}

std::int64_t line_in_lnotab(TableBytes table, std::int64_t line, std::int64_t instruction) noexcept {
  std::int64_t at = 0;
  while (true) {
    const auto bytes = table.next();
    const auto lines = table.next();
    if (!bytes || !lines) return line;
    at += *bytes;
    if (at > instruction) return line;
    line += signed_byte(*lines);
  }
}

std::int64_t line_in_ranges(TableBytes table, std::int64_t line, std::int64_t instruction) noexcept {
  constexpr std::int64_t kNoLine = -128;
  std::int64_t end = 0;
  while (true) {
    const auto bytes = table.next();
    const auto lines = table.next();
    if (!bytes || !lines) return 0;
    const std::int64_t step = signed_byte(*lines);
    end += *bytes;
    if (step != kNoLine) line += step;
    if (instruction < end) return step == kNoLine ? 0 : line;
  }
}

std::int64_t line_in_locations(TableBytes table, std::int64_t line, std::int64_t instruction) noexcept {
  constexpr unsigned kOneLine = 10;  // to 12: so many lines further
  constexpr unsigned kNoColumns = 13;
  constexpr unsigned kNoLocation = 15;
  std::int64_t end = 0;
  while (true) {
    table.skip_to_entry();
    const auto head = table.next();
    if (!head) return 0;
    const unsigned form = (*head >> 3U) & 15U;
    end += kUnitBytes * static_cast<std::int64_t>((*head & 7U) + 1);
    if (form >= kNoColumns && form < kNoLocation) {
      const auto step = table.next_signed();
      if (!step) return 0;
      line += *step;
    } else if (form >= kOneLine && form < kNoColumns) {
      line += form - kOneLine;
    }
    if (instruction < end) return form == kNoLocation ? 0 : line;
  }
}

}  // namespace

int line_of(LineTable kind, std::span<const std::byte> table, int first_line, std::int64_t instruction) noexcept {
  std::int64_t line = first_line;
  if (instruction >= 0) {
    const TableBytes bytes(table);
    line = kind == LineTable::lnotab   ? line_in_lnotab(bytes, line, instruction)
           : kind == LineTable::ranges ? line_in_ranges(bytes, line, instruction)
                                       : line_in_locations(bytes, line, instruction);
  }
  return line > 0 && line < kMostLines ? static_cast<int>(line) : 0;
}

}  // namespace reveal
