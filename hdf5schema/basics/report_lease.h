// One builder of a report at a time, on any number of nodes.
#pragma once

#include <filesystem>
#include <string>

namespace reveal {

/// The right to build a report: a file made with O_EXCL, which network file systems keep unique, too. A lease is taken
/// over if its process is gone or if it is too old. https://man7.org/linux/man-pages/man2/open.2.html
class ReportLease {
 public:
  ReportLease(const std::string& directory, const std::string& node) : node_(node) { follow(directory); }
  ~ReportLease();
  ReportLease(const ReportLease&) = delete;
  ReportLease& operator=(const ReportLease&) = delete;

  /// True if the lease is now ours. False while another holds it.
  [[nodiscard]] bool take();
  /// The directory has another name now.
  void follow(const std::string& directory) { path_ = directory + "/.report.lease"; }
  /// After take() returned false: the errno if no lease can be made here; 0 while another holds it.
  [[nodiscard]] int failure() const noexcept { return failure_; }

 private:
  std::string path_, node_;
  std::string text_;  // text of our own lease
  bool held_ = false;
  int failure_ = 0;
};

/// The time by the clock of the server that keeps the directory: it may differ from ours by more than the ages we
/// compare.
[[nodiscard]] std::filesystem::file_time_type file_time_now(const std::string& directory);

}  // namespace reveal
