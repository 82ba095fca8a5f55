// Rows of the rule table for what nodes of a job show against each other and runs against earlier ones. Their findings
// are made in peer_findings.cpp, transient_straggler.cpp, configuration_findings.cpp and history_findings.cpp.
#include "postproc/diagnose/rule.h"

namespace reveal {
namespace {

constexpr std::string_view kSwapTest =
    "run it again without this node; if what differs follows the node it is the machine, if it follows the rank the "
    "program";
constexpr std::string_view kSameInput = "run it again with the same input: does it take as long as before?";
constexpr const char* kCompareConfiguration =
    "Look at what changed since the earlier runs: configuration and channels are listed under history in report.json.";

const RegisteredRule kStraggler{{
    .id = "node.straggler",
    .title = "The other nodes wait for one of them",
    .looks_for =
        "A node that computes longer than its peers, over the whole job or for a while, while they wait for it.",
    .kind = FindingKind::peer,
    .subsystem = Subsystem::process,
    .order = 500,
    .look_alikes = "a rank with more to do",
    .proof = Proof::real,
    .thresholds = {{"min_percent", 8, "percent", "least own time of the node beyond its peers', over the whole job"},
                   {"min_time_at_top", 0.75, "ratio", "least part of the job in which it is the one that waits least"},
                   {"min_passing", 0.15, "cpus", "for a while only: least rise of its own time against its peers'"},
                   {"min_passing_share", 0.15, "ratio", "the same against its usual own time"},
                   {"min_passing_seconds", 6, "s", "shortest while"},
                   {"min_passing_score", 5, "sd", "least distance of the while from the rest of the job"},
                   {"warning_seconds", 5, "s",
                    "lost run time from which it is a finding, if the node's state differs, too"},
                   {"warning_percent", 10, "percent", "lost share of the run, likewise"}},
    .user_remedy = {{"sbatch --exclude={nodes} ...   # once, to see whether the time is lost again", "job"}},
    .admin_remedy = {"look at {nodes}: clock limits, throttling, memory and disk errors, leftover processes"},
    .verify = kSwapTest,
    .sources = {"https://github.com/traceopt-ai/traceml/issues/252"},
}};

const RegisteredRule kDiffers{{
    .id = "node.differs",
    .title = "One node differs from its peers",
    .looks_for = "A node whose channels differ from those of its peers by more than the peers differ from each other.",
    .kind = FindingKind::peer,
    .subsystem = Subsystem::cpu,
    .order = 500,
    .look_alikes = "a rank with another role",
    .proof = Proof::real,
    .thresholds = {{"min_percent", 10, "percent", "least difference of a channel"},
                   {"min_metrics", 2, "metrics", "least metrics that tell something about the node and differ"}},
    .user_remedy = {{"sbatch --exclude={nodes} ...   # once, to see whether the difference goes with the node", "job"}},
    .admin_remedy = {"diff <(ssh {nodes} sysctl -a) <(ssh {peer} sysctl -a)   # and firmware, memory, services"},
    .verify = kSwapTest,
    .sources = {"https://arxiv.org/abs/2510.26008"},
}};

const RegisteredRule kHugePages{{
    .id = "mem.hugepages_inconsistent",
    .title = "Huge pages are configured differently on the job's nodes",
    .looks_for = "Nodes whose huge pages or transparent huge pages are set unlike those of most of the job.",
    .kind = FindingKind::peer,
    .subsystem = Subsystem::memory,
    .order = 93,
    .proof = Proof::test_double,
    .user_remedy = {{"sbatch --exclude={nodes} ...   # until the nodes are configured alike", "job"},
                    "grep . /sys/kernel/mm/hugepages/hugepages-*/nr_hugepages   # on {nodes} and on another node"},
    .admin_remedy = {"sysctl vm.nr_hugepages; cat /proc/cmdline   # on {nodes}: where the setting comes from"},
    .verify = "the setting is the same on all nodes of the job",
    .sources = {"https://docs.kernel.org/admin-guide/mm/hugetlbpage.html", "https://arxiv.org/abs/2510.26008"},
}};

const RegisteredRule kMtu{{
    .id = "net.mtu_mismatch",
    .title = "An interface has another packet size than on the other nodes",
    .looks_for = "Nodes whose interface has another MTU than the interface of that name on most of the job's nodes.",
    .kind = FindingKind::peer,
    .subsystem = Subsystem::network,
    .order = 62,
    .proof = Proof::test_double,
    .user_remedy = {"ping -M do -s 8972 -c 3 {peer}   # on {nodes}: do packets of 9,000 bytes arrive"},
    .admin_remedy = {"ip link show   # on {nodes} and on {peer}: set the same mtu, in the network configuration, too"},
    .verify = "the MTU is the same on all nodes and switches between them",
    .sources = {"https://docs.kernel.org/networking/statistics.html"},
}};

const RegisteredRule kDrifted{{
    .id = "node.config_drift",
    .title = "Nodes of the job are configured differently",
    .looks_for = "Kernel, firmware and system settings in which a few nodes differ from most of the job.",
    .kind = FindingKind::peer,
    .subsystem = Subsystem::process,
    .order = 95,
    .proof = Proof::test_double,
    .user_remedy = {{"sbatch --exclude={nodes} ...   # once, to see whether it matters", "job"}},
    .admin_remedy = {"diff <(ssh {nodes} sysctl -a) <(ssh {peer} sysctl -a)   # and kernel, firmware, services"},
    .verify = "the settings are the same on all nodes of the job",
    .sources = {"https://arxiv.org/abs/2510.26008"},
}};

const RegisteredRule kSlower{{
    .id = "history.slower",
    .title = "This run took longer than earlier ones",
    .looks_for = "A run time above that of earlier runs of the same program and shape, beyond their spread.",
    .kind = FindingKind::history,
    .subsystem = Subsystem::process,
    .order = 500,
    .look_alikes = "another input or version of the program",
    .proof = Proof::real,
    .thresholds = {{"min_percent", 10, "percent", "least difference of the run time to the median of earlier runs"},
                   {"min_seconds", 2, "s", "the same in seconds"},
                   {"warning_percent", 20, "percent", "difference from which it is a finding, else a notice"},
                   {"warning_seconds", 10, "s", "likewise"}},
    .user_remedy = {},
    .advice = {kCompareConfiguration},
    .admin_remedy = {},
    .verify = kSameInput,
    .sources = {"https://arxiv.org/abs/2510.26008"},
}};

const RegisteredRule kDrift{{
    .id = "history.drift",
    .title = "This job has become slower, little by little",
    .looks_for = "A run time that has grown from run to run, against the oldest runs known.",
    .kind = FindingKind::history,
    .subsystem = Subsystem::process,
    .order = 500,
    .look_alikes = "another input or version of the program",
    .proof = Proof::real,
    .thresholds = {{"min_percent", 20, "percent", "least difference of the run time to the oldest runs known"}},
    .user_remedy = {},
    .advice = {kCompareConfiguration},
    .admin_remedy = {},
    .verify = kSameInput,
    .sources = {"https://arxiv.org/abs/2510.26008"},
}};

const RegisteredRule kChanged{{
    .id = "history.changed",
    .title = "This run did something else than earlier ones",
    .looks_for = "Channels whose level differs from that of earlier runs, which agree with each other.",
    .kind = FindingKind::history,
    .subsystem = Subsystem::process,
    .order = 500,
    .look_alikes = "another input or version of the program",
    .proof = Proof::real,
    .thresholds = {{"min_percent", 25, "percent", "least change of a channel"},
                   {"min_channels", 3, "channels", "least channels that changed so much"},
                   {"min_runs", 5, "runs", "earlier runs that must agree"}},
    .user_remedy = {},
    .advice = {kCompareConfiguration},
    .admin_remedy = {},
    .verify = kSameInput,
    .sources = {"https://arxiv.org/abs/2510.26008"},
}};

}  // namespace
}  // namespace reveal
