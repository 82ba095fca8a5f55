#include "core/intervention/trials.h"

#include <algorithm>
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

bool is_waiting_known(const std::vector<JobLoad>& before, const std::vector<JobLoad>& after) {
  const auto known = [](const JobLoad& load) { return load.all_waiting_known; };
  return std::all_of(before.begin(), before.end(), known) && std::all_of(after.begin(), after.end(), known);
}

std::string effect_in_words(const std::vector<JobLoad>& before, const std::vector<JobLoad>& after) {
  const std::string used = "cpus used " + change_of(before, after, &JobLoad::used);
  if (!is_waiting_known(before, after)) return used + ", waiting of all threads not known";
  return "waiting " + change_of(before, after, &JobLoad::waiting) + ", " + used;
}

bool helped(const std::vector<JobLoad>& before, const std::vector<JobLoad>& after) {
  const double used = mean_of(before, &JobLoad::used);
  const double gain = mean_of(after, &JobLoad::used) - used;
  if (gain < (Trials::kLeastGain - 1) * used) return false;
  const double waiting = mean_of(before, &JobLoad::waiting);
  const double relief = waiting - mean_of(after, &JobLoad::waiting);
  return !is_waiting_known(before, after) || relief >= Trials::kLeastRelief * std::min(gain, waiting);
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
  if (!is_due(now_ns)) return;
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
                 .used = rate(last.used_ns, times.used_ns),
                 .all_waiting_known = last.all_waiting_known && times.all_waiting_known};
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
  if (trial.tries == kMostTries) {
    trial.given_up = true;
    trial.before.clear();
    return refuse(trial, "it was done " + std::to_string(kMostTries) + " times in this job");
  }
  under_way_ = &trial;  // also if it fails half-way
  trial.changed_ns = now_ns;
  const Change change = trial.kind->apply();
  if (change.threads == 0) {
    under_way_ = nullptr;
    trial.before.clear();
    return refuse(trial, change.text);
  }
  ++trial.tries;
  record_(trial.rule, "intervention_tried", change.text);
}

void Trials::refuse(Trial& trial, const std::string& reason) {
  constexpr std::size_t kMostReasons = 8;  // some of them name processes
  if (trial.reasons.size() >= kMostReasons || !trial.reasons.insert(reason).second) return;
  record_(trial.rule, "intervention_refused", reason);
}

void Trials::measure(Trial& trial, std::int64_t now_ns, const std::optional<JobLoad>& load) {
  if (now_ns - trial.changed_ns > kPatienceNs) {
    return take_back(trial, "its effect could not be measured", Effect::not_known);
  }
  if (!load || now_ns - trial.changed_ns <= kSettleNs) return;
  if (load->used < kLeastActive * mean_of(trial.before, &JobLoad::used)) return trial.after.clear();
  trial.after.push_back(*load);
  if (trial.after.size() < kAfter) return;
  const std::string effect = effect_in_words(trial.before, trial.after);
  if (!helped(trial.before, trial.after)) return take_back(trial, effect, Effect::known);
  record_(trial.rule, "intervention_kept", effect);
  under_way_ = nullptr;
  trial.before.clear();
  trial.after.clear();
}

void Trials::end(const std::string& why) {
  if (under_way_ != nullptr) take_back(*under_way_, why, Effect::not_known);
}

void Trials::take_back(Trial& trial, const std::string& why, Effect effect) {
  under_way_ = nullptr;
  const Change change = trial.kind->undo();
  const bool undone = change.threads > 0;  // otherwise its processes have ended, and others may come
  trial.given_up = undone && effect == Effect::known;
  const char* code = trial.given_up ? "intervention_undone" : "intervention_withdrawn";
  if (undone) record_(trial.rule, code, change.text + "; " + why);
  if (!undone) record_(trial.rule, "intervention_ended", "its processes ended, or changed it themselves");
  trial.before.clear();
  trial.after.clear();
}

}  // namespace reveal
