#include "core/stack/library_functions.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "core/stack/elf_symbols.h"
#include "core/stack/first_instruction.h"
#include "core/stack/process_maps.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

constexpr std::size_t kMostFilesKnown = kMostStackMappings;  // all of a process

/// Both ends of each, or none.
void add_marks(const ReadFile& read, std::string_view name, LibraryFunctions& known) {
  const std::span<const StackFunction> table = stack_functions();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].ending != Ending::between_marks || !belongs_to(table[i], name)) continue;
    const FoundMarks found = find_marks(read, table[i].symbols);
    const std::vector<Mark>& begins = found.marks[0];
    const std::vector<Mark>& ends = found.marks[1];
    if (begins.empty() || ends.empty()) continue;
    const auto add = [&](const Mark& mark, CallPlace place) {
      std::array<std::byte, kFirstInstructions> code{};
      const bool cheap = read(mark.offset, code) && cheap_probe_at(code) == 0;
      if (cheap)
        known.places.push_back(
            {.function = i, .offset = mark.offset, .counter = mark.counter, .place = place, .begin = mark.offset});
      return cheap;
    };
    bool all = true;
    for (const Mark& mark : begins) all = all && add(mark, CallPlace::begin);
    for (const Mark& mark : ends) all = all && add(mark, CallPlace::end);
    if (all) continue;
    known.slow.push_back(i);
    std::erase_if(known.places, [i](const LibraryFunctions::Place& each) { return each.function == i; });
  }
}

LibraryFunctions functions_in(int file, std::string_view name) {
  LibraryFunctions known;
  std::vector<std::string_view> symbols;
  std::vector<std::size_t> functions;
  const std::span<const StackFunction> table = stack_functions();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].ending == Ending::between_marks || !belongs_to(table[i], name)) continue;
    for (const std::string_view symbol : table[i].symbols) {
      if (symbol.empty()) continue;
      symbols.push_back(symbol);
      functions.push_back(i);
    }
  }
  const ReadFile read = reader_of(file);
  FoundFunctions found = find_functions(read, symbols);
  known.problem = std::move(found.problem);
  for (std::size_t i = 0; i < found.offsets.size(); ++i) {
    if (found.offsets[i] == 0) continue;
    std::array<std::byte, kFirstInstructions> code{};
    const auto at = read(found.offsets[i], code) ? cheap_probe_at(code) : std::nullopt;
    if (!at) {
      known.slow.push_back(functions[i]);
      continue;
    }
    const LibraryFunctions::Place place{.function = functions[i],
                                        .offset = found.offsets[i] + *at,
                                        .counter = 0,
                                        .place = CallPlace::function,
                                        .begin = found.offsets[i]};
    const bool twice = std::any_of(known.places.begin(), known.places.end(), [&place](const auto& other) {
      return other.offset == place.offset;  // one function with two names
    });
    if (!twice) known.places.push_back(place);
  }
  add_marks(read, name, known);
  return known;
}

}  // namespace

const LibraryFunctions& KnownLibraries::look_into(int file, const std::string& name) {
  struct stat status {};
  static_cast<void>(::fstat(file, &status));
  const Key key(static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
                static_cast<std::int64_t>(status.st_size), nanoseconds_of(status.st_mtim), name);
  const auto known = files_.find(key);
  if (known != files_.end()) return known->second;
  if (files_.size() == kMostFilesKnown) files_.clear();
  return files_.emplace(key, functions_in(file, name)).first->second;
}

}  // namespace reveal
