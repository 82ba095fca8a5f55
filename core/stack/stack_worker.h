// The part of the probe "stack" that may take long, for its worker process: finds the libraries of the job's processes,
// attaches to their functions, reads the counts, and gives turns to functions that cost the job too much.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// "open" -> "ok WAY ENTRY_NS TIMED_NS BIAS_NS": the delays of a counted and of a timed call, and the part of it in a
/// duration; or "none WHY". "open broker": the privilege is behind the socket WorkerProcess::kKeptFile (call_broker.h).
/// "open here MS HUNG", "open broker MS HUNG": after so many milliseconds without a request, nothing stays attached;
/// nor at the next request after attaching has hung for HUNG milliseconds, with which the process ends. More lines of
/// that request: "budget PPM", the share of the processes' cpu time that counting may take, in millionths; "without
/// NAME ...", functions that are never attached (is_among). "calls", or "calls durations", and a line "INSTANCE PID
/// START_TICKS CPU_NS" for each process -> lines
///   "functions NAME ..."  functions that are counted somewhere; those that rest are not
///   "note SENTENCE"       a missing measurement and its reason
///   "attaching INSTANCE FUNCTIONS NS"  of the process for which it took longest: so many functions, when they were
///       attached first
///   "count INSTANCE NAME CALLS BYTES TIME LONGEST IN_FLIGHT ERRORS LAST_ERROR STATUS:CALLS ..."  while it rests, only
///       in the answer before it is attached again
///   "steps INSTANCE COUNT"  training steps begun
///   "step INSTANCE NUMBER BEGIN DURATION WAITING BYTES GC"  one that ended, reported once
///   "called INSTANCE NAME ORDER RANKS ID NUMBER BEGIN LAST"  a collective that is kept by itself, with its
///       communicator (ORDER from 0) and its number on that, from 1; RANKS and ID are 0 where they are not known; LAST
///       is 1 where the process has ended
///   "rare INSTANCE CODE TEXT"  an event: a garbage collection of a millisecond or more, or the begin or the end of a
///       communicator
///   "durations INSTANCE NAME BITS:CALLS ..."  if they are asked for: calls that took less than 2 to the power of BITS,
///       in nanoseconds, and no less than half of that; below 2^10, all (CallCounts::bits_of())
///   "standing INSTANCE comm=ORDER ..."  the newest collectives on one of its communicators, once no other has come
///       for long
/// Returns for each instance the sums over all its processes; LONGEST since the last answer, IN_FLIGHT since when the
/// oldest call is under way, times in nanoseconds; "-" where it is not measured. A step is reported when the next one
/// has begun, and like collectives in a later answer if one is full. Attaching happens afterwards, while no caller
/// waits.
[[nodiscard]] std::string query_stack(const std::string& root, std::string_view request);

}  // namespace reveal
