#include "core/intervention/intervention.h"

#include <algorithm>

#include "hdf5schema/basics/config_keys.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

std::vector<InterventionSpec>& intervention_registry() {
  static std::vector<InterventionSpec> specs;
  return specs;
}

std::string mistake_in_interventions(const std::vector<std::string>& values) {
  std::vector<std::string> known;
  for (const InterventionSpec& spec : interventions()) known.emplace_back(spec.rule);
  for (const std::string& value : values) {
    for (const std::string& rule : split_names(value)) {
      if (find_intervention(rule) != nullptr) continue;
      const auto near = nearest(rule, known);
      return "reveal cannot act on rule \"" + rule + "\"" + (near ? "; did you mean \"" + *near + "\"?" : "");
    }
  }
  return "";
}
const RegisteredConfigCheck kInterventionsCheck{config_key("intervention", "rules"), mistake_in_interventions};

}  // namespace

bool refuses(std::string_view word) noexcept {
  return !word.empty() && !parse_truth(word).value_or(false);
}

const std::vector<InterventionSpec>& interventions() {
  return intervention_registry();
}

const InterventionSpec* find_intervention(std::string_view rule) {
  const auto& all = interventions();
  const auto found = std::find_if(all.begin(), all.end(), [rule](const auto& spec) { return spec.rule == rule; });
  return found == all.end() ? nullptr : &*found;
}

RegisteredIntervention::RegisteredIntervention(const InterventionSpec& spec) {
  std::vector<InterventionSpec>& specs = intervention_registry();
  const auto place =
      std::lower_bound(specs.begin(), specs.end(), spec.rule,
                       [](const InterventionSpec& other, std::string_view rule) { return other.rule < rule; });
  specs.insert(place, spec);
}

}  // namespace reveal
