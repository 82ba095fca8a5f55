#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/host_name.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/mail/site_mailer.h"

namespace reveal {
namespace {

constexpr ConfinedLimits kReadingOneMail{
    .answer = std::size_t{128} << 20, .cpu = std::chrono::seconds(20), .time = std::chrono::seconds(120)};

class Mailer final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    app.add_option("--textfile", textfile_,
                   "write counters for node_exporter's textfile collector: reports, mails, failures, findings by rule")
        ->type_name("FILE");
    app.add_option("--config", common.config, "read this reveal.conf instead of the site's")->type_name("FILE");
    app.add_flag("--dry-run", mailer_.dry_run, "send and delete nothing; print recipients and subjects");
    app.add_flag("--verbose", verbose_, "print the mails sent, and the reasons for mails not sent");
  }

  int run(const CommonOptions& common) override {
    if (::geteuid() == 0 && !mailer_.dry_run) {
      throw Error("reveal does not send mail as root: call it as the account that owns [mail] mailer_spool");
    }
    const Config config = common.configuration(ConfigOwner::site);
    std::vector<std::string> problems = config.problems_of({"mail"});
    const MailSettings settings = mail_settings(config, problems);
    for (const std::string& problem : problems) complain(problem);
    mailer_.host = host_name();
    mailer_.now_utc_ns = utc_now_ns();
    mailer_.confined = [](const std::filesystem::path& file, const std::function<std::string()>& work) {
      return query_confined(file, kReadingOneMail, work);
    };
    const SiteMailerOutcome outcome = run_site_mailer(mailer_, settings);
    if (!outcome.metrics.empty()) write_beside(textfile_, outcome.metrics);
    return print_outcome(outcome.mails, common);
  }

 private:
  [[nodiscard]] int print_outcome(const MailOutcome& outcome, const CommonOptions& common) const {
    if (common.json) {
      print(outcome_as_json(outcome));
    } else if (verbose_ || mailer_.dry_run || prints_on_terminal()) {
      print(outcome_as_text(outcome));
    }
    for (const std::string& problem : outcome.problems) complain(problem);
    if (const std::string failure = failure_line(outcome); !failure.empty()) complain(failure);
    return outcome.failed ? kFailure : 0;
  }

  SiteMailer mailer_;
  std::string textfile_;
  bool verbose_ = false;
};

const RegisteredCommand kMailerCommand{
    {.order = 71,
     .name = "mailer",
     .help = "Send the mails that the jobs of all nodes left in the site's spool (for administrators)",
     .examples =
         "  reveal mailer --dry-run                    the mails that wait, and their recipients\n"
         "  reveal mailer --textfile mailer.prom       send them; counters for Prometheus\n"
         "One host calls it every few minutes, as the account that owns the spool (reveal-mailer.timer, or a\n"
         "job). It needs mailer_spool in section [mail] of /etc/reveal/reveal.conf: with it, the end of a job\n"
         "sends no mail, but leaves its report there. Users get the same mails as without a mailer, but\n"
         "where [mail] sets a domain only at its addresses. The administrators get one mail about the findings\n"
         "of all jobs: a rule on a node is one line in it, with the number of jobs and users, the first and the\n"
         "last time, and the lost time. A mail that the mail program does not take is tried again for three\n"
         "days, and for longer while it takes none. Exit status 1: a mail could not be sent.\n",
     .make = make_command<Mailer>}};

}  // namespace
}  // namespace reveal
