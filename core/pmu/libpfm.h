// libpfm4's encoding of an event by name, for the processor at hand. The library is opened at run time and closed
// again: it is 3 MB of tables of which a node needs a dozen rows once, and a node without it loses nothing but a second
// opinion on our own table.
#pragma once

#include <optional>
#include <string>

#include "core/pmu/perf_event.h"

namespace reveal {

class Libpfm {
 public:
  Libpfm();
  ~Libpfm();
  Libpfm(const Libpfm&) = delete;
  Libpfm& operator=(const Libpfm&) = delete;

  /// It is installed, and was there when this program was built.
  [[nodiscard]] bool here() const noexcept { return library_ != nullptr; }
  /// "skx::INST_RETIRED:ANY_P"; nothing if the library does not have it. It has other processors than this one only if
  /// the environment has LIBPFM_ENCODE_INACTIVE=1.
  [[nodiscard]] std::optional<PerfEvent> encode(const std::string& name) const;

 private:
  void* library_ = nullptr;
};

}  // namespace reveal
