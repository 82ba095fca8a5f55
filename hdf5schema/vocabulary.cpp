#include "hdf5schema/vocabulary.h"

#include "hdf5schema/basics/enum_names.h"

namespace reveal {
namespace {

constexpr std::string_view kKinds[] = {"gauge", "counter", "event", "state"};
constexpr std::string_view kUnits[] = {"count", "bytes", "ns", "Hz", "ratio", "percent", "Cel", "W", "J", "uJ"};
constexpr std::string_view kScopes[] = {"node",      "cpu",    "numa", "device",  "interface",
                                        "interrupt", "cgroup", "job",  "process", "reveal"};
constexpr std::string_view kSubsystems[] = {"cpu", "gpu", "memory", "network", "storage", "process", "self"};

}  // namespace

std::string_view name_of(Kind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)];
}
std::string_view name_of(Unit unit) noexcept {
  return kUnits[static_cast<std::size_t>(unit)];
}
std::string_view name_of(Scope scope) noexcept {
  return kScopes[static_cast<std::size_t>(scope)];
}
std::string_view name_of(Subsystem subsystem) noexcept {
  return kSubsystems[static_cast<std::size_t>(subsystem)];
}

std::optional<Kind> kind_of(std::string_view name) noexcept {
  return enumerator_of<Kind>(kKinds, name);
}
std::optional<Unit> unit_of(std::string_view name) noexcept {
  return enumerator_of<Unit>(kUnits, name);
}
std::optional<Scope> scope_of(std::string_view name) noexcept {
  return enumerator_of<Scope>(kScopes, name);
}
std::optional<Subsystem> subsystem_of(std::string_view name) noexcept {
  return enumerator_of<Subsystem>(kSubsystems, name);
}

}  // namespace reveal
