// report.txt: one terminal page. The verdict first, then one diagnosis with what to type, then what is worth knowing.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "postproc/report/report.h"
#include "postproc/report/untrusted.h"
#include "postproc/report/wording.h"

namespace reveal {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kLabel = 13;  // "  who acts     ..."
constexpr std::size_t kMostNotes = 3;
constexpr std::size_t kMostEvidence = 3;
constexpr std::size_t kMostEpisodes = 2;
constexpr std::size_t kMostReasons = 3;
constexpr std::size_t kMostGaps = 5;

enum class Ink : std::uint8_t { plain, bold, dim, red, yellow, green };
constexpr std::string_view kInks[] = {"", "\x1b[1m", "\x1b[2m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;32m"};

Ink ink_of(VerdictStatus status) {
  switch (status) {
    case VerdictStatus::healthy:
      return Ink::green;
    case VerdictStatus::finding:
      return Ink::red;
    case VerdictStatus::notice:
    case VerdictStatus::insufficient_data:
      return Ink::yellow;
  }
  return Ink::plain;
}

Ink ink_of(Severity severity) {
  if (severity >= Severity::warning) return Ink::red;
  return severity == Severity::notice ? Ink::yellow : Ink::plain;
}

class Page {
 public:
  explicit Page(TextStyle style) : style_(style), width_(static_cast<std::size_t>(std::max(style.width, 40))) {}

  void blank() {
    if (!text_.empty()) text_ += '\n';
  }

  void heading(std::string_view title) {
    blank();
    text_ += paint(title, Ink::bold) + "\n";
  }

  /// A paragraph after `first`, which is already painted and `used` columns wide; further lines are indented.
  void paragraph(const std::string& first, std::size_t used, std::size_t indent, std::string_view untrusted) {
    std::string line = first;
    const std::string words = printable(untrusted, 2000);
    std::string_view rest = words;
    bool fresh = true;
    while (!rest.empty()) {
      const std::size_t begin = rest.find_first_not_of(' ');
      if (begin == std::string_view::npos) break;
      rest.remove_prefix(begin);
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(word.size());
      const std::size_t size = columns(word);
      if (!fresh && used + 1 + size > width_) {
        text_ += line + "\n";
        line.assign(indent, ' ');
        used = indent;
        fresh = true;
      }
      if (!fresh) {
        line += ' ';
        ++used;
      }
      line += word;
      used += size;
      fresh = false;
    }
    text_ += line + "\n";
  }

  void paragraph(std::size_t indent, std::string_view text) {
    paragraph(std::string(indent, ' '), indent, indent, text);
  }

  /// "  where      n01: cpu1"; nothing at all for an empty text.
  void row(std::string_view label, std::string_view text) {
    if (text.empty()) return;
    const std::string padded = fmt::format("{:<{}}", label, kLabel);
    const std::size_t column = kIndent + kLabel;
    paragraph(std::string(kIndent, ' ') + paint(padded, Ink::dim), column, column, text);
  }

  /// Something to type: never wrapped, because half a command is worse than a long line.
  void command(std::string_view label, std::string_view line) {
    const std::string padded = fmt::format("{:<{}}", label, kLabel);
    text_ += std::string(kIndent, ' ') + paint(padded, Ink::dim) + paint(printable(line, 1000), Ink::bold) + "\n";
  }

  /// Left and right on one line where they fit.
  void title(std::string_view left, std::string_view right, Ink ink) {
    const std::string shown = printable(left, width_);
    const std::size_t used = columns(shown) + columns(right);
    blank();
    text_ += paint(shown, Ink::bold);
    text_ += used + 2 <= width_ ? std::string(width_ - used, ' ') : "\n  ";
    text_ += paint(right, ink) + "\n";
  }

  [[nodiscard]] std::string paint(std::string_view text, Ink ink) const {
    if (!style_.colour || ink == Ink::plain) return std::string(text);
    return std::string(kInks[static_cast<std::size_t>(ink)]) + std::string(text) + "\x1b[0m";
  }

  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  TextStyle style_;
  std::size_t width_;
  std::string text_;
};

void print_verdict(Page& page, const Report& report) {
  std::string word(headline(report.verdict.status));
  std::transform(word.begin(), word.end(), word.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  const std::size_t column = columns(word) + 2;
  page.paragraph(page.paint(word, ink_of(report.verdict.status)) + "  ", column, column, report.verdict.sentence);
  if (report.partial) page.paragraph(0, "Part of the data is missing; see coverage.");
}

void print_job(Page& page, const Report& report) {
  const ReportJob& job = report.job;
  std::string line = job_title(job);
  line[0] = static_cast<char>(line[0] - 32);
  if (!job.name.empty()) line += " " + printable(job.name, 60);
  if (!job.user.empty()) line += " of " + job.user;
  if (!job.cluster.empty()) line += " on " + job.cluster;
  if (!job.nodes.empty()) line += ", " + node_list(job.nodes);
  if (!job.state.empty()) line += ", " + job.state;
  if (job.exit_code) line += fmt::format(", exit status {}", *job.exit_code);
  page.blank();
  page.paragraph(0, line);
  line.clear();
  if (job.begin_utc_ns != 0) {
    line = "began " + date_and_time(job.begin_utc_ns);
    if (job.end_utc_ns > job.begin_utc_ns) {
      line += ", ran " + duration(static_cast<double>(job.end_utc_ns - job.begin_utc_ns) / 1e9);
    }
    line += "; ";
  }
  line += report.privileged ? "measured with privileges" : "measured without privileges";
  if (report.shared_node) line += " on a shared node";
  page.paragraph(0, line);
}

std::string place(const Finding& finding) {
  std::string text = node_list(finding.nodes);
  if (!finding.instances.empty()) text += (text.empty() ? "" : ": ") + listed(finding.instances);
  return text;
}

std::string evidence_line(const Evidence& evidence, bool several_nodes) {
  std::string line = channel_name(evidence.metric, evidence.instance);
  if (several_nodes && !evidence.node.empty()) line += " on " + evidence.node;
  line += ": " + quantity(evidence.observed, evidence.unit);
  if (evidence.expected) line += ", expected " + quantity(evidence.expected, evidence.unit);
  std::string how = evidence.feature;
  if (!evidence.detectors.empty()) how += (how.empty() ? "" : "; ") + listed(evidence.detectors, 6, "+");
  return how.empty() ? line : line + " (" + how + ")";
}

void print_primary(Page& page, const Finding& finding, const ReportJob& job) {
  page.title(finding.title, fmt::format("{}, {}", name_of(finding.severity), name_of(finding.confidence)),
             ink_of(finding.severity));
  page.row("what", finding.sentence);
  page.row("where", place(finding));
  std::vector<std::string> times;
  for (const TimeSpan& span : finding.intervals) times.push_back(when(span, job));
  page.row("when", listed(times, 3, "; "));
  page.row("cost", impact(finding.impact));
  for (std::size_t i = 0; i < std::min(finding.evidence.size(), kMostEvidence); ++i) {
    page.row(i == 0 ? "evidence" : "", evidence_line(finding.evidence[i], job.nodes.size() > 1));
  }
  if (!finding.runner_up.why_not.empty()) {
    page.row("rather than", finding.runner_up.id + ": " + finding.runner_up.why_not);
  }
  page.row("who acts", who_acts(finding.remedy));
  for (std::size_t i = 0; i < finding.remedy.user.size(); ++i) {
    page.command(i == 0 ? "you type" : "", finding.remedy.user[i]);
  }
  for (std::size_t i = 0; i < finding.remedy.admin.size(); ++i) {
    page.row(i == 0 ? "tell admins" : "", finding.remedy.admin[i]);
  }
  page.row("verify", finding.remedy.verify);
}

void print_notes(Page& page, const Report& report) {
  if (report.findings.size() < 2) return;
  page.heading("Also noted");
  const std::size_t end = std::min(report.findings.size(), kMostNotes + 1);
  for (std::size_t i = 1; i < end; ++i) {
    const Finding& note = report.findings[i];
    const std::string where = place(note);
    const std::string& what = note.sentence.empty() ? note.title : note.sentence;
    page.paragraph("  - ", 4, 4,
                   fmt::format("[{}, {}] {}{}{}", name_of(note.severity), name_of(note.confidence), where,
                               where.empty() ? "" : ": ", what));
    if (!note.remedy.user.empty()) {
      page.command("  you type", note.remedy.user.front());
    } else if (!note.remedy.admin.empty()) {
      page.paragraph(4, "tell admins: " + note.remedy.admin.front());
    }
  }
  if (report.findings.size() > end) {
    page.paragraph(2, counted(static_cast<double>(report.findings.size() - end), "more finding") + ": report.html");
  }
}

void print_episodes(Page& page, const Report& report) {
  if (report.episodes.empty()) return;
  page.heading("Anomalous intervals");
  for (std::size_t i = 0; i < std::min(report.episodes.size(), kMostEpisodes); ++i) {
    const ReportEpisode& episode = report.episodes[i];
    const std::string head =
        fmt::format("{} to {}  ", clock_time(episode.span.begin_utc_ns), clock_time(episode.span.end_utc_ns));
    std::string text = report.job.nodes.size() > 1 ? episode.node + " " : "";
    text += fmt::format("{} [{}]: {}", name_of(episode.subsystem), listed(episode.methods, 6, "+"), episode.claim);
    page.paragraph("  " + head, 2 + head.size(), 2 + head.size(), text);
  }
  if (report.episodes.size() > kMostEpisodes) {
    page.paragraph(2, fmt::format("{} more: report.html", report.episodes.size() - kMostEpisodes));
  }
}

void print_coverage(Page& page, const Report& report) {
  page.heading("Compared, measured, and what it cost");
  if (report.job.nodes.size() > 1) page.row("other nodes", peers_line(report));
  page.row("earlier runs", history_line(report));
  std::size_t lines = 0;
  for (const NodeCoverage& coverage : report.coverage) {
    if (lines++ == kMostGaps) {
      page.row("", fmt::format("{} more groups of nodes: report.html", report.coverage.size() - kMostGaps));
      break;
    }
    std::string text = node_list(coverage.nodes);
    if (coverage.samples_expected && coverage.samples_present) {
      text += fmt::format(": {} of {} samples", number(*coverage.samples_present), number(*coverage.samples_expected));
    }
    if (!coverage.note.empty()) text += "; " + coverage.note;
    page.row(lines == 1 ? "coverage" : "", text);
  }
  if (report.coverage.empty()) page.row("coverage", "nothing was measured");
  page.row("without", listed(gaps(report), kMostGaps, "; "));

  // The dearest node stands for all: nobody is hurt by the average.
  const auto dearest =
      std::max_element(report.overhead.begin(), report.overhead.end(), [](const auto& a, const auto& b) {
        return a.cpu_percent_of_core.value_or(-1) < b.cpu_percent_of_core.value_or(-1);
      });
  if (dearest == report.overhead.end()) return;
  std::string cost = dearest->cpu_percent_of_core ? number(*dearest->cpu_percent_of_core) + " % of one core"
                                                  : "cpu time " + quantity(std::nullopt, "");
  if (dearest->bytes_per_second) cost += ", " + quantity(dearest->bytes_per_second, "bytes/s");
  if (dearest->late_ticks) cost += ", " + counted(*dearest->late_ticks, "late tick");
  if (dearest->channels) cost += ", " + counted(*dearest->channels, "channel");
  if (!dearest->reason.empty()) cost += " (" + dearest->reason + ")";
  if (report.overhead.size() > 1)
    cost += fmt::format(" ({}, the dearest of {})", dearest->node, report.overhead.size());
  page.row("reveal", cost);
}

void print_not_checked(Page& page, const Report& report) {
  if (report.not_checked.empty()) return;
  page.heading("Not checked");
  const std::vector<NotChecked> groups = by_reason(report.not_checked);
  for (std::size_t i = 0; i < std::min(groups.size(), kMostReasons); ++i) {
    page.paragraph("  - ", 4, 4, groups[i].rule + ": " + groups[i].reason);
  }
  if (groups.size() > kMostReasons) {
    page.paragraph(2, fmt::format("{} more reasons: report.html", groups.size() - kMostReasons));
  }
}

}  // namespace

std::string render_text(const Report& report, TextStyle style) {
  Page page(style);
  print_verdict(page, report);
  print_job(page, report);
  if (!report.findings.empty()) print_primary(page, report.findings.front(), report.job);
  print_notes(page, report);
  print_episodes(page, report);
  print_coverage(page, report);
  print_not_checked(page, report);
  return std::move(page).text();
}

}  // namespace reveal
