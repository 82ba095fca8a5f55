#include "postproc/compare/comparison_page.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/fold.h"
#include "postproc/compare/comparison_fields.h"
#include "postproc/report/wording.h"
#include "postproc/words/ink.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kTextColumn = 15;
constexpr std::size_t kMostRunsShown = 6;

std::string page_row(std::string_view label, std::string_view text, const TextStyle& style) {
  if (text.empty()) return "";
  return folded("  " + std::string(label), printable(text, 2000), kTextColumn, static_cast<std::size_t>(style.width));
}

/// "80.3 s (80.1, 79.4, 81.2)": the mean, and its values.
std::string side_words(const std::vector<double>& values, std::string_view unit) {
  if (values.empty()) return std::string(kNotMeasured);
  const double mean = arithmetic_mean(values);
  const bool time = unit == "s";
  const Scale scale = time ? time_scale(mean) : scale_for(mean, unit);
  std::string words = time ? compared_time(mean, scale) : scaled(mean, scale);
  if (values.size() == 1) return words;
  words += " (";
  for (std::size_t i = 0; i < std::min(values.size(), kMostRunsShown); ++i) {
    const double value = values[i] * scale.factor;
    words += (i == 0 ? "" : ", ") + (time ? two_decimals(value) : number(value));
  }
  if (values.size() > kMostRunsShown) words += fmt::format(" and {} more", values.size() - kMostRunsShown);
  return words + ")";
}

/// "difference -1.20 s (95 % interval -2.00 to -0.40)"; `typical` decides the scale of times.
std::string interval_words(const MeanDifference& difference, std::string_view unit, double typical) {
  const double largest = std::max(std::abs(difference.low), std::abs(difference.high));
  const bool time = unit == "s";
  const Scale scale = time ? time_scale(typical) : scale_for(largest, unit);
  const auto shown_value = [&](double value) {
    return time ? two_decimals(value * scale.factor) : number(value * scale.factor);
  };
  const std::string shown = unit == "percent" ? " percentage points" : scale.unit.empty() ? "" : " " + scale.unit;
  return fmt::format("difference {}{}{} ({:.0f} % interval {} to {})", difference.difference > 0 ? "+" : "",
                     shown_value(difference.difference), shown, 100 * kConfidence, shown_value(difference.low),
                     shown_value(difference.high));
}

std::string number_words(const ComparedNumber& compared) {
  if (!compared.known()) return fmt::format("not known: {}", compared.reason);
  std::string words = fmt::format("{} before, {} after", side_words(compared.before, compared.unit),
                                  side_words(compared.after, compared.unit));
  if (compared.difference)
    words += "; " + interval_words(*compared.difference, compared.unit, arithmetic_mean(compared.before));
  return words;
}

/// One row for each number that both sides have; the others share one, by their reasons.
std::string hardware_as_text(const std::vector<ComparedNumber>& numbers, const TextStyle& style) {
  std::string text;
  std::vector<NotChecked> missing;
  for (const ComparedNumber& one : numbers) {
    if (one.known()) {
      text += page_row(text.empty() ? "hardware" : "", one.name + ": " + number_words(one), style);
    } else {
      missing.push_back({one.name, one.reason});
    }
  }
  for (const NotChecked& group : by_reason(missing)) {
    text += page_row(text.empty() ? "hardware" : "", fmt::format("{}: not known: {}", group.rule, group.reason), style);
  }
  return text;
}

std::string found_words(const CauseOnSide& side) {
  if (side.judged == 0) return "no run (not checked: " + side.why_not + ")";
  const std::string of = side.judged == 1 ? "1 run" : fmt::format("{} runs", side.judged);
  std::string words = fmt::format("{} of {}", side.found, of);
  if (side.judged < side.runs) words += fmt::format(" (not checked in {}: {})", side.runs - side.judged, side.why_not);
  return words;
}

std::string cause_words(const ComparedCause& cause) {
  std::string words = fmt::format("{}: {}; found in {} before, {} after", cause.id, cause.title,
                                  found_words(cause.before), found_words(cause.after));
  if (cause.share.known()) words += "; share of the time " + number_words(cause.share);
  if (cause.change == CauseChange::stayed && !cause.same_place) words += "; not in the same place";
  return words;
}

/// JSON keeps the shorter word.
std::string_view shown(CauseChange change) {
  return change == CauseChange::went ? "disappeared" : name_of(change);
}

std::string causes_as_text(const std::vector<ComparedCause>& causes, const TextStyle& style) {
  if (causes.empty()) return page_row("causes", "none was found on either side", style);
  std::string text;
  CauseChange last = CauseChange::not_known;
  for (const ComparedCause& cause : causes) {
    const bool first = text.empty() || cause.change != last;
    text += page_row(first ? shown(cause.change) : "", cause_words(cause), style);
    last = cause.change;
  }
  return text;
}

}  // namespace

std::string headline_of(TimeChange change, const TextStyle& style) {
  struct Word {
    std::string_view text;
    Ink ink;
  };
  constexpr Word kWords[] = {
      {"NO DIFFERENCE SHOWN", Ink::green}, {"SLOWER", Ink::red}, {"FASTER", Ink::green}, {"NOT KNOWN", Ink::yellow}};
  const Word& word = kWords[static_cast<std::size_t>(change)];
  return painted(word.text, word.ink, style.colour);
}

std::string comparison_as_text(const JobComparison& comparison, const TextStyle& style) {
  const std::string plain = headline_of(comparison.change, {});
  const std::string sentence = printable(comparison.sentence, 2000);
  std::string text = folded(plain, sentence, plain.size() + 2, static_cast<std::size_t>(style.width));
  text.replace(0, plain.size(), headline_of(comparison.change, style));
  text += "\n";
  text += page_row(comparison.run_time.name, number_words(comparison.run_time), style);
  text += page_row("pass time", number_words(comparison.step_time), style);
  text += hardware_as_text(comparison.hardware, style);
  text += page_row("anomalous", number_words(comparison.anomalous), style);
  text += causes_as_text(comparison.causes, style);
  for (const std::string& note : comparison.notes) text += page_row("note", note, style);
  text += page_row("method", comparison.run_time.method, style);
  return text;
}

std::string comparison_as_json(const JobComparison& comparison) {
  return json_text(JsonWriter::whole(comparison), 2) + "\n";
}

}  // namespace reveal
