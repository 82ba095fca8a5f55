#include <fcntl.h>
#include <sys/prctl.h>

#include "hdf5schema/basics/file_pattern.h"
#include "postproc/commands/shared_options.h"
#include "postproc/deliver/job_end.h"

namespace reveal {
namespace {

class Deliver final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    app.add_option("spool", end_.spool)->required();
    app.add_option("--job", end_.job)->required();
    app.add_option("--node", end_.node)->required();
    app.add_option("--config", end_.config);
    app.add_option("--ready-fd", end_.ready_fd);
    app.add_option("--ledger-fd", end_.ledger_fd);
    app.add_option("--mail-state", end_.mail_state);
    app.add_option("--pace", end_.paces.analysis);
    app.add_option("--merge-pace", end_.paces.merge);
    app.add_flag("--orphan", end_.orphan);
  }

  int run(const CommonOptions&) override {
    ::prctl(PR_SET_DUMPABLE, 0);  // execve has undone what the collector did; until here the kernel refused tracers
    if (end_.ledger_fd >= 0) ::fcntl(end_.ledger_fd, F_SETFD, FD_CLOEXEC);  // no mail program gets it
    end_.request = process_environment("REVEAL_REQUEST");
    return finish_job(end_);
  }

 private:
  JobEnd end_;
};

const RegisteredCommand kDeliverCommand{
    {.order = 110,
     .name = "deliver",
     .help = "Deliver trace, report and mail of one node at the end of a Slurm job (started by the collector)",
     .caller = Caller::collector,
     .make = make_command<Deliver>}};

}  // namespace
}  // namespace reveal
