// The newest collectives of ranks, as events of traces have them: a line for each communicator of a process.
#include <map>
#include <string>

#include "hdf5schema/basics/text.h"
#include "postproc/peers/matched_calls.h"
#include "postproc/telemetry/last_collectives.h"
#include "target.h"

namespace reveal::fuzz::collectives {
namespace {

void require_inert(const std::optional<CommunicatorCall>& call) {
  if (!call) return;
  require(call->function.find('\x1b') == std::string::npos, "no escape in a name");
  require(!details_of(*call).empty(), "a call has details");
}

void run(std::string_view input) {
  std::vector<Event> events;
  std::string_view line;
  while (next_line(input, line)) {
    const std::string process(next_word(line));
    events.push_back({5, process, std::string(kLastCollectives), std::string(line)});
  }
  std::map<std::string, QuietTime> ranks;
  for (const StandingProcess& one : last_collectives(events)) ranks[one.process].communicators.push_back(one.last);
  std::vector<const QuietTime*> all;
  std::vector<std::size_t> indices;
  for (const auto& [name, quiet] : ranks) {
    indices.push_back(all.size());
    all.push_back(&quiet);
  }
  require_inert(common_call(all, indices));
  for (const auto& matched : {match_numbered_calls(all), match_sizes(all)}) {
    if (!matched) continue;
    require(!matched->present.empty() && !matched->absent.empty(), "some ranks wait for others");
    require(matched->present.size() + matched->absent.size() <= all.size(), "no rank is named twice");
    require_inert(matched->call);
    require_inert(matched->others);
  }
}

const RegisteredTarget kTarget{{"collectives", run}};

}  // namespace
}  // namespace reveal::fuzz::collectives
