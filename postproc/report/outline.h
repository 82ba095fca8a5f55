// The content of a report, in the order in which it is read. The text page and the HTML page lay the same outline out,
// so an addition here is on both.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "postproc/report/report.h"
#include "postproc/words/remedy_lines.h"

namespace reveal {

/// Where a part of the outline is shown.
enum Shown : unsigned {
  kPage = 1,                     // one terminal page
  kAll = 2,                      // everything, on a terminal
  kWeb = 4,                      // HTML
  kText = kPage | kAll,          //
  kInFull = kAll | kWeb,         //
  kEverywhere = kPage | kInFull  //
};

struct Span {
  std::string text;
  bool code = false;  // a name of the machine's, or something to type
};
using Line = std::vector<Span>;

struct Row {
  enum class Kind : unsigned char {
    prose,
    aside,    // a page may cut it
    series,   // short texts after one another
    list,     // sentences, one below the other
    steps,    // to be done in this order: sentences, and lines to type, which are code
    command,  // lines to type that belong together, but for alternatives
    links,
  };
  std::string label;
  std::vector<Line> lines;
  Kind kind = Kind::prose;
  Shown shown = kEverywhere;
  std::vector<StepKind> kinds = {};  // relations of lines to those before them; empty: no line is an alternative
};

struct Column {
  std::string heading;
  Shown shown = kEverywhere;
  int width = 0;  // width of a grid's column on a terminal
};

struct Cell {
  std::vector<Line> lines;
  // On a terminal, where a table is no grid, its rows are sentences: text before and after the cell's.
  std::string before = {}, after = {};
  std::string fold = {};  // title of the part that HTML folds away
  std::vector<Line> folded = {};
  std::optional<double> share = {};  // share of the largest value beside it: HTML draws a bar
  std::vector<double> course = {};   // values over the job: a terminal draws it where the line has room
};

struct Table {
  std::string label;    // label of its sentences; "-": they are a list
  std::string caption;  // in HTML
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string more;  // "node": the name of more rows
  std::size_t most_on_page = 0;
  std::size_t most = 0;       // elsewhere
  std::size_t left_out = 0;   // before it came here
  std::string fold = {};      // HTML folds a long table away under this title
  bool grid = false;          // on a terminal
  Shown shown = kEverywhere;  //
};

using Part = std::variant<Row, Table>;

/// A finding.
struct Card {
  const Finding* finding = nullptr;
  std::size_t number = 0;  // 0: none
  std::string place;
  std::vector<Part> parts = {};
};

/// The text has the names of its nodes and instances.
[[nodiscard]] bool names_place(const Finding& finding, std::string_view text);

struct Section {
  enum class Id : unsigned char {
    job,
    totals,
    sources,
    finding,
    notes,
    left_out,
    compared,
    each_node,
    locality,
    happened,
    episodes,
    measured,
    cost,
    not_checked
  };
  Id id = Id::job;
  std::string heading;
  bool folded = false;  // in HTML
  std::vector<Part> parts = {};
  std::vector<Card> cards = {};
};

[[nodiscard]] std::vector<Section> outline(const Report& report);

[[nodiscard]] std::string text_of(const Line& line);
/// A line of steps that is typed.
[[nodiscard]] bool is_typed(const Line& line);
/// The marks before the lines of a row: "1", "2", "or".
[[nodiscard]] std::vector<std::string> marks_of(const Row& row);
[[nodiscard]] bool is_alternative(const Row& row, std::size_t line);
/// The row that begins with the first step of a card. Null: it has none.
[[nodiscard]] const Row* first_step(const Card& card);
[[nodiscard]] std::string joined(const std::vector<Line>& lines, std::string_view separator);
/// A row of a table that is no grid, from those of its columns that are shown.
[[nodiscard]] std::string row_as_sentence(const Table& table, const std::vector<Cell>& cells, unsigned shown);
/// Whether the verdict has this sentence already; it may continue, or end, otherwise.
[[nodiscard]] bool repeats(const Verdict& verdict, std::string_view sentence);

}  // namespace reveal
