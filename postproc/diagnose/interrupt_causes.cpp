#include "postproc/diagnose/interrupt_causes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hdf5schema/basics/cpu_mask.h"
#include "hdf5schema/basics/text.h"
#include "postproc/numerics/present_values.h"

namespace reveal {
namespace {

constexpr std::size_t kMostVectorsTold = 1024;  // a trace may hold any number
constexpr int kMostCpusInMask = 8192;           // more than any kernel has

}  // namespace

std::string mask_of_cpus(const std::vector<int>& cpus) {
  std::vector<std::uint32_t> groups(1);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= kMostCpusInMask) continue;
    const auto group = static_cast<std::size_t>(cpu / kCpusInGroup);
    if (group >= groups.size()) groups.resize(group + 1);
    groups[group] |= 1U << (cpu % kCpusInGroup);
  }
  std::string mask = fmt::format("{:x}", groups.back());
  for (std::size_t i = groups.size() - 1; i-- > 0;) mask += fmt::format(",{:08x}", groups[i]);
  return mask;
}

std::vector<Vector> busy_vectors(const RuleContext& context, double min_rate) {
  constexpr std::string_view kPrefix = "irq.";
  const double seconds = context.seconds(context.telemetry.samples);
  struct Counts {
    double all = 0;
    double most = 0;
    std::string cpu;
  };
  std::map<std::string, Counts> counted;
  for (std::size_t i = 0; i < context.telemetry.channels.size(); ++i) {
    const Channel& channel = context.telemetry.channels[i];
    if (!channel.metric.starts_with(kPrefix)) continue;
    const std::string number = channel.metric.substr(kPrefix.size());
    if (!parse_int(number)) continue;  // irq.LOC and its like belong to each cpu
    const double count = present_values(context.telemetry.series(i)).sum;
    Counts& counts = counted[number];
    counts.all += count;
    if (count > counts.most) {
      counts.most = count;
      counts.cpu = channel.instance;
    }
  }
  std::vector<Vector> vectors;
  for (const auto& [number, counts] : counted) {
    if (counts.all < min_rate * seconds) continue;
    vectors.push_back({number, "", counts.cpu, counts.all / seconds, counts.most / counts.all, false});
  }
  std::sort(vectors.begin(), vectors.end(), [](const Vector& a, const Vector& b) { return a.rate > b.rate; });
  if (vectors.size() > kMostVectorsTold) vectors.resize(kMostVectorsTold);
  for (Vector& vector : vectors) {
    vector.name = context.snapshot_value("irq." + vector.number + ".name");
    vector.managed = context.snapshot_value("irq." + vector.number + ".managed") == "yes";
  }
  return vectors;
}

std::vector<CardVector> card_vectors(const RuleContext& context) {
  constexpr std::string_view kPrefix = "irq.";
  constexpr std::string_view kDevice = ".device";
  std::vector<CardVector> vectors;
  for (const auto& [key, device] : context.begin) {
    if (!key.starts_with(kPrefix) || !key.ends_with(kDevice) || vectors.size() == kMostVectorsTold) continue;
    if (device.find(" net ") == std::string::npos && device.find(" infiniband ") == std::string::npos) continue;
    const std::string vector = key.substr(0, key.size() - kDevice.size());
    if (context.snapshot_value(vector + ".managed") == "yes") continue;
    std::string cpus = context.snapshot_value(vector + ".effective");
    if (cpus.empty()) cpus = context.snapshot_value(vector + ".affinity");
    vectors.push_back(
        {vector.substr(kPrefix.size()), device, context.snapshot_value(vector + ".numa_node"), parse_cpu_list(cpus)});
  }
  return vectors;
}

std::vector<std::string> interfaces_of(std::string_view device) {
  std::vector<std::string> names;
  for (std::string_view word = next_word(device); !word.empty(); word = next_word(device)) {
    if (word != "net") continue;
    const std::string_view name = next_word(device);
    names.emplace_back(name.substr(0, name.find(',')));
  }
  return names;
}

std::string cpus_of_numa_node(const RuleContext& context, std::string_view node) {
  return node.empty() ? "" : context.snapshot_value(fmt::format("numa.node{}.cpus", node));
}

std::vector<std::string> steered_to(const RuleContext& context, std::string_view cpu) {
  std::vector<std::string> interfaces;
  for (const Snapshot* snapshot : {&context.begin, &context.end}) {  // steering may be set while the job runs
    for (const auto& [key, value] : *snapshot) {
      constexpr std::string_view kNet = "net.";
      constexpr std::string_view kMask = ".rps_cpus";
      if (!key.starts_with(kNet) || !key.ends_with(kMask)) continue;
      const std::vector<int> cpus = cpus_of_mask(value);  // queues that differ are two masks, which is none
      if (cpus.size() != 1 || "cpu" + std::to_string(cpus.front()) != cpu) continue;
      interfaces.push_back(key.substr(kNet.size(), key.size() - kNet.size() - kMask.size()));
    }
  }
  std::sort(interfaces.begin(), interfaces.end());
  interfaces.erase(std::unique(interfaces.begin(), interfaces.end()), interfaces.end());
  return interfaces;
}

std::vector<int> sending_cpus(const RuleContext& context, const std::string& interface) {
  const std::string queues = context.snapshot_value("net." + interface + ".xps_cpus");
  std::string cpus;
  std::string_view rest = queues;
  for (std::string_view entry = next_word(rest); !entry.empty(); entry = next_word(rest)) {
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos) return {};  // more queues than the fact can hold
    cpus.append(entry.substr(colon + 1)).append(1, ',');
  }
  return parse_cpu_list(cpus);
}

std::string line_for_senders(const std::string& interface, const std::vector<int>& cpus, const std::vector<int>& now) {
  return fmt::format(
      "for q in /sys/class/net/{}/queues/tx-*; do echo {} > $q/xps_cpus; done   # changes the node until its next boot "
      "(XPS); now: cpus {}",
      interface, mask_of_cpus(cpus), format_cpu_list(now));
}

}  // namespace reveal
