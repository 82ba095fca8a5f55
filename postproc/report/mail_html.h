// The report as the HTML part of a mail: the content of one terminal page, in tables with inline styles, because mail
// programs drop scripts, most of a style sheet and everything that they would have to fetch.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "postproc/report/evidence_picture.h"
#include "postproc/report/report.h"
#include "postproc/words/remedy_lines.h"

namespace reveal {

/// Some mail programs cut a longer part off (Gmail at 102 KB).
inline constexpr std::size_t kLargestMailHtml = std::size_t{60} << 10;

/// A finding that the reader of a mail is to act on.
struct MailAction {
  std::string title;
  Severity severity = Severity::notice;
  std::string level;  // "warning, cause likely"
  std::string where, sentence;
  std::vector<RemedyStep> steps;
};

/// The tasks of an array job, of which the report of the first follows.
struct MailTasks {
  struct Row {
    std::string task, result, cost;
    std::string command;  // shows its report; "" if its place cannot be typed
  };
  std::string heading;
  std::vector<Row> rows;  // empty: the mail is about one job
  std::string left_out;   // "2 more tasks ..."; "" where there are no more
  std::string follows;    // the sentence between the table and the report
};

struct MailHtml {
  std::string heading;               // above the actions
  std::vector<MailAction> actions;   // before everything else; empty: none
  std::string left_out;              // "3 more findings ..."; "" where there are no more
  std::string caution;               // below the actions
  MailTasks tasks;                   // before the report
  std::vector<std::string> closing;  // sentences at the end
  std::string directory;             // directory of the job, as the reader would type it; "" if the reader has none
  std::optional<EvidencePicture> picture;
  std::string picture_id;  // id of the part with the picture, in the same mail
};

[[nodiscard]] std::string render_mail_html(const Report& report, const MailHtml& mail);

}  // namespace reveal
