#include "postproc/mail/mailer_state.h"

#include <algorithm>

#include "hdf5schema/basics/clocks.h"
#include "postproc/json/record.h"
#include "postproc/mail/fault_lines.h"
#include "postproc/mail/mail_queue.h"
#include "postproc/words/gauge.h"

namespace reveal {
namespace {

constexpr std::int64_t kMailerHour = 3600 * kSecond;
constexpr std::int64_t kToldAgainAfter = 24 * kMailerHour;
constexpr int kFewestTries = 5;
constexpr std::size_t kMostStepLists = 5000;  // rules and nodes with lines of their own
constexpr std::size_t kLongestNodeName = 253;

struct CountedRule {
  std::string rule;
  std::uint64_t jobs = 0;
};

struct OwnerMails {
  std::uint64_t owner = 0;
  int mails = 0;
};

struct NamedMail {
  std::string name;
  WaitingMail mail;
};

struct ToldFault {
  std::string rule, node;
  ToldMail mail;
};

/// Maps as lists.
struct MailerRecord {
  MailerCounters counters;
  std::vector<CountedRule> rules;
  std::int64_t hour = 0;
  std::vector<OwnerMails> sent_in_hour;
  std::vector<NamedMail> waiting;
  std::vector<ToldFault> told;
  std::int64_t untold_since_utc_ns = 0;
  std::vector<FaultLines> steps;
};

void fields(auto& v, Visited<decltype(v), CountedRule>& counted) {
  v("rule", counted.rule);
  v("jobs", counted.jobs);
}

void fields(auto& v, Visited<decltype(v), OwnerMails>& sent) {
  v("owner", sent.owner);
  v("mails", sent.mails);
}

void fields(auto& v, Visited<decltype(v), NamedMail>& waiting) {
  v("name", waiting.name);
  v("tries", waiting.mail.tries);
  v.time("first_try", waiting.mail.first_utc_ns);
  v.time("next_try", waiting.mail.next_utc_ns);
}

void fields(auto& v, Visited<decltype(v), ToldFault>& told) {
  v("rule", told.rule);
  v("node", told.node);
  v("owner", told.mail.owner);
  v.time("time", told.mail.utc_ns);
}

void fields(auto& v, Visited<decltype(v), MailerRecord>& record) {
  v.schema("schema", "reveal.mailer/1");
  v("user_reports", record.counters.user_reports);
  v("admin_reports", record.counters.admin_reports);
  v("user_mails", record.counters.user_mails);
  v("digests", record.counters.digests);
  v("held_back", record.counters.held_back);
  v("failed", record.counters.failed);
  v("given_up", record.counters.given_up);
  v("refused", record.counters.refused);
  v("rules", record.rules);
  v("hour", record.hour);
  v("sent_in_hour", record.sent_in_hour);
  v("waiting", record.waiting);
  v("told", record.told);
  v.time("untold_since", record.untold_since_utc_ns);
  v("steps", record.steps);
}

std::string counter_text(std::string_view name, std::string_view help, std::uint64_t value) {
  Gauge metric(name, "", help, "counter");
  metric.add({}, static_cast<double>(value));
  return metric.text();
}

std::string counters_by_audience(std::string_view name, std::string_view help, std::uint64_t user,
                                 std::uint64_t admins) {
  Gauge metric(name, "", help, "counter");
  metric.add({{"audience", "user"}}, static_cast<double>(user));
  metric.add({{"audience", "admins"}}, static_cast<double>(admins));
  return metric.text();
}

bool was_told_within_a_day(const ToldMail& mail, std::int64_t now_utc_ns) {
  return mail.utc_ns <= now_utc_ns && mail.utc_ns > now_utc_ns - kToldAgainAfter;
}

}  // namespace

bool is_due(const WaitingMail& mail, std::int64_t now_utc_ns) noexcept {
  return mail.next_utc_ns <= now_utc_ns || mail.next_utc_ns > now_utc_ns + kLongestMailPause;
}

bool put_off(WaitingMail& mail, std::int64_t now_utc_ns) noexcept {
  if (mail.first_utc_ns == 0 || mail.first_utc_ns > now_utc_ns) mail.first_utc_ns = now_utc_ns;
  ++mail.tries;
  mail.next_utc_ns = now_utc_ns + pause_after(mail.tries);
  return mail.tries < kFewestTries || now_utc_ns - mail.first_utc_ns <= kMailGivesUpAfter;
}

bool MailerState::is_hour_full(std::uint64_t owner, int per_hour, std::int64_t now_utc_ns) {
  if (const std::int64_t now_hour = now_utc_ns / kMailerHour; now_hour != hour) {
    hour = now_hour;
    sent_in_hour.clear();
  }
  const auto sent = sent_in_hour.find(owner);
  return (sent == sent_in_hour.end() ? 0 : sent->second) >= per_hour;
}

bool MailerState::is_told(const NodeFault& fault, std::int64_t now_utc_ns) const {
  const auto one = told.find({fault.rule, fault.node});
  return one != told.end() && was_told_within_a_day(one->second, now_utc_ns) &&
         (one->second.owner.empty() || one->second.owner == fault.owner);
}

void MailerState::tell(const NodeFault& fault, std::int64_t now_utc_ns) {
  ToldMail& mail = told[{fault.rule, fault.node}];
  const bool had_another = was_told_within_a_day(mail, now_utc_ns) && mail.owner != fault.owner;
  mail = {.utc_ns = now_utc_ns, .owner = had_another ? "" : fault.owner};
}

void MailerState::keep_steps(const AdminLines& lines) {
  for (const auto& [fault, texts] : lines) {
    if (steps.size() >= kMostStepLists) return;
    if (fault.second.size() > kLongestNodeName || steps.contains(fault)) continue;
    std::vector<std::string> of_rule = lines_of_rule(fault.first, texts);
    if (!of_rule.empty()) steps[fault] = std::move(of_rule);
  }
}

void MailerState::forget_old(const std::set<std::string>& names_in_spool, std::int64_t now_utc_ns) {
  std::erase_if(waiting, [&](const auto& entry) { return !names_in_spool.contains(entry.first); });
  std::erase_if(told, [&](const auto& entry) { return !was_told_within_a_day(entry.second, now_utc_ns); });
}

std::string render_mailer_state(const MailerState& state) {
  MailerRecord record{.counters = state.counters,
                      .rules = {},
                      .hour = state.hour,
                      .sent_in_hour = {},
                      .waiting = {},
                      .told = {},
                      .untold_since_utc_ns = state.untold_since_utc_ns,
                      .steps = list_of(state.steps)};
  for (const auto& [rule, jobs] : state.jobs_of_rules) record.rules.push_back({rule, jobs});
  for (const auto& [owner, mails] : state.sent_in_hour) record.sent_in_hour.push_back({owner, mails});
  for (const auto& [name, mail] : state.waiting) record.waiting.push_back({name, mail});
  for (const auto& [fault, mail] : state.told) record.told.push_back({fault.first, fault.second, mail});
  return render_record(record);
}

MailerState parse_mailer_state(const std::string& json) {
  const MailerRecord record = parse_record<MailerRecord>(json, "records of the mailer");
  MailerState state{.counters = record.counters,
                    .jobs_of_rules = {},
                    .hour = record.hour,
                    .sent_in_hour = {},
                    .waiting = {},
                    .told = {},
                    .untold_since_utc_ns = record.untold_since_utc_ns,
                    .steps = admin_lines_of(record.steps)};
  for (const CountedRule& one : record.rules) state.jobs_of_rules[one.rule] = one.jobs;
  for (const OwnerMails& one : record.sent_in_hour) state.sent_in_hour[one.owner] = one.mails;
  for (const NamedMail& one : record.waiting) state.waiting[one.name] = one.mail;
  for (const ToldFault& one : record.told) state.told[{one.rule, one.node}] = one.mail;
  return state;
}

std::string mailer_metrics(const MailerState& state, std::size_t waiting, std::int64_t now_utc_ns) {
  const MailerCounters& counters = state.counters;
  Gauge rules("reveal_mailer_jobs_with_finding_total", "", "Jobs with a finding of this rule for administrators.",
              "counter");
  for (const auto& [rule, jobs] : state.jobs_of_rules) rules.add({{"rule", rule}}, static_cast<double>(jobs));
  Gauge length("reveal_mailer_waiting", "", "Mails that wait in the spool.");
  length.add({}, static_cast<double>(waiting));
  Gauge called("reveal_mailer_time_seconds", "", "Time of the mailer's last call, since 1970.");
  called.add({}, static_cast<double>(now_utc_ns) / static_cast<double>(kSecond));
  return counters_by_audience("reveal_mailer_reports_total", "Reports of jobs that came to the mailer.",
                              counters.user_reports, counters.admin_reports) +
         counters_by_audience("reveal_mailer_mails_total", "Mails that the mailer sent.", counters.user_mails,
                              counters.digests) +
         counter_text("reveal_mailer_held_back_total", "Mails above the limit of an hour, which wait.",
                      counters.held_back) +
         counter_text("reveal_mailer_failed_total", "Mails that the mail program did not take, each try.",
                      counters.failed) +
         counter_text("reveal_mailer_given_up_total", "Mails that were given up after three days.", counters.given_up) +
         counter_text("reveal_mailer_refused_total", "Things in the spool that are no mails, or too many.",
                      counters.refused) +
         rules.text() + length.text() + called.text();
}

}  // namespace reveal
