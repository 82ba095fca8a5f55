#include "postproc/drill/drill.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/host_name.h"
#include "hdf5schema/basics/own_program.h"
#include "postproc/analysis/job_report.h"
#include "postproc/commands/make_report.h"
#include "postproc/commands/scratch_directory.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/compare/timed_command.h"
#include "postproc/drill/drill_program.h"
#include "postproc/drill/mailbox.h"
#include "postproc/history/run_index.h"
#include "postproc/mail/mail_job.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kUndecided = 3;
constexpr auto kReportWait = 90s;  // from the end of a Slurm job to its report: epilog, or a report job
constexpr auto kMailWait = 30s;    // from the mail program to the mailbox
constexpr const char* kJobFolder = "job";
constexpr const char* kUse = "drill";  // names the scratch directory

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Tests the site's installation; the user's own settings and history are left out.
std::vector<std::string> drill_environment(const fs::path& place, bool slurm) {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool own = text.starts_with("REVEAL_") && !text.starts_with("REVEAL_CONFIG=");
    if (!own && !text.starts_with("XDG_STATE_HOME=") && !text.starts_with("XDG_CONFIG_HOME=")) kept.emplace_back(text);
  }
  if (!slurm) {
    kept.push_back("XDG_STATE_HOME=" + (place / "state").string());
    kept.push_back("XDG_CONFIG_HOME=" + (place / "config").string());
  }
  return kept;
}

class Drill final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    app.add_option("--seconds", plan_.seconds, "duration of the job (default 60)")
        ->type_name("N")
        ->check(finite() & CLI::Range(20.0, 600.0));
    CLI::Option* srun =
        app.add_option("--srun", srun_, "run the drill as a Slurm job with these srun options")->type_name("OPTIONS");
    app.add_option("--finish", finish_, "judge the drill of an allocation that has ended")
        ->type_name("DIR")
        ->excludes(srun);
    app.add_option("--disturbance", wanted_,
                   "outsider: a process beside the job; stopped: a signal stops its program (default: the first one on "
                   "an idle node)")
        ->type_name("WHAT")
        ->check(CLI::IsMember({"outsider", "stopped"}))
        ->excludes(srun);
    CLI::Option* mail = app.add_option("--mail", mail_, "also send the report to this address")->type_name("ADDR");
    app.add_option("--mailbox", mailbox_, "check that the mail arrives in this file (mbox) or directory (Maildir)")
        ->type_name("PATH")
        ->needs(mail);
    app.add_flag("--keep", keep_, "keep the directory with the trace and the report, below the current directory");
    app.add_flag("--verbose", verbose_, "also show the output of reveal-run or srun (on standard error)");
    app.add_option("--program", plan_.disturbance)->group("");  // program of the job: the drill calls itself
    app.add_option("--place", place_)->group("");
    app.add_option("--cpu", plan_.cpu)->group("");
    program_ = app.get_option("--program");
  }

  int run(const CommonOptions& common) override {
    if (program_->count() > 0) {
      plan_.place = place_;
      return run_drill_program(plan_);
    }
    begun_ = read_clock(CLOCK_MONOTONIC);
    if (!finish_.empty()) return finish(common);
    const bool allocation = !variable("SLURM_JOB_ID").empty() && srun_.empty();
    const bool slurm = allocation || !srun_.empty();
    using Place = ScratchDirectory::Place;
    ScratchDirectory place(kUse, slurm || keep_ ? Place::current : Place::temporary);
    if (keep_) place.keep();
    plan_.place = place.path();
    choose_disturbance(slurm);
    announce(slurm);
    std::vector<DrillCheck> checks{launch(slurm)};
    if (const int signal = stopped_by_; signal != 0) return stopped(signal);
    if (allocation && checks.front().state == DrillState::passed) return left_to_epilog(place, checks, common);
    if (!srun_.empty()) wait_for_report(job_folder());
    judge(checks, common);
    if (!srun_.empty()) forget(job_folder());
    return conclude(checks, place.kept() ? place.path().string() : "", common);
  }

 private:
  [[nodiscard]] fs::path job_folder() const { return plan_.place / kJobFolder; }

  /// The outsider can be identified only on an idle node, and in an allocation every process that a user can start is
  /// part of the job.
  void choose_disturbance(bool slurm) {
    constexpr double kIdle = 0.9;
    plan_.disturbance = stopped_disturbance().name;
    if (slurm) return;
    if (wanted_ == stopped_disturbance().name) return;
    const IdleCpu best = idlest_cpu();
    if (best.idle < kIdle && wanted_.empty()) return;
    plan_.disturbance = outsider_disturbance().name;
    plan_.cpu = best.cpu;
  }

  void announce(bool slurm) const {
    complain((slurm ? "a job under Slurm of " : "a job under reveal-run of ") + duration(plan_.seconds) +
             ", of which for " + duration(plan_.length_seconds()) + " " +
             std::string(find_disturbance(plan_.disturbance)->does));
  }

  [[nodiscard]] std::vector<std::string> words_of_job(bool slurm) const {
    std::vector<std::string> words;
    if (slurm) {
      words = {"srun", "--reveal=output=" + job_folder().string(), "--job-name=reveal-drill", "-N1", "-n1"};
      if (srun_.empty()) words.emplace_back("--overlap");  // beside an interactive step that holds the cpus
      std::istringstream more(srun_);
      for (std::string word; more >> word;) words.push_back(word);
    } else {
      words = {beside_us("reveal-run"), "--output", job_folder().string(), "--name", "reveal-drill",
               "--report-limit",        "120s"};  // on a busy node, the usual limit is too short
      if (!verbose_) words.emplace_back("--quiet");
      words.emplace_back("--");
    }
    words.insert(words.end(),
                 {own_path().string(), "drill", "--program", plan_.disturbance, "--place", plan_.place.string(),
                  "--cpu", std::to_string(plan_.cpu), "--seconds", number(plan_.seconds)});
    return words;
  }

  /// The job, and who disturbs it from outside.
  DrillCheck launch(bool slurm) {
    ChildProcess outsider;
    if (plan_.disturbance == outsider_disturbance().name) {
      const pid_t parent = ::getpid();
      outsider = fork_child([&] {
        end_with_parent(parent);
        return run_drill_outsider(plan_);
      });
      if (!outsider) throw system_error("the process that disturbs the job", errno);
    }
    const std::vector<std::string> words = words_of_job(slurm);
    TimedRun run;
    {
      const ForegroundCommands foreground;
      run = ForegroundCommands::run(words, drill_environment(plan_.place, slurm),
                                    verbose_ ? OutputOf::standard_error : OutputOf::nowhere);
      stopped_by_ = ForegroundCommands::stopped_by();
    }
    if (outsider) outsider.kill(1s);
    const std::string program = fs::path(words.front()).filename().string();
    if (run.start_error != 0) {
      return {"job", DrillState::failed, program + " did not start: " + std::strerror(run.start_error)};
    }
    if (run.status != 0) {
      return {"job", DrillState::failed,
              program + " ended with exit status " + std::to_string(run.status) + "; see reveal drill --verbose"};
    }
    return {"job", DrillState::passed, "ran for " + duration(run.seconds) + " under " + program};
  }

  static int stopped(int signal) {
    complain(std::string("the drill was stopped by ") + ::strsignal(signal));
    return 128 + signal;
  }

  /// The collectors of an allocation end with it, and so the drill has to wait for that.
  int left_to_epilog(ScratchDirectory& place, std::vector<DrillCheck>& checks, const CommonOptions& common) {
    place.keep();
    const std::string directory = typed(place.path().string());
    for (const char* name : {"trace", "report", "finding", "node", "interval", "mail"}) {
      checks.push_back({name, DrillState::unknown, "comes when the allocation ends"});
    }
    checks.back().sentence += "; then run: reveal drill --finish " + directory;
    return conclude(checks, place.path().string(), common);
  }

  int finish(const CommonOptions& common) {
    need_directory(finish_);
    plan_.place = fs::canonical(finish_);
    plan_.disturbance = stopped_disturbance().name;
    wait_for_report(job_folder());
    std::vector<DrillCheck> checks;
    judge(checks, common);
    forget(job_folder());
    // Only what a drill made: its truth was read, and the name is one of ours.
    const bool ours = !truth_.node.empty() && ScratchDirectory::is_one(plan_.place, kUse);
    std::error_code ignored;
    if (!keep_ && ours) fs::remove_all(plan_.place, ignored);
    return conclude(checks, keep_ ? plan_.place.string() : "", common);
  }

  static void wait_for_report(const fs::path& directory) {
    const auto end = std::chrono::steady_clock::now() + kReportWait;
    std::error_code error;
    while (!fs::exists(directory / "report.json", error) && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(500ms);
    }
  }

  /// The run of a drill is no run of the user's.
  static void forget(const fs::path& directory) {
    const StatePlace state = state_place();
    std::error_code error;
    if (state.directory.empty() || !fs::exists(state.directory, error)) return;
    try {
      RunIndex(state.directory).forget(directory);
    } catch (const Error& failure) {
      complain(failure.what());
    }
  }

  void judge(std::vector<DrillCheck>& checks, const CommonOptions& common) {
    try {
      truth_ = truth_of_drill(plan_);
    } catch (const Error&) {
      checks.push_back({"finding", DrillState::unknown, "not checked: the job was not disturbed"});
      return;
    }
    const fs::path directory = job_folder();
    for (DrillCheck& check : check_drill_files(directory, truth_.node)) {
      if (check.name == "report" && check.state == DrillState::failed) explain_missing_report(check, common);
      checks.push_back(std::move(check));
    }
    try {
      const Report report = parse_report(read_text_file(directory / "report.json", kLargestReport, FileOf::ours));
      for (DrillCheck& check : check_drill_report(report, truth_)) checks.push_back(std::move(check));
    } catch (const Error& error) {
      checks.push_back({"finding", DrillState::unknown, error.what()});
    }
    checks.push_back(mail(directory, common));
  }

  /// Builds it, so that its findings are checked all the same, or learns from the error why there is none.
  void explain_missing_report(DrillCheck& check, const CommonOptions& common) const {
    if (!srun_.empty() || !finish_.empty()) {
      check.sentence += "; Slurm's epilog or report job did not build it in " +
                        duration(std::chrono::duration<double>(kReportWait).count());
      return;
    }
    check.state = missed(truth_);
    try {
      write_report(job_folder(), make_report({.directory = job_folder().string(), .no_history = true}, common));
      check.sentence +=
          "; reveal-run did not build it (reveal drill --verbose prints why), and the drill has built it now";
    } catch (const Error& error) {
      check.sentence += std::string("; the report cannot be built: ") + error.what();
    }
  }

  [[nodiscard]] DrillCheck mail(const fs::path& directory, const CommonOptions& common) const {
    const Config config = common.configuration(ConfigOwner::site);
    std::vector<std::string> problems = config.problems_of({"mail"});
    const MailSettings settings = mail_settings(config, problems);
    if (!problems.empty()) return {"mail", DrillState::failed, problems.front()};
    if (!settings.enabled) {
      return {"mail", mail_.empty() ? DrillState::skipped : DrillState::failed,
              "not configured: enabled is false in the section [mail] of the site's reveal.conf"};
    }
    const bool root = ::geteuid() == 0;
    MailJob job{.directory = directory,
                .request = {.asked = mail_, .mail_user = "", .user = variable("USER")},
                .array = "",
                .state = "",
                .only = Audience::user,  // administrators have nothing to do about its disturbance
                .dry_run = mail_.empty() || root,
                .host = host_name(),
                .now_utc_ns = utc_now_ns()};
    try {
      return judged(mail_job(job, settings), root);
    } catch (const Error& error) {
      return {"mail", DrillState::failed, error.what()};
    }
  }

  [[nodiscard]] DrillCheck judged(const MailOutcome& outcome, bool root) const {
    for (const MailOutcome::Item& item : outcome.items) {
      const std::string to = listed(item.to);
      const bool asked = mail_.find('@') == std::string::npos || std::ranges::find(item.to, mail_) != item.to.end();
      if (!asked) {
        const std::string why =
            outcome.problems.empty() ? "the site allows another address only" : outcome.problems.front();
        return {"mail", DrillState::failed, why + "; the mail went to " + to};
      }
      switch (item.state) {
        case MailState::sent:
          if (item.spooled) {
            return {"mail", DrillState::passed,
                    "left for the site's mailer, for " + to + "; only its reader can see whether it arrives"};
          }
          return arrival(item.message, to);
        case MailState::would_send:
          return {"mail", DrillState::skipped,
                  root ? "configured; root sends none: run the drill as a user"
                       : "configured; to send it to yourself: reveal drill --mail ADDR"};
        case MailState::held_back:
        case MailState::failed:
          return {"mail", DrillState::failed, "not sent to " + to + ": " + item.why};
      }
    }
    const std::string why = outcome.why_not.empty() ? "no mail was due" : outcome.why_not.front();
    return {"mail", mail_.empty() ? DrillState::skipped : DrillState::failed, why};
  }

  /// The mail program only takes a mail; another program delivers it.
  [[nodiscard]] DrillCheck arrival(const MailMessage& message, const std::string& to) const {
    if (mailbox_.empty()) {
      return {"mail", DrillState::passed,
              "the mail program took it for " + to + "; only its reader can see whether it arrived (or --mailbox)"};
    }
    const std::string id = message_id_of(message.mime);
    const auto end = std::chrono::steady_clock::now() + kMailWait;
    bool arrived = mailbox_holds(mailbox_, id);
    while (!arrived && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(500ms);
      arrived = mailbox_holds(mailbox_, id);
    }
    if (arrived) return {"mail", DrillState::passed, "arrived in " + mailbox_};
    return {"mail", DrillState::failed,
            "the mail program took it for " + to + ", but it did not arrive in " + mailbox_ + " within " +
                duration(std::chrono::duration<double>(kMailWait).count())};
  }

  int conclude(const std::vector<DrillCheck>& checks, const std::string& kept, const CommonOptions& common) const {
    const double seconds = static_cast<double>(read_clock(CLOCK_MONOTONIC) - begun_) * 1e-9;
    const DrillState verdict = verdict_of(checks);
    if (common.json) {
      print(drill_as_json(checks, truth_, seconds, kept));
    } else {
      print(drill_as_text(checks, common.style()));
      if (!kept.empty()) print("kept: " + typed(kept) + "\n");
      if (verdict == DrillState::failed && kept.empty()) {
        print(
            "To see the report: reveal drill --keep, then reveal show DIR/job; to check the installation: reveal "
            "doctor\n");
      }
    }
    return exit_status_of(verdict);
  }

  DrillPlan plan_;
  DrillTruth truth_;
  std::string srun_, finish_, mail_, mailbox_, place_, wanted_;
  bool keep_ = false, verbose_ = false;
  std::int64_t begun_ = 0;
  int stopped_by_ = 0;
  CLI::Option* program_ = nullptr;
};

const RegisteredCommand kDrillCommand{
    {.order = 98,
     .name = "drill",
     .help = "Prove an installation: run a small job, disturb it, and check that the report names the disturbance",
     .examples =
         "  reveal drill                              a minute on this node\n"
         "  reveal drill --seconds 20 --json\n"
         "  reveal drill --mail ada@example.org       the report is also mailed\n"
         "  reveal drill --mail ada --mailbox /var/mail/ada\n"
         "  reveal drill --srun '-p debug -t 5'       the drill is a Slurm job on one node\n"
         "Needs no privilege and about a minute; run it as an ordinary user, too. On an idle node, a process of the\n"
         "drill takes half of one cpu from a job of the drill, both at nice 10; on a busy node and under Slurm, a\n"
         "signal stops the job's program for a while. Inside an allocation, the report comes when the allocation\n"
         "ends: the drill then prints the command that judges it. In all other cases, the drill deletes its files,\n"
         "except with --keep.\n"
         "Exit status: 0 passed, 1 failed, 3 not known (the node was too busy, or the job did not run), 128+n ended "
         "by\nsignal n.",
     .usage_status = kUndecided,
     .failure_status = kUndecided,
     .make = make_command<Drill>}};

}  // namespace
}  // namespace reveal
