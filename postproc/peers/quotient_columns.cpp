#include "postproc/peers/quotient_columns.h"

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/numerics/median.h"

namespace reveal {
namespace {

double mean_of_metric(const NodeProfile& node, std::string_view metric) {
  const ProfileChannel* channel = node.find(metric);
  if (channel != nullptr) return channel->mean;
  return node.is_zero(metric) ? 0 : kNaN;
}

/// NaN where there were too few requests to speak of the time of one.
double quotient(const PairMetric& metric, double value, double per) {
  return per >= metric.least_per && per > 0 ? metric.scale * value / per : kNaN;
}

/// Value in a block of the node; of a constant channel in all of them.
double in_block(const ProfileChannel& channel, std::size_t block) {
  if (channel.blocks.empty()) return channel.mean;
  return block < channel.blocks.size() ? channel.blocks[block] : kNaN;
}

std::unique_ptr<ProfileChannel> channel_of(const PairMetric& metric, const NodeProfile& node) {
  const ProfileChannel* value = node.find(metric.metric);
  const ProfileChannel* per = node.find(metric.per);
  if (value == nullptr || per == nullptr) return nullptr;
  const double mean = quotient(metric, value->mean, per->mean);
  if (!std::isfinite(mean)) return nullptr;
  auto channel = std::make_unique<ProfileChannel>();
  channel->name = metric.name;
  channel->unit = metric.unit;
  channel->subsystem = value->subsystem;
  channel->mean = mean;
  const std::size_t blocks = std::max(value->blocks.size(), per->blocks.size());
  for (std::size_t b = 0; b < blocks; ++b) {
    channel->blocks.push_back(static_cast<float>(quotient(metric, in_block(*value, b), in_block(*per, b))));
  }
  return channel;
}

/// Leaves out the nodes that do much more or less of this work than most.
void leave_out_other_work(const PairMetric& metric, std::string_view work, const std::vector<const NodeProfile*>& nodes,
                          QuotientColumn& column) {
  std::vector<double> amounts;
  for (const NodeProfile* node : nodes) {
    const double amount = mean_of_metric(*node, work);
    if (!std::isnan(amount)) amounts.push_back(amount);
  }
  const double usual = amounts.empty() ? kNaN : median_of(std::move(amounts));
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const double part = mean_of_metric(*nodes[n], work) / usual;
    if (!(part >= metric.least_work && part <= metric.most_work)) column.channels[n].reset();
  }
}

}  // namespace

std::vector<QuotientColumn> quotient_columns(const std::vector<const NodeProfile*>& nodes) {
  std::vector<QuotientColumn> columns;
  for (const PairMetric& metric : pair_metrics()) {
    if (metric.per.empty()) continue;
    QuotientColumn column{&metric, {}};
    for (const NodeProfile* node : nodes) column.channels.push_back(channel_of(metric, *node));
    std::string_view rest = metric.work;
    for (std::string_view work = next_word(rest); !work.empty(); work = next_word(rest)) {
      leave_out_other_work(metric, work, nodes, column);
    }
    const bool any = std::any_of(column.channels.begin(), column.channels.end(),
                                 [](const auto& channel) { return channel != nullptr; });
    if (any) columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace reveal
