#include "hdf5schema/basics/delivery_times.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr const char* kDeliveryTimesFile = "delivery-times";
constexpr std::size_t kLargestDeliveryTimes = 64 << 10;
constexpr std::size_t kMostDeliveries = 256;
constexpr std::size_t kMostOfAnOwner = 8;    // the newest of each kind
constexpr std::size_t kEnoughOfAnOwner = 3;  // to be his own pace
constexpr std::int64_t kOldestDelivery = std::int64_t{90} * 24 * 3600;
constexpr double kLeastExpected = 0.5;
constexpr double kLongestDelivery = 24 * 3600;
constexpr double kSecondsPerByte = 0.3e-6;
constexpr double kWithThinning = 1.5;
constexpr double kSecondsPerNode = 2e-3;
constexpr std::string_view kMergeWord = "merge";
constexpr double kMilli = 1e-3;

bool is_sound(const DeliveryTime& time) {
  return time.expected_seconds > kLeastExpected && time.expected_seconds <= kLongestDelivery && time.cpu_seconds > 0 &&
         time.cpu_seconds <= kLongestDelivery;
}

/// OWNER SECONDS MILLISECONDS MILLISECONDS, and "merge" where it is no analysis
std::optional<DeliveryTime> delivery_time_of(std::string_view line) {
  std::optional<std::int64_t> numbers[4];
  for (auto& number : numbers) {
    number = parse_int(next_word(line));
    if (!number || *number < 0) return std::nullopt;
  }
  const std::string_view work = next_word(line);
  if (*numbers[0] > std::int64_t{0xffffffff} || (!work.empty() && work != kMergeWord) || !next_word(line).empty())
    return std::nullopt;
  return DeliveryTime{.owner = static_cast<unsigned>(*numbers[0]),
                      .utc_seconds = *numbers[1],
                      .expected_seconds = static_cast<double>(*numbers[2]) * kMilli,
                      .cpu_seconds = static_cast<double>(*numbers[3]) * kMilli,
                      .work = work.empty() ? DeliveryWork::analysis : DeliveryWork::merge};
}

std::string line_of(const DeliveryTime& time) {
  return std::to_string(time.owner) + " " + std::to_string(time.utc_seconds) + " " +
         std::to_string(std::llround(time.expected_seconds / kMilli)) + " " +
         std::to_string(std::llround(time.cpu_seconds / kMilli)) +
         (time.work == DeliveryWork::merge ? " " + std::string(kMergeWord) : "") + "\n";
}

/// Where two are in the middle, the one that is nearer to 1.
double cautious_median(std::vector<double> paces) {
  std::sort(paces.begin(), paces.end());
  const double low = paces[(paces.size() - 1) / 2];
  const double high = paces[paces.size() / 2];
  return std::abs(std::log(low)) <= std::abs(std::log(high)) ? low : high;
}

}  // namespace

double expected_analysis_seconds(double trace_bytes, bool thinned) noexcept {
  return trace_bytes * kSecondsPerByte * (thinned ? kWithThinning : 1);
}

double expected_merge_seconds(std::size_t nodes) noexcept {
  return static_cast<double>(nodes) * kSecondsPerNode;
}

double bounded_pace(double pace) noexcept {
  return std::isfinite(pace) ? std::clamp(pace, 1 / kLargestPace, kLargestPace) : 1;
}

DeliveryTimes DeliveryTimes::in_spool(const std::filesystem::path& spool, std::int64_t now_utc_seconds) noexcept try {
  return of_text(read_text_file(spool / kDeliveryTimesFile, kLargestDeliveryTimes, FileOf::ours), now_utc_seconds);
} catch (const std::exception&) {
  return {};
}

DeliveryTimes DeliveryTimes::of_text(std::string_view text, std::int64_t now_utc_seconds) {
  DeliveryTimes times;
  for (std::string_view line; next_line(text, line);) {
    const auto time = delivery_time_of(line);
    if (!time || time->utc_seconds > now_utc_seconds || time->utc_seconds < now_utc_seconds - kOldestDelivery) continue;
    times.add(*time);
  }
  return times;
}

void DeliveryTimes::add(const DeliveryTime& time) {
  if (!is_sound(time)) return;
  const auto is_alike = [&](const DeliveryTime& one) { return one.owner == time.owner && one.work == time.work; };
  if (static_cast<std::size_t>(std::count_if(times_.begin(), times_.end(), is_alike)) >= kMostOfAnOwner) {
    times_.erase(std::find_if(times_.begin(), times_.end(), is_alike));
  }
  if (times_.size() >= kMostDeliveries) times_.erase(times_.begin());
  times_.push_back(time);
}

std::string DeliveryTimes::text() const {
  std::string text;
  for (const DeliveryTime& time : times_) text += line_of(time);
  return text;
}

void DeliveryTimes::keep_in_spool(const std::filesystem::path& spool) const {
  publish_file(spool, kDeliveryTimesFile, text());
}

double DeliveryTimes::pace_of(unsigned owner, DeliveryWork work) const {
  std::map<unsigned, std::vector<double>> paces;
  for (const DeliveryTime& time : times_) {
    if (time.work != work) continue;
    paces[time.owner].push_back(bounded_pace(time.cpu_seconds / time.expected_seconds));
  }
  const auto own = paces.find(owner);
  if (own != paces.end() && own->second.size() >= kEnoughOfAnOwner) return cautious_median(own->second);
  std::vector<double> votes{1};
  for (const auto& [other, theirs] : paces) votes.push_back(cautious_median(theirs));
  return cautious_median(std::move(votes));
}

DeliveryPaces DeliveryTimes::paces_of(unsigned owner) const {
  return {.analysis = pace_of(owner, DeliveryWork::analysis), .merge = pace_of(owner, DeliveryWork::merge)};
}

std::size_t DeliveryTimes::owners() const {
  std::map<unsigned, bool> owners;
  for (const DeliveryTime& time : times_) owners[time.owner] = true;
  return owners.size();
}

}  // namespace reveal
