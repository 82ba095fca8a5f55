// The cost of the end of earlier jobs on this node: the processor time of their deliverers beside the time that their
// traces, or the number of their nodes, let expect. Root measures and keeps both, in a file of its own in the spool; a
// user can change no more than how long his own deliverers compute. So the place of a report, the epilog or a job, is
// chosen by how fast the node is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

/// Measured: .3 s for a trace of 1 MB; half as much again where it is thinned, .5 s for 4 MB with an analysis of 1.2 s.
[[nodiscard]] double expected_analysis_seconds(double trace_bytes, bool thinned) noexcept;
/// For the report from the summaries of so many nodes; measured 1.6 s for 1,000, 15.4 s for 10,000.
[[nodiscard]] double expected_merge_seconds(std::size_t nodes) noexcept;

/// Exit status of a deliverer whose processor time says nothing about its node: it read results of other tasks, or of
/// some other nodes.
inline constexpr int kWorkedForOthers = 3;
/// Exit status of a deliverer that has also built the report of all nodes of its job.
inline constexpr int kBuiltReportOfAll = 4;

/// A node is at most so many times slower or faster than expected.
inline constexpr double kLargestPace = 4;

enum class DeliveryWork : std::uint8_t { analysis, merge };

/// Processor time relative to the expected one.
struct DeliveryPaces {
  double analysis = 1, merge = 1;
};

struct DeliveryTime {
  unsigned owner = 0;  // user id
  std::int64_t utc_seconds = 0;
  double expected_seconds = 0;
  double cpu_seconds = 0;
  DeliveryWork work = DeliveryWork::analysis;
  bool operator==(const DeliveryTime&) const = default;
};

class DeliveryTimes {
 public:
  /// The times that are kept in the spool; none where there is no such file of this user, or no line of it is sound.
  [[nodiscard]] static DeliveryTimes in_spool(const std::filesystem::path& spool,
                                              std::int64_t now_utc_seconds) noexcept;
  /// Lines that cannot be are left out: those of the future, of more than 90 days, and without a measured time.
  [[nodiscard]] static DeliveryTimes of_text(std::string_view text, std::int64_t now_utc_seconds);

  /// A delivery of half a second or less says nothing: programs have to start.
  void add(const DeliveryTime& time);
  /// Throws Error.
  void keep_in_spool(const std::filesystem::path& spool) const;
  [[nodiscard]] std::string text() const;

  /// The processor time relative to the expected one, 1 where nothing is known. Of a user with several deliveries it is
  /// the median of his own; else the median of all users' medians and 1, so that no single user moves it for others.
  [[nodiscard]] double pace_of(unsigned owner, DeliveryWork work) const;
  [[nodiscard]] DeliveryPaces paces_of(unsigned owner) const;
  [[nodiscard]] std::size_t deliveries() const noexcept { return times_.size(); }
  [[nodiscard]] std::size_t owners() const;

 private:
  std::vector<DeliveryTime> times_;  // by time
};

/// Within 1/4 and 4; 1 for what is no number.
[[nodiscard]] double bounded_pace(double pace) noexcept;

}  // namespace reveal
