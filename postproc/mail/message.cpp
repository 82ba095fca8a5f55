#include "postproc/mail/message.h"

#include <arpa/inet.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "hdf5schema/basics/enum_names.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/shell_word.h"
#include "hdf5schema/version.h"
#include "postproc/analysis/job_remedy.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"
#include "postproc/mail/address.h"
#include "postproc/mail/mime.h"
#include "postproc/mail/recipients.h"
#include "postproc/report/deflated.h"
#include "postproc/report/mail_html.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr int kWidth = 78;  // RFC 5322, 2.1.1: more is cut or folded by some readers
constexpr std::size_t kLongestSubject = 200;
constexpr std::size_t kLongestTitle = 70;
constexpr std::size_t kLongestSubjectName = 24;
constexpr std::size_t kLongestToken = 40;
constexpr std::size_t kLongestThread = 32;
constexpr std::size_t kMostActions = 10;  // actions of administrators
constexpr std::size_t kMostFaults = 50;
constexpr std::string_view kAudiences[] = {"user", "admins", "hardware"};  // in the order of the enumerators

/// Returns a word for names of messages and our own headers: no character of it is special anywhere. A changed word
/// gets a hash, so that it differs from others.
std::string token(std::string_view untrusted, std::size_t limit = kLongestToken) {
  std::string word;
  for (const char c : untrusted.substr(0, limit)) {
    const bool harmless = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                          c == '_' || (c == '.' && !word.empty() && word.back() != '.');
    word += harmless ? c : '_';
  }
  if (!word.empty() && word.back() == '.') word.back() = '_';
  if (word != untrusted) word += "-" + text_hash(untrusted);
  return word;
}

std::string site_of(const MailSettings& settings, const MailContext& context) {
  if (!settings.domain.empty()) return settings.domain;
  const std::size_t at = settings.from.find('@');
  if (at != std::string::npos) return settings.from.substr(at + 1);
  return token(context.host.empty() ? "localhost" : context.host);
}

std::string message_id(std::string_view report_id, const MailSettings& settings, const MailContext& context) {
  return fmt::format("reveal.{}.{}@{}", token(report_id), name_of(context.audience), site_of(settings, context));
}

/// "job 4711 train"; an array's task by the number that its owner uses.
std::string short_job(const ReportJob& job) {
  std::string text;
  if (!job.array.empty() || !job.id.empty()) text = "job " + printable(job.array.empty() ? job.id : job.array, 24);
  const std::string& name = job.name.empty() ? job.command : job.name;
  if (!name.empty()) text += (text.empty() ? "" : " ") + printable(name, kLongestSubjectName);
  return text.empty() ? "a run" : text;
}

/// `only_possible`: another cause was not ruled out.
std::string lost(const Impact& impact, bool only_possible = false) {
  const char* const about = impact.at_most ? "at most" : only_possible ? "perhaps" : "about";
  if (impact.seconds && *impact.seconds > 0) return ", " + estimated(about, duration(*impact.seconds)) + " lost";
  if (impact.percent && *impact.percent > 0) return ", " + estimated(about, number(*impact.percent)) + " % lost";
  return {};
}

/// "[reveal] hydra", so that mails of several clusters can be told apart and sorted by subject.
std::string beginning(const ReportJob& job) {
  return job.cluster.empty() ? "[reveal]" : "[reveal] " + printable(job.cluster, kLongestSubjectName);
}

/// " on n03"; a job of one node needs no name.
std::string place_in(const Report& report, const Finding& finding) {
  if (!several_nodes(report) || finding.nodes.empty()) return {};
  return " on " + printable(node_list(finding.nodes, 4), 40);
}

/// "A process outside the job ran on the job's CPUs on n01, about 7.1 s lost", "no finding", "not enough data".
std::string result(const Report& report) {
  const VerdictStatus status = report.verdict.status;
  const bool about_finding = status == VerdictStatus::finding || status == VerdictStatus::notice;
  if (report.findings.empty() || !about_finding) {
    return status == VerdictStatus::insufficient_data ? "not enough data" : "no finding";
  }
  const Finding& primary = report.findings.front();
  return (status == VerdictStatus::notice ? "notice: " : "") + printable(primary.title, kLongestTitle) +
         place_in(report, primary) + lost(primary.impact, is_only_possible(primary));
}

/// "17" of "4710_17".
std::string index_of_task(const ArrayTask& task) {
  return printable(std::string_view(task.task).substr(task.task.find('_') + 1), 12);
}

Impact impact_of(const ArrayTask& task) {
  Impact impact;
  impact.seconds = task.lost_seconds;
  impact.percent = task.lost_percent;
  impact.at_most = task.lost_at_most;
  return impact;
}

bool has_finding(const ArrayTask& task) {
  return task.status == VerdictStatus::finding;
}

/// "12 tasks with a finding", "3 tasks without a finding"
std::string counted_tasks(const std::vector<ArrayTask>& tasks) {
  const auto found = std::count_if(tasks.begin(), tasks.end(), has_finding);
  const auto shown = static_cast<double>(found > 0 ? found : static_cast<std::ptrdiff_t>(tasks.size()));
  return (tasks.size() < kMostTasksKept ? "" : "at least ") + counted(shown, "task") +
         (found > 0 ? " with a finding" : " without a finding");
}

/// "[reveal] hydra job 4710 train: 12 tasks with a finding; worst: task 17, The network lost packets, about 7.1 s lost"
std::string subject_for_array(const Report& report, const std::vector<ArrayTask>& tasks) {
  const ArrayTask& worst = tasks.front();
  ReportJob array = report.job;
  array.array.clear();
  array.id = worst.array;
  std::string subject = fmt::format("{} {}: {}", beginning(array), short_job(array), counted_tasks(tasks));
  if (!has_finding(worst)) return subject;
  return subject + fmt::format("; worst: task {}, {}{}", index_of_task(worst), printable(worst.title, kLongestTitle),
                               lost(impact_of(worst), worst.lost_perhaps));
}

/// "[reveal] hydra job 4711 resnet50: COMPLETED - no finding"
std::string subject_for_user(const Report& report) {
  const std::string state = report.job.state.empty() ? "" : printable(report.job.state, kLongestSubjectName) + " - ";
  return fmt::format("{} {}: {}{}", beginning(report.job), short_job(report.job), state, result(report));
}

std::vector<const Finding*> of_administrators(const Report& report, const MailSettings& settings) {
  std::vector<const Finding*> findings;
  for (const Finding& finding : report.findings) {
    if (concerns_admins(finding, settings)) findings.push_back(&finding);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding* a, const Finding* b) { return a->severity > b->severity; });
  return findings;
}

/// Faults of the hardware have a mail of their own, without the job.
std::vector<const Finding*> for_admins(const Report& report, const MailSettings& settings) {
  auto findings = of_administrators(report, settings);
  std::erase_if(findings, [](const Finding* finding) { return is_hardware_fault(*finding); });
  return findings;
}

std::string subject_for_admins(const Report& report, const MailSettings& settings) {
  const auto findings = for_admins(report, settings);
  if (findings.empty()) return subject_for_user(report);
  const Finding& worst = *findings.front();
  std::string subject =
      fmt::format("{} {}: {}", beginning(report.job), name_of(worst.severity), printable(worst.title, kLongestTitle));
  if (!worst.nodes.empty()) subject += " on " + printable(node_list(worst.nodes, 4), 40);
  return fmt::format("{} ({})", subject, short_job(report.job));
}

/// "on node0; 2026-11-23 16:50:13 to 16:50:25 UTC; the job lost about 4.75 s (10.5 % of the run)"
std::string where_and_when(const Finding& finding) {
  std::vector<std::string> parts;
  if (!finding.nodes.empty()) parts.push_back("on " + printable(node_list(finding.nodes), 500));
  if (!finding.intervals.empty()) {
    const TimeSpan& first = finding.intervals.front();
    constexpr std::int64_t kNoDay = 0;  // a mail is read on any day
    std::string time = clock_span(first.begin_utc_ns, first.end_utc_ns, kNoDay);
    if (finding.intervals.size() > 1) {
      time += fmt::format(" and {} more", counted(static_cast<double>(finding.intervals.size() - 1), "interval"));
    }
    parts.push_back(time);
  }
  if (const std::string lost = cost_words(finding.impact); !lost.empty()) {
    parts.push_back((is_only_possible(finding) ? "the job may have lost " : "the job lost ") + lost);
  }
  return joined(parts, "; ");
}

constexpr std::string_view kCaution =
    "Titles and steps come from reveal's rules. Numbers, nodes and sentences were computed as the job's owner from "
    "files that the owner can write: check the node before you act.";

/// The part of the administrators, which comes before the text that the job's owner reads.
MailHtml html_for_admins(const Report& report, const MailSettings& settings) {
  MailHtml mail{.heading = "For administrators: " + short_job(report.job)};
  if (!report.job.user.empty()) mail.heading += " of " + printable(report.job.user, kLongestSubjectName);
  mail.caution = std::string(kCaution) + " The job's report follows; \"you\" means the owner of the job.";
  const std::vector<const Finding*> findings = for_admins(report, settings);
  for (const Finding* finding : findings) {
    if (mail.actions.size() == kMostActions) {
      mail.left_out = counted(static_cast<double>(findings.size() - kMostActions), "more finding") + " in the report";
      break;
    }
    mail.actions.push_back({finding->title, finding->severity, level_words(*finding), where_and_when(*finding),
                            finding->sentence, steps_of(*finding).admin});
  }
  return mail;
}

std::string text_for_admins(const Report& report, const MailHtml& mail, const TextStyle& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = mail.heading + "\n";
  for (const MailAction& action : mail.actions) {
    text += fmt::format("\n{}: {}\n", action.level, printable(action.title, 200));
    if (!action.where.empty()) text += folded("", action.where, 2, width);
    text += folded("", printable(action.sentence, 2000), 2, width);
    text += numbered_steps(action.steps);
  }
  if (!mail.left_out.empty()) text += "\n" + mail.left_out + "\n";
  return text + "\n" + folded("", kCaution, 0, width) +
         "\nThe job's report follows; \"you\" means the owner of the job.\n\n" + render_text(report, style);
}

/// A path is shown only if it can be typed as it stands.
bool can_be_typed(std::string_view path) {
  return !path.empty() && path.front() != '-' && std::all_of(path.begin(), path.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._+-=,@%").find(c) != std::string_view::npos;
  });
}

constexpr std::size_t kMostTasks = 10;
constexpr std::size_t kLongestResult = 110;

/// "FAILED - The node's memory has errors"
std::string result_of(const ArrayTask& task) {
  const std::string state = task.state.empty() || task.state == "COMPLETED" ? "" : printable(task.state, 24) + " - ";
  if (task.title.empty()) {
    return state + (task.status == VerdictStatus::insufficient_data ? "not enough data" : "no finding");
  }
  return state + (task.status == VerdictStatus::notice ? "notice: " : "") + printable(task.title, kLongestResult);
}

/// The tasks of an array, the worst first: the same rows in text and HTML.
MailTasks rows_of_tasks(const std::vector<ArrayTask>& tasks) {
  MailTasks shown;
  if (tasks.size() < 2) return shown;
  shown.heading = fmt::format("Array job {}: {}", printable(tasks.front().array, 24), counted_tasks(tasks));
  for (const ArrayTask& task : tasks) {
    if (shown.rows.size() == kMostTasks || (!has_finding(task) && has_finding(tasks.front()))) break;
    std::string cost = cost_words(impact_of(task));
    if (cost.empty() && has_finding(task)) cost = kNotMeasured;
    std::string command = can_be_typed(task.directory) ? "reveal show " + shell_word(task.directory) : "";
    shown.rows.push_back({index_of_task(task), result_of(task), std::move(cost), std::move(command)});
  }
  const auto found = std::count_if(tasks.begin(), tasks.end(), has_finding);
  const auto all = static_cast<std::size_t>(found > 0 ? found : static_cast<std::ptrdiff_t>(tasks.size()));
  if (all > shown.rows.size()) {
    shown.heading += "; the worst:";
    shown.left_out = counted(static_cast<double>(all - shown.rows.size()), "more task") +
                     (found > 0 ? " with a finding" : "") + "; reveal list shows your runs.";
  }
  shown.follows = fmt::format("The report of task {} follows.", index_of_task(tasks.front()));
  return shown;
}

std::string text_of_tasks(const MailTasks& tasks) {
  if (tasks.rows.empty()) return {};
  std::string text = tasks.heading + "\n\n";
  for (const MailTasks::Row& row : tasks.rows) {
    text += folded(fmt::format("  task {:<6}", row.task), row.result, 14, kWidth);
    if (!row.cost.empty()) {
      text += folded("", row.cost == kNotMeasured ? "cost not measured" : "lost " + row.cost, 14, kWidth);
    }
    if (!row.command.empty()) text += "              " + row.command + "\n";
  }
  if (!tasks.left_out.empty()) text += "\n" + tasks.left_out + "\n";
  return text + "\n" + tasks.follows + "\n\n";
}

constexpr const char* kPackedPage = "report.html.gz";

/// The whole report where it is attached; where it is too large, its place.
struct WholeReport {
  std::optional<MimeFile> file;
  std::string sentence;  // "" where it is neither attached nor at a place that can be typed
};

WholeReport whole_report(const std::string& page, const MailSettings& settings, const std::string& directory) {
  std::string packed = gzip_file(page);
  if (packed.size() <= settings.attach_limit) {
    return {MimeFile{"application/gzip", std::move(packed), kPackedPage, ""},
            fmt::format("Attached: {}, the page with all charts: unpack it with gunzip and open it in any browser, "
                        "also offline.",
                        kPackedPage)};
  }
  if (directory.empty()) return {};
  return {std::nullopt, "The page with all charts is too large for a mail: " + directory + "/report.html"};
}

std::vector<std::string> closing_sentences(const WholeReport& whole, const MailContext& context, bool has_job) {
  std::vector<std::string> sentences;
  if (!whole.sentence.empty()) sentences.push_back(whole.sentence);
  if (!context.array.empty()) {
    sentences.push_back(
        fmt::format("This is the only mail about array job {}; the report of each task is in its own directory.",
                    printable(context.array, 24)));
  }
  if (context.repeat_days > 0) {
    sentences.push_back(
        fmt::format("The next mail about the same finding of this command comes in {} at the earliest; "
                    "every run has its report.",
                    counted(context.repeat_days, "day")));
  }
  if (context.audience == Audience::user && has_job) {
    sentences.emplace_back("A job that is submitted with --reveal=mail=off sends you no mail.");
  }
  return sentences;
}

std::string footer(const std::vector<std::string>& sentences) {
  std::string text = "\n-- \n";
  for (const std::string& sentence : sentences) text += folded("", sentence, 0, kWidth);
  return text;
}

/// The administrators' part is theirs: once they have it, the user has nothing to forward.
Report without_admin_steps(Report report, const MailSettings& settings) {
  for (Finding& finding : report.findings) {
    if (!finding.remedy.admin.empty() && concerns_admins(finding, settings)) {
      finding.remedy.admin = {std::string(kAdminsWereTold)};
      std::erase(finding.remedy.advice, kShowAdministrators);
    }
  }
  return report;
}

/// The administrators read their steps above the report.
Report with_steps_above(Report report, const MailSettings& settings) {
  for (Finding& finding : report.findings) {
    std::erase(finding.remedy.advice, kShowAdministrators);
    if (concerns_admins(finding, settings) && !is_hardware_fault(finding))
      finding.remedy.admin = {std::string(kStepsAreAbove)};
  }
  return report;
}

/// Removes the names in the job's program, which are its owner's business, and sentences out of the job's events.
Report without_words_of_the_job(Report report) {
  report.python.clear();
  for (Finding& finding : report.findings) {
    finding.main_threads.clear();
    finding.interventions.clear();
  }
  return report;
}

/// All mails about a job, or about the tasks of an array, belong to one thread.
std::string thread_id(const ReportJob& job, const MailSettings& settings, const MailContext& context) {
  const std::string& number = job.array.empty() ? job.id : job.array;
  if (number.empty()) return {};
  const std::string whole = job.cluster + "." + number.substr(0, number.find('_'));
  return fmt::format("<reveal.job.{}.{}@{}>", token(whole, kLongestThread), name_of(context.audience),
                     site_of(settings, context));
}

void set_headers(MimeMessage& message, std::string_view id, const MailSettings& settings, const MailContext& context,
                 const std::string& subject) {
  const std::string site = site_of(settings, context);
  message.from("reveal", settings.from.empty() ? "reveal@" + site : qualified(settings.from, site));
  for (const std::string& address : context.to) message.to(address);
  if (!settings.reply_to.empty()) message.reply_to(qualified(settings.reply_to, site));
  message.subject(subject);
  message.date(context.now_utc_ns);
  message.id(message_id(id, settings, context));
  message.header("Auto-Submitted", "auto-generated");  // RFC 3834: no holiday replies
  if (!settings.unsubscribe.empty() && context.audience == Audience::user) {
    message.unfolded_header("List-Unsubscribe", "<" + settings.unsubscribe + ">");  // RFC 2369
  }
  message.header("X-Mailer", "reveal " REVEAL_VERSION);
}

void set_headers_of_report(MimeMessage& message, const Report& report, const MailSettings& settings,
                           const MailContext& context) {
  std::string references = thread_id(report.job, settings, context);
  if (!report.supersedes.empty()) {
    const std::string former = "<" + message_id(report.supersedes, settings, context) + ">";
    message.header("In-Reply-To", former);
    references += (references.empty() ? "" : " ") + former;
  }
  if (!references.empty()) message.header("References", references);
  if (!report.job.id.empty()) message.header("X-Reveal-Job", token(report.job.id));
  message.header("X-Reveal-Status", std::string(name_of(report.verdict.status)));
}

/// The report as its reader may see it.
Report for_reader(const Report& report, const MailSettings& settings, const MailContext& context) {
  if (context.audience != Audience::user) return as_administrators_read(report);
  return context.admins_notified ? without_admin_steps(report, settings) : report;
}

std::string subject_of_faults(const std::vector<HardwareFault>& faults, const Report& report) {
  if (faults.empty()) return beginning(report.job) + " no fault of hardware";
  const Finding& worst = *faults.front().finding;
  std::vector<std::string> nodes;
  for (const HardwareFault& fault : faults) {
    if (std::find(nodes.begin(), nodes.end(), fault.node) == nodes.end()) nodes.push_back(fault.node);
  }
  return fmt::format("{} {}: {} on {}", beginning(report.job), name_of(worst.severity),
                     printable(worst.title, kLongestTitle), printable(node_list(nodes, 4), 40));
}

/// Names of devices stand in a file that the job's owner can write: nothing else gets through.
std::string devices_of(const Finding& finding) {
  constexpr std::size_t kMostDevices = 8;
  constexpr std::size_t kLongestDevice = 40;
  std::vector<std::string> names;
  for (const std::string& name : finding.instances) {
    const bool plain = name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-") ==
                       std::string::npos;
    if (plain && name.size() <= kLongestDevice && names.size() < kMostDevices) names.push_back(name);
  }
  return listed(names);
}

/// Title and steps from the table of rules; nothing that the job's program or owner is called.
std::string text_of_fault(const HardwareFault& fault) {
  const Finding& finding = *fault.finding;
  std::string where = "on " + printable(fault.node, 100);
  if (const std::string devices = devices_of(finding); !devices.empty()) where += ": " + devices;
  if (!finding.intervals.empty()) where += "; " + date_and_time(finding.intervals.front().begin_utc_ns);
  std::string text = fmt::format("{}: {}\n", level_words(finding), printable(finding.title, 200));
  return text + folded("", where, 2, kWidth) + numbered_steps(steps_of(finding).admin) + "\n";
}

constexpr std::string_view kFaultsCaution =
    "Titles and steps come from reveal's rules. Nodes, devices and times were computed as the job's owner from files "
    "that the owner can write: check the node before you act. Jobs of the same user report a fault of a device once a "
    "day (UTC); `reveal nodes` counts the jobs.";

MailMessage compose_faults(const Report& shown, const MailSettings& settings, const MailContext& context) {
  std::vector<HardwareFault> faults = hardware_faults(shown, settings);
  std::erase_if(faults, [&context](const HardwareFault& fault) {
    return !context.faults.empty() && !context.faults.contains(fault.key);
  });
  MailMessage mail;
  mail.subject = header_text(subject_of_faults(faults, shown), kLongestSubject);
  for (const HardwareFault& fault : faults) mail.text += text_of_fault(fault);
  mail.text += folded("", kFaultsCaution, 0, kWidth);
  MimeMessage message;
  const std::string id = "faults-" + text_hash(shown.report_id);  // the report's own has the job's number
  set_headers(message, id, settings, context, mail.subject);
  mail.mime = message.with({.text = mail.text, .html = {}, .picture = {}, .attached = {}}, id);
  return mail;
}

/// A job without a finding gets no picture, so that its mail stays short.
std::optional<MimeFile> picture_in(MailHtml& mail, const Report& report, const MailSettings& settings,
                                   const MailContext& context) {
  mail.picture = evidence_picture(report);
  if (!mail.picture) return std::nullopt;
  mail.picture_id = "p." + message_id(report.report_id, settings, context);
  return MimeFile{"image/png", mail.picture->png, "evidence.png", mail.picture_id};
}

}  // namespace

std::string_view name_of(Audience audience) noexcept {
  return kAudiences[static_cast<std::size_t>(audience)];
}

std::optional<Audience> audience_of(std::string_view name) noexcept {
  return enumerator_of<Audience>(kAudiences, name);
}

std::string header_text(std::string_view untrusted, std::size_t limit) {
  std::string line = printable(untrusted, limit);
  for (std::size_t at = line.find("=?"); at != std::string::npos; at = line.find("=?", at)) line.insert(at + 1, " ");
  return line;
}

std::vector<HardwareFault> hardware_faults(const Report& report, const MailSettings& settings) {
  std::vector<HardwareFault> faults;
  for (const Finding* finding : of_administrators(report, settings)) {
    if (!is_hardware_fault(*finding)) continue;
    const std::string devices = joined(finding->instances, ",");
    for (const std::string& node : finding->nodes) {
      if (faults.size() == kMostFaults) return faults;
      faults.push_back({finding->id + "\n" + node + "\n" + devices, node, finding});
    }
  }
  return faults;
}

std::vector<std::string> peer_addresses(const Report& report) {
  std::vector<std::string> addresses;
  const auto add = [&addresses](const std::string& metric, const std::string& instance) {
    // The report is a file of the user's: nothing but an address is taken out of what administrators read.
    std::array<unsigned char, sizeof(in6_addr)> bytes;
    const bool is_address = ::inet_pton(AF_INET, instance.c_str(), bytes.data()) == 1 ||
                            ::inet_pton(AF_INET6, instance.c_str(), bytes.data()) == 1;
    if (metric.starts_with("tcp.peer.") && is_address) addresses.push_back(instance);
  };
  for (const Finding& finding : report.findings) {
    for (const Evidence& evidence : finding.evidence) add(evidence.metric, evidence.instance);
  }
  for (const ReportEpisode& episode : report.episodes) {
    for (const ReportEpisode::Reason& reason : episode.reasons) add(reason.metric, reason.instance);
    for (const ReportEpisode::DetectorView& view : episode.detectors) {
      for (const ReportEpisode::Contribution& channel : view.channels) add(channel.metric, channel.instance);
    }
  }
  std::sort(addresses.begin(), addresses.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

std::string without_peers(std::string text, const std::vector<std::string>& peers) {
  constexpr std::string_view kInstead = "(a peer)";
  for (const std::string& address : peers) {
    for (std::size_t at = text.find(address); at != std::string::npos; at = text.find(address, at + kInstead.size())) {
      text.replace(at, address.size(), kInstead);
    }
  }
  return text;
}

Report as_administrators_read(const Report& report) {
  Report shown = without_words_of_the_job(report);
  // Commands for administrators, and their titles, are never taken from a file of a user.
  take_texts_of_rules(shown);
  return shown;
}

std::string numbered_steps(const std::vector<RemedyStep>& steps) {
  std::string text;
  std::size_t number = 0;
  for (const RemedyStep& step : steps) {
    const bool instead = step.kind == StepKind::alternative && number > 0;
    text += fmt::format("  {} {}\n", instead ? "or" : fmt::format("{}.", ++number), printable(step.text, 800));
  }
  return text;
}

MailMessage compose_mail(const Report& report, const MailSettings& settings, const MailContext& context) {
  const bool admins = context.audience == Audience::admins;
  const Report shown = for_reader(report, settings, context);
  if (context.audience == Audience::hardware) return compose_faults(shown, settings, context);
  const std::vector<std::string> peers = admins ? peer_addresses(report) : std::vector<std::string>();
  const auto for_its_reader = [&](std::string text) { return without_peers(std::move(text), peers); };
  const Report read = admins ? with_steps_above(shown, settings) : shown;
  MailMessage mail;
  mail.subject = header_text(admins                     ? subject_for_admins(shown, settings)
                             : context.tasks.size() > 1 ? subject_for_array(shown, context.tasks)
                                                        : subject_for_user(shown),
                             kLongestSubject);
  TextStyle style{.width = kWidth, .colour = false};
  if (can_be_typed(context.directory)) style.directory = context.directory;
  const WholeReport whole = whole_report(for_its_reader(render_html(shown)), settings, style.directory);
  MailHtml page = admins ? html_for_admins(shown, settings) : MailHtml{};
  page.directory = style.directory;
  page.tasks = rows_of_tasks(context.tasks);
  page.closing = closing_sentences(whole, context, !report.job.id.empty());
  MimeBody body;
  body.picture = picture_in(page, shown, settings, context);
  body.text = for_its_reader(admins ? text_for_admins(read, page, style)
                                    : text_of_tasks(page.tasks) + render_text(shown, style)) +
              footer(page.closing);
  body.html = for_its_reader(render_mail_html(read, page));
  if (whole.file) body.attached.push_back(*whole.file);

  MimeMessage message;
  set_headers(message, shown.report_id, settings, context, mail.subject);
  set_headers_of_report(message, shown, settings, context);
  mail.mime = message.with(body, report.report_id);
  mail.text = std::move(body.text);
  mail.html = std::move(body.html);
  return mail;
}

MailMessage compose_digest(const Digest& digest, const MailSettings& settings, const MailContext& context) {
  MailMessage mail;
  mail.subject = header_text(digest.subject, kLongestSubject);
  mail.text = digest.text;
  MimeMessage message;
  set_headers(message, digest.id, settings, context, mail.subject);
  mail.mime = message.with({.text = mail.text,
                            .html = {},
                            .picture = {},
                            .attached = {{"application/json", digest.json, digest.json_name, ""}}},
                           digest.id);
  return mail;
}

}  // namespace reveal
