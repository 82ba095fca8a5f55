#include "core/broker/ledger_lines.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace reveal {
namespace {

constexpr off_t kMostLedgerBytes = 1 << 20;  // bytes: those of a job of 5,000 nodes

}  // namespace

Descriptor make_ledger_lines() noexcept {
  Descriptor file(::memfd_create("reveal-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool fixed = file && ::ftruncate(file.get(), kMostLedgerBytes) == 0 &&
                     ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
  return fixed ? std::move(file) : Descriptor();
}

bool has_ledger_lines(const Descriptor& file) noexcept {
  char first = 0;
  return file && ::pread(file.get(), &first, 1, 0) == 1 && first != 0;
}

}  // namespace reveal
