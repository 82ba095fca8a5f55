#include "postproc/words/times.h"

#include <spdlog/fmt/fmt.h>

#include <chrono>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

struct CivilTime {
  std::chrono::year_month_day date;
  std::chrono::hh_mm_ss<std::chrono::nanoseconds> time;
};

CivilTime civil_time(std::int64_t utc_ns) {
  const std::chrono::sys_time<std::chrono::nanoseconds> instant{std::chrono::nanoseconds(utc_ns)};
  const auto day = std::chrono::floor<std::chrono::days>(instant);
  return {std::chrono::year_month_day(day), std::chrono::hh_mm_ss<std::chrono::nanoseconds>(instant - day)};
}

std::string date_of(const CivilTime& civil) {
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(civil.date.year()),
                     static_cast<unsigned>(civil.date.month()), static_cast<unsigned>(civil.date.day()));
}

std::string time_of(const CivilTime& civil) {
  return fmt::format("{:02}:{:02}:{:02}", civil.time.hours().count(), civil.time.minutes().count(),
                     civil.time.seconds().count());
}

}  // namespace

std::string iso_time(std::int64_t utc_ns) {
  const CivilTime civil = civil_time(utc_ns);
  std::string fraction = fmt::format(".{:09}", civil.time.subseconds().count());
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (fraction == ".") fraction.clear();
  return date_of(civil) + "T" + time_of(civil) + fraction + "Z";
}

std::string iso_milliseconds(std::int64_t utc_ns) {
  const CivilTime civil = civil_time(utc_ns);
  return fmt::format("{}T{}.{:03}Z", date_of(civil), time_of(civil), civil.time.subseconds().count() / 1'000'000);
}

std::optional<std::int64_t> parse_iso_time(std::string_view text) noexcept {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (text.size() < kShape.size() + 1 || text.back() != 'Z') return std::nullopt;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != kShape[i]) return std::nullopt;
  }
  const auto part = [&](std::size_t at, std::size_t size) { return *parse_int(text.substr(at, size)); };
  std::string_view fraction = text.substr(kShape.size(), text.size() - kShape.size() - 1);
  std::int64_t nanoseconds = 0;
  if (!fraction.empty()) {
    fraction.remove_prefix(1);
    if (text[kShape.size()] != '.' || fraction.empty() || fraction.size() > 9) return std::nullopt;
    for (std::size_t i = 0; i < 9; ++i) {
      const char digit = i < fraction.size() ? fraction[i] : '0';
      if (digit < '0' || digit > '9') return std::nullopt;
      nanoseconds = nanoseconds * 10 + (digit - '0');
    }
  }
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(part(0, 4))),
                                         std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(part(8, 2))));
  // int64 nanoseconds reach to 2262; from 1970 on the difference of any two times fits as well.
  if (!date.ok() || part(0, 4) < 1970 || part(0, 4) > 2261) return std::nullopt;
  const std::int64_t seconds = part(11, 2) * 3600 + part(14, 2) * 60 + part(17, 2);
  const auto day = std::chrono::sys_days(date).time_since_epoch();
  return std::chrono::nanoseconds(day + std::chrono::seconds(seconds)).count() + nanoseconds;
}

std::string date_and_time(std::int64_t utc_ns) {
  const CivilTime civil = civil_time(utc_ns);
  return date_of(civil) + " " + time_of(civil) + " UTC";
}

std::string clock_time(std::int64_t utc_ns) {
  return time_of(civil_time(utc_ns));
}

std::string clock_span(std::int64_t begin_utc_ns, std::int64_t end_utc_ns, std::int64_t known_utc_ns) {
  const CivilTime begin = civil_time(begin_utc_ns);
  const CivilTime end = civil_time(end_utc_ns);
  const bool several_days = begin.date != end.date;
  const bool dated = several_days || begin.date != civil_time(known_utc_ns).date;
  std::string text = (dated ? date_of(begin) + " " : "") + time_of(begin);
  if (several_days || time_of(begin) != time_of(end)) {
    text += " to " + (several_days ? date_of(end) + " " : "") + time_of(end);
  }
  return text + " UTC";
}

}  // namespace reveal
