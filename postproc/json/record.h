// A struct with fields() as a small file of JSON that may be damaged, hostile or of another version.
#pragma once

#include <string>
#include <string_view>

#include "postproc/json/json_fields.h"
#include "postproc/json/shallow_json.h"

namespace reveal {

template <class T>
[[nodiscard]] std::string render_record(const T& record) {
  return json_text(JsonWriter::whole(record), 2) + "\n";
}

/// Throws Error, in which `document` is named.
template <class T>
[[nodiscard]] T parse_record(const std::string& text, std::string_view document) {
  const Json parsed = parse_json(shallow(text), document);
  JsonReader reader(parsed, document);
  T record;
  fields(reader, record);
  return record;
}

/// Whether the text is of another version of `schema` ("reveal.mail/1"). A home directory may be that of hosts with
/// different versions of reveal, and each leaves alone the files of others.
[[nodiscard]] bool is_of_another_version(const std::string& text, std::string_view schema) noexcept;

}  // namespace reveal
