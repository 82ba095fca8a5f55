#include "postproc/telemetry/last_collectives.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/text.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kMostProcessEvents = 4096;
constexpr std::size_t kMostNewest = 64;             // calls of one event
constexpr std::int64_t kMostCount = INT64_MAX / 4;  // numbers that can be added
constexpr std::size_t kLongestFunction = 64;

std::optional<std::int64_t> known_count(std::string_view text) {
  const auto value = parse_int(text);
  return value && *value >= 0 && *value < kMostCount ? value : std::nullopt;
}

/// "4096x3,-": three calls of 4,096 bytes, and one whose size is not known. False where it is damaged.
bool add_sizes(std::string_view function, std::string_view sizes, std::vector<SizedCall>& calls) {
  const std::string name = printable(function, kLongestFunction);
  if (name.empty()) return false;
  while (!sizes.empty()) {
    std::string_view size = sizes.substr(0, sizes.find(','));
    sizes.remove_prefix(std::min(sizes.size(), size.size() + 1));
    const std::size_t mark = size.find('x');
    const auto times =
        mark == std::string_view::npos ? std::optional<std::int64_t>(1) : known_count(size.substr(mark + 1));
    size = size.substr(0, mark);
    const auto bytes = size == "-" ? std::optional<std::int64_t>(-1) : known_count(size);
    if (!times || !bytes) return false;
    for (std::int64_t i = 0; i < *times && calls.size() < kMostNewest; ++i) calls.push_back({name, *bytes});
  }
  return true;
}

/// "comm=0 ranks=4 rank=2 id=7994 calls=812 begin=5000 ncclAllReduce=4096x3,- ncclBroadcast=8"
std::optional<LastCollectives> parse_last(std::string_view text) {
  LastCollectives last;
  const std::pair<std::string_view, std::int64_t*> numbers[] = {
      {"comm", &last.order}, {"ranks", &last.ranks}, {"rank", &last.rank},
      {"id", &last.id},      {"calls", &last.calls}, {"begin", &last.begin_ns},
  };
  bool begun = false;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    const std::size_t mark = word.find('=');
    if (mark == std::string_view::npos) break;  // the number of events that were left out before it
    const std::string_view key = word.substr(0, mark);
    const std::string_view value = word.substr(mark + 1);
    bool is_number = false;
    for (const auto& [name, number] : numbers) {
      if (name != key) continue;
      const auto known = known_count(value);
      if (!known) return std::nullopt;
      *number = *known;
      is_number = true;
    }
    begun = begun || key == "begin";
    if (!is_number && !add_sizes(key, value, last.newest)) return std::nullopt;
  }
  const bool members = last.ranks == 0 ? last.rank == 0 : last.rank < last.ranks;
  return begun && members ? std::optional(std::move(last)) : std::nullopt;
}

}  // namespace

std::vector<StandingProcess> last_collectives(std::span<const Event> events) {
  std::vector<StandingProcess> all;
  for (auto at = events.rbegin(); at != events.rend() && all.size() < kMostProcessEvents; ++at) {
    const Event& event = *at;
    if (event.code != kLastCollectives || event.object.empty()) continue;
    if (event.time_ns < 0 || event.time_ns > kMostCount) continue;
    if (auto last = parse_last(event.text)) all.push_back({event.object, event.time_ns, *std::move(last)});
  }
  std::reverse(all.begin(), all.end());
  return all;
}

}  // namespace reveal
