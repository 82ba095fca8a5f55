// The first line of a child's answer about all network namespaces of the job: its cost, and what the answer lacks.
// "/ NANOSECONDS REFUSED VANISHED OMITTED WHY": no interface has a name with a slash.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/namespace_sockets.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/asked_child.h"
#include "core/sampler/pace.h"
#include "hdf5schema/basics/text.h"

namespace reveal {

/// The line, for the child. `omitted`: interfaces for which there was no space. `why`: "" if all lists were complete.
[[nodiscard]] inline std::string first_line_of(std::int64_t cost_ns, const NamespaceSockets& sockets,
                                               std::size_t omitted, std::string_view why) {
  std::string line = "/ " + std::to_string(cost_ns) + ' ' + std::to_string(sockets.refused()) + ' ' +
                     std::to_string(sockets.vanished()) + ' ' + std::to_string(omitted);
  if (!why.empty()) line.append(1, ' ').append(why);
  return line + '\n';
}

/// "eth0" in the job's first namespace, "ns2/eth0" in its second one.
[[nodiscard]] inline std::string name_in(const NamespaceSockets::Space& space, std::string_view interface) {
  std::string name = NetNamespaces::name_of(space.place);
  if (!name.empty()) name += '/';
  return name.append(interface);
}

/// Sentences of a caveat as one text.
[[nodiscard]] inline std::string as_caveat(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text.append(text.empty() ? "" : "; ").append(sentence);
  return text;
}

/// Namespaces that a child's readings did not have, and the time of the readings.
struct NamespaceReadings {
  std::int64_t refused = 0;      // namespaces that could not be entered
  std::int64_t not_entered = 0;  // readings without one
  std::int64_t longest_cost_ns = 0;

  /// `things`: "queues".
  void add_gaps(const std::string& things, const ProbeContext& context, std::vector<std::string>& sentences) const {
    if (refused > 0) {
      sentences.push_back(things + " in " + std::to_string(refused) +
                          " network namespaces of the job are not measured: entering them needs CAP_SYS_ADMIN");
    }
    if (context.namespaces->overflowed()) {
      sentences.push_back("only " + std::to_string(context.namespaces->list().size()) +
                          " network namespaces of the job are measured");
    }
    if (not_entered > 0) {
      sentences.push_back(
          "in " + std::to_string(not_entered) +
          " readings a network namespace was omitted, because the process that identified it had ended");
    }
  }

  /// Beyond three periods, the time of the events is not known, and the report leaves them out.
  void add_pauses(const std::string& things, const AskedChild& child, const ProbeContext& context,
                  std::vector<std::string>& sentences) const {
    const std::int64_t longest = 3 * context.period.count();
    if (child.longest_pause_ns() > longest) {
      sentences.push_back(things + " were read only every " + std::to_string(child.longest_pause_ns() / kSecond) +
                          " s at times, because reading all of them takes " +
                          std::to_string(longest_cost_ns / 1'000'000) + " ms: values counted over more than " +
                          std::to_string(longest / kSecond) + " s are not in the report");
    }
    if (const std::string gaps = child.gaps(); !gaps.empty()) sentences.push_back(gaps);
  }
};

class NamespaceAnswer {
 public:
  /// Takes the first line off the answer, and lets the child rest as long as its cost demands. Recordings of earlier
  /// versions have no such line.
  std::string_view take(std::string_view answer, AskedChild& child) {
    std::string_view rest = answer;
    std::string_view line;
    if (!answer.starts_with("/ ") || !next_line(rest, line)) return answer;
    static_cast<void>(cut_word(line));
    std::int64_t cost = 0;
    std::int64_t vanished = 0;
    std::int64_t omitted = 0;
    if (!parse_counter(cut_word(line), cost) || !parse_counter(cut_word(line), readings_.refused) ||
        !parse_counter(cut_word(line), vanished) || !parse_counter(cut_word(line), omitted)) {
      return rest;
    }
    child.pause(static_cast<double>(cost) / kShareOfACore);
    readings_.longest_cost_ns = std::max(readings_.longest_cost_ns, cost);
    readings_.not_entered += vanished > 0 ? 1 : 0;
    omitted_ = std::max(omitted_, omitted);
    if (!AskedChild::reason_in(line).empty()) child.note_gap(line);
    return rest;
  }

  [[nodiscard]] std::int64_t refused() const noexcept { return readings_.refused; }

  /// `things`: "queues".
  [[nodiscard]] std::string caveat(std::string_view things, const AskedChild& child,
                                   const ProbeContext& context) const {
    std::vector<std::string> sentences;
    const std::string subject(things);
    readings_.add_gaps(subject, context, sentences);
    if (omitted_ > 0) {
      sentences.push_back(subject + " of " + std::to_string(omitted_) +
                          " interfaces are not measured: there are too many interfaces");
    }
    readings_.add_pauses(subject, child, context, sentences);
    return as_caveat(sentences);
  }

 private:
  NamespaceReadings readings_;
  std::int64_t omitted_ = 0;
};

}  // namespace reveal
