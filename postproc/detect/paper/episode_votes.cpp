#include "postproc/detect/paper/episode_votes.h"

#include <algorithm>
#include <vector>

#include "postproc/detect/paper/paper_pipeline.h"

namespace reveal {

VotingSpan voting_span(const Episode& episode, std::size_t samples, const ScanScale& scale) {
  const std::size_t around = scale.samples(kVotingSeconds);
  const std::size_t begin = episode.begin - std::min(episode.begin, around);
  return {begin, std::min({samples, episode.end + around, begin + 4 * around})};
}

void add_votes(const Telemetry& telemetry, std::size_t offset, const VotingSpan& span, const DetectOptions& options,
               Episode& episode) {
  if (telemetry.channels.size() > kMostVotingChannels) return;
  const std::size_t begin = span.begin - offset;
  const std::size_t samples = span.end - span.begin;
  const WindowGrid grid =
      window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, begin, samples);
  if (grid.count < kLeastWindows) return;
  const WindowVotes votes = window_votes(telemetry, options, begin, samples);
  std::vector<Method> said;
  for (std::size_t m = 0; m < votes.methods.size(); ++m) {
    for (std::size_t w = 0; w < votes.grid.count; ++w) {
      const std::size_t middle = offset + votes.grid.first_sample(w) + votes.grid.length / 2;
      if (!votes.flags[m][w] || middle < episode.begin || middle >= episode.end) continue;
      said.push_back(votes.methods[m]);
      break;
    }
  }
  // After the one that found it, before a counter that witnesses it.
  episode.methods.insert(episode.methods.begin() + 1, said.begin(), said.end());
  episode.agreement = static_cast<int>(episode.methods.size());
}

}  // namespace reveal
