#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/host_name.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/deliver/array_end.h"
#include "postproc/mail/mail_job.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/mail/mail_retry.h"

namespace reveal {
namespace {

constexpr const char* kMailSpool = "/var/spool/reveal/mail";  // unless the plugin's line sets another spool
constexpr std::chrono::seconds kOtherTasks{30};               // until the epilogs of an array's tasks have ended

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

/// Directories of job_end.cpp with the mails of a user: for each cluster, and on this node, for the time when the home
/// directory could not be written.
std::vector<std::string> mail_states_of(const passwd* user) {
  std::vector<std::string> states;
  if (user == nullptr) return states;
  const std::filesystem::path of_node = std::filesystem::path(kMailSpool) / std::to_string(user->pw_uid);
  std::error_code error;
  if (std::filesystem::is_directory(of_node, error)) states.push_back(of_node.string());
  std::filesystem::directory_iterator entry(std::filesystem::path(user->pw_dir) / kMailStates, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (entry->symlink_status(error).type() == std::filesystem::file_type::directory) {
      states.push_back(entry->path().string());
    }
  }
  return states;
}

class Mail final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    app.footer(app.get_footer() + help_of_settings());
    CLI::Option* directory = app.add_option("dir", directory_, "the job's directory; needed without --retry");
    directory->type_name("DIR");
    // A report job sets the variables: every user of its node can read a command line.
    app.add_option("--to", job_.request.asked, "the user's request: an address of this site, yes or off")
        ->envname("REVEAL_MAIL_TO")
        ->type_name("ADDR");
    app.add_option("--mail-user", job_.request.mail_user, "the address given to Slurm for the job")
        ->envname("REVEAL_MAIL_USER")
        ->type_name("ADDR");
    app.add_option("--user", job_.request.user, "owner of the job (default: the current user)")->type_name("NAME");
    app.add_option("--array", job_.array, "number of the array job: one mail for all its tasks")
        ->check([](const std::string& text) {
          return is_array_id(text.substr(0, text.find('_'))) ? std::string() : "\"" + text + "\" is no number";
        })
        ->type_name("ID");
    app.add_option("--state", job_.state,
                   "directory for the count of mails, and for mails that failed and are tried again; without it, there "
                   "is neither (with --retry: the user's own)")
        ->type_name("DIR");
    CLI::Option* retry = app.add_flag("--retry", retry_, "send the mails that could not be sent before, of any job");
    retry->excludes(directory);
    app.parse_complete_callback([this] {
      if (!retry_ && directory_.empty()) throw CLI::RequiredError("dir");
    });
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
    if (retry_) return send_again(common);
    job_.directory = job_directory(directory_);
    job_.array = job_.array.substr(0, job_.array.find('_'));
    const passwd* user = ::getpwuid(owner_of_job());
    if (job_.request.user.empty() && user != nullptr) job_.request.user = user->pw_name;
    job_.host = host_name();
    job_.now_utc_ns = utc_now_ns();
    job_.array_state = array_state_of();
    return print_outcome(mail_job(job_, settings_of_site(common)), common);
  }

  [[nodiscard]] Inputs inputs() const override {
    Inputs inputs;
    if (is_root() && job_.dry_run && !retry_) inputs.paths.emplace_back(job_directory(directory_));
    return inputs;
  }

 private:
  static ArrayStateOf array_state_of() {
    return [](const std::string& array) { return array_state_in_slurm(array, "", kOtherTasks); };
  }

  [[nodiscard]] static bool is_root() { return ::geteuid() == 0; }

  /// The caller, or if root only looks, the user whose mail it would be.
  [[nodiscard]] uid_t owner_of_job() const {
    struct stat status {};
    return is_root() && ::stat(job_.directory.c_str(), &status) == 0 ? status.st_uid : ::geteuid();
  }

  [[nodiscard]] int send_again(const CommonOptions& common) const {
    const MailSettings settings = settings_of_site(common);
    const std::vector<std::string> states =
        job_.state.empty() ? mail_states_of(::getpwuid(::geteuid())) : std::vector{job_.state};
    MailOutcome all;
    for (const std::string& state : states) {
      MailOutcome one = retry_mails({.state = state,
                                     .which = RetryMails::all,
                                     .dry_run = job_.dry_run,
                                     .array_state = array_state_of(),
                                     .host = host_name(),
                                     .now_utc_ns = utc_now_ns()},
                                    settings);
      std::move(one.items.begin(), one.items.end(), std::back_inserter(all.items));
      std::move(one.problems.begin(), one.problems.end(), std::back_inserter(all.problems));
      all.why_not = one.why_not;
      all.failed = all.failed || one.failed;
    }
    if (all.items.empty() && all.why_not.empty()) all.why_not.emplace_back("no mail waits");
    return print_outcome(all, common);
  }

  [[nodiscard]] int print_outcome(const MailOutcome& outcome, const CommonOptions& common) const {
    if (common.json) {
      print(outcome_as_json(outcome));
    } else if (verbose_ || job_.dry_run || ::isatty(STDOUT_FILENO) == 1) {
      print(outcome_as_text(outcome, verbose_ && job_.dry_run ? MailText::shown : MailText::left_out));
    }
    for (const std::string& problem : outcome.problems) complain(problem);
    if (const std::string failure = failure_line(outcome); !failure.empty()) complain(failure);
    return outcome.failed ? kFailure : 0;
  }

  MailJob job_;
  std::string directory_;
  bool verbose_ = false, retry_ = false;
};

const RegisteredCommand kMailCommand{
    {.order = 70,
     .name = "mail",
     .help = "Send a job's report to its user and to the administrators",
     .examples = "  reveal mail reveal-4711 --dry-run              print the mails, recipients and reasons\n"
                 "  reveal mail reveal-4711 --to ada@example.org   also if nothing was found\n"
                 "  reveal mail --retry                            send mails that could not be sent before\n"
                 "Root can use --dry-run only: mails are sent as the job's user or a mailer account. It sends "
                 "nothing unless\nsection [mail] of /etc/reveal/reveal.conf enables it. The keys of that section:\n",
     .make = make_command<Mail>}};

}  // namespace
}  // namespace reveal
