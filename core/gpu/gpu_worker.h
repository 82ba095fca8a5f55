// What a worker process does with the NVIDIA library: it answers in lines of text, so that an answer can be recorded
// and replayed, and so that a library that hangs or crashes takes nothing along.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// Work of a WorkerProcess. Requests and the lines of their answers:
///   open GPU...\nLIBRARY      "none WHY", or "driver VERSION", "count GPUS" and facts of each GPU that is open, "fact
///                             INDEX KEY VALUE"; GPU is INDEX=ADDRESS, or INDEX where the address is not known
///   fast INDEX...             "fast", then "INDEX METRIC VALUE METRIC VALUE ..." and "xid INDEX NUMBER"
///   slow INDEX...             "slow", then the same, "INDEX/linkN METRIC VALUE ..." and
///                             "process PID INDEX METRIC VALUE ..."
///   end                       "ended": no handle of the driver is open any more
/// Only the GPUs that were named are opened, asked and watched; "open" may name more later. "fast" alone tells events.
/// "lost INDEX RESULT": it does not answer any more, and is not asked again. What the driver does not support of a GPU
/// is in no line.
[[nodiscard]] std::string ask_gpus(const std::string& root, std::string_view request);

}  // namespace reveal
