// A server of NFS that answered slowly, or not at all for a while. A server that hangs leaves no slow request in the
// counters while it hangs: they count completed requests. The signs are that nothing is completed while processes of
// the job wait in the kernel, and afterwards that requests took that long.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/busiest_disk.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::io_nfs_slow_server {
namespace {

constexpr double kRowSeconds = 1;  // period of the probe

struct Kind {
  std::string name;  // "READ"
  std::size_t requests = 0;
  std::size_t round_trip = 0;
  std::size_t execute = 0;
};
struct Mount {
  std::string point;
  std::vector<Kind> kinds;
};

/// Returns the mounts of the channels "/home:READ", "/home:WRITE", ... that have all three numbers.
std::vector<Mount> mounts_of(const RuleContext& context) {
  std::vector<Mount> mounts;
  for (const std::size_t requests : context.channels("nfs.requests")) {
    const std::string& instance = context.telemetry.channels[requests].instance;
    const auto round_trip = context.channels("nfs.round_trip_time", instance);
    const auto execute = context.channels("nfs.execute_time", instance);
    const std::size_t colon = instance.rfind(':');
    if (round_trip.empty() || execute.empty() || colon == std::string::npos) continue;
    const std::string point = instance.substr(0, colon);
    auto mount = std::find_if(mounts.begin(), mounts.end(), [&](const Mount& each) { return each.point == point; });
    if (mount == mounts.end()) mount = mounts.insert(mounts.end(), {point, {}});
    mount->kinds.push_back({instance.substr(colon + 1), requests, round_trip.front(), execute.front()});
  }
  return mounts;
}

/// Adds the rates of all kinds of requests of one mount, per second; NaN where none was measured.
MetricSeries rate_of_kinds(const RuleContext& context, const Mount& mount, std::size_t Kind::*channel, double scale,
                           std::string_view unit) {
  MetricSeries sum;
  for (const Kind& kind : mount.kinds) {
    const MetricSeries more = channel_rate(context, kind.*channel, scale, unit);
    if (sum.values.empty()) {
      sum = more;
      continue;
    }
    for (std::size_t t = 0; t < sum.values.size(); ++t) {
      if (std::isnan(more.values[t])) continue;
      sum.values[t] = std::isnan(sum.values[t]) ? more.values[t] : sum.values[t] + more.values[t];
    }
  }
  return sum;
}

/// Bytes sent and received by requests of the mount.
std::optional<MetricSeries> moved_bytes(const RuleContext& context, const Mount& mount) {
  std::optional<MetricSeries> sum;
  for (const std::string_view metric : {"nfs.sent_bytes", "nfs.received_bytes"}) {
    for (const Kind& kind : mount.kinds) {
      for (const std::size_t channel : context.channels(metric, mount.point + ':' + kind.name)) {
        const MetricSeries more = channel_rate(context, channel, 1, "bytes/s");
        if (!sum) {
          sum = more;
          continue;
        }
        for (std::size_t t = 0; t < sum->values.size(); ++t) sum->values[t] += more.values[t];
      }
    }
  }
  return sum;
}

// --- a server that does not answer ---

/// Steps in which not one request of the mount was completed.
std::vector<Interval> silences(const RuleContext& context, std::span<const double> completed) {
  std::vector<Interval> found;
  const std::size_t least = context.steps(context.threshold("min_hang"));
  for (std::size_t t = 0; t < completed.size(); ++t) {
    Interval at{t, t};
    while (at.end < completed.size() && completed[at.end] == 0) ++at.end;
    if (at.length() + context.steps(kRowSeconds) >= least) found.push_back(at);
    t = at.end;
  }
  return found;
}

/// The end of a silence in which processes waited in the kernel all the time, up to when they went on: counters of a
/// second show completed requests up to a second too early.
Interval waiting_in(const RuleContext& context, Interval silence, std::span<const double> blocked) {
  const double least = context.threshold("min_blocked");
  Interval at{silence.end, silence.end};
  while (at.begin > silence.begin && blocked[at.begin - 1] >= least) --at.begin;
  const std::size_t last = std::min(blocked.size(), silence.end + context.steps(kRowSeconds));
  while (at.end < last && blocked[at.end] >= least) ++at.end;
  return at;
}

enum class Answer : std::uint8_t { none_expected, late, never };

/// Requests that waited are completed at last and took as long as that; or are still without an answer at the end.
Answer answer_to(const RuleContext& context, const Mount& mount, Interval silence, Interval at) {
  constexpr double kMostOfIt = 0.8;
  const std::size_t after = std::min(context.telemetry.samples, silence.end + context.steps(2 * kRowSeconds));
  if (silence.end < after) {
    const MetricSeries time = rate_of_kinds(context, mount, &Kind::execute, 1e-9, "s/s");
    const double took = mean_inside(time.values, {silence.end, after}) * context.seconds(after - silence.end);
    if (took >= kMostOfIt * context.seconds(at.length())) return Answer::late;
  }
  if (after < context.telemetry.samples) return Answer::none_expected;
  for (const std::size_t channel : context.channels("nfs.unanswered", mount.point)) {
    const auto waiting = context.telemetry.series(channel);
    const auto least = [&](Interval where) {
      double smallest = kNaN;
      for (std::size_t t = where.begin; t < where.end; ++t) smallest = std::fmin(smallest, waiting[t]);
      return smallest;
    };
    const Interval inside{std::min(at.end, at.begin + context.steps(2 * kRowSeconds)), silence.end};
    if (least(inside) > least({0, at.begin})) return Answer::never;  // a request that was sent twice counts for ever
  }
  return Answer::none_expected;
}

// --- cost ---

/// Part of the time that the job lost: its cpus stood still, or more of its processes than usual waited in the kernel.
struct Cost {
  double share = 0;
  std::string how = "none seen: the job used its cpus as before";
};

Cost cost_of(const RuleContext& context, Finding& finding, Interval at, std::span<const Interval> all) {
  Cost cost;
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  const auto blocked = level(context, "job.blocked", "processes");
  const auto processes = level(context, "job.processes", "processes");
  if (const auto change = inside_outside(context, used, at, all); change && change->fall() > 0) {
    cost = {change->fall(),
            fmt::format("the job used {} instead of {}", counted(change->inside, "cpu"), number(change->outside))};
  }
  if (const auto change = inside_outside(context, blocked, at, all)) {
    const double width = processes ? std::max(1.0, mean_inside(processes->values, at)) : 1.0;
    if (change->excess() / width > cost.share) {
      cost = {std::min(1.0, change->excess() / width),
              fmt::format("{} more of its {} than usual waited in the kernel", number(change->excess()),
                          quantity(width, "processes"))};
    }
  }
  // A signal that did not change, or changed the other way, is no evidence.
  const auto add = [&](const std::optional<MetricSeries>& signal, double sign) {
    const auto change = inside_outside(context, signal, at, all);
    if (change && sign * change->excess() > 0) finding.evidence.push_back(evidence_of(context, *signal, *change, at));
  };
  add(used, -1);
  add(blocked, 1);
  for (const std::string_view metric : {"nfs.retransmissions", "nfs.timeouts"}) add(rate(context, metric, 1, "/s"), 1);
  return cost;
}

void set_cost(const RuleContext& context, Finding& finding, const Cost& cost, Interval at) {
  const bool seen = cost.share >= context.threshold("min_lost_share");
  set_loss(context, finding, seen ? std::optional(cost.share * context.seconds(at.length())) : std::nullopt,
           seen ? cost.how : "none seen: the job used its cpus as before");
}

/// A hung server and a lossy way to it look alike from here.
bool lost_on_the_way(const RuleContext& context, Interval at) {
  return found_beside(context, at, [](const Finding& finding) {
    return finding.id == "net.tcp_retrans_fault" && finding.severity >= Severity::warning;
  });
}

Finding describe_hang(const RuleContext& context, const Mount& mount, const MetricSeries& completed, Interval at,
                      std::span<const Interval> all, Answer answer) {
  Finding finding = finding_at(context, at, {{"mount", mount.point}, {"nfs", "yes"}});
  finding.instances = {mount.point};
  finding.confidence = Confidence::likely;
  const auto requests = inside_outside(context, completed, at, all);
  if (requests) {
    Evidence evidence = evidence_of(context, completed, *requests, at);
    evidence.instance = mount.point;
    evidence.detectors = seen_by(confirmed_by(context.detection, at));
    finding.evidence.push_back(std::move(evidence));
  }
  set_cost(context, finding, cost_of(context, finding, at, all), at);
  finding.sentence = fmt::format(
      "The server of {} did not answer {} for {}{}{}: no request was completed, and processes of the job waited in the "
      "kernel.",
      mount.point, context.telemetry.node, duration(context.seconds(at.length())),
      requests ? " (usually " + number(requests->outside) + " requests/s)" : "",
      answer == Answer::never ? ", until the end of the recording" : "");
  finding.runner_up = {"io.metadata_storm", "many requests by the job itself: here no request was completed"};
  return finding;
}

std::vector<Finding> hangs(const RuleContext& context, const Mount& mount, std::span<const double> blocked,
                           std::vector<Interval>& reported) {
  const MetricSeries completed = rate_of_kinds(context, mount, &Kind::requests, 1, "/s");
  std::vector<std::pair<Interval, Answer>> found;
  for (const Interval silence : silences(context, completed.values)) {
    const Interval at = waiting_in(context, silence, blocked);
    if (context.seconds(at.length()) < context.threshold("min_hang")) continue;
    if (busiest_disk(context, at).busy > context.threshold("max_disk_busy")) continue;
    const Answer answer = answer_to(context, mount, silence, at);
    if (answer == Answer::none_expected || lost_on_the_way(context, at)) continue;
    found.emplace_back(at, answer);
    reported.push_back({at.begin, std::min(context.telemetry.samples, at.end + context.steps(2 * kRowSeconds))});
  }
  std::vector<Finding> findings;
  findings.reserve(found.size());
  for (const auto& [at, answer] : found) {
    findings.push_back(describe_hang(context, mount, completed, at, reported, answer));
  }
  return findings;
}

// --- servers of any kind that do not answer the collector ---

/// Steps in which file servers may have answered nothing: they hung at the request, ten seconds before the row that
/// reports it, but not yet a period before that.
std::vector<Interval> without_answer(const RuleContext& context) {
  constexpr double kUntilHung = 10;
  std::vector<Interval> found;
  for (const std::size_t channel : context.channels("fs.not_answering")) {
    const auto series = context.telemetry.series(channel);
    const std::size_t before = context.steps(kUntilHung + context.telemetry.channels[channel].period_seconds);
    for (std::size_t t = 0; t < series.size(); ++t) {
      Interval at{t, t};
      while (at.end < series.size() && series[at.end] == 1) ++at.end;
      if (at.length() > 0) found.push_back({at.begin - std::min(at.begin, before), at.end});
      t = at.end;
    }
  }
  return found;
}

/// The longest part of it in which the job's cpus stood still.
Interval standing_still(const RuleContext& context, const MetricSeries& used, Interval window) {
  constexpr double kStill = 0.2;
  const Interval away[] = {window};
  const double limit = kStill * mean_outside(used.values, away);
  const auto smooth = over_seconds(context, used.values);
  Interval longest{window.begin, window.begin};
  for (std::size_t t = window.begin; t < window.end; ++t) {
    Interval at{t, t};
    while (at.end < window.end && smooth[at.end] <= limit) ++at.end;
    if (at.length() > longest.length()) longest = at;
    t = at.end;
  }
  return longest;
}

/// Where the collector's own request hung, as it noted then, one on each line.
std::string places_without_answer(const RuleContext& context, Interval window) {
  const TimeSpan span = context.span(window.begin, window.end);
  for (const Event& event : context.events) {
    if (event.code != "not_answering" || !context.happened_in(event, span, kRowSeconds)) continue;
    return event.text.substr(0, event.text.find_last_not_of('\n') + 1);
  }
  return "";
}

/// "/work, /scratch"
std::string on_one_line(const std::string& places) {
  std::string line;
  for (const char letter : places) line += letter == '\n' ? ", " : std::string(1, letter);
  return line;
}

Finding describe_no_answer(const RuleContext& context, Interval at, const std::string& mounts,
                           std::span<const Interval> all) {
  const std::string places = on_one_line(mounts);
  Finding finding = finding_at(context, at, mounts.empty() ? JobValues{} : JobValues{{"mount", mounts}});
  if (!places.empty()) finding.instances = {places};
  finding.confidence = Confidence::likely;
  finding.evidence.push_back({.metric = "fs.not_answering",
                              .instance = places,
                              .node = context.telemetry.node,
                              .feature = "time without an answer to a request for the size",
                              .observed = context.seconds(at.length()),
                              .expected = std::nullopt,
                              .unit = "s",
                              .span = finding.intervals.front(),
                              .detectors = {Method::own_request},
                              .score = std::nullopt});
  set_cost(context, finding, cost_of(context, finding, at, all), at);
  finding.sentence = fmt::format("The file server{} did not answer {} for about {}.",
                                 places.empty() ? "s" : (places == mounts ? " of " : "s of ") + places,
                                 context.telemetry.node, duration(context.seconds(at.length())));
  finding.runner_up = {"io.slow_reads", "slow storage: here not even a query of the free space was answered"};
  return finding;
}

std::vector<Finding> no_answers(const RuleContext& context, std::span<const Interval> reported) {
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  const auto windows = without_answer(context);
  std::vector<Finding> findings;
  for (const Interval window : windows) {
    const auto known = [&](Interval other) { return overlap(window, other) > 0; };
    if (std::any_of(reported.begin(), reported.end(), known) || lost_on_the_way(context, window)) continue;
    const Interval still = used ? standing_still(context, *used, window) : window;
    const bool felt = context.seconds(still.length()) >= context.threshold("min_hang");
    findings.push_back(
        describe_no_answer(context, felt ? still : window, places_without_answer(context, window), windows));
  }
  return findings;
}

// --- a server that answers slowly ---

/// Seconds from sending a request to its answer; NaN where there was none.
MetricSeries time_of_answers(const RuleContext& context, const Kind& kind) {
  MetricSeries answers = channel_rate(context, kind.round_trip, 1e-9, "s");
  const MetricSeries requests = channel_rate(context, kind.requests, 1, "/s");
  for (std::size_t t = 0; t < answers.values.size(); ++t) {
    answers.values[t] = requests.values[t] > 0 ? answers.values[t] / requests.values[t] : kNaN;
  }
  return answers;
}

/// More requests or more bytes than usual take longer at the healthiest server.
bool asks_for_more(const RuleContext& context, const Mount& mount, Interval at, std::span<const Interval> all) {
  constexpr double kMore = 0.25;
  const auto more = [&](const std::optional<InsideOutside>& change) {
    return change && change->excess() > kMore * change->outside;
  };
  return more(inside_outside(context, rate_of_kinds(context, mount, &Kind::requests, 1, "/s"), at, all)) ||
         more(inside_outside(context, moved_bytes(context, mount), at, all));
}

/// The first reads of an epoch are slow because the data was not read before: it must have been faster before.
bool was_faster_before(const RuleContext& context, const Kind& kind, Interval at) {
  const MetricSeries requests = channel_rate(context, kind.requests, context.telemetry.step_seconds, "count");
  const auto sum = [&](Interval where) {
    const double mean = mean_inside(requests.values, where);
    return std::isnan(mean) ? 0 : mean * static_cast<double>(where.length());
  };
  const double least = context.threshold("min_requests");
  return sum({0, at.begin}) >= least && sum(at) >= least;
}

struct Slow {
  const Kind* kind;
  MetricSeries answers;
  Excursion excursion;
};

std::vector<Slow> slow_answers(const RuleContext& context, const Mount& mount, std::span<const Interval> reported) {
  std::vector<Slow> all;
  for (const Kind& kind : mount.kinds) {
    if (kind.name == "other") continue;
    const MetricSeries answers = time_of_answers(context, kind);
    for (const Excursion& excursion :
         excursions_of(context, answers.values, context.threshold("min_slower"), context.threshold(kMinScore.name))) {
      const bool known =
          std::any_of(reported.begin(), reported.end(), [&](Interval at) { return overlap(at, excursion.at) > 0; });
      if (known || excursion.recurring || excursion.inside < context.threshold("min_ratio") * excursion.outside)
        continue;
      if (was_faster_before(context, kind, excursion.at)) all.push_back({&kind, answers, excursion});
    }
  }
  // An interval is reported once, for the kind that was delayed most.
  std::stable_sort(all.begin(), all.end(), [](const Slow& a, const Slow& b) {
    return a.excursion.inside / a.excursion.outside > b.excursion.inside / b.excursion.outside;
  });
  std::vector<Slow> kept;
  for (Slow& slow : all) {
    const auto same = [&](const Slow& other) { return overlap(other.excursion.at, slow.excursion.at) > 0; };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(slow));
  }
  return kept;
}

Finding describe_slow(const RuleContext& context, const Mount& mount, const Slow& slow, std::span<const Interval> all) {
  const Interval at = slow.excursion.at;
  Finding finding = finding_at(context, at, {{"mount", mount.point}, {"nfs", "yes"}});
  finding.instances = {mount.point};
  const auto confirmed = confirmed_by(context.detection, at);
  finding.confidence = confirmed || slow.excursion.beyond ? Confidence::likely : Confidence::possible;
  Evidence evidence = evidence_of(context, slow.answers, slow.excursion);
  evidence.instance = mount.point + ':' + slow.kind->name;
  evidence.feature = "mean per request";
  evidence.detectors = seen_by(confirmed);
  finding.evidence.push_back(std::move(evidence));
  add_contrast(context, finding, rate_of_kinds(context, mount, &Kind::requests, 1, "/s"), at, all);
  set_cost(context, finding, cost_of(context, finding, at, all), at);
  finding.sentence = fmt::format(
      "The server of {} answered {} slowly for {}: a {} request took {} ms (usually {} ms), although the job sent no "
      "more requests than usual.",
      mount.point, context.telemetry.node, duration(context.seconds(at.length())), slow.kind->name,
      number(1000 * slow.excursion.inside), number(1000 * slow.excursion.outside));
  finding.runner_up = {"io.metadata_storm", "the job's own requests: there were no more than usual"};
  return finding;
}

/// Appends the findings of one mount, and their intervals to `reported`.
void check_mount(const RuleContext& context, const Mount& mount, const MetricSeries& blocked,
                 std::vector<Interval>& reported, std::vector<Finding>& findings) {
  for (Finding& finding : hangs(context, mount, over_seconds(context, blocked.values), reported)) {
    findings.push_back(std::move(finding));
  }
  const auto slow = slow_answers(context, mount, reported);
  for (const Slow& each : slow) reported.push_back(each.excursion.at);
  for (const Slow& each : slow) {
    if (asks_for_more(context, mount, each.excursion.at, reported) || lost_on_the_way(context, each.excursion.at))
      continue;
    findings.push_back(describe_slow(context, mount, each, reported));
  }
}

std::vector<Finding> check(const RuleContext& context) {
  const bool nfs = !context.channels("nfs.requests").empty();
  if (!nfs && context.channels("fs.not_answering").empty()) {
    if (!context.channels("nfs.rpc_calls").empty()) return {};  // it was not used
    throw Unavailable("not measured: nfs.requests, fs.not_answering (no file server was seen)");
  }
  std::vector<Finding> findings;
  std::vector<Interval> reported;
  if (nfs) {
    const MetricSeries blocked = needed(level(context, "job.blocked", "processes"), "job.blocked");
    for (const Mount& mount : mounts_of(context)) {
      std::vector<Interval> of_mount;
      check_mount(context, mount, blocked, of_mount, findings);
      reported.insert(reported.end(), of_mount.begin(), of_mount.end());
    }
  }
  for (Finding& finding : no_answers(context, reported)) findings.push_back(std::move(finding));
  return findings;
}

const RegisteredRule kRule{{
    .id = "io.nfs_slow_server",
    .title = "A file server answered slowly, or not at all",
    .looks_for = "Intervals in which requests to an NFS server took longer than usual (nfs.round_trip_time), or no "
                 "request was completed (nfs.requests, nfs.unanswered) while processes of the job waited in the kernel "
                 "(job.blocked); or file servers of any kind that did not answer the collector (fs.not_answering).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::storage,
    .order = 80,
    .look_alikes = "io.metadata_storm,net.tcp_retrans_fault,a busy disk,a cold cache",
    .proof = Proof::real,
    .thresholds = {{"min_hang", 5, "s", "shortest time without an answer"},
                   {"min_blocked", 0.5, "processes", "least number of processes that wait at that time"},
                   {"max_disk_busy", 0.6, "ratio",
                    "utilisation of the busiest local disk; above, processes may wait for that disk"},
                   {"min_slower", 0.02, "s", "least additional time of a request"},
                   {"min_ratio", 5, "ratio", "least time of a request, in multiples of the usual time"},
                   {"min_requests", 20, "requests", "least number of requests, before and inside"},
                   {"min_seconds", 5, "s", "shortest interval of slow answers"},
                   kMinScore,
                   {"min_lost_share", 0.1, "ratio", "least part of that time that the job lost"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"grep -A 99 ' mounted on {mount} ' /proc/self/mountstats | grep -E 'xprt|READ:|WRITE:'   # on "
                     "{node}: requests and their time",
                     "nfs"},
                    "timeout -s KILL 5 df {mount}   # on {node}: it prints \"Killed\" if the server does not answer"},
    .advice =
        {"Tell the administrators the time and the mount. Other jobs that use it may have waited, too.",
         "Let the job read and write on storage of the node: copy the input there when it begins, and the results back "
         "when it ends."},
    .admin_remedy = {{"nfsiostat 5 {mount}   # on {node}: avg RTT is the server and the network, avg exe "
                      "the client too",
                      "nfs"},
                     "dmesg -T | grep -iE 'nfs|lustre|fuse|not responding'   # on {node}"},
    .verify = {.expected = "df of the mount answers at once"},
    .sources = {"https://man7.org/linux/man-pages/man8/nfsiostat.8.html",
                "https://man7.org/linux/man-pages/man8/mountstats.8.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::io_nfs_slow_server
