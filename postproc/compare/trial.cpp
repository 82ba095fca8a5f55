#include "postproc/compare/trial.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>

#include "hdf5schema/basics/fold.h"
#include "postproc/compare/comparison_fields.h"
#include "postproc/compare/comparison_page.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr const char* kPaired = "Student's t of the differences between the two runs of each pair";
constexpr std::size_t kTrialColumn = 15;
constexpr std::size_t kLongestCommand = 1 << 20;

std::size_t complete_pairs(const Trial& trial) {
  return std::min(trial.without.size(), trial.with.size());
}

std::string trial_row(std::string_view label, std::string_view text, const TextStyle& style) {
  if (text.empty()) return "";
  return folded("  " + std::string(label), printable(text, 2000), kTrialColumn, static_cast<std::size_t>(style.width));
}

/// "3.05 s (3.00, 3.10)": the mean of the runs in complete pairs, and each of them. A trial that was stopped may have
/// one run more.
std::string times_words(const std::vector<double>& times, std::size_t pairs) {
  if (times.empty()) return std::string(kNotMeasured);
  const std::span<const double> paired = std::span(times).first(pairs > 0 ? pairs : times.size());
  const double mean = arithmetic_mean(paired);
  const Scale scale = time_scale(mean);
  std::string list;
  for (const double seconds : paired) list += (list.empty() ? "" : ", ") + two_decimals(seconds * scale.factor);
  const bool alone = paired.size() < times.size();
  return fmt::format("{} ({}){}", compared_time(mean, scale), list,
                     alone ? fmt::format(" and {} in no pair", compared_time(times.back(), scale)) : "");
}

/// A diff is printed as it is: folded, patch(1) would not take it.
std::string patch_as_text(const ScriptPatch& patch, const TextStyle& style) {
  if (patch.diff.empty()) return trial_row("no patch", patch.why_not, style);
  const bool plain = std::none_of(patch.diff.begin(), patch.diff.end(),
                                  [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t'; });
  if (!plain) return trial_row("no patch", "the script contains control characters; --json prints the patch", style);
  return "\n" + patch.diff;
}

std::string sentence_of_trial(const Trial& trial) {
  const std::size_t pairs = complete_pairs(trial);
  if (!trial.difference)
    return fmt::format("{} of runs: at least 2 are needed.", counted(static_cast<double>(pairs), "pair"));
  const std::span<const double> without = std::span(trial.without).first(pairs);
  const std::span<const double> with = std::span(trial.with).first(pairs);
  const std::string words = time_difference(arithmetic_mean(without), arithmetic_mean(with), trial.difference);
  return trial.change == TimeChange::same ? fmt::format("The line shows no effect on the run time: {}.", words)
                                          : fmt::format("With the line the run time was {}.", words);
}

}  // namespace

std::vector<TrialSide> abba_order(std::size_t pairs) {
  std::vector<TrialSide> order;
  for (std::size_t i = 0; i < pairs; ++i) {
    const bool swapped = i % 2 == 1;
    order.push_back(swapped ? TrialSide::with : TrialSide::without);
    order.push_back(swapped ? TrialSide::without : TrialSide::with);
  }
  return order;
}

void conclude_trial(Trial& trial) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < complete_pairs(trial); ++i) differences.push_back(trial.with[i] - trial.without[i]);
  trial.difference = paired_difference(differences);
  trial.change = time_change(trial.difference);
  trial.sentence = sentence_of_trial(trial);
}

std::string trial_as_text(const Trial& trial, const TextStyle& style) {
  const std::string plain = headline_of(trial.change, {});
  std::string text =
      folded(plain, printable(trial.sentence, 2000), plain.size() + 2, static_cast<std::size_t>(style.width));
  text.replace(0, plain.size(), headline_of(trial.change, style));
  text += "\n";
  text += trial_row("line", trial.line, style);
  text += trial_row("command", trial.command, style);
  text += trial_row("without", times_words(trial.without, complete_pairs(trial)), style);
  text += trial_row("with", times_words(trial.with, complete_pairs(trial)), style);
  text +=
      trial_row("order",
                fmt::format("ABBA, {} after {} to warm up", counted(static_cast<double>(complete_pairs(trial)), "pair"),
                            counted(static_cast<double>(trial.warmup), "run")),
                style);
  text += trial_row("stopped", trial.stopped, style);
  if (trial.difference) text += trial_row("method", kPaired, style);
  // A folded command could not be pasted.
  if (!trial.keep.empty()) text += "  keep this    " + printable(trial.keep, kLongestCommand) + "\n";
  return text + patch_as_text(trial.patch, style);
}

std::string trial_as_json(const Trial& trial) {
  Json json = Json::object();
  JsonWriter v(json);
  v.schema("schema", "reveal.try/1");
  v.constant("change", name_of(trial.change));
  v("sentence", trial.sentence);
  v("line", trial.line);
  v("command", trial.command);
  v.constant("order", "ABBA");
  v("warmup", trial.warmup);
  v.constant("unit", "s");
  v("without", trial.without);
  v("with", trial.with);
  v.maybe("interval", trial.difference.value_or(MeanDifference{}), trial.difference.has_value(),
          "fewer than 2 complete pairs");
  v.word("method", trial.difference ? kPaired : "");
  v.word("stopped", trial.stopped);
  v.word("keep", trial.keep);
  v.word("patch", trial.patch.diff);
  v.word("why_no_patch", trial.patch.why_not);
  return json_text(json, 2) + "\n";
}

}  // namespace reveal
