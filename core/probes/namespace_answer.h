// The first line of a child's answer about all network namespaces of the job: its cost, and what the answer lacks.
// "/ NANOSECONDS REFUSED VANISHED OMITTED WHY": no interface has a name with a slash.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

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
    if (!parse_counter(cut_word(line), cost) || !parse_counter(cut_word(line), refused_) ||
        !parse_counter(cut_word(line), vanished) || !parse_counter(cut_word(line), omitted)) {
      return rest;
    }
    child.pause(static_cast<double>(cost) / kShareOfACore);
    longest_cost_ns_ = std::max(longest_cost_ns_, cost);
    not_entered_ += vanished > 0 ? 1 : 0;
    omitted_ = std::max(omitted_, omitted);
    if (!AskedChild::reason_in(line).empty()) child.note_gap(line);
    return rest;
  }

  [[nodiscard]] std::int64_t refused() const noexcept { return refused_; }

  /// `things`: "queues".
  [[nodiscard]] std::string caveat(std::string_view things, const AskedChild& child,
                                   const ProbeContext& context) const {
    std::string text;
    const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
    const std::string subject(things);
    if (refused_ > 0) {
      add(subject + " in " + std::to_string(refused_) +
          " network namespaces of the job are not measured: entering them needs CAP_SYS_ADMIN");
    }
    if (context.namespaces->overflowed()) {
      add("only " + std::to_string(context.namespaces->list().size()) + " network namespaces of the job are measured");
    }
    if (not_entered_ > 0) {
      add("in " + std::to_string(not_entered_) +
          " readings a network namespace was omitted, because the process that identified it had ended");
    }
    if (omitted_ > 0) {
      add(subject + " of " + std::to_string(omitted_) + " interfaces are not measured: there are too many interfaces");
    }
    // Beyond three periods, the time of the events is not known, and the report leaves them out.
    const std::int64_t longest = 3 * context.period.count();
    if (child.longest_pause_ns() > longest) {
      add(subject + " were read only every " + std::to_string(child.longest_pause_ns() / kSecond) +
          " s at times, because reading all of them takes " + std::to_string(longest_cost_ns_ / 1'000'000) +
          " ms: values counted over more than " + std::to_string(longest / kSecond) + " s are not in the report");
    }
    if (const std::string gaps = child.gaps(); !gaps.empty()) add(gaps);
    return text;
  }

 private:
  std::int64_t refused_ = 0;
  std::int64_t not_entered_ = 0;
  std::int64_t omitted_ = 0;
  std::int64_t longest_cost_ns_ = 0;
};

}  // namespace reveal
