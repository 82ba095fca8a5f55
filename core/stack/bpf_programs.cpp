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
constexpr std::int16_t kStackOffset = 152;                                            // sp

constexpr std::int32_t kGetAttachCookie = 174;  // BPF_FUNC_get_attach_cookie, since Linux 5.15
constexpr std::int32_t kReadUser = 112;         // BPF_FUNC_probe_read_user, since Linux 5.5

/// log2 of the size of an ncclDataType_t, four bits each: int8, uint8, int32, uint32, int64, uint64, float16, float32,
/// float64, bfloat16, float8e4m3, float8e5m2.
constexpr std::array<std::uint64_t, 12> kNcclSizes = {0, 0, 2, 2, 3, 3, 1, 2, 3, 1, 0, 0};
constexpr std::uint64_t packed_sizes() {
  std::uint64_t packed = 0;
  for (std::size_t i = 0; i < kNcclSizes.size(); ++i) packed |= kNcclSizes[i] << (4 * i);
  return packed;
}

static_assert(offsetof(PendingBegin, begin_ns) == 0 && offsetof(PendingBegin, depth) == 8);
static_assert(offsetof(PendingBegin, address) == 16 && offsetof(PendingBegin, id) == 32);
// The verifier needs this to prove that accesses are within the ring.
static_assert((StepRing::kSteps & (StepRing::kSteps - 1)) == 0);
static_assert((CommunicatorCalls::kNewest & (CommunicatorCalls::kNewest - 1)) == 0);
static_assert((StepRing::kCommunicators & (StepRing::kCommunicators - 1)) == 0);
static_assert((StepRing::kSamples & (StepRing::kSamples - 1)) == 0);
static_assert((StepRing::kRareCalls & (StepRing::kRareCalls - 1)) == 0);
static_assert(sizeof(StepRing) < 0x7fff, "offsets in instructions");

#define REVEAL_COUNT(member) static_cast<std::int16_t>(offsetof(CallCounts, member))
#define REVEAL_COMMUNICATOR(member) static_cast<std::int16_t>(offsetof(CommunicatorCalls, member))

/// Instructions in the order in which they run; a jump names where it goes, and goes forward.
class Assembler {
 public:
  void load(Register to, Register from, std::int16_t offset) { add(BPF_LDX | BPF_MEM | BPF_DW, to, from, offset, 0); }
  void store(std::int16_t offset, Register from) { add(BPF_STX | BPF_MEM | BPF_DW, r10, from, offset, 0); }
  void store_at(Register to, std::int16_t offset, Register from) {
    add(BPF_STX | BPF_MEM | BPF_DW, to, from, offset, 0);
  }
  void store_byte(std::int16_t offset, std::int32_t value) { add(BPF_ST | BPF_MEM | BPF_B, r10, r0, offset, value); }
  void load_byte(Register to, Register from, std::int16_t offset) {
    add(BPF_LDX | BPF_MEM | BPF_B, to, from, offset, 0);
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
  /// Takes `what` into a place that is 0; r0 has the value before. Since Linux 5.12.
  void claim(Register place, std::int16_t member, Register what) {
    set(r0, 0);
    add(BPF_STX | BPF_ATOMIC | BPF_DW, place, what, member, BPF_CMPXCHG);
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
constexpr const char* kPendingNow = "pending now";
constexpr const char* kOutermost = "outermost";
constexpr const char* kNotPending = "not pending";
constexpr const char* kNoSuchRing = "no such ring";
constexpr const char* kOthersGoOn = "others go on";
constexpr const char* kNextCommunicator = "next communicator";
constexpr const char* kThisCommunicator = "this communicator";
constexpr const char* kTaken = "taken";
constexpr const char* kNotRecorded = "not recorded";
constexpr const char* kSamplesGoOn = "samples go on";
constexpr const char* kNotSampled = "not sampled";
constexpr const char* kMembersKnown = "members known";
constexpr const char* kNoId = "no id";
constexpr const char* kThisCode = "this code";
constexpr const char* kNextCode = "next code";
constexpr const char* kCodeCounted = "code counted";
constexpr const char* kNotLongest = "not longest";
constexpr const char* kFewerBits = "fewer bits";
constexpr const char* kNotTold = "not told";

// On the stack.
constexpr std::int16_t kIndex = -8;             // index of the counts, a word of 32 bits
constexpr std::int16_t kPending = -24;          // a PendingCall
constexpr std::int16_t kThread = -40;           // its name, sixteen letters
constexpr std::int16_t kElementsOnStack = -56;  // their number and their size
constexpr std::int16_t kBegin = -96;            // begin of the call: a PendingBegin, up to kId
constexpr std::int16_t kDepth = kBegin + 8;
constexpr std::int16_t kHandle = kBegin + 16;  // address of the communicator, or the address at which it will be stored
constexpr std::int16_t kMembers = kBegin + 24;
constexpr std::int16_t kId = kBegin + 32;
constexpr std::int16_t kSize = -104;  // bytes of the call
constexpr std::int16_t kResult = -112;
constexpr std::int16_t kDuration = -120;
constexpr std::int16_t kIdOnStack = -152;  // the begin of an id
constexpr std::int16_t kNumber = -160;     // number of the call on its communicator
constexpr std::int16_t kCollected = -168;  // time in garbage collections
constexpr std::int16_t kOrder = -169;      // place of the communicator among those of the process, a byte
constexpr std::int32_t kIdBytes = 32;

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

/// A call in this thread that has not ended. Between marks, the new one is a part of it; r8 shows whether there is one.
void find_pending(Assembler& code, const CallShape& shape, const CallMaps& maps) {
  code.set(r8, 0);
  code.set_map(r1, maps.pending);
  code.set_stack(r2, kPending);
  code.call(BPF_FUNC_map_lookup_elem);
  code.jump_if(BPF_JEQ, r0, 0, kNotPending);
  code.set(r8, 1);
  if (shape.marked) {
    code.load(r1, r0, 8);
    code.alu(BPF_ADD, r1, 1);
    code.store_at(r0, 8, r1);
    code.jump(Assembler::kEnd);
  }
  code.here(kNotPending);
}

/// r8 has the address of gloo's options: afterwards, r8 has the bytes.
void read_options(Assembler& code, std::int32_t offset) {
  constexpr std::int32_t kMostElements = 0x7fff'ffff;
  constexpr std::int32_t kLargestElement = 16;  // bytes: a complex number of two doubles
  code.set_stack(r1, kElementsOnStack);
  code.set(r2, 16);
  code.move(r3, r8);
  code.alu(BPF_ADD, r3, offset);
  code.call(kReadUser);
  code.jump_if(BPF_JNE, r0, 0, kUnsized);
  code.load(r8, r10, kElementsOnStack);
  code.load(r9, r10, kElementsOnStack + 8);
  // Anything else is not what it is taken for: another version of gloo.
  code.jump_if(BPF_JGT, r8, kMostElements, kUnsized);
  code.jump_if(BPF_JGT, r9, kLargestElement, kUnsized);
  code.jump_if(BPF_JEQ, r9, 0, kUnsized);
  code.alu(BPF_MUL, r8, r9);
}

/// r8 has the bytes, the elements or the options, r9 the type of the elements.
void count_bytes(Assembler& code, const CallShape& shape) {
  const ByteRule rule = shape.rule;
  if (rule == ByteRule::none) return;
  if (rule == ByteRule::unknown) {
    code.count_one(r6, REVEAL_COUNT(unsized));
    return;
  }
  if (rule == ByteRule::gloo_count) {
    read_options(code, shape.offset);
  } else {
    // More than any machine has: a function of this name with other arguments.
    constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 44U;
    code.set_wide(r1, kMostBytes);
    code.jump_if(BPF_JGT, r8, r1, kUnsized);
  }
  if (rule == ByteRule::nccl_count) {
    code.jump_if(BPF_JGE, r9, static_cast<std::int32_t>(kNcclSizes.size()), kUnsized);
    code.alu(BPF_LSH, r9, 2);
    code.set_wide(r1, packed_sizes());
    code.alu(BPF_RSH, r1, r9);
    code.alu(BPF_AND, r1, 0xf);
    code.alu(BPF_LSH, r8, r1);
  }
  code.store(kSize, r8);
  code.add_atomically(r6, REVEAL_COUNT(bytes), r8);
  code.jump(kCounted);
  code.here(kUnsized);
  code.count_one(r6, REVEAL_COUNT(unsized));
  code.here(kCounted);
}

/// Sums the process's waiting time so far in r8, its moved bytes in r9 and its garbage collections in kCollected, from
/// its other counts. r7 is the index of the clock's.
void sum_parts_of_step(Assembler& code, const CallMaps& maps) {
  const std::span<const StackFunction> table = stack_functions();
  code.set(r8, 0);
  code.set(r9, 0);
  code.store(kCollected, r8);
  for (std::size_t function = 0; function < table.size(); ++function) {
    const bool waits = table[function].part == PartOfStep::waiting;
    const bool moves = exchanges(table[function]);
    const bool collects = table[function].part == PartOfStep::gc;
    if (!waits && !moves && !collects) continue;
    code.move(r1, r7);
    code.alu(BPF_ADD, r1, static_cast<std::int32_t>(function) - static_cast<std::int32_t>(step_function()));
    code.store(kIndex, r1);
    code.set_map(r1, maps.counts);
    code.set_stack(r2, kIndex);
    code.call(BPF_FUNC_map_lookup_elem);
    code.jump_if(BPF_JEQ, r0, 0, kNoSuchCounts);
    code.load(r1, r0, REVEAL_COUNT(time_ns));
    if (waits) code.add_to(r8, r1);
    if (collects) code.store(kCollected, r1);
    code.load(r1, r0, REVEAL_COUNT(bytes));
    if (moves) code.add_to(r9, r1);
    code.here(kNoSuchCounts);
  }
}

/// With r7 the index of the counts: r0 has the ring of the process, or the program continues at the label.
void find_ring(Assembler& code, const CallMaps& maps, const char* without) {
  code.move(r1, r7);
  code.alu(BPF_DIV, r1, static_cast<std::int32_t>(stack_functions().size()));
  code.store(kIndex, r1);
  code.set_map(r1, maps.steps);
  code.set_stack(r2, kIndex);
  code.call(BPF_FUNC_map_lookup_elem);
  code.jump_if(BPF_JEQ, r0, 0, without);
}

/// With r0 the ring of the process: afterwards, the next entry of one of its lists is as far behind r0 as the first one
/// is behind the ring. `count` is the place of their number so far, which grows.
template <typename Entry>
void take_next_place(Assembler& code, std::size_t count, std::size_t entries) {
  code.set(r1, 1);
  code.exchange_sum(r0, static_cast<std::int16_t>(count), r1);
  code.alu(BPF_AND, r1, static_cast<std::int32_t>(entries - 1));
  code.alu(BPF_MUL, r1, static_cast<std::int32_t>(sizeof(Entry)));
  code.add_to(r0, r1);
}

/// The place of an entry's member behind r0 then.
constexpr std::int16_t member_of(std::size_t list, std::size_t member) {
  return static_cast<std::int16_t>(list + member);
}

/// Appends a call to the rare ones of the process: r8 has its time, kMembers and kId the other members of a RareCall.
/// r7 is kept.
void tell_call(Assembler& code, const CallMaps& maps) {
  constexpr std::size_t kList = offsetof(StepRing, rare_calls);
  find_ring(code, maps, kNotTold);
  take_next_place<RareCall>(code, offsetof(StepRing, rare), StepRing::kRareCalls);
  code.store_at(r0, member_of(kList, offsetof(RareCall, index)), r7);
  code.load(r1, r10, kMembers);
  code.store_at(r0, member_of(kList, offsetof(RareCall, about)), r1);
  code.load(r1, r10, kId);
  code.store_at(r0, member_of(kList, offsetof(RareCall, id)), r1);
  code.store_at(r0, member_of(kList, offsetof(RareCall, time_ns)), r8);  // last: it is whole now
  code.here(kNotTold);
}

/// Threads of a process carry out collectives side by side: their common time begins with the first one.
void begin_collective(Assembler& code, const CallMaps& maps) {
  find_ring(code, maps, Assembler::kEnd);
  code.set(r1, 1);
  code.exchange_sum(r0, static_cast<std::int16_t>(offsetof(StepRing, collectives)), r1);
  code.jump_if(BPF_JNE, r1, 0, Assembler::kEnd);
  code.load(r1, r10, kBegin);
  code.store_at(r0, static_cast<std::int16_t>(offsetof(StepRing, since_ns)), r1);
}

/// And it ends with the last one. r8 has the time now; it is lost.
void end_collective(Assembler& code, const CallMaps& maps) {
  find_ring(code, maps, kNoSuchRing);
  // Before this one is taken off: until then no other thread writes the begin.
  code.load(r1, r0, static_cast<std::int16_t>(offsetof(StepRing, since_ns)));
  code.subtract(r8, r1);
  code.set(r1, -1);
  code.exchange_sum(r0, static_cast<std::int16_t>(offsetof(StepRing, collectives)), r1);
  code.jump_if(BPF_JNE, r1, 1, kOthersGoOn);
  code.add_atomically(r0, static_cast<std::int16_t>(offsetof(StepRing, communication_ns)), r8);
  code.here(kOthersGoOn);
  code.here(kNoSuchRing);
}

/// The ids of NCCL have 128 bytes, which begin with a random number, or an address and a port. The trace has no need of
/// the number itself. r6 has the registers of the process.
void hash_id(Assembler& code) {
  constexpr std::int32_t kFactor = 0x5bd1e995;  // a large odd number
  code.set(r8, 0);
  code.store(kId, r8);
  code.set_stack(r1, kIdOnStack);
  code.set(r2, kIdBytes);
  code.load(r3, r6, kStackOffset);
  code.alu(BPF_ADD, r3, 8);  // behind the return address
  code.call(kReadUser);
  code.jump_if(BPF_JNE, r0, 0, kNoId);
  for (std::int32_t at = 0; at < kIdBytes; at += 8) {
    code.load(r1, r10, static_cast<std::int16_t>(kIdOnStack + at));
    code.add_to(r8, r1);
    code.alu(BPF_MUL, r8, kFactor);
    code.move(r1, r8);
    code.alu(BPF_RSH, r1, 29);
    code.alu(BPF_XOR, r8, r1);
  }
  code.alu(BPF_RSH, r8, 32);
  code.store(kId, r8);
  code.here(kNoId);
}

/// kHandle, kMembers and kId from the arguments, with r6 the registers of the process.
void read_communicator(Assembler& code, const CallShape& shape) {
  constexpr int kInRegisters = static_cast<int>(kArgumentOffsets.size());
  code.set(r1, 0);
  code.store(kHandle, r1);
  code.store(kMembers, r1);
  code.store(kId, r1);
  if (shape.communicator > kInRegisters) {
    code.load(r3, r6, kStackOffset);
    code.alu(BPF_ADD, r3, 8 * (shape.communicator - kInRegisters));
  } else {
    code.load(r3, r6, kArgumentOffsets[shape.communicator > 0 ? static_cast<std::size_t>(shape.communicator - 1) : 0]);
  }
  if (shape.communicator == kInOptions || shape.communicator > kInRegisters) {
    code.set_stack(r1, kHandle);
    code.set(r2, 8);
    code.call(kReadUser);  // a failure leaves zeros
    return;
  }
  code.store(kHandle, r3);
  if (shape.communicator != kMadeByCall) return;
  code.load(r1, r6, kArgumentOffsets[1]);
  code.alu(BPF_LSH, r1, 32);
  code.load(r2, r6, kArgumentOffsets[2]);
  code.move_low_half(r2, r2);
  code.alu(BPF_OR, r1, r2);
  code.store(kMembers, r1);
  hash_id(code);
}

enum class Unknown : bool { is_left_out, takes_a_place };

constexpr std::int16_t place_of_communicator(std::size_t order) {
  return static_cast<std::int16_t>(offsetof(StepRing, communicators) + order * sizeof(CommunicatorCalls));
}

/// With r7 the index of the counts: r9 has the process's place of the communicator kHandle, or the program continues at
/// kNotRecorded. r8 is lost.
void find_communicator(Assembler& code, const CallMaps& maps, Unknown unknown) {
  find_ring(code, maps, kNotRecorded);
  code.move(r9, r0);
  code.load(r8, r10, kHandle);
  code.move_low_half(r8, r8);  // MPI's may be an int, with anything in the upper half of the register
  code.jump_if(BPF_JEQ, r8, 0, kNotRecorded);
  const auto handle_at = [](std::size_t order) {
    return static_cast<std::int16_t>(place_of_communicator(order) + REVEAL_COMMUNICATOR(handle));
  };
  const auto take = [&code](std::size_t order) {
    code.store_byte(kOrder, static_cast<std::int32_t>(order));
    code.jump(kThisCommunicator);
  };
  for (std::size_t i = 0; i < StepRing::kCommunicators; ++i) {
    code.load(r1, r9, handle_at(i));
    code.jump_if(BPF_JNE, r1, r8, kNextCommunicator);
    take(i);
    code.here(kNextCommunicator);
  }
  for (std::size_t i = 0; unknown == Unknown::takes_a_place && i < StepRing::kCommunicators; ++i) {
    code.load(r1, r9, handle_at(i));
    code.jump_if(BPF_JEQ, r1, r8, kTaken);
    code.jump_if(BPF_JNE, r1, 0, kNextCommunicator);
    code.claim(r9, handle_at(i), r8);
    code.jump_if(BPF_JEQ, r0, 0, kTaken);
    code.jump_if(BPF_JNE, r0, r8, kNextCommunicator);  // else another thread was faster
    code.here(kTaken);
    take(i);
    code.here(kNextCommunicator);
  }
  if (unknown == Unknown::takes_a_place) code.count_one(r9, static_cast<std::int16_t>(offsetof(StepRing, unrecorded)));
  code.jump(kNotRecorded);
  code.here(kThisCommunicator);
  // The verifier only knows of a stored byte whether it is 0. With the number, it would follow all that comes behind
  // once for each place, which takes milliseconds.
  code.load_byte(r1, r10, kOrder);
  code.alu(BPF_AND, r1, static_cast<std::int32_t>(StepRing::kCommunicators - 1));
  code.alu(BPF_MUL, r1, static_cast<std::int32_t>(sizeof(CommunicatorCalls)));
  code.alu(BPF_ADD, r9, static_cast<std::int32_t>(offsetof(StepRing, communicators)));
  code.add_to(r9, r1);
}

/// A context of gloo has its rank and their number behind the address of its methods. If these are others, a new
/// context has the address of one that has ended.
void read_members_of_context(Assembler& code) {
  constexpr std::int32_t kBehindMethods = 8;
  code.set_stack(r1, kMembers);
  code.set(r2, 8);
  code.load(r3, r10, kHandle);
  code.alu(BPF_ADD, r3, kBehindMethods);
  code.call(kReadUser);
  code.jump_if(BPF_JNE, r0, 0, kMembersKnown);
  code.load(r1, r10, kMembers);
  code.load(r2, r9, REVEAL_COMMUNICATOR(members));
  code.jump_if(BPF_JEQ, r1, r2, kMembersKnown);
  code.store_at(r9, REVEAL_COMMUNICATOR(members), r1);
  code.jump_if(BPF_JEQ, r2, 0, kMembersKnown);  // threads may make the first calls together: none of these is lost
  code.set(r1, 0);
  code.store_at(r9, REVEAL_COMMUNICATOR(calls), r1);
  code.here(kMembersKnown);
}

/// Keeps the call kNumber of the communicator r9 by itself if it is one of the first ones of a period. r8 has the time
/// now. If two threads are here at once, there may be one more of them, or one less. r7 is kept, r8 and r9 are lost.
void sample_collective(Assembler& code, const CallMaps& maps) {
  constexpr std::size_t kList = offsetof(StepRing, samples);
  code.load(r1, r9, REVEAL_COMMUNICATOR(next_sample_ns));
  code.jump_if(BPF_JEQ, r1, 0, kNotSampled);
  code.jump_if(BPF_JGT, r1, r8, kSamplesGoOn);
  code.move(r2, r8);
  code.subtract(r2, r1);
  code.alu(BPF_DIV, r2, CommunicatorCalls::kSamplePeriodNs);
  code.alu(BPF_ADD, r2, 1);
  code.alu(BPF_MUL, r2, CommunicatorCalls::kSamplePeriodNs);
  code.add_to(r1, r2);
  code.store_at(r9, REVEAL_COMMUNICATOR(next_sample_ns), r1);
  code.set(r1, CommunicatorCalls::kSampledAtOnce);
  code.store_at(r9, REVEAL_COMMUNICATOR(samples_left), r1);
  code.here(kSamplesGoOn);
  code.load(r1, r9, REVEAL_COMMUNICATOR(samples_left));
  code.jump_if(BPF_JEQ, r1, 0, kNotSampled);
  code.alu(BPF_SUB, r1, 1);
  code.store_at(r9, REVEAL_COMMUNICATOR(samples_left), r1);
  code.load(r9, r9, REVEAL_COMMUNICATOR(handle));
  find_ring(code, maps, kNotSampled);
  take_next_place<SampledCall>(code, offsetof(StepRing, sampled), StepRing::kSamples);
  code.store_at(r0, member_of(kList, offsetof(SampledCall, handle)), r9);
  code.load(r1, r10, kNumber);
  code.store_at(r0, member_of(kList, offsetof(SampledCall, number)), r1);
  code.store_at(r0, member_of(kList, offsetof(SampledCall, index)), r7);
  code.store_at(r0, member_of(kList, offsetof(SampledCall, begin_ns)), r8);  // last: it is whole now
  code.here(kNotSampled);
}

/// Appends the call that begins now, of kSize bytes, to those of its communicator. r7 is kept, r8 and r9 are lost.
void record_collective(Assembler& code, const CallShape& shape, const CallMaps& maps) {
  find_communicator(code, maps, Unknown::takes_a_place);
  if (shape.communicator == kInOptions) read_members_of_context(code);
  code.call(BPF_FUNC_ktime_get_ns);
  code.store_at(r9, REVEAL_COMMUNICATOR(begin_ns), r0);
  code.move(r8, r0);
  code.move(r2, r7);
  code.alu(BPF_MOD, r2, static_cast<std::int32_t>(stack_functions().size()));
  code.alu(BPF_ADD, r2, 1);
  code.load(r3, r10, kSize);
  code.alu(BPF_LSH, r3, static_cast<std::int32_t>(CommunicatorCalls::kSizeShift));
  code.alu(BPF_OR, r3, r2);
  code.set(r1, 1);
  code.exchange_sum(r9, REVEAL_COMMUNICATOR(calls), r1);
  code.store(kNumber, r1);
  code.alu(BPF_AND, r1, static_cast<std::int32_t>(CommunicatorCalls::kNewest - 1));
  code.alu(BPF_LSH, r1, 3);
  code.move(r2, r9);
  code.add_to(r2, r1);
  code.store_at(r2, REVEAL_COMMUNICATOR(newest), r3);
  sample_collective(code, maps);
  code.here(kNotRecorded);
}

/// The communicator kHandle begins anew, with kMembers and kId. r7 is kept, r8 and r9 are lost.
void renew_communicator(Assembler& code, const CallMaps& maps) {
  find_communicator(code, maps, Unknown::takes_a_place);
  code.load(r1, r10, kMembers);
  code.store_at(r9, REVEAL_COMMUNICATOR(members), r1);
  code.load(r1, r10, kId);
  code.store_at(r9, REVEAL_COMMUNICATOR(id), r1);
  code.set(r1, 0);
  code.store_at(r9, REVEAL_COMMUNICATOR(calls), r1);
  code.call(BPF_FUNC_ktime_get_ns);
  code.store_at(r9, REVEAL_COMMUNICATOR(begin_ns), r0);
  code.move(r8, r0);
  tell_call(code, maps);
  code.here(kNotRecorded);
}

/// The place of the communicator kHandle becomes free. r7 is kept, r8 and r9 are lost.
void end_communicator(Assembler& code, const CallMaps& maps) {
  find_communicator(code, maps, Unknown::is_left_out);
  code.load(r1, r9, REVEAL_COMMUNICATOR(members));
  code.store(kMembers, r1);
  code.load(r1, r9, REVEAL_COMMUNICATOR(id));
  code.store(kId, r1);
  code.set(r1, 0);
  code.store_at(r9, REVEAL_COMMUNICATOR(members), r1);
  code.store_at(r9, REVEAL_COMMUNICATOR(id), r1);
  code.store_at(r9, REVEAL_COMMUNICATOR(calls), r1);
  code.store_at(r9, REVEAL_COMMUNICATOR(handle), r1);  // last: another thread may take it now
  code.call(BPF_FUNC_ktime_get_ns);
  code.move(r8, r0);
  tell_call(code, maps);
  code.here(kNotRecorded);
}

/// The call that returns has stored a communicator at the address kHandle, if it did not fail. r8 and r9 are kept.
void record_made_communicator(Assembler& code, const CallMaps& maps) {
  code.store(kResult, r8);
  code.store(kDuration, r9);
  code.load(r3, r10, kHandle);
  code.set_stack(r1, kHandle);
  code.set(r2, 8);
  code.call(kReadUser);
  code.jump_if(BPF_JNE, r0, 0, kNotRecorded);
  renew_communicator(code, maps);
  code.load(r8, r10, kResult);
  code.load(r9, r10, kDuration);
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
  constexpr std::size_t kList = offsetof(StepRing, steps);
  code.call(BPF_FUNC_ktime_get_ns);
  code.store(kBegin, r0);
  sum_parts_of_step(code, maps);
  find_ring(code, maps, Assembler::kEnd);
  take_next_place<BegunStep>(code, offsetof(StepRing, count), StepRing::kSteps);
  code.store_at(r0, member_of(kList, offsetof(BegunStep, waiting_ns)), r8);
  code.store_at(r0, member_of(kList, offsetof(BegunStep, bytes)), r9);
  code.load(r1, r10, kCollected);
  code.store_at(r0, member_of(kList, offsetof(BegunStep, gc_ns)), r1);
  code.load(r1, r10, kBegin);
  code.store_at(r0, member_of(kList, offsetof(BegunStep, begin_ns)), r1);  // last: it is whole now
}

/// Counts the call by its duration r9: by the number of its binary digits. r6 has the counts.
void count_duration(Assembler& code) {
  static_assert(CallCounts::kBuckets == 32, "five comparisons");
  code.move(r1, r9);
  code.alu(BPF_RSH, r1, static_cast<std::int32_t>(CallCounts::kFirstBucketBits - 1));
  code.set_wide(r2, 0xffff'ffff);
  code.jump_if(BPF_JLE, r1, r2, kNotLongest);
  code.move(r1, r2);
  code.here(kNotLongest);
  code.set(r2, 0);
  for (const std::int32_t bits : {16, 8, 4, 2, 1}) {
    code.jump_if(BPF_JLT, r1, std::int32_t{1} << bits, kFewerBits);
    code.alu(BPF_RSH, r1, bits);
    code.alu(BPF_ADD, r2, bits);
    code.here(kFewerBits);
  }
  code.alu(BPF_LSH, r2, 3);
  code.move(r1, r6);
  code.add_to(r1, r2);
  code.set(r2, 1);
  code.add_atomically(r1, REVEAL_COUNT(buckets), r2);
}

/// Counts the status r8, which is an error, by itself.
void count_code(Assembler& code) {
  for (std::size_t i = 0; i < CallCounts::kCodes; ++i) {
    const auto place = static_cast<std::int16_t>(offsetof(CallCounts, codes) + i * sizeof(ErrorCode));
    const auto status = static_cast<std::int16_t>(place + static_cast<std::int16_t>(offsetof(ErrorCode, status)));
    code.load(r1, r6, status);
    code.jump_if(BPF_JEQ, r1, r8, kThisCode);
    code.jump_if(BPF_JNE, r1, 0, kNextCode);
    code.claim(r6, status, r8);
    code.jump_if(BPF_JEQ, r0, 0, kThisCode);
    code.jump_if(BPF_JNE, r0, r8, kNextCode);  // another thread was faster
    code.here(kThisCode);
    code.count_one(r6, static_cast<std::int16_t>(place + static_cast<std::int16_t>(offsetof(ErrorCode, calls))));
    code.jump(kCodeCounted);
    code.here(kNextCode);
  }
  code.here(kCodeCounted);
}

}  // namespace

bool is_recorded(const CallShape& shape) noexcept {
  return shape.communicator > 0 || shape.communicator == kInOptions;
}

bool tells_calls(const CallShape& shape) noexcept {
  return shape.collects || shape.communicator == kMadeByCall || shape.communicator == kNoLongerThere;
}

CallShape shape_of(const StackFunction& function, bool timed) noexcept {
  const bool marked = function.ending == Ending::between_marks;  // these exchange no return address
  return {.rule = function.rule,
          .argument = function.argument,
          .timed = marked || (timed && function.ending != Ending::may_throw),
          .benign = function.benign,
          .clock = function.part == PartOfStep::clock,
          .status = function.ending == Ending::returns_status,
          .marked = marked,
          .communicates = function.part == PartOfStep::communication,
          .collects = function.part == PartOfStep::gc,
          .communicator = function.communicator,
          .offset = function.offset};
}

std::vector<bpf_insn> entry_program(const CallShape& shape, const CallMaps& maps) {
  Assembler code;
  code.move(r6, r1);
  if (shape.argument > 0) {
    const auto argument = static_cast<std::size_t>(shape.argument - 1);
    code.load(r8, r6, kArgumentOffsets[argument]);
    if (shape.rule == ByteRule::nccl_count) {
      code.load(r9, r6, kArgumentOffsets[argument + 1]);
      code.move_low_half(r9, r9);  // an enumeration: the upper half of the register is anything
    }
  }
  if (shape.clock) leave_out_parts_of_passes(code);
  // Now, as the registers of the process are lost afterwards.
  if (shape.communicator != 0) read_communicator(code, shape);
  find_counts(code, maps);
  code.count_one(r6, REVEAL_COUNT(calls));
  if (is_recorded(shape)) {
    code.set_wide(r1, CommunicatorCalls::kUnknownSize);
    code.store(kSize, r1);
  }
  count_bytes(code, shape);
  if (is_recorded(shape)) record_collective(code, shape, maps);
  if (shape.communicator == kNoLongerThere) end_communicator(code, maps);
  if (shape.clock) begin_step(code, maps);
  if (shape.timed) {
    name_pending(code);
    if (shape.marked || shape.communicates) find_pending(code, shape, maps);
    code.call(BPF_FUNC_ktime_get_ns);
    code.store(kBegin, r0);
    code.set(r1, 1);
    code.store(kDepth, r1);
    if (shape.communicator != kMadeByCall) {
      code.set(r1, 0);
      code.store(kHandle, r1);
      code.store(kMembers, r1);
      code.store(kId, r1);
    }
    code.set_map(r1, maps.pending);
    code.set_stack(r2, kPending);
    code.set_stack(r3, kBegin);
    code.set(r4, BPF_ANY);  // a call that was left by longjmp never returned
    code.call(BPF_FUNC_map_update_elem);
    code.jump_if(BPF_JEQ, r0, 0, kPendingNow);
    code.count_one(r6, REVEAL_COUNT(untimed));
    code.jump(Assembler::kEnd);
    code.here(kPendingNow);
    if (!shape.communicates) return code.finish();
    code.jump_if(BPF_JNE, r8, 0, Assembler::kEnd);
    begin_collective(code, maps);
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
  if (shape.marked) {
    code.load(r1, r0, 8);
    code.jump_if(BPF_JLE, r1, 1, kOutermost);
    code.alu(BPF_SUB, r1, 1);
    code.store_at(r0, 8, r1);
    code.jump(Assembler::kEnd);
    code.here(kOutermost);
  }
  code.load(r9, r0, 0);
  for (const std::int16_t place : {kHandle, kMembers, kId}) {
    if (shape.communicator != kMadeByCall) continue;
    code.load(r1, r0, static_cast<std::int16_t>(place - kBegin));
    code.store(place, r1);
  }
  code.call(BPF_FUNC_ktime_get_ns);
  if (shape.communicates || shape.collects) code.move(r8, r0);
  code.subtract(r0, r9);
  code.move(r9, r0);
  code.set_map(r1, maps.pending);
  code.set_stack(r2, kPending);
  code.call(BPF_FUNC_map_delete_elem);
  if (shape.communicates) end_collective(code, maps);
  if (shape.communicator == kMadeByCall) record_made_communicator(code, maps);
  code.add_atomically(r6, REVEAL_COUNT(time_ns), r9);
  code.count_one(r6, REVEAL_COUNT(returned));
  code.load(r1, r6, REVEAL_COUNT(longest_ns));
  code.jump_if(BPF_JLE, r9, r1, kNotLonger);  // if two threads do this at once, one of the values may be lost
  code.store_at(r6, REVEAL_COUNT(longest_ns), r9);
  code.here(kNotLonger);
  count_duration(code);
  if (shape.collects) {
    code.jump_if(BPF_JLT, r9, StepRing::kLongCollectionNs, Assembler::kEnd);
    code.store(kMembers, r9);
    code.set(r1, 0);
    code.store(kId, r1);
    tell_call(code, maps);
  }
  if (!shape.status) return code.finish();
  code.move_low_half(r8, r8);
  code.jump_if(BPF_JEQ, r8, 0, Assembler::kEnd);
  code.jump_if(BPF_JEQ, r8, shape.benign, Assembler::kEnd);
  code.store_at(r6, REVEAL_COUNT(last_error), r8);
  code.count_one(r6, REVEAL_COUNT(errors));
  count_code(code);
  return code.finish();
}

#undef REVEAL_COUNT
#undef REVEAL_COMMUNICATOR

}  // namespace reveal
