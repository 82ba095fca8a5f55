// Numbers from text files that a site names itself, without compiling anything:
//
//   # name              kind     unit   file                                    word before the number (optional)
//   lustre.read_bytes   counter  bytes  /proc/fs/lustre/llite/home-00/stats     read_bytes
//   room.temperature    gauge    count  /run/room/temperature
#include <array>
#include <fstream>

#include "core/root/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr MetricHelp kMetrics[] = {{"<name>", "As named in the file given with --metrics."}};

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

// The first number after `key`, or the first at all without a key. Text after a number's digits ("12 kB") is left
// alone.
bool number_after(std::string_view text, std::string_view key, std::int64_t& value) noexcept {
  std::string_view line;
  while (next_line(text, line)) {
    bool open = key.empty();
    for (std::string_view word = cut_word(line); !word.empty(); word = cut_word(line)) {
      if (open && parse_counter(word, value)) return true;
      const bool colon = word.size() == key.size() + 1 && word.back() == ':' && word.substr(0, key.size()) == key;
      open = open || word == key || colon;
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
    if (metrics_.empty()) throw Unavailable(file + " names no text file to read");
  }

  void sample() noexcept override {
    for (Family* family : families_) {
      if (family != nullptr) family->begin();
    }
    for (Metric& metric : metrics_) {
      std::int64_t value = 0;
      if (number_after(metric.file.read(), metric.key, value)) families_[metric.family]->set(metric.channel, value);
    }
    for (Family* family : families_) {
      if (family != nullptr) family->commit();
    }
  }

 private:
  struct Metric {
    std::size_t family = 0;
    std::int32_t channel = Family::kNoChannel;
    std::string key;
    KernelFile file;
  };

  void add(std::string_view name, std::string_view rest, const std::string& place) {
    const std::string_view kind_word = next_word(rest);
    const std::string_view unit_word = next_word(rest);
    const std::string_view path = next_word(rest);
    const auto kind = kind_of(kind_word);
    const auto unit = unit_of(unit_word);
    std::size_t table = 0;
    while (table < kFamilies.size() && (kFamilies[table].kind != kind || kFamilies[table].unit != unit)) ++table;
    if (table == kFamilies.size()) {
      throw Error(place + ": \"" + std::string(kind_word) + ' ' + std::string(unit_word) +
                  "\" is none of gauge|counter with count|bytes|ns, or event count");
    }
    if (path.substr(0, 1) != "/") throw Error(place + ": \"" + std::string(path) + "\" is no absolute path");
    if (families_[table] == nullptr) families_[table] = &context_.family(kFamilies[table]);
    Metric metric;
    metric.family = table;
    metric.channel = families_[table]->add(name);
    metric.key = next_word(rest);
    metric.file = context_.fs.open(std::string(path));
    metrics_.push_back(std::move(metric));
  }

  ProbeContext context_;
  std::array<Family*, kFamilies.size()> families_{};
  std::vector<Metric> metrics_;
};

std::unique_ptr<Probe> open_site(const ProbeContext& context) {
  if (context.site_metrics.empty()) throw Unavailable("this site names no metrics of its own (--metrics)");
  return std::make_unique<SiteProbe>(context, std::string(context.site_metrics));
}

const RegisteredProbe entry{{.name = "site",
                             .help = "Numbers from text files the site names (--metrics)",
                             .period = 1s,
                             .families = kFamilies,
                             .open = open_site,
                             .remedy = "reveal-collect --metrics FILE; the format is in reveal-collect --help"}};

}  // namespace
}  // namespace reveal
