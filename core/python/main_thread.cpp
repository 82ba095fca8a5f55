#include "core/python/main_thread.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/python/line_table.h"

namespace reveal {
namespace {

constexpr int kTries = 3;
constexpr int kMostThreads = 1 << 16;  // the main thread is the last one of the list
constexpr int kMostInterpreters = 64;
constexpr std::size_t kMostHops = 2 * MainThread::kMostFrames;  // place holders between frames included
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kObjectType = 8;   // in PyObject
constexpr std::uint64_t kObjectSize = 16;  // in PyVarObject
constexpr std::uint64_t kBytesBegin = 32;
constexpr std::uint64_t kHeadBytes = 40;  // head of a text, up to its state
constexpr std::int64_t kLettersOfText = 1 << 20;
constexpr std::int64_t kLettersOfName = 40;
constexpr std::int64_t kLettersOfPath = 256;  // its last ones
constexpr std::int64_t kLongestLineTable = 1 << 18;
constexpr std::int64_t kMostUnits = 1 << 28;  // limit for instructions
constexpr unsigned kPlaceHolder = 3;          // FRAME_OWNED_BY_CSTACK
constexpr std::size_t kLongestShownName = 40;

template <typename T>
T value_in(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value{};
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof value) {
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  }
  return value;
}

/// The offset behind the last field.
std::uint64_t end_of_fields(std::initializer_list<std::uint32_t> offsets) {
  std::uint64_t end = 0;
  for (const std::uint32_t offset : offsets) {
    if (offset != PythonLayout::kNone) end = std::max<std::uint64_t>(end, offset + sizeof(std::uint64_t));
  }
  return end;
}

/// A text of the interpreter, as far as it is needed.
struct PythonText {
  std::size_t width = 1;  // bytes of a letter
  std::vector<std::byte> letters;
};

void append_utf8(std::string& text, std::uint32_t letter) {
  const auto more = [&text, letter](unsigned shift) { text += static_cast<char>(0x80U | ((letter >> shift) & 0x3fU)); };
  if (letter < 0x80) {
    text += static_cast<char>(letter);
  } else if (letter < 0x800) {
    text += static_cast<char>(0xc0U | (letter >> 6U));
    more(0);
  } else if (letter < 0x10000) {
    text += static_cast<char>(0xe0U | (letter >> 12U));
    more(6);
    more(0);
  } else {
    text += static_cast<char>(0xf0U | (letter >> 18U));
    more(12);
    more(6);
    more(0);
  }
}

std::uint32_t shown_letter(std::uint32_t letter) {
  struct Range {
    std::uint32_t first, last;
  };
  // Controls, invisible letters, text directions, surrogates, private use, and characters that end names in a place.
  constexpr Range kHidden[] = {{0, 0x20},        {0x28, 0x29},     {0x7f, 0xa0},         {0xad, 0xad},
                               {0x61c, 0x61c},   {0x180b, 0x180f}, {0x2000, 0x200f},     {0x2028, 0x202f},
                               {0x205f, 0x206f}, {0x3000, 0x3000}, {0xd800, 0xf8ff},     {0xfe00, 0xfe0f},
                               {0xfeff, 0xfeff}, {0xfff0, 0xffff}, {0xe0000, 0xffffffff}};
  const bool hidden = std::any_of(std::begin(kHidden), std::end(kHidden), [letter](const Range& range) {
    return letter >= range.first && letter <= range.last;
  });
  return hidden ? '_' : letter;
}

bool is_library(std::string_view path) {
  constexpr std::string_view kFolders[] = {"/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3"};
  return path.starts_with("<frozen") || std::any_of(std::begin(kFolders), std::end(kFolders), [&](auto folder) {
           return path.find(folder) != std::string_view::npos;
         });
}

std::string ascii_of(const PythonText& text) {
  std::string ascii;
  for (std::size_t i = 0; i < text.letters.size(); i += text.width) ascii += std::to_integer<char>(text.letters[i]);
  return ascii;
}

/// The name after the last '/'.
std::span<const std::byte> base_of(const PythonText& text) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i + text.width <= text.letters.size(); i += text.width) {
    const bool slash = text.letters[i] == std::byte{'/'} &&
                       std::all_of(text.letters.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                   text.letters.begin() + static_cast<std::ptrdiff_t>(i + text.width),
                                   [](std::byte byte) { return byte == std::byte{0}; });
    if (slash) begin = i + text.width;
  }
  return std::span(text.letters).subspan(begin);
}

}  // namespace

std::string plain_name(std::span<const std::byte> text, std::size_t width) {
  std::string name;
  for (std::size_t i = 0; i + width <= text.size(); i += width) {
    std::uint32_t letter = 0;
    std::memcpy(&letter, text.data() + i, std::min(width, sizeof letter));
    std::string more;
    append_utf8(more, shown_letter(letter));
    if (name.size() + more.size() > kLongestShownName) break;
    name += more;
  }
  return name.empty() ? "?" : name;
}

std::string place_of(std::span<const PythonFrame> frames) {
  std::string place;
  for (const PythonFrame& frame : frames) {
    place += (place.empty() ? "" : ">") + frame.function + '(' + frame.file + ':' +
             (frame.line == 0 ? "?" : std::to_string(frame.line)) + ')';
  }
  return place;
}

MainThread::MainThread(ReadMemory read, const Interpreter& interpreter)
    : read_(std::move(read)), interpreter_(interpreter) {}

StackSample MainThread::look() {
  StackSample stack;
  // A frame that is left meanwhile may lead anywhere.
  const auto moved = [&stack] {
    return stack.state == StackSample::State::torn || stack.state == StackSample::State::unmapped;
  };
  for (int i = 0; i < kTries && moved(); ++i) {
    window_.clear();
    try {
      stack = look_once();
    } catch (const Failed& failed) {
      stack.state = failed.state;
    }
  }
  if (stack.state == StackSample::State::unmapped) thread_ = 0;
  return stack;
}

StackSample MainThread::look_once() {
  if (thread_ == 0) find_thread();
  if (thread_ == 0) return {.state = StackSample::State::no_frame, .frames = {}};
  const std::uint64_t frame = innermost_frame();
  if (frame == 0) return {.state = StackSample::State::no_frame, .frames = {}};
  const std::vector<Frame> frames = frames_from(frame);
  if (frames.empty()) return {.state = StackSample::State::no_frame, .frames = {}};
  std::vector<Code> codes = codes_of(frames);
  std::vector<PythonFrame> named = names_of(codes);
  const auto own = std::find_if(named.begin(), named.end(), [](const PythonFrame& each) { return !each.library; });
  StackSample stack{.state = StackSample::State::known, .frames = {}};
  std::vector<Code> wanted;
  if (own != named.end() && own != named.begin()) {
    stack.frames.push_back(*own);
    wanted.push_back(codes[static_cast<std::size_t>(own - named.begin())]);
  }
  stack.frames.push_back(named.front());
  wanted.push_back(codes.front());
  set_lines(wanted, stack.frames);
  return stack;
}

void MainThread::find_thread() {
  const PythonLayout& layout = interpreter_.layout;
  thread_name_ = layout.runtime_main_thread == PythonLayout::kNone
                     ? interpreter_.main_thread
                     : word_at(interpreter_.runtime + layout.runtime_main_thread);
  std::uint64_t place = word_at(interpreter_.runtime + layout.runtime_interpreter);
  if (layout.interpreter_next != PythonLayout::kNone) {
    for (int i = 0; i < kMostInterpreters && place != 0; ++i) {
      const std::uint64_t next = word_at(place + layout.interpreter_next);
      if (next == 0) break;
      place = next;
    }
  }
  if (place == 0 || thread_name_ == 0) return;
  const std::uint32_t name =
      layout.runtime_main_thread == PythonLayout::kNone ? layout.thread_number : layout.thread_pthread;
  std::uint64_t thread = word_at(place + layout.interpreter_threads);
  for (int i = 0; i < kMostThreads && thread != 0; ++i) {
    std::array<std::uint64_t, 2> words{};
    const std::array<MemoryPiece, 2> pieces{
        MemoryPiece{thread + layout.thread_next, std::as_writable_bytes(std::span(words).first(1))},
        MemoryPiece{thread + name, std::as_writable_bytes(std::span(words).last(1))}};
    read(pieces);
    if (words[1] == thread_name_) {
      thread_ = thread;
      return;
    }
    thread = words[0];
  }
  if (thread != 0) throw Failed{StackSample::State::lost};
}

std::uint64_t MainThread::innermost_frame() {
  const PythonLayout& layout = interpreter_.layout;
  const std::uint32_t name =
      layout.runtime_main_thread == PythonLayout::kNone ? layout.thread_number : layout.thread_pthread;
  std::array<std::uint64_t, 2> words{};
  const std::array<MemoryPiece, 2> pieces{
      MemoryPiece{thread_ + layout.thread_frame, std::as_writable_bytes(std::span(words).first(1))},
      MemoryPiece{thread_ + name, std::as_writable_bytes(std::span(words).last(1))}};
  read(pieces);
  if (words[1] != thread_name_) {  // it ended, or forked: its memory is another one's
    thread_ = 0;
    throw Failed{StackSample::State::torn};
  }
  if (layout.cframe_frame == PythonLayout::kNone || words[0] == 0) return words[0];
  return word_at(words[0] + layout.cframe_frame);
}

std::vector<MainThread::Frame> MainThread::frames_from(std::uint64_t frame) {
  const PythonLayout& layout = interpreter_.layout;
  const std::uint64_t needed =
      end_of_fields({layout.frame_code, layout.frame_back, layout.frame_instruction, layout.frame_owner});
  std::vector<Frame> frames;
  for (std::size_t i = 0; i < kMostHops && frame != 0 && frames.size() < kMostFrames; ++i) {
    const bool there = frame >= window_begin_ && frame - window_begin_ <= window_.size() &&
                       window_.size() - (frame - window_begin_) >= needed;
    if (!there) {  // frames lie behind one another: with one comes its caller
      window_begin_ = frame - frame % kPage;
      window_.resize(frame % kPage + needed);
      const MemoryPiece piece{window_begin_, window_};
      read(std::span(&piece, 1));
    }
    const std::span<const std::byte> bytes = std::span(window_).subspan(frame - window_begin_);
    const auto owner =
        layout.frame_owner == PythonLayout::kNone ? 0U : value_in<std::uint8_t>(bytes, layout.frame_owner);
    if (owner != kPlaceHolder) {
      std::uint64_t instruction = value_in<std::uint64_t>(bytes, layout.frame_instruction);
      if (layout.lines != LineTable::locations) {
        instruction = static_cast<std::uint64_t>(
            static_cast<std::int64_t>(value_in<std::int32_t>(bytes, layout.frame_instruction)));
      }
      frames.push_back({value_in<std::uint64_t>(bytes, layout.frame_code), instruction});
    }
    frame = value_in<std::uint64_t>(bytes, layout.frame_back);
  }
  return frames;
}

std::vector<MainThread::Code> MainThread::codes_of(std::span<const Frame> frames) {
  const PythonLayout& layout = interpreter_.layout;
  const std::uint64_t needed =
      std::max(kObjectSize + sizeof(std::uint64_t),
               end_of_fields({layout.code_name, layout.code_file, layout.code_first_line, layout.code_lines}));
  std::vector<std::byte> heads(needed * frames.size());
  std::vector<MemoryPiece> pieces;
  pieces.reserve(frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    pieces.push_back({frames[i].code, std::span(heads).subspan(i * needed, needed)});
  }
  read(pieces);
  std::vector<Code> codes;
  codes.reserve(frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::span<const std::byte> head = pieces[i].into;
    if (value_in<std::uint64_t>(head, kObjectType) != interpreter_.code_type) throw Failed{StackSample::State::torn};
    Code code{.name = value_in<std::uint64_t>(head, layout.code_name),
              .file = value_in<std::uint64_t>(head, layout.code_file),
              .lines = value_in<std::uint64_t>(head, layout.code_lines),
              .first_line = value_in<std::int32_t>(head, layout.code_first_line)};
    if (layout.lines == LineTable::locations) {
      constexpr std::int64_t kUnit = 2;
      const auto units = value_in<std::int64_t>(head, kObjectSize);
      const std::uint64_t begin = frames[i].code + layout.code_instructions;
      code.instruction = static_cast<std::int64_t>(frames[i].instruction - begin);
      const bool within = units > 0 && units < kMostUnits && code.instruction >= -kUnit &&
                          code.instruction < kUnit * units && code.instruction % kUnit == 0;
      if (!within) throw Failed{StackSample::State::torn};
    } else {
      code.instruction = static_cast<std::int64_t>(frames[i].instruction);
      if (layout.lines == LineTable::ranges && code.instruction > 0) code.instruction *= 2;
    }
    codes.push_back(code);
  }
  return codes;
}

std::vector<PythonFrame> MainThread::names_of(std::span<const Code> codes) {
  struct Wanted {
    std::uint64_t at = 0;
    std::int64_t most = 0;
    std::array<std::byte, kHeadBytes> head{};
    PythonText text = {};
  };
  std::vector<Wanted> wanted;
  wanted.reserve(2 * codes.size());
  for (const Code& code : codes) {
    wanted.push_back({.at = code.name, .most = kLettersOfName});
    wanted.push_back({.at = code.file, .most = kLettersOfPath});
  }
  std::vector<MemoryPiece> pieces;
  pieces.reserve(wanted.size());
  for (Wanted& each : wanted) pieces.push_back({each.at, each.head});
  read(pieces);
  pieces.clear();
  for (Wanted& each : wanted) {
    const auto state = value_in<std::uint32_t>(each.head, interpreter_.layout.text_state);
    const auto length = value_in<std::int64_t>(each.head, kObjectSize);
    const std::uint32_t width = (state >> 2U) & 7U;
    const bool compact = (state & 0x20U) != 0;
    const bool ascii = (state & 0x40U) != 0;
    const bool is_text = value_in<std::uint64_t>(each.head, kObjectType) == interpreter_.text_type && compact &&
                         (width == 1 || (!ascii && (width == 2 || width == 4))) && length >= 0 &&
                         length <= kLettersOfText;
    if (!is_text) throw Failed{StackSample::State::torn};
    const std::int64_t letters = std::min(length, each.most);
    const bool from_end = each.most == kLettersOfPath;
    const std::uint64_t begin = ascii ? interpreter_.layout.text_ascii : interpreter_.layout.text_compact;
    const std::uint64_t skipped = from_end ? static_cast<std::uint64_t>(length - letters) * width : 0;
    each.text.width = width;
    each.text.letters.resize(static_cast<std::size_t>(letters) * width);
    if (letters > 0) pieces.push_back({each.at + begin + skipped, each.text.letters});
  }
  read(pieces);
  std::vector<PythonFrame> frames;
  frames.reserve(codes.size());
  for (std::size_t i = 0; i + 1 < wanted.size(); i += 2) {
    const PythonText& name = wanted[i].text;
    const PythonText& path = wanted[i + 1].text;
    frames.push_back({.function = plain_name(name.letters, name.width),
                      .file = plain_name(base_of(path), path.width),
                      .line = 0,
                      .library = is_library(ascii_of(path))});
  }
  return frames;
}

void MainThread::set_lines(std::span<const Code> codes, std::span<PythonFrame> frames) {
  std::vector<std::array<std::byte, kObjectSize + sizeof(std::uint64_t)>> heads(codes.size());
  std::vector<MemoryPiece> pieces;
  pieces.reserve(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) pieces.push_back({codes[i].lines, heads[i]});
  read(pieces);
  pieces.clear();
  std::vector<std::vector<std::byte>> tables(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto size = value_in<std::int64_t>(heads[i], kObjectSize);
    const bool is_bytes = value_in<std::uint64_t>(heads[i], kObjectType) == interpreter_.bytes_type && size >= 0;
    if (!is_bytes) throw Failed{StackSample::State::torn};
    if (size > kLongestLineTable) continue;
    tables[i].resize(static_cast<std::size_t>(size));
    if (size > 0) pieces.push_back({codes[i].lines + kBytesBegin, tables[i]});
  }
  read(pieces);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (tables[i].empty() && codes[i].instruction >= 0) continue;
    frames[i].line = line_of(interpreter_.layout.lines, tables[i], codes[i].first_line, codes[i].instruction);
  }
}

void MainThread::read(std::span<const MemoryPiece> pieces) {
  if (pieces.empty()) return;
  switch (read_(pieces)) {
    case MemoryRead::whole:
      return;
    case MemoryRead::unmapped:
      throw Failed{StackSample::State::unmapped};
    case MemoryRead::refused:
      throw Failed{StackSample::State::refused};
    case MemoryRead::gone:
      throw Failed{StackSample::State::gone};
  }
}

std::uint64_t MainThread::word_at(std::uint64_t address) {
  std::uint64_t word = 0;
  const MemoryPiece piece{address, std::as_writable_bytes(std::span(&word, 1))};
  read(std::span(&piece, 1));
  return word;
}

}  // namespace reveal
