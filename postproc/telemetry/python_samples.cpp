#include "postproc/telemetry/python_samples.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <unordered_map>

#include "hdf5schema/basics/text.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kMostProcesses = 1024;
constexpr std::size_t kMostPlaces = 10'000;  // places of one process
constexpr std::size_t kMostLetters = 192;    // letters of one event
constexpr std::size_t kLongestPlace = 192;

struct Known {
  PythonSamples samples;
  std::vector<std::int64_t> periods;  // one for each sample
  std::unordered_map<std::string, std::int32_t> places;

  std::int32_t number_of(std::string_view place) {
    const auto known = places.find(std::string(place));
    if (known != places.end()) return known->second;
    if (places.size() == kMostPlaces) return PythonSamples::kElsewhere;
    const auto number = static_cast<std::int32_t>(samples.places.size());
    places.emplace(place, number);
    samples.places.push_back(shown_place(place));
    return number;
  }
};

/// "1s aab-? a=load(data.py:88) b=train(train.py:40)": a letter for each period up to the event, '-' for none.
void add_samples(const Event& event, Known& known) {
  std::string_view rest = event.text;
  const auto period = parse_duration(next_word(rest));
  const std::string_view letters = next_word(rest).substr(0, kMostLetters);
  if (!period || *period <= std::chrono::nanoseconds(0) || *period > std::chrono::hours(1)) return;
  std::map<char, std::int32_t> places;
  for (std::string_view word = next_word(rest); word.size() > 2 && word[1] == '='; word = next_word(rest)) {
    places[word.front()] = known.number_of(word.substr(2));
  }
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const auto before_event = static_cast<std::int64_t>(letters.size() - i);
    const std::int64_t time = event.time_ns - before_event * period->count();
    if (letters[i] == '-') {
      known.samples.unread.push_back(time);
      continue;
    }
    const auto place = places.find(letters[i]);
    known.samples.samples.push_back(
        {.time_ns = time, .place = place == places.end() ? PythonSamples::kElsewhere : place->second});
    known.periods.push_back(period->count());
  }
}

/// A sample stands for the time to the next one, but for no more than its own period: samples that were taken faster
/// weigh less, so that shares are those of the time.
void weigh(Known& known) {
  std::vector<PythonSamples::Sample>& samples = known.samples.samples;
  const auto [shortest, longest] = std::minmax_element(known.periods.begin(), known.periods.end());
  if (samples.empty() || *shortest == *longest) return;
  const auto usual = static_cast<double>(*longest);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].weight = static_cast<double>(known.periods[i]) / usual;
  std::stable_sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
    const auto until_next = static_cast<double>(samples[i + 1].time_ns - samples[i].time_ns);
    samples[i].weight = std::min(samples[i].weight, until_next / usual);
  }
}

}  // namespace

std::vector<PythonSamples> python_samples(std::span<const Event> events) {
  std::map<std::string, Known> known;
  for (const Event& event : events) {
    constexpr std::int64_t kFarthest = PythonSamples::kFarthest / 2;
    if (event.code != kPythonFrames || event.object.empty()) continue;
    if (event.time_ns < -kFarthest || event.time_ns > kFarthest) continue;
    if (known.size() == kMostProcesses && !known.contains(event.object)) continue;
    add_samples(event, known[event.object]);
  }
  std::vector<PythonSamples> all;
  for (auto& [process, each] : known) {
    if (each.samples.samples.empty()) continue;
    each.samples.process = process;
    weigh(each);
    all.push_back(std::move(each.samples));
  }
  return all;
}

bool waits_for_loader(std::string_view place) {
  constexpr std::string_view kWaits[] = {
      ", in select (selectors.py:", ", in wait (connection.py:",  ", in poll (connection.py:",
      ", in _poll (connection.py:", ", in _recv (connection.py:", ", in get (queues.py:",
      ", in wait (threading.py:",   ", in get (queue.py:",        ", in _try_get_data (dataloader.py:",
  };
  return std::any_of(std::begin(kWaits), std::end(kWaits),
                     [place](std::string_view each) { return place.find(each) != std::string_view::npos; });
}

std::string shown_place(std::string_view place) {
  constexpr std::string_view kBetween = ")>";
  const auto shown = [](std::string_view one) {
    std::string text(one);
    const std::size_t bracket = text.find('(');
    if (bracket != std::string::npos && bracket > 0) text.insert(bracket, 1, ' ');
    return text;
  };
  const std::size_t between = place.find(kBetween);
  std::string text = shown(place.substr(0, between == std::string_view::npos ? between : between + 1));
  if (between != std::string_view::npos) text += ", in " + shown(place.substr(between + kBetween.size()));
  return printable(text, kLongestPlace);
}

}  // namespace reveal
