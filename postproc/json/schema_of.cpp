#include "postproc/json/schema_of.h"

#include "postproc/json/json_fields.h"
#include "postproc/json/shallow_json.h"

namespace reveal {

std::string schema_of(const std::string& json) noexcept try {
  const Json parsed = parse_json(shallow(json), "file");
  const auto schema = parsed.find("schema");
  return parsed.is_object() && schema != parsed.end() && schema->is_string() ? schema->get<std::string>() : "";
} catch (const std::exception&) {
  return {};
}

}  // namespace reveal
