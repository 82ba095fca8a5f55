#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "hdf5schema/basics/call_filter.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/node_list.h"
#include "postproc/commands/shared_options.h"
#include "postproc/ledger/local_ledger.h"
#include "postproc/ledger/owner_key.h"

namespace reveal {
namespace {

constexpr std::size_t kMostFromDeliverer = 1 << 20;  // bytes, as core/broker/ledger_lines.cpp has it

/// Calls that reading lines and appending them do without.
constexpr int kNotOfALedger[] = {SYS_execve, SYS_execveat, SYS_socket, SYS_connect, SYS_ptrace, SYS_kill,
                                 SYS_mount,  SYS_unshare,  SYS_setns,  SYS_bpf,     SYS_keyctl};
constexpr int kRings[] = {425};           // io_uring_setup, which opens sockets, too: newer than headers of build hosts
constexpr int kOtherTable = 0x4000'0000;  // on x86, the same calls with 32-bit pointers

/// The lines are hostile input.
void refuse_other_work() {
  ::openlog("reveal", LOG_NDELAY, LOG_DAEMON);  // its socket is opened now
  CallFilter filter;
  filter.refuse(kNotOfALedger);
  filter.refuse(kRings);
  filter.refuse_newer(kOtherTable, {});
  filter.install();  // a kernel without it: the capabilities are gone in any case
}

/// From the begin of standard input, wherever the process that wrote it has left its place.
std::string lines_of_deliverer() {
  std::string text(kMostFromDeliverer, '\0');
  std::size_t size = 0;
  ssize_t got = 1;
  while (size < text.size() && got > 0) {
    got = ::pread(STDIN_FILENO, text.data() + size, text.size() - size, static_cast<off_t>(size));
    if (got > 0) size += static_cast<std::size_t>(got);
  }
  text.resize(std::min(size, text.find('\0')));
  return text;
}

class Ledger final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    app.add_option("ledger", ledger_)->required();
    app.add_option("--job", job_.number)->required();
    app.add_option("--node", node_)->required();
    app.add_option("--nodes", nodes_)->required();
    app.add_option("--owner", owner_)->required();
  }

  int run(const CommonOptions&) override {
    try {
      refuse_other_work();
      job_.nodes = expand_node_list(nodes_);
      job_.owner = hash_of_owner(owner_);
      const std::int64_t now = utc_now_ns();
      append_lines(ledger_, lines_of_job(lines_of_deliverer(), job_, now), now);
    } catch (const std::exception& error) {
      ::syslog(LOG_DAEMON | LOG_NOTICE, "reveal: job %s on %s: not in the ledger: %s", job_.number.c_str(),
               node_.c_str(), error.what());
      return kFailure;
    }
    return 0;
  }

 private:
  std::string ledger_, node_, nodes_;
  EndedJob job_;
  unsigned owner_ = 0;
};

const RegisteredCommand kLedgerCommand{
    {.order = 111,
     .name = "ledger",
     .help = "Add the lines of a Slurm job to the ledger of this node (started by the collector, as root)",
     .caller = Caller::collector,
     .make = make_command<Ledger>}};

}  // namespace
}  // namespace reveal
