#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/host_name.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/mail/mail_job.h"
#include "postproc/mail/mail_quota.h"

namespace reveal {
namespace {

/// The site's file only: a user's own would choose the recipients of mail in the site's name.
MailSettings settings_of_site(const CommonOptions& common) {
  const Config config = common.configuration(ConfigOwner::site);
  std::vector<std::string> problems = config.problems_of({"mail"});
  MailSettings settings = mail_settings(config, problems);
  for (const std::string& problem : problems) complain(problem);
  return settings;
}

std::string help_of_settings() {
  const Config defaults;
  std::string text;
  for (const ConfigKey& key : kConfigKeys) {
    if (key.section != config_key("mail", "enabled").section) continue;
    text += "  " + std::string(key.key) + " = " + written(key, defaults.list(key)) + "\n      " +
            std::string(key.help) + "\n";
  }
  return text;
}

class Mail final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    app.footer(app.get_footer() + help_of_settings());
    add_job_directory(app, directory_);
    app.add_option("--to", job_.request.asked, "the user's request: an address of this site, yes or off")
        ->type_name("ADDR");
    app.add_option("--mail-user", job_.request.mail_user, "the address given to Slurm for the job")->type_name("ADDR");
    app.add_option("--user", job_.request.user, "owner of the job (default: the current user)")->type_name("NAME");
    app.add_option("--array", job_.array, "number of the array job: one mail for all its tasks")
        ->check([](const std::string& text) {
          return is_array_id(text.substr(0, text.find('_'))) ? std::string() : "\"" + text + "\" is no number";
        })
        ->type_name("ID");
    app.add_option("--state", job_.state, "directory for the count of mails; without it, mails are not counted")
        ->type_name("DIR");
    app.add_option("--config", common.config, "read this reveal.conf instead of the site's")->type_name("FILE");
    app.add_flag("--dry-run", job_.dry_run,
                 "send nothing; print the mails, their recipients and the reasons; with --verbose also the text");
    app.add_flag("--verbose", verbose_, "print the mails sent, their recipients, and the reasons for mails not sent");
  }

  int run(const CommonOptions& common) override {
    // Root would start a program for what the job's user wrote.
    if (is_root() && !job_.dry_run) {
      throw Error(
          "reveal does not send mail as root: Slurm's epilog sends a job's mail as its user; here, use su to become "
          "that user first");
    }
    job_.directory = job_directory(directory_);
    job_.array = job_.array.substr(0, job_.array.find('_'));
    const passwd* user = ::getpwuid(owner_of_job());
    if (job_.request.user.empty() && user != nullptr) job_.request.user = user->pw_name;
    job_.host = host_name();
    job_.now_utc_ns = utc_now_ns();
    const MailOutcome outcome = mail_job(job_, settings_of_site(common));
    if (common.json) {
      print(outcome_as_json(outcome));
    } else if (verbose_ || job_.dry_run || ::isatty(STDOUT_FILENO) == 1) {
      print(outcome_as_text(outcome, verbose_ && job_.dry_run ? MailText::shown : MailText::left_out));
    }
    for (const std::string& problem : outcome.problems) complain(problem);
    if (const std::string failure = failure_line(outcome); !failure.empty()) complain(failure);
    return outcome.failed ? kFailure : 0;
  }

  [[nodiscard]] Inputs inputs() const override {
    Inputs inputs;
    if (is_root() && job_.dry_run) inputs.paths.emplace_back(job_directory(directory_));
    return inputs;
  }

 private:
  [[nodiscard]] static bool is_root() { return ::geteuid() == 0; }

  /// The caller, or if root only looks, the user whose mail it would be.
  [[nodiscard]] uid_t owner_of_job() const {
    struct stat status {};
    return is_root() && ::stat(job_.directory.c_str(), &status) == 0 ? status.st_uid : ::geteuid();
  }

  MailJob job_;
  std::string directory_;
  bool verbose_ = false;
};

const RegisteredCommand kMailCommand{
    {.order = 70,
     .name = "mail",
     .help = "Send a job's report to its user and to the administrators",
     .examples =
         "  reveal mail reveal-4711 --dry-run              print the mails, recipients and reasons\n"
         "  reveal mail reveal-4711 --to ada@example.org   also if nothing was found\n"
         "Root can use --dry-run only: mails are sent as the job's user or a mailer account. It sends nothing unless\n"
         "section [mail] of /etc/reveal/reveal.conf enables it. The keys of that section:\n",
     .make = make_command<Mail>}};

}  // namespace
}  // namespace reveal
