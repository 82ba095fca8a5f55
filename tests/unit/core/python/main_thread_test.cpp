// The walk from the interpreter to the names of a frame, over memory that was made by hand for each version; then over
// the same memory with some bytes changed.
#include "core/python/main_thread.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/python/python_layout.h"

namespace reveal::tests::main_thread_test {
namespace {

constexpr std::uint64_t kBase = 0x5000'0000'0000;
constexpr std::size_t kSize = 64 << 10;
constexpr std::uint64_t kMainThread = 4711;

/// The memory of a process with a main thread in lib's wait() below job.py's step() below <module>.
class MadeProcess {
 public:
  explicit MadeProcess(const PythonLayout& layout) : layout_(layout), memory_(kSize) {
    interpreter_.layout = layout;
    interpreter_.main_thread = kMainThread;
    interpreter_.code_type = make(64);
    interpreter_.text_type = make(64);
    interpreter_.bytes_type = make(64);
    interpreter_.runtime = make(512);
    const std::uint64_t place = make(512);
    const std::uint64_t other = make(512);
    thread_ = make(512);
    if (layout.interpreter_next == PythonLayout::kNone) {
      put(interpreter_.runtime + layout.runtime_interpreter, place);
    } else {  // a younger one before it
      const std::uint64_t younger = make(512);
      put(interpreter_.runtime + layout.runtime_interpreter, younger);
      put(younger + layout.interpreter_next, place);
    }
    put(place + layout.interpreter_threads, other);
    put(other + layout.thread_next, thread_);
    if (layout.runtime_main_thread != PythonLayout::kNone) {
      put(interpreter_.runtime + layout.runtime_main_thread, kMainThread);
      put(other + layout.thread_pthread, std::uint64_t{4712});
      put(thread_ + layout.thread_pthread, kMainThread);
    } else {
      put(other + layout.thread_number, std::uint64_t{4712});
      put(thread_ + layout.thread_number, kMainThread);
    }
    const std::uint64_t module = frame(code("<module>", "/home/ada/job.py", 1), 0);
    const std::uint64_t step = frame(code("step", "/home/ada/job.py", 40), module);
    std::uint64_t inner = frame(code("wait", "/usr/lib/python3.11/threading.py", 320), step);
    if (layout.frame_owner != PythonLayout::kNone) {
      inner = frame(0, inner);  // between two calls of the interpreter
      memory_[inner + layout.frame_owner - kBase] = std::byte{3};
    }
    stand(inner);
  }

  std::uint64_t make(std::size_t size) {
    const std::uint64_t address = kBase + used_;
    used_ += (size + 15) / 16 * 16;
    if (used_ > kSize) throw std::runtime_error("the memory is full");
    return address;
  }
  template <typename T>
  void put(std::uint64_t address, const T& value) {
    std::memcpy(memory_.data() + (address - kBase), &value, sizeof value);
  }
  std::uint64_t object(std::uint64_t type, std::size_t size) {
    const std::uint64_t address = make(size);
    put(address + 8, type);
    return address;
  }
  std::uint64_t text(std::u32string_view letters, unsigned width, bool ascii) {
    const std::uint64_t begin = ascii ? layout_.text_ascii : layout_.text_compact;
    const std::uint64_t address = object(interpreter_.text_type, begin + letters.size() * width + width);
    put(address + 16, static_cast<std::int64_t>(letters.size()));
    put(address + layout_.text_state, std::uint32_t{1U | (width << 2U) | 0x20U | (ascii ? 0x40U : 0U) | 0x80U});
    for (std::size_t i = 0; i < letters.size(); ++i) {
      std::memcpy(memory_.data() + (address - kBase) + begin + i * width, &letters[i], width);
    }
    return address;
  }
  std::uint64_t text(const std::string& letters) {
    return text(std::u32string(letters.begin(), letters.end()), 1, true);
  }
  std::uint64_t code(const std::string& name, const std::string& file, int first_line) {
    return code(text(name), text(file), first_line);
  }
  /// An entry of eight units of instructions, on the line behind the first.
  std::uint64_t code(std::uint64_t name, std::uint64_t file, int first_line) {
    const std::string table = layout_.lines == LineTable::locations ? std::string("\xdf\0\0", 3)
                              : layout_.lines == LineTable::ranges  ? std::string("\x10\x01")
                                                                    : std::string("\0\x01", 2);
    const std::uint64_t lines = object(interpreter_.bytes_type, 64);
    put(lines + 16, static_cast<std::int64_t>(table.size()));
    std::memcpy(memory_.data() + (lines - kBase) + 32, table.data(), table.size());
    const std::uint64_t address = object(interpreter_.code_type, 512);
    put(address + 16, std::int64_t{8});
    put(address + layout_.code_name, name);
    put(address + layout_.code_file, file);
    put(address + layout_.code_first_line, first_line);
    put(address + layout_.code_lines, lines);
    return address;
  }
  std::uint64_t frame(std::uint64_t code, std::uint64_t back) {
    const std::uint64_t address = make(512);
    put(address + layout_.frame_code, code);
    put(address + layout_.frame_back, back);
    set_instruction(address, code, 2);
    return address;
  }
  void set_instruction(std::uint64_t frame, std::uint64_t code, int unit) {
    if (layout_.lines == LineTable::locations) {
      put(frame + layout_.frame_instruction, code + layout_.code_instructions + static_cast<std::uint64_t>(2 * unit));
    } else {
      put(frame + layout_.frame_instruction, unit);
    }
  }
  void stand(std::uint64_t frame) {
    if (layout_.cframe_frame == PythonLayout::kNone) return put(thread_ + layout_.thread_frame, frame);
    const std::uint64_t between = make(64);
    put(between + layout_.cframe_frame, frame);
    put(thread_ + layout_.thread_frame, between);
  }

  [[nodiscard]] ReadMemory reader() {
    return [this](std::span<const MemoryPiece> pieces) {
      ++reads;
      if (pieces.size() > kMostPieces) return MemoryRead::unmapped;
      for (const MemoryPiece& piece : pieces) {
        if (piece.address < kBase || piece.address - kBase > kSize) return MemoryRead::unmapped;
        if (kSize - (piece.address - kBase) < piece.into.size()) return MemoryRead::unmapped;
        std::memcpy(piece.into.data(), memory_.data() + (piece.address - kBase), piece.into.size());
      }
      return MemoryRead::whole;
    };
  }
  [[nodiscard]] const Interpreter& interpreter() const { return interpreter_; }
  [[nodiscard]] std::vector<std::byte>& memory() { return memory_; }
  [[nodiscard]] std::size_t used() const { return used_; }

  int reads = 0;

 private:
  PythonLayout layout_;
  Interpreter interpreter_;
  std::vector<std::byte> memory_;
  std::size_t used_ = 0;
  std::uint64_t thread_ = 0;
};

/// _Py_DebugOffsets of a Python 3.13 with arbitrary offsets.
std::array<std::byte, kDebugOffsets> debug_offsets() {
  std::array<std::uint64_t, kDebugOffsets / 8> words{};
  std::memcpy(words.data(), "xdebugpy", 8);
  words[1] = 0x030d01f0;
  constexpr std::pair<std::size_t, std::uint64_t> kOffsets[] = {{5, 328},  {8, 112},  {9, 176},  {21, 8},  {23, 72},
                                                                {25, 152}, {29, 8},   {30, 0},   {31, 56}, {33, 70},
                                                                {35, 112}, {36, 120}, {38, 136}, {39, 68}, {43, 200}};
  for (const auto& [word, offset] : kOffsets) words[word] = offset;
  std::array<std::byte, kDebugOffsets> bytes{};
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::vector<PythonLayout> layouts() {
  std::vector<PythonLayout> all;
  for (int minor = 8; minor <= 12; ++minor) all.push_back(layout_of_minor(minor).value());
  all.push_back(layout_in(debug_offsets()).value());
  return all;
}

std::string place_in(MadeProcess& process) {
  MainThread thread(process.reader(), process.interpreter());
  const StackSample stack = thread.look();
  return stack.state == StackSample::State::known ? place_of(stack.frames)
                                                  : "state " + std::to_string(static_cast<int>(stack.state));
}

TEST(MainThread, StandsInItsInnermostFrameAndInTheJobsOwn) {
  for (const PythonLayout& layout : layouts()) {
    MadeProcess process(layout);
    EXPECT_EQ(place_in(process), "step(job.py:41)>wait(threading.py:321)") << layout.minor;
    EXPECT_LE(process.reads, 20) << layout.minor;
  }
}

TEST(MainThread, IsReadByAHandfulOfCallsOnceItIsFound) {
  MadeProcess process(layout_of_minor(11).value());
  MainThread thread(process.reader(), process.interpreter());
  ASSERT_EQ(thread.look().state, StackSample::State::known);
  process.reads = 0;
  ASSERT_EQ(thread.look().state, StackSample::State::known);
  EXPECT_LE(process.reads, 12);
}

TEST(MainThread, ThatHasNotBegunAFunctionStandsOnItsFirstLine) {
  for (const PythonLayout& layout : layouts()) {
    MadeProcess process(layout);
    const std::uint64_t code = process.code("main", "/home/ada/job.py", 7);
    const std::uint64_t frame = process.frame(code, 0);
    process.set_instruction(frame, code, -1);
    process.stand(frame);
    EXPECT_EQ(place_in(process), "main(job.py:7)") << layout.minor;
  }
}

TEST(MainThread, HasNoFrameBeforeAndAfterTheProgram) {
  for (const PythonLayout& layout : layouts()) {
    MadeProcess process(layout);
    process.stand(0);
    EXPECT_EQ(place_in(process), "state 1") << layout.minor;
    MadeProcess other(layout);
    if (layout.runtime_main_thread != PythonLayout::kNone) continue;  // the interpreter itself has a pointer to it
    Interpreter interpreter = other.interpreter();
    interpreter.main_thread = 99;
    MainThread thread(other.reader(), interpreter);
    EXPECT_EQ(thread.look().state, StackSample::State::no_frame) << layout.minor;
  }
}

TEST(MainThread, IsNotShownWhereTheMemoryDoesNotFit) {
  for (const PythonLayout& layout : layouts()) {
    MadeProcess process(layout);
    // No code object, no text, no bytes: each is of another type.
    const std::uint64_t wrong_name =
        process.code(process.object(process.interpreter().bytes_type, 64), process.text("job.py"), 1);
    const std::uint64_t wrong_file = process.code(process.text("f"), process.make(64), 1);
    for (const std::uint64_t code : {process.make(512), wrong_name, wrong_file}) {
      process.stand(process.frame(code, 0));
      EXPECT_EQ(place_in(process), "state 2") << layout.minor;
    }
    if (layout.lines != LineTable::locations) continue;
    const std::uint64_t code = process.code("f", "job.py", 1);
    const std::uint64_t frame = process.frame(code, 0);
    process.set_instruction(frame, code, 8);  // behind the last one
    process.stand(frame);
    EXPECT_EQ(place_in(process), "state 2") << layout.minor;
  }
}

TEST(MainThread, OfARingOfFramesAndThreadsEnds) {
  for (const PythonLayout& layout : layouts()) {
    MadeProcess process(layout);
    const std::uint64_t code = process.code("f", "job.py", 3);
    const std::uint64_t first = process.frame(code, 0);
    const std::uint64_t second = process.frame(code, first);
    process.put(first + layout.frame_back, second);
    process.stand(second);
    EXPECT_EQ(place_in(process), "f(job.py:4)") << layout.minor;
    if (layout.frame_owner == PythonLayout::kNone) continue;
    for (const std::uint64_t frame : {first, second}) {
      process.memory()[frame + layout.frame_owner - kBase] = std::byte{3};
    }
    EXPECT_EQ(place_in(process), "state 1") << layout.minor;
    EXPECT_LE(process.reads, 100) << layout.minor;
  }
}

TEST(MainThread, HasNamesInAnyLetters) {
  for (const PythonLayout& layout : layouts()) {
    MadeProcess process(layout);
    const auto place = [&](std::u32string_view name, unsigned width) {
      process.stand(process.frame(process.code(process.text(name, width, false), process.text("a b(1).py"), 3), 0));
      return place_in(process);
    };
    EXPECT_EQ(place(U"gr\u00f6\u00dfe", 1), "gr\u00f6\u00dfe(a_b_1_.py:4)");
    EXPECT_EQ(place(U"\u03b1\u2192\u202e", 2), "\u03b1\u2192_(a_b_1_.py:4)");
    EXPECT_EQ(place(U"\U0001d6fc\x1b[31m", 4), "\U0001d6fc_[31m(a_b_1_.py:4)");
    EXPECT_EQ(place(std::u32string(1000, U'x'), 1), std::string(40, 'x') + "(a_b_1_.py:4)");
  }
}

bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char letter) { return (letter >= 0 && letter <= ' ') || letter == 0x7f; });
}

TEST(MainThread, NeitherCrashesNorLoopsOnMemoryOfAnyKind) {
  std::mt19937_64 random(42);  // NOLINT: the same each time
  for (const PythonLayout& layout : layouts()) {
    for (int i = 0; i < 1000; ++i) {
      MadeProcess process(layout);
      const int changes = 1 + static_cast<int>(random() % 40);
      for (int change = 0; change < changes; ++change) {
        const std::size_t at = random() % (process.used() / 8) * 8;
        // A pointer into the memory leads further than any number.
        const std::uint64_t value = random() % 3 == 0 ? random() : kBase + random() % kSize;
        process.put(kBase + at, random() % 4 == 0 ? random() % 64 : value);
      }
      MainThread thread(process.reader(), process.interpreter());
      for (int look = 0; look < 2; ++look) {
        const StackSample stack = thread.look();
        EXPECT_LE(stack.frames.size(), 2U);
        EXPECT_TRUE(is_plain(place_of(stack.frames)));
        for (const PythonFrame& frame : stack.frames) EXPECT_GE(frame.line, 0);
      }
      ASSERT_LE(process.reads, 7000);  // six searches through a thousand threads
    }
    for (int i = 0; i < 100; ++i) {  // nothing of it made by hand
      MadeProcess process(layout);
      for (std::size_t at = 0; at + 8 <= kSize; at += 8) {
        process.put(kBase + at, random() % 2 == 0 ? random() : kBase + random() % kSize);
      }
      MainThread thread(process.reader(), process.interpreter());
      EXPECT_NE(thread.look().state, StackSample::State::known);
      ASSERT_LE(process.reads, 7000);
    }
  }
}

TEST(PythonLayout, IsThatOfAReleaseWithTheGlobalLock) {
  EXPECT_FALSE(layout_of_minor(7));
  EXPECT_FALSE(layout_of_minor(13));  // its own offsets are used
  EXPECT_TRUE(layout_in(debug_offsets()));
  const auto with = [](std::size_t word, std::uint64_t value) {
    auto bytes = debug_offsets();
    std::memcpy(bytes.data() + 8 * word, &value, sizeof value);
    return layout_in(bytes);
  };
  EXPECT_FALSE(with(0, 0));
  EXPECT_FALSE(with(1, 0x030e00f0));
  EXPECT_FALSE(with(2, 1));
  for (const std::size_t word : {5, 8, 9, 21, 23, 25, 29, 30, 31, 33, 35, 36, 38, 39, 43}) {
    EXPECT_FALSE(with(word, std::uint64_t{1} << 40)) << word;
  }
}

TEST(Interpreter, IsFoundByTheNameOfItsFile) {
  EXPECT_EQ(minor_in_name("python3.11"), 11);
  EXPECT_EQ(minor_in_name("libpython3.9.so.1.0"), 9);
  EXPECT_EQ(minor_in_name("libpython3.13t.so.1.0"), 13);
  EXPECT_EQ(minor_in_name("python3"), 0);
  EXPECT_EQ(minor_in_name("python"), 0);
  for (const char* name :
       {"", "python2.7", "libpython3.so", "libpython3.", "python3.", "python3.123", "ipython3.11", "bash"}) {
    EXPECT_FALSE(minor_in_name(name)) << name;
  }
}

}  // namespace
}  // namespace reveal::tests::main_thread_test
