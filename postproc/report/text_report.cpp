// report.txt and what the terminal shows: the verdict first, then one diagnosis with what to type, what the job used,
// and at the end where it all is.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "hdf5schema/basics/shell_word.h"
#include "postproc/report/report.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kLabel = 13;  // "  run this     ..."
constexpr std::size_t kMostNodes = 8;
constexpr std::ptrdiff_t kBriefLines = 6;
constexpr std::size_t kLongestLine = 2000;

/// How much of each thing is shown.
struct Limits {
  std::size_t notes, evidence, times, steps, reasons, groups;
  std::size_t sentence;  // characters of a sentence that is not the main one
};
constexpr Limits kOfPage{.notes = 3, .evidence = 3, .times = 2, .steps = 2, .reasons = 0, .groups = 2, .sentence = 140};
constexpr Limits kOfAll{
    .notes = 100, .evidence = 16, .times = 20, .steps = 20, .reasons = 100, .groups = 100, .sentence = kLongestLine};

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

/// "command --a \\", "    --b": split between words outside quotes. A line that cannot be split so stays whole: half a
/// command is worse than a long line.
std::vector<std::string> command_lines(const std::string& line, std::size_t width) {
  constexpr std::string_view kContinues = " \\";
  constexpr std::string_view kHanging = "    ";
  if (columns(line) <= width || line.find('#') != std::string::npos) return {line};
  std::vector<std::string> words(1);
  char quote = '\0';
  for (const char c : line) {
    if (quote == '\0' && c == ' ') {
      words.emplace_back();
      continue;
    }
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    }
    words.back() += c;
  }
  if (quote != '\0' || line.find('\\') != std::string::npos) return {line};
  std::vector<std::string> lines{words.front()};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t room = width - (i + 1 == words.size() ? 0 : kContinues.size());
    if (columns(lines.back()) + 1 + columns(words[i]) <= room) {
      lines.back() += ' ' + words[i];
    } else {
      lines.back() += kContinues;
      lines.push_back(std::string(kHanging) + words[i]);
    }
  }
  return lines;
}

class Page {
 public:
  explicit Page(TextStyle style)
      : style_(std::move(style)), width_(static_cast<std::size_t>(std::max(style_.width, 40))) {}

  [[nodiscard]] bool all() const { return style_.part != TextPart::page; }
  [[nodiscard]] const Limits& limits() const { return all() ? kOfAll : kOfPage; }
  [[nodiscard]] const TextStyle& style() const { return style_; }
  [[nodiscard]] std::size_t width() const { return width_; }

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
    const std::string words = printable(untrusted, kLongestLine);
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

  /// Something to type. What is too long for the line continues as a shell reads it, where a shell would.
  void command(std::string_view label, std::string_view line) {
    const std::string padded = fmt::format("{:<{}}", label, kLabel);
    const std::string shown = printable(line, 1000);
    const std::vector<std::string> parts = command_lines(shown, width_ - kIndent - kLabel);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string before = i == 0 ? paint(padded, Ink::dim) : std::string(kLabel, ' ');
      text_ += std::string(kIndent, ' ') + before + paint(parts[i], Ink::bold) + "\n";
    }
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

  /// As it is, whatever its length.
  void line(std::string_view text) { text_ += printable(text, kLongestLine) + "\n"; }

  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  TextStyle style_;
  std::size_t width_;
  std::string text_;
};

std::string capitals(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  return word;
}

Ink ink_of(const Verdict& verdict) {
  const bool failed = verdict.job_failed && verdict.status == VerdictStatus::healthy;
  return failed ? Ink::bold : ink_of(verdict.status);
}

/// "./reveal-4711/report.html", as a terminal makes a link of it.
std::string page_path(const std::string& directory) {
  const std::filesystem::path path = std::filesystem::path(directory) / "report.html";
  return shell_word(path.is_absolute() || directory.starts_with(".") ? path.string() : "./" + path.string());
}

void print_verdict(Page& page, const Report& report) {
  const std::string word = capitals(headline(report.verdict));
  const std::size_t column = columns(word) + 2;
  page.paragraph(page.paint(word, ink_of(report.verdict)) + "  ", column, column, report.verdict.sentence);
}

void print_job(Page& page, const Report& report) {
  const ReportJob& job = report.job;
  std::string line = job_with_place(job);
  if (!job.state.empty()) line += ": " + job.state;
  if (job.exit_code.value_or(0) != 0) line += fmt::format(", exit status {}", *job.exit_code);
  if (job.begin_utc_ns != 0) line += ", began " + date_and_time(job.begin_utc_ns);
  const std::string ran = run_time(job);
  if (!ran.empty()) line += ", " + ran;
  for (const auto& [key, value] : job.tags) line += ", " + printable(key, 60) + "=" + printable(value, 120);
  page.blank();
  page.paragraph(0, line);
}

void print_nodes(Page& page, const Report& report) {
  const auto line = [&](std::string_view node, std::string_view cpu, std::string_view memory, std::string_view read,
                        std::string_view written, std::string_view waits) {
    page.line(
        fmt::format("  {:<12} {:<16} {:<19} {:<9} {:<9} {}", printable(node, 12), cpu, memory, read, written, waits));
  };
  line("node", "cpus used", "memory", "read", "wrote", "waited");
  std::size_t left = page.all() ? report.totals.size() : kMostNodes;
  std::size_t more = 0;
  for (const JobTotals& node : report.totals) {
    if (node.node.empty()) continue;
    if (left == 0) {
      ++more;
      continue;
    }
    --left;
    const auto known = [](const std::string& text, bool is) { return is ? text : std::string("-"); };
    line(node.node, known(cpus_used(node), node.cpu_seconds.has_value()),
         known(memory_used(node), node.memory_peak.has_value()),
         known(amount(node.read_bytes), node.read_bytes.has_value()),
         known(amount(node.written_bytes), node.written_bytes.has_value()),
         known(waited(node), node.wait_share.has_value()));
  }
  if (more > 0) page.paragraph(2, counted(static_cast<double>(more), "more node"));
}

void print_totals(Page& page, const Report& report) {
  if (report.totals.empty()) return;
  const JobTotals& whole = report.totals.front();
  const std::vector<std::string> parts = used(whole);
  page.row("totals", parts.empty() ? "nothing was measured" : listed(parts, parts.size(), "; "));
  if (page.all()) {
    for (const std::string& line : unknown(whole)) page.row("not known", line);
    for (const auto& [key, member] : kTotalsNumbers) {
      const auto note = whole.notes.find(key);
      if ((whole.*member) && note != whole.notes.end()) page.row("", fmt::format("{}: {}", key, note->second));
    }
  }
  const bool several = std::count_if(report.totals.begin(), report.totals.end(),
                                     [](const JobTotals& one) { return !one.node.empty(); }) > 1;
  if (several) print_nodes(page, report);
}

std::string place(const Finding& finding) {
  std::string text = node_list(finding.nodes);
  if (!finding.instances.empty()) text += (text.empty() ? "" : ": ") + listed(finding.instances);
  return text;
}

std::string evidence_line(const Page& page, const Evidence& evidence, bool several_nodes) {
  std::string line = channel_name(evidence.metric, evidence.instance);
  if (several_nodes && !evidence.node.empty()) line += " on " + evidence.node;
  line += ": " + quantity_of(evidence.metric, evidence.observed, evidence.unit);
  if (evidence.expected) line += ", expected " + quantity_of(evidence.metric, evidence.expected, evidence.unit);
  if (!page.all()) return line;
  std::string how = evidence.feature;
  if (!evidence.detectors.empty()) how += (how.empty() ? "" : "; ") + listed(evidence.detectors, 6, "+");
  return how.empty() ? line : line + " (" + how + ")";
}

/// Whether the verdict says it already; it may go on, or end, otherwise.
bool says(const std::string& verdict, std::string_view sentence) {
  if (sentence.ends_with('.')) sentence.remove_suffix(1);
  return verdict.find(sentence) != std::string::npos;
}

void print_steps(Page& page, std::string_view label, const std::vector<std::string>& steps) {
  const std::size_t end = std::min(steps.size(), page.limits().steps);
  for (std::size_t i = 0; i < end; ++i) {
    page.row(i == 0 ? label : "",
             i + 1 == end && end < steps.size() ? fmt::format("{} ({} more)", steps[i], steps.size() - end) : steps[i]);
  }
}

void print_finding(Page& page, const Finding& finding, const Report& report) {
  const Limits& limits = page.limits();
  page.title(finding.title, fmt::format("{}, {}", name_of(finding.severity), name_of(finding.confidence)),
             ink_of(finding.severity));
  if (page.style().part == TextPart::findings || !says(report.verdict.sentence, finding.sentence)) {
    page.row("what", finding.sentence);
  }
  page.row("where", place(finding));
  std::vector<std::string> times;
  for (const TimeSpan& span : finding.intervals) times.push_back(when(span, report.job));
  page.row("when", listed(times, limits.times, "; "));
  page.row("cost", impact(finding.impact));
  for (std::size_t i = 0; i < std::min(finding.evidence.size(), limits.evidence); ++i) {
    page.row(i == 0 ? "evidence" : "", evidence_line(page, finding.evidence[i], report.job.nodes.size() > 1));
  }
  if (!finding.runner_up.why_not.empty()) {
    const std::string rejected = finding.runner_up.id.empty() ? finding.runner_up.why_not
                                                              : finding.runner_up.id + ": " + finding.runner_up.why_not;
    page.row("look-alike", shortened(rejected, limits.sentence));
  }
  if (page.all()) page.row("fixed by", who_acts(finding.remedy));
  for (std::size_t i = 0; i < finding.remedy.user.size(); ++i) {
    page.command(i == 0 ? "run this" : "", finding.remedy.user[i]);
  }
  print_steps(page, "to change", finding.remedy.advice);
  print_steps(page, "for admins", finding.remedy.admin);
  page.row("verify", finding.remedy.verify);
  if (page.style().part != TextPart::findings) return;
  for (const std::string& source : finding.sources) page.row("source", source);
  page.row("rule", finding.id);
}

void print_note(Page& page, const Finding& note) {
  const std::string where = place(note);
  const std::string& what = note.sentence.empty() ? note.title : note.sentence;
  const std::string text = fmt::format("[{}, {}] {}{}{}", name_of(note.severity), name_of(note.confidence), where,
                                       where.empty() ? "" : ": ", what);
  page.paragraph("  - ", 4, 4, shortened(text, page.limits().sentence));
  if (!note.remedy.user.empty()) {
    page.command("  run this", note.remedy.user.front());
  } else if (!note.remedy.advice.empty()) {
    page.paragraph(4, "to change: " + shortened(note.remedy.advice.front(), page.limits().sentence));
  } else if (!note.remedy.admin.empty()) {
    page.paragraph(4, "for admins: " + shortened(note.remedy.admin.front(), page.limits().sentence));
  }
}

/// The first in full, the others in a few lines; what has no visible cost is counted.
void print_findings(Page& page, const Report& report) {
  std::vector<const Finding*> notes = shown_findings(report);
  if (!notes.empty()) {
    print_finding(page, *notes.front(), report);
    notes.erase(notes.begin());
  }
  if (page.all()) {
    for (const Finding& finding : report.findings) {
      if (finding.severity < Severity::notice) notes.push_back(&finding);
    }
  }
  if (!notes.empty()) page.heading("Also noted");
  const std::size_t end = std::min(notes.size(), page.limits().notes);
  for (std::size_t i = 0; i < end; ++i) print_note(page, *notes[i]);
  if (notes.size() > end) page.paragraph(2, counted(static_cast<double>(notes.size() - end), "more finding"));
  const std::string rest = left_out_line(report);
  if (page.all() || rest.empty()) return;
  page.blank();
  page.paragraph(0, rest + ".");
}

void print_episodes(Page& page, const Report& report) {
  if (report.episodes.empty() || !page.all()) return;
  page.heading("Anomalous intervals");
  for (const ReportEpisode& episode : report.episodes) {
    const std::string head =
        fmt::format("{} to {}  ", clock_time(episode.span.begin_utc_ns), clock_time(episode.span.end_utc_ns));
    std::string text = report.job.nodes.size() > 1 ? episode.node + " " : "";
    text += fmt::format("{} [{}]: {}", name_of(episode.subsystem), listed(episode.methods, 6, "+"), episode.claim);
    page.paragraph("  " + head, 2 + head.size(), 2 + head.size(), text);
  }
}

/// Nodes that delivered everything are one line, whatever their number.
void print_samples(Page& page, const Report& report) {
  std::vector<std::string> lines;
  for (const NodeCoverage& coverage : report.coverage) {
    std::string text = node_list(coverage.nodes);
    if (coverage.samples_expected && coverage.samples_present) {
      text += fmt::format(": {} of {} samples", number(*coverage.samples_present), number(*coverage.samples_expected));
    }
    if (coverage.note.starts_with(text + " ")) {
      text = coverage.note;  // "n04 has no trace: ..."
    } else if (!coverage.note.empty()) {
      text += "; " + coverage.note;
    }
    lines.push_back(text);
  }
  if (lines.empty()) lines.emplace_back("nothing was measured");
  std::size_t end = std::min(lines.size(), page.limits().groups);
  if (end + 1 == lines.size()) ++end;  // rather than to say that there is one more
  for (std::size_t i = 0; i < end; ++i) {
    page.row(i == 0 ? "coverage" : "", shortened(lines[i], page.all() ? kLongestLine : page.limits().sentence));
  }
  if (lines.size() > end) page.row("", fmt::format("{} more groups of nodes", lines.size() - end));
}

std::string own_cost(const Report& report) {
  // The highest of all nodes: nobody is hurt by the average.
  const auto most = std::max_element(report.overhead.begin(), report.overhead.end(), [](const auto& a, const auto& b) {
    return a.cpu_percent_of_core.value_or(-1) < b.cpu_percent_of_core.value_or(-1);
  });
  if (most == report.overhead.end()) return "";
  std::string cost = most->cpu_percent_of_core ? number(*most->cpu_percent_of_core) + " % of one core"
                                               : "cpu time " + quantity(std::nullopt, "");
  if (most->bytes_per_second) cost += ", " + quantity(most->bytes_per_second, "bytes/s");
  if (most->late_ticks.value_or(0) > 0) cost += ", " + counted(*most->late_ticks, "late sample");
  if (!most->reason.empty()) cost += " (" + most->reason + ")";
  if (report.overhead.size() > 1)
    cost += fmt::format(" on {}, the most of {} nodes", most->node, report.overhead.size());
  return cost;
}

void print_coverage(Page& page, const Report& report) {
  page.blank();
  if (report.job.nodes.size() > 1 && (page.all() || report.comparison.compared))
    page.row("other nodes", peers_line(report));
  if (page.all() || report.history.status != HistoryStatus::never_compared) {
    page.row("earlier runs", history_line(report));
  }
  print_samples(page, report);
  if (page.all()) {
    for (const std::string& gap : gaps(report)) page.row("not measured", gap);
  } else {
    std::vector<std::string> missing;
    if (const std::string probes = gaps_in_brief(report); !probes.empty()) missing.push_back(probes);
    if (!report.not_checked.empty()) {
      missing.push_back(counted(static_cast<double>(report.not_checked.size()), "rule") + " could not be checked");
    }
    page.row("", listed(missing, missing.size(), "; "));
  }
  page.row("reveal", own_cost(report));
}

void print_not_checked(Page& page, const Report& report) {
  if (report.not_checked.empty() || !page.all()) return;
  page.heading("Not checked");
  for (const NotChecked& group : by_reason(report.not_checked)) {
    page.paragraph("  - ", 4, 4, group.rule + ": " + group.reason);
  }
}

std::string made_by(const Report& report) {
  return report.tool_version.empty() ? "" : " (reveal " + printable(report.tool_version, 40) + ")";
}

void print_end(Page& page, const Report& report) {
  const std::string& typed = page.style().directory;
  if (typed.empty() && report.directory.empty()) return;
  page.blank();
  page.row("report", (typed.empty() ? report.directory + "/report.html" : page_path(typed)) + made_by(report));
  if (typed.empty()) return;
  page.command(page.all() ? "again" : "everything",
               fmt::format("reveal show {}{}", page.all() ? "" : "--all ", shell_word(typed)));
}

/// The sentence in so many lines at most.
void print_brief_verdict(Page& page, const Report& report, std::ptrdiff_t most) {
  constexpr std::string_view kName = "reveal: ";
  const std::string word = capitals(headline(report.verdict));
  const std::string first = std::string(kName) + page.paint(word, ink_of(report.verdict)) + "  ";
  const std::size_t used = kName.size() + columns(word) + 2;
  std::string sentence = report.verdict.sentence;
  // Words that wrap leave the ends of lines empty: less fits than there are columns.
  for (std::size_t room = columns(printable(sentence, kLongestLine)); room > 20; room -= 4) {
    sentence = shortened(report.verdict.sentence, room);
    Page trial(TextStyle{.width = static_cast<int>(page.width())});
    trial.paragraph(std::string(used, ' '), used, kName.size(), sentence);
    const std::string lines = std::move(trial).text();
    if (std::count(lines.begin(), lines.end(), '\n') <= most) break;
  }
  page.paragraph(first, used, kName.size(), sentence);
}

/// What to do, in one line; a command that does not fit is left to the page.
void print_brief_step(Page& page, const Report& report) {
  const std::vector<const Finding*> shown = shown_findings(report);
  if (shown.empty()) return;
  const Remedy& remedy = shown.front()->remedy;
  const std::size_t room = page.width() - kIndent - kLabel;
  const auto without_comment = [](const std::string& line) {
    const std::string_view command = std::string_view(line).substr(0, line.find("  #"));
    return std::string(command.substr(0, command.find_last_not_of(' ') + 1));
  };
  for (const std::string& line : remedy.user) {
    const std::string command = without_comment(line);
    if (command.starts_with("# ") || columns(printable(command)) > room) continue;
    page.command("run this", command);
    return;
  }
  if (!remedy.advice.empty()) {
    page.row("to change", shortened(remedy.advice.front(), room));
  } else if (!remedy.admin.empty()) {
    page.row("for admins", shortened(without_comment(remedy.admin.front()), room));
  }
}

void print_brief_totals(Page& page, const Report& report) {
  const std::size_t room = page.width() - kIndent - kLabel;
  std::string line = run_time(report.job);
  if (!report.totals.empty()) {
    for (const std::string& part : used(report.totals.front())) {
      const std::string longer = line.empty() ? part : line + "; " + part;
      if (columns(longer) > room) break;
      line = longer;
    }
  }
  page.row("totals", line);
}

}  // namespace

std::string render_text(const Report& report, const TextStyle& style) {
  Page page(style);
  if (style.part == TextPart::findings) {
    page.paragraph(0, job_with_place(report.job));
    for (const Finding& finding : report.findings) print_finding(page, finding, report);
    print_end(page, report);
    return std::move(page).text();
  }
  print_verdict(page, report);
  print_job(page, report);
  print_totals(page, report);
  print_findings(page, report);
  print_episodes(page, report);
  print_coverage(page, report);
  print_not_checked(page, report);
  print_end(page, report);
  return std::move(page).text();
}

std::string render_brief(const Report& report, const TextStyle& style) {
  Page page(style);
  const std::string& directory = style.directory.empty() ? report.directory : style.directory;
  const std::string again = "reveal show " + shell_word(directory);
  if (report.verdict.status == VerdictStatus::insufficient_data) {
    const std::string where = " (" + again + ")";
    constexpr std::size_t kLeastSentence = 100;
    const std::size_t taken = columns("reveal: ") + columns(where);
    const std::size_t room = page.width() > taken ? page.width() - taken : 0;
    page.line("reveal: " + shortened(report.verdict.sentence, std::max(room, kLeastSentence)) + where);
    return std::move(page).text();
  }
  Page below(style);
  print_brief_step(below, report);
  print_brief_totals(below, report);
  below.line(fmt::format("  {:<{}}{}", "report", kLabel, page_path(directory)));
  below.line(fmt::format("  {:<{}}{}", "again", kLabel, again));
  const std::string end = std::move(below).text();
  print_brief_verdict(page, report, kBriefLines - std::count(end.begin(), end.end(), '\n'));
  return std::move(page).text() + end;
}

}  // namespace reveal
