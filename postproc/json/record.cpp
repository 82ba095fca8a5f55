#include "postproc/json/record.h"

namespace reveal {
namespace {

/// "" where the text is no JSON object or has none.
std::string schema_of(const std::string& text) noexcept try {
  const Json parsed = parse_json(shallow(text), "file");
  const auto schema = parsed.find("schema");
  return parsed.is_object() && schema != parsed.end() && schema->is_string() ? schema->get<std::string>() : "";
} catch (const std::exception&) {
  return {};
}

}  // namespace

bool is_of_another_version(const std::string& text, std::string_view schema) noexcept {
  const std::string other = schema_of(text);
  return other != schema && other.starts_with(schema.substr(0, schema.find('/') + 1));
}

}  // namespace reveal
