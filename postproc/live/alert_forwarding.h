// Other places that get the news of `reveal watch`, one JSON object each: a file, a directory with a file for each, and
// a command that reads it. A place that fails is named once, and never ends the watch.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace reveal {

struct ForwardOptions {
  std::filesystem::path append;                                // file that gets a line for each; "": none
  std::filesystem::path spool;                                 // directory of this user; "": none
  std::vector<std::string> command;                            // program and arguments, without a shell; empty: none
  std::uintmax_t most_bytes = std::uintmax_t{64} << 20;        // in the file: no line is appended beyond
  std::size_t most_files = 1000;                               // in the directory: the oldest are deleted
  std::size_t most_waiting = 100;                              // for the command, which gets one after the other
  std::chrono::milliseconds limit = std::chrono::seconds(10);  // for the command, each time

  [[nodiscard]] bool any() const { return !append.empty() || !spool.empty() || !command.empty(); }
};

/// One thing to tell.
struct ForwardedNews {
  std::int64_t utc_ns = 0;
  std::string name;  // part of a file's name: "opened-1-n01"
  std::string json;  // without a line's end
};

class NewsReceiver {
 public:
  virtual ~NewsReceiver() = default;
  /// Throws Error. May not block for long.
  virtual void take(const ForwardedNews& news) = 0;
  /// A failure after take(), "" if there was none.
  [[nodiscard]] virtual std::string failure() { return {}; }
  /// Nothing is taken afterwards. Returns what was left undone, "" if nothing was.
  [[nodiscard]] virtual std::string finish() { return {}; }
};

class AlertForwarding {
 public:
  /// Throws Error if a place cannot be used.
  explicit AlertForwarding(const ForwardOptions& options);

  void forward(const ForwardedNews& news);
  /// A line for each place that failed for the first time since the last call.
  [[nodiscard]] std::vector<std::string> take_problems();
  /// Waits until the command has had what waits for it, at most its limit in all. Nothing is forwarded afterwards.
  void finish();

 private:
  struct Place {
    std::unique_ptr<NewsReceiver> receiver;
    bool failed = false;
  };
  void note_failure(Place& place, const std::string& why);

  std::vector<Place> places_;
  std::vector<std::string> problems_;
};

}  // namespace reveal
