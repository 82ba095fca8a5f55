// A library of the user's, in which functions are looked for, and the text that names the libraries of a process.
#include "core/stack/elf_symbols.h"

#include <cstring>

#include "core/stack/first_instruction.h"
#include "core/stack/process_maps.h"
#include "target.h"

namespace reveal::fuzz::elf_symbols {
namespace {

void run_elf(std::string_view input) {
  constexpr std::string_view kWanted[] = {"cudaMalloc", "ncclAllReduce"};
  const auto read = [input](std::uint64_t offset, std::span<std::byte> into) {
    if (offset > input.size() || input.size() - offset < into.size()) return false;
    std::memcpy(into.data(), input.data() + offset, into.size());
    return true;
  };
  const FoundFunctions found = find_functions(read, kWanted);
  require(found.offsets.size() == std::size(kWanted), "there is an answer for each name");
  constexpr std::string_view kMarks[] = {"python:gc__start"};
  require(find_marks(read, kMarks).marks.size() == std::size(kMarks), "there is an answer for each mark");
  const auto skipped = cheap_probe_at(std::as_bytes(std::span(input)));
  require(!skipped || *skipped < input.size(), "a probe lies in the function");
  for (const Mapping& mapping : stack_mappings(input)) {
    require(mapping.executable && mapping.begin < mapping.end && !file_name_of(mapping).empty(),
            "it is code of a file");
  }
}

const RegisteredTarget kElfTarget{{"elf_symbols", run_elf}};

}  // namespace
}  // namespace reveal::fuzz::elf_symbols
