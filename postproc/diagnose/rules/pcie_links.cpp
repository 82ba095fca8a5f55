// Links of network, NVMe and graphics cards: narrower or slower than both of their ends can do, or with errors.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"
#include "postproc/telemetry/snapshot_facts.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::pcie_links {
namespace {

struct Adapter {
  std::string address;  // "0000:81:00.0"
  std::string kind;     // "network", "nvme", "gpu", "accelerator"
  std::string name;     // "0000:81:00.0 net eth2"
};

std::vector<Adapter> adapters(const RuleContext& context) {
  constexpr std::string_view kPrefix = "pci.";
  constexpr std::string_view kClass = ".class";
  std::vector<Adapter> all;
  for (const auto& [key, kind] : context.begin) {
    if (!key.starts_with(kPrefix) || !key.ends_with(kClass)) continue;
    const std::string address = key.substr(kPrefix.size(), key.size() - kPrefix.size() - kClass.size());
    const std::string name = context.snapshot_value("pci." + address + ".device");
    all.push_back({address, kind, name.empty() ? address : name});
  }
  if (all.empty()) throw Unavailable("not measured: links of the node's cards (no PCI Express, or a virtual machine)");
  return all;
}

/// The number that "16" and "8.0 GT/s PCIe" begin with; NaN for "Unknown".
double number_in(std::optional<std::string_view> text) {
  double value = std::nan("");
  if (text) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

/// As it was at the start and, where it is known, at the end: a link that was low only once may have been asleep.
double highest_of(const RuleContext& context, const std::string& key) {
  return std::fmax(number_in(fact_in(context.begin, key)), number_in(fact_in(context.end, key)));
}

/// The speed that both ends can do; NaN unless both report it.
double possible(const RuleContext& context, const std::string& address, const std::string& what) {
  const double own = highest_of(context, "pci." + address + ".max_" + what);
  const double port = highest_of(context, "pci." + address + ".port_max_" + what);
  return std::isnan(own) || std::isnan(port) ? std::nan("") : std::min(own, port);
}

Finding at_adapter(const RuleContext& context, const Adapter& adapter, bool bad = false) {
  const JobValues values{{"address", adapter.address}};
  Finding finding = context.finding(bad ? bad_for_jobs(context, values) : values);
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.instances = {adapter.address};
  return finding;
}

/// A function of a virtual card reports nothing, or no width that a link can have.
bool is_width(double width) {
  constexpr double kWidest = 32;
  return width >= 1 && width <= kWidest;
}

std::optional<Finding> trained_down(const RuleContext& context, const Adapter& adapter) {
  const double width = highest_of(context, "pci." + adapter.address + ".width");
  const double full_width = possible(context, adapter.address, "width");
  // Graphics cards lower their speed when they have nothing to do, and whether they had was not measured.
  const bool speed_tells = adapter.kind == "network" || adapter.kind == "nvme";
  const double speed = speed_tells ? highest_of(context, "pci_state." + adapter.address + ".speed") : std::nan("");
  const double full_speed = possible(context, adapter.address, "speed");
  const bool narrow = is_width(width) && is_width(full_width) && width < full_width;
  const bool slow = speed > 0 && speed < full_speed;
  if (!narrow && !slow) return std::nullopt;

  Finding finding = at_adapter(context, adapter);
  finding.severity = Severity::notice;
  finding.confidence = Confidence::likely;
  finding.impact.how = "not known: the job's traffic over this link was not measured";
  if (narrow)
    finding.evidence.push_back(snapshot_fact(context, "pci.width", adapter.address, width, full_width, "lanes"));
  if (slow) finding.evidence.push_back(snapshot_fact(context, "pci.speed", adapter.address, speed, full_speed, "GT/s"));
  finding.sentence = fmt::format("The PCI Express link of {} on {} runs ", adapter.name, context.telemetry.node);
  if (narrow) finding.sentence += fmt::format("with {:g} of {:g} lanes", width, full_width);
  if (slow) finding.sentence += fmt::format("{}at {:g} of {:g} GT/s", narrow ? " and " : "", speed, full_speed);
  finding.sentence += "; the card and its port both support more.";
  finding.runner_up = {"", "a slot that is narrower than the card: its port supports the expected values"};
  return finding;
}

std::vector<Finding> check_training(const RuleContext& context) {
  std::vector<Finding> findings;
  for (const Adapter& adapter : adapters(context)) {
    if (auto finding = trained_down(context, adapter)) findings.push_back(*std::move(finding));
  }
  return findings;
}

/// Errors within a time.
struct Errors {
  double count = 0;
  double seconds = 0;
};

/// Errors between the two looks of the trace; for a node without a job, since it was started. Nothing if they are not
/// counted.
std::optional<Errors> errors_of(const RuleContext& context, const std::string& key) {
  const double before = number_in(fact_in(context.begin, key));
  // The second look has only later changes; where it has nothing at all, there may have been none.
  const auto changed = fact_in(context.end, key);
  const double after = changed || context.end.empty() ? number_in(changed) : before;
  const double age = number_in(fact_in(context.begin, "since_start.seconds"));
  if (context.without_job() && before >= 0 && age > 0) return Errors{before, age};
  if (std::isnan(before) || std::isnan(after) || after < before) return std::nullopt;
  return Errors{after - before, job_seconds(context)};
}

/// Where more of them were counted: the card may have none while its port counts.
std::optional<Errors> link_errors(const RuleContext& context, const Adapter& adapter) {
  const auto own = errors_of(context, "pci_state." + adapter.address + ".link_errors");
  const auto port = errors_of(context, "pci_state." + adapter.address + ".port_link_errors");
  if (!own || (port && port->count > own->count)) return port;
  return own;
}

std::string when_words(const RuleContext& context, const Errors& errors) {
  return context.without_job() ? fmt::format("in {} since the node was started", duration(errors.seconds))
                               : "while the job ran";
}

std::optional<Finding> uncorrected(const RuleContext& context, const Adapter& adapter) {
  const auto nonfatal = errors_of(context, "pci_state." + adapter.address + ".nonfatal");
  const auto fatal = errors_of(context, "pci_state." + adapter.address + ".fatal");
  const bool died = fatal && fatal->count > 0;
  // Some are normal while a node starts and looks for its devices.
  if (!died && (context.without_job() || !nonfatal || nonfatal->count == 0)) return std::nullopt;
  const Errors& worst = died ? *fatal : *nonfatal;
  Finding finding = at_adapter(context, adapter, true);
  finding.severity = Severity::warning;
  finding.confidence = Confidence::certain;
  finding.impact.how = "not known: data in flight over this link may be lost";
  finding.evidence.push_back(snapshot_fact(context, died ? "pci.fatal_errors" : "pci.nonfatal_errors", adapter.address,
                                           worst.count, 0, "count"));
  finding.sentence =
      fmt::format("{} on {} had {} uncorrected PCI Express {} {}.", adapter.name, context.telemetry.node,
                  number(worst.count), worst.count == 1 ? "error" : "errors", when_words(context, worst));
  return finding;
}

std::optional<Finding> corrected(const RuleContext& context, const Adapter& adapter) {
  constexpr double kHour = 3600;
  const auto errors = link_errors(context, adapter);
  if (!errors || errors->count < context.threshold("min_errors")) return std::nullopt;
  const double per_hour = errors->count / errors->seconds * kHour;
  if (!(per_hour >= context.threshold("min_per_hour"))) return std::nullopt;
  Finding finding = at_adapter(context, adapter);
  finding.severity = Severity::notice;
  finding.confidence = Confidence::certain;
  finding.impact.how = "none seen: the link corrected each error by sending a packet again";
  finding.evidence.push_back(snapshot_fact(context, "pci.link_errors", adapter.address, errors->count, 0, "count"));
  finding.sentence =
      fmt::format("The PCI Express link of {} on {} had {} errors {} ({} an hour); all were corrected.", adapter.name,
                  context.telemetry.node, number(errors->count), when_words(context, *errors), number(per_hour));
  finding.runner_up = {"pcie.link_downtrained", "the link keeps its width and speed; it repeats packets"};
  return finding;
}

std::vector<Finding> check_errors(const RuleContext& context) {
  std::vector<Finding> findings;
  bool counted = false;
  for (const Adapter& adapter : adapters(context)) {
    counted = counted || link_errors(context, adapter) || errors_of(context, "pci_state." + adapter.address + ".fatal");
    auto finding = uncorrected(context, adapter);
    if (!finding) finding = corrected(context, adapter);
    if (finding) findings.push_back(*std::move(finding));
  }
  if (!counted) throw Unavailable("not measured: errors of PCI Express links (the kernel has no AER for these cards)");
  return findings;
}

const RegisteredRule kTraining{{
    .id = "pcie.link_downtrained",
    .title = "A card's PCI Express link is narrower or slower than possible",
    .looks_for = "Links of network, NVMe and graphics cards with fewer lanes than the card and its port have (pci.*), "
                 "or, except for graphics cards, at a lower speed (pci_state.*).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 88,
    .look_alikes = "a graphics card that saves power,a slot that is narrower than the card",
    .proof = Proof::test_double,
    .checks_node = true,
    .admin_remedy =
        {"lspci -vv -s {address} | grep -E 'LnkCap:|LnkSta:'   # look for (downgraded); check its port, too",
         "Reseat the card and its riser; check the slot's bifurcation and speed in the firmware."},
    .verify = {.command = "lspci -vv",
               .where = "as root on the node, while the card works",
               .expected = "LnkSta with the width and speed of LnkCap"},
    .sources = {"https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-bus-pci"},
    .check = check_training,
}};

const RegisteredRule kErrors{{
    .id = "pcie.errors",
    .title = "A card's PCI Express link has errors",
    .looks_for = "Errors that the kernel counted on the links of network, NVMe and graphics cards, or at their ports "
                 "(pci_state.*).",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::network,
    .order = 89,
    .look_alikes = "pcie.link_downtrained,errors while the node starts",
    .proof = Proof::test_double,
    .checks_node = true,
    .thresholds = {{"min_errors", 10, "errors", "corrected errors from which it is reported"},
                   {"min_per_hour", 10, "/h", "least errors per hour, in addition"}},
    .user_remedy = {{"#SBATCH --exclude={nodes}   # until the card is reseated", "avoid_node"}},
    .advice = {{kShowAdministrators, "avoid_node"}},
    .admin_remedy = {"grep . /sys/bus/pci/devices/{address}/aer_dev_*   # which errors; check its port, too",
                     "Reseat or replace the card, its riser or its retimer; update the firmware."},
    .verify = {.command = "grep . /sys/bus/pci/devices/*/aer_dev_correctable",
               .where = "on the node, before and after the next run",
               .expected = "the same counts of the card and of its port"},
    .sources = {"https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-bus-pci-devices-aer",
                "https://docs.kernel.org/PCI/pcieaer-howto.html"},
    .check = check_errors,
}};

}  // namespace
}  // namespace reveal::rule::pcie_links
