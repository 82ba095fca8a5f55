// Recall, host found and false findings of the comparison between nodes, on synthetic data-parallel jobs:
//   peers_bench [JOBS]      default 24 jobs a row; prints a table and the time for 2,000 nodes
// "even" rows have the same natural spread of 3 % in every channel, as in the study the method comes from; in "uneven"
// rows channels differ in their spread by up to a factor of four both ways, as real counters do.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "postproc/peers/job_rule.h"
#include "tests/unit/postproc/spmd_job.h"

namespace {

using namespace reveal;

struct Score {
  double recall = 0;               // share of the shifted channels that were found
  double listed = 0;               // jobs in which the odd node has a deviation at all
  double found = 0;                // jobs with a finding that names the odd node and no other
  int discoveries = 0, wrong = 0;  // channels of nodes
  int findings = 0;                // about another node
};

Score score(SpmdJob job, int jobs) {
  Score score;
  for (int i = 0; i < jobs; ++i) {
    job.seed = 1000 + static_cast<unsigned>(i);
    job.odd_node = static_cast<std::size_t>(i) % job.nodes;
    const auto profiles = job.record();
    const PeerComparison comparison = compare_peers(pointers(profiles));
    std::set<std::string> true_channels;
    for (std::size_t c = 0; c < job.channels; ++c) {
      if (job.is_shifted(c)) true_channels.insert(SpmdJob::channel_name(c));
    }
    double hits = 0;
    for (const PeerDeviation& deviation : comparison.deviations) {
      const bool right = job.shift != 0 && deviation.node == SpmdJob::node_name(job.odd_node) &&
                         true_channels.count(deviation.channel) > 0;
      hits += right ? 1 : 0;
      score.wrong += right ? 0 : 1;
      ++score.discoveries;
    }
    score.recall += hits / static_cast<double>(job.shifted) / jobs;
    score.listed += hits > 0 ? 1.0 / jobs : 0;
    bool named = false;
    for (const Finding& finding : run_job_rules({.comparison = comparison, .nodes = {}, .job = {}})) {
      const bool right = job.shift != 0 && finding.nodes == std::vector<std::string>{SpmdJob::node_name(job.odd_node)};
      named = named || right;
      score.findings += right ? 0 : 1;
    }
    score.found += named ? 1.0 / jobs : 0;
  }
  return score;
}

}  // namespace

int main(int argc, char** argv) {
  const int jobs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 24;
  std::printf("%d jobs a row, 120 channels, 6 shifted on one node\n", jobs);
  std::printf("%-7s %5s %6s  %7s %12s %11s %21s %15s\n", "spread", "nodes", "shift", "recall", "host listed",
              "host found", "wrong of all channels", "false findings");
  for (const double uneven : {1.0, 4.0}) {
    for (const std::size_t nodes : {4U, 8U, 16U}) {
      for (const double shift : {0.0, 0.1, 0.2, 0.4}) {
        SpmdJob job;
        job.nodes = nodes;
        job.shift = shift;
        job.uneven_spread = uneven;
        const Score row = score(job, jobs);
        std::printf("%-7s %5zu %4.0f %%  %7.2f %12.2f %11.2f %14d of %3d %15d\n", uneven > 1 ? "uneven" : "even", nodes,
                    100 * shift, row.recall, row.listed, row.found, row.wrong, row.discoveries, row.findings);
      }
    }
  }
  for (const std::size_t nodes : {250U, 500U, 1000U, 2000U}) {
    SpmdJob job;
    job.nodes = nodes;
    job.shift = 0.2;
    const auto profiles = job.record();
    const auto begin = std::chrono::steady_clock::now();
    const PeerComparison comparison = compare_peers(pointers(profiles));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%5zu nodes x 120 channels: %.2f s, %zu tests, %zu deviations\n", nodes, seconds, comparison.tests,
                comparison.deviations.size() + comparison.deviations_left_out);
  }
}
