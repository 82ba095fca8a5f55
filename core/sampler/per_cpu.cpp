#include "core/sampler/per_cpu.h"

#include <algorithm>
#include <cmath>

#include "core/kernel_text/kernel_words.h"

namespace reveal {
namespace {

constexpr int kMostCpus = 65'536;  // numbers beyond it are no cpus

// A queue of a card is served by one cpu, or by few in turn: they need no summary.
constexpr std::size_t kFewCells = 4;
// Stands out at the start: so many times the mean of the others, since the host was booted.
constexpr double kStandsOut = 4;
constexpr std::size_t kMostStandingOut = 256;
// Later, channels are dear: the trace has space for its first ones.
constexpr std::size_t kMostLater = 32;

/// The value of one cell for this sample: its level or its increase; kMissing where that is not known.
std::int64_t growth(std::int64_t now, std::int64_t before) noexcept {
  if (now == kMissing || before == kMissing || now < before) return kMissing;
  return now - before;
}

}  // namespace

struct PerCpu::Summary {
  std::size_t count = 0;
  std::int64_t rest = 0;  // sum of cells without a channel of their own
  std::size_t rest_count = 0;
  double sum = 0;
  double squares = 0;
  std::int64_t least = 0, most = 0;
  int least_cpu = 0, most_cpu = 0;

  void add(const Cell& cell, std::int64_t value) noexcept {
    const auto real = static_cast<double>(value);
    if (count == 0 || value < least) {
      least = value;
      least_cpu = cell.cpu;
    }
    if (count == 0 || value > most) {
      most = value;
      most_cpu = cell.cpu;
    }
    ++count;
    sum += real;
    squares += real * real;
    if (cell.channel != Family::kNoChannel) return;
    rest = wrapping_sum(rest, value);
    ++rest_count;
  }
  [[nodiscard]] std::int64_t deviation() const noexcept {
    const double mean = sum / static_cast<double>(count);
    return std::llround(std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean)));
  }
};

PerCpu::PerCpu(const ProbeContext& context, const FamilyTable& values, const FamilyTable& places,
               const Options& options)
    : context_(context), options_(options), values_(context.family(values)), levels_(values.kind == Kind::gauge) {
  const std::size_t members =
      options.members_expected != 0 ? options.members_expected : context.host.cpus_online.size();
  if (members <= kMostInDetail) return;
  places_ = &context.family(places);
  if (context.job_cpus == nullptr || options.member != "cpu") return;
  own_job_ = context.job_cpus->size() <= kMostInDetail;
  job_group_ = !own_job_;
}

std::size_t PerCpu::add_metric(std::string_view name) {
  rows_.emplace_back().metric = name;
  return rows_.size() - 1;
}

bool PerCpu::of_job(int cpu) const noexcept {
  return context_.job_cpus != nullptr && std::binary_search(context_.job_cpus->begin(), context_.job_cpus->end(), cpu);
}

bool PerCpu::always_own(int cpu) const noexcept {
  return !summarised() || (own_job_ && of_job(cpu));
}

void PerCpu::begin() noexcept {
  ++sample_;
  values_.begin();
  if (places_ != nullptr) places_->begin();
}

void PerCpu::appear(int cpu) {
  const auto place = static_cast<std::size_t>(cpu);
  if (place >= seen_.size()) seen_.resize(place + 1, {0, 0});
  if (seen_[place][0] != sample_) seen_[place] = {sample_, seen_[place][0]};
}

std::int32_t PerCpu::set(std::size_t metric, int cpu, std::int64_t value) {
  if (cpu < 0 || cpu >= kMostCpus) return Family::kNoChannel;
  appear(cpu);
  Row& row = rows_[metric];
  std::vector<Cell>& cells = row.cells;
  const auto before = [](const Cell& cell, int number) { return cell.cpu < number; };
  std::size_t at = row.cursor;
  if (at > 0 && cells[at - 1].cpu >= cpu) at = 0;  // not in the order of the last line
  if (at < cells.size() && cells[at].cpu < cpu) {
    at = static_cast<std::size_t>(
        std::lower_bound(cells.begin() + static_cast<std::ptrdiff_t>(at), cells.end(), cpu, before) - cells.begin());
  }
  row.cursor = at;
  if (at == cells.size() || cells[at].cpu != cpu) {
    if (options_.only_what_happened && value == 0) return Family::kNoChannel;
    Cell cell{.cpu = cpu};
    // It was 0 a sample ago, unless the cpu was not there.
    const bool was_zero =
        options_.only_what_happened && sample_ > 1 && seen_[static_cast<std::size_t>(cpu)][1] == sample_ - 1;
    if (was_zero) cell.before = 0;
    cells.insert(cells.begin() + static_cast<std::ptrdiff_t>(at), cell);
    if (always_own(cpu)) own_channel(row, cells[at]);
  }
  cells[at].now = value;
  ++row.cursor;
  return cells[at].channel;
}

void PerCpu::own_channel(Row& row, Cell& cell) {
  const std::string instance = std::string(options_.member) + std::to_string(cell.cpu);
  cell.channel = values_.add(row.metric, instance, options_.member == "cpu" ? context_.role_of_cpu(cell.cpu) : "node");
}

void PerCpu::commit() noexcept {
  if (sample_ == 1 && summarised()) choose_rows();
  for (Row& row : rows_) store(row);
  if (!pool_.cells.empty()) store(pool_);
  values_.commit();
  if (places_ != nullptr) places_->commit();
  for (Row& row : rows_) {
    row.cursor = 0;
    for (Cell& cell : row.cells) {
      cell.before = cell.now;
      cell.now = kMissing;
    }
  }
  for (Cell& cell : pool_.cells) cell.before = cell.now;
}

bool PerCpu::moved(const Row& row) noexcept {
  return std::any_of(row.cells.begin(), row.cells.end(),
                     [](const Cell& cell) { return growth(cell.now, cell.before) > 0; });
}

// With the first sample, so that the trace begins with the channels it will have.
void PerCpu::choose_rows() {
  std::vector<std::pair<double, Row*>> busiest;
  for (Row& row : rows_) {
    double total = 0;
    for (const Cell& cell : row.cells) total += static_cast<double>(cell.now);
    if (!row.cells.empty()) busiest.emplace_back(total, &row);
  }
  std::stable_sort(busiest.begin(), busiest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [total, row] : busiest) {
    row->placement = metrics_ < options_.most_metrics ? Placement::own : Placement::pooled;
    if (row->placement == Placement::pooled) continue;
    ++metrics_;
    choose_cpus(*row);
  }
}

void PerCpu::choose_cpus(Row& row) {
  const bool few = options_.only_what_happened && row.cells.size() <= kFewCells;
  double total = 0;
  for (const Cell& cell : row.cells) total += static_cast<double>(cell.now);
  const double usual = kStandsOut * total / static_cast<double>(context_.host.cpus_online.size());
  bool all = true;
  for (Cell& cell : row.cells) {
    const bool stands_out =
        options_.keep_busiest && !levels_ && own_<kMostStandingOut&& static_cast<double>(cell.now)> usual;
    if ((few || stands_out) && cell.channel == Family::kNoChannel) {
      own_channel(row, cell);
      own_ += few ? 0 : 1;
    }
    all = all && cell.channel != Family::kNoChannel;
  }
  if (all) return;
  add_channels(row, row.groups[0], false);
  if (job_group_) add_channels(row, row.groups[1], true);
}

void PerCpu::store(Row& row) {
  for (const Cell& cell : row.cells) {
    if (cell.channel != Family::kNoChannel) values_.set(cell.channel, cell.now);
  }
  if (!summarised()) return;
  if (row.placement == Placement::waiting) {
    if (options_.only_what_happened && !moved(row)) return;
    const bool room = metrics_ < options_.most_metrics || &row == &pool_;
    row.placement = room ? Placement::own : Placement::pooled;
    metrics_ += room ? 1 : 0;
  }
  if (row.placement == Placement::pooled) {
    pool(row);
    return;
  }
  store_group(row, false);
  if (job_group_) store_group(row, true);
}

void PerCpu::store_group(Row& row, bool job) {
  Summary summary;
  for (const Cell& cell : row.cells) {
    if (always_own(cell.cpu) || (job_group_ && of_job(cell.cpu) != job)) continue;
    const std::int64_t value = levels_ ? cell.now : growth(cell.now, cell.before);
    if (value != kMissing) summary.add(cell, value);
  }
  if (summary.count == 0) return;
  Group& group = row.groups[job ? 1 : 0];
  if (group.channels[sum] == Family::kNoChannel) {
    if (summary.rest_count == 0) return;  // all of them have channels of their own
    add_channels(row, group, job);
  }
  store_summary(group, summary);
  if (options_.keep_busiest && later_ < kMostLater && summary.most > 0) promote(row, summary.most_cpu);
}

void PerCpu::add_channels(Row& row, Group& group, bool job) {
  const std::string_view instance = job ? kJobCpus : kOtherCpus;
  const std::string_view role = job ? "job" : "node";
  const std::string member = '_' + std::string(options_.member);
  const auto named = [&](std::string_view suffix) { return row.metric + std::string(suffix); };
  group.channels[sum] = values_.add(row.metric, instance, role);
  group.channels[spread] = values_.add(named("_spread"), instance, role);
  group.channels[most] = values_.add(named("_max"), instance, role);
  group.channels[most_place] = places_->add(named("_max" + member), instance, role);
  if (!levels_) return;
  group.channels[least] = values_.add(named("_min"), instance, role);
  group.channels[least_place] = places_->add(named("_min" + member), instance, role);
}

void PerCpu::store_summary(Group& group, const Summary& summary) {
  const auto rest = static_cast<double>(summary.rest);
  std::array<std::int64_t, kChannels> values{summary.rest, summary.deviation(), summary.least, summary.most};
  if (levels_) {
    values[sum] = summary.rest_count == 0 ? kMissing : std::llround(rest / static_cast<double>(summary.rest_count));
  } else {
    for (const Channel channel : {sum, spread, most}) {
      values[channel] = group.totals[channel] = wrapping_sum(group.totals[channel], values[channel]);
    }
  }
  for (const Channel channel : {sum, spread, least, most}) values_.set(group.channels[channel], values[channel]);
  // Where no cpu did anything, none was the busiest.
  const bool some = levels_ || summary.most > 0;
  if (some) places_->set(group.channels[most_place], summary.most_cpu);
  if (levels_) places_->set(group.channels[least_place], summary.least_cpu);
}

// From the next row on it is counted by itself, and no longer among the others.
void PerCpu::promote(Row& row, int cpu) {
  const auto at = std::lower_bound(row.cells.begin(), row.cells.end(), cpu,
                                   [](const Cell& cell, int number) { return cell.cpu < number; });
  if (at == row.cells.end() || at->channel != Family::kNoChannel) return;
  own_channel(row, *at);
  values_.set(at->channel, at->now);
  ++later_;
}

void PerCpu::pool(const Row& row) {
  if (pool_.metric.empty()) pool_.metric = options_.pool;
  for (const Cell& cell : row.cells) {
    const std::int64_t added = growth(cell.now, cell.before);
    if (added == kMissing) continue;
    auto at = std::lower_bound(pool_.cells.begin(), pool_.cells.end(), cell.cpu,
                               [](const Cell& other, int number) { return other.cpu < number; });
    if (at == pool_.cells.end() || at->cpu != cell.cpu) {
      at = pool_.cells.insert(at, Cell{.cpu = cell.cpu, .now = 0, .before = 0});
    }
    at->now = wrapping_sum(at->now, added);
  }
}

}  // namespace reveal
