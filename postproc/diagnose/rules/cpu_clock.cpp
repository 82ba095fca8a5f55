// Configuration of the node's clocks: time that is slow to read, and a frequency that is held down.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/clock_signal.h"
#include "postproc/diagnose/rule.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_clock {
namespace {

Finding of_setting(const RuleContext& context, const std::string& key, const std::string& value, JobValues more = {}) {
  more.emplace(key, value);
  Finding finding = context.finding(more);
  finding.severity = Severity::notice;
  finding.confidence = Confidence::certain;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.evidence.push_back({.metric = key,
                              .instance = value,
                              .node = context.telemetry.node,
                              .feature = "value",
                              .span = finding.intervals.front(),
                              .detectors = {Method::snapshot}});
  return finding;
}

/// Reading these costs a microsecond and more, in the kernel; reading tsc, kvm-clock or arch_sys_counter does not.
std::vector<Finding> check_source(const RuleContext& context) {
  const std::string source = context.snapshot_value("kernel.clocksource");
  if (source.empty()) throw Unavailable("not measured: kernel.clocksource");
  constexpr std::array<std::string_view, 4> kSlow = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"};
  if (std::find(kSlow.begin(), kSlow.end(), source) == kSlow.end()) return {};
  Finding finding = of_setting(context, "kernel.clocksource", source);
  finding.impact.how =
      "not known: how often the job reads the clock was not measured (tracers, profilers and loggers read it most)";
  finding.sentence = fmt::format(
      "{} uses the clock source {} (available: {}): each reading of the clock needs a system call and a device access.",
      context.telemetry.node, source, context.snapshot_value("kernel.clocksources"));
  return {finding};
}

/// With the drivers of Intel and AMD in active mode "powersave" is a dynamic governor, not a slow one.
bool holds_down(std::string_view driver, std::string_view governor) {
  if (governor.starts_with("powersave")) return driver != "intel_pstate" && driver != "amd-pstate-epp";
  return governor.starts_with("conservative");
}

/// A setting that cpus may have differently: "performance", or "performance 0-3; powersave 4-7".
class SettingOfCpus {
 public:
  explicit SettingOfCpus(std::string text) {
    if (text.find(' ') == std::string::npos) {
      all_ = std::move(text);
      return;
    }
    for (std::string_view rest = text; !rest.empty();) {
      std::string_view part = rest.substr(0, rest.find(';'));
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
      const std::string value(next_word(part));
      for (const int cpu : parse_cpu_list(part)) each_[cpu] = value;
    }
  }

  [[nodiscard]] const std::string& on(int cpu) const {
    const auto at = each_.find(cpu);
    return at == each_.end() ? all_ : at->second;
  }
  [[nodiscard]] std::vector<int> cpus() const {
    std::vector<int> cpus;
    for (const auto& [cpu, value] : each_) cpus.push_back(cpu);
    return cpus;
  }

 private:
  std::string all_;  // "" where the cpus differ
  std::map<int, std::string> each_;
};

constexpr int kAnyCpu = -1;

/// How the clocks of the job's cpus are set, of all where no job is known.
struct Clocks {
  explicit Clocks(const RuleContext& context)
      : governor(context.snapshot_value("cpu.governor")),
        driver(context.snapshot_value("cpu.frequency_driver")),
        limit(context.snapshot_value("cpu.frequency_limit")),
        most(context.snapshot_value("cpu.frequency_most")),
        preference(context.snapshot_value("cpu.energy_preference")) {
    cpus = parse_cpu_list(context.snapshot_value("job.cpus_allowed"));
    if (cpus.empty()) cpus = parse_cpu_list(context.snapshot_value("cpu.online"));
    if (cpus.empty()) cpus = governor.cpus();
    if (cpus.empty()) cpus = {kAnyCpu};
  }

  SettingOfCpus governor, driver, limit, most, preference;
  std::vector<int> cpus;
};

/// The first cause that holds the clocks down.
struct Holding {
  /// A preference lets the clocks rise later, or less often; a limit cuts them off.
  enum class How : std::uint8_t { limits, prefers };

  How how = How::limits;
  std::string key;
  std::string value;
  std::string words;
  std::vector<int> cpus = {};  // empty: all of them
};

/// The cpus of which this is true; nothing if there are none.
template <typename Test>
std::optional<std::vector<int>> cpus_where(const Clocks& clocks, const Test& test) {
  std::vector<int> cpus;
  std::copy_if(clocks.cpus.begin(), clocks.cpus.end(), std::back_inserter(cpus), test);
  if (cpus.empty()) return std::nullopt;
  return cpus;
}

/// Compares the driver's limit with the processor's maximum, in kHz.
bool is_lowered(const Clocks& clocks, int cpu) {
  const auto limit = parse_int(clocks.limit.on(cpu));
  const auto most = parse_int(clocks.most.on(cpu));
  constexpr double kLowered = 0.98;  // some drivers round
  return limit && most && static_cast<double>(*limit) < kLowered * static_cast<double>(*most);
}

std::string clock_words(const std::string& kilohertz) {
  return quantity(1e3 * static_cast<double>(parse_int(kilohertz).value_or(0)), "Hz");
}

/// Heat lowers the same limit, and so may others while the job runs: the limit of the first moment is then no setting.
bool limit_moves(const RuleContext& context) {
  constexpr double kRounding = 0.98;
  for (const std::size_t channel : context.channels("cooling.active")) {
    const auto active = context.telemetry.series(channel);
    if (std::any_of(active.begin(), active.end(), [](double devices) { return devices > 0; })) return true;
  }
  for (const std::size_t channel : context.channels("cpu.frequency_ceiling")) {
    double least = kNaN;
    double most = kNaN;
    for (const double hertz : context.telemetry.series(channel)) {
      least = std::fmin(least, hertz);
      most = std::fmax(most, hertz);
    }
    if (least < kRounding * most) return true;
  }
  return false;
}

std::optional<Holding> holding(const RuleContext& context, const Clocks& clocks) {
  using How = Holding::How;
  const auto fact = [&](std::string_view key) { return context.snapshot_value(key); };
  if (const auto cpus =
          cpus_where(clocks, [&](int cpu) { return holds_down(clocks.driver.on(cpu), clocks.governor.on(cpu)); })) {
    const std::string& governor = clocks.governor.on(cpus->front());
    return Holding{governor.starts_with("powersave") ? How::limits : How::prefers, "cpu.governor", governor,
                   fmt::format("governor {} of driver {}", governor, clocks.driver.on(cpus->front())), *cpus};
  }
  // Without turbo the highest clock is the base clock, on drivers that count it in: boost is the name for that.
  if (fact("cpu.boost") == "0")
    return Holding{How::limits, "cpu.boost", "0", "boost is off, so no cpu may run above its base clock"};
  if (fact("cpu.no_turbo") == "1")
    return Holding{How::limits, "cpu.no_turbo", "1", "turbo is off, so no cpu may run above its base clock"};
  const bool moves = limit_moves(context);
  if (const auto cpus = cpus_where(clocks, [&](int cpu) { return !moves && is_lowered(clocks, cpu); })) {
    const std::string& limit = clocks.limit.on(cpus->front());
    return Holding{How::limits, "cpu.frequency_limit", limit,
                   fmt::format("the highest clock is limited to {} of {}", clock_words(limit),
                               clock_words(clocks.most.on(cpus->front()))),
                   *cpus};
  }
  if (const std::string most = fact("cpu.most_performance"); !most.empty() && most != "100") {
    return Holding{How::limits, "cpu.most_performance", most, "the driver may use " + most + " % of their performance"};
  }
  if (const auto cpus = cpus_where(clocks, [&](int cpu) {
        return clocks.preference.on(cpu) == "power" || clocks.preference.on(cpu) == "balance_power";
      })) {
    const std::string& preference = clocks.preference.on(cpus->front());
    return Holding{How::prefers, "cpu.energy_preference", preference, "their energy preference is " + preference,
                   *cpus};
  }
  return std::nullopt;
}

std::vector<Finding> check_frequency(const RuleContext& context) {
  const Clocks clocks(context);
  if (!cpus_where(clocks, [&](int cpu) { return !clocks.governor.on(cpu).empty(); })) {
    throw Unavailable("not measured: cpu.governor (no cpufreq driver, or a virtual machine)");
  }
  const auto held = holding(context, clocks);
  if (!held) return {};
  const bool some = !held->cpus.empty() && held->cpus.size() < clocks.cpus.size();
  JobValues values{{"most", clocks.most.on(some ? held->cpus.front() : clocks.cpus.front())}};
  if (some) values["cpus"] = format_cpu_list(held->cpus);
  Finding finding = of_setting(context, held->key, held->value, values);
  finding.impact.how = "not known: only a run with another setting shows it";
  const std::string which = some ? fmt::format("cpus {} of {}, {} of the {} compared", values["cpus"],
                                               context.telemetry.node, held->cpus.size(), clocks.cpus.size())
                                 : "the cpus of " + context.telemetry.node;
  const bool limits = held->how == Holding::How::limits;
  finding.sentence =
      limits ? fmt::format("A setting limits the clocks of {}: {}.", which, held->words)
             : fmt::format("A setting makes {} save energy rather than raise their clocks: {}.", which, held->words);
  if (!limits) finding.confidence = Confidence::possible;  // whether the clocks were lower for it was not compared
  finding.runner_up = {"cpu.thermal_throttle", why_no_heat(context)};
  return {finding};
}

const RegisteredRule kSource{{
    .id = "cpu.clocksource_not_tsc",
    .title = "The node uses a slow clock source",
    .looks_for = "A clock source that programs cannot read without a system call: kernel.clocksource.",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::cpu,
    .order = 92,
    .proof = Proof::guest,
    .checks_node = true,
    .user_remedy = {"cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # on each node"},
    .admin_remedy = {"journalctl -k | grep -i clocksource   # why the kernel rejected tsc",
                     {"scontrol reboot ASAP nextstate=RESUME {nodes}   # changes the node: Slurm reboots it after its "
                      "jobs; if the slow clock source returns: firmware and microcode updates",
                      "job"},
                     {"reboot   # changes the node, only without jobs; if the slow clock source returns: firmware and "
                      "microcode updates",
                      "!job"}},
    .verify = {.command = "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
               .where = "on each node",
               .expected = "tsc"},
    .sources = {"https://docs.kernel.org/timers/timekeeping.html"},
    .check = check_source,
}};

const RegisteredRule kFrequency{{
    .id = "cpu.governor_powersave",
    .title = "The frequency policy holds the clocks of the cpus down",
    .looks_for = "A setting that holds down the clocks of the job's cpus, or of some of them: cpu.governor with "
                 "cpu.frequency_driver, cpu.boost, cpu.no_turbo, "
                 "cpu.frequency_limit below cpu.frequency_most that neither heat (cooling.active) nor anything else "
                 "changes while the job runs (cpu.frequency_ceiling), cpu.most_performance, cpu.energy_preference.",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::cpu,
    .order = 91,
    .look_alikes = "cpu.thermal_throttle,cpu.power_cap",
    .proof = Proof::guest,
    .checks_node = true,
    .user_remedy = {{"srun --cpu-freq=performance   # where the site allows it", "job,cpu.governor"},
                    {"srun --cpu-freq=performance   # where the site allows it",
                     "job,cpu.energy_preference,!cpu.governor"}},
    .admin_remedy =
        {{"cpupower frequency-set -g performance   # changes the node until its next boot: the governor",
          "cpu.governor,!cpus"},
         {"cpupower -c {cpus} frequency-set -g performance   # changes the node until its next boot: the governor",
          "cpu.governor,cpus"},
         {"echo performance | tee /sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference   # changes "
          "the node until its next boot: prefers speed to energy",
          "cpu.energy_preference"},
         {"echo 1 > /sys/devices/system/cpu/cpufreq/boost   # changes the node until its next boot: allows boost",
          "cpu.boost"},
         {"echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo   # changes the node until its next boot: allows "
          "turbo",
          "cpu.no_turbo"},
         {"cpupower frequency-set -u {most}   # changes the node until its next boot: the highest clock, in kHz",
          "cpu.frequency_limit,!cpus"},
         {"cpupower -c {cpus} frequency-set -u {most}   # changes the node until its next boot: the highest clock, in "
          "kHz",
          "cpu.frequency_limit,cpus"},
         {"echo 100 > /sys/devices/system/cpu/intel_pstate/max_perf_pct   # changes the node until its next boot: no "
          "limit of the clock",
          "cpu.most_performance"},
         {"tuned-adm profile throughput-performance   # changes the node, also after a boot: if tuned runs, it keeps "
          "the governor",
          kIf}},
    .verify = {.command = "reveal check",
               .where = "on each node, while the next run works",
               .expected = "cpu.governor_powersave in the list \"ok\""},
    .sources = {"https://docs.kernel.org/admin-guide/pm/cpufreq.html",
                "https://docs.kernel.org/admin-guide/pm/intel_pstate.html"},
    .check = check_frequency,
}};

}  // namespace
}  // namespace reveal::rule::cpu_clock
