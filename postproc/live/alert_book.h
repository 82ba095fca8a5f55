// The alerts of a running job: episodes come and change with every detection run; each alert is printed once, and a
// withdrawal is printed, too.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/telemetry/row_store.h"

namespace reveal {

enum class AlertState : std::uint8_t { open, closed, withdrawn };
[[nodiscard]] std::string_view name_of(AlertState state);
[[nodiscard]] std::optional<AlertState> alert_state_of(std::string_view name);

/// Why an alert is published (again).
enum class AlertNews : std::uint8_t { opened, closed, revised, withdrawn };
[[nodiscard]] std::string_view name_of(AlertNews news);
[[nodiscard]] std::optional<AlertNews> alert_news_of(std::string_view name);

/// An episode as it was seen last, on the node's clock: samples count from where a detection run began.
struct Alert {
  int number = 0;  // within the node; 0: not published yet
  AlertState state = AlertState::open;
  std::int64_t begin_ns = 0;      // monotonic
  std::int64_t end_ns = 0;        // so far, while it is open
  Episode episode;                // with its first reasons
  std::vector<Channel> channels;  // channels of these reasons, which name them by their place here
};

struct AlertChange {
  AlertNews news = AlertNews::opened;
  Alert alert;
};

/// No alert is published in the first seconds of a job: nearly everything is new then.
inline constexpr int kFirstAlertSeconds = 60;

class AlertBook {
 public:
  /// Returns the changes after a detection run on this block. `ended`: the job is over, nothing will change any more.
  /// `second_opinion` adds methods to an episode before it is published.
  [[nodiscard]] std::vector<AlertChange> update(const Detection& detection, const LiveBlock& block, bool ended,
                                                const std::function<void(Episode&)>& second_opinion = {});

  /// The numbers of its alerts follow those of an earlier trace of the same node.
  void number_after(const AlertBook& earlier);

  /// An alert is open or not published yet: the next detection run should not wait.
  [[nodiscard]] bool expects_news() const;
  [[nodiscard]] std::vector<Alert> published() const;

 private:
  struct Entry {
    Alert alert;
    Alert last_published;
    bool published = false;
    bool again = false;  // withdrawn once: it must come back strong, and over
    int runs = 0;        // in which it was seen
    int missed = 0;      // detection runs in a row; of those that judge it, unless it is open
  };
  Entry* find(const Alert& alert, const std::vector<const Entry*>& taken);
  [[nodiscard]] static std::optional<AlertNews> news_of(const Entry& entry, bool ended);
  void publish(Entry& entry, AlertNews news, std::vector<AlertChange>& changes);

  int numbers_ = 0;
  std::deque<Entry> entries_;  // addresses stay
};

}  // namespace reveal
