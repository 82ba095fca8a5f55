// A struct as bytes and back, by the same fields() as its JSON, but by place instead of by key: for a file that this
// version writes for itself, and reads many times as fast. Numbers keep all their bits. Texts are kept once.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "postproc/json/json_fields.h"

namespace reveal {

class PackedWriter {
 public:
  static constexpr bool kReads = false;
  static constexpr bool kByPlace = true;

  template <class T>
  void operator()(std::string_view /*key*/, const T& value, std::string_view /*reason*/ = {}) {
    put(value);
  }
  void word(std::string_view /*key*/, const std::string& text) { put(text); }
  void time(std::string_view /*key*/, std::int64_t utc_ns) { put(utc_ns); }
  void rounded(std::string_view /*key*/, double value) { put(value); }
  void name(std::string_view /*key*/, auto value, auto /*of_name*/) { put_text(name_of(value)); }
  template <class Enum>
  void names(std::string_view /*key*/, const std::vector<Enum>& values, auto /*of_name*/) {
    put(values.size());
    for (const Enum value : values) put_text(name_of(value));
  }
  void explained(std::string_view /*key*/, std::optional<double> value, const std::string& reason) {
    put(value);
    put(reason);
  }
  void known(std::string_view /*key*/, const auto& values) { put(values); }
  void noted(std::string_view key, std::optional<double> value, const std::map<std::string, std::string>& notes) {
    const auto at = notes.find(std::string(key));
    put(value);
    put_text(at == notes.end() ? std::string_view() : at->second);
  }
  void pairs(std::string_view key, const Pairs& values, std::string_view /*first*/, std::string_view /*second*/) {
    dictionary(key, values);
  }
  void dictionary(std::string_view /*key*/, const auto& values) {
    put(values.size());
    for (const auto& [name, value] : values) {
      put(name);
      put(value);
    }
  }
  void table(std::string_view /*columns*/, std::string_view /*key*/, const auto& rows) { put(rows); }
  void object(std::string_view /*key*/, auto fill) { fill(*this); }
  void inlined(const auto& thing) { put(thing); }
  void required(std::string_view /*key*/, const auto& thing) { put(thing); }
  void maybe(std::string_view /*key*/, const auto& thing, bool /*present*/) { put(thing); }
  void maybe(std::string_view /*key*/, const auto& thing, bool /*present*/, const std::string& /*reason*/) {
    put(thing);
  }
  void constant(std::string_view /*key*/, const auto& /*value*/) {}
  void schema(std::string_view /*key*/, const auto& /*value*/) {}
  void schema(std::string_view /*key*/, const auto& /*value*/, const auto& /*earlier*/) {}

  template <class T>
  void put(const T& value) {
    if constexpr (std::same_as<T, bool>) {
      bytes_ += value ? '\1' : '\0';
    } else if constexpr (std::signed_integral<T>) {
      const auto bits = static_cast<std::uint64_t>(std::int64_t{value});
      put_number((bits << 1) ^ (value < 0 ? ~std::uint64_t{0} : 0));
    } else if constexpr (std::integral<T>) {
      put_number(value);
    } else if constexpr (std::floating_point<T>) {
      put_raw(&value, sizeof value);
    } else if constexpr (kIsText<T>) {
      put_text(value);
    } else if constexpr (IsList<T>::value) {
      put(value.size());
      if constexpr (std::floating_point<typename T::value_type>) {
        put_raw(value.data(), value.size() * sizeof(typename T::value_type));
      } else {
        for (const auto& one : value) put(one);
      }
    } else if constexpr (requires { value.has_value(); }) {
      put(value.has_value());
      if (value) put(*value);
    } else {
      fields(*this, value);
    }
  }

  /// The bytes since the last call.
  [[nodiscard]] std::string take() { return std::exchange(bytes_, {}); }
  /// All texts, for a PackedReader of what was taken so far.
  [[nodiscard]] std::string texts() const;

 private:
  void put_number(std::uint64_t number);
  void put_raw(const void* from, std::size_t size) { bytes_.append(static_cast<const char*>(from), size); }
  void put_text(std::string_view text);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };

  std::string bytes_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> places_;
  std::vector<const std::string*> texts_;  // keys of `places_`
};

/// The texts of a file, which outlives them.
class PackedTexts {
 public:
  /// Throws Error.
  explicit PackedTexts(std::string_view packed);
  [[nodiscard]] std::string_view at(std::size_t place) const { return texts_.at(place); }
  [[nodiscard]] SharedText shared(std::size_t place);
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

 private:
  std::vector<std::string_view> texts_;
  std::vector<SharedText> shared_;
};

/// Reads untrusted bytes: lengths and ranges are checked, and a few bytes cannot become gigabytes. Throws Error.
class PackedReader {
 public:
  static constexpr bool kReads = true;
  static constexpr bool kByPlace = true;
  /// `most`: bytes of memory that the result may take.
  PackedReader(std::string_view bytes, PackedTexts& texts, std::size_t most)
      : rest_(bytes), texts_(texts), budget_(most) {}

  template <class T>
  void operator()(std::string_view /*key*/, T& value, std::string_view /*reason*/ = {}) {
    get(value);
  }
  void word(std::string_view /*key*/, std::string& text) { get(text); }
  void time(std::string_view /*key*/, std::int64_t& utc_ns) {
    get(utc_ns);
    if (utc_ns < 0)
      refuse();  // from 1970 on, as in JSON: the difference of any two is a
                 // number
  }
  void rounded(std::string_view /*key*/, double& value) { get(value); }
  void name(std::string_view /*key*/, auto& value, auto of_name) { value = one_of(of_name); }
  template <class Enum>
  void names(std::string_view /*key*/, std::vector<Enum>& values, auto of_name) {
    make_room(values);
    for (Enum& value : values) value = one_of(of_name);
  }
  void explained(std::string_view /*key*/, std::optional<double>& value, std::string& reason) {
    get(value);
    get(reason);
  }
  void known(std::string_view /*key*/, auto& values) { get(values); }
  void noted(std::string_view key, std::optional<double>& value, std::map<std::string, std::string>& notes) {
    std::string note;
    get(value);
    get(note);
    if (!note.empty()) notes[std::string(key)] = std::move(note);
  }
  void pairs(std::string_view key, Pairs& values, std::string_view /*first*/, std::string_view /*second*/) {
    dictionary(key, values);
  }
  template <class Text>
  void dictionary(std::string_view /*key*/, std::vector<std::pair<Text, Text>>& values) {
    make_room(values);
    for (auto& [name, value] : values) {
      get(name);
      get(value);
    }
  }
  void dictionary(std::string_view key, std::map<std::string, double>& values);
  void table(std::string_view /*columns*/, std::string_view /*key*/, auto& rows) { get(rows); }
  void object(std::string_view /*key*/, auto fill) { fill(*this); }
  void inlined(auto& thing) { get(thing); }
  void required(std::string_view /*key*/, auto& thing) { get(thing); }
  void maybe(std::string_view /*key*/, auto& thing, bool /*present*/) { get(thing); }
  void maybe(std::string_view /*key*/, auto& thing, bool /*present*/, std::string& /*reason*/) { get(thing); }
  void constant(std::string_view /*key*/, const auto& /*value*/) {}
  void schema(std::string_view /*key*/, const auto& /*value*/) {}
  void schema(std::string_view /*key*/, const auto& /*value*/, const auto& /*earlier*/) {}

  template <class T>
  void get(T& value) {
    if constexpr (std::same_as<T, bool>) {
      value = byte() != 0;
    } else if constexpr (std::integral<T>) {
      value = whole<T>();
    } else if constexpr (std::floating_point<T>) {
      get_raw(&value, sizeof value);
      refuse_infinite(value);
    } else if constexpr (std::same_as<T, SharedText>) {
      value = texts_.shared(text_place());
    } else if constexpr (kIsText<T>) {
      const std::string_view text = texts_.at(text_place());
      spend(text.size());
      value = text;
    } else if constexpr (IsList<T>::value) {
      make_room(value);
      if constexpr (std::floating_point<typename T::value_type>) {
        get_raw(value.data(), value.size() * sizeof(typename T::value_type));
        for (const auto one : value) refuse_infinite(one);
      } else {
        for (auto& one : value) get(one);
      }
    } else if constexpr (requires { value.has_value(); }) {
      value.reset();
      if (byte() != 0) {
        spend(sizeof *value);  // Rare keeps it outside of its object
        get(value.emplace());
      }
    } else {
      fields(*this, value);
    }
  }

  /// Bytes that were not read.
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  [[noreturn]] static void refuse();
  /// JSON has none; blocks of a profile, the only floats, may be.
  static void refuse_infinite(double value) {
    if (std::isinf(value)) refuse();
  }
  static void refuse_infinite(float /*value*/) {}
  void spend(std::size_t bytes) {
    if (bytes > budget_) refuse();
    budget_ -= bytes;
  }
  [[nodiscard]] std::uint8_t byte();
  [[nodiscard]] std::uint64_t number();
  [[nodiscard]] std::size_t text_place();
  void get_raw(void* to, std::size_t size);
  template <class T>
  [[nodiscard]] T whole() {
    const std::uint64_t bits = number();
    if constexpr (std::is_signed_v<T>) {
      const auto value = static_cast<std::int64_t>((bits >> 1) ^ (~(bits & 1) + 1));
      if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max()) refuse();
      return static_cast<T>(value);
    } else {
      if (bits > std::numeric_limits<T>::max()) refuse();
      return static_cast<T>(bits);
    }
  }
  [[nodiscard]] auto one_of(auto of_name) {
    const auto known = of_name(texts_.at(text_place()));
    if (!known) refuse();
    return *known;
  }
  /// Every element has at least one byte.
  template <class T>
  void make_room(std::vector<T>& values) {
    const std::uint64_t count = number();
    if (count > rest_.size()) refuse();
    spend(static_cast<std::size_t>(count) * sizeof(T));
    values.clear();
    values.resize(static_cast<std::size_t>(count));
  }

  std::string_view rest_;
  PackedTexts& texts_;
  std::size_t budget_;
};

}  // namespace reveal
