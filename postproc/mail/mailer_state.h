// The records of the site's mailer between its calls: counters, mails that wait for another try, and the findings of
// which administrators were told.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postproc/mail/site_digest.h"

namespace reveal {

/// A mail that failed, or that came when its owner's mails of the hour were sent.
struct WaitingMail {
  int tries = 0;
  std::int64_t first_utc_ns = 0;  // first of them, 0: none yet
  std::int64_t next_utc_ns = 0;
};

/// Also true where the clock was put back.
[[nodiscard]] bool is_due(const WaitingMail& mail, std::int64_t now_utc_ns) noexcept;
/// After a failed try: later each time. False: it is given up, after three days and at least five tries, so that a
/// clock put forward gives up none.
[[nodiscard]] bool put_off(WaitingMail& mail, std::int64_t now_utc_ns) noexcept;

struct MailerCounters {
  std::uint64_t user_reports = 0, admin_reports = 0;  // that came
  std::uint64_t user_mails = 0, digests = 0;          // that were sent
  std::uint64_t held_back = 0;                        // until a later hour
  std::uint64_t failed = 0, given_up = 0;
  std::uint64_t refused = 0;  // things in the spool that are no mails, or too many
};

struct ToldMail {
  std::int64_t utc_ns = 0;
  std::string owner;  // hash of the only user whose jobs had it; "" where several had
};

struct MailerState {
  MailerCounters counters;
  std::map<std::string, std::uint64_t> jobs_of_rules;            // jobs with such a finding for administrators
  std::int64_t hour = 0;                                         // since 1970
  std::map<std::uint64_t, int> sent_in_hour;                     // by owner
  std::map<std::string, WaitingMail> waiting;                    // by name in the spool
  std::map<std::pair<std::string, std::string>, ToldMail> told;  // by rule and node
  std::int64_t untold_since_utc_ns = 0;                          // 0: administrators know everything
  AdminLines steps;                                              // for what they do not know

  /// Whether this owner's mails of the hour are sent.
  [[nodiscard]] bool is_hour_full(std::uint64_t owner, int per_hour, std::int64_t now_utc_ns);
  /// Administrators were told of it within a day. A fault that only another user's jobs had does not count, since users
  /// can invent faults: another user's adds one mail a day at most.
  [[nodiscard]] bool is_told(const NodeFault& fault, std::int64_t now_utc_ns) const;
  void tell(const NodeFault& fault, std::int64_t now_utc_ns);
  /// The first of each rule and node; lines of other texts, rules and names are left out.
  void keep_steps(const AdminLines& lines);
  void forget_old(const std::set<std::string>& names_in_spool, std::int64_t now_utc_ns);
};

[[nodiscard]] std::string render_mailer_state(const MailerState& state);
/// Throws Error.
[[nodiscard]] MailerState parse_mailer_state(const std::string& json);

/// For node_exporter's textfile collector.
[[nodiscard]] std::string mailer_metrics(const MailerState& state, std::size_t waiting, std::int64_t now_utc_ns);

}  // namespace reveal
