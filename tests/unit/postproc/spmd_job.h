// Synthetic nodes of one data-parallel job: equal but for a natural spread from node to node, blocks that wander
// together with the job and a little by themselves, and a fault in some channels of one node.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "postproc/peers/node_profile.h"

namespace reveal {

struct SpmdJob {
  std::size_t nodes = 8;
  std::size_t channels = 120;
  std::size_t blocks = 12;
  double spread = 0.03;      // between equal nodes
  double uneven_spread = 1;  // > 1: channels differ in their spread by up to this factor, both ways
  double wander = 0.02;      // variation of one node's blocks
  double phases = 0.3;       // variation of the whole job's blocks
  std::size_t shifted = 6;
  std::size_t odd_node = 0;
  double shift = 0;  // 0.2: 20 % more
  bool own_time = false;
  unsigned seed = 1;

  static constexpr std::int64_t kBlock = 64'000'000'000;
  static constexpr std::int64_t kBegin = 27'000'000 * kBlock;

  [[nodiscard]] static std::string node_name(std::size_t node) {
    std::string digits = std::to_string(node + 1);
    return "n" + std::string(4 - digits.size(), '0') + digits;
  }
  [[nodiscard]] static std::string channel_name(std::size_t channel) {
    std::string digits = std::to_string(channel);
    return "metric_" + std::string(4 - digits.size(), '0') + digits + ".rate";
  }
  /// Spread over the channels, so that every subsystem has some.
  [[nodiscard]] bool is_shifted(std::size_t channel) const {
    const std::size_t stride = channels / std::max<std::size_t>(shifted, 1);
    return channel % stride == 3 % stride && channel / stride < shifted;
  }

  [[nodiscard]] std::vector<NodeProfile> record() const {
    constexpr Subsystem kSubsystems[] = {Subsystem::cpu, Subsystem::network, Subsystem::process, Subsystem::cpu,
                                         Subsystem::network};
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, 1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<double> level(channels);
    std::vector<double> channel_spread(channels);
    std::vector<std::vector<double>> phase(channels, std::vector<double>(blocks));
    for (std::size_t c = 0; c < channels; ++c) {
      level[c] = 1000 * std::exp(2 * normal(random));
      channel_spread[c] = spread * std::pow(uneven_spread, uniform(random));
      for (double& value : phase[c]) value = phases * normal(random);
    }
    std::vector<NodeProfile> profiles(nodes);
    for (std::size_t n = 0; n < nodes; ++n) {
      NodeProfile& profile = profiles[n];
      profile.node = node_name(n);
      profile.begin_utc_ns = kBegin;
      profile.end_utc_ns = kBegin + kBlock * static_cast<std::int64_t>(blocks);
      profile.block_ns = kBlock;
      profile.first_block = kBegin / kBlock;
      profile.sparkline_step_ns = kBlock;
      for (std::size_t c = 0; c < channels; ++c) {
        const double factor =
            (n == odd_node && is_shifted(c) ? 1 + shift : 1) * std::exp(channel_spread[c] * normal(random));
        add(profile, channel_name(c), "count/s", kSubsystems[c % std::size(kSubsystems)], Kind::counter,
            level[c] * factor, phase[c], normal, random);
      }
      if (own_time) {
        const double factor = (n == odd_node ? 1 + shift : 1) * std::exp(spread * normal(random));
        add(profile, std::string(kOwnTime), "cpus", Subsystem::process, Kind::counter, 8 * factor,
            std::vector<double>(blocks, 0.0), normal, random);
      }
      std::sort(profile.channels.begin(), profile.channels.end(),
                [](const ProfileChannel& a, const ProfileChannel& b) { return a.name < b.name; });
    }
    return profiles;
  }

 private:
  void add(NodeProfile& profile, const std::string& name, const std::string& unit, Subsystem subsystem, Kind kind,
           double level, const std::vector<double>& phase, std::normal_distribution<double>& normal,
           std::mt19937& random) const {
    ProfileChannel channel{.name = name, .unit = unit, .subsystem = subsystem, .kind = kind};
    double sum = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      const double value = level * std::exp(phase[b] + wander * normal(random));
      channel.blocks.push_back(static_cast<float>(value));
      sum += value;
    }
    channel.mean = sum / static_cast<double>(blocks);
    profile.channels.push_back(std::move(channel));
  }
};

inline std::vector<const NodeProfile*> pointers(const std::vector<NodeProfile>& profiles) {
  std::vector<const NodeProfile*> all;
  all.reserve(profiles.size());
  for (const NodeProfile& profile : profiles) all.push_back(&profile);
  return all;
}

}  // namespace reveal
