// Student's t with a variance that borrows strength from hundreds of other channels (Smyth, Stat. Appl. Genet. Mol.
// Biol. 3(1):3, 2004), and control of the false-discovery rate over many of them (Benjamini and Hochberg, 1995).
#pragma once

#include <span>
#include <vector>

namespace reveal {

/// P(|T| >= |t|) for `df` degrees of freedom, which need not be whole.
[[nodiscard]] double two_sided_p(double t, double df);

/// The common distribution of the channels' variances: a sample variance of d degrees of freedom is drawn from s2 *
/// chi2_d/d, scattered from channel to channel as if s2 itself had been seen with `df` degrees of freedom.
struct VariancePrior {
  double s2 = 0;
  double df = 0;  // few: channels differ much in their noise, and no channel may borrow

  [[nodiscard]] double moderated(double variance, double variance_df) const {
    return (variance_df * variance + df * s2) / (variance_df + df);
  }
};

/// The smallest variance to which any prior of variance_prior() with this `least_s2` moderates it.
[[nodiscard]] double least_moderated(double variance, double variance_df, double least_s2);
/// Student's t of a value that is `effect` away from the median of `others` values of this variance; `se2` is the
/// squared standard error of the value itself. The variance of a median is pi/2 times that of a mean.
[[nodiscard]] double t_against_median(double effect, double variance, double others, double se2 = 0);

/// Fits the prior to the positive ones of many sample variances with `variance_df` degrees of freedom each. s2 is their
/// median and at least `least_s2`; df lies in [least_df, most_df].
[[nodiscard]] VariancePrior variance_prior(std::span<const double> variances, double variance_df, double least_s2);

/// The largest p that is still a discovery at rate q; -1 when there is none. `all`: tests, if those with a p above q,
/// which are no discoveries, are not in `p`.
[[nodiscard]] double discovery_limit(std::vector<double> p, double q, std::size_t all = 0);

}  // namespace reveal
