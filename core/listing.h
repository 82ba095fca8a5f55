// The lists of metrics and probes, printed from the probes' own tables.
#pragma once

#include <span>
#include <string>

#include "core/sampler/probe.h"
#include "hdf5schema/trace.h"

namespace reveal {

enum class Form : std::uint8_t { text, json, markdown };

[[nodiscard]] std::string list_probes(Form form);
[[nodiscard]] std::string list_facts(const Snapshot& facts, Form form);
[[nodiscard]] std::string list_coverage(std::span<const CheckedProbe> checked, Form form);

}  // namespace reveal
