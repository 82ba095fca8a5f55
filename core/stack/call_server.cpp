#include "core/stack/call_server.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/pmu/allowance.h"
#include "core/pmu/perf_broker.h"
#include "core/stack/call_counters.h"
#include "core/stack/call_requests.h"
#include "core/stack/elf_symbols.h"
#include "core/stack/first_instruction.h"
#include "core/stack/probed_process.h"
#include "core/stack/process_maps.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/descriptor_limit.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/request_socket.h"

namespace reveal {
namespace {

/// Since Linux 6.13 the capability that attaches also lets us look into processes of other users.
bool is_of_our_user(pid_t pid) {
  struct stat status {};
  return ::stat(("/proc/" + std::to_string(pid)).c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

/// An open file that can be read from its begin on: no device, no pipe, no folder.
bool is_readable_file(int file) {
  struct stat status {};
  const int mode = ::fcntl(file, F_GETFL);
  return mode >= 0 && (mode & O_PATH) == 0 && (mode & O_ACCMODE) != O_WRONLY && ::fstat(file, &status) == 0 &&
         S_ISREG(status.st_mode);
}

/// The place was found by another process: the low cost of a breakpoint there is checked again.
bool is_cheap(int file, std::uint64_t offset) {
  std::array<std::byte, kFirstInstructions> code{};
  return ::pread(file, code.data(), code.size(), static_cast<off_t>(offset)) == static_cast<ssize_t>(code.size()) &&
         cheap_probe_at(code) == 0;
}

class CallServer {
 public:
  CallServer(int socket, const std::string& job, const CallLimits& limits)
      : socket_(socket),
        job_(job),
        most_links_(std::min(limits.links, static_cast<std::size_t>(raise_descriptor_limit()) / kMostDescriptors)),
        attaching_(limits.attaching, limits.attaching_later),
        requests_(limits.requests, limits.requests_later) {}

  using Got = Message<CallQuestion>::Got;
  /// False when the answer cannot be sent: the other end is closed, or does not read the answers.
  bool serve(const CallQuestion& question, const MessageFiles& files, Got got) {
    if (requests_.is_used_up()) ::poll(nullptr, 0, kPauseMs);
    requests_.use(1);
    const bool whole = got == Got::message;
    if (whole && question.what == CallRequest::pending && counters_ && !files[0]) return send_pending();
    const bool with_file = question.what == CallRequest::attach;
    CallAnswer answer{.error = got == Got::without_files && with_file ? EMFILE : EINVAL};
    if (!whole || static_cast<bool>(files[0]) != with_file || files[1]) return send(answer);
    if (question.what == CallRequest::open) return open(question);
    if (!counters_) return send(answer);
    switch (question.what) {
      case CallRequest::prepare:
        answer.error = prepare(question, answer);
        break;
      case CallRequest::attach:
        answer.error = attach(question, files[0].get(), answer);
        break;
      case CallRequest::detach:
        answer.error = detach(question);
        break;
      case CallRequest::reset:
        if (question.index > places_ || question.count > places_ - question.index) break;
        counters_->reset(question.index, question.count);
        answer.error = 0;
        break;
      case CallRequest::forget:
        if (question.index >= places_) break;
        counters_->forget_calls(question.index);
        answer.error = 0;
        break;
      default:
        break;
    }
    return send(answer);
  }

  /// Detaches some of those that nobody can ask for any more; false: no others are left. All at once, they might take
  /// longer than a client waits for its answer.
  bool detach_some() {
    CallLinks some;
    for (std::size_t i = 0; !unwanted_.empty() && i < counters_->detached_together(); ++i) {
      some.add(std::move(unwanted_.back()));
      unwanted_.pop_back();
    }
    return !unwanted_.empty();
  }
  void detach_all() {
    give_up_from(links_.begin());
    while (detach_some()) {
    }
  }

 private:
  using Links = std::map<std::uint64_t, CallLinks>;
  static constexpr int kPauseMs = 20;
  static constexpr std::size_t kMostDescriptors = 4;  // for one link: an event and its program, at entry and return

  bool send(CallAnswer answer, std::span<const int> files = {}) const {
    answer.cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    return Message<CallAnswer>(&answer).send(socket_, files);
  }

  bool send_pending() const {
    PendingCalls calls;
    for (const auto& [index, begun] : counters_->pending()) {
      if (index < calls.begun_ns.size()) calls.begun_ns[index] = begun;
    }
    return Message<PendingCalls>(&calls).send(socket_, {});
  }

  bool open(const CallQuestion& question) {
    CallAnswer answer{.error = EINVAL};
    const bool fits =
        question.count > 0 && question.count <= kMostCallPlaces && question.count % stack_functions().size() == 0;
    if (counters_ || !fits) return send(answer);
    try {
      counters_ = std::make_unique<CallCounters>(question.count);
    } catch (const Unavailable& why) {
      answer.error = ENOTSUP;
      static_cast<void>(std::string(why.what()).copy(answer.why.data(), answer.why.size() - 1));
      return send(answer);
    }
    places_ = question.count;
    answer.error = 0;
    answer.multi = counters_->is_multi() ? 1 : 0;
    answer.costs = counters_->costs();
    const std::array<int, 2> maps = {counters_->maps().counts, counters_->maps().steps};
    return send(answer, maps);
  }

  static const StackFunction& function_at(const CallPoint& point) {
    return stack_functions()[point.index % stack_functions().size()];
  }
  /// A mark has a counter, which the kernel changes; a function has none.
  static bool fits(const CallPoint& point) {
    const bool marked = function_at(point).ending == Ending::between_marks;
    const bool is_mark = point.place == CallPlace::begin || point.place == CallPlace::end;
    return marked ? is_mark : point.place == CallPlace::function && point.counter == 0;
  }

  /// Charged with the attaching that follows: alone, it might use up what that needs, again and again.
  int prepare(const CallQuestion& question, CallAnswer& answer) {
    if (question.count > 1) return EINVAL;
    attaching_.use(std::exchange(preparing_, 0));  // nothing followed the last one
    if (attaching_.is_used_up()) return EAGAIN;
    if (links_.size() + unwanted_.size() >= most_links_) return EMFILE;
    const auto begin = std::chrono::steady_clock::now();
    CallCounters::Attached attached = counters_->prepare(question.count == 1);
    preparing_ = cost_since(begin);
    if (attached.error != 0) return attached.error;
    answer.link = ++last_link_;
    answer.since_ns[0] = attached.since_ns;
    links_.emplace(answer.link, std::move(attached.links));
    return 0;
  }

  /// In seconds. Twice the time: later, the kernel keeps processes from beginning others for as long again, when it
  /// detaches.
  static double cost_since(std::chrono::steady_clock::time_point begin) {
    return 2 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// An errno of all points; 0: the answer has one for each, and the number of its link.
  int attach(const CallQuestion& question, int file, CallAnswer& answer) {
    if (question.count == 0 || question.count > question.points.size() || question.pid <= 0) return EINVAL;
    const std::span<const AskedPoint> points(question.points.data(), question.count);
    const bool valid = std::all_of(points.begin(), points.end(), [this](const AskedPoint& each) {
      return each.point.index < places_ && fits(each.point);
    });
    if (!valid) return EINVAL;
    if (attaching_.is_used_up()) return EAGAIN;
    // Taken first: what is found out below then holds for the process that has this start, or it is detached again.
    const std::optional<std::int64_t> start = start_of(question.pid);
    if (!start) return ESRCH;
    if (!is_process_of_job(question.pid, job_) || !is_of_our_user(question.pid)) return EPERM;
    const auto begin = std::chrono::steady_clock::now();
    answer.link = last_link_ + 1;
    last_link_ += points.size();
    const int error = attach_in_file(question.pid, file, points, answer);
    attaching_.use(cost_since(begin) + std::exchange(preparing_, 0));
    if (error != 0) return error;
    if (start_of(question.pid) == start) return 0;
    give_up_from(links_.lower_bound(answer.link));  // it has ended, and its number may be another's
    return ESRCH;
  }

  int attach_in_file(pid_t pid, int file, std::span<const AskedPoint> points, CallAnswer& answer) {
    if (!is_readable_file(file)) return EBADF;
    std::vector<std::uint64_t> offsets;
    offsets.reserve(points.size());
    for (const AskedPoint& each : points) offsets.push_back(each.point.offset);
    const std::vector<bool> mapped = are_mapped_as_code(pid, file, offsets);
    const bool may_time = may_be_timed(pid);
    const bool has_counters =
        std::any_of(points.begin(), points.end(), [](const AskedPoint& each) { return each.point.counter != 0; });
    const CounterPart counters = has_counters ? find_counters(reader_of(file)) : CounterPart{};
    std::vector<std::size_t> granted;
    std::vector<CallCounters::Function> functions;
    granted.reserve(points.size());
    functions.reserve(points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      const CallPoint& point = points[i].point;
      const bool timed = points[i].timed != 0;
      if (links_.size() + unwanted_.size() + granted.size() >= most_links_) {
        answer.errors[i] = EMFILE;
      } else if (point.counter != 0 && !counters.has(point.counter)) {
        answer.errors[i] = EINVAL;  // the kernel would add 1 to other data of the process
      } else if (!mapped[i]) {
        answer.errors[i] = ENXIO;
      } else if (!is_cheap(file, point.offset) || (timed && point.place == CallPlace::function && !may_time)) {
        answer.errors[i] = EOPNOTSUPP;
      } else {
        granted.push_back(i);
        functions.push_back({.shape = shape_of(function_at(point), timed), .points = std::span(&point, 1)});
      }
    }
    std::vector<CallCounters::Attached> attached = counters_->attach(file, pid, functions);
    for (std::size_t k = 0; k < granted.size(); ++k) {
      answer.errors[granted[k]] = attached[k].error;
      answer.since_ns[granted[k]] = attached[k].since_ns;
      if (attached[k].error == 0) {
        links_.emplace(answer.link + granted[k], std::move(attached[k].links));
      } else if (!attached[k].links.empty()) {
        unwanted_.push_back(std::move(attached[k].links));
      }
    }
    return 0;
  }

  int detach(const CallQuestion& question) {
    if (question.count == 0 || question.count > question.links.size()) return EINVAL;
    CallLinks all;
    int error = 0;
    for (const std::uint64_t link : std::span(question.links).first(question.count)) {
      auto known = links_.extract(link);
      if (known.empty()) {
        error = ENOENT;
      } else {
        all.add(std::move(known.mapped()));
      }
    }
    return error;
  }

  void give_up_from(Links::iterator first) {
    for (auto link = first; link != links_.end(); ++link) unwanted_.push_back(std::move(link->second));
    links_.erase(first, links_.end());
  }

  int socket_;
  const std::string& job_;
  std::unique_ptr<CallCounters> counters_;
  std::size_t places_ = 0;
  Links links_;
  std::vector<CallLinks> unwanted_;
  std::uint64_t last_link_ = 0;
  std::size_t most_links_;
  Allowance attaching_;   // seconds
  double preparing_ = 0;  // seconds that are not yet charged
  Allowance requests_;
};

/// SIGALRM ends this process, after a thread of its own has detached everything. The end of a process that hangs in the
/// kernel closes nothing before that call is over, and to close a file of FUSE waits for its file system, whatever
/// happens (fuse_flush).
class EndByAlarm {
 public:
  EndByAlarm() {
    ::sigemptyset(&alarms_);
    ::sigaddset(&alarms_, SIGALRM);
    ::signal(SIGALRM, SIG_DFL);
    ::pthread_sigmask(SIG_BLOCK, &alarms_, &before_);
    try {
      thread_ = std::thread([this] { wait(); });
    } catch (const std::system_error&) {  // the user has too many of them: the signal itself is left
      ::pthread_sigmask(SIG_UNBLOCK, &alarms_, nullptr);
    }
  }
  ~EndByAlarm() {
    if (thread_.joinable()) {
      over_ = true;
      ::pthread_kill(thread_.native_handle(), SIGALRM);
      thread_.join();
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  EndByAlarm(const EndByAlarm&) = delete;
  EndByAlarm& operator=(const EndByAlarm&) = delete;

 private:
  void wait() const {
    int signal = 0;
    while (::sigwait(&alarms_, &signal) != 0) {
    }
    if (over_) return;
    ::pthread_sigmask(SIG_UNBLOCK, &alarms_, nullptr);
    end_soon();
    close_call_links(end_soon);
    ::raise(SIGALRM);
  }
  /// Where the kernel lets nothing be detached meanwhile. There may be thousands of links: each has the time anew.
  static void end_soon() noexcept { ::alarm(1); }

  sigset_t alarms_{}, before_{};
  std::atomic<bool> over_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace

int serve_call_requests(int socket, const std::string& job, const CallLimits& limits) {
  ::fcntl(socket, F_SETFL, 0);  // the broker need not hear of each request
  CallServer server(socket, job, limits);
  const EndByAlarm end;
  pollfd ready{socket, POLLIN, 0};
  bool goes_on = true;
  while (goes_on) {
    const bool has_more = server.detach_some();
    const int requests = ::poll(&ready, 1, has_more ? 0 : limits.silence_ms);
    if (requests == 0 && has_more) continue;
    if (requests <= 0) break;
    {
      CallQuestion question;
      MessageFiles files;
      const CallServer::Got got = Message<CallQuestion>(&question).receive(socket, files);
      // The file may lie on a server that is gone or on a user's own file system: to look at it, to read code from it
      // and to close it may take any time, in which no request is answered, and the kernel may block the start of
      // processes on the whole node. To prepare, the kernel makes a link, too.
      if (files[0] || question.what == CallRequest::prepare) ::alarm(limits.with_a_file);
      goes_on = got != CallServer::Got::nothing && server.serve(question, files, got);
    }
    // Once EndByAlarm's thread detaches, this takes away its alarm, too. That is needed only while this thread hangs,
    // and then it does not come here.
    ::alarm(0);
  }
  server.detach_all();
  return 0;
}

}  // namespace reveal
