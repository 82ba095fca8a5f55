#include "core/broker/ledger_lines.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace reveal {
namespace {

constexpr off_t kMostLedgerBytes = 1 << 20;  // bytes: those of a job of 5,000 nodes
constexpr unsigned kNeverExecuted = 8;       // MFD_NOEXEC_SEAL, from Linux 6.3 on: newer than headers of build hosts

/// Where vm.memfd_noexec is 2, a file in memory must not be executable.
Descriptor make_file_in_memory() noexcept {
  for (const unsigned more : {kNeverExecuted, 0U}) {
    Descriptor file(::memfd_create("reveal-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING | more));
    if (file || errno != EINVAL) return file;
  }
  return Descriptor();
}

}  // namespace

Descriptor make_ledger_lines() noexcept {
  Descriptor file = make_file_in_memory();
  const bool fixed = file && ::ftruncate(file.get(), kMostLedgerBytes) == 0 &&
                     ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
  return fixed ? std::move(file) : Descriptor();
}

bool has_ledger_lines(const Descriptor& file) noexcept {
  char first = 0;
  return file && ::pread(file.get(), &first, 1, 0) == 1 && first != 0;
}

}  // namespace reveal
