#include "core/stack/elf_symbols.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <unordered_map>

namespace reveal {
namespace {

constexpr std::size_t kMostSegments = 256;
constexpr std::size_t kMostSections = 4096;
constexpr std::uint64_t kMostNameBytes = std::uint64_t{64} << 20;  // PyTorch's names take 3 MB
constexpr std::uint64_t kMostSymbols = 1 << 22;
constexpr std::size_t kSymbolsAtOnce = 2048;
constexpr int kMostTables = 4;                                        // tables of one type; linkers write one
constexpr std::uint64_t kMostSectionNames = std::uint64_t{64} << 10;  // bytes
constexpr std::uint64_t kMostNoteBytes = std::uint64_t{1} << 20;      // bytes; Python has four kilobytes
constexpr std::size_t kMostPlacesOfMark = 8;
constexpr std::uint32_t kMarkNote = 3;  // NT_STAPSDT
constexpr std::string_view kCounterSection = ".probes";

template <typename T>
bool read_all(const ReadFile& read, std::uint64_t offset, std::vector<T>& objects) {
  return read(offset, std::as_writable_bytes(std::span(objects)));
}

class ElfFile {
 public:
  enum class Kind : std::uint8_t { functions, objects };
  ElfFile(const ReadFile& read, Kind kind) : read_(read), kind_(kind) {}

  /// "", or why not.
  std::string open() {
    if (!read_(0, std::as_writable_bytes(std::span(&header_, 1)))) return "it is too short for an ELF file";
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return "it is not an ELF file";
    const bool same = header_.e_ident[EI_CLASS] == ELFCLASS64 && header_.e_ident[EI_DATA] == ELFDATA2LSB &&
                      header_.e_machine == EM_X86_64;
    if (!same) return "it is not for x86-64";
    if (header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum > kMostSegments ||
        header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_shnum > kMostSections) {
      return "its headers have a size that no linker writes";
    }
    segments_.resize(header_.e_phnum);
    sections_.resize(header_.e_shnum);
    if (!read_all(read_, header_.e_phoff, segments_) || !read_all(read_, header_.e_shoff, sections_)) {
      return "its headers are cut off";
    }
    return "";
  }

  /// Sets the offsets of those of `missing` that tables of this type have.
  void search(Elf64_Word type, std::unordered_map<std::string_view, std::size_t>& missing, std::size_t longest,
              std::vector<std::uint64_t>& offsets) const {
    int tables = 0;
    for (const Elf64_Shdr& table : sections_) {
      if (missing.empty() || tables == kMostTables) return;
      if (table.sh_type != type || table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= sections_.size()) continue;
      const Elf64_Shdr& strings = sections_[table.sh_link];
      const std::uint64_t symbols = table.sh_size / sizeof(Elf64_Sym);
      if (strings.sh_type != SHT_STRTAB || strings.sh_size > kMostNameBytes || symbols > kMostSymbols) continue;
      ++tables;
      // No allocation for tables that lie outside of the file.
      std::byte last{};
      if (strings.sh_size == 0 || strings.sh_offset + strings.sh_size < strings.sh_offset ||
          !read_(strings.sh_offset + strings.sh_size - 1, std::span(&last, 1))) {
        continue;
      }
      std::vector<char> names(strings.sh_size);
      if (!read_all(read_, strings.sh_offset, names)) continue;
      search_table(table.sh_offset, symbols, names, missing, longest, offsets);
    }
  }

  [[nodiscard]] CounterPart counter_part() const {
    const std::vector<char> names = text_of(header_.e_shstrndx, kMostSectionNames);
    const auto found = std::find_if(sections_.begin(), sections_.end(), [&names](const Elf64_Shdr& section) {
      return section.sh_type == SHT_PROGBITS && word_at(names, section.sh_name) == kCounterSection;
    });
    return found == sections_.end() ? CounterPart{} : CounterPart{.offset = found->sh_offset, .size = found->sh_size};
  }

  /// Appends the places of the marks.
  void search_marks(std::span<const std::string_view> wanted, std::vector<std::vector<Mark>>& marks) const {
    const std::vector<char> names = text_of(header_.e_shstrndx, kMostSectionNames);
    std::size_t notes = 0;
    std::uint64_t base = 0;
    const Elf64_Shdr* counters = nullptr;
    for (std::size_t i = 1; i < sections_.size(); ++i) {
      const std::string_view name = word_at(names, sections_[i].sh_name);
      if (name == ".note.stapsdt") notes = i;
      if (name == ".stapsdt.base") base = sections_[i].sh_addr;
      if (name == kCounterSection) counters = &sections_[i];
    }
    if (notes == 0) return;
    const std::vector<char> text = text_of(notes, kMostNoteBytes);
    for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= text.size();) {
      Elf64_Nhdr note;
      std::memcpy(&note, text.data() + at, sizeof note);
      const std::uint64_t begin = at + sizeof note + (std::uint64_t{note.n_namesz} + 3) / 4 * 4;
      const std::uint64_t end = begin + note.n_descsz;
      if (end > text.size()) return;
      if (note.n_type == kMarkNote)
        take_mark(std::span(text).subspan(begin, note.n_descsz), base, counters, wanted, marks);
      at = static_cast<std::size_t>((end + 3) / 4 * 4);
    }
  }

 private:
  /// Addresses of the mark, of the linker's base and of the counter, and its two names.
  void take_mark(std::span<const char> note, std::uint64_t base, const Elf64_Shdr* counters,
                 std::span<const std::string_view> wanted, std::vector<std::vector<Mark>>& marks) const {
    std::array<std::uint64_t, 3> addresses{};
    if (note.size() <= sizeof addresses) return;
    std::memcpy(addresses.data(), note.data(), sizeof addresses);
    const std::uint64_t counter = addresses[2];
    const std::span<const char> names = note.subspan(sizeof addresses);
    const std::string_view provider = word_at(names, 0);
    const std::string_view name = word_at(names, provider.size() + 1);
    const std::uint64_t moved = base == 0 ? 0 : base - addresses[1];  // the file was linked anew (prelink)
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const bool same = wanted[i].size() == provider.size() + 1 + name.size() && wanted[i].starts_with(provider) &&
                        wanted[i][provider.size()] == ':' && wanted[i].ends_with(name);
      if (!same || marks[i].size() == kMostPlacesOfMark) continue;
      Mark mark{.offset = file_offset(addresses[0] + moved)};
      if (counter != 0) mark.counter = counter_offset(counter + moved, counters);
      // Without its counter the program never comes there.
      if (mark.offset != 0 && (counter == 0 || mark.counter != 0)) marks[i].push_back(mark);
    }
  }

  /// The kernel adds 1 there, in memory of the process: only where the linker has put counters.
  [[nodiscard]] std::uint64_t counter_offset(std::uint64_t address, const Elf64_Shdr* counters) const {
    const bool inside = counters != nullptr && counters->sh_type == SHT_PROGBITS && address >= counters->sh_addr &&
                        address - counters->sh_addr < counters->sh_size;
    return inside ? counters->sh_offset + (address - counters->sh_addr) : 0;
  }

  [[nodiscard]] std::vector<char> text_of(std::size_t section, std::uint64_t most) const {
    if (section >= sections_.size() || sections_[section].sh_type == SHT_NOBITS) return {};
    const std::uint64_t offset = sections_[section].sh_offset;
    const std::uint64_t size = sections_[section].sh_size;
    std::byte last{};
    if (size == 0 || size > most || offset + size < offset || !read_(offset + size - 1, std::span(&last, 1))) return {};
    std::vector<char> text(size);
    if (!read_all(read_, offset, text)) return {};
    return text;
  }

  /// Empty where it has no end.
  [[nodiscard]] static std::string_view word_at(std::span<const char> text, std::size_t at) {
    if (at >= text.size()) return {};
    const std::string_view rest(text.data() + at, text.size() - at);
    const std::size_t end = rest.find('\0');
    return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
  }

  void search_table(std::uint64_t offset, std::uint64_t symbols, std::span<const char> names,
                    std::unordered_map<std::string_view, std::size_t>& missing, std::size_t longest,
                    std::vector<std::uint64_t>& offsets) const {
    std::vector<Elf64_Sym> some;
    for (std::uint64_t begin = 0; begin < symbols && !missing.empty(); begin += some.size()) {
      some.resize(std::min<std::uint64_t>(kSymbolsAtOnce, symbols - begin));
      const std::uint64_t at = offset + begin * sizeof(Elf64_Sym);
      if (at < offset || !read_all(read_, at, some)) return;
      for (const Elf64_Sym& symbol : some) {
        if (ELF64_ST_TYPE(symbol.st_info) != type_of_kind() || symbol.st_shndx == SHN_UNDEF) continue;
        if (symbol.st_name >= names.size()) continue;
        const std::span<const char> rest = names.subspan(symbol.st_name);
        // No further than the longest requested name: each symbol of a hostile file may have the same long name.
        const std::size_t most = std::min(rest.size(), longest + 1);
        const auto* const end = static_cast<const char*>(std::memchr(rest.data(), '\0', most));
        if (end == nullptr) continue;
        const auto found = missing.find(std::string_view(rest.data(), static_cast<std::size_t>(end - rest.data())));
        if (found == missing.end()) continue;
        const std::uint64_t place = kind_ == Kind::functions ? file_offset(symbol.st_value) : distance(symbol.st_value);
        if (place == 0) continue;
        offsets[found->second] = place;
        missing.erase(found);
      }
    }
  }

  [[nodiscard]] std::uint64_t file_offset(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || address < segment.p_vaddr) continue;
      const std::uint64_t within = address - segment.p_vaddr;
      if (within >= segment.p_filesz || segment.p_offset + within < within) continue;
      return segment.p_offset + within;
    }
    return 0;
  }

  [[nodiscard]] std::uint64_t distance(std::uint64_t address) const {
    const auto first = std::find_if(segments_.begin(), segments_.end(), [](const Elf64_Phdr& segment) {
      return segment.p_type == PT_LOAD && segment.p_offset == 0;
    });
    if (first == segments_.end()) return 0;
    const bool loaded = std::any_of(segments_.begin(), segments_.end(), [address](const Elf64_Phdr& segment) {
      return segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_memsz;
    });
    return loaded && address > first->p_vaddr ? address - first->p_vaddr : 0;
  }
  [[nodiscard]] int type_of_kind() const noexcept { return kind_ == Kind::functions ? STT_FUNC : STT_OBJECT; }

  const ReadFile& read_;
  Kind kind_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

/// Sets the places of those that the file has; returns why it could not be read, or "".
std::string search_file(const ReadFile& read, ElfFile::Kind kind, std::span<const std::string_view> wanted,
                        std::vector<std::uint64_t>& places) {
  places.assign(wanted.size(), 0);
  ElfFile file(read, kind);
  std::string problem = file.open();
  if (!problem.empty()) return problem;
  std::unordered_map<std::string_view, std::size_t> missing;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    missing.emplace(wanted[i], i);
    longest = std::max(longest, wanted[i].size());
  }
  for (const Elf64_Word type : {Elf64_Word{SHT_DYNSYM}, Elf64_Word{SHT_SYMTAB}}) {
    file.search(type, missing, longest, places);
  }
  return "";
}

}  // namespace

ReadFile reader_of(int file) {
  return [file](std::uint64_t offset, std::span<std::byte> into) {
    while (!into.empty()) {
      if (offset > static_cast<std::uint64_t>(INT64_MAX)) return false;
      const ssize_t got = ::pread(file, into.data(), into.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      into = into.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
    return true;
  };
}

FoundFunctions find_functions(const ReadFile& read, std::span<const std::string_view> wanted) {
  FoundFunctions found;
  found.problem = search_file(read, ElfFile::Kind::functions, wanted, found.offsets);
  return found;
}

FoundObjects find_objects(const ReadFile& read, std::span<const std::string_view> wanted) {
  FoundObjects found;
  found.problem = search_file(read, ElfFile::Kind::objects, wanted, found.distances);
  return found;
}

FoundMarks find_marks(const ReadFile& read, std::span<const std::string_view> wanted) {
  FoundMarks found;
  found.marks.resize(wanted.size());
  ElfFile file(read, ElfFile::Kind::functions);
  found.problem = file.open();
  if (found.problem.empty()) file.search_marks(wanted, found.marks);
  return found;
}

CounterPart find_counters(const ReadFile& read) {
  ElfFile file(read, ElfFile::Kind::objects);
  return file.open().empty() ? file.counter_part() : CounterPart{};
}

}  // namespace reveal
