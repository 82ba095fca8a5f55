// report.txt and the output on a terminal: the verdict first, then one diagnosis with its remedy, the resources that
// the job used, and at the end the files.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>

#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/shell_word.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/rule.h"
#include "postproc/report/outline.h"
#include "postproc/report/report.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/words/ink.h"
#include "postproc/words/remedy_lines.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/sparkline.h"

namespace reveal {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kLabel = 13;  // "  run this     ..."
constexpr std::ptrdiff_t kBriefLines = 6;
constexpr std::size_t kLongestLine = 2000;
constexpr std::size_t kLongestHeading = 200;

/// How much of each thing is shown.
struct Limits {
  std::size_t notes, times, lines;
  std::size_t steps;  // one more is shown instead of a line that says so
  std::size_t commands;
  std::size_t sentence;  // characters of a sentence that is not the main one
};
constexpr Limits kOfPage{.notes = 3, .times = 2, .lines = 2, .steps = 3, .commands = 3, .sentence = 220};
constexpr Limits kOfAll{
    .notes = 100, .times = 20, .lines = 200, .steps = 200, .commands = 200, .sentence = kLongestLine};

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

/// "command --a \\", "    --b": split between words outside quotes. A line that cannot be split so was not reduced:
/// half a command is worse than a long line.
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

/// "# on n03: drops of a shaper", "# or policer".
std::vector<std::string> comment_lines(std::string_view comment, std::size_t width) {
  std::vector<std::string> lines;
  const std::string text = commented("", comment, 0, width);
  std::string_view rest = text;
  for (std::string_view line; next_line(rest, line);) lines.emplace_back(line);
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
    text_ += folded_behind(first, used, printable(untrusted, kLongestLine), indent, width_, columns);
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

  /// A command to type. A long one continues on the next line as in a shell, if possible; a comment that does not fit
  /// behind it stands above it.
  void command(std::string_view label, std::string_view line) {
    const std::string shown = printable(line, 1000);
    const TypedLine typed = typed_line(shown);
    const bool fits = typed.comment.empty() || columns(shown) <= width_ - kIndent - kLabel;
    fits ? command(label, TypedLine{shown, ""}) : command(label, typed);
  }

  /// The comment stands above the command. Both are printable.
  void command(std::string_view label, const TypedLine& typed) {
    const std::size_t room = width_ - kIndent - kLabel;
    std::vector<std::string> parts;
    if (!typed.comment.empty()) parts = comment_lines(typed.comment, room);
    for (std::string& part : command_lines(typed.command, room)) parts.push_back(std::move(part));
    const std::string padded = fmt::format("{:<{}}", label, kLabel);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string before = i == 0 ? paint(padded, Ink::dim) : std::string(kLabel, ' ');
      const bool comment = parts[i].starts_with("# ");
      text_ += std::string(kIndent, ' ') + before + paint(parts[i], comment ? Ink::plain : Ink::bold) + "\n";
    }
  }

  /// Left and right on one line where they fit.
  void title(std::string_view left, std::string_view right, Ink ink) {
    const std::string shown = printable(left, kLongestHeading);
    const std::size_t used = columns(shown) + columns(right);
    blank();
    const std::string all = folded_behind("", 0, shown, 0, width_, columns);
    std::string_view rest = all;
    std::string_view before;
    for (std::string_view line; next_line(rest, line); before = "\n")
      text_ += std::string(before) + paint(line, Ink::bold);
    text_ += used + 2 <= width_ ? std::string(width_ - used, ' ') : "\n  ";
    text_ += paint(right, ink) + "\n";
  }

  [[nodiscard]] std::string paint(std::string_view text, Ink ink) const { return painted(text, ink, style_.colour); }

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

/// The parts of the outline that fit on the page.
unsigned wanted(const Page& page) {
  if (page.style().part == TextPart::findings) return kInFull;
  return page.all() ? kAll : kPage;
}

void print_list(Page& page, const Row& row, std::size_t most) {
  const std::size_t end = std::min(row.lines.size(), most);
  for (std::size_t i = 0; i < end; ++i) {
    const bool cut = i + 1 == end && end < row.lines.size();
    page.row(i == 0 ? row.label : "",
             text_of(row.lines[i]) + (cut ? fmt::format(" ({} more)", row.lines.size() - end) : ""));
  }
}

void print_more(Page& page, std::size_t more, const char* what) {
  if (more > 0) page.row("", counted(static_cast<double>(more), std::string("more ") + what) + " in full");
}

/// Lines with their marks.
void print_steps(Page& page, const Row& row, std::size_t end, const char* more) {
  const std::vector<std::string> marks = marks_of(row);
  for (std::size_t i = 0; i < end; ++i) {
    const std::string label = step_label(i == 0 ? row.label : "", marks[i], kLabel);
    const std::string text = text_of(row.lines[i]);
    const bool typed = row.kind == Row::Kind::command || is_typed(row.lines[i]);
    typed ? page.command(label, text) : page.row(label, text);
  }
  print_more(page, row.lines.size() - end, more);
}

void print(Page& page, const Row& row) {
  switch (row.kind) {
    case Row::Kind::prose:
      page.row(row.label, joined(row.lines, "; "));
      break;
    case Row::Kind::aside:
      page.row(row.label, shortened(joined(row.lines, "; "), page.limits().sentence));
      break;
    case Row::Kind::series: {
      std::vector<std::string> texts;
      for (const Line& line : row.lines) texts.push_back(text_of(line));
      page.row(row.label, listed(texts, page.limits().times, "; "));
      break;
    }
    case Row::Kind::list:
    case Row::Kind::links:
      print_list(page, row, page.limits().lines);
      break;
    case Row::Kind::steps: {
      const std::size_t most = page.limits().steps;
      print_steps(page, row, row.lines.size() > most + 1 ? most : row.lines.size(), "step");
      break;
    }
    case Row::Kind::command:
      print_steps(page, row, std::min(row.lines.size(), page.limits().commands), "line");
      break;
  }
}

/// An unknown value leaves a grid's cell nearly empty.
std::string grid_line(const Table& table, const std::vector<std::string>& cells, unsigned shown) {
  std::string line = "  ";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if ((table.columns[i].shown & shown) == 0) continue;
    const auto width = static_cast<std::size_t>(table.columns[i].width);
    const std::string text = cells[i] == kNotMeasured ? "-" : width > 0 ? printable(cells[i], width) : cells[i];
    line += fmt::format("{:<{}} ", text, width);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

/// The course behind a text that takes one line, if the line has room for it.
std::string drawn_course(const Page& page, const std::vector<Cell>& cells, std::size_t used) {
  constexpr std::size_t kWidest = 24;
  constexpr std::size_t kNarrowest = 8;
  constexpr std::size_t kBefore = 1;
  const std::size_t taken = kIndent + kLabel + used + kBefore;
  if (!page.style().blocks || cells.empty() || cells.front().course.empty() || taken + kNarrowest > page.width()) {
    return "";
  }
  const std::size_t width = std::min(kWidest, page.width() - taken);
  return " " + sparkline(reduced(cells.front().course, width), width, "·");
}

void print(Page& page, const Table& table) {
  const unsigned shown = wanted(page);
  std::size_t end = std::min(table.rows.size(), page.all() ? table.most : table.most_on_page);
  if (end + 1 == table.rows.size() && !table.more.empty()) ++end;  // instead of a line that there is one more
  std::vector<std::string> headings;
  for (const Column& column : table.columns) headings.push_back(column.heading);
  if (table.grid) page.line(grid_line(table, headings, shown));
  for (std::size_t i = 0; i < end; ++i) {
    std::vector<std::string> cells;
    for (const Cell& cell : table.rows[i]) cells.push_back(joined(cell.lines, " "));
    const std::string text = table.grid ? grid_line(table, cells, shown) : row_as_sentence(table, table.rows[i], shown);
    if (table.grid) {
      page.line(text);
    } else if (table.label == "-") {
      page.paragraph("  - ", 4, 4, text);
    } else {
      const std::string line = shortened(text, page.all() ? kLongestLine : page.limits().sentence);
      page.row(i == 0 ? table.label : "", line + drawn_course(page, table.rows[i], columns(line)));
    }
  }
  const std::size_t more = table.rows.size() - end;
  const std::string left = counted(static_cast<double>(more), "more " + table.more);
  if (more > 0 && table.grid) page.paragraph(2, left);
  if (more > 0 && !table.grid && !table.more.empty()) page.row("", left);
}

bool is_wanted(const Part& part, const Page& page) {
  return std::visit([&](const auto& known) { return (known.shown & wanted(page)) != 0; }, part);
}

void print(Page& page, const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    if (is_wanted(part, page)) std::visit([&](const auto& known) { print(page, known); }, part);
  }
}

/// "job 4711 (user ada, nodes n[01-02]): COMPLETED, ran 62 s, dataset=imagenet".
void print_job(Page& page, const Section& section) {
  std::string title;
  std::string place;
  std::string rest;
  for (const Part& part : section.parts) {
    if (!is_wanted(part, page)) continue;
    const Row& row = std::get<Row>(part);
    const bool labelled = !row.label.empty() && !row.lines.front().front().code;
    std::string& to = title.empty() ? title : row.kind == Row::Kind::aside ? place : rest;
    to += (to.empty() ? "" : ", ") + (labelled ? row.label + " " : "") + printable(joined(row.lines, ", "), 180);
  }
  if (!place.empty()) title += " (" + place + ")";
  page.blank();
  const TextPart part_shown = page.style().part;
  const bool short_one = rest.empty() || part_shown == TextPart::findings || part_shown == TextPart::episodes;
  page.paragraph(0, short_one ? title : title + (place.empty() ? ", " : ": ") + rest);
}

/// The command stays in one piece.
void print_verify(Page& page, const std::string& directory, const Finding& finding) {
  const std::string command = fmt::format("reveal compare {} NEXT_RUN", shell_word(directory));
  const TypedLine typed{printable(command, kLongestLine), printable(expected_of_comparison(finding), 200)};
  const std::string whole = typed.command + "  # " + typed.comment;
  const bool fits = kIndent + kLabel + columns(whole) <= page.width();
  fits ? page.command("verify", TypedLine{whole, ""}) : page.command("verify", typed);
}

void print(Page& page, const Card& card, const Report& report) {
  const Finding& finding = *card.finding;
  page.title(finding.title, level_words(finding), ink_of(finding.severity));
  if (page.style().part == TextPart::findings || !repeats(report.verdict, finding.sentence)) {
    page.row("what", told(finding));
  }
  print(page, card.parts);
  const std::string& directory = page.style().directory.empty() ? report.directory : page.style().directory;
  const bool cost = finding.severity >= Severity::warning || finding.impact.seconds;
  if (!page.all() && !directory.empty() && cost) print_verify(page, directory, finding);
}

/// One that is not the first: place and cause, and the first step.
void print_note(Page& page, const Card& card) {
  const Finding& note = *card.finding;
  const std::string& what = note.sentence.empty() ? note.title : note.sentence;
  const bool says_where = names_place(*card.finding, what);
  const std::string sentence = (says_where ? "" : card.place + ": ") + what;
  page.paragraph(
      "  - ", 4, 4,
      fmt::format("[{}{}] {}", level_words(note), cost_beside(note), shortened(sentence, page.limits().sentence)));
  const Row* row = first_step(card);
  if (row == nullptr) return;
  const std::string step = text_of(row->lines.front());
  if (row->kind == Row::Kind::command || is_typed(row->lines.front())) return page.command("  " + row->label, step);
  page.paragraph(4, row->label + ": " + shortened(step, page.limits().sentence));
}

void print_notes(Page& page, const Section& section) {
  if (section.cards.empty()) return;
  if (section.id == Section::Id::left_out && !page.all()) return;  // findings without a visible cost
  page.heading(section.heading);
  const std::size_t end = std::min(section.cards.size(), page.limits().notes);
  for (std::size_t i = 0; i < end; ++i) print_note(page, section.cards[i]);
  const std::size_t more = section.cards.size() - end;
  if (more > 0) page.paragraph(2, counted(static_cast<double>(more), "more finding"));
}

/// `above` was printed last.
void print(Page& page, const Section& section, Section::Id& above, const Report& report) {
  using enum Section::Id;
  if (section.id == job) return print_job(page, section);
  if (!section.cards.empty()) above = section.id;
  if (section.id == notes || section.id == left_out) return print_notes(page, section);
  for (const Card& card : section.cards) print(page, card, report);
  if (std::none_of(section.parts.begin(), section.parts.end(),
                   [&](const Part& part) { return is_wanted(part, page); })) {
    return;
  }
  if (section.id == episodes || section.id == not_checked || section.id == happened) page.heading(section.heading);
  const bool follows =
      above == compared || above == each_node || above == locality || (above == totals && section.id == each_node);
  const bool separate = section.id == each_node || section.id == locality || section.id == measured ||
                        (section.id == totals && above != job);
  if (section.id == compared || (separate && !follows)) page.blank();
  print(page, section.parts);
  above = section.id;
}

std::string made_by(const Report& report) {
  return report.tool_version.empty() ? "" : " (reveal " + printable(report.tool_version, 40) + ")";
}

/// The next step after a run in which nothing was found: it may have been slower than another one. "" after others.
std::string comparison_with_faster_run(const Report& report, const std::string& directory) {
  const bool healthy = report.verdict.status == VerdictStatus::healthy && !report.verdict.job_failed;
  return healthy ? fmt::format("reveal compare FASTER_RUN {}", shell_word(directory)) : "";
}

constexpr const char* kIfSlow = "if slow";

void print_end(Page& page, const Report& report) {
  const std::string& typed = page.style().directory;
  if (typed.empty() && report.directory.empty()) return;
  page.blank();
  page.row("report", (typed.empty() ? report.directory + "/report.html" : page_path(typed)) + made_by(report));
  if (typed.empty()) return;
  const bool whole = page.style().part == TextPart::page || page.style().part == TextPart::everything;
  if (const std::string line = comparison_with_faster_run(report, typed); whole && !line.empty()) {
    page.command(kIfSlow, line);
  }
  page.command(page.all() ? "again" : "everything",
               fmt::format("reveal show {}{}", page.all() ? "" : "--all ", shell_word(typed)));
}

void print_episodes(Page& page, const std::vector<Section>& sections, const Report& report) {
  Section::Id above = Section::Id::job;
  for (const Section& section : sections) {
    if (section.id == Section::Id::episodes) print(page, section, above, report);
  }
  const bool judged = report.verdict.status != VerdictStatus::insufficient_data;
  if (report.episodes.empty()) {
    page.paragraph(0, judged ? "No interval differed from the rest of the run." : report.verdict.sentence);
  }
  if (const auto more = report.omitted.find("episodes"); more != report.omitted.end()) {
    page.paragraph(2, counted(more->second, "more interval") + " with less difference");
  }
  for (const AnomalousTime& time : report.anomalous) {
    if (time.by != AnomalousTime::By::subsystem) continue;
    page.row(time.name, fmt::format("{} in all ({} of all anomalous time)", duration(time.seconds),
                                    quantity(time.percent, "percent")));
  }
}

std::ptrdiff_t line_count(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n');
}

/// The longest beginning of a text that takes so many lines at most, the first of them behind `used` columns, the
/// others behind `indent`.
std::string fitted(const Page& page, const std::string& text, std::size_t used, std::size_t indent,
                   std::ptrdiff_t most) {
  std::string shown = text;
  // Words that wrap leave the ends of lines empty: less fits than there are columns.
  for (std::size_t room = columns(printable(text, kLongestLine)); room > 20; room -= 4) {
    shown = shortened(text, room);
    Page trial(TextStyle{.width = static_cast<int>(page.width())});
    trial.paragraph(std::string(used, ' '), used, indent, shown);
    if (line_count(std::move(trial).text()) <= most) break;
  }
  return shown;
}

/// The sentence in so many lines at most.
void print_brief_verdict(Page& page, const Report& report, std::ptrdiff_t most) {
  constexpr std::string_view kName = "reveal: ";
  const std::string word = capitals(headline(report.verdict));
  const std::string first = std::string(kName) + page.paint(word, ink_of(report.verdict)) + "  ";
  const std::size_t used = kName.size() + columns(word) + 2;
  page.paragraph(first, used, kName.size(), fitted(page, report.verdict.sentence, used, kName.size(), most));
}

/// The next step: a line to type that fits, else advice.
struct BriefStep {
  std::string_view label;
  std::string text;
  bool typed = false;
};

/// The first of these forms that fits, as it is typed or with its comment.
std::optional<BriefStep> brief_line(const Remedy& remedy, std::span<const LineForm> forms, bool with_comment,
                                    std::size_t room) {
  for (const LineForm form : forms) {
    for (const std::string& line : lines_with_form(remedy.user, form)) {
      const std::string shown = with_comment ? line : typed_line(line).command;
      if (columns(printable(shown)) <= room) return BriefStep{heading_of(form), shown, true};
    }
  }
  return std::nullopt;
}

BriefStep brief_step(const Remedy& remedy, std::size_t room) {
  constexpr LineForm kChanges[] = {LineForm::job_script, LineForm::before_program};
  constexpr LineForm kLooks[] = {LineForm::run_under, LineForm::look};
  if (const auto change = brief_line(remedy, kChanges, false, room)) return *change;
  if (!remedy.advice.empty()) return {"to change", remedy.advice.front()};
  if (only_admins_act(remedy)) return {"for you", std::string(kNothingForUsers)};
  if (const auto look = brief_line(remedy, kLooks, true, room)) return *look;  // its comment has the place and the time
  if (remedy.user.empty()) return {};
  return {only_shows(remedy.user) ? "look" : "to change", "a line too long for here: the command below prints it"};
}

/// A line to type is never cut, and advice takes two lines at most: a beginning such as "If the job..." is none.
void print_brief_step(Page& page, const BriefStep& step) {
  constexpr std::ptrdiff_t kMost = 2;
  constexpr std::size_t kColumn = kIndent + kLabel;
  step.typed ? page.command(step.label, step.text)
             : page.row(step.label, fitted(page, step.text, kColumn, kColumn, kMost));
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

/// "about 29 s (48 % of the run); cause likely"
std::string brief_cost(const Finding& finding, std::size_t room) {
  const std::string known = cost_words(finding.impact);
  const std::string cost = !known.empty() ? known : is_cost_unknown(finding.impact) ? "not known" : "none seen";
  const std::string whole = fmt::format("{}; {}", cost, certainty_words(finding));
  return columns(whole) <= room ? whole : cost;
}

/// The path of the page and the command that prints it; where there is room for one line only, the command.
void print_brief_places(Page& page, const std::string& directory, std::ptrdiff_t room) {
  const std::string again = fmt::format("  {:<{}}reveal show {}", "again", kLabel, shell_word(directory));
  const std::string path = page_path(directory);
  if (room > 1) {
    page.line(fmt::format("  {:<{}}{}", "report", kLabel, path));
    return page.line(again);
  }
  const std::string both = fmt::format("{}  # or {}", again, path);
  page.line(columns(both) <= page.width() ? both : again);
}

/// The lines below the sentence, if that takes two: the cost and how sure its cause is, the next step, the places.
std::string brief_end(const Report& report, const TextStyle& style, const std::string& directory) {
  constexpr std::ptrdiff_t kSentence = 2;
  Page page(style);
  const std::size_t room = page.width() - kIndent - kLabel;
  if (const auto shown = shown_findings(report); !shown.empty()) {
    page.row("cost", brief_cost(*shown.front(), room));
    print_brief_step(page, brief_step(shown.front()->remedy, room));
  } else {
    print_brief_totals(page, report);
    if (const std::string line = comparison_with_faster_run(report, directory); !line.empty()) {
      page.command(kIfSlow, line);
    }
  }
  std::string text = std::move(page).text();
  Page places(style);
  print_brief_places(places, directory, kBriefLines - kSentence - line_count(text));
  return text + std::move(places).text();
}

}  // namespace

std::string render_text(const Report& report, const TextStyle& style) {
  Page page(style);
  const std::vector<Section> sections = outline(report);
  if (style.part == TextPart::episodes) {
    print_job(page, sections.front());
    print_episodes(page, sections, report);
  } else if (style.part == TextPart::findings) {
    print_job(page, sections.front());
    for (const Section& section : sections) {
      for (const Card& card : section.cards) print(page, card, report);
    }
  } else {
    print_verdict(page, report);
    Section::Id above = Section::Id::job;
    for (const Section& section : sections) print(page, section, above, report);
  }
  print_end(page, report);
  return std::move(page).text();
}

std::string render_brief(const Report& report, const TextStyle& style) {
  Page page(style);
  const std::string& directory = style.directory.empty() ? report.directory : style.directory;
  if (report.verdict.status == VerdictStatus::insufficient_data) {
    const std::string where = " (reveal show " + shell_word(directory) + ")";
    constexpr std::size_t kLeastSentence = 100;
    const std::size_t taken = columns("reveal: ") + columns(where);
    const std::size_t room = page.width() > taken ? page.width() - taken : 0;
    page.line("reveal: " + shortened(report.verdict.sentence, std::max(room, kLeastSentence)) + where);
    return std::move(page).text();
  }
  const std::string end = brief_end(report, style, directory);
  print_brief_verdict(page, report, kBriefLines - line_count(end));
  return std::move(page).text() + end;
}

}  // namespace reveal
