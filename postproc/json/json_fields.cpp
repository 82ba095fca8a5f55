#include "postproc/json/json_fields.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <cmath>

#include "postproc/json/shallow_json.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kQuoted = 40;  // characters of a wrong value
constexpr double kLargestExactInteger = 9007199254740992.0;

/// 1200, not 1200.0; null when it is not a number.
Json shortest(double value) {
  if (std::trunc(value) == value && std::abs(value) <= kLargestExactInteger) return static_cast<std::int64_t>(value);
  return value;
}

double with_digits(double value, int digits) {
  const std::string text = fmt::format("{:.{}g}", value, digits);
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

std::string reason_key(std::string_view key) {
  return std::string(key) + "_reason";
}

}  // namespace

void JsonWriter::put(std::string_view key, Json value) {
  if (json_.is_array()) {
    json_.push_back(std::move(value));
  } else {
    json_[std::string(key)] = std::move(value);
  }
}

void JsonWriter::number(std::string_view key, std::optional<double> value, std::string_view reason) {
  const bool known = value && std::isfinite(*value);
  put(key, known ? shortest(*value) : Json(nullptr));
  if (!known && !json_.is_array()) put(reason_key(key), reason.empty() ? kNotMeasured : reason);
}

void JsonWriter::series(std::string_view key, const std::vector<double>& values, int digits) {
  Json list = Json::array();
  for (const double value : values) list.push_back(shortest(with_digits(value, digits)));
  put(key, std::move(list));
}

void JsonWriter::word(std::string_view key, const std::string& text) {
  put(key, text.empty() ? Json(nullptr) : Json(text));
}

void JsonWriter::time(std::string_view key, std::int64_t utc_ns) {
  put(key, utc_ns == 0 ? Json(nullptr) : Json(iso_time(utc_ns)));
  if (utc_ns == 0) put(reason_key(key), "not recorded");
}

void JsonWriter::rounded(std::string_view key, double value) {
  number(key, four_digits(value), {});
}

void JsonWriter::noted(std::string_view key, std::optional<double> value,
                       const std::map<std::string, std::string>& notes) {
  const auto at = notes.find(std::string(key));
  number(key, value, at == notes.end() ? std::string_view() : at->second);
  if (at != notes.end() && value) put(std::string(key) + "_source", at->second);
}

void JsonWriter::pairs(std::string_view key, const Pairs& values, std::string_view first, std::string_view second) {
  Json list = Json::array();
  for (const auto& [one, other] : values) {
    list.push_back({{std::string(first), one}, {std::string(second), other}});
  }
  put(key, std::move(list));
}

void JsonWriter::dictionary(std::string_view key, const Pairs& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = value;
  put(key, std::move(json));
}

void JsonWriter::dictionary(std::string_view key, const SharedPairs& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name.str()] = value.str();
  put(key, std::move(json));
}

void JsonWriter::dictionary(std::string_view key, const std::map<std::string, double>& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = shortest(value);
  put(key, std::move(json));
}

const Json* JsonReader::find(std::string_view key) {
  if (row_) {
    if (next_ >= json_.size()) throw Error(fmt::format("{}: a row without \"{}\"", document_, key));
    return &json_[next_++];
  }
  if (!json_.is_object()) return nullptr;
  const auto at = json_.find(std::string(key));
  return at == json_.end() ? nullptr : &*at;
}

const Json& JsonReader::list(std::string_view key, const Json& json) const {
  if (!json.is_array()) throw Error(fmt::format("{}: \"{}\" is not a list", document_, key));
  return json;
}

void JsonReader::read(std::string_view key, const Json& json, bool& value) const {
  if (!json.is_boolean() && !(row_ && json.is_number())) refuse(key, json);
  value = json.is_boolean() ? json.get<bool>() : json != 0;  // as JsonWriter writes it
}

void JsonReader::read(std::string_view key, const Json& json, SharedText& value) const {
  if (!json.is_string()) refuse(key, json);
  value = json.get_ref<const std::string&>();
}

void JsonReader::refuse(std::string_view key, const Json& json) const {
  throw Error(fmt::format("{}: \"{}\" has the wrong type: {}", document_, key, json.type_name()));
}

std::string JsonReader::unknown_name(std::string_view key, const std::string& name) const {
  return fmt::format("{}: unknown {} \"{}\"", document_, key, printable(name, kQuoted));
}

std::string JsonReader::reason_of(std::string_view key) {
  std::string reason;
  (*this)(reason_key(key), reason);
  return reason == kNotMeasured ? "" : reason;
}

void JsonReader::time(std::string_view key, std::int64_t& utc_ns) {
  std::string text;
  (*this)(key, text);
  if (text.empty()) return;
  const auto time = parse_iso_time(text);
  if (!time) throw Error(fmt::format("{}: \"{}\" is not a time: \"{}\"", document_, key, printable(text, kQuoted)));
  utc_ns = *time;
}

void JsonReader::explained(std::string_view key, std::optional<double>& value, std::string& reason) {
  (*this)(key, value);
  if (reason.empty()) reason = reason_of(key);
}

void JsonReader::noted(std::string_view key, std::optional<double>& value, std::map<std::string, std::string>& notes) {
  (*this)(key, value);
  std::string note = value ? "" : reason_of(key);
  if (value) (*this)(std::string(key) + "_source", note);
  if (!note.empty()) notes[std::string(key)] = note;
}

void JsonReader::pairs(std::string_view key, Pairs& values, std::string_view first, std::string_view second) {
  const Json* json = find(key);
  if (json == nullptr || json->is_null()) return;
  for (const Json& one : list(key, *json)) {
    JsonReader reader(one, document_);
    auto& [head, tail] = values.emplace_back();
    reader(first, head);
    reader(second, tail);
  }
}

void JsonReader::dictionary(std::string_view key, Pairs& values) {
  const Json* json = find(key);
  if (json == nullptr || json->is_null()) return;
  if (!json->is_object()) refuse(key, *json);
  for (const auto& [name, value] : json->items()) read(key, value, values.emplace_back(name, "").second);
}

void JsonReader::dictionary(std::string_view key, SharedPairs& values) {
  Pairs plain;
  dictionary(key, plain);
  values.assign(plain.begin(), plain.end());
}

void JsonReader::dictionary(std::string_view key, std::map<std::string, double>& values) {
  (*this)(key, values);
}

void JsonReader::schema(std::string_view key, const Json& value, const Json& earlier) {
  const Json* json = find(key);
  const bool there = json != nullptr && !json->is_null();
  if (there && (*json == value || *json == earlier)) return;
  if (there && value.is_string() && !json->is_string()) refuse(key, *json);
  throw Error(
      fmt::format("{}: {}; this reveal reads {}", document_,
                  there ? fmt::format("{} {}", key, printable(json->dump(), kQuoted)) : fmt::format("names no {}", key),
                  value.is_string() ? value.get<std::string>() : value.dump()));
}

Json parse_json(const std::string& text, std::string_view document) {
  try {
    return Json::parse(shallow(text));
  } catch (const Json::parse_error& error) {
    throw Error(fmt::format("{}: not JSON from byte {} on (cut off?)", document, error.byte));
  } catch (const Json::out_of_range&) {
    throw Error(fmt::format("{}: a number in it is too large", document));  // 1e999
  }
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reveal
