#include "core/pmu/event_source.h"

#include <algorithm>
#include <charconv>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kFolder = "/sys/bus/event_source/devices/";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

std::string_view cut(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trimmed(part);
}

std::optional<int> parse_bit(std::string_view text) {
  const auto bit = parse_int(text);
  if (!bit || *bit < 0 || *bit > 63) return std::nullopt;
  return static_cast<int>(*bit);
}

/// "0x3f" or "63".
std::optional<std::uint64_t> parse_value(std::string_view text) {
  const bool hexadecimal = text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X";
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// False if the value has more bits than the field.
bool place(const EventField& field, std::uint64_t value, PerfEvent& event) {
  std::uint64_t* const words[] = {&event.config, &event.config1, &event.config2};
  for (const auto& [first, last] : field.bits) {
    const int width = last - first + 1;
    const std::uint64_t mask = width == 64 ? ~0ULL : (1ULL << width) - 1;
    *words[field.word] |= (value & mask) << first;
    value = width == 64 ? 0 : value >> width;
  }
  return value == 0;
}

/// uncore_imc_2 stands before uncore_imc_10.
bool number_order(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace

std::optional<EventField> parse_event_field(std::string_view text) {
  text = trimmed(text);
  EventField field;
  const std::string_view word = cut(text, ':');
  if (word == "config1") {
    field.word = 1;
  } else if (word == "config2") {
    field.word = 2;
  } else if (word != "config") {
    return std::nullopt;  // config3 and later: no event that we count needs it
  }
  while (!text.empty()) {
    std::string_view range = cut(text, ',');
    const auto first = parse_bit(cut(range, '-'));
    const auto last = range.empty() ? first : parse_bit(range);
    if (!first || !last || *last < *first) return std::nullopt;
    field.bits.emplace_back(*first, *last);
  }
  if (field.bits.empty()) return std::nullopt;
  return field;
}

std::optional<EventSource> EventSource::look(KernelTree& fs, const std::string& name) {
  EventSource source;
  source.name_ = name;
  source.folder_ = std::string(kFolder) + name;
  const auto type = parse_int(fs.word(source.folder_ + "/type"));
  if (!type || *type < 0) return std::nullopt;
  source.type_ = static_cast<std::uint32_t>(*type);
  source.cpus_ = parse_cpu_list(fs.word(source.folder_ + "/cpumask"));
  for (const std::string& term : fs.list(source.folder_ + "/format")) {
    const auto field = parse_event_field(fs.word(source.folder_ + "/format/" + term));
    if (field) source.fields_.emplace(term, *field);
  }
  return source;
}

std::optional<PerfEvent> EventSource::encode(std::string_view terms) const {
  PerfEvent event{.type = type_};
  terms = trimmed(terms);
  if (terms.empty()) return std::nullopt;
  while (!terms.empty()) {
    std::string_view value = cut(terms, ',');
    const bool bare = value.find('=') == std::string_view::npos;
    const std::string_view name = cut(value, '=');
    const auto number = bare ? std::optional<std::uint64_t>(1) : parse_value(value);
    const auto field = fields_.find(name);
    if (!number || field == fields_.end() || !place(field->second, *number, event)) return std::nullopt;
  }
  return event;
}

std::vector<std::string> EventSource::event_names(KernelTree& fs) const {
  std::vector<std::string> names = fs.list(folder_ + "/events");
  std::erase_if(names, [](const std::string& name) { return name.find('.') != std::string::npos; });  // units, scales
  return names;
}

std::optional<PerfEvent> EventSource::event(KernelTree& fs, std::string_view event) const {
  return encode(fs.word(folder_ + "/events/" + std::string(event)));
}

double EventSource::scale(KernelTree& fs, std::string_view event) const {
  const std::string text = fs.word(folder_ + "/events/" + std::string(event) + ".scale");
  double scale = 1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  return error == std::errc() && end != text.data() ? scale : 1;
}

std::string EventSource::unit(KernelTree& fs, std::string_view event) const {
  return fs.word(folder_ + "/events/" + std::string(event) + ".unit");
}

std::vector<std::string> event_source_names(KernelTree& fs, std::string_view prefix) {
  std::vector<std::string> names = fs.list(kFolder.substr(0, kFolder.size() - 1));
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix); });
  std::sort(names.begin(), names.end(), number_order);
  return names;
}

}  // namespace reveal
