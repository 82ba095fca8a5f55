// Transparent huge pages, too much and too little of them: programs wait while the kernel moves pages together to make
// one, or a large job has none at all.
// https://docs.kernel.org/admin-guide/mm/transhuge.html
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/memory_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_thp {
namespace {

/// "madvise" of "always [madvise] never"; "" where it was not measured.
std::string chosen(const RuleContext& context, std::string_view key) {
  const std::string value = context.snapshot_value(key);
  const std::size_t open = value.find('[');
  const std::size_t close = value.find(']', std::min(open, value.size()));
  if (open == std::string::npos || close == std::string::npos) return value;
  return value.substr(open + 1, close - open - 1);
}

// ------------------------------------------------------------------------------------------------------------ stalls

std::optional<MetricSeries> huge_pages_asked_for(const RuleContext& context) {
  auto asked = rate(context, "vmstat.thp_fault_alloc", 1, "count/s");
  const auto refused = rate(context, "vmstat.thp_fault_fallback", 1, "count/s");
  if (!asked || !refused) return std::nullopt;
  for (std::size_t t = 0; t < asked->values.size(); ++t) asked->values[t] += refused->values[t];
  return asked;
}

/// From the first second to the last, or at times.
std::vector<Excursion> stalls(const RuleContext& context, const MetricSeries& compactions) {
  const double least = context.threshold("min_rate");
  auto found = excursions_of(context, compactions.values, least, context.threshold(kMinScore.name));
  std::erase_if(found, [](const Excursion& excursion) { return excursion.recurring; });
  return or_whole_run(context, compactions.values, least, std::move(found));
}

/// Page cache or programs fill all memory: then the kernel looks for any free memory, not for memory in one piece.
bool memory_was_short(const RuleContext& context, Interval at) {
  double scanned = 0;
  for (const std::string_view metric : {"vmstat.pgscan_direct", "memory_stat.pgscan"}) {
    const auto signal = rate(context, metric, context.page_bytes(), "bytes/s");
    if (signal) scanned = std::fmax(scanned, mean_inside(signal->values, at));
  }
  return scanned >= context.threshold("max_scanned") * 1e6;
}

/// If every program waits, only the administrators can change it, and programs that use madvise() may go on waiting.
/// Else only these wait: they can stop that, and no setting but "defer" helps them.
JobValues values_of_stalls(const RuleContext& context, const std::string& defrag) {
  const bool all = defrag == "always" && chosen(context, "vm.transparent_hugepage") == "always";
  JobValues values{{"defrag", defrag}, {"better_defrag", all ? "defer+madvise" : "defer"}};
  if (all) return values;
  const JobValues known = context.values();
  for (const char* library : {"python", "torch"}) {
    if (known.contains(library)) values[std::string("asks_by_") + library] = "yes";
  }
  return values;
}

Finding describe_stalls(const RuleContext& context, const MetricSeries& compactions, const MetricSeries& waits,
                        const MetricSeries& asked, const Excursion& excursion, std::span<const Interval> all) {
  const std::string defrag = chosen(context, "vm.transparent_hugepage_defrag");
  Finding finding = finding_at(context, excursion.at, values_of_stalls(context, defrag));
  const double length = context.seconds(excursion.at.length());
  const auto change = inside_outside(context, waits, excursion.at, all);
  const double inside = mean_inside(waits.values, excursion.at);
  set_most_loss(context, finding, (change ? std::max(0.0, change->excess()) : inside) * length,
                fmt::format("some task waited for memory {} % of this time{}", number(100 * inside),
                            change ? fmt::format(" (usually {} %)", number(100 * change->outside)) : ""));
  finding.confidence = Confidence::likely;
  finding.evidence = {evidence_of(context, compactions, excursion)};
  finding.evidence.front().detectors = seen_by(confirmed_by(context.detection, excursion.at));
  if (std::isnan(excursion.outside)) finding.evidence.front().expected.reset();
  const std::optional<MetricSeries> others[] = {waits, asked, rate(context, "vmstat.thp_fault_fallback", 1, "count/s"),
                                                rate(context, "vmstat.compact_fail", 1, "count/s"),
                                                rate(context, "cpu.system", 1e-9, "cpus")};
  for (const auto& signal : others) {
    if (!signal || std::isnan(mean_inside(signal->values, excursion.at))) continue;
    Evidence evidence = evidence_of(context, *signal, {mean_inside(signal->values, excursion.at), 0, 0}, excursion.at);
    const auto contrasted = inside_outside(context, signal, excursion.at, all);
    evidence.expected = contrasted ? std::optional(contrasted->outside) : std::nullopt;
    finding.evidence.push_back(std::move(evidence));
  }
  finding.evidence[2].metric = "vmstat.thp_fault_alloc";
  finding.evidence[2].feature = "huge pages requested, successful or not";
  finding.sentence = fmt::format(
      "Programs on {} waited {} times a second for the kernel to compact memory into huge pages, for {}{}; some task "
      "waited for memory {:.0f} % of the time (transparent_hugepage/defrag is {}).",
      context.telemetry.node, number(excursion.inside), duration(length),
      std::isnan(excursion.outside) ? "" : " (usually " + number(std::max(0.0, excursion.outside)) + ")", 100 * inside,
      defrag);
  finding.runner_up = {"mem.reclaim_thrash",
                       "a general lack of memory: hardly any pages were scanned to free "
                       "some"};
  return finding;
}

std::vector<Finding> check_stalls(const RuleContext& context) {
  const MetricSeries compactions = needed(rate(context, "vmstat.compact_stall", 1, "count/s"), "vmstat.compact_stall");
  const std::string enabled = chosen(context, "vm.transparent_hugepage");
  const std::string defrag = chosen(context, "vm.transparent_hugepage_defrag");
  if (enabled.empty() || defrag.empty()) throw Unavailable("not measured: vm.transparent_hugepage and its defrag");
  // Then no program waits for a huge page: network cards and others request large pieces, too.
  if (enabled == "never" || defrag == "never" || defrag == "defer") return {};
  const auto found = stalls(context, compactions);
  if (found.empty()) return {};
  const MetricSeries waits =
      needed(pressure_wait(context, Pressure::memory_some), "time in which work waited for memory (PSI)");
  const MetricSeries asked =
      needed(huge_pages_asked_for(context), "vmstat.thp_fault_alloc and vmstat.thp_fault_fallback");
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  for (const Excursion& excursion : found) {
    if (!(mean_inside(waits.values, excursion.at) >= context.threshold("min_wait"))) continue;
    if (!(mean_inside(asked.values, excursion.at) >= context.threshold("min_asked") * excursion.inside)) continue;
    if (memory_was_short(context, excursion.at)) continue;
    findings.push_back(describe_stalls(context, compactions, waits, asked, excursion, all));
  }
  return findings;
}

// -------------------------------------------------------------------------------------------------------------- none

/// Memory of programs when it was most, and the part of it that is in huge pages.
struct Heap {
  std::string metric;
  double bytes = 0;
  double huge = 0;
};

/// The heap of the job where its control group counts it; else that of the node, most of which must be the job's.
std::optional<Heap> largest_heap(const RuleContext& context) {
  struct Pair {
    std::string_view all;
    std::string_view huge;
  };
  constexpr Pair kPairs[] = {{"cgroup.memory_anon", "memory_stat.anon_thp"}, {"mem.anon_pages", "mem.anon_huge_pages"}};
  for (const Pair& pair : kPairs) {
    const auto all = level(context, pair.all, "bytes");
    const auto huge = level(context, pair.huge, "bytes");
    if (!all || !huge) continue;
    Heap heap{std::string(pair.huge)};
    for (std::size_t t = 0; t < all->values.size(); ++t) {
      if (!(all->values[t] > heap.bytes) || std::isnan(huge->values[t])) continue;
      heap.bytes = all->values[t];
      heap.huge = huge->values[t];
    }
    if (heap.bytes > 0) return heap;
  }
  return std::nullopt;
}

double most_of_job(const RuleContext& context) {
  double most = kNaN;
  if (const auto held = level(context, "process.rss", "bytes")) {
    for (const double value : held->values) most = std::fmax(most, value);
  }
  return most;
}

std::vector<Finding> check_none(const RuleContext& context) {
  const std::string enabled = chosen(context, "vm.transparent_hugepage");
  if (enabled.empty()) throw Unavailable("not measured: vm.transparent_hugepage");
  if (enabled == "always") return {};
  const auto heap = largest_heap(context);
  if (!heap) throw Unavailable("not measured: memory_stat.anon_thp and mem.anon_huge_pages");
  const double least = context.threshold("min_memory") * 1e9;
  if (heap->bytes < least || heap->huge >= context.threshold("max_share") * heap->bytes) return {};
  if (heap->metric.starts_with("mem.") && !(most_of_job(context) >= least)) return {};
  // Page walks have no counter here. Cycles that wait are the least sign that there is something to win.
  const auto stalls_of_cpu = stall_ratio(context);
  const Interval whole{0, context.telemetry.samples};
  const double waited = stalls_of_cpu ? mean_inside(stalls_of_cpu->values, whole) : kNaN;
  if (std::isnan(waited) && enabled != "never") return {};
  if (waited < context.threshold("min_stalls")) return {};

  Finding finding = finding_at(context, whole, {{enabled == "never" ? "never" : "madvise", "yes"}});
  finding.severity = Severity::info;
  finding.confidence = Confidence::possible;
  finding.impact.how = "not known: page walks were not counted, and only a run with huge pages shows their cost";
  finding.evidence = {{.metric = heap->metric,
                       .instance = "",
                       .node = context.telemetry.node,
                       .feature = "share of the memory in huge pages, at its highest",
                       .observed = heap->huge / heap->bytes,
                       .expected = std::nullopt,
                       .unit = "ratio",
                       .span = finding.intervals.front(),
                       .detectors = {Method::snapshot},
                       .score = std::nullopt}};
  for (const MemoryPicture& each : memory_picture(context, whole)) {
    finding.evidence.push_back(evidence_of(context, each, whole));
  }
  finding.sentence =
      fmt::format("{} of {} of the memory of programs on {} were in huge pages (transparent_hugepage is {}){}.",
                  quantity(heap->huge, "bytes"), quantity(heap->bytes, "bytes"), context.telemetry.node, enabled,
                  std::isnan(waited) ? "" : fmt::format("; {:.0f} % of the cycles waited", 100 * waited));
  finding.runner_up = {"numa.mem_remote",
                       "memory of another NUMA node makes cycles wait, too; it is reported separately"};
  return {finding};
}

const RegisteredRule kStalls{{
    .id = "mem.thp_stalls",
    .title = "Programs wait while the kernel makes huge pages",
    .looks_for = "Intervals in which allocations waited for memory compaction (vmstat.compact_stall), huge pages were "
                 "requested (vmstat.thp_fault_alloc, thp_fault_fallback), and work waited for memory "
                 "(memory pressure), where transparent_hugepage/defrag lets programs wait.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::memory,
    .order = 47,
    .look_alikes = "mem.reclaim_thrash,mem.swap_activity,pieces for devices",
    .proof = Proof::test_double,
    .whole_machine = true,
    .thresholds = {{"min_rate", 50, "1/s", "least rate of allocations that waited for compaction"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   kMinScore,
                   {"min_asked", 0.2, "ratio", "least huge pages requested per such allocation"},
                   {"max_scanned", 20, "MB/s", "rate of scanned memory above which memory is short in general"},
                   {"min_wait", 0.05, "s/s", "least time in which some task waited for memory"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"export NUMPY_MADVISE_HUGEPAGE=0   # numpy requests huge pages by default", "asks_by_python"},
                    {"unset THP_MEM_ALLOC_ENABLE   # with it, PyTorch requests huge pages on the cpu", "asks_by_torch"},
                    "grep -E 'compact_stall|thp_fault' /proc/vmstat   # on {node}, twice in the next run: the numbers "
                    "should not grow"},
    .advice = {"Allocate the large arrays before files fill the page cache."},
    .admin_remedy = {"echo {better_defrag} > /sys/kernel/mm/transparent_hugepage/defrag   # changes the node until its "
                     "next boot: programs wait less for huge pages; it is {defrag}",
                     {"echo 1 > /proc/sys/vm/compact_memory   # changes the node once, in the epilog of jobs: the next "
                      "job finds contiguous memory",
                      "job", kOr}},
    .verify = {.command = "grep compact_stall /proc/vmstat",
               .where = "on the node, twice while the next run works",
               .expected = "nearly the same number"},
    .sources = {"https://docs.kernel.org/admin-guide/mm/transhuge.html", "https://docs.kernel.org/accounting/psi.html",
                "https://numpy.org/doc/stable/reference/global_state.html"},
    .check = check_stalls,
}};

const RegisteredRule kNone{{
    .id = "mem.thp_off_tlb",
    .title = "A job that uses much memory has no huge pages",
    .looks_for = "More memory of programs than a TLB covers, hardly any of it in huge pages (memory_stat.anon_thp, "
                 "mem.anon_huge_pages), where transparent huge pages are off or only for programs that request them.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::memory,
    .order = 93,
    .look_alikes = "numa.mem_remote",
    .proof = Proof::test_double,
    .thresholds = {{"min_memory", 16, "GB", "least memory of programs"},
                   {"max_share", 0.1, "ratio", "most of it in huge pages"},
                   {"min_stalls", 0.3, "ratio", "least part of the cycles that waited, if that was counted"}},
    .user_remedy =
        {{"export GLIBC_TUNABLES=glibc.malloc.hugetlb=1   # glibc 2.35 and later: malloc requests huge pages",
          "madvise"},
         {"export THP_MEM_ALLOC_ENABLE=1   # PyTorch's allocator on the cpu requests huge pages", "torch,madvise"},
         "grep AnonHugePages /proc/meminfo   # on {node}, in the next run: memory of programs in huge pages"},
    .admin_remedy = {{"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled   # changes the node until its next "
                      "boot: programs that request huge pages get them",
                      "never"}},
    .verify = {.command = "grep -E 'AnonPages|AnonHugePages' /proc/meminfo",
               .where = "on the node, while the next run works",
               .expected = "AnonHugePages nearly as large as AnonPages"},
    .sources = {"https://docs.kernel.org/admin-guide/mm/transhuge.html",
                "https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html"},
    .check = check_none,
}};

}  // namespace
}  // namespace reveal::rule::mem_thp
