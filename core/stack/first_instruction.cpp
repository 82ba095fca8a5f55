#include "core/stack/first_instruction.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace reveal {
namespace {

using namespace std::literals;

/// An instruction: the bytes it begins with, and from where to where the next one may be.
struct Emulated {
  std::string_view begin;
  unsigned char least, most;
  std::size_t length;  // length of the whole instruction
};

// The instructions that arch/x86/kernel/uprobes.c emulates in all kernels that can attach as we do. No call: until
// 2025, its emulation left out the shadow stack, and the return from it ended a process that has one.
constexpr std::array kEmulated = {
    Emulated{""sv, 0x50, 0x57, 1},                  // push
    Emulated{"\x41"sv, 0x50, 0x57, 2},              // push %r8 to %r15
    Emulated{""sv, 0x90, 0x90, 1},                  // nop
    Emulated{"\x0f\x1f\x44\x00"sv, 0x00, 0x00, 5},  // nop of five bytes
    Emulated{""sv, 0xeb, 0xeb, 2},                  // jmp
    Emulated{""sv, 0xe9, 0xe9, 5},                  // jmp
};
constexpr std::size_t kPushes = 2;  // the first ones
constexpr std::string_view kEndbr64 = "\xf3\x0f\x1e\xfa"sv;

/// An instruction that compilers put before the first push: it sets rax, which no function of the table has as an
/// argument. Nothing else jumps to that push, which would leave a word too many on the stack.
struct BeforePush {
  std::string_view begin;
  std::size_t length;  // length of the whole instruction
};
constexpr std::array kBeforePush = {
    BeforePush{"\x48\xb8"sv, 10},     // mov of a constant of 64 bits
    BeforePush{"\x48\x8b\x05"sv, 7},  // mov from the library's data
    BeforePush{"\x48\x8d\x05"sv, 7},  // lea of the library's data
};

bool begins_with_one_of(std::span<const Emulated> emulated, std::string_view code) noexcept {
  return std::any_of(emulated.begin(), emulated.end(), [code](const Emulated& known) {
    if (code.size() < known.length || !code.starts_with(known.begin)) return false;
    const auto next = static_cast<unsigned char>(code[known.begin.size()]);
    return next >= known.least && next <= known.most;
  });
}

}  // namespace

std::optional<std::uint64_t> cheap_probe_at(std::span<const std::byte> code) noexcept {
  std::string_view bytes(reinterpret_cast<const char*>(code.data()), code.size());
  const std::uint64_t behind = bytes.starts_with(kEndbr64) ? kEndbr64.size() : 0;
  bytes.remove_prefix(behind);
  for (const BeforePush& each : kBeforePush) {
    const bool pushes = bytes.size() > each.length && bytes.starts_with(each.begin) &&
                        begins_with_one_of(std::span(kEmulated).first(kPushes), bytes.substr(each.length));
    if (pushes) return behind + each.length;
  }
  if (!begins_with_one_of(kEmulated, bytes)) return std::nullopt;
  return behind;
}

}  // namespace reveal
