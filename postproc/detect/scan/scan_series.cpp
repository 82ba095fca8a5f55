#include "postproc/detect/scan/scan_series.h"

#include <Eigen/Core>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/inner_products.h"
#include "postproc/numerics/median.h"
#include "postproc/numerics/normal_scores.h"
#include "postproc/numerics/present_values.h"

namespace reveal {

namespace {

constexpr double kMinPresent = 0.2;  // share of the samples: a process or a device may live for a part of the job
constexpr std::size_t kMinAwayFromMedian = 6;
constexpr double kMinCrossingsPerSecond = 0.2;  // a level that crosses its median less often drifts
constexpr double kNearCopy = 0.9;
constexpr std::size_t kMostPerSubsystem = 1000;  // series that detect: bounds the time on nodes with many thousands
constexpr std::size_t kChunk = 64;
constexpr double kLongJobSeconds = 300;  // from here on one-second means are enough for a correlation

/// Equal for peers: "cpu3" -> "cpu#". The job's first network namespace has no name, so "eth0" and "ns2/eth0" are
/// peers.
std::string peer_pattern(std::string_view instance) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto digits = std::find_if(instance.begin(), instance.end(), is_digit);
  const std::string_view prefix = instance.substr(0, static_cast<std::size_t>(digits - instance.begin()));
  const auto rest = std::find_if_not(digits, instance.end(), is_digit);
  if (prefix == "ns" && digits != rest) return std::string(rest == instance.end() ? rest : rest + 1, instance.end());
  if (digits == rest || std::find(kPeerNames.begin(), kPeerNames.end(), prefix) == kPeerNames.end())
    return std::string(instance);
  return std::string(prefix) + "#" + std::string(rest, instance.end());
}

class Builder {
 public:
  Builder(const Telemetry& telemetry, std::size_t begin, std::size_t samples, const ScanScale& scale)
      : telemetry_(telemetry), begin_(begin), scale_(scale) {
    input_.samples = samples;
    input_.of_what = scale.has_start_and_end ? ScanOf::job : ScanOf::stream;
  }

  ScanInput build() {
    std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> peers;
    std::vector<double> rate;
    for (std::size_t c = 0; c < telemetry_.channels.size(); ++c) {
      const Channel& channel = telemetry_.channels[c];
      if (!moves(c)) continue;
      const bool copied = !is_counted(channel.kind);
      if (!add(c, c, SeriesForm::rate, copied ? rate_of(c, rate) : values_of(c))) continue;
      if (channel.kind == Kind::gauge && !drifts(values_of(c))) add(c, c, SeriesForm::level, values_of(c));
      peers[{channel.family + '\n' + channel.metric, peer_pattern(channel.instance)}].push_back(c);
    }
    for (const auto& [key, members] : peers) add_contrasts(members);
    return std::move(input_);
  }

 private:
  [[nodiscard]] std::span<const double> values_of(std::size_t channel) const {
    return telemetry_.series(channel).subspan(begin_, input_.samples);
  }

  [[nodiscard]] bool moves(std::size_t c) const {
    const Channel& channel = telemetry_.channels[c];
    if (channel.subsystem == Subsystem::self || channel.kind == Kind::state) return false;
    const PresentValues values = present_values(values_of(c));
    return !values.constant() && enough(values.present);
  }

  [[nodiscard]] bool enough(std::size_t present) const {
    return static_cast<double>(present) >= kMinPresent * static_cast<double>(input_.samples);
  }

  /// Increments per step: counters come as such; for gauges it removes the drift of free memory and caches.
  std::span<const double> rate_of(std::size_t channel, std::vector<double>& rate) const {
    const auto values = values_of(channel);
    rate.assign(values.begin(), values.end());
    if (is_counted(telemetry_.channels[channel].kind)) return rate;
    for (std::size_t t = rate.size() - 1; t > 0; --t) rate[t] -= rate[t - 1];
    rate[0] = begin_ > 0 ? values[0] - telemetry_.series(channel)[begin_ - 1] : kNaN;
    return rate;
  }

  [[nodiscard]] bool drifts(std::span<const double> level) const {
    const double median = median_of({level.begin(), level.end()});
    std::size_t crossings = 0;
    double previous = kNaN;
    for (const double value : level) {
      if (std::isnan(value)) continue;
      if (!std::isnan(previous)) crossings += (value > median) != (previous > median) ? 1 : 0;
      previous = value;
    }
    const double seconds = static_cast<double>(level.size()) / scale_.samples_per_second;
    return static_cast<double>(crossings) < kMinCrossingsPerSecond * seconds;
  }

  bool add(std::size_t channel, std::size_t peer, SeriesForm form, std::span<const double> values) {
    scores_.resize(input_.samples);
    const RankSummary summary = normal_scores(values, scores_);
    if (summary.away_from_median < kMinAwayFromMedian || !enough(summary.present)) return false;
    const Channel& source = telemetry_.channels[channel];
    // The difference of a held gauge is one jump and zeros: the noise of its interval means depends on their length
    // only.
    const bool held = is_counted(source.kind) || form == SeriesForm::level;
    input_.series.push_back({.channel = channel,
                             .peer = peer,
                             .form = form,
                             .subsystem = source.subsystem,
                             .variance = summary.squares / static_cast<double>(summary.present),
                             .hold = held ? std::max(1.0, source.period_seconds / telemetry_.step_seconds) : 1.0});
    input_.scores.push_back(std::exchange(scores_, {}));
    return true;
  }

  /// Contrasts cancel the phases that all members go through together. A member that is missing has none: a rank that
  /// ended does not stand still.
  void add_contrasts(const std::vector<std::size_t>& members) {
    if (members.size() < 2) return;
    std::vector<std::vector<double>> values;
    for (const std::size_t member : members) {
      rate_of(member, values.emplace_back());
      if (!is_counted(telemetry_.channels[member].kind)) continue;
      // Single precision sorts faster, and a difference of roots carries no more.
      for (double& value : values.back()) value = value < 0 ? 0.0F : static_cast<float>(std::sqrt(value));
    }
    if (members.size() == 2) {
      for (std::size_t t = 0; t < input_.samples; ++t) values[0][t] = static_cast<float>(values[0][t] - values[1][t]);
      add(members[0], members[1], SeriesForm::contrast, values[0]);
      return;
    }
    std::vector<double> middle(input_.samples);
    std::vector<double> at_once(members.size());
    for (std::size_t t = 0; t < input_.samples; ++t) {
      for (std::size_t m = 0; m < members.size(); ++m) at_once[m] = values[m][t];
      middle[t] = median_of(at_once);
    }
    for (std::size_t m = 0; m < members.size(); ++m) {
      for (std::size_t t = 0; t < input_.samples; ++t) values[m][t] = static_cast<float>(values[m][t] - middle[t]);
      add(members[m], members[m], SeriesForm::contrast, values[m]);
    }
  }

  const Telemetry& telemetry_;
  std::size_t begin_;
  const ScanScale& scale_;
  ScanInput input_;
  std::vector<float> scores_;
};

}  // namespace

ScanInput scan_input(const Telemetry& telemetry, std::size_t begin, std::size_t samples, const ScanScale& scale) {
  return Builder(telemetry, begin, samples, scale).build();
}

SeriesCorrelation::SeriesCorrelation(const ScanInput& input, const ScanScale& scale) {
  const double seconds = static_cast<double>(input.samples) / scale.samples_per_second;
  const std::size_t block = seconds > kLongJobSeconds ? std::max<std::size_t>(1, scale.samples(1)) : 1;
  length_ = input.samples / block;
  vectors_.resize(input.series.size() * length_);
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    const auto scores = input.of(i);
    Eigen::Map<Eigen::VectorXf> vector(vectors_.data() + i * length_, static_cast<Eigen::Index>(length_));
    for (std::size_t k = 0; k < length_; ++k) {
      float sum = 0;
      for (std::size_t t = k * block; t < (k + 1) * block; ++t) sum += scores[t];
      vector[static_cast<Eigen::Index>(k)] = sum;
    }
    vector.array() -= vector.mean();
    if (const float norm = vector.norm(); norm > 0) vector /= norm;
  }
}

double SeriesCorrelation::between(std::size_t a, std::size_t b) const {
  const auto n = static_cast<Eigen::Index>(length_);
  return Eigen::Map<const Eigen::VectorXf>(unit_vector(a).data(), n)
      .dot(Eigen::Map<const Eigen::VectorXf>(unit_vector(b).data(), n));
}

void mark_detecting(ScanInput& input, const SeriesCorrelation& correlation) {
  std::map<Subsystem, std::vector<std::size_t>> by_subsystem;
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    input.series[i].detects = false;
    if (!is_memory_level(input.series[i])) by_subsystem[input.series[i].subsystem].push_back(i);
  }
  const auto length = static_cast<Eigen::Index>(correlation.length());
  for (const auto& [subsystem, members] : by_subsystem) {
    const auto most = static_cast<Eigen::Index>(std::min(members.size(), kMostPerSubsystem));
    Eigen::MatrixXf kept(length, most);  // unit vectors, one per column
    Eigen::MatrixXf chunk(length, static_cast<Eigen::Index>(std::min(members.size(), kChunk)));
    Eigen::Index n = 0;
    for (std::size_t first = 0; first < members.size() && n < most; first += kChunk) {
      const std::size_t size = std::min(kChunk, members.size() - first);
      for (std::size_t i = 0; i < size; ++i) {
        const auto vector = correlation.unit_vector(members[first + i]);
        chunk.col(static_cast<Eigen::Index>(i)) = Eigen::Map<const Eigen::VectorXf>(vector.data(), length);
      }
      const auto now = chunk.leftCols(static_cast<Eigen::Index>(size));
      const Eigen::MatrixXf known = inner_products(now, kept.leftCols(n));
      const Eigen::MatrixXf among = inner_products(now);
      std::vector<Eigen::Index> mine;
      for (Eigen::Index i = 0; i < now.cols() && n < most; ++i) {
        const bool copy =
            (known.cols() > 0 && known.row(i).cwiseAbs().maxCoeff() > kNearCopy) ||
            std::any_of(mine.begin(), mine.end(), [&](auto k) { return std::abs(among(i, k)) > kNearCopy; });
        if (copy) continue;
        input.series[members[first + static_cast<std::size_t>(i)]].detects = true;
        mine.push_back(i);
        kept.col(n++) = now.col(i);
      }
    }
  }
}

}  // namespace reveal
