// Every key of reveal.conf, one row each: allowed values, default and help. All programs have all rows; reveal.conf,
// `reveal config` and `reveal-run --help` are printed from them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

enum class ConfigForm : std::uint8_t {
  text,
  names,     // "cpu,memory", or ["cpu", "memory"]
  list,      // ["a", "b"]
  labels,    // ["key=value"]; stronger sources replace those of the same key and keep the others
  truth,     // true or false, yes or no, on or off, 1 or 0
  whole,     // 20
  number,    // 0.15; if it has a range, within that
  time,      // "100ms"
  size,      // "2GB", never 0
  choice,    // one of `words`
  path,      // "/etc/reveal/no-mail", or ""
  readable,  // a file that can be read, or ""
  pattern,   // pattern of a directory: "reveal-%j", or ""
  command,   // "/usr/sbin/sendmail -t", without a shell
  retention  // "full", "summary", "rolling=30min"
};

struct ConfigKey {
  std::string_view section, key;
  ConfigForm form = ConfigForm::text;
  std::string_view fallback;  // as in the file, without quotes
  std::string_view help;
  std::string_view least, most;  // range of a number, a time or a size, as in the file
  std::string_view words;        // "epilog job lazy" of a choice; of a number its unit
  /// The value used when the site's value cannot be understood and the default would do harm.
  std::optional<std::string_view> mistaken = {};
};

/// Users who may set the keys of a section.
enum class ConfigOwner : std::uint8_t { user, site };

struct ConfigSection {
  std::string_view name;
  ConfigOwner owner = ConfigOwner::user;
  std::string_view subject;  // "rule" for [rule."ID"]; "" if nothing follows the name
  std::string_view help;
};

inline constexpr ConfigSection kConfigSections[] = {
    {"run", ConfigOwner::user, "", "Settings of reveal-run; the names are those of its options (reveal-run --help)."},
    {"report", ConfigOwner::user, "", "Settings of the analysis."},
    {"rule", ConfigOwner::user, "rule",
     "Rules are set by their id; `reveal rules` prints all of them with their thresholds."},
    {"gpu", ConfigOwner::site, "", "Access of the collector to the GPUs of a node."},
    {"intervention", ConfigOwner::site, "", "Changes that reveal itself may make to a running job."},
    {"slurm", ConfigOwner::site, "",
     "Settings of jobs started with --reveal. They are read as root on the nodes, from the site's file only. Settings "
     "of the plugin itself (selection of jobs, place of the spool) follow its name in plugstack.conf."},
    {"mail", ConfigOwner::site, "",
     "The report by mail: to the address that the user gave to Slurm (--mail-user), otherwise to USER@domain, and to "
     "the admins; never to an address from a file that a user can write."},
};

// Texts of keys that [run] and [slurm] share.
inline constexpr std::string_view kHelpOfStackBudget =
    "Limit of the cost of counting calls: percent of the cpu time of the measured processes on a node, on average; at "
    "the start, a twentieth of a second may be spent in any case";
inline constexpr std::string_view kHelpOfStackWithout =
    "Functions whose calls are never counted, such as c10d.wait, or torch.* for all that begin so. Default: none";
inline constexpr std::string_view kHelpOfFasterReading =
    "Read TCP connections, NUMA maps and places in Python programs up to ten times as often while the rates of many "
    "counters are unlike before: at most 10 s at once, and a tenth of the recording in all";

inline constexpr ConfigKey kConfigKeys[] = {
    {"run", "output", ConfigForm::pattern, "",
     "Directory of the traces and the report; may contain Slurm's %j job, %x job name, %u user, %A array job, %a array "
     "index. Default: reveal-JOBID or, without a job, reveal- and the time"},
    {"run", "node", ConfigForm::text, "", "Name of this node. Default: Slurm's name for it, else the host name"},
    {"run", "interval", ConfigForm::time, "100ms", "Time between samples", "10ms", "60s"},
    {"run", "mail", ConfigForm::text, "", "Send the report to this address"},
    {"run", "probes", ConfigForm::names, "", "Only these probes (`reveal probes` lists them). Default: all"},
    {"run", "metrics", ConfigForm::readable, "",
     "Record only the metrics in this file (`reveal-collect --help` describes it)"},
    {"run", "retain", ConfigForm::retention, "full",
     "Rows to keep: full, rolling=30min (the last 30 minutes), summary (one row per minute, after the report)"},
    {"run", "name", ConfigForm::text, "", "Compare with earlier runs of this name. Default: of the same command"},
    {"run", "tag", ConfigForm::labels, "", "Label this run, KEY=VALUE; may be repeated"},
    {"run", "stack", ConfigForm::truth, "false",
     "Count the calls of the job's processes into CUDA, NCCL, gloo, MPI and PyTorch: steps, collectives, copies. "
     "Needs root, or CAP_BPF and CAP_PERFMON. A call takes one to two microseconds longer; functions for which that "
     "is more than .5 % of the cpu time (stack_budget) are counted in turns, so that it is no more on average. Also "
     "records, once a second, the line that each Python program executes; this part needs no privilege"},
    {"run", "stack_budget", ConfigForm::number, "0.5", kHelpOfStackBudget, "0.05", "5", "percent"},
    {"run", "stack_without", ConfigForm::names, "", kHelpOfStackWithout},
    {"run", "intervene", ConfigForm::truth, "true",
     "Let reveal change the running job where the site allows it ([intervention])"},
    {"run", "faster_reading", ConfigForm::truth, "true", kHelpOfFasterReading},
    {"run", "report", ConfigForm::truth, "true", "Analyse the run and print the report when it ends"},
    {"run", "report_limit", ConfigForm::time, "20s",
     "Longest time from the end of the command to the prompt: for closing and copying the trace and for the report",
     "1s", "24h"},
    {"run", "quiet", ConfigForm::truth, "false", "Print nothing, neither the report nor warnings"},

    {"report", "pipeline", ConfigForm::text, "reveal",
     "Detectors: \"reveal\", or \"paper\" for the literal method of arXiv 2510.26008"},
    {"report", "history", ConfigForm::truth, "true",
     "Compare each run with earlier runs of the same command and shape: with run.json in their directories, found "
     "through an index in the user's ~/.local/state/reveal. --no-history of reveal report switches this off for one "
     "report"},
    {"report", "mute", ConfigForm::list, "",
     "[\"RULE@NODE\"]: known findings that are not reported, for example cpu.outsider@n03; both parts may contain *, "
     "and "
     "RULE alone applies to all nodes. Reports and reveal check list them as muted"},
    {"report", "keep_days", ConfigForm::whole, "0",
     "`reveal clean` lists, and with --delete deletes, your runs that began more than this number of days ago; 0: no "
     "limit. This setting and the next two apply if no limit is typed",
     "0", "36500"},
    {"report", "keep_number", ConfigForm::whole, "0",
     "`reveal clean` keeps this number of runs, the newest ones; 0: no limit", "0", "1000000"},
    {"report", "keep_total", ConfigForm::size, "",
     "`reveal clean` deletes the oldest runs until the others need no more than this. Default: no limit"},

    // A name is looked for as the dynamic linker does.
    {"gpu", "library", ConfigForm::text, "libnvidia-ml.so.1",
     "NVIDIA's management library (NVML), a name or a full path; loaded in a separate process"},

    {"intervention", "rules", ConfigForm::names, "",
     "Rules on whose findings reveal may act in all jobs but those with --reveal=intervene=off or "
     "REVEAL_INTERVENE=off. It then changes processes of the job only, as the job's user, measures the effect for 10 "
     "s, takes the change back if it did not help, and reports it. Default: none.\n"
     "\"cpu.affinity_too_narrow\": threads that crowd on a part of the cpus that the job owns also get those of the "
     "others that are idle and on the same NUMA nodes (taskset)"},

    {"slurm", "min_seconds", ConfigForm::whole, "10", "Jobs that are shorter than this many seconds leave no files",
     "0", "86400"},
    {"slurm", "interval", ConfigForm::time, "100ms",
     "Time between samples; users may set another one with --reveal=interval=", "10ms", "60s"},
    {"slurm", "min_interval", ConfigForm::time, "10ms",
     "Shortest interval for users: 10 ms need five to six times the cpu time of 100 ms", "10ms", "60s"},
    {"slurm", "probes", ConfigForm::names, "",
     "Only these probes (`reveal probes` lists them); users may choose others. Default: all"},
    {"slurm", "stack", ConfigForm::choice, "ask",
     "Count the calls of the jobs' processes into CUDA, NCCL, gloo, MPI and PyTorch (Linux 6.6 or newer). A call takes "
     "one to two microseconds longer; functions for which that is more than .5 % of the cpu time (stack_budget) are "
     "counted in turns, so that it is no more on average.\n"
     "\"ask\": only in jobs whose user requests it with --reveal=stack=on or REVEAL_STACK=on.\n"
     "\"on\": in all jobs except those with --reveal=stack=off or REVEAL_STACK=off.\n"
     "\"never\": in no job",
     "", "", "ask on never"},
    {"slurm", "stack_budget", ConfigForm::number, "0.5", kHelpOfStackBudget, "0.05", "5", "percent"},
    {"slurm", "stack_without", ConfigForm::names, "", kHelpOfStackWithout},
    {"slurm", "faster_reading", ConfigForm::truth, "true", kHelpOfFasterReading},
    {"slurm", "spool_max", ConfigForm::size, "2GB",
     "Largest trace of one job on one node; a longer trace is cut off and marked"},
    {"slurm", "spool_total_max", ConfigForm::size, "",
     "Largest total of undelivered traces on one node; above it, no new recording starts there, and one line is "
     "logged. A user whose traces take half of it records nothing more there. Default: 10 GB, or a tenth of the "
     "spool's file system if that is less"},
    {"slurm", "retain", ConfigForm::retention, "full",
     "rolling=30min keeps the last 30 minutes of a job at least (a trace then never holds more than an hour; older "
     "rows are deleted, and the trace records that). Useful for jobs of weeks. summary keeps all rows until the epilog "
     "or a report job has built the report, and then one row per minute of each closed trace, if that is smaller; not "
     "possible with \"lazy\""},
    // Too long a time fills a disk, which is bounded and logged; too short a time deletes what users were promised.
    {"slurm", "keep_days", ConfigForm::whole, "7",
     "Undelivered traces stay in the spool for at least this many days; deletion needs the janitor (systemctl "
     "enable --now reveal-janitor.timer)",
     "1", "999", "", "999"},
    {"slurm", "report", ConfigForm::choice, "epilog",
     "The process that builds the report of a job, after its last step.\n"
     "\"epilog\": the first node whose epilog has finished takes the lease and builds the report at once, as the user, "
     "if the estimated time fits into report_limit. If not, the epilog ends, and the rest is done at low priority: "
     "each "
     "node analyses its own trace, and one of them merges the results. Larger traces, and the results of more nodes, "
     "are left to a job as with \"job\"; `reveal doctor` prints the limits of a node. The usual choice.\n"
     "\"job\": the epilog of the first node submits a small job of the user that waits for this one (afterany) and "
     "merges the results; each node analyses its own trace as above. For sites that need a partition for one-cpu jobs "
     "anyway.\n"
     "\"lazy\": the first `reveal show DIR` of a user builds the report. No mail is sent.\n"
     "The site's Epilog= script needs no change with any of the three. EpilogSlurmctld is too early for reports: it "
     "runs before the nodes have finished",
     "", "", "epilog job lazy"},
    {"slurm", "report_limit", ConfigForm::time, "5s",
     "Longest time that one epilog spends on closing traces and building the report. The plugin always stops waiting "
     "after its epilog_seconds (plugstack.conf): raise both together",
     "0s", "60s"},
    {"slurm", "ledger", ConfigForm::truth, "false",
     "Keep a line for each node of a job whose report was built in its epilog, in nodes.jsonl in the spool of the node "
     "that built it: for `reveal nodes`, which collects these files. Only root can read them. They have numbers of "
     "jobs, "
     "names of nodes, rules and costs of 90 days (at most 8 MiB), and a hash of the user's number: therefore the site "
     "decides whether they are kept"},

    {"mail", "enabled", ConfigForm::truth, "false", "Send mail"},
    // Another program than the one that was meant sends nothing.
    {"mail", "sendmail", ConfigForm::command, "/usr/sbin/sendmail -t -i",
     "Program that reads the mail on standard input; it runs without a shell, as the job's user, on the compute nodes, "
     "and must work there",
     "", "", "", ""},
    {"mail", "from", ConfigForm::text, "", "Sender; empty: reveal at the domain, or at this host"},
    {"mail", "reply_to", ConfigForm::text, "", "Address that gets replies, such as the help desk; empty: the sender"},
    {"mail", "unsubscribe", ConfigForm::text, "",
     "\"mailto:help@example.org\" or \"https://...\": users end their mails there (List-Unsubscribe, a button in many "
     "mail "
     "programs). For a single job, they use --reveal=mail=off"},
    {"mail", "domain", ConfigForm::text, "",
     "Mail domain of the users; empty: only users who gave an address to Slurm get mail"},
    {"mail", "admins", ConfigForm::list, "",
     "[\"hpc@example.org\"]: addresses for findings with a remedy for administrators"},
    {"mail", "admin_threshold", ConfigForm::choice, "warning", "Least severity that is mailed to the admins", "", "",
     "notice warning critical"},
    {"mail", "healthy", ConfigForm::truth, "false", "Also send reports without a finding"},
    {"mail", "per_hour", ConfigForm::whole, "20",
     "Most mails per hour to each user, and about each user's jobs to the admins; mails above the limit are logged and "
     "not sent. The reports stay in the directories of the jobs",
     "0", "10000"},
    {"mail", "repeat_days", ConfigForm::whole, "7",
     "The same finding of the same command is mailed to a user at most once in this time, unless the user asks for the "
     "mail with --reveal=mail=; 0: each job is mailed",
     "0", "365"},
    {"mail", "attach_limit", ConfigForm::size, "2MB",
     "Largest report.html.gz that is attached; a mail without it names the place of the report"},
    {"mail", "fault_directory", ConfigForm::path, "",
     "Directory on a file system of all nodes, owned by root, with mode 1777: the same fault of hardware is then "
     "mailed "
     "to the admins once a day for the jobs of all users. A user can hold such a mail back by a file there; the daily "
     "digest does not depend on it. Empty: once a day for the jobs of each user"},
    {"mail", "mailer_spool", ConfigForm::path, "",
     "Directory on a file system of all nodes, in which the ends of all jobs leave their mails for `reveal mailer`: "
     "that sends them from one host, with one mail to the admins about the findings of all jobs. It belongs to the "
     "account of the mailer and its own group, with mode 3733. Empty: the end of each job sends its own mails"},
    {"mail", "digest", ConfigForm::time, "1h",
     "With mailer_spool, the admins get a mail when a new finding has waited for so long; the same rule on the same "
     "node is a new finding once a day",
     "0s", "24h"},
    // A switch that cannot be found is on: "/" is always there.
    {"mail", "disable", ConfigForm::path, "/etc/reveal/no-mail", "While this file exists, reveal sends no mail", "", "",
     "", "/"},
};

/// The row; does not compile for a key without one.
consteval const ConfigKey& config_key(std::string_view section, std::string_view key) {
  for (const ConfigKey& row : kConfigKeys) {
    if (row.section == section && row.key == key) return row;
  }
  throw "no such key";
}

/// Rows that another library brings along: those of [rule."ID"].
struct ConfigSubjects {
  std::string_view section;                                      // "rule"
  std::vector<std::string> (*names)();                           // all ids
  std::span<const ConfigKey> (*keys)(std::string_view subject);  // empty for an unknown one
};
struct RegisteredConfigSubjects {
  explicit RegisteredConfigSubjects(const ConfigSubjects& subjects);
};
/// Null where this program has none: it ignores such a section.
[[nodiscard]] const ConfigSubjects* config_subjects(std::string_view section) noexcept;

/// A check by the library that uses a key: why the values are not valid, "" if they are.
struct RegisteredConfigCheck {
  RegisteredConfigCheck(const ConfigKey& key, std::string (*mistake)(const std::vector<std::string>& values));
};

/// The description of a valid value: "true or false", "a time from 10ms to 60s".
[[nodiscard]] std::string expected(const ConfigKey& key);

/// Why `values` are none of this key, to be read after its name: " is a time from 10ms to 60s, not \"soon\""; "" if
/// they are.
[[nodiscard]] std::string mistake_in(const ConfigKey& key, const std::vector<std::string>& values);

[[nodiscard]] std::optional<bool> parse_truth(std::string_view word) noexcept;

/// A decimal number from 0 to 1e18.
[[nodiscard]] std::optional<double> parse_number(std::string_view word) noexcept;

/// "REVEAL_INTERVAL"; "" for keys that no variable sets.
[[nodiscard]] std::string variable_of(const ConfigKey& key);

/// The value as written in reveal.conf: "100ms" in quotes, true without, ["a", "b"].
[[nodiscard]] std::string written(const ConfigKey& key, const std::vector<std::string>& values);

}  // namespace reveal
