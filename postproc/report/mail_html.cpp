#include "postproc/report/mail_html.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "hdf5schema/basics/shell_word.h"
#include "postproc/report/outline.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kMostNotesInMail = 3;
constexpr std::size_t kMostLines = 6;  // lines of one row
constexpr std::size_t kMostIntervals = 2;
constexpr std::size_t kLongestVerdict = 400;
constexpr std::size_t kLongText = 1200;
constexpr std::size_t kShortText = 300;
constexpr std::size_t kRoomForEnd = 6 << 10;

// The colours of report.css. Inline styles are those of a light page; a class exists where a dark one differs.
constexpr std::string_view kDarkStyle =
    "@media (prefers-color-scheme:dark){"
    ".page{background:#14171c!important;color:#e4e8ee!important}"
    ".quiet{color:#9aa5b5!important}"
    ".rule{border-color:#343b47!important}"
    ".code{background:#252b35!important;color:#e4e8ee!important}"
    ".good{background:#16291c!important;border-color:#5cc878!important}"
    ".warn{background:#2c2415!important;border-color:#e3a94a!important}"
    ".bad{background:#311b1a!important;border-color:#ff8a80!important}"
    ".plain{background:#1d2129!important;border-color:#9aa5b5!important}"
    ".plain-ink{color:#9aa5b5!important}.good-ink{color:#5cc878!important}.warn-ink{color:#e3a94a!important}.bad-ink{"
    "color:#ff8a80!important}}";

constexpr std::string_view kFont =
    "font-family:-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:15px;line-height:1.5;";
constexpr std::string_view kCodeFont = "font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:13px;";
constexpr std::string_view kQuietInk = "color:#5a6474;";
constexpr std::string_view kBreaks = "word-break:break-word;overflow-wrap:anywhere;";
constexpr std::string_view kLayout =
    "role=\"presentation\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\"";

struct Tone {
  std::string_view name, tint, ink;
};
constexpr Tone kGoodTone{"good", "#e9f6ec", "#1a7f37"};
constexpr Tone kWarnTone{"warn", "#fdf3e0", "#8f5a00"};
constexpr Tone kBadTone{"bad", "#fdecea", "#b42318"};
constexpr Tone kPlainTone{"plain", "#f5f6f8", "#5a6474"};

Tone tone_of(const Verdict& verdict) {
  if (verdict.job_failed && verdict.status == VerdictStatus::healthy) return kPlainTone;
  switch (verdict.status) {
    case VerdictStatus::healthy:
      return kGoodTone;
    case VerdictStatus::finding:
      return kBadTone;
    case VerdictStatus::notice:
    case VerdictStatus::insufficient_data:
      return kWarnTone;
  }
  return kPlainTone;
}

Tone tone_of(Severity severity) {
  return severity >= Severity::warning ? kBadTone : severity == Severity::notice ? kWarnTone : kPlainTone;
}

std::string inline_code(std::string_view text, std::size_t limit = kShortText) {
  const std::string shown = html(text, limit);
  return shown.empty() ? "" : fmt::format("<span style=\"{}{}\">{}</span>", kCodeFont, kBreaks, shown);
}

std::string marked_up(const Line& line, std::size_t limit) {
  std::string text;
  for (const Span& span : line) text += span.code ? inline_code(span.text, limit) : html(span.text, limit);
  return text;
}

/// A line to type: it wraps only where the window is narrower.
std::string typed_block(std::string_view line) {
  return fmt::format(
      "<div class=\"code\" style=\"{}background:#f0f2f5;padding:5px 9px;margin:2px 0;border-radius:4px;"
      "white-space:pre-wrap;{}\">{}</div>",
      kCodeFont, kBreaks, html(line, kLongText));
}

std::string in_quiet(std::string_view markup) {
  return fmt::format("<div class=\"quiet\" style=\"{}font-size:13px\">{}</div>", kQuietInk, markup);
}

std::string level_of(Severity severity, std::string_view level) {
  const Tone tone = tone_of(severity);
  return fmt::format(
      "<span class=\"{}-ink\" style=\"color:{};font-size:13px;font-weight:600;white-space:nowrap\">{}</span>",
      tone.name, tone.ink, html(level));
}

std::string title_line(std::string_view text) {
  return fmt::format("<h2 style=\"margin:0 0 4px;font-size:16px;line-height:1.35\">{}</h2>", text);
}

std::string capitalised(std::string_view label) {
  std::string text = html(label, 60);
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z' && label != "reveal") text[0] -= 'a' - 'A';
  return text;
}

std::string and_more(std::size_t left, const char* what) {
  return left == 0 ? ""
                   : in_quiet(counted(static_cast<double>(left), std::string("more ") + what) + " in the whole report");
}

/// An alternative belongs to the step before it.
void add_item(const std::string& item, bool instead, std::vector<std::string>& items) {
  if (instead && !items.empty()) {
    items.back() += in_quiet("or") + item;
  } else {
    items.push_back(item);
  }
}

std::string numbered(const std::vector<std::string>& items) {
  std::string text = "<ol style=\"margin:2px 0;padding-left:22px\">";
  for (const std::string& item : items) text += fmt::format("<li style=\"{}\">{}</li>", kBreaks, item);
  return text + "</ol>";
}

std::string value_of(const Row& row) {
  const std::size_t most = row.kind == Row::Kind::series ? kMostIntervals : kMostLines;
  const std::size_t end = std::min(row.lines.size(), most);
  std::string text;
  const bool steps = row.kind == Row::Kind::steps;
  if (steps && row.lines.size() > 1) {
    std::vector<std::string> items;
    for (std::size_t i = 0; i < end; ++i) {
      const Line& line = row.lines[i];
      add_item(is_typed(line) ? typed_block(text_of(line)) : marked_up(line, kLongText), is_alternative(row, i), items);
    }
    return numbered(items) + and_more(row.lines.size() - end, "step");
  }
  for (std::size_t i = 0; i < end; ++i) {
    if (is_alternative(row, i)) text += in_quiet("or");
    if (row.kind == Row::Kind::command || (steps && is_typed(row.lines[i]))) {
      text += typed_block(text_of(row.lines[i]));
    } else {
      text +=
          (text.empty() ? "" : "<br>") + marked_up(row.lines[i], row.kind == Row::Kind::aside ? kShortText : kLongText);
    }
  }
  return text + and_more(row.lines.size() - end, "line");
}

std::string pair_of(std::string_view label, std::string_view text) {
  return fmt::format(
      "<tr><td class=\"quiet\" valign=\"top\" style=\"{}font-size:13px;padding:3px 12px 3px 0;width:92px\">{}</td>"
      "<td valign=\"top\" style=\"padding:2px 0;{}\">{}</td></tr>\n",
      kQuietInk, capitalised(label), kBreaks, text);
}

/// "evidence: net.rx_bytes on n02: 61 MiB/s, expected 113 MiB/s"
std::string pairs_of(const Table& table) {
  const std::size_t end = std::min(table.rows.size(), table.most_on_page);
  std::string rows;
  for (std::size_t i = 0; i < end; ++i) {
    rows += pair_of(i == 0 ? table.label : "", html(row_as_sentence(table, table.rows[i], kPage), kShortText));
  }
  return rows;
}

/// The rows of one terminal page, and tables that are sentences there.
std::string pairs_of(const std::vector<Part>& parts) {
  std::string rows;
  for (const Part& part : parts) {
    if (const Row* row = std::get_if<Row>(&part); row != nullptr) {
      if ((row->shown & kPage) != 0) rows += pair_of(row->label, value_of(*row));
    } else if (const Table& table = std::get<Table>(part); (table.shown & kPage) != 0 && !table.grid) {
      rows += pairs_of(table);
    }
  }
  return rows.empty() ? "" : fmt::format("<table {}>\n{}</table>\n", kLayout, rows);
}

/// The labels are text, so that they are sharp, and dark on a light page.
std::string chart_of(const EvidencePicture& picture, std::string_view id) {
  const auto small = [](std::string_view align, std::string_view text) {
    return fmt::format("<td class=\"quiet\" align=\"{}\" style=\"{}font-size:12px;line-height:1.3\">{}</td>", align,
                       kQuietInk, html(text, 60));
  };
  const auto key = [](std::string_view style, std::string_view text) {
    return fmt::format(
        "<span style=\"display:inline-block;width:20px;height:0;vertical-align:middle;{}\"></span>&nbsp;{}&ensp; ",
        style, text);
  };
  std::string keys = key("border-top:3px solid #2d7dd2", inline_code(picture.channel, 120));
  if (!picture.expected.empty()) keys += key("border-top:3px dashed #b07a28", "expected " + html(picture.expected, 60));
  if (!picture.band.empty()) keys += key("border-top:10px solid #e8b868", html(picture.band, 90));
  return fmt::format(
      "<table {0} style=\"margin:10px 0 8px\">\n"
      "<tr><td colspan=\"2\" style=\"font-size:12px;padding-bottom:4px\">{1}</td></tr>\n"
      "<tr>{2}</tr>\n"
      "<tr><td colspan=\"2\"><img src=\"cid:{3}\" width=\"{4}\" height=\"{5}\" alt=\"{6}\" "
      "style=\"display:block;width:100%;height:{5}px;border:0\"></td></tr>\n"
      "<tr>{7}{8}</tr>\n</table>\n",
      kLayout, keys, small("left", picture.top) + small("right", ""), id, picture.width, picture.height,
      html(picture.words, 400), small("left", picture.bottom + ", " + picture.begin), small("right", picture.end));
}

/// Blocks below each other, as many as fit; the end always does.
class MailPage {
 public:
  explicit MailPage(std::string head) : text_(std::move(head)) {}

  void block(const std::string& inside, std::string_view cell = "padding:10px 0") {
    if (inside.empty() || cut_) return;
    if (text_.size() + inside.size() + kRoomForEnd > kLargestMailHtml) {
      cut_ = true;
      return;
    }
    text_ += fmt::format("<tr><td style=\"{}\">{}</td></tr>\n", cell, inside);
  }
  void ruled(const std::string& inside) {
    if (inside.empty()) return;
    block(
        fmt::format("<table {}><tr><td class=\"rule\" style=\"border-top:1px solid #d9dde4;padding-top:12px\">{}</td>"
                    "</tr></table>",
                    kLayout, inside));
  }
  void raw(std::string_view rows) { text_ += rows; }
  [[nodiscard]] bool cut() const { return cut_; }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::string text_;
  bool cut_ = false;
};

std::string head_of(const Report& report) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\"><meta name=\"supported-color-schemes\" content=\"light "
      "dark\">\n<title>{}</title>\n<style>{}</style></head>\n"
      "<body class=\"page\" style=\"margin:0;padding:0;background:#ffffff\">\n"
      "<table class=\"page\" {} style=\"background:#ffffff\"><tr><td style=\"padding:12px\">\n"
      "<table class=\"page\" {} style=\"max-width:640px;color:#1c2330;{}\">\n",
      html(job_title(report.job), 120), kDarkStyle, kLayout, kLayout, kFont);
}

std::string verdict_rows(const Report& report) {
  const Tone tone = tone_of(report.verdict);
  return fmt::format(
      "<tr><td class=\"{0}\" style=\"background:{1};border-left:5px solid {2};padding:12px 16px\">"
      "<div class=\"{0}-ink\" style=\"color:{2};font-size:12px;font-weight:700;letter-spacing:.06em;"
      "text-transform:uppercase\">{3}</div>"
      "<h1 style=\"margin:2px 0 0;font-size:19px;line-height:1.35;font-weight:600\">{4}</h1></td></tr>\n",
      tone.name, tone.tint, tone.ink, headline(report.verdict), html(report.verdict.sentence, kLongestVerdict));
}

std::string job_line(const Section& section) {
  std::string text;
  for (const Part& part : section.parts) {
    const Row& row = std::get<Row>(part);
    if ((row.shown & kPage) == 0) continue;
    const std::string label = row.label.empty() || row.label == "tag" ? "" : row.label + " ";
    const std::string words = html(label + joined(row.lines, ", "), 180);
    text += text.empty() ? "<b>" + words + "</b>" : " &middot; " + words;
  }
  return in_quiet(text);
}

std::string action_block(const MailAction& one) {
  std::string text = title_line(html(one.title, 200)) + level_of(one.severity, one.level);
  if (!one.where.empty()) text += in_quiet(html(one.where, 600));
  text += "<p style=\"margin:6px 0\">" + html(one.sentence, kLongText) + "</p>";
  const std::size_t end = std::min(one.steps.size(), kMostLines);
  std::vector<std::string> items;
  for (std::size_t i = 0; i < end; ++i) {
    const RemedyStep& step = one.steps[i];
    add_item(form_of(step.text) == LineForm::prose ? html(step.text, 800) : typed_block(step.text),
             step.kind == StepKind::alternative, items);
  }
  return text + numbered(items) + and_more(one.steps.size() - end, "step");
}

void add_actions(const MailHtml& mail, MailPage& page) {
  if (mail.actions.empty()) return;
  page.block("<b>" + html(mail.heading, 200) + "</b>");
  for (const MailAction& action : mail.actions) page.ruled(action_block(action));
  page.block(in_quiet(html(mail.left_out)) + in_quiet(html(mail.caution)));
}

std::string row_of(const MailTasks::Row& row) {
  const auto cell = [](std::string_view style, std::string_view text) {
    return fmt::format("<td valign=\"top\" style=\"padding:3px 12px 3px 0;{}\">{}</td>", style, text);
  };
  return "<tr>" + cell("white-space:nowrap", html(row.task, 20)) +
         cell(kBreaks, html(row.result, 120) + (row.command.empty() ? "" : "<br>" + inline_code(row.command, 600))) +
         cell("", html(row.cost, 80)) + "</tr>\n";
}

void add_tasks(const MailTasks& tasks, MailPage& page) {
  if (tasks.rows.empty()) return;
  const auto head = [](std::string_view text) {
    return fmt::format("<td class=\"quiet\" style=\"{}font-size:13px;padding-right:12px\">{}</td>", kQuietInk, text);
  };
  std::string rows;
  for (const MailTasks::Row& row : tasks.rows) rows += row_of(row);
  page.block(title_line(html(tasks.heading, 200)) +
             fmt::format("<table {}>\n<tr>{}{}{}</tr>\n{}</table>\n", kLayout, head("Task"), head("Result"),
                         head("Lost"), rows) +
             in_quiet(html(tasks.left_out + (tasks.left_out.empty() ? "" : " ") + tasks.follows, 300)));
}

std::string card_of(const Card& card, const Report& report, const MailHtml& mail) {
  const Finding& finding = *card.finding;
  std::string text = title_line(html(finding.title, 200)) + level_of(finding.severity, level_words(finding));
  const bool read_above = std::any_of(mail.actions.begin(), mail.actions.end(),
                                      [&](const MailAction& action) { return action.sentence == finding.sentence; });
  const Verdict& verdict = report.verdict;
  const bool in_verdict = verdict.sentence.size() <= kLongestVerdict && repeats(verdict, finding.sentence);
  if (!read_above && !in_verdict) {
    text += "<p style=\"margin:6px 0\">" + html(told(finding), kLongText) + "</p>";
  }
  if (mail.picture) text += chart_of(*mail.picture, mail.picture_id);
  auto parts = card.parts;
  if (!mail.directory.empty()) {
    const auto line = [](std::string words) { return std::vector<Line>{Line{Span{std::move(words), false}}}; };
    parts.emplace_back(Row{"verify",
                           line("run the job again with the change; " + expected_of_comparison(finding) + ":"),
                           Row::Kind::prose});
    parts.emplace_back(Row{"", line("reveal compare " + shell_word(mail.directory) + " NEXT_RUN"), Row::Kind::command});
  }
  return text + pairs_of(parts);
}

/// Place and cause, and the first step.
std::string note_of(const Card& card) {
  const Finding& note = *card.finding;
  const std::string& what = note.sentence.empty() ? note.title : note.sentence;
  const bool says_where = names_place(*card.finding, what);
  std::string text = level_of(note.severity, level_words(note)) + html(cost_beside(note)) + "<br>" +
                     html((says_where ? "" : card.place + ": ") + what, kShortText);
  const Row* row = first_step(card);
  if (row == nullptr) return text;
  const std::string step = text_of(row->lines.front());
  // A command without its label could be taken for one that the reader is to type.
  const bool typed = row->kind == Row::Kind::command || is_typed(row->lines.front());
  return text + (typed ? in_quiet(capitalised(row->label) + ":") + typed_block(step)
                       : in_quiet(capitalised(row->label) + ": " + html(step, kShortText)));
}

void add_notes(const Section& section, MailPage& page) {
  if (section.cards.empty()) return;
  const std::size_t end = std::min(section.cards.size(), kMostNotesInMail);
  page.ruled(title_line(html(section.heading)));
  for (std::size_t i = 0; i < end; ++i) page.block(note_of(section.cards[i]), "padding:2px 0 10px");
  page.block(and_more(section.cards.size() - end, "finding"), "padding:0 0 10px");
}

std::string ending(const Report& report, const MailHtml& mail, bool cut) {
  std::string text;
  if (cut) text += "<br>This mail is shortened; the whole report has the rest.";
  if (!mail.directory.empty()) {
    text += "<br>Everything: " + inline_code("reveal show --all " + shell_word(mail.directory), 600);
  }
  for (const std::string& sentence : mail.closing) text += "<br>" + html(sentence, 400);
  const std::string by = report.tool_version.empty() ? "reveal" : "reveal " + html(report.tool_version, 40);
  return fmt::format(
      "<tr><td style=\"padding:10px 0\"><table {}><tr><td class=\"rule quiet\" style=\"{}font-size:13px;border-top:1px "
      "solid "
      "#d9dde4;padding-top:10px\">{}{}</td></tr></table></td></tr>\n</table>\n</td></tr></table>\n</body></html>\n",
      kLayout, kQuietInk, by, text);
}

}  // namespace

std::string render_mail_html(const Report& report, const MailHtml& mail) {
  using enum Section::Id;
  MailPage page(head_of(report));
  add_actions(mail, page);
  add_tasks(mail.tasks, page);
  page.raw(verdict_rows(report));
  std::string measured_rows;
  for (const Section& section : outline(report)) {
    if (section.id == job) page.block(job_line(section));
    if (section.id == finding && !section.cards.empty()) page.ruled(card_of(section.cards.front(), report, mail));
    if (section.id == notes) add_notes(section, page);
    if (section.id == totals || section.id == compared || section.id == measured)
      measured_rows += pairs_of(section.parts);
  }
  page.ruled(measured_rows);
  page.raw(ending(report, mail, page.cut()));
  return std::move(page).text();
}

}  // namespace reveal
