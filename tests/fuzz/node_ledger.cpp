// Lines of the administrators' ledger, and the reports that they are made of: a job's user writes both, and the names
// in them end in a command that an administrator may type.
#include <limits>

#include "hdf5schema/basics/delivery_times.h"
#include "hdf5schema/basics/error.h"
#include "postproc/compare/backtest.h"
#include "postproc/ledger/local_ledger.h"
#include "postproc/ledger/node_ranking.h"
#include "target.h"

namespace reveal::fuzz::node_ledger {
namespace {

constexpr std::int64_t kLater = std::numeric_limits<std::int64_t>::max();

void run_ledger(std::string_view input) {
  std::vector<LedgerLine> lines = parse_ledger(input, kLater).lines;
  require(parse_ledger(render_ledger(lines), kLater).refused == 0, "a line that was accepted is accepted again");
  for (const LedgerLine& line : lines_of_job(input, {.number = "4711", .nodes = {"n1"}, .owner = "abc"}, kLater)) {
    require(line.job == "4711" && line.node == "n1" && line.owner == "abc", "a line is about its own job");
  }
  try {
    for (LedgerLine& line : ledger_lines(std::string(input))) lines.push_back(std::move(line));
  } catch (const Error&) {
  }
  const NodeRanking ranking = rank_nodes(lines, {.agree = 1, .own = ""});
  static_cast<void>(ranking_as_json(ranking));
  for (const char c : ranking_as_text(ranking, 20, {})) {
    require(c == '\n' || (c >= ' ' && c <= '~' && c != '$' && c != '`' && c != '|' && c != '<'), "a harmless page");
  }
  const DeliveryPaces paces = DeliveryTimes::of_text(input, kLater).paces_of(1000);
  for (const double pace : {paces.analysis, paces.merge}) {
    require(pace >= 1 / kLargestPace && pace <= kLargestPace, "no text makes a node absurdly fast or slow");
  }
  try {
    const Backtest backtest{.changes = {}, .jobs = {parse_backtested(std::string(input))}, .totals = {}};
    require(backtest_as_text(backtest, {}).find('\x1b') == std::string::npos, "no escape reaches the terminal");
  } catch (const Error&) {
  }
}

const RegisteredTarget kLedgerTarget{{"node_ledger", run_ledger}};

}  // namespace
}  // namespace reveal::fuzz::node_ledger
