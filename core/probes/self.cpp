// The cost of reveal itself on this node; published in every trace.
// https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html
#include <ctime>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/clocks.h"

namespace reveal::probe::self {
namespace {

constexpr MetricHelp kTimes[] = {
    {"self.cpu_time", "CPU time of the whole collector."},
    {"self.probe_time", "Time spent in each probe, waiting for a cpu included."},
};
constexpr MetricHelp kMemory[] = {{"self.rss", "Resident memory of the collector."}};
constexpr MetricHelp kLateness[] = {{"self.tick_lateness", "Delay of this tick after its scheduled time."}};
constexpr MetricHelp kLosses[] = {
    {"self.ticks_missed", "Ticks skipped because the previous tick was still running."},
    {"self.rows_lost", "Rows that could not be written."},
};
constexpr MetricHelp kOutput[] = {{"self.bytes_written", "Size of the trace so far."}};

constexpr FamilyTable kTickFamilies[] = {{"self/lateness", Kind::gauge, Unit::nanoseconds, Scope::reveal,
                                          Subsystem::self, "Lateness of the sampler", "clock_gettime", kLateness}};
constexpr FamilyTable kFamilies[] = {
    {"self/time", Kind::counter, Unit::nanoseconds, Scope::reveal, Subsystem::self, "Time used by reveal",
     "clock_gettime", kTimes},
    {"self/memory", Kind::gauge, Unit::bytes, Scope::reveal, Subsystem::self, "Memory used by reveal",
     "/proc/self/statm", kMemory},
    {"self/losses", Kind::event, Unit::count, Scope::reveal, Subsystem::self, "What reveal missed", "reveal", kLosses},
    {"self/output", Kind::counter, Unit::bytes, Scope::reveal, Subsystem::self, "What reveal wrote", "reveal", kOutput},
};

class LatenessProbe final : public Probe {
 public:
  explicit LatenessProbe(const ProbeContext& context)
      : self_(*context.self), family_(context.family(kTickFamilies[0])) {
    family_.add("self.tick_lateness");
  }

  void sample() noexcept override {
    family_.begin();
    family_.set(0, self_.late_ns);
    family_.commit();
  }

 private:
  const SelfMeasurement& self_;
  Family& family_;
};

class SelfProbe final : public Probe {
 public:
  explicit SelfProbe(const ProbeContext& context)
      : context_(context),
        statm_(context.fs.open("/proc/self/statm", 128)),
        times_(context.family(kFamilies[0])),
        memory_(context.family(kFamilies[1])),
        losses_(context.family(kFamilies[2])),
        output_(context.family(kFamilies[3])) {
    times_.add("self.cpu_time");
    memory_.add("self.rss");
    for (const MetricHelp& metric : kLosses) losses_.add(metric.name);
    output_.add("self.bytes_written");
  }

  void sample() noexcept override {
    const SelfMeasurement& self = *context_.self;
    times_.begin();
    times_.set(0, read_clock(CLOCK_PROCESS_CPUTIME_ID));
    for (std::size_t i = 0; i < self.parts.size(); ++i) {
      if (i + 1 >= times_.channels().size()) times_.add("self.probe_time", self.parts[i]);
      times_.set(static_cast<std::int32_t>(i + 1), self.part_ns[i]);
    }
    times_.commit();

    memory_.begin();
    std::string_view statm = statm_.read();
    std::int64_t pages = 0;
    skip_words(statm, 1);
    if (context_.fs.live() && parse_counter(cut_word(statm), pages))
      memory_.set(0, scaled(pages, context_.host.page_bytes));
    memory_.commit();

    losses_.begin();
    losses_.set(0, self.ticks_missed);
    losses_.set(1, static_cast<std::int64_t>(context_.sink.rows_lost()));
    losses_.commit();

    output_.begin();
    if (const TraceWriter* writer = context_.sink.writer()) {
      output_.set(0, static_cast<std::int64_t>(writer->status().bytes));
    }
    output_.commit();
  }

 private:
  ProbeContext context_;
  KernelFile statm_;
  Family& times_;
  Family& memory_;
  Family& losses_;
  Family& output_;
};

void need_live(const ProbeContext& context) {
  if (context.fs.recorded()) throw Unavailable("a replayed recording does not contain the cost of its recording");
}

std::unique_ptr<Probe> open_lateness(const ProbeContext& context) {
  need_live(context);
  return std::make_unique<LatenessProbe>(context);
}

std::unique_ptr<Probe> open_self(const ProbeContext& context) {
  need_live(context);
  return std::make_unique<SelfProbe>(context);
}

const RegisteredProbe lateness{
    {.name = "lateness", .help = "Delay of each tick of reveal", .families = kTickFamilies, .open = open_lateness}};
const RegisteredProbe self{{.name = "self",
                            .help = "Time, memory, losses and output of reveal itself",
                            .period = 1s,
                            .families = kFamilies,
                            .open = open_self}};

}  // namespace
}  // namespace reveal::probe::self
