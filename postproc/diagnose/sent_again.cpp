#include "postproc/diagnose/sent_again.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "postproc/diagnose/loss_recoveries.h"
#include "postproc/diagnose/lossy_paths.h"

namespace reveal {
namespace {

/// A recovery and its reports are a round trip apart, and recoveries may be rare.
constexpr double kOvertakingSeconds = 10;

/// A recovery from a loss sends the lost segment again, which no report is about, and what the sender took for lost
/// with it, which is one block of segments and so one report, or two. Where packets overtake each other, it sends every
/// segment again that is late by more than a part of a round trip, and gets a report of each. In the laboratory, the
/// windows with the most reports for each recovery had 7.6 to 17 where a tenth of the packets was overtaken, and 0 to
/// 3.5 at losses of .1 to 1 %, one of them 4.1. A port that limits had up to 8.8 for a moment: what it drops is then
/// missing in the reports, by far more than kMostHidden.
constexpr double kReportsPerRecovery = 4;

/// An acknowledgement has room for one report (RFC 2883): the second of two separate duplicates that arrive together is
/// told to nobody. Part of the needless segments; in the laboratory .07 to .11, or .15 without the reports that the
/// kernel did not believe.
constexpr double kMostHidden = 0.15;

/// The sums up to each step, in which missing values count nothing; empty where the metric was not measured.
std::vector<double> running_sums(const Telemetry& telemetry, std::string_view metric) {
  std::vector<double> sums;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric != metric) continue;
    const auto series = telemetry.series(i);
    if (std::all_of(series.begin(), series.end(), [](double each) { return std::isnan(each); })) continue;
    sums.resize(telemetry.samples + 1, 0);
    double sum = 0;
    for (std::size_t t = 0; t < series.size(); ++t) {
      if (!std::isnan(series[t])) sum += series[t];
      sums[t + 1] += sum;
    }
  }
  return sums;
}

}  // namespace

RetransmitCount& RetransmitCount::operator+=(const RetransmitCount& more) {
  segments += more.segments;
  duplicates += more.duplicates;
  overtaken += more.overtaken;
  overtaken_duplicates += more.overtaken_duplicates;
  return *this;
}

double RetransmitCount::lost() const {
  const double unreported = std::max(0.0, overtaken - overtaken_duplicates);
  return missing() - std::min(unreported, kMostHidden / (1 - kMostHidden) * overtaken_duplicates);
}

bool were_lost(const RetransmitCount& again, double traffic, const LossThresholds& least) {
  const double lost = again.lost();
  if (lost < kLeastLost) return false;
  return again.missing() >= least.min_missing_share * again.segments ||
         (traffic > 0 && lost >= least.min_missing * traffic);
}

std::vector<bool> overtaken_steps(const Telemetry& telemetry) {
  std::vector<bool> overtaken(telemetry.samples, false);
  const auto again = running_sums(telemetry, "tcp.RetransSegs");
  const auto recoveries = running_sums(telemetry, kRecoveries);
  const auto reordered = running_sums(telemetry, "tcpext.TCPSACKReorder");
  const auto reports = running_sums(telemetry, "tcpext.TCPDSACKRecv");
  if (again.empty() || recoveries.empty() || reordered.empty() || reports.empty()) return overtaken;
  const auto segments = running_sums(telemetry, "tcpext.TCPDSACKRecvSegs");
  // Reports that the kernel does not believe, as when there are more than it sent again.
  const auto dubious = running_sums(telemetry, "tcpext.TCPDSACKIgnoredDubious");
  // Where only the acknowledgement is late, a probe for a loss at the end of what was sent, and what is sent again when
  // the time is over, are sent in vain without a recovery.
  const auto probes = running_sums(telemetry, "tcpext.TCPLossProbes");
  const auto timeouts = running_sums(telemetry, "tcpext.TCPTimeouts");
  const auto half =
      static_cast<std::size_t>(std::max(1.0, std::round(0.5 * kOvertakingSeconds / telemetry.step_seconds)));
  for (std::size_t t = 0; t < telemetry.samples; ++t) {
    const std::size_t begin = t > half ? t - half : 0;
    const std::size_t end = std::min(telemetry.samples, t + half);
    const auto around = [&](const std::vector<double>& sums) { return sums.empty() ? 0.0 : sums[end] - sums[begin]; };
    const double recovered = around(recoveries);
    const double answered = around(reports) - around(probes) - around(timeouts);
    // As many duplicates as segments sent again: the network made them, and they tell nothing of an order.
    const double duplicates = segments.empty() ? around(reports) : around(segments) + around(dubious);
    overtaken[t] = recovered >= kLeastLost && around(reordered) >= recovered && duplicates < around(again) &&
                   answered >= kReportsPerRecovery * recovered;
  }
  return overtaken;
}

}  // namespace reveal
