#include "postproc/mail/site_mailer.h"

#include <pwd.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"
#include "postproc/json/record.h"
#include "postproc/ledger/local_ledger.h"
#include "postproc/ledger/node_ledger.h"
#include "postproc/ledger/owner_key.h"
#include "postproc/mail/address.h"
#include "postproc/mail/fault_lines.h"
#include "postproc/mail/mail_spool.h"
#include "postproc/mail/mailer_state.h"
#include "postproc/mail/node_digest.h"
#include "postproc/mail/outbox.h"
#include "postproc/mail/site_digest.h"
#include "postproc/words/lists.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr const char* kStateFile = "mailer.json";
constexpr const char* kUntoldFile = "untold.jsonl";
constexpr std::size_t kLargestState = std::size_t{64} << 20;
constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();
// No age: the clock of this host may be wrong.
constexpr LedgerLimits kUntoldLimits{.bytes = std::uintmax_t{64} << 20, .age_ns = kEver / 2};
constexpr std::size_t kMostLedgerOfReport = std::size_t{4} << 20;  // lines of others stay in the ledger beside it
constexpr std::int64_t kClocksDiffer = 3600 * kSecond;             // a node's may be ahead of the mailer's
constexpr int kServerIsAway = 3;                                   // mails that fail one after the other

/// The result of reading a mail, which comes from a child that the mail may have taken over.
struct ReadMail {
  bool later = false;   // it is of another version of reveal
  std::string refused;  // why it is no mail
  std::string ledger;   // lines of the ledger, for administrators
  std::vector<FaultLines> steps;
  std::vector<std::string> to;
  std::string subject, mime;
  std::string why_not;  // no mail to the user is due
};

void fields(auto& v, Visited<decltype(v), ReadMail>& mail) {
  v("later", mail.later);
  v("refused", mail.refused);
  v("ledger", mail.ledger);
  v("steps", mail.steps);
  v("to", mail.to);
  v("subject", mail.subject);
  v("mime", mail.mime);
  v("why_not", mail.why_not);
}

std::string text_of_file(int file) {
  std::string text;
  char part[65536];
  while (text.size() <= kLargestSpooledMail) {
    const ssize_t got = ::read(file, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("a mail in the spool", errno);
    if (got == 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
  throw Error("a mail in the spool is too large");
}

/// The owner of the file is the job's; the name in the file is not trusted.
std::string name_of_owner(uid_t uid) {
  const passwd* user = ::getpwuid(uid);
  return user == nullptr ? "" : user->pw_name;
}

/// The user wrote the mail in the spool and can name any address there as Slurm's: with the site's sender, it must be
/// one of the site.
void take_foreign_address(MailRequest& request, const std::string& site) {
  const std::string_view domain = domain_of(request.mail_user);
  if (!site.empty() && !domain.empty() && !same_domain(domain, site)) request.mail_user.clear();
}

void compose_for_user(const SpooledMail& mail, const SiteMailer& mailer, const MailSettings& settings, ReadMail& read) {
  const Report report = parse_report(mail.report);
  const MailPlan plan = plan_mail(report, settings, mail.request);
  if (plan.user.empty()) {
    read.why_not = joined(plan.refused.empty() ? plan.why_not : plan.refused, "; ");
    return;
  }
  const MailContext context{.audience = Audience::user,
                            .to = plan.user,
                            .host = mailer.host,
                            .directory = mail.directory,
                            .array = mail.array,
                            .admins_notified = mail.admins_notified,
                            .repeat_days = mail.repeat_days,
                            .faults = {},
                            .tasks = mail.tasks,
                            .now_utc_ns = mailer.now_utc_ns};
  const MailMessage message = compose_mail(report, settings, context);
  read.to = plan.user;
  read.subject = message.subject;
  read.mime = message.mime;
}

void read_spooled_mail(const std::string& text, const std::string& owner, const SiteMailer& mailer,
                       const MailSettings& settings, ReadMail& read) {
  SpooledMail mail = parse_spooled_mail(text);
  mail.request.user = owner;
  take_foreign_address(mail.request, settings.domain);
  if (mail.audience == Audience::user) {
    compose_for_user(mail, mailer, settings, read);
  } else {
    read.ledger = render_ledger(lines_for_admins(mail.report, settings));
    read.steps = list_of(admin_lines(mail.report, settings));
  }
}

/// In the child.
std::string answer_about(int file, const std::string& owner, const SiteMailer& mailer, const MailSettings& settings) {
  const std::string text = text_of_file(file);
  ReadMail read;
  read.later = is_spooled_by_another_version(text);
  try {
    if (!read.later) read_spooled_mail(text, owner, mailer, settings, read);
  } catch (const Error& error) {
    read = {};
    read.refused = error.what();
  }
  return render_record(read);
}

class MailerRound {
 public:
  MailerRound(const SiteMailer& mailer, const MailSettings& settings)
      : mailer_(mailer), settings_(settings), spool_(settings.mailer_spool), end_(Clock::now() + mailer.limit) {}

  SiteMailerOutcome run() {
    if (!mailer_.dry_run && !spool_.take_turn()) {
      outcome_.why_not.emplace_back("another mailer is at work on " + settings_.mailer_spool);
      return {std::move(outcome_), ""};
    }
    folder_ = open_private_directory(spool_.state());
    load();
    find_untold();
    const std::vector<SpoolEntry> entries = spool_.entries(mailer_.dry_run ? OtherFiles::kept : OtherFiles::deleted);
    left_ = entries.size();
    std::set<std::string> names;
    for (const SpoolEntry& entry : entries) names.insert(entry.name);
    state_.forget_old(names, mailer_.now_utc_ns);
    for (const SpoolEntry& entry : entries) {
      if (Clock::now() >= end_ || failed_in_a_row_ >= kServerIsAway) break;
      handle(entry);
    }
    state_.counters.refused += spool_.refused();
    for (std::string& problem : spool_.problems()) outcome_.problems.push_back(std::move(problem));
    tell_administrators();
    give_up();
    save();
    return {std::move(outcome_), mailer_metrics(state_, left_, mailer_.now_utc_ns)};
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] std::filesystem::path record(const char* name) const {
    return std::filesystem::path(spool_.state()) / name;
  }

  /// Damaged records are begun anew: mails are worth more than counters.
  void load() {
    if (::access(record(kStateFile).c_str(), F_OK) != 0 && errno == ENOENT) return;
    try {
      state_ = parse_mailer_state(read_text_file(record(kStateFile), kLargestState, FileOf::ours));
    } catch (const Error& error) {
      outcome_.problems.push_back(std::string(error.what()) + "; the mailer's counters begin at 0");
    }
  }

  /// Lines of a call that ended before it saved its records.
  void find_untold() {
    if (state_.untold_since_utc_ns != 0 || ::faccessat(folder_.get(), kUntoldFile, F_OK, 0) != 0) return;
    state_.untold_since_utc_ns = mailer_.now_utc_ns;
  }

  void save() {
    if (mailer_.dry_run) return;
    try {
      publish_file(spool_.state(), kStateFile, render_mailer_state(state_));
    } catch (const Error& error) {
      outcome_.problems.emplace_back(error.what());
    }
  }

  void handle(const SpoolEntry& entry) {
    if (slow_.contains(entry.owner) || waits_still(entry)) return;
    try {
      const ReadMail mail = read(entry);
      if (mail.later) return wait_for_another_version(entry);
      if (!mail.refused.empty()) return refuse(entry, mail.refused);
      if (mail.ledger.size() > kMostLedgerOfReport)
        return refuse(entry, "it has findings on more nodes than the mailer takes");
      if (!mail.ledger.empty()) keep_for_administrators(entry, mail);
      if (!mail.to.empty()) return send(entry, mail);
      if (!mail.why_not.empty()) return refuse(entry, mail.why_not);
      done(entry);
    } catch (const NotSaved& error) {  // the disk of the spool is full: the mail stays
      outcome_.problems.emplace_back(error.what());
      ++failed_in_a_row_;
    } catch (const Error& error) {  // it could not be read now, or it broke its reader
      outcome_.problems.emplace_back(error.what());
      if (!wait(entry)) give_up(entry, error.what());
    }
  }

  void refuse(const SpoolEntry& entry, const std::string& why) {
    outcome_.problems.push_back(fmt::format("refused, from user {}: {}", entry.owner, printable(why, 200)));
    ++state_.counters.refused;
    done(entry);
  }

  [[nodiscard]] bool waits_still(const SpoolEntry& entry) {
    const auto waiting = state_.waiting.find(entry.name);
    if (waiting == state_.waiting.end()) return false;
    const bool is_held = waiting->second.tries == 0;
    return is_held ? is_hour_full(entry) : !is_due(waiting->second, mailer_.now_utc_ns);
  }

  [[nodiscard]] bool is_hour_full(const SpoolEntry& entry) {
    return state_.is_hour_full(entry.owner, settings_.per_hour, mailer_.now_utc_ns);
  }

  [[nodiscard]] ReadMail read(const SpoolEntry& entry) {
    const Descriptor file = spool_.open(entry);
    const std::string owner = name_of_owner(entry.owner);
    const Clock::time_point slow = Clock::now() + mailer_.slow;
    std::string answer;
    try {
      answer = mailer_.confined(spool_.path_of(entry.name),
                                [&] { return answer_about(file.get(), owner, mailer_, settings_); });
    } catch (const Error&) {
      if (Clock::now() > slow) slow_.insert(entry.owner);
      throw;
    }
    if (Clock::now() > slow) slow_.insert(entry.owner);
    ReadMail mail = parse_record<ReadMail>(answer, "the answer about a mail");
    std::erase_if(mail.to, [](const std::string& address) { return !is_mail_address(address); });
    // The name service may not answer yet.
    if (owner.empty() && !mail.why_not.empty())
      throw Error(fmt::format("user {} has no name on this host", entry.owner));
    return mail;
  }

  struct NotSaved : Error {
    using Error::Error;
  };

  /// On the disk before the mail goes.
  void keep_for_administrators(const SpoolEntry& entry, const ReadMail& mail) {
    const std::int64_t latest = mailer_.now_utc_ns + kClocksDiffer;
    ParsedLedger parsed = parse_ledger(mail.ledger, latest);
    if (parsed.refused > 0) throw Error("its job ended in the future: check the clocks of its node and of this host");
    std::vector<LedgerLine>& lines = parsed.lines;
    std::set<std::string> rules;
    for (LedgerLine& line : lines) {
      line.owner = hash_of_owner(entry.owner);
      for (const LedgerFinding& finding : line.findings) rules.insert(finding.rule);
    }
    if (mailer_.dry_run) {
      std::move(lines.begin(), lines.end(), std::back_inserter(shown_));
    } else {
      try {
        append_lines(record(kUntoldFile), lines, latest, kUntoldLimits);
      } catch (const Error& error) {
        throw NotSaved(error.what());
      }
    }
    state_.keep_steps(admin_lines_of(mail.steps));
    ++state_.counters.admin_reports;
    for (const std::string& rule : rules) ++state_.jobs_of_rules[rule];
    if (!rules.empty() && state_.untold_since_utc_ns == 0) state_.untold_since_utc_ns = mailer_.now_utc_ns;
  }

  void send(const SpoolEntry& entry, const ReadMail& mail) {
    MailOutcome::Item item{.audience = Audience::user, .to = mail.to, .message = {}, .why = {}};
    item.message.subject = mail.subject;
    item.message.mime = mail.mime;
    if (Clock::now() >= end_) return;
    const bool is_new = !state_.waiting.contains(entry.name);
    if (is_new) ++state_.counters.user_reports;
    if (is_hour_full(entry)) {
      hold_back(entry, item, is_new);
    } else if (mailer_.dry_run) {
      item.state = MailState::would_send;
    } else {
      try_to_send(entry, item);
    }
    outcome_.failed = outcome_.failed || item.state == MailState::failed;
    item.message.mime.clear();  // there may be ten thousand
    outcome_.items.push_back(std::move(item));
  }

  /// Until the next hour; a site that allows no mails gets none later either.
  void hold_back(const SpoolEntry& entry, MailOutcome::Item& item, bool is_new) {
    item.state = MailState::held_back;
    item.why = fmt::format("the limit of mails per hour is reached, [mail] per_hour = {}", settings_.per_hour);
    if (is_new) ++state_.counters.held_back;
    if (settings_.per_hour == 0) return done(entry);
    item.later = true;
    state_.waiting.try_emplace(entry.name);
  }

  void try_to_send(const SpoolEntry& entry, MailOutcome::Item& item) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
    const std::string mail = fmt::format("X-Reveal-Owner: {}\n", entry.owner) + item.message.mime;
    try {
      send_mail(settings_.sendmail, mail, std::min<std::chrono::milliseconds>(left, kSendLimit));
    } catch (const Error& error) {
      item.state = MailState::failed;
      item.why = error.what();
      ++failed_in_a_row_;
      ++state_.counters.failed;
      if (!wait(entry)) hopeless_.emplace_back(entry, error.what());
      return;
    }
    item.state = MailState::sent;
    item.why = fmt::format("user {} left it in the spool", entry.owner);
    failed_in_a_row_ = 0;
    server_takes_mails_ = true;
    ++state_.counters.user_mails;
    ++state_.sent_in_hour[entry.owner];
    done(entry);
  }

  /// False: it was tried long enough.
  [[nodiscard]] bool wait(const SpoolEntry& entry) { return put_off(state_.waiting[entry.name], mailer_.now_utc_ns); }

  void wait_for_another_version(const SpoolEntry& entry) {
    if (!wait(entry)) give_up(entry, "it is of another version of reveal");
  }

  /// Mails that the server refuses while it takes others; one that is away for a week loses none.
  void give_up() {
    if (!server_takes_mails_) return;
    for (const auto& [entry, why] : hopeless_) give_up(entry, why);
  }

  void give_up(const SpoolEntry& entry, const std::string& why) {
    outcome_.problems.push_back(fmt::format("a mail of user {} is given up after {} tries: {}", entry.owner,
                                            state_.waiting[entry.name].tries, why));
    ++state_.counters.given_up;
    done(entry);
  }

  void done(const SpoolEntry& entry) {
    if (mailer_.dry_run) return;
    spool_.remove(entry.name);
    state_.waiting.erase(entry.name);
    --left_;
  }

  /// One mail, when the oldest finding that they do not know has waited for [mail] digest, and one of them was not told
  /// today.
  void tell_administrators() {
    const std::int64_t now = mailer_.now_utc_ns;
    state_.untold_since_utc_ns = std::min(state_.untold_since_utc_ns, now);  // the clock was put back
    if (state_.untold_since_utc_ns == 0 || now - state_.untold_since_utc_ns < settings_.digest_ns) return;
    if (settings_.admins.empty()) return;
    const std::vector<NodeFault> faults = untold();
    const bool is_new =
        std::any_of(faults.begin(), faults.end(), [&](const NodeFault& fault) { return !state_.is_told(fault, now); });
    if (!is_new) return;
    MailOutcome one = mail_digest(digest_of(faults, state_.steps, now),
                                  {.dry_run = mailer_.dry_run, .host = mailer_.host, .now_utc_ns = now}, settings_);
    const bool is_sent = !one.items.empty() && one.items.front().state == MailState::sent;
    if (is_sent) forget_untold(faults);
    // The administrators' server may be up while that of the users is away.
    server_takes_mails_ = server_takes_mails_ || (is_sent && failed_in_a_row_ < kServerIsAway);
    if (one.failed) ++state_.counters.failed;
    outcome_.failed = outcome_.failed || one.failed;
    std::move(one.items.begin(), one.items.end(), std::back_inserter(outcome_.items));
    std::move(one.why_not.begin(), one.why_not.end(), std::back_inserter(outcome_.why_not));
  }

  /// Each node of a job once, also where a mail came twice.
  [[nodiscard]] std::vector<NodeFault> untold() {
    NodeLedger ledger;
    try {
      const std::string text =
          read_text_file(record(kUntoldFile), kUntoldLimits.bytes + kLongestLedgerLine, FileOf::ours);
      for (LedgerLine& line : parse_ledger(text, kEver).lines) ledger.add(std::move(line));
    } catch (const Error& error) {
      if (!mailer_.dry_run) outcome_.problems.emplace_back(error.what());
    }
    for (const LedgerLine& line : shown_) ledger.add(line);
    return node_faults(ledger.lines());
  }

  void forget_untold(const std::vector<NodeFault>& faults) {
    ++state_.counters.digests;
    for (const NodeFault& fault : faults) state_.tell(fault, mailer_.now_utc_ns);
    state_.untold_since_utc_ns = 0;
    state_.steps.clear();
    save();
    ::unlinkat(folder_.get(), kUntoldFile, 0);
  }

  const SiteMailer& mailer_;
  const MailSettings& settings_;
  MailSpool spool_;
  Clock::time_point end_;
  Descriptor folder_;  // its records
  MailerState state_;
  MailOutcome outcome_;
  std::vector<LedgerLine> shown_;                             // lines that a dry run would keep
  std::set<uid_t> slow_;                                      // owners whose mails wait for the next call
  std::vector<std::pair<SpoolEntry, std::string>> hopeless_;  // the server refused them for days, and why
  std::size_t left_ = 0;
  int failed_in_a_row_ = 0;
  bool server_takes_mails_ = false;
};

}  // namespace

SiteMailerOutcome run_site_mailer(const SiteMailer& mailer, const MailSettings& settings) {
  if (settings.mailer_spool.empty()) throw Error("[mail] mailer_spool is not set: the end of each job sends its mails");
  std::string why = why_no_mail(settings);
  if (why.empty()) return MailerRound(mailer, settings).run();
  SiteMailerOutcome off;
  off.mails.why_not.push_back(std::move(why));
  return off;
}

}  // namespace reveal
