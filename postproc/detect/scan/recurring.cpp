#include "postproc/detect/scan/recurring.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/scan/repeated_events.h"

namespace reveal {
namespace {

constexpr double kLengthFactor = 2;

/// Euclidean norm 1, by metric: which of several instances is the strongest is chance.
using Signature = std::map<std::string_view, double>;

Signature signature_of(const Episode& episode, std::span<const Channel> channels) {
  Signature signature;
  for (std::size_t i = 0; i < std::min(kMaxReasons, episode.reasons.size()); ++i) {
    const Reason& reason = episode.reasons[i];
    signature[channels[reason.channel].metric] += reason.z;
  }
  double squares = 0;
  for (const auto& [metric, z] : signature) squares += z * z;
  for (auto& [metric, z] : signature) z /= squares > 0 ? std::sqrt(squares) : 1;
  return signature;
}

double likeness(const Signature& a, const Signature& b) {
  double product = 0;
  for (const auto& [metric, z] : a) {
    const auto same = b.find(metric);
    if (same != b.end()) product += z * same->second;
  }
  return product;
}

bool similar_length(const Episode& a, const Episode& b) {
  const auto one = static_cast<double>(a.end - a.begin);
  const auto other = static_cast<double>(b.end - b.begin);
  return std::max(one, other) <= kLengthFactor * std::min(one, other);
}

}  // namespace

void withdraw_recurring(std::span<const Channel> channels, std::vector<Episode>& episodes) {
  std::vector<Episode*> scanned;
  std::vector<Signature> signatures;
  for (Episode& episode : episodes) {
    if (episode.methods.front() != Method::interval_scan || has_label(episode, Label::edge)) continue;
    scanned.push_back(&episode);
    signatures.push_back(signature_of(episode, channels));
  }
  std::vector<std::size_t> like(scanned.size(), 1);
  for (std::size_t i = 0; i < scanned.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (like[i] > kMostRepeats && like[k] > kMostRepeats) continue;  // one more changes nothing
      if (scanned[i]->subsystem != scanned[k]->subsystem || !similar_length(*scanned[i], *scanned[k])) continue;
      if (likeness(signatures[i], signatures[k]) < kRepeatLikeness) continue;
      ++like[i];
      ++like[k];
    }
  }
  for (std::size_t i = 0; i < scanned.size(); ++i) {
    if (like[i] <= kMostRepeats) continue;
    if (!has_label(*scanned[i], Label::recurring)) scanned[i]->labels.push_back(Label::recurring);
    scanned[i]->tier = Tier::none;
  }
}

}  // namespace reveal
