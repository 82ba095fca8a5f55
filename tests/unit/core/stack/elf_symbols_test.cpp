#include "core/stack/elf_symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/stack/process_maps.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"

namespace reveal::tests::elf_symbols_test {
namespace {

constexpr std::string_view kWanted[] = {"cudaFree", "ncclAllReduce", "ncclSend"};

/// A library of one segment, as small as a linker could write it: two functions and symbols that only look like
/// functions.
struct Library {
  Elf64_Ehdr header{};
  Elf64_Phdr segment{};
  Elf64_Shdr sections[3]{};
  Elf64_Sym symbols[6]{};
  char names[64]{};

  Library() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = EM_X86_64;
    header.e_phoff = offsetof(Library, segment);
    header.e_phentsize = sizeof segment;
    header.e_phnum = 1;
    header.e_shoff = offsetof(Library, sections);
    header.e_shentsize = sizeof sections[0];
    header.e_shnum = 3;
    segment = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0x1000, .p_vaddr = 0x41000, .p_filesz = 0x2000};
    sections[1] = {.sh_type = SHT_STRTAB, .sh_offset = offsetof(Library, names), .sh_size = sizeof names};
    sections[2] = {.sh_type = SHT_DYNSYM,
                   .sh_offset = offsetof(Library, symbols),
                   .sh_size = sizeof symbols,
                   .sh_link = 1,
                   .sh_entsize = sizeof symbols[0]};
    constexpr char kNames[] = "\0ncclAllReduce\0ncclSend\0cudaFree\0cudaMalloc";
    std::memcpy(names, kNames, sizeof kNames);
    constexpr unsigned char kFunction = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbols[1] = {.st_name = 1, .st_info = kFunction, .st_shndx = 7, .st_value = 0x41230};
    symbols[2] = {.st_name = 15, .st_info = kFunction, .st_shndx = SHN_UNDEF, .st_value = 0x41240};  // another's
    symbols[3] = {.st_name = 24, .st_info = kFunction, .st_shndx = 7, .st_value = 0x42ff0};
    symbols[4] = {.st_name = 33, .st_info = kFunction, .st_shndx = 7, .st_value = 0x41250};  // not requested
    symbols[5] = {.st_name = 15, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), .st_shndx = 7, .st_value = 0x41260};
  }
  [[nodiscard]] std::string text() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};

FoundFunctions functions_in(const std::string& text) {
  return find_functions(
      [&text](std::uint64_t offset, std::span<std::byte> into) {
        if (offset > text.size() || text.size() - offset < into.size()) return false;
        std::memcpy(into.data(), text.data() + offset, into.size());
        return true;
      },
      kWanted);
}

TEST(ElfSymbols, AreTheFunctionsThatTheFileDefines) {
  const FoundFunctions found = functions_in(Library().text());
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.offsets, (std::vector<std::uint64_t>{0x2ff0, 0x1230, 0}));
}

/// A program with one mark that has a counter and one without, as small as a linker could write it.
struct MarkedProgram {
  struct [[gnu::packed]] Note {
    Elf64_Nhdr head{.n_namesz = 8, .n_descsz = 0, .n_type = 3};
    char owner[8] = "stapsdt";
    std::uint64_t place = 0, base = 0, counter = 0;
    char names[40]{};
  };
  Elf64_Ehdr header{};
  Elf64_Phdr segment{};
  Elf64_Shdr sections[5]{};
  Note notes[2]{};
  char names[64]{};

  MarkedProgram() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = EM_X86_64;
    header.e_phoff = offsetof(MarkedProgram, segment);
    header.e_phentsize = sizeof segment;
    header.e_phnum = 1;
    header.e_shoff = offsetof(MarkedProgram, sections);
    header.e_shentsize = sizeof sections[0];
    header.e_shnum = 5;
    header.e_shstrndx = 1;
    segment = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0x1000, .p_vaddr = 0x41000, .p_filesz = 0x2000};
    constexpr char kNames[] = "\0.note.stapsdt\0.stapsdt.base\0.probes";
    std::memcpy(names, kNames, sizeof kNames);
    sections[1] = {.sh_type = SHT_STRTAB, .sh_offset = offsetof(MarkedProgram, names), .sh_size = sizeof names};
    sections[2] = {
        .sh_name = 1, .sh_type = SHT_NOTE, .sh_offset = offsetof(MarkedProgram, notes), .sh_size = sizeof notes};
    sections[3] = {.sh_name = 15, .sh_type = SHT_PROGBITS, .sh_addr = 0x42f00};
    sections[4] = {.sh_name = 29, .sh_type = SHT_PROGBITS, .sh_addr = 0x50000, .sh_offset = 0x3000, .sh_size = 16};
    for (Note& note : notes) {
      note.head.n_descsz = sizeof(Note) - offsetof(Note, place);
      note.base = 0x42f00;
    }
    notes[0].place = 0x41230;
    notes[0].counter = 0x5000e;
    std::memcpy(notes[0].names, "python\0gc__start\0-4@112(%rsp)", 30);
    notes[1].place = 0x42ff0;
    std::memcpy(notes[1].names, "python\0gc__done\0", 17);
  }
  [[nodiscard]] ReadFile reader() const {
    return [text = std::string(reinterpret_cast<const char*>(this), sizeof *this)](std::uint64_t offset,
                                                                                   std::span<std::byte> into) {
      if (offset > text.size() || text.size() - offset < into.size()) return false;
      std::copy_n(std::as_bytes(std::span(text)).begin() + static_cast<std::ptrdiff_t>(offset), into.size(),
                  into.begin());
      return true;
    };
  }
  [[nodiscard]] FoundMarks marks() const {
    constexpr std::string_view kMarks[] = {"python:gc__start", "python:gc__done", "perl:gc__start"};
    return find_marks(reader(), kMarks);
  }
};

TEST(ElfMarks, HaveAPlaceInTheCodeAndACounter) {
  const FoundMarks found = MarkedProgram().marks();
  EXPECT_EQ(found.problem, "");
  ASSERT_EQ(found.marks.size(), 3U);
  ASSERT_EQ(found.marks[0].size(), 1U);
  EXPECT_EQ(found.marks[0][0].offset, 0x1230U);
  EXPECT_EQ(found.marks[0][0].counter, 0x300eU);
  ASSERT_EQ(found.marks[1].size(), 1U);
  EXPECT_EQ(found.marks[1][0].offset, 0x2ff0U);
  EXPECT_EQ(found.marks[1][0].counter, 0U) << "the program always comes there";
  EXPECT_TRUE(found.marks[2].empty());
}

TEST(ElfMarks, AreMovedWithAProgramThatWasLinkedAnew) {
  MarkedProgram program;
  program.sections[3].sh_addr = 0x42f10;
  program.sections[4].sh_addr = 0x50010;
  EXPECT_EQ(program.marks().marks[0].at(0).offset, 0x1240U);
}

// The kernel adds 1 to the counter, in the memory of the process.
TEST(ElfMarks, OfAHostileFileHaveNoCounterInOtherData) {
  MarkedProgram program;
  program.notes[0].counter = 0x50010;  // behind the section
  EXPECT_TRUE(program.marks().marks[0].empty());
  program.notes[0].counter = 0x5000e;
  program.sections[4].sh_name = 1;
  EXPECT_TRUE(program.marks().marks[0].empty()) << "there is no section of counters";
}

// The call server looks there before it lets the kernel do that.
TEST(ElfMarks, HaveTheirCountersInOneSection) {
  MarkedProgram program;
  const CounterPart found = find_counters(program.reader());
  EXPECT_TRUE(found.has(0x3000) && found.has(0x300e));
  for (const std::uint64_t other :
       {std::uint64_t{0}, std::uint64_t{0x2fff}, std::uint64_t{0x300f}, std::uint64_t{0x3010}, ~std::uint64_t{0}}) {
    EXPECT_FALSE(found.has(other)) << other;
  }
  program.sections[4].sh_size = 1;
  EXPECT_FALSE(find_counters(program.reader()).has(0x3000)) << "the kernel changes two bytes";
  program.sections[4].sh_size = 16;
  program.sections[4].sh_name = 1;
  EXPECT_FALSE(find_counters(program.reader()).has(0x300e));
  program.header.e_shnum = 0;
  EXPECT_FALSE(find_counters(program.reader()).has(0));
}

TEST(ElfMarks, OfAHostileFileCostNothing) {
  for (const std::uint32_t size : {0U, 3U, 0x7fff'ffffU, ~0U}) {
    MarkedProgram program;
    program.notes[0].head.n_descsz = size;
    EXPECT_TRUE(program.marks().marks[0].empty()) << size;
    program = {};
    program.notes[0].head.n_namesz = size;
    EXPECT_EQ(program.marks().marks.size(), 3U) << size;
  }
  MarkedProgram program;
  program.sections[2].sh_size = ~std::uint64_t{0};
  EXPECT_TRUE(program.marks().marks[1].empty());
  program = {};
  program.header.e_shstrndx = 77;
  EXPECT_TRUE(program.marks().marks[1].empty());
  program = {};
  std::memset(program.notes[1].names, 'x', sizeof program.notes[1].names);  // without an end
  EXPECT_TRUE(program.marks().marks[1].empty());
  program = {};
  program.notes[0].place = 0x40000;  // no code
  EXPECT_TRUE(program.marks().marks[0].empty());
}

TEST(ElfSymbols, AreNotThereInAFileThatIsCutOff) {
  const std::string whole = Library().text();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const FoundFunctions found = functions_in(whole.substr(0, size));
    EXPECT_EQ(found.offsets, (std::vector<std::uint64_t>{0, 0, 0})) << size;
    EXPECT_EQ(found.problem.empty(), size >= offsetof(Library, symbols)) << size << found.problem;
  }
}

TEST(ElfSymbols, OfAnotherMachineAreNotLookedFor) {
  Library arm;
  arm.header.e_machine = EM_AARCH64;
  EXPECT_EQ(functions_in(arm.text()).problem, "it is not for x86-64");
  Library small;
  small.header.e_ident[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(functions_in(small.text()).problem, "it is not for x86-64");
  EXPECT_EQ(functions_in("#!/bin/sh\n" + std::string(100, ' ')).problem, "it is not an ELF file");
}

TEST(ElfSymbols, OfAHostileFileCostNeitherMemoryNorTime) {
  const auto nothing = [](const Library& library) {
    EXPECT_EQ(functions_in(library.text()).offsets, (std::vector<std::uint64_t>{0, 0, 0}));
  };
  Library long_names;
  long_names.sections[1].sh_size = std::uint64_t{1} << 62;
  nothing(long_names);
  Library names_around_the_end;
  names_around_the_end.sections[1].sh_offset = ~std::uint64_t{0} - 3;
  nothing(names_around_the_end);
  Library many_symbols;
  many_symbols.sections[2].sh_size = ~std::uint64_t{0};
  nothing(many_symbols);
  Library strange_link;
  strange_link.sections[2].sh_link = 9;
  nothing(strange_link);
  Library many_sections;
  many_sections.header.e_shnum = 0xffff;
  EXPECT_EQ(functions_in(many_sections.text()).problem, "its headers have a size that no linker writes");
  Library far_headers;
  far_headers.header.e_shoff = ~std::uint64_t{0} - 8;
  EXPECT_EQ(functions_in(far_headers.text()).problem, "its headers are cut off");
}

TEST(ElfSymbols, LieInAnExecutableSegment) {
  Library outside;
  outside.symbols[1].st_value = 0x43000;  // its first byte behind the end
  outside.symbols[3].st_value = ~std::uint64_t{0};
  EXPECT_EQ(functions_in(outside.text()).offsets, (std::vector<std::uint64_t>{0, 0, 0}));
  Library data;
  data.segment.p_flags = PF_R | PF_W;
  EXPECT_EQ(functions_in(data.text()).offsets, (std::vector<std::uint64_t>{0, 0, 0}));
  Library overflow;
  overflow.segment.p_offset = ~std::uint64_t{0} - 0x100;
  EXPECT_EQ(functions_in(overflow.text()).offsets, (std::vector<std::uint64_t>{0, 0, 0}));
}

TEST(ElfSymbols, WithoutAnEndOfTheirNamesAreNone) {
  Library endless;
  std::memset(endless.names, 'n', sizeof endless.names);
  EXPECT_EQ(functions_in(endless.text()).offsets, (std::vector<std::uint64_t>{0, 0, 0}));
  Library outside;
  for (Elf64_Sym& symbol : outside.symbols) symbol.st_name = 0xffff'ffff;
  EXPECT_EQ(functions_in(outside.text()).offsets, (std::vector<std::uint64_t>{0, 0, 0}));
}

TEST(ElfSymbols, AreWhereTheLinkerPutThem) {
  void* const linked = ::dlsym(RTLD_DEFAULT, "getppid");
  ASSERT_NE(linked, nullptr);
  const auto address = reinterpret_cast<std::uintptr_t>(linked);
  const std::string maps = file_text("/proc/self/maps");
  std::string_view rest = maps;
  std::string_view line;
  while (next_line(rest, line)) {
    const std::optional<Mapping> mapping = parse_mapping(line);
    if (!mapping || address < mapping->begin || address >= mapping->end) continue;
    const Descriptor file = open_mapped(::getpid(), *mapping);
    const ReadFile read = reader_of(file.get());
    std::byte behind{};
    EXPECT_FALSE(read(std::numeric_limits<std::uint64_t>::max(), std::span(&behind, 1)));
    constexpr std::string_view kOne[] = {"getppid"};
    const FoundFunctions found = find_functions(read, kOne);
#if defined(__x86_64__)
    EXPECT_EQ(found.problem, "");
    EXPECT_EQ(found.offsets[0], address - mapping->begin + mapping->offset);
#else
    EXPECT_NE(found.problem, "");
#endif
    return;
  }
  FAIL() << "the C library is not mapped";
}

}  // namespace
}  // namespace reveal::tests::elf_symbols_test
