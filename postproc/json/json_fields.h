// How a struct becomes JSON and comes back. One function per type names its members once, and visitors do the rest:
//
//   //   void fields(auto& v, Visited<decltype(v), RunnerUp>& look_alike) {
//     v("id", look_alike.id);
//     v("why_not", look_alike.why_not);
//   }
//
// Unknown numbers and times are null, and KEY_reason beside them has the reason. Unknown keys are left alone, and
// missing ones keep their default: minor additions are allowed, in both directions.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "postproc/json/whole_number.h"
#include "postproc/words/quantity.h"
#include "postproc/words/shared_text.h"

namespace reveal {

using Json = nlohmann::ordered_json;  // keys in the order of their fields, so that two files can be read side by side

template <class V, class T>
using Visited = std::conditional_t<std::remove_reference_t<V>::kReads, T, const T>;

/// A visitor without keys finds each value by its place, so every field must be there.
template <class V>
inline constexpr bool kLeavesOutEmpty = !V::kReads && !requires {
  V::kByPlace;
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T>
inline constexpr bool kIsText = std::same_as<T, std::string> || std::same_as<T, SharedText>;

/// Writes into an object, or one value after the other into a list.
class JsonWriter {
 public:
  static constexpr bool kReads = false;
  explicit JsonWriter(Json& json) : json_(json) {}

  template <class T>
  void operator()(std::string_view key, const T& value, std::string_view reason = {}) {
    if constexpr (std::same_as<T, bool>) {
      put(key, json_.is_array() ? Json(value ? 1 : 0) : Json(value));
    } else if constexpr (std::same_as<T, SharedText>) {
      put(key, value.str());
    } else if constexpr (std::integral<T> || kIsText<T> || std::same_as<T, std::vector<std::string>>) {
      put(key, value);
    } else if constexpr (std::convertible_to<T, std::optional<double>>) {
      number(key, value, reason);
    } else if constexpr (std::same_as<T, std::vector<double>> || std::same_as<T, std::vector<float>>) {
      series(key, {value.begin(), value.end()}, std::same_as<T, std::vector<float>> ? 4 : 6);
    } else if constexpr (IsList<T>::value) {
      Json list = Json::array();
      for (const auto& one : value) list.push_back(whole(one));
      put(key, std::move(list));
    } else {
      put(key, whole(value));
    }
  }
  /// Null when it is empty.
  void word(std::string_view key, const std::string& text);
  void time(std::string_view key, std::int64_t utc_ns);
  /// Four digits of it.
  void rounded(std::string_view key, double value);
  void name(std::string_view key, auto value, auto /*of_name*/) { put(key, name_of(value)); }
  template <class Enum>
  void names(std::string_view key, const std::vector<Enum>& values, auto /*of_name*/) {
    Json list = Json::array();
    for (const Enum value : values) list.push_back(name_of(value));
    put(key, std::move(list));
  }
  /// The reason is known by its place beside the null only.
  void explained(std::string_view key, std::optional<double> value, const std::string& reason) {
    number(key, value, reason);
  }
  template <class T>
  void known(std::string_view key, const std::vector<T>& values) {
    (*this)(key, values);
  }
  /// notes[key]: why the number is null, or else where it comes from.
  void noted(std::string_view key, std::optional<double> value, const std::map<std::string, std::string>& notes);
  void pairs(std::string_view key, const Pairs& values, std::string_view first, std::string_view second);
  void dictionary(std::string_view key, const Pairs& values);
  void dictionary(std::string_view key, const SharedPairs& values);
  void dictionary(std::string_view key, const std::map<std::string, double>& values);
  /// Lists of values, with their names in `columns`.
  template <class T>
  void table(std::string_view columns, std::string_view key, const std::vector<T>& rows) {
    std::vector<std::string> names;
    const Json keyed = whole(T{});
    for (const auto& [name, value] : keyed.items()) names.push_back(name);
    put(columns, names);
    Json list = Json::array();
    for (const T& row : rows) {
      Json values = Json::array();
      JsonWriter writer(values);
      fields(writer, row);
      list.push_back(std::move(values));
    }
    put(key, std::move(list));
  }
  /// Members of this thing that the JSON keeps apart.
  void object(std::string_view key, auto fill) {
    Json json = Json::object();
    JsonWriter writer(json);
    fill(writer);
    put(key, std::move(json));
  }
  /// The other way round: members of a thing beside those of this one.
  void inlined(const auto& thing) { fields(*this, thing); }
  /// A reader looks for its members even where there is no such object.
  void required(std::string_view key, const auto& thing) { put(key, whole(thing)); }
  /// Null unless `present`.
  void maybe(std::string_view key, const auto& thing, bool present) {
    put(key, present ? whole(thing) : Json(nullptr));
  }
  void maybe(std::string_view key, const auto& thing, bool present, const std::string& reason) {
    maybe(key, thing, present);
    if (!present) put(std::string(key) + "_reason", reason);
  }
  /// Writes a value for other readers only.
  void constant(std::string_view key, const Json& value) { put(key, value); }
  /// Fields that a reader requires.
  void schema(std::string_view key, const Json& value, const Json& /*earlier*/ = nullptr) { put(key, value); }

  [[nodiscard]] static Json whole(const auto& thing) {
    Json json = Json::object();
    JsonWriter writer(json);
    fields(writer, thing);
    return json;
  }

 private:
  void put(std::string_view key, Json value);
  void number(std::string_view key, std::optional<double> value, std::string_view reason);
  void series(std::string_view key, const std::vector<double>& values, int digits);

  Json& json_;
};

/// Reads JSON from untrusted files: types and ranges are checked, and errors quote little.
class JsonReader {
 public:
  static constexpr bool kReads = true;
  /// `document` is named in errors.
  JsonReader(const Json& json, std::string_view document) : json_(json), document_(document) {}

  template <class T>
  void operator()(std::string_view key, T& value, std::string_view /*reason*/ = {}) {
    const Json* json = find(key);
    if (json == nullptr) return;
    if (json->is_null()) {
      forget(value);
      // NOLINTNEXTLINE(bugprone-branch-clone): the branches differ by type
    } else if constexpr (IsList<T>::value && !std::same_as<T, std::vector<std::string>>) {
      value.reserve(value.size() + list(key, *json).size());
      for (const Json& one : list(key, *json)) read_element(one, value);
    } else if constexpr (std::is_class_v<T> && requires(JsonReader & v) { fields(v, value); }) {
      JsonReader reader(*json, document_);
      fields(reader, value);
    } else {
      read(key, *json, value);
    }
  }
  void word(std::string_view key, std::string& text) { (*this)(key, text); }
  void time(std::string_view key, std::int64_t& utc_ns);
  void rounded(std::string_view key, double& value) { (*this)(key, value); }
  void name(std::string_view key, auto& value, auto of_name) {
    std::string text;
    (*this)(key, text);
    const auto known = of_name(text);
    if (!known) throw UnknownName(unknown_name(key, text));
    value = *known;
  }
  /// Reads the known names; names of a later version are left out.
  template <class Enum>
  void names(std::string_view key, std::vector<Enum>& values, auto of_name) {
    std::vector<std::string> texts;
    (*this)(key, texts);
    for (const std::string& text : texts) {
      if (const auto known = of_name(text)) values.push_back(*known);
    }
  }
  /// Leaves out values with a name of a later version.
  template <class T>
  void known(std::string_view key, std::vector<T>& values) {
    const Json* json = find(key);
    if (json == nullptr || json->is_null()) return;
    for (const Json& one : list(key, *json)) read_known(JsonReader(one, document_), values);
  }
  void explained(std::string_view key, std::optional<double>& value, std::string& reason);
  void noted(std::string_view key, std::optional<double>& value, std::map<std::string, std::string>& notes);
  void pairs(std::string_view key, Pairs& values, std::string_view first, std::string_view second);
  void dictionary(std::string_view key, Pairs& values);
  void dictionary(std::string_view key, SharedPairs& values);
  void dictionary(std::string_view key, std::map<std::string, double>& values);
  template <class T>
  void table(std::string_view /*columns*/, std::string_view key, std::vector<T>& rows) {
    const Json* json = find(key);
    if (json == nullptr) return;
    rows.reserve(list(key, *json).size());
    for (const Json& row : list(key, *json)) {
      JsonReader reader(list(key, row), document_);
      reader.row_ = true;
      read_known(reader, rows);
    }
  }
  void object(std::string_view key, auto fill) {
    static const Json kNull;
    const Json* json = find(key);
    JsonReader reader(json == nullptr ? kNull : *json, document_);
    fill(reader);
  }
  void inlined(auto& thing) { fields(*this, thing); }
  void required(std::string_view key, auto& thing) {
    object(key, [&](JsonReader& reader) { fields(reader, thing); });
  }
  void maybe(std::string_view key, auto& thing, bool /*present*/) { (*this)(key, thing); }
  void maybe(std::string_view key, auto& thing, bool /*present*/, std::string& reason) {
    if (const std::string why = reason_of(key); !why.empty()) reason = why;
    (*this)(key, thing);
  }
  void constant(std::string_view /*key*/, const Json& /*value*/) {}
  /// `earlier`: another value that is read as well.
  void schema(std::string_view key, const Json& value, const Json& earlier = nullptr);

 private:
  struct UnknownName : Error {
    using Error::Error;
  };
  /// Nothing where it is missing. The values of a row come one by one, whatever they are called.
  const Json* find(std::string_view key);
  [[nodiscard]] const Json& list(std::string_view key, const Json& json) const;
  [[nodiscard]] std::string unknown_name(std::string_view key, const std::string& name) const;
  [[nodiscard]] std::string reason_of(std::string_view key);
  [[noreturn]] void refuse(std::string_view key, const Json& json) const;

  /// Null: a number is not known and a text empty; anything else keeps its default.
  template <class T>
  static void forget(T& value) {
    if constexpr (std::floating_point<T>) value = std::numeric_limits<T>::quiet_NaN();
    if constexpr (kIsText<T>) value.clear();
  }
  template <class T>
  void read(std::string_view key, const Json& json, std::optional<T>& value) const {
    T known{};
    read(key, json, known);
    value = known;
  }
  template <class T>
  void read(std::string_view key, const Json& json, T& value) const {
    if constexpr (std::integral<T>) {
      if (!json.is_number()) refuse(key, json);
      const std::optional<T> number = whole_number_if_any<T>(json);
      if (!number) throw Error(std::string(document_) + ": \"" + std::string(key) + "\" is out of range");
      value = *number;
    } else {
      try {
        json.get_to(value);
      } catch (const Json::exception&) {
        refuse(key, json);
      }
    }
  }
  void read(std::string_view key, const Json& json, bool& value) const;
  void read(std::string_view key, const Json& json, SharedText& value) const;
  template <class T>
  static void read_known(JsonReader reader, std::vector<T>& values) {
    try {
      fields(reader, values.emplace_back());
    } catch (const UnknownName&) {
      values.pop_back();
    }
  }
  template <class T>
  void read_element(const Json& json, std::vector<T>& values) const {
    if constexpr (std::floating_point<T>) {
      values.push_back(json.is_number() ? json.get<T>() : std::numeric_limits<T>::quiet_NaN());
    } else {
      JsonReader reader(json, document_);
      fields(reader, values.emplace_back());
    }
  }

  const Json& json_;
  std::string_view document_;
  bool row_ = false;      // a list of values
  std::size_t next_ = 0;  // index of the next value
};

/// Text as JSON. Throws Error, in which `document` is named.
[[nodiscard]] Json parse_json(const std::string& text, std::string_view document);

/// JSON as text; names of jobs need not be UTF-8. `indent` -1: on one line.
[[nodiscard]] std::string json_text(const Json& json, int indent = -1);

}  // namespace reveal
