#include "core/gpu/drm_clients.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/gpu/gpu_files.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::size_t kMostDrmFiles = 256;
constexpr std::size_t kMostEngines = 16;
constexpr std::size_t kMostDescriptors = 512;  // in each process: a driver is opened early
constexpr std::size_t kProcessesAtOnce = 16;

/// Keys begin with these; the first that fits counts.
struct EngineKey {
  std::string_view begin;
  std::int64_t DrmEngine::*value;
};
constexpr std::array kEngineKeys = {
    EngineKey{"drm-engine-capacity-", &DrmEngine::engines},
    EngineKey{"drm-engine-", &DrmEngine::busy},
    EngineKey{"drm-total-cycles-", &DrmEngine::cycles},
    EngineKey{"drm-cycles-", &DrmEngine::busy},
};
/// The memory that a file occupies; older kernels have only later ones of these.
constexpr std::array<std::string_view, 3> kMemoryKeys = {"drm-resident-", "drm-total-", "drm-memory-"};
/// Regions in the GPU's own memory, as i915 and the others call them.
constexpr std::array<std::string_view, 2> kOwnMemory = {"local", "vram"};

struct MemoryUnit {
  std::string_view name;
  std::int64_t factor;
};
constexpr std::array kMemoryUnits = {MemoryUnit{"KiB", 1024}, MemoryUnit{"MiB", 1024 * 1024}, MemoryUnit{"kB", 1024}};

/// The keys of amdgpu from Linux 5.14 to 5.18. It has percentages of engines since their first use then, which tell
/// nothing about a time. Later versions still have "pasid", behind the key for the client.
/// https://github.com/torvalds/linux/blob/v5.18/drivers/gpu/drm/amd/amdgpu/amdgpu_fdinfo.c
struct OlderKey {
  std::string_view older;
  std::string_view key;
};
constexpr std::array kOlderKeys = {OlderKey{"pdev", "drm-pdev"}, OlderKey{"pasid", "drm-client-id"},
                                   OlderKey{"vram mem", "drm-memory-vram"}};

std::string_view newer_key(std::string_view key) {
  for (const OlderKey& known : kOlderKeys) {
    if (key == known.older) return known.key;
  }
  return key;
}

std::int64_t bytes_of(std::int64_t value, std::string_view unit) {
  for (const MemoryUnit& known : kMemoryUnits) {
    if (unit == known.name) return scaled(value, known.factor);
  }
  return value;
}

bool take_engine(std::string_view key, std::int64_t value, DrmClient& client) {
  for (const EngineKey& known : kEngineKeys) {
    if (!key.starts_with(known.begin)) continue;
    const std::string_view name = key.substr(known.begin.size());
    auto engine = client.engines.find(name);
    if (engine == client.engines.end()) {
      if (client.engines.size() == kMostEngines) return true;
      engine = client.engines.emplace(std::string(name), DrmEngine()).first;
    }
    engine->second.*known.value = value;
    return true;
  }
  return false;
}

void take_memory(std::string_view key, std::int64_t value, std::array<std::int64_t, kMemoryKeys.size()>& sums) {
  for (std::size_t i = 0; i < kMemoryKeys.size(); ++i) {
    if (!key.starts_with(kMemoryKeys[i])) continue;
    const std::string_view region = key.substr(kMemoryKeys[i].size());
    const bool own = std::any_of(kOwnMemory.begin(), kOwnMemory.end(),
                                 [region](std::string_view name) { return region.starts_with(name); });
    if (own && value != kMissing) sums[i] = wrapping_sum(std::max<std::int64_t>(sums[i], 0), value);
  }
}

/// The part of the time in which the engines of a group worked; nothing where that is not known.
std::optional<double> busy_part(const DrmEngine& before, const DrmEngine& now, std::int64_t elapsed_ns) {
  const bool by_cycles = now.cycles != kMissing;
  if (now.busy == kMissing || before.busy == kMissing || now.engines < 1) return std::nullopt;
  if (by_cycles && before.cycles == kMissing) return std::nullopt;
  const std::int64_t passed = by_cycles ? now.cycles - before.cycles : elapsed_ns;
  if (passed <= 0) return std::nullopt;
  return static_cast<double>(now.busy - before.busy) / static_cast<double>(passed) / static_cast<double>(now.engines);
}

double busiest_of(const DrmClients::BusyParts& busy) {
  double most = 0;
  for (const auto& [name, part] : busy) most = std::max(most, part);
  return std::min(100.0, 100 * most);
}

}  // namespace

std::optional<DrmClient> parse_drm_client(std::string_view text) {
  DrmClient client;
  std::array<std::int64_t, kMemoryKeys.size()> memory{};
  memory.fill(kMissing);
  const bool is_older = text.find("drm-") == std::string_view::npos;
  std::string_view line;
  while (next_line(text, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = is_older ? newer_key(line.substr(0, colon)) : line.substr(0, colon);
    if (!key.starts_with("drm-")) continue;
    std::string_view rest = line.substr(colon + 1);
    const std::string_view word = cut_word(rest);
    if (key == "drm-pdev") client.address = word;
    std::int64_t value = 0;
    if (!parse_counter(word, value)) continue;
    if (key == "drm-client-id") client.id = value;
    if (!take_engine(key, value, client)) take_memory(key, bytes_of(value, cut_word(rest)), memory);
  }
  const auto known = std::find_if(memory.begin(), memory.end(), [](std::int64_t sum) { return sum != kMissing; });
  if (known != memory.end()) client.memory = *known;
  const bool counts = !client.engines.empty() || client.memory != kMissing;
  return !client.address.empty() && client.id >= 0 && counts ? std::optional(std::move(client)) : std::nullopt;
}

void DrmClients::follow(std::span<const int> pids) {
  pids_.assign(pids.begin(), pids.end());
  std::sort(pids_.begin(), pids_.end());
  const auto is_gone = [this](int pid) { return !std::binary_search(pids_.begin(), pids_.end(), pid); };
  std::erase_if(looked_at_, is_gone);
  std::erase_if(hidden_, is_gone);
  std::erase_if(past_kernel_, is_gone);
  std::erase_if(files_, [&](const OpenFile& file) { return is_gone(file.pid); });
  if (files_.size() < kMostDrmFiles) overflowed_ = false;
  std::size_t looks = 0;
  for (const int pid : pids_) {
    if (looks == kProcessesAtOnce) return;
    if (looked_at_.contains(pid)) continue;
    look_at(pid);
    ++looks;
  }
  for (std::size_t i = 0; i < pids_.size() && looks < kProcessesAtOnce; ++i, ++looks)
    look_at(pids_[turn_++ % pids_.size()]);
}

bool DrmClients::knows(std::span<const int> pids) const {
  return std::all_of(pids.begin(), pids.end(), [this](int pid) { return looked_at_.contains(pid); });
}

void DrmClients::look_at(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::vector<std::string> names = fs_.list(folder + "/fd");
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::make_pair(a.size(), std::string_view(a)) < std::make_pair(b.size(), std::string_view(b));
  });
  looked_at_.insert(pid);
  may_look_ = may_look_ || !names.empty();
  // A process that has ended has no command line.
  const bool hidden = names.empty() && !fs_.text(folder + "/cmdline").value_or("").empty();
  if (hidden) {
    hidden_.insert(pid);
  } else {
    hidden_.erase(pid);
  }
  for (std::size_t i = 0; i < std::min(names.size(), kMostDescriptors); ++i) {
    const std::string target = fs_.link(folder + "/fd/" + names[i]).value_or("");
    if (target == "/dev/kfd") past_kernel_.insert(pid);
    if (!target.starts_with("/dev/dri/")) continue;
    const bool known = std::any_of(files_.begin(), files_.end(),
                                   [&](const OpenFile& file) { return file.pid == pid && file.name == names[i]; });
    if (known) continue;
    if (files_.size() == kMostDrmFiles) {
      overflowed_ = true;
      return;
    }
    files_.push_back({pid, names[i], {}, fs_.open(folder + "/fdinfo/" + names[i])});
  }
}

// A process that ended between two readings takes the time of that second along.
void DrmClients::read(std::int64_t now_ns, const std::set<std::string>& asleep) {
  uses_.clear();
  for (auto& [key, seen] : seen_) seen.present = asleep.contains(key.first);
  std::erase_if(files_, [&](OpenFile& file) {
    if (asleep.contains(file.address)) return false;
    const auto client = parse_drm_client(file.text.read());
    if (!client) return true;
    file.address = client->address;
    take(file.pid, *client, now_ns);
    return false;
  });
  std::erase_if(seen_, [](const auto& entry) { return !entry.second.present; });
}

void DrmClients::take(int pid, const DrmClient& client, std::int64_t now_ns) {
  auto [entry, is_new] = seen_.try_emplace({client.address, client.id});
  Seen& seen = entry->second;
  if (seen.present) return;  // the same file in another process
  seen.present = true;
  Use& use = uses_[{client.address, pid}];
  if (client.memory != kMissing) use.memory = wrapping_sum(std::max<std::int64_t>(use.memory, 0), client.memory);
  const std::int64_t elapsed_ns = now_ns - std::exchange(seen.at_ns, now_ns);
  const DrmClient before = std::exchange(seen.client, client);
  bool known = false;
  for (auto& [name, engine] : seen.client.engines) {
    const auto last = before.engines.find(name);
    if (last == before.engines.end()) continue;
    engine.busy = std::max(engine.busy, last->second.busy);  // drivers may count back, and then catch up
    const auto part = is_new ? std::nullopt : busy_part(last->second, engine, elapsed_ns);
    if (part) use.busy[name] += *part;
    known = known || part.has_value();
  }
  use.is_known = use.is_known && known && !past_kernel_.contains(pid);
}

std::optional<double> DrmClients::Use::percent() const {
  return is_known ? std::optional(busiest_of(busy)) : std::nullopt;
}

std::optional<double> DrmClients::percent(std::string_view address) const {
  const bool all_seen = may_look_ && !pids_.empty() && hidden_.empty() && !overflowed_;
  if (!all_seen || looked_at_.size() < pids_.size()) return std::nullopt;
  BusyParts sum;
  for (const auto& [place, use] : uses_) {
    if (place.first != address) continue;
    if (!use.is_known) return std::nullopt;
    for (const auto& [name, part] : use.busy) sum[name] += part;
  }
  return busiest_of(sum);
}

void append_uses(std::string& answer, const DrmClients& clients, std::string_view address, std::string_view number,
                 const std::set<int>& told) {
  for (const auto& [place, use] : clients.uses()) {
    if (place.first != address) continue;
    std::string line = "process " + std::to_string(place.second) + ' ';
    line.append(number);
    if (const auto percent = use.percent()) append_value(line, "process.gpu_utilization", std::llround(*percent));
    if (use.memory != kMissing && !told.contains(place.second)) append_value(line, "process.gpu_memory", use.memory);
    answer += line + '\n';
  }
}

}  // namespace reveal
