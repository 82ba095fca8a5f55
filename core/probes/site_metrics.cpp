// Numbers from text files that a site names itself, without compiling anything:
//
//   # name              kind     unit   file                                    word before the number (optional)
//   lustre.reads        counter  count  /proc/fs/lustre/llite/home-00/stats     read_bytes
//   lustre.read_bytes   counter  bytes  /proc/fs/lustre/llite/home-00/stats     read_bytes:4
//   room.temperature    gauge    count  /run/room/temperature
//
// read_bytes:4 is the fourth number behind that word in its line.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::site_metrics {
namespace {

constexpr MetricHelp kMetrics[] = {{"<name>", "A metric named in the file given with --metrics."}};

constexpr FamilyTable family_table(std::string_view path, Kind kind, Unit unit) {
  return {path, kind, unit, Scope::node, Subsystem::storage, "Metrics of this site", "--metrics", kMetrics};
}
constexpr std::array kFamilies = {
    family_table("site/gauges", Kind::gauge, Unit::count),
    family_table("site/gauge_bytes", Kind::gauge, Unit::bytes),
    family_table("site/gauge_times", Kind::gauge, Unit::nanoseconds),
    family_table("site/counters", Kind::counter, Unit::count),
    family_table("site/counter_bytes", Kind::counter, Unit::bytes),
    family_table("site/counter_times", Kind::counter, Unit::nanoseconds),
    family_table("site/events", Kind::event, Unit::count),
};

// "read_bytes:4": the fourth number after the word read_bytes. Without a word: the text's first number.
struct Place {
  std::string word;
  int which = 1;

  explicit Place(std::string_view text) : word(text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos || colon + 1 == text.size()) return;
    const auto number = parse_int(text.substr(colon + 1));
    if (!number || *number < 1) return;
    word = text.substr(0, colon);
    which = static_cast<int>(*number);
  }
};

// Text after a number's digits ("12 kB") is left alone.
bool number_at(std::string_view text, const Place& place, std::int64_t& value) noexcept {
  std::string_view line;
  while (next_line(text, line)) {
    bool open = place.word.empty();
    int numbers = 0;
    for (std::string_view word = cut_word(line); !word.empty(); word = cut_word(line)) {
      if (open && parse_counter(word, value) && ++numbers == place.which) return true;
      const bool colon =
          word.size() == place.word.size() + 1 && word.back() == ':' && word.substr(0, place.word.size()) == place.word;
      open = open || word == place.word || colon;
    }
  }
  return false;
}

bool is_ours(std::string_view name) {
  for (const ProbeSpec& probe : probes()) {
    for (const FamilyTable& family : probe.families) {
      for (const MetricHelp& help : family.metrics) {
        if (help.name == name) return true;
      }
    }
  }
  return false;
}

class SiteProbe final : public Probe {
 public:
  SiteProbe(const ProbeContext& context, const std::string& file) : context_(context) {
    std::ifstream lines(file);
    if (!lines) throw Error(file + ": the metrics of --metrics cannot be read");
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      std::string_view rest = std::string_view(line).substr(0, line.find('#'));
      const std::string_view name = next_word(rest);
      std::string_view more = rest;
      if (next_word(more).empty()) continue;  // a blank line, or one that selects: core/sampler/metric_selection.h
      add(name, rest, file + ':' + std::to_string(number));
    }
    if (metrics_.empty()) throw Unavailable(file + " names no text file");
    for (Metric& metric : metrics_) report_if_missing(metric);
  }

  void sample() noexcept override {
    for (Family* family : families_) {
      if (family != nullptr) family->begin();
    }
    for (Metric& metric : metrics_) {
      std::int64_t value = 0;
      if (number_at(metric.file.read(), metric.place, value)) families_[metric.family]->set(metric.channel, value);
    }
    for (Family* family : families_) {
      if (family != nullptr) family->commit();
    }
  }

 private:
  struct Metric {
    std::string name;
    std::size_t family = 0;
    std::int32_t channel = Family::kNoChannel;
    Place place;
    KernelFile file;
  };

  void add(std::string_view name, std::string_view rest, const std::string& place) {
    const std::string_view kind_word = next_word(rest);
    const std::string_view unit_word = next_word(rest);
    const std::string_view path = next_word(rest);
    const std::string_view place_word = next_word(rest);
    if (path.empty() || !next_word(rest).empty()) {
      throw Error(place +
                  ": expected NAME KIND UNIT FILE, and the word before the number if it is not the first number");
    }
    const auto named_so = [&](const Metric& metric) { return metric.name == name; };
    if (is_ours(name) || std::any_of(metrics_.begin(), metrics_.end(), named_so)) {
      throw Error(place + ": the metric \"" + std::string(name) + "\" exists already");
    }
    const auto kind = kind_of(kind_word);
    const auto unit = unit_of(unit_word);
    std::size_t table = 0;
    while (table < kFamilies.size() && (kFamilies[table].kind != kind || kFamilies[table].unit != unit)) ++table;
    if (table == kFamilies.size()) {
      throw Error(place + ": \"" + std::string(kind_word) + ' ' + std::string(unit_word) +
                  "\" is not gauge|counter with count|bytes|ns, or event count");
    }
    if (path.substr(0, 1) != "/") throw Error(place + ": \"" + std::string(path) + "\" is not an absolute path");
    if (families_[table] == nullptr) families_[table] = &context_.family(kFamilies[table]);
    metrics_.push_back({.name = std::string(name),
                        .family = table,
                        .channel = families_[table]->add(name),
                        .place = Place(place_word),
                        .file = context_.fs.open(std::string(path))});
  }

  // It may come later: it is recorded as missing until then.
  void report_if_missing(Metric& metric) {
    std::int64_t value = 0;
    const std::string_view text = metric.file.read();
    if (number_at(text, metric.place, value)) return;
    std::string why = metric.file.error() != 0 ? std::strerror(metric.file.error()) : "no whole number";
    if (metric.file.error() == 0 && !metric.place.word.empty()) why += " after \"" + metric.place.word + '"';
    context_.sink.event("metric " + metric.name, "metric_missing", metric.file.path() + ": " + why);
  }

  ProbeContext context_;
  std::array<Family*, kFamilies.size()> families_{};
  std::vector<Metric> metrics_;
};

std::unique_ptr<Probe> open_site(const ProbeContext& context) {
  if (context.site_metrics.empty()) throw Absent("this site defines no metrics (--metrics)", Absence::off);
  return std::make_unique<SiteProbe>(context, std::string(context.site_metrics));
}

const RegisteredProbe entry{{.name = "site",
                             .help = "Numbers from text files defined by the site (--metrics)",
                             .period = 1s,
                             .families = kFamilies,
                             .open = open_site,
                             .remedy = "reveal-collect --metrics FILE; the format is in reveal-collect --help"}};

}  // namespace
}  // namespace reveal::probe::site_metrics
