// How much mail is enough: so many an hour, one per array job and audience, one about the same finding of the same
// command in some days, and one about a fault of hardware a day. Kept as small private files in a state directory;
// every claim is one O_EXCL, so any number of nodes may share it over a network file system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "postproc/mail/message.h"
#include "postproc/mail/state_folder.h"

namespace reveal {

/// In the home directory; below it, a directory for each cluster.
inline constexpr const char* kMailStates = ".local/state/reveal/mail";

/// Where the mails of a user's arrays, whose tasks end on many nodes, are counted together: in the home directory, made
/// there if need be. Nothing where that cannot be.
[[nodiscard]] std::optional<std::string> shared_mail_state(const std::filesystem::path& home,
                                                           const std::string& cluster);

class MailQuota {
 public:
  /// Others who could write in the directory could take all mails, or have us write through links of theirs. Throws
  /// Error as StateFolder does.
  MailQuota(const std::string& directory, std::int64_t now_utc_ns);

  /// Faults are claimed in this directory, too, which jobs of other users share: root's, and like /tmp. Returns why it
  /// is not used, "" if it is: faults are then claimed for the jobs of this user only.
  [[nodiscard]] std::string share_faults(const std::string& path);

  /// The claims to come are made for this mail. `again`: an earlier try of it may have been killed; the claims that
  /// this try left are taken as if they were free.
  void begin_mail(const std::string& mail, bool again);

  /// One of this hour's mails to this audience; "" when `per_hour` have been taken. The name is for give_back().
  [[nodiscard]] std::string take_hourly(int per_hour, Audience audience);

  /// The one mail of an array job; "" when another task has it: then this task is noted there.
  [[nodiscard]] std::string take_array(const std::string& user, const std::string& array, Audience audience,
                                       const std::string& task);

  /// The right to tell the user of these rules' findings in runs of a command: a name for each rule of which the user
  /// was not told within `days`. None: the user knows all of them.
  [[nodiscard]] std::vector<std::string> take_findings(const std::string& user, const std::string& run_key,
                                                       const std::set<std::string>& rules, int days);

  /// The right to tell the administrators of a fault today (UTC); "" when they were told.
  [[nodiscard]] std::string take_fault(const std::string& key);

  /// One look at the arrays whose mail did not come, in this hour.
  [[nodiscard]] bool take_look_at_arrays();
  /// True for one process at a time, until end_look_at_arrays(), or ten minutes later where it was killed: a look takes
  /// the claims of a killed process as if they were free, and must not take those of another look.
  [[nodiscard]] bool begin_look_at_arrays();
  void end_look_at_arrays() noexcept;

  /// The mail could not be sent: the next one may try.
  void give_back(const std::string& name) noexcept;

 private:
  [[nodiscard]] bool create(const std::string& name, const std::string& content);
  [[nodiscard]] bool claim(const std::string& name, const std::string& line);
  [[nodiscard]] bool is_of_former_try(int folder, const std::string& name, std::string_view line) const;
  [[nodiscard]] bool is_claimed_by_others(const std::string& name) const;
  [[nodiscard]] bool claim_now(const std::string& name);
  void note(const std::string& name, const std::string& task);
  [[nodiscard]] std::optional<std::int64_t> time_of(const std::string& name) const;
  [[nodiscard]] bool is_older(const std::string& name, std::int64_t seconds) const;
  void forget_old();

  std::int64_t now_seconds_;
  StateFolder folder_;
  Descriptor shared_faults_;
  std::string mail_;    // a line in its claims, by which a later try knows them
  bool again_ = false;  // this is such a try
};

/// The number Slurm gives an array job: "4710".
[[nodiscard]] bool is_array_id(std::string_view text) noexcept;

}  // namespace reveal
