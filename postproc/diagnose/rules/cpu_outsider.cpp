// Processes outside the job ran on cpus the job may use, and the job lost time by it. If the collector saw that it was
// a service of the system or another job, cpu.os_jitter or node.noisy_neighbour reports it instead.
#include "postproc/diagnose/outsiders.h"

namespace reveal::rule::cpu_outsider {
namespace {

const RegisteredRule kRule{{
    .id = "cpu.outsider",
    .title = "A process outside the job ran on its cpus",
    .looks_for =
        "Intervals in which processes outside the job used its cpus (job.outsider_cpu: all cpu time less the job's "
        "own) while the job's run-queue wait rose or its own cpu time fell; and a level that lasts for the whole job. "
        "Unless most of it was used by services of the system or by other jobs (outsider.cpu_time).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 60,
    .look_alikes =
        "cpu.os_jitter,node.noisy_neighbour,mem.writeback_stall,the job's own threads,interrupts,a hypervisor",
    .proof = Proof::real,
    .whole_machine = true,
    .thresholds = outsider_thresholds(),
    .user_remedy = {{"#SBATCH --exclusive   # other jobs ran on {node}, too; costs whole nodes",
                     "job,other_jobs,!known"},
                    {"ps -eo pid,user,psr,pcpu,comm --sort=-pcpu | head -15   # on {node}, in the next run: the other "
                     "busy processes "
                     "and their cpus",
                     "!outsiders"},
                    {"taskset -c {free_cpus}   # avoids the cpus that others used", "!job"}},
    .admin_remedy =
        {"ps -o pid,user,lstart,psr,time,args -p {outsiders}   # on {node}, if it still runs",
         {"If it is a leftover of an earlier job, let the epilog end the processes that jobs leave on {node}.", "job",
          kIf},
         "systemctl list-timers   # on {node}: timers that start at that time of day"},
    .verify = {.expected = "job.outsider_cpu below 0.1 cpus"},
    .sources = {"https://slurm.schedmd.com/cgroup.conf.html", "https://docs.kernel.org/accounting/psi.html"},
    .check = outsider_findings,
}};

}  // namespace
}  // namespace reveal::rule::cpu_outsider
