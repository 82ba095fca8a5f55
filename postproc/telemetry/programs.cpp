#include "postproc/telemetry/programs.h"

#include <algorithm>
#include <functional>
#include <map>

#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kLongestProgram = 40;

/// "" where several programs were in the place.
using ProgramsByPlace = std::map<std::string, std::string, std::less<>>;

/// The process in a place, until the next one is put there or it ends.
struct Occupant {
  std::string_view program;
  std::int64_t begin_ns = 0;
};

ProgramsByPlace programs_in(std::span<const Event> events, EventSpan at) {
  ProgramsByPlace programs;
  std::map<std::string_view, Occupant> now;
  const auto leave = [&](std::string_view place, std::int64_t end_ns) {
    const auto occupant = now.find(place);
    if (occupant == now.end()) return;
    if (occupant->second.begin_ns <= at.end_ns && end_ns >= at.begin_ns) {
      const std::string program = printable(occupant->second.program, kLongestProgram);
      const auto [known, added] = programs.try_emplace(std::string(place), program);
      if (!added && known->second != program) known->second.clear();
    }
    now.erase(occupant);
  };
  for (const Event& event : events) {
    const std::string_view text = event.text;
    const std::string_view place = text.substr(0, text.find(' '));
    if (event.code == "process_begin" && place.size() < text.size()) {
      leave(place, event.time_ns);
      now[place] = {text.substr(place.size() + 1), event.time_ns};
    } else if (event.code == "process_end") {
      leave(place, event.time_ns);
    }
  }
  while (!now.empty()) leave(now.begin()->first, INT64_MAX);
  return programs;
}

}  // namespace

std::string program_in(std::span<const Event> events, std::string_view place, EventSpan at) {
  const ProgramsByPlace programs = programs_in(events, at);
  const auto known = programs.find(place);
  return known == programs.end() ? "" : known->second;
}

void name_programs(std::span<const Event> events, EventSpan at, std::span<Channel> channels) {
  const ProgramsByPlace programs = programs_in(events, at);
  for (Channel& channel : channels) {
    if (channel.scope != Scope::process) continue;
    const auto known = programs.find(std::string_view(channel.instance).substr(0, channel.instance.find('/')));
    channel.program = known == programs.end() ? "" : known->second;
  }
}

std::string instance_in_words(const Channel& channel) {
  if (channel.program.empty()) return channel.instance;
  const std::string_view instance = channel.instance;
  const std::string_view place = instance.substr(0, instance.find('/'));
  const std::size_t number = std::min(place.find_first_of("0123456789"), place.size());
  std::string words =
      channel.program + " (" + std::string(place.substr(0, number)) + ' ' + std::string(place.substr(number)) + ')';
  if (place.size() < instance.size()) words += " on " + std::string(instance.substr(place.size() + 1));
  return words;
}

}  // namespace reveal
