#include "core/sampler/own_memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace reveal {
namespace {

/// Gives back the read-only segments of one program or library: the kernel can read them from the file again.
/// https://man7.org/linux/man-pages/man2/madvise.2.html
int give_back_image(dl_phdr_info* image, std::size_t /*size*/, void* /*unused*/) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < image->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = image->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const std::uintptr_t begin = (image->dlpi_addr + segment.p_vaddr + page - 1) / page * page;
    const std::uintptr_t end = (image->dlpi_addr + segment.p_vaddr + segment.p_filesz) / page * page;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a program header has addresses as numbers
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 0;
}

}  // namespace

void keep_little_memory() noexcept {
  constexpr int kLarge = 128 << 10;
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_THRESHOLD, kLarge);
  ::mallopt(M_TRIM_THRESHOLD, kLarge);
}

void give_back_memory() noexcept {
  ::malloc_trim(0);
  ::dl_iterate_phdr(give_back_image, nullptr);
}

}  // namespace reveal
