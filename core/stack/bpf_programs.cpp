#include "core/stack/bpf_programs.h"

#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace reveal {
namespace {

// r0: results. r1 to r5: arguments, lost with each call. r6 to r9: kept. r10: the end of the stack.
enum Register : std::uint8_t { r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10 };

/// x86-64's struct pt_regs, the argument of such a program.
constexpr std::array<std::int16_t, 6> kArgumentOffsets = {112, 104, 96, 88, 72, 64};  // di, si, dx, cx, r8, r9
constexpr std::int16_t kResultOffset = 80;                                            // ax

constexpr std::int32_t kGetAttachCookie = 174;  // BPF_FUNC_get_attach_cookie, since Linux 5.15

/// log2 of the size of an ncclDataType_t, four bits each: int8, uint8, int32, uint32, int64, uint64, float16, float32,
/// float64, bfloat16, float8e4m3, float8e5m2.
constexpr std::array<std::uint64_t, 12> kNcclSizes = {0, 0, 2, 2, 3, 3, 1, 2, 3, 1, 0, 0};
constexpr std::uint64_t packed_sizes() {
  std::uint64_t packed = 0;
  for (std::size_t i = 0; i < kNcclSizes.size(); ++i) packed |= kNcclSizes[i] << (4 * i);
  return packed;
}

// The verifier needs this to prove that accesses are within the ring.
static_assert((StepRing::kSteps & (StepRing::kSteps - 1)) == 0);

#define REVEAL_COUNT(member) static_cast<std::int16_t>(offsetof(CallCounts, member))

/// Instructions in the order in which they run; a jump names where it goes, and goes forward.
class Assembler {
 public:
  void load(Register to, Register from, std::int16_t offset) { add(BPF_LDX | BPF_MEM | BPF_DW, to, from, offset, 0); }
  void store(std::int16_t offset, Register from) { add(BPF_STX | BPF_MEM | BPF_DW, r10, from, offset, 0); }
  void store_at(Register to, std::int16_t offset, Register from) {
    add(BPF_STX | BPF_MEM | BPF_DW, to, from, offset, 0);
  }
  void move(Register to, Register from) { add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  void move_low_half(Register to, Register from) { add(BPF_ALU | BPF_MOV | BPF_X, to, from, 0, 0); }
  void set(Register to, std::int32_t value) { add(BPF_ALU64 | BPF_MOV | BPF_K, to, r0, 0, value); }
  void set_wide(Register to, std::uint64_t value) {
    add(BPF_LD | BPF_IMM | BPF_DW, to, r0, 0, static_cast<std::int32_t>(value & 0xffff'ffffU));
    add(0, r0, r0, 0, static_cast<std::int32_t>(value >> 32U));
  }
  void set_map(Register to, int fd) {
    add(BPF_LD | BPF_IMM | BPF_DW, to, static_cast<Register>(BPF_PSEUDO_MAP_FD), 0, fd);
    add(0, r0, r0, 0, 0);
  }
  void set_stack(Register to, std::int16_t offset) {
    move(to, r10);
    alu(BPF_ADD, to, static_cast<std::int32_t>(offset));
  }
  void subtract(Register from, Register what) { add(BPF_ALU64 | BPF_SUB | BPF_X, from, what, 0, 0); }
  void add_to(Register sum, Register what) { add(BPF_ALU64 | BPF_ADD | BPF_X, sum, what, 0, 0); }
  void alu(std::uint8_t operation, Register to, std::int32_t value) {
    add(static_cast<std::uint8_t>(BPF_ALU64 | operation | BPF_K), to, r0, 0, value);
  }
  void alu(std::uint8_t operation, Register to, Register by) {
    add(static_cast<std::uint8_t>(BPF_ALU64 | operation | BPF_X), to, by, 0, 0);
  }
  /// Threads of one process call at once.
  void add_atomically(Register counts, std::int16_t member, Register what) {
    add(BPF_STX | BPF_ATOMIC | BPF_DW, counts, what, member, BPF_ADD);
  }
  /// Afterwards, `what` has the value before. Since Linux 5.12.
  void exchange_sum(Register counts, std::int16_t member, Register what) {
    add(BPF_STX | BPF_ATOMIC | BPF_DW, counts, what, member, BPF_ADD | BPF_FETCH);
  }
  void count_one(Register counts, std::int16_t member) {
    set(r1, 1);
    add_atomically(counts, member, r1);
  }
  void call(std::int32_t helper) { add(BPF_JMP | BPF_CALL, r0, r0, 0, helper); }

  void jump(const char* label) { jump_if(BPF_JA, r0, 0, label); }
  void jump_if(std::uint8_t condition, Register left, std::int32_t right, const char* label) {
    jumps_.push_back({code_.size(), label});
    add(static_cast<std::uint8_t>(BPF_JMP | condition | BPF_K), left, r0, 0, right);
  }
  void jump_if(std::uint8_t condition, Register left, Register right, const char* label) {
    jumps_.push_back({code_.size(), label});
    add(static_cast<std::uint8_t>(BPF_JMP | condition | BPF_X), left, right, 0, 0);
  }
  /// Sets the target of all jumps to it so far; a label may be used again.
  void here(const char* label) {
    for (const Jump& jump : jumps_) {
      if (jump.label != label) continue;
      code_[jump.at].off = static_cast<std::int16_t>(code_.size() - jump.at - 1);
    }
    std::erase_if(jumps_, [label](const Jump& jump) { return jump.label == label; });
  }
  /// A result other than 0 removes the probe from the process (UPROBE_HANDLER_REMOVE), or makes a sample of perf's.
  std::vector<bpf_insn> finish() {
    here(kEnd);
    set(r0, 0);
    add(BPF_JMP | BPF_EXIT, r0, r0, 0, 0);
    return std::move(code_);
  }

  static constexpr const char* kEnd = "end";

 private:
  struct Jump {
    std::size_t at;
    const char* label;  // one of the constants, compared by address
  };
  void add(std::uint8_t code, Register to, Register from, std::int16_t offset, std::int32_t value) {
    code_.push_back({.code = code,
                     .dst_reg = static_cast<std::uint8_t>(to & 0xfU),
                     .src_reg = static_cast<std::uint8_t>(from & 0xfU),
                     .off = offset,
                     .imm = value});
  }

  std::vector<bpf_insn> code_;
  std::vector<Jump> jumps_;
};

constexpr const char* kUnsized = "unsized";
constexpr const char* kCounted = "counted";
constexpr const char* kNotLonger = "not longer";
constexpr const char* kNoSuchCounts = "no such counts";

// On the stack.
constexpr std::int16_t kIndex = -8;     // index of the counts, a word of 32 bits
constexpr std::int16_t kPending = -24;  // a PendingCall
constexpr std::int16_t kBegin = -32;    // begin of the call
constexpr std::int16_t kThread = -48;   // its name, sixteen letters

/// "pt_autog", as PyTorch names the threads in which it runs the passes of GPUs ("pt_autograd_0"): a pass that begins
/// there is a part of another one, as with reentrant checkpointing.
constexpr std::uint64_t kAutogradThread = 0x676f'7475'615f'7470;

/// With r6 the registers of the process: r7 the index, r6 its counts.
void find_counts(Assembler& code, const CallMaps& maps) {
  code.move(r1, r6);
  code.call(kGetAttachCookie);
  code.move(r7, r0);
  code.store(kIndex, r7);  // little-endian: its low half comes first
  code.set_map(r1, maps.counts);
  code.set_stack(r2, kIndex);
  code.call(BPF_FUNC_map_lookup_elem);
  code.jump_if(BPF_JEQ, r0, 0, Assembler::kEnd);
  code.move(r6, r0);
}

void name_pending(Assembler& code) {
  code.call(BPF_FUNC_get_current_pid_tgid);
  code.store(kPending, r0);
  code.store(kPending + 8, r7);
}

/// r8 has the bytes or the elements, r9 their type.
void count_bytes(Assembler& code, ByteRule rule) {
  if (rule == ByteRule::none) return;
  if (rule == ByteRule::nccl_count) {
    code.jump_if(BPF_JGE, r9, static_cast<std::int32_t>(kNcclSizes.size()), kUnsized);
    code.alu(BPF_LSH, r9, 2);
    code.set_wide(r1, packed_sizes());
    code.alu(BPF_RSH, r1, r9);
    code.alu(BPF_AND, r1, 0xf);
    code.alu(BPF_LSH, r8, r1);
  }
  code.add_atomically(r6, REVEAL_COUNT(bytes), r8);
  if (rule != ByteRule::nccl_count) return;
  code.jump(kCounted);
  code.here(kUnsized);
  code.count_one(r6, REVEAL_COUNT(unsized));
  code.here(kCounted);
}

/// Adds the process's waiting time so far to r8, and its moved bytes to r9, from its other counts. r7 is the index of
/// the clock's.
void sum_parts_of_step(Assembler& code, const CallMaps& maps) {
  const std::span<const StackFunction> table = stack_functions();
  code.set(r8, 0);
  code.set(r9, 0);
  for (std::size_t function = 0; function < table.size(); ++function) {
    const bool waits = table[function].part == PartOfStep::waiting;
    const bool moves = table[function].rule == ByteRule::nccl_count;
    if (!waits && !moves) continue;
    code.move(r1, r7);
    code.alu(BPF_ADD, r1, static_cast<std::int32_t>(function) - static_cast<std::int32_t>(step_function()));
    code.store(kIndex, r1);
    code.set_map(r1, maps.counts);
    code.set_stack(r2, kIndex);
    code.call(BPF_FUNC_map_lookup_elem);
    code.jump_if(BPF_JEQ, r0, 0, kNoSuchCounts);
    code.load(r1, r0, REVEAL_COUNT(time_ns));
    if (waits) code.add_to(r8, r1);
    code.load(r1, r0, REVEAL_COUNT(bytes));
    if (moves) code.add_to(r9, r1);
    code.here(kNoSuchCounts);
  }
}

/// Leaves out calls in PyTorch's own threads.
void leave_out_parts_of_passes(Assembler& code) {
  code.set_stack(r1, kThread);
  code.set(r2, 16);
  code.call(BPF_FUNC_get_current_comm);
  code.load(r1, r10, kThread);
  code.set_wide(r2, kAutogradThread);
  code.jump_if(BPF_JEQ, r1, r2, Assembler::kEnd);
}

/// Appends the step that begins now, and since kBegin, to its process's ring.
void begin_step(Assembler& code, const CallMaps& maps) {
  constexpr auto kSteps = static_cast<std::int16_t>(offsetof(StepRing, steps));
  code.call(BPF_FUNC_ktime_get_ns);
  code.store(kBegin, r0);
  sum_parts_of_step(code, maps);
  code.move(r1, r7);
  code.alu(BPF_DIV, r1, static_cast<std::int32_t>(stack_functions().size()));
  code.store(kIndex, r1);
  code.set_map(r1, maps.steps);
  code.set_stack(r2, kIndex);
  code.call(BPF_FUNC_map_lookup_elem);
  code.jump_if(BPF_JEQ, r0, 0, Assembler::kEnd);
  code.set(r1, 1);
  code.exchange_sum(r0, static_cast<std::int16_t>(offsetof(StepRing, count)), r1);
  code.alu(BPF_AND, r1, static_cast<std::int32_t>(StepRing::kSteps - 1));
  code.alu(BPF_MUL, r1, static_cast<std::int32_t>(sizeof(BegunStep)));
  code.add_to(r0, r1);
  code.store_at(r0, kSteps + static_cast<std::int16_t>(offsetof(BegunStep, waiting_ns)), r8);
  code.store_at(r0, kSteps + static_cast<std::int16_t>(offsetof(BegunStep, bytes)), r9);
  code.load(r1, r10, kBegin);
  code.store_at(r0, kSteps + static_cast<std::int16_t>(offsetof(BegunStep, begin_ns)), r1);  // last: it is whole now
}

}  // namespace

CallShape shape_of(const StackFunction& function, bool timed) noexcept {
  return {.rule = function.rule,
          .argument = function.argument,
          .timed = timed && function.ending != Ending::may_throw,
          .benign = function.benign,
          .clock = function.part == PartOfStep::clock,
          .status = function.ending == Ending::returns_status};
}

std::vector<bpf_insn> entry_program(const CallShape& shape, const CallMaps& maps) {
  Assembler code;
  code.move(r6, r1);
  if (shape.rule != ByteRule::none) {
    const auto argument = static_cast<std::size_t>(shape.argument - 1);
    code.load(r8, r6, kArgumentOffsets[argument]);
    if (shape.rule == ByteRule::nccl_count) {
      code.load(r9, r6, kArgumentOffsets[argument + 1]);
      code.move_low_half(r9, r9);  // an enumeration: the upper half of the register is anything
    }
  }
  if (shape.clock) leave_out_parts_of_passes(code);
  find_counts(code, maps);
  code.count_one(r6, REVEAL_COUNT(calls));
  count_bytes(code, shape.rule);
  if (shape.clock) begin_step(code, maps);
  if (shape.timed) {
    name_pending(code);
    code.call(BPF_FUNC_ktime_get_ns);
    code.store(kBegin, r0);
    code.set_map(r1, maps.pending);
    code.set_stack(r2, kPending);
    code.set_stack(r3, kBegin);
    code.set(r4, BPF_ANY);  // a call that was left by longjmp never returned
    code.call(BPF_FUNC_map_update_elem);
    code.jump_if(BPF_JEQ, r0, 0, Assembler::kEnd);
    code.count_one(r6, REVEAL_COUNT(untimed));
  }
  return code.finish();
}

std::vector<bpf_insn> return_program(const CallShape& shape, const CallMaps& maps) {
  Assembler code;
  code.move(r6, r1);
  code.load(r8, r6, kResultOffset);
  find_counts(code, maps);
  name_pending(code);
  code.set_map(r1, maps.pending);
  code.set_stack(r2, kPending);
  code.call(BPF_FUNC_map_lookup_elem);
  code.jump_if(BPF_JEQ, r0, 0, Assembler::kEnd);  // its begin was not seen
  code.load(r9, r0, 0);
  code.call(BPF_FUNC_ktime_get_ns);
  code.subtract(r0, r9);
  code.move(r9, r0);
  code.set_map(r1, maps.pending);
  code.set_stack(r2, kPending);
  code.call(BPF_FUNC_map_delete_elem);
  code.add_atomically(r6, REVEAL_COUNT(time_ns), r9);
  code.count_one(r6, REVEAL_COUNT(returned));
  code.load(r1, r6, REVEAL_COUNT(longest_ns));
  code.jump_if(BPF_JLE, r9, r1, kNotLonger);  // if two threads do this at once, one of the values may be lost
  code.store_at(r6, REVEAL_COUNT(longest_ns), r9);
  code.here(kNotLonger);
  if (!shape.status) return code.finish();
  code.move_low_half(r8, r8);
  code.jump_if(BPF_JEQ, r8, 0, Assembler::kEnd);
  code.jump_if(BPF_JEQ, r8, shape.benign, Assembler::kEnd);
  code.store_at(r6, REVEAL_COUNT(last_error), r8);
  code.count_one(r6, REVEAL_COUNT(errors));
  return code.finish();
}

#undef REVEAL_COUNT

}  // namespace reveal
