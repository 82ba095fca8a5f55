// The use of the NVIDIA library in a worker process: it answers in lines of text, so that an answer can be recorded and
// replayed, and so that a library that hangs or crashes does no harm to others.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// Work of a WorkerProcess. Requests and the lines of their answers:
///   open FAST SLOW GPU...\nLIBRARY
///                             "none WHY", or "driver VERSION", "count GPUS" and facts of each GPU that is open, "fact
///                             INDEX KEY VALUE", and "unwatched INDEX" if the driver reports no events of it; GPU is
///                             INDEX=ADDRESS, or INDEX where the address is not known; FAST and SLOW are milliseconds
///                             from one request of that kind to the next
///   fast INDEX...             "fast", then "INDEX METRIC VALUE METRIC VALUE ...", "moved INDEX METRIC VALUE ..." with
///                             what a counter grew since the last such line, and "xid INDEX NUMBER"
///   slow INDEX...             "slow", then the same, "INDEX/linkN METRIC VALUE ...", the same with
///                             INDEX/REGION, and "process PID INDEX METRIC VALUE ..."; "omitted" where there was no
///                             room for lines. What is dear is left out of some answers: see call_pace.h.
///                             The first "slow" has all: "cost NAME MICROSECONDS" of the values that "fast" has
///                             (each_second), of all, and of each call at its slowest. Once for each: "slow_call CALL",
///                             which from now on is left out of some answers for its time on the clock
///   last INDEX...             "last", then the counters of which a report has the total, and "xid INDEX NUMBER"
///   end                       "ended": no handle of the driver is open any more
/// Only the GPUs that were named are opened, read and watched; "open" may name more later. "open" reports no events.
/// "lost INDEX RESULT": it does not answer any more, and is not read again; in an answer to "open": it could not be
/// opened. Values that the driver does not support for a GPU are in no line.
[[nodiscard]] std::string query_gpus(const std::string& root, std::string_view request);

}  // namespace reveal
