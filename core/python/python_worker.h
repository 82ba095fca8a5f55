// The part of the probe "python" that may take long, for its worker process: finds the interpreters of the job's
// processes, and reads where their main threads stand.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// A line "INSTANCE PID START_TICKS" for each process -> lines
///   "at INSTANCE PLACE"     see place_of()
///   "torn INSTANCE"         it could not be read this time
///   "idle INSTANCE"         it runs no Python function
///   "why INSTANCE SENTENCE" it is not measured, because ...; without a sentence: it is no Python
///   "cost NANOSECONDS"      processor time of this answer; the last line
[[nodiscard]] std::string query_python(const std::string& root, std::string_view request);

}  // namespace reveal
