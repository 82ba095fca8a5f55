// The child process to which a probe sends requests again and again: the times of the last request and of the next
// possible one, whether it hangs, how many of its answers were not whole, and the events about it. One that is killed
// is started again.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/sampler/probe.h"
#include "core/sampler/worker_process.h"
#include "hdf5schema/basics/clocks.h"

namespace reveal {

struct AskedChildWords {
  std::string_view probe;             // the probe of this child: "gpu"
  std::string_view recorded_as = {};  // name of its answers in a recording; "": the name of the probe
  std::string_view lost = "its child process was killed";
  std::string_view object = {};  // subject of the events about one that hangs: "rdma adapters"
  std::string_view text = {};    // likewise
  int kept = -1;                 // a descriptor that it keeps (WorkerProcess::kKeptFile)
  bool starts_again = true;      // false: one that lost its memory cannot go on
};

class AskedChild : public WorkerProcess {
 public:
  /// From its end to the next start. A child that the kernel kills for its memory, or that crashes, again and again
  /// costs the job no more than a few starts.
  static constexpr std::int64_t kBeforeRestart = 10 * kSecond;
  static constexpr std::size_t kMostRestarts = 3;  // within kRestartsCount
  static constexpr std::int64_t kRestartsCount = 3600 * kSecond;

  AskedChild(const ProbeContext& context, Work work, const AskedChildWords& words)
      : WorkerProcess(context.fs, std::string(words.recorded_as.empty() ? words.probe : words.recorded_as), work,
                      words.kept),
        sink_(context.sink),
        words_(words),
        replays_(context.fs.recorded()) {}

  /// Throws Unavailable where there is no child process.
  void need() const {
    if (state() == State::lost) throw Unavailable("no child process could be started to query it");
  }
  /// Sends the first request and waits for its answer. The first answer() returns it again.
  std::string_view open(std::string_view request, std::chrono::milliseconds limit) {
    ask(request);
    opening_ = answer_within(limit);
    need();
    return opening_;
  }

  bool ask(std::string_view request) noexcept {
    const bool sent = WorkerProcess::ask(request);
    const bool was_sent = replays_ && !std::exchange(replay_waits_, true);  // by the recorded collector
    if (sent || was_sent) asked_ns_ = sink_.now();
    return sent;
  }
  [[nodiscard]] std::string_view answer() {
    if (!opening_.empty()) return current_ = std::exchange(opening_, {});
    const std::string_view text = WorkerProcess::answer();
    if (!text.empty()) replay_waits_ = false;
    end_silence(text);
    if (was_lost()) {
      note_loss();
    } else if (state() == State::lost) {
      restart_when_due();
    }
    return text;
  }
  [[nodiscard]] std::string_view answer_within(std::chrono::milliseconds limit) noexcept {
    const std::string_view text = WorkerProcess::answer_within(limit);
    end_silence(text);
    return text;
  }
  /// True once after a restart, which answer() makes: the child knows nothing of earlier requests.
  [[nodiscard]] bool was_restarted() noexcept { return std::exchange(restarted_, false); }

  /// Not due before so many nanoseconds after the last request, but for an hour at most: the cost of an answer may be
  /// any number in a recording. Returns this time.
  std::int64_t pause(double nanoseconds) noexcept {
    const auto pause = static_cast<std::int64_t>(std::clamp(nanoseconds, 0.0, 3600e9));
    next_ns_ = std::max(next_ns_, asked_ns_ + pause);
    longest_pause_ns_ = std::max(longest_pause_ns_, pause);
    return pause;
  }
  /// The time of the last request that was sent.
  [[nodiscard]] std::int64_t asked_ns() const noexcept { return asked_ns_; }
  [[nodiscard]] bool is_due() const noexcept { return sink_.now() >= next_ns_; }
  [[nodiscard]] std::int64_t longest_pause_ns() const noexcept { return longest_pause_ns_; }

  /// Whether it has not answered for five seconds.
  bool hangs() {
    const bool hangs = state() == State::busy && sink_.now() - asked_ns_ >= 5 * kSecond;
    if (!hangs && silent_) return false;  // one that was killed does not answer again before its successor does
    if (hangs != hangs_) {
      sink_.event(std::string(words_.object), hangs ? "not_answering" : "answering", std::string(words_.text));
    }
    return hangs_ = hangs;
  }

  /// Counts an answer that was not complete.
  void note_gap(std::string_view line) {
    ++gaps_;
    const std::string_view why = reason_in(line);
    if (gap_ != why) sink_.event("probe " + std::string(words_.probe), "gap", gap_ = why);
  }
  /// The sentence for the caveat of the probe; "" if all answers were complete.
  [[nodiscard]] std::string gaps() const {
    std::string text = losses();
    if (gaps_ > 0) {
      text += (text.empty() ? "" : "; ") + std::to_string(gaps_) + " readings were incomplete: " + gap_;
    }
    return text;
  }
  /// The rest of a line, without the blanks before it and the lines behind it.
  [[nodiscard]] static std::string_view reason_in(std::string_view rest) noexcept {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    return rest.substr(0, rest.find('\n'));
  }

 private:
  void end_silence(std::string_view answer) noexcept {
    if (!answer.empty() && std::exchange(silent_, false)) missing_ns_ += sink_.now() - lost_ns_;
  }

  void note_loss() {
    if (!std::exchange(silent_, true)) lost_ns_ = sink_.now();
    ended_ns_ = sink_.now();
    ++losses_;
    sink_.event("probe " + std::string(words_.probe), "probe_lost", std::string(words_.lost));
  }

  void restart_when_due() {
    if (!words_.starts_again || sink_.now() - ended_ns_ < kBeforeRestart) return;
    std::int64_t& oldest = restarts_ns_[restarts_ % kMostRestarts];
    if (restarts_ >= kMostRestarts && sink_.now() - oldest < kRestartsCount) return;
    oldest = ended_ns_ = sink_.now();
    ++restarts_;
    if (!start_again()) return;  // tried again later
    restarted_ = true;
    sink_.event("probe " + std::string(words_.probe), "probe_restarted", "its child process was started again");
  }

  /// "its child process was killed 2 times: there is no data for 31 s".
  [[nodiscard]] std::string losses() const {
    if (losses_ == 0 && state() != State::lost) return "";
    std::string text(words_.lost);
    if (losses_ > 1) text += ' ' + std::to_string(losses_) + " times";
    const bool is_silent = silent_ || state() == State::lost;
    if (missing_ns_ == 0 && is_silent) return text + ": there is no data after that";
    text += ": there is no data for " + std::to_string((missing_ns_ + kSecond / 2) / kSecond) + " s";
    return is_silent ? text + ", and none after the last time" : text;
  }

  TraceSink& sink_;
  AskedChildWords words_;
  bool replays_;
  bool replay_waits_ = false;  // for the answer to a request
  std::string opening_, current_, gap_;
  std::int64_t gaps_ = 0;
  std::int64_t asked_ns_ = 0;
  std::int64_t next_ns_ = 0;
  std::int64_t longest_pause_ns_ = 0;
  std::int64_t losses_ = 0;
  std::int64_t lost_ns_ = 0;     // since then there are no answers, while it is silent
  std::int64_t ended_ns_ = 0;    // time of the last loss, or of the last restart
  std::int64_t missing_ns_ = 0;  // without answers for that reason
  std::size_t restarts_ = 0;
  std::array<std::int64_t, kMostRestarts> restarts_ns_{};  // the newest
  bool silent_ = false;                                    // from a loss to the next answer
  bool restarted_ = false;
  bool hangs_ = false;
};

}  // namespace reveal
