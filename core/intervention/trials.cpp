#include "core/intervention/trials.h"

#include <cstdio>
#include <utility>

#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

double mean_of(const std::vector<JobLoad>& loads, double JobLoad::*value) {
  double sum = 0;
  for (const JobLoad& load : loads) sum += load.*value;
  return sum / static_cast<double>(loads.size());
}

/// "2.98 -> 0.01"
std::string change_of(const std::vector<JobLoad>& before, const std::vector<JobLoad>& after, double JobLoad::*value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f -> %.2f", mean_of(before, value), mean_of(after, value));
  return text;
}

bool helped(const std::vector<JobLoad>& before, const std::vector<JobLoad>& after) {
  const double used = mean_of(before, &JobLoad::used);
  const double gain = mean_of(after, &JobLoad::used) - used;
  const double relief = mean_of(before, &JobLoad::waiting) - mean_of(after, &JobLoad::waiting);
  return gain >= (Trials::kLeastGain - 1) * used && relief >= Trials::kLeastRelief * gain;
}

}  // namespace

Trials::Trials(const InterventionContext& context, std::span<const std::string> rules, RecordEvent record)
    : record_(std::move(record)) {
  trials_.reserve(rules.size());
  for (const std::string& rule : rules) {
    const InterventionSpec* spec = find_intervention(rule);
    if (spec != nullptr) trials_.push_back({.rule = rule, .kind = spec->open(context), .refused = {}});
    if (spec == nullptr) record_(rule, "intervention_refused", "this version of reveal cannot act on it");
  }
}

void Trials::look(std::int64_t now_ns, const JobTimes& times) {
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + kSecond;
  const std::optional<JobLoad> load = load_since_last(now_ns, times);
  if (under_way_ != nullptr) return measure(*under_way_, now_ns, load);
  for (Trial& trial : trials_) {
    if (load && !trial.given_up && under_way_ == nullptr) watch(trial, now_ns, *load);
  }
}

/// The load covers a longer time where the last second was not measured.
std::optional<JobLoad> Trials::load_since_last(std::int64_t now_ns, const JobTimes& times) {
  if (times.waiting_ns == kMissing || times.used_ns == kMissing) return std::nullopt;
  const JobTimes last = std::exchange(last_, times);
  const auto seconds = static_cast<double>(now_ns - std::exchange(last_ns_, now_ns)) / kSecond;
  if (last.used_ns == kMissing || seconds <= 0) return std::nullopt;
  const auto rate = [&](std::int64_t from, std::int64_t to) {
    return static_cast<double>(to - from) / kSecond / seconds;
  };
  return JobLoad{.seconds = seconds,
                 .waiting = rate(last.waiting_ns, times.waiting_ns),
                 .used = rate(last.used_ns, times.used_ns)};
}

void Trials::watch(Trial& trial, std::int64_t now_ns, const JobLoad& load) {
  const SeenFinding seen = trial.kind->look(load);
  const bool may_act = seen.finding && seen.refused.empty();
  trial.refused_for = seen.refused.empty() || seen.refused != trial.refused ? 0 : trial.refused_for + 1;
  trial.refused = seen.refused;
  if (trial.refused_for >= kBefore) refuse(trial, seen.refused);
  if (!may_act) return trial.before.clear();
  trial.before.push_back(load);
  if (trial.before.size() < kBefore) return;
  const Change change = trial.tries < kMostTries
                            ? trial.kind->apply()
                            : Change{.text = "it was done " + std::to_string(kMostTries) + " times in this job"};
  if (change.threads == 0) {
    trial.before.clear();
    return refuse(trial, change.text);
  }
  ++trial.tries;
  trial.changed_ns = now_ns;
  under_way_ = &trial;
  record_(trial.rule, "intervention_tried", change.text);
}

void Trials::refuse(Trial& trial, const std::string& reason) {
  constexpr std::size_t kMostReasons = 8;  // some of them name processes
  if (trial.reasons.size() >= kMostReasons || !trial.reasons.insert(reason).second) return;
  record_(trial.rule, "intervention_refused", reason);
}

void Trials::measure(Trial& trial, std::int64_t now_ns, const std::optional<JobLoad>& load) {
  if (now_ns - trial.changed_ns > kPatienceNs) return take_back(trial, "its effect could not be measured");
  if (!load || now_ns - trial.changed_ns <= kSettleNs) return;
  trial.after.push_back(*load);
  if (trial.after.size() < kAfter) return;
  const std::string effect = "waiting " + change_of(trial.before, trial.after, &JobLoad::waiting) + ", cpus used " +
                             change_of(trial.before, trial.after, &JobLoad::used);
  if (!helped(trial.before, trial.after)) return take_back(trial, effect);
  record_(trial.rule, "intervention_kept", effect);
  under_way_ = nullptr;
  trial.before.clear();
  trial.after.clear();
}

void Trials::take_back(Trial& trial, const std::string& why) {
  const Change change = trial.kind->undo();
  trial.given_up = change.threads > 0;  // otherwise its processes have ended, and others may come
  if (trial.given_up) record_(trial.rule, "intervention_undone", change.text + "; " + why);
  if (!trial.given_up) record_(trial.rule, "intervention_ended", "its processes ended, or changed it themselves");
  under_way_ = nullptr;
  trial.before.clear();
  trial.after.clear();
}

}  // namespace reveal
