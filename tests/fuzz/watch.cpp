// Data of the owner of a watched job: lines through srun, the collector's status, and what squeue lists.
#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "postproc/live/collector_status.h"
#include "postproc/live/queued_job.h"
#include "postproc/live/remote_node.h"
#include "postproc/live/step_lines.h"
#include "postproc/live/watch_view.h"
#include "target.h"

namespace reveal::fuzz::watch {
namespace {

bool is_inert(const std::string& text) {
  return text.find('\x1b') == std::string::npos && text.find('\n') == std::string::npos;
}

void take_lines(std::string_view input) {
  StepLineReader lines(2);
  RemoteNode node;
  RemoteNode::News news;
  const RemoteNode::Time now{std::chrono::hours(1)};
  for (const StepLineReader::Text& text : lines.take(input)) node.take(text.text, now, news);
  const WatchedJob job{.title = "job", .nodes = {node.view(now)}};
  const WatchPage page{
      .job = job, .alerts = news.alerts, .earlier = news.earlier, .now_utc_ns = 1'700'000'000'000'000'000};
  const std::vector<std::string> shown = draw_page(page, {});
  require(std::all_of(shown.begin(), shown.end(), is_inert), "no escape in a page");
  for (const AlertNotice& alert : news.alerts) {
    require(is_inert(alert_line(alert)), "no escape in an alert");
    static_cast<void>(alert_json(alert));
  }
  for (const EarlierInterval& interval : news.earlier) require(is_inert(words_of_earlier(interval)), "no escape");
}

void run(std::string_view input) {
  const std::string text(input);
  take_lines(input);
  take_lines("0 ." + text + "\n");
  try {
    static_cast<void>(parse_collector_status(text));
  } catch (const std::exception&) {
  }
  try {
    static_cast<void>(running_job("4711", parse_queue(text)));
  } catch (const Error& error) {
    require(is_inert(error.what()), "no escape in an error");
  }
  require(is_inert(words_of_slurm(text)), "no escape in the words of Slurm");
}

const RegisteredTarget kTarget{{"watch", run}};

}  // namespace
}  // namespace reveal::fuzz::watch
