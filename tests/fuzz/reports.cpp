// JSON that was written by reveal, or by any user who can write to a job directory.
#include "hdf5schema/basics/error.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/analysis/packed_fields.h"
#include "postproc/analysis/summary_fields.h"
#include "postproc/compare/comparison_page.h"
#include "postproc/history/run_record.h"
#include "postproc/report/fields.h"
#include "postproc/report/narrowed.h"
#include "postproc/report/node_entries.h"
#include "postproc/report/report.h"
#include "postproc/words/sanitize.h"
#include "target.h"

namespace reveal::fuzz::reports {
namespace {

std::string entries_about(std::string_view node, std::string_view input, std::size_t piece) {
  NodeEntries entries{std::string(node)};
  for (std::size_t at = 0; at < input.size(); at += piece) entries.add(input.substr(at, piece));
  return entries.take();
}

void run_on_one_node(std::string_view input) {
  const std::string entries = entries_about("n1", input, input.size() + 1);
  require(entries.size() <= input.size(), "entries of one node are not more than those of all");
  require(entries_about("n1", input, 3) == entries, "the entries are the same in pieces");
  try {
    Report report = parse_report(entries);
    narrow_to_node(report, "n1");
  } catch (const Error&) {
  }
}

void run(std::string_view input) {
  run_on_one_node(input);
  const std::string json(input);
  try {
    const Report report = parse_report(json);
    static_cast<void>(render_text(report));
    static_cast<void>(render_text(report, {.part = TextPart::everything}));
    static_cast<void>(render_brief(report));
    static_cast<void>(render_html(report));
    static_cast<void>(parse_report(render_json(report)));
    const JobComparison comparison = compare_jobs({{"before", Report{}}}, {{"after", report}});
    require(comparison_as_text(comparison, {}).find('\x1b') == std::string::npos, "no escape in a comparison");
    static_cast<void>(comparison_as_json(comparison));
  } catch (const Error&) {
  }
  try {
    static_cast<void>(render_summary(parse_summary(json)));
  } catch (const Error&) {
  }
  try {
    PackedTexts texts(input.substr(input.size() / 2));
    PackedReader reader(input.substr(0, input.size() / 2), texts, kLargestSummary);
    NodeSummary summary;
    reader.get(summary);
    static_cast<void>(render_summary(std::move(summary)));
  } catch (const Error&) {
  }
  try {
    static_cast<void>(render_run(parse_run(json)));
  } catch (const Error&) {
  }
  const std::string shown = printable(input);
  require(shown.find('\x1b') == std::string::npos, "no escape reaches the terminal");
  const std::string page = html(input);
  require(page.find('<') == std::string::npos && page.find('"') == std::string::npos, "no tag reaches the page");
  static_cast<void>(columns(input));
}

const RegisteredTarget kTarget{{"reports", run}};

}  // namespace
}  // namespace reveal::fuzz::reports
