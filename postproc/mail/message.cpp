#include "postproc/mail/message.h"

#include <arpa/inet.h>
#include <gmime/gmime.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/version.h"
#include "postproc/analysis/job_remedy.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"
#include "postproc/mail/address.h"
#include "postproc/mail/recipients.h"
#include "postproc/report/wording.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr int kWidth = 78;  // RFC 5322, 2.1.1: more is cut or folded by some readers
constexpr std::size_t kLongestSubject = 200;
constexpr std::size_t kLongestTitle = 70;
constexpr std::size_t kLongestSubjectName = 24;
constexpr std::size_t kLongestToken = 40;
constexpr std::string_view kAudiences[] = {"user", "admins"};  // in the order of the enumerators

struct Unref {
  void operator()(gpointer object) const { g_object_unref(object); }
};
template <typename Object>
using Ref = std::unique_ptr<Object, Unref>;

struct Free {
  void operator()(gpointer memory) const { g_free(memory); }
};

/// Returns a word for names of messages and our own headers: no character of it is special anywhere. A changed word
/// gets a hash, so that it differs from others.
std::string token(std::string_view untrusted) {
  std::string word;
  for (const char c : untrusted.substr(0, kLongestToken)) {
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

std::string lost(const Impact& impact) {
  if (impact.seconds && *impact.seconds > 0) return ", " + duration(*impact.seconds) + " lost";
  if (impact.percent && *impact.percent > 0) return ", " + number(*impact.percent) + " % lost";
  return {};
}

/// The status first, then what: a folder sorted by subject shows the same finding of many jobs side by side.
std::string subject_for_user(const Report& report) {
  const VerdictStatus status = report.verdict.status;
  std::string word(headline(report.verdict));
  std::transform(word.begin(), word.end(), word.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  const bool about_finding = status == VerdictStatus::finding || status == VerdictStatus::notice;
  if (report.findings.empty() || !about_finding) {
    return fmt::format("[reveal] {}: {}", word, short_job(report.job));
  }
  const Finding& primary = report.findings.front();
  return fmt::format("[reveal] {}: {} ({}{})", word, printable(primary.title, kLongestTitle), short_job(report.job),
                     lost(primary.impact));
}

std::vector<const Finding*> for_admins(const Report& report, const MailSettings& settings) {
  std::vector<const Finding*> findings;
  for (const Finding& finding : report.findings) {
    if (concerns_admins(finding, settings)) findings.push_back(&finding);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding* a, const Finding* b) { return a->severity > b->severity; });
  return findings;
}

std::string subject_for_admins(const Report& report, const MailSettings& settings) {
  const auto findings = for_admins(report, settings);
  if (findings.empty()) return subject_for_user(report);
  const Finding& worst = *findings.front();
  std::string subject = fmt::format("[reveal] {}: {}", name_of(worst.severity), printable(worst.title, kLongestTitle));
  if (!worst.nodes.empty()) subject += " on " + printable(node_list(worst.nodes, 4), 40);
  return fmt::format("{} ({})", subject, short_job(report.job));
}

/// "on node0, 2026-11-23 16:50:13 UTC to 16:50:25 UTC; the job lost about 4.75 s (10.5 % of the run)"
std::string where_and_when(const Finding& finding) {
  std::vector<std::string> parts;
  if (!finding.nodes.empty()) parts.push_back("on " + printable(node_list(finding.nodes), 500));
  if (!finding.intervals.empty()) {
    const TimeSpan& first = finding.intervals.front();
    constexpr std::string_view kDate = "2026-11-20";
    std::string time = date_and_time(first.begin_utc_ns);
    const std::string end = date_and_time(first.end_utc_ns);
    if (time.compare(0, kDate.size(), end, 0, kDate.size()) == 0) {
      time = time.substr(0, time.rfind(' ')) + " to " + end.substr(kDate.size() + 1);
    } else {
      time += " to " + end;
    }
    if (finding.intervals.size() > 1) {
      time += fmt::format(" and {} more", counted(static_cast<double>(finding.intervals.size() - 1), "interval"));
    }
    parts.push_back(time);
  }
  if (const std::string lost = cost_words(finding.impact); !lost.empty()) parts.push_back("the job lost " + lost);
  return joined(parts, "; ");
}

/// The actions first, then the text that the job's owner reads.
std::string text_for_admins(const Report& report, const MailSettings& settings, const TextStyle& style) {
  std::string text = "For administrators: " + short_job(report.job);
  if (!report.job.user.empty()) text += " of " + printable(report.job.user, kLongestSubjectName);
  text += "\n";
  const auto width = static_cast<std::size_t>(style.width);
  for (const Finding* finding : for_admins(report, settings)) {
    text += fmt::format("\n{}, {}: {}\n", name_of(finding->severity), name_of(finding->confidence),
                        printable(finding->title, 200));
    if (const std::string where = where_and_when(*finding); !where.empty()) text += folded("", where, 2, width);
    text += folded("", printable(finding->sentence, 2000), 2, width);
    for (const std::string& step : finding->remedy.admin) text += "  - " + printable(step, 800) + "\n";
  }
  return text +
         "\nTitles and steps come from reveal's rules. Numbers, nodes and sentences were computed as the job's "
         "owner\nfrom files that the owner can write: check the node before you act.\n"
         "\nThe job's report follows; \"you\" means the owner of the job.\n\n" +
         render_text(report, style);
}

/// A path is shown only if it can be typed as it stands.
bool can_be_typed(std::string_view path) {
  return !path.empty() && path.front() != '-' && std::all_of(path.begin(), path.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._+-=,@%").find(c) != std::string_view::npos;
  });
}

std::string footer(const MailContext& context) {
  std::string text = "\n-- \nAttached: report.html with the timeline, for any browser, also offline.\n";
  if (!context.array.empty()) {
    text += fmt::format("This is the only mail about array job {}; the report of each task is in its own directory.\n",
                        printable(context.array, 24));
  }
  return text;
}

/// The administrators' part is theirs: once they have it, the user has nothing to forward.
Report without_admin_steps(Report report, const MailSettings& settings) {
  for (Finding& finding : report.findings) {
    if (!finding.remedy.admin.empty() && concerns_admins(finding, settings)) {
      finding.remedy.admin = {"They got this report by mail."};
    }
  }
  return report;
}

/// Commands for administrators, and their titles, are never taken from a file of a user.
Report with_texts_of_rules(Report report) {
  take_texts_of_rules(report);
  return report;
}

/// Removes the names in the job's program: they are its owner's business.
Report without_main_threads(Report report) {
  report.python.clear();
  for (Finding& finding : report.findings) finding.main_threads.clear();
  return report;
}

/// Returns the addresses of the other ends of the job's connections, as far as the report has them; the longest first.
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

/// The job's peers are its owner's business.
std::string without_peers(std::string text, const Report& report) {
  constexpr std::string_view kInstead = "(a peer)";
  for (const std::string& address : peer_addresses(report)) {
    for (std::size_t at = text.find(address); at != std::string::npos; at = text.find(address, at + kInstead.size())) {
      text.replace(at, address.size(), kInstead);
    }
  }
  return text;
}

Ref<GMimePart> part(const char* type, const char* subtype, const std::string& content, GMimeContentEncoding encoding) {
  Ref<GMimePart> made(g_mime_part_new_with_type(type, subtype));
  g_mime_object_set_content_type_parameter(GMIME_OBJECT(made.get()), "charset", "utf-8");
  const Ref<GMimeStream> stream(g_mime_stream_mem_new_with_buffer(content.data(), content.size()));
  const Ref<GMimeDataWrapper> wrapper(
      g_mime_data_wrapper_new_with_stream(stream.get(), GMIME_CONTENT_ENCODING_DEFAULT));
  g_mime_part_set_content(made.get(), wrapper.get());
  g_mime_part_set_content_encoding(made.get(), encoding);
  return made;
}

void set_header(GMimeMessage* message, const char* name, const std::string& value) {
  g_mime_object_set_header(GMIME_OBJECT(message), name, value.c_str(), "utf-8");
}

void set_headers(GMimeMessage* message, std::string_view id, const MailSettings& settings, const MailContext& context,
                 const std::string& subject) {
  const std::string site = site_of(settings, context);
  const std::string from = settings.from.empty() ? "reveal@" + site : qualified(settings.from, site);
  g_mime_message_add_mailbox(message, GMIME_ADDRESS_TYPE_FROM, "reveal", from.c_str());
  for (const std::string& address : context.to) {
    g_mime_message_add_mailbox(message, GMIME_ADDRESS_TYPE_TO, nullptr, address.c_str());
  }
  g_mime_message_set_subject(message, subject.c_str(), "utf-8");
  if (GDateTime* now = g_date_time_new_from_unix_utc(context.now_utc_ns / kSecond); now != nullptr) {
    g_mime_message_set_date(message, now);
    g_date_time_unref(now);
  }
  g_mime_message_set_message_id(message, message_id(id, settings, context).c_str());
  set_header(message, "Auto-Submitted", "auto-generated");  // RFC 3834: no holiday replies
  set_header(message, "X-Mailer", "reveal " REVEAL_VERSION);
}

void set_headers_of_report(GMimeMessage* message, const Report& report, const MailSettings& settings,
                           const MailContext& context) {
  if (!report.supersedes.empty()) {
    const std::string former = "<" + message_id(report.supersedes, settings, context) + ">";
    set_header(message, "In-Reply-To", former);
    set_header(message, "References", former);
  }
  if (!report.job.id.empty()) set_header(message, "X-Reveal-Job", token(report.job.id));
  set_header(message, "X-Reveal-Status", std::string(name_of(report.verdict.status)));
}

void start_gmime() {
  static const bool ready = [] {
    g_mime_init();
    return true;
  }();
  static_cast<void>(ready);
}

/// The text, and a file attached to it.
std::string mime_of(GMimeMessage* message, const std::string& id, const std::string& text, GMimePart* attachment,
                    const char* file) {
  const Ref<GMimeMultipart> mixed(g_mime_multipart_new_with_subtype("mixed"));
  // Neither quoted-printable nor base64 can contain "=_", so no content can end a part.
  const std::string boundary = "=_reveal_" + text_hash(id + text);
  g_mime_multipart_set_boundary(mixed.get(), boundary.c_str());
  const auto words = part("text", "plain", text, GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE);
  g_mime_multipart_add(mixed.get(), GMIME_OBJECT(words.get()));
  g_mime_object_set_disposition(GMIME_OBJECT(attachment), "attachment");
  g_mime_part_set_filename(attachment, file);
  g_mime_multipart_add(mixed.get(), GMIME_OBJECT(attachment));
  g_mime_message_set_mime_part(message, GMIME_OBJECT(mixed.get()));
  const std::unique_ptr<char, Free> whole(g_mime_object_to_string(GMIME_OBJECT(message), nullptr));
  if (whole == nullptr) throw std::bad_alloc();
  return whole.get();
}

}  // namespace

std::string_view name_of(Audience audience) noexcept {
  return kAudiences[static_cast<std::size_t>(audience)];
}

std::string header_text(std::string_view untrusted, std::size_t limit) {
  std::string line = printable(untrusted, limit);
  for (std::size_t at = line.find("=?"); at != std::string::npos; at = line.find("=?", at)) line.insert(at + 1, " ");
  return line;
}

MailMessage compose_mail(const Report& report, const MailSettings& settings, const MailContext& context) {
  start_gmime();
  MailMessage mail;
  const bool admins = context.audience == Audience::admins;
  const Report shown = admins                    ? with_texts_of_rules(without_main_threads(report))
                       : context.admins_notified ? without_admin_steps(report, settings)
                                                 : report;
  mail.subject = header_text(admins ? subject_for_admins(shown, settings) : subject_for_user(shown), kLongestSubject);
  TextStyle style{.width = kWidth, .colour = false};
  if (can_be_typed(context.directory)) style.directory = context.directory;
  mail.text = admins ? without_peers(text_for_admins(shown, settings, style), report) : render_text(shown, style);
  mail.text += footer(context);

  const Ref<GMimeMessage> message(g_mime_message_new(TRUE));
  set_headers(message.get(), shown.report_id, settings, context, mail.subject);
  set_headers_of_report(message.get(), shown, settings, context);
  const auto page = part("text", "html", admins ? without_peers(render_html(shown), report) : render_html(shown),
                         GMIME_CONTENT_ENCODING_BASE64);
  mail.mime = mime_of(message.get(), report.report_id, mail.text, page.get(), "report.html");
  return mail;
}

MailMessage compose_digest(const Digest& digest, const MailSettings& settings, const MailContext& context) {
  start_gmime();
  MailMessage mail;
  mail.subject = header_text(digest.subject, kLongestSubject);
  mail.text = digest.text;
  const Ref<GMimeMessage> message(g_mime_message_new(TRUE));
  set_headers(message.get(), digest.id, settings, context, mail.subject);
  const auto data = part("application", "json", digest.json, GMIME_CONTENT_ENCODING_BASE64);
  mail.mime = mime_of(message.get(), digest.id, mail.text, data.get(), "nodes.json");
  return mail;
}

}  // namespace reveal
