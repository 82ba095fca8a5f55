// Flow control stopped a port: the switch sent it pause frames (rx), or this node could not take more and sent them to
// the switch (tx).
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/network_interface.h"
#include "postproc/diagnose/rdma_ports.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_pause {
namespace {

/// A direction of pause frames, and the traffic that they stop.
struct Direction {
  std::string_view time;
  std::string_view frames;
  std::string_view bytes;       // bytes of the network interface
  std::string_view rdma_bytes;  // bytes of its RDMA port, which bypasses the kernel's network
  std::string_view words;
  std::string_view moved;
};
constexpr std::array kDirections = {
    Direction{"net.rx_pause_time", "net.rx_pause", "net.tx_bytes", "ib.xmit_bytes",
              "its switch stopped it from sending, because the network was congested", "left"},
    Direction{"net.tx_pause_time", "net.tx_pause", "net.rx_bytes", "ib.rcv_bytes",
              "it stopped its switch from sending, because this node could not receive as fast", "arrived"},
};

struct Paused {
  const Direction* direction = nullptr;
  std::string interface;
  MetricSeries signal;  // share of time, or frames per second where the card does not count time
  double least = 0;     // in its unit
  bool in_time = false;

  [[nodiscard]] std::string words(double value) const {
    return in_time ? number(100 * value) + " % of the time" : number(value) + " pause frames/s";
  }
};

/// Frames per second that stop a port for good: each stops it for 65,535 times 512 bits at most (IEEE 802.3, annex
/// 31B). That is 30/s at 1 Gb/s, and 500/s from 17 Gb/s on. Infinite where the speed is not known.
double frames_that_stop(const RuleContext& context, const std::string& interface) {
  constexpr double kLongestPause = 65'535 * 512.0;  // bits
  double speed = 0;
  for (const std::size_t channel : context.channels("net.speed", interface)) {
    for (const double value : context.telemetry.series(channel)) {
      if (value > speed) speed = value;
    }
  }
  return speed > 0 ? speed / kLongestPause : std::numeric_limits<double>::infinity();
}

std::optional<Paused> paused_of(const RuleContext& context, const Direction& direction, const std::string& interface) {
  constexpr double kNanosecond = 1e-9;
  Paused paused{.direction = &direction, .interface = interface, .signal = {}};
  if (const auto time = context.channels(direction.time, interface); !time.empty()) {
    paused.signal = channel_rate(context, time.front(), kNanosecond, "ratio");
    paused.least = context.threshold("min_share");
    paused.in_time = true;
    return paused;
  }
  const auto frames = context.channels(direction.frames, interface);
  if (frames.empty()) return std::nullopt;
  paused.signal = channel_rate(context, frames.front(), 1, "frames/s");
  paused.least = std::min(context.threshold("min_frames"), frames_that_stop(context, interface));
  return paused;
}

/// Traffic of the interface, or of the RDMA port behind it where that moves more.
std::optional<MetricSeries> traffic_of(const RuleContext& context, const Paused& paused) {
  std::optional<MetricSeries> most;
  const auto take = [&](std::string_view metric, const std::string& instance) {
    for (const std::size_t channel : context.channels(metric, instance)) {
      MetricSeries one = channel_rate(context, channel, 1, "bytes/s");
      const Interval whole{0, one.values.size()};
      const double mean = mean_inside(one.values, whole);
      if (!std::isnan(mean) && (!most || mean > mean_inside(most->values, whole))) most = std::move(one);
    }
  };
  take(paused.direction->bytes, paused.interface);
  const std::string name = interface_name(paused.interface);
  for (const RdmaPort& port : active_rdma_ports(context)) {
    if (port.interface == name) take(paused.direction->rdma_bytes, port.name);
  }
  return most;
}

Finding describe(const RuleContext& context, const Paused& paused, const Excursion& excursion,
                 std::span<const Interval> all) {
  constexpr double kNoticeable = 0.02;
  Finding finding = finding_at(context, excursion.at, interface_values(paused.interface));
  finding.instances = {paused.interface};
  finding.confidence = paused.in_time ? Confidence::likely : Confidence::possible;
  const double length = context.seconds(excursion.at.length());
  const auto traffic = traffic_of(context, paused);
  const auto moved = inside_outside(context, traffic, excursion.at, all);
  if (!moved) {
    set_loss(context, finding, std::nullopt, "not known: the interface's traffic was not measured without pauses");
  } else if (moved->fall() > kNoticeable) {
    set_loss(context, finding, moved->fall() * length,
             fmt::format("{} {} instead of {}", quantity(moved->inside, "bytes/s"), paused.direction->moved,
                         quantity(moved->outside, "bytes/s")));
  } else {
    set_loss(context, finding, std::nullopt, "none seen: as much data moved as usual");
  }
  finding.evidence.push_back(evidence_of(context, paused.signal, excursion));
  finding.evidence.front().detectors = seen_by(confirmed_by(context.detection, excursion.at));
  finding.evidence.front().instance = paused.interface;
  if (moved) finding.evidence.push_back(evidence_of(context, *traffic, *moved, excursion.at));
  const std::string usual =
      std::isnan(excursion.outside) ? "" : fmt::format(" (usually {})", paused.words(std::max(0.0, excursion.outside)));
  finding.sentence = fmt::format("{} of {} was paused for {}, {}{}: {}.", paused.interface, context.telemetry.node,
                                 duration(length), paused.words(excursion.inside), usual, paused.direction->words);
  finding.runner_up = {"pcie.link_downtrained", "a card behind a slow PCI Express link sends pause frames, too"};
  return finding;
}

/// An event that lasts from the first second to the last has no baseline to compare with.
std::optional<Excursion> all_along(const RuleContext& context, const Paused& paused) {
  const std::size_t half = context.telemetry.samples / 2;
  const Interval whole{0, context.telemetry.samples};
  for (const Interval& part : {whole, Interval{0, half}, Interval{half, whole.end}}) {
    if (!(mean_inside(paused.signal.values, part) >= paused.least)) return std::nullopt;
  }
  return Excursion{.at = whole, .inside = mean_inside(paused.signal.values, whole), .outside = kNaN};
}

std::vector<Finding> check(const RuleContext& context) {
  std::vector<Finding> findings;
  bool measured = false;
  for (const Direction& direction : kDirections) {
    std::vector<std::size_t> channels = context.channels(direction.frames);
    if (channels.empty()) channels = context.channels(direction.time);
    for (const std::size_t channel : channels) {
      const auto paused = paused_of(context, direction, context.telemetry.channels[channel].instance);
      if (!paused) continue;
      measured = true;
      auto found = excursions_of(context, paused->signal.values, paused->least, context.threshold(kMinScore.name),
                                 Cause::external);
      if (found.empty()) {
        if (const auto always = all_along(context, *paused)) found.push_back(*always);
      }
      const std::vector<Interval> all = places(found);
      for (const Excursion& excursion : found) findings.push_back(describe(context, *paused, excursion, all));
    }
  }
  if (!measured) throw Unavailable("not measured: net.rx_pause (no card that counts pause frames)");
  return findings;
}

const RegisteredRule kRule{{
    .id = "net.pause_congestion",
    .title = "Flow control paused a network port",
    .looks_for = "Intervals in which pause frames stop a port (net.rx_pause_time, net.tx_pause_time), or come often "
                 "where the card does not count the time (net.rx_pause, net.tx_pause).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 62,
    .look_alikes = "ib.congestion_xmit_wait,pcie.link_downtrained,a few pauses",
    .proof = Proof::test_double,
    .thresholds =
        {{"min_share", 0.01, "ratio", "least part of the time in which the port was paused"},
         {"min_frames", 500, "/s",
          "least rate of pause frames, if the card does not count the time; on a slower port, the rate that stops it"},
         {"min_seconds", 10, "s", "shortest interval: one row of these counters"},
         kMinScore,
         kMinLostSeconds,
         kMinLostPercent},
    .user_remedy = {{"#SBATCH --switches=1@0:30:00   # nodes of one switch, where the site has described its switches: "
                     "wait half an hour for them at most",
                     "job"}},
    .advice = {{"Set NCCL_IB_TC only to the traffic class that the site has published.", "nccl"}},
    .admin_remedy =
        {"ethtool -S {interface} | grep -i -E 'pause|xoff|pfc'   # which priority, which direction",
         "mlnx_qos -i {interface}   # flow control and trust must be the same on every node and switch port",
         {"dcb pfc show dev {interface}   # the same with iproute2", kOr},
         {"Look in the network namespace of the interface: on {node}, lsns -t net lists a process of each namespace, "
          "and nsenter -n -t with its number, before ethtool -S, enters it.",
          "in_namespace"},
         "Find the slow receiver: check its PCI Express link, its interrupts, its ring."},
    .verify = {.expected = "the port is paused less than 0.1 % of the time"},
    .sources = {"https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_pause
