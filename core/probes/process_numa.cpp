// On which NUMA nodes the memory of the job's main processes is. The kernel walks the page tables of a process for it,
// holding the lock that its mmap() needs: so rarely, in a child process, and not where the walk would take long.
// https://man7.org/linux/man-pages/man5/proc_pid_numa_maps.5.html
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/asked_child.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::process_numa {
namespace {

constexpr std::int64_t kLongestWalk = 250'000'000;  // longest read of one process
constexpr double kShare = 0.001;                    // share of a core, over time
// Before any walk was seen: cold page structures. Huge pages make it far less.
constexpr double kFirstGuess = 20.0 / 4096;  // ns per byte
constexpr std::string_view kNodes = "/sys/devices/system/node";

constexpr MetricHelp kBytes[] = {
    {"process.numa_bytes",
     "Private memory of the process on one NUMA node (instance \"rank0/node1\"), of the previous row."}};
constexpr MetricHelp kWalk[] = {{"process.numa_walk", "Time the kernel needed to answer."}};
constexpr FamilyTable kFamilies[] = {
    {"process/numa", Kind::gauge, Unit::bytes, Scope::process, Subsystem::memory,
     "Memory of a process on each NUMA node", "/proc/PID/numa_maps", kBytes},
    {"process/numa_walk", Kind::gauge, Unit::nanoseconds, Scope::process, Subsystem::self,
     "Cost of reading the place of memory", "/proc/PID/numa_maps", kWalk},
};

constexpr std::int64_t kMostPageKilobytes = std::int64_t{1} << 40;

/// "7f..000 default anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4": adds the bytes of each node. Pages of files that the
/// process only reads are left out: they are shared by all, and lie where the first reader was.
void add_mapping(std::string_view line, std::vector<std::int64_t>& nodes) {
  std::array<std::pair<std::size_t, std::int64_t>, 16> found;
  std::size_t count = 0;
  std::int64_t page = 4;
  bool of_file = false;
  bool own = false;
  skip_words(line, 2);
  for (std::string_view word = cut_word(line); !word.empty(); word = cut_word(line)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    of_file = of_file || word.starts_with("file=");
    own = own || word.starts_with("anon=");
    std::int64_t value = 0;
    std::int64_t node = 0;
    if (!parse_counter(word.substr(equals + 1), value)) continue;
    if (word.starts_with("kernelpagesize_kB=") && value <= kMostPageKilobytes) page = value;
    const bool of_node = word.front() == 'N' && parse_counter(word.substr(1, equals - 1), node) && node < 1024;
    if (of_node && count < found.size()) found[count++] = {static_cast<std::size_t>(node), value};
  }
  if (of_file && !own) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (nodes.size() <= found[i].first) nodes.resize(found[i].first + 1, 0);
    const std::int64_t bytes = scaled(found[i].second, page * 1024);
    if (bytes != kMissing) nodes[found[i].first] = wrapping_sum(nodes[found[i].first], bytes);
  }
}

/// Adds all whole lines of `text` and leaves the last piece in it.
void add_lines(std::string& text, std::vector<std::int64_t>& nodes) {
  const std::size_t end = text.rfind('\n');
  if (end == std::string::npos) return;
  std::string_view rest = std::string_view(text).substr(0, end);
  std::string_view line;
  while (next_line(rest, line)) add_mapping(line, nodes);
  text.erase(0, end + 1);
}

/// Memory of a process by node; nothing if it could not be read to its end in time.
std::vector<std::int64_t> walk(const std::string& path, std::int64_t& elapsed) {
  std::vector<std::int64_t> nodes;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return nodes;
  const std::int64_t begin = read_clock(CLOCK_MONOTONIC);
  std::string text;
  std::array<char, 16384> piece;
  ssize_t got = 0;
  while (elapsed <= kLongestWalk && (got = ::read(file, piece.data(), piece.size())) > 0) {
    text.append(piece.data(), static_cast<std::size_t>(got));
    add_lines(text, nodes);
    elapsed = read_clock(CLOCK_MONOTONIC) - begin;
  }
  ::close(file);
  if (got != 0) nodes.clear();
  return nodes;
}

// Request: "slot pid slot pid ..."; one line of answer each: "slot pid elapsed bytes-on-node-0 bytes-on-node-1 ...".
std::string query_placement(const std::string& root, std::string_view request) {
  std::string answer;
  for (std::string_view slot = cut_word(request); !slot.empty(); slot = cut_word(request)) {
    const std::string_view pid = cut_word(request);
    std::int64_t elapsed = 0;
    const std::vector<std::int64_t> nodes = walk(root + "/proc/" + std::string(pid) + "/numa_maps", elapsed);
    answer.append(slot).append(1, ' ').append(pid).append(1, ' ').append(std::to_string(elapsed));
    for (const std::int64_t bytes : nodes) answer += ' ' + std::to_string(bytes);
    answer += '\n';
  }
  return answer;
}

class PlacementProbe final : public Probe {
 public:
  explicit PlacementProbe(const ProbeContext& context)
      : context_(context),
        child_(context, query_placement, {.probe = "process_numa", .recorded_as = "numa_maps"}),
        bytes_(context.faster_family(kFamilies[0])),
        walks_(context.faster_family(kFamilies[1])) {}

  void sample() noexcept override {
    bytes_.begin();
    walks_.begin();
    const std::string_view answer = child_.answer();
    take(answer);
    if (!answer.empty() || !context_.is_extra()) {
      bytes_.commit();
      walks_.commit();
    }
    if (child_.is_due() && child_.state() != AskedChild::State::busy) ask();
  }

  [[nodiscard]] std::string caveat() const override { return child_.gaps(); }

 private:
  struct Place {
    std::vector<std::int32_t> nodes;
    std::int32_t walk = Family::kNoChannel;
  };

  void ask() {
    request_.clear();
    asked_.assign(context_.slots->slots().size(), 0);
    std::size_t left_out = 0;
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      const ProcessSlot& slot = context_.slots->slots()[i];
      if (slot.process == nullptr || slot.process->launcher) continue;
      const std::int64_t bytes =
          std::max<std::int64_t>(0, scaled(slot.process->stat.resident_pages, context_.host.page_bytes));
      if (static_cast<double>(bytes) * cost_ > static_cast<double>(kLongestWalk)) {
        ++left_out;
        continue;
      }
      asked_[i] = bytes;
      request_ += std::to_string(i) + ' ' + std::to_string(slot.pid) + ' ';
    }
    if (left_out > 0 && !reported_) {
      reported_ = true;
      context_.sink.event("probe process_numa", "left_out",
                          std::to_string(left_out) + " processes are too large to walk within the budget");
    }
    child_.ask(request_);
  }

  void take(std::string_view answer) {
    constexpr std::int64_t kLongest = 3'600'000'000'000;  // a recording may hold any number
    std::int64_t total = 0;
    std::string_view line;
    while (next_line(answer, line)) total = std::min(total + std::min(take_process(line), kLongest), kLongest);
    if (total > 0) child_.pause(static_cast<double>(total) / kShare);
  }

  std::int64_t take_process(std::string_view line) {
    std::int64_t slot = 0;
    std::int64_t pid = 0;
    std::int64_t elapsed = 0;
    if (!parse_counter(cut_word(line), slot) || !parse_counter(cut_word(line), pid)) return 0;
    if (!parse_counter(cut_word(line), elapsed)) return 0;
    const std::vector<ProcessSlot>& slots = context_.slots->slots();
    const auto number = static_cast<std::size_t>(slot);
    if (number >= slots.size() || slots[number].pid != pid) return elapsed;  // another process by now
    if (number < asked_.size() && asked_[number] > 0) learn(static_cast<double>(elapsed), asked_[number]);
    if (places_.size() <= number) places_.resize(number + 1);
    Place& place = places_[number];
    if (place.walk == Family::kNoChannel) {
      place.walk = walks_.add(kWalk[0].name, slots[number].instance, slots[number].role);
    }
    walks_.set(place.walk, elapsed);
    std::int64_t bytes = 0;
    for (std::size_t node = 0; parse_counter(cut_word(line), bytes); ++node) {
      if (place.nodes.size() <= node) place.nodes.push_back(Family::kNoChannel);
      if (place.nodes[node] == Family::kNoChannel) {
        const std::string instance = slots[number].instance + "/node" + std::to_string(node);
        place.nodes[node] = bytes_.add(kBytes[0].name, instance, slots[number].role);
      }
      bytes_.set(place.nodes[node], bytes);
    }
    return elapsed;
  }

  // The mean of the old and the new value: one walk in a quiet moment is no promise. Small processes are no measure of
  // large ones.
  void learn(double elapsed, std::int64_t bytes) {
    constexpr std::int64_t kSayingSomething = 64 << 20;
    if (bytes >= kSayingSomething) cost_ = (cost_ + elapsed / static_cast<double>(bytes)) / 2;
  }

  ProbeContext context_;
  AskedChild child_;
  Family& bytes_;
  Family& walks_;
  std::string request_;
  std::vector<std::int64_t> asked_;  // resident bytes by slot; 0: not requested
  std::vector<Place> places_;
  double cost_ = kFirstGuess;
  bool reported_ = false;
};

std::unique_ptr<Probe> open_placement(const ProbeContext& context) {
  need_job(context);
  std::size_t nodes = 0;
  for (const std::string& name : context.fs.list(kNodes)) {
    nodes += name.starts_with("node") && parse_int(name.substr(4)) ? 1 : 0;
  }
  if (nodes < 2) throw Unavailable("with one NUMA node all memory is on it");
  return std::make_unique<PlacementProbe>(context);
}

const RegisteredProbe entry{{.name = "process_numa",
                             .help = "Memory of the job's main processes by NUMA node (every 10 s)",
                             .period = 10s,  // a job of half a minute, too, is read when it has its memory
                             .may_block = true,
                             .families = kFamilies,
                             .open = open_placement,
                             .remedy =
                                 "run the command under reveal-run or srun --reveal; not needed on a machine with one "
                                 "NUMA node",
                             .faster_while_unusual = 1s}};

}  // namespace
}  // namespace reveal::probe::process_numa
