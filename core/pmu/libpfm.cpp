#include "core/pmu/libpfm.h"

#ifdef REVEAL_LIBPFM_SONAME

#include <dlfcn.h>
#include <perfmon/pfmlib_perf_event.h>

namespace reveal {
namespace {

template <typename Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

Libpfm::Libpfm() {
  void* const library = ::dlopen(REVEAL_LIBPFM_SONAME, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto initialize = function<decltype(pfm_initialize)>(library, "pfm_initialize");
  if (initialize != nullptr && initialize() == PFM_SUCCESS) {
    library_ = library;
  } else {
    ::dlclose(library);
  }
}

Libpfm::~Libpfm() {
  if (library_ == nullptr) return;
  if (const auto terminate = function<decltype(pfm_terminate)>(library_, "pfm_terminate")) terminate();
  ::dlclose(library_);
}

std::optional<PerfEvent> Libpfm::encode(const std::string& name) const {
  if (library_ == nullptr) return std::nullopt;
  const auto encoding = function<decltype(pfm_get_os_event_encoding)>(library_, "pfm_get_os_event_encoding");
  if (encoding == nullptr) return std::nullopt;
  perf_event_attr attr{};
  pfm_perf_encode_arg_t argument{};
  argument.attr = &attr;
  argument.size = sizeof argument;
  if (encoding(name.c_str(), PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &argument) != PFM_SUCCESS) return std::nullopt;
  return PerfEvent{.type = attr.type, .config = attr.config, .config1 = attr.config1, .config2 = attr.config2};
}

}  // namespace reveal

#else

namespace reveal {

Libpfm::Libpfm() = default;
Libpfm::~Libpfm() = default;

std::optional<PerfEvent> Libpfm::encode(const std::string& /*name*/) const {
  return std::nullopt;
}

}  // namespace reveal

#endif
