// A report as a JSON value: part of a larger file.
#pragma once

#include "postproc/json/json_fields.h"
#include "postproc/report/report.h"

namespace reveal {

void fields(JsonWriter& writer, const Report& report);
/// Throws Error for another schema.
void fields(JsonReader& reader, Report& report);

}  // namespace reveal
