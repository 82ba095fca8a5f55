// spank_reveal.so: `--reveal` for srun, sbatch and salloc; one reveal-collect per job and node, started by the prolog
// (or by the first step that requests it) and stopped by the epilog. Every callback returns success: with `required` in
// plugstack.conf a failing prolog would drain the node.
// https://slurm.schedmd.com/spank.html
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "spank/plugin.h"

// Slurm finds these by name; everything else is hidden.
#pragma GCC visibility push(default)
#include <slurm/spank.h>
SPANK_PLUGIN(reveal, 1)
#pragma GCC visibility pop

enum { kLongestRequest = 1024, kLongestNode = 200, kOptionalValue = 2 };

static int remember_option(int value, const char* text, int remote);

static struct spank_option option = {
    .name = "reveal",
    .arginfo = "[key=value,...]",
    .usage =
        "[reveal] profile the job's nodes and report what slowed it down; keys: interval=1s, output=DIR, "
        "mail[=ADDRESS], probes=A+B, stack=on, intervene=off, off",
    .has_arg = kOptionalValue,
    .cb = remember_option,
};

static struct {
  bool given;
  bool complained;
  char text[kLongestRequest];
} request;

/// No value is NULL in srun, "" in slurmstepd and, by way of a printf("%s") in Slurm, "(null)" in the environment, from
/// where the prolog and the sruns inside of a job have it.
static bool is_empty(const char* text) {
  return text == NULL || text[0] == '\0' || strcmp(text, "(null)") == 0;
}

/// The text that is passed on. No key begins with a dash, and the collector would take it for an option of its own.
static const char* plain(const char* text) {
  return is_empty(text) || text[0] == '-' || strlen(text) >= kLongestRequest ? "" : text;
}

static void complain_to_user(const char* text) {
  char message[256];
  if (request.complained) return;
  if (!is_empty(text) && is_empty(plain(text))) {
    snprintf(message, sizeof message, "reveal: \"%.20s%s\" is not a list of key=value; --reveal is used without it",
             text, strlen(text) > 20 ? "..." : "");
  } else if (!request_problem(plain(text), message, sizeof message)) {
    return;
  }
  request.complained = true;  // one line, however often the option is there
  slurm_spank_log("%s", message);
}

/// The sruns of a job have its option from here; the user was told at the job's submission.
static bool is_inherited(const char* text) {
  const char* const of_job = getenv("SLURM_SPANK__SLURM_SPANK_OPTION_reveal_reveal");
  return of_job != NULL && strcmp(is_empty(of_job) ? "" : of_job, is_empty(text) ? "" : text) == 0;
}

/// Called twice in slurmstepd, in any order; anything but 0 would make srun refuse the command line.
static int remember_option(int value, const char* text, int remote) {
  (void)value;
  request.given = true;
  if (!is_empty(plain(text))) snprintf(request.text, sizeof request.text, "%s", plain(text));
  if (!remote && !is_inherited(text)) complain_to_user(text);
  return ESPANK_SUCCESS;
}

// The facts about the job that the collector gets. In the prolog all of it comes from slurmd. In a step most of it is
// the job's own environment, where a user can write anything: facts on which the collector's trust depends come from
// slurmstepd only.
struct Passed {
  const char* name;
  const char* in_step;  // its name in a step's environment
};

static const struct Passed kPassed[] = {
    {"SLURM_CONF", NULL},
    {"SLURM_JOB_USER", NULL},
    {"SLURM_CLUSTER_NAME", "SLURM_CLUSTER_NAME"},
    {"SLURM_JOB_NODELIST", "SLURM_JOB_NODELIST"},
    {"SLURM_NODELIST", "SLURM_NODELIST"},
    {"SLURM_JOB_WORK_DIR", "SLURM_SUBMIT_DIR"},
    {"SLURM_JOB_RESTART_COUNT", NULL},
    {"SLURM_RESTART_COUNT", NULL},
    {"SLURM_HET_JOB_ID", "SLURM_HET_JOB_ID"},
    {"SLURM_HET_JOB_OFFSET", "SLURM_HET_JOB_OFFSET"},
    {"SLURM_ARRAY_JOB_ID", NULL},
    {"SLURM_ARRAY_TASK_ID", NULL},
    {"SLURM_JOB_NAME", "SLURM_JOB_NAME"},
    {"SLURM_JOB_PARTITION", "SLURM_JOB_PARTITION"},
    {"SLURM_JOB_ACCOUNT", "SLURM_JOB_ACCOUNT"},
    {"SLURM_JOB_GPUS", "SLURM_JOB_GPUS"},
    {"SPANK_REVEAL_DIR", "PWD"},
    {"SPANK_REVEAL_STACK", "REVEAL_STACK"},
};

static void add_number(struct Environment* environment, const char* name, uint32_t number) {
  char text[16];
  snprintf(text, sizeof text, "%u", number);
  add_variable(environment, name, text);
}

/// A step over several components of a heterogeneous job has the nodes of all of them under the usual name.
/// https://slurm.schedmd.com/heterogeneous_jobs.html
static const char* nodes_of_component(uint32_t job, char** step) {
  enum { kMostComponents = 128 };
  for (unsigned component = 0; component < kMostComponents; ++component) {
    char name[48];
    snprintf(name, sizeof name, "SLURM_JOB_ID_HET_GROUP_%u", component);
    const char* const id = find_variable(step, name);
    if (id == NULL) return NULL;
    if (strtoul(id, NULL, 10) != job) continue;
    snprintf(name, sizeof name, "SLURM_JOB_NODELIST_HET_GROUP_%u", component);
    return find_variable(step, name);
  }
  return NULL;
}

/// Before the variables that it replaces.
static void add_step_nodes(spank_t spank, uint32_t job, char** step, struct Environment* environment) {
  const uint32_t first_special = 0xfffffff0;  // batch and interactive steps inherit whatever the submitter had
  uint32_t id = first_special;
  const char* const component = nodes_of_component(job, step);
  if (component != NULL) add_variable(environment, "SLURM_JOB_NODELIST", component);
  const char* const nodes = find_variable(step, "SLURM_STEP_NODELIST");
  if (nodes != NULL && spank_get_item(spank, S_JOB_STEPID, &id) == ESPANK_SUCCESS && id < first_special) {
    add_variable(environment, "SLURM_STEP_NODELIST", nodes);  // an inner srun --reveal watches these only
  }
}

/// The nodes of the job in slurmd's own words, for what root keeps about nodes.
static void add_prolog_nodes(struct Environment* environment) {
  const char* nodes = find_variable(environ, "SLURM_JOB_NODELIST");
  if (nodes == NULL) nodes = find_variable(environ, "SLURM_NODELIST");
  if (nodes != NULL) add_variable(environment, "REVEAL_PROLOG_NODES", nodes);
}

static void add_step_numbers(spank_t spank, struct Environment* environment) {
  const uint32_t none = 0xfffffffe;  // Slurm's NO_VAL; a job that is no array has its own id as the array's
  uint32_t restarts = 0;
  uint32_t array = 0;
  uint32_t task = none;
  if (spank_get_item(spank, S_SLURM_RESTART_COUNT, &restarts) == ESPANK_SUCCESS) {
    add_number(environment, "SLURM_JOB_RESTART_COUNT", restarts);
  }
  if (spank_get_item(spank, S_JOB_ARRAY_ID, &array) == ESPANK_SUCCESS &&
      spank_get_item(spank, S_JOB_ARRAY_TASK_ID, &task) == ESPANK_SUCCESS && array != 0 && task < none) {
    add_number(environment, "SLURM_ARRAY_JOB_ID", array);
    add_number(environment, "SLURM_ARRAY_TASK_ID", task);
  }
}

/// `step`: the environment of the job's step, NULL in the prolog.
static const char* known_of_job(const struct Passed* passed, char** step) {
  if (step == NULL || passed->in_step == NULL) return find_variable(environ, passed->name);
  return find_variable(step, passed->in_step);
}

/// The node's name, which becomes part of a file's name; false if it cannot.
static bool name_node(char node[kLongestNode]) {
  const char* const known = find_variable(environ, "SLURMD_NODENAME");
  if (known != NULL && known[0] != '\0') {
    if (strlen(known) >= kLongestNode) return false;
    snprintf(node, kLongestNode, "%s", known);
  } else {
    if (gethostname(node, kLongestNode - 1) != 0) return false;
    node[kLongestNode - 1] = '\0';
    node[strcspn(node, ".")] = '\0';
  }
  static const char kAllowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return node[0] != '\0' && node[0] != '.' && node[strspn(node, kAllowed)] == '\0';
}

static bool among(const char* list, const char* variable, uint32_t job) {
  if (list == NULL) return true;
  const char* const name = find_variable(environ, variable);
  if (name != NULL) return in_list(list, name);
  slurm_info("reveal: job %u: no profile: plugstack.conf limits it to \"%s\", and Slurm gives the prolog no %s", job,
             list, variable);
  return false;
}

/// Whether this job is one of those that default=on is for. The same on all its nodes. A step has its partition and
/// account from the job's own environment, where its user can write anything: so no step belongs to a list.
static bool is_canary(const struct Settings* settings, uint32_t job, bool in_step) {
  const uint32_t spread = (job * UINT32_C(2654435761)) >> 16;  // Knuth's multiplicative hash: neighbours part
  if ((int)(spread % 100) >= settings->percent) return false;
  if (in_step) return settings->partitions == NULL && settings->accounts == NULL;
  return among(settings->partitions, "SLURM_JOB_PARTITION", job) && among(settings->accounts, "SLURM_JOB_ACCOUNT", job);
}

static bool identify(spank_t spank, struct Start* job) {
  return spank_get_item(spank, S_JOB_ID, &job->job) == ESPANK_SUCCESS &&
         spank_get_item(spank, S_JOB_UID, &job->uid) == ESPANK_SUCCESS &&
         spank_get_item(spank, S_JOB_GID, &job->gid) == ESPANK_SUCCESS;
}

/// Starts the collector with all facts that it gets. Returns the errno that kept it from running, else 0.
static int start_with(spank_t spank, const struct Settings* settings, const struct Start* job, char** step, int lock) {
  struct Environment environment = {.count = 0};
  // Before everything whose length others choose: what does not fit is left out.
  add_variable(&environment, "PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
  add_variable(&environment, "LANG", "C.UTF-8");
  add_variable(&environment, "REVEAL_REQUEST", job->request);  // not for all users of the node, as arguments are
  add_variable(&environment, "SLURMD_NODENAME", job->node);
  if (step != NULL) {
    add_step_nodes(spank, job->job, step, &environment);
  } else {
    add_prolog_nodes(&environment);
  }
  for (size_t i = 0; i < sizeof kPassed / sizeof kPassed[0]; ++i) {
    const char* const value = known_of_job(&kPassed[i], step);
    if (value != NULL) add_variable(&environment, kPassed[i].name, value);
  }
  if (step != NULL) add_step_numbers(spank, &environment);
  return start_collector(settings, job, &environment, lock);
}

static void start(spank_t spank, const struct Settings* settings, bool given, const char* text, char** step) {
  if (given ? request_is_off(text) : !settings->always) return;
  if (access(settings->disable, F_OK) == 0) return;
  char node[kLongestNode];
  struct Start job = {.node = node, .request = text};
  if (!identify(spank, &job)) return;
  if (!given && !is_canary(settings, job.job, step != NULL)) return;  // a request overrides the lists
  if (!name_node(node)) {
    slurm_info("reveal: job %u: no profile: the node's name cannot be part of a file's name", job.job);
    return;
  }
  const int lock = take_run_lock(settings, job.job, node, step == NULL ? first_or_again : first_only);
  if (lock < 0) return;

  const int error = start_with(spank, settings, &job, step, lock);
  if (error == 0) {
    close(lock);  // the collector has its own
    return;
  }
  drop_run_lock(settings, job.job, node, lock);
  slurm_info("reveal: job %u: %s: no profile: %s: %s", job.job, node, settings->collector, strerror(error));
}

/// In the prolog and the epilog they may be closed, and the next file opened would become the log.
static void open_standard_descriptors(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) return;
  }
}

/// Exports the directory of the user: a relative output directory is meant from there.
static void export_directory(spank_t spank) {
  char directory[4096];
  if (!request.given || request_is_off(request.text) || getcwd(directory, sizeof directory) == NULL) return;
  spank_job_control_setenv(spank, "REVEAL_DIR", directory, 1);
}

/// As a setting of the user's it counts without an option, too.
static void export_stack(spank_t spank) {
  static const char kName[] = "REVEAL_STACK";
  const char* const value = getenv(kName);
  if (value != NULL && strlen(value) < sizeof "false") spank_job_control_setenv(spank, kName, value, 1);
}

// The job that this srun made. An srun inside of a job has none: its job goes on, and may have many of them.
static struct {
  bool inside_another;
  uint32_t id;  // 0: no job
  time_t begin;
} srun_job;

static time_t seconds_now(void) {
  struct timespec now = {.tv_sec = 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

/// A reader that does not read must not keep srun.
static bool stderr_takes_a_line(void) {
  struct pollfd errors = {.fd = STDERR_FILENO, .events = POLLOUT};
  return poll(&errors, 1, 0) == 1 && errors.revents == POLLOUT;  // and no POLLERR: its reader is gone
}

/// The words that show the report, as a user can type them.
static void name_report(char* words, size_t size) {
  static const char kTyped[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/+=@-";
  char directory[kLongestRequest];
  if (!request_output(request.text, directory, sizeof directory)) {
    snprintf(words, size, "reveal show %u", srun_job.id);
  } else if (directory[strspn(directory, kTyped)] == '\0') {
    snprintf(words, size, "reveal show %s", directory);
  } else {
    snprintf(words, size, "reveal list");  // only the end of the job knows the names for %x and the like
  }
}

/// One line at the end of srun. With --quiet, Slurm prints no information; slurm_spank_log() would print it.
static void point_to_report(void) {
  static const time_t kShortest = 10;  // the default of [slurm] min_seconds: a shorter job has no report
  if (!request.given || request_is_off(request.text) || srun_job.id == 0 || srun_job.inside_another) return;
  if (seconds_now() - srun_job.begin < kShortest || !stderr_takes_a_line()) return;
  char words[kLongestRequest + 16];
  name_report(words, sizeof words);
  slurm_info("reveal: job %u: if it was recorded, its report is due a few seconds after its end: %s", srun_job.id,
             words);
}

int slurm_spank_init(spank_t spank, int argc, char* argv[]) {
  switch (spank_context()) {
    case S_CTX_SLURMD:
      // Once per start of slurmd is when an admin looks into its log.
      read_arguments(argc, argv, complain);
      break;
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
    case S_CTX_REMOTE:
      spank_option_register(spank, &option);
      break;
    default:
      break;
  }
  return ESPANK_SUCCESS;
}

int slurm_spank_job_prolog(spank_t spank, int argc, char* argv[]) {
  open_standard_descriptors();
  const struct Settings settings = read_arguments(argc, argv, be_silent);
  char* text = NULL;
  const bool given = spank_option_getopt(spank, &option, &text) == ESPANK_SUCCESS;
  start(spank, &settings, given, plain(text), NULL);
  return ESPANK_SUCCESS;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char* argv[]) {
  const spank_context_t context = spank_context();
  if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR) {
    srun_job.inside_another = getenv("SLURM_JOB_ID") != NULL;
    export_directory(spank);
    export_stack(spank);
  }
  if (context != S_CTX_REMOTE) return ESPANK_SUCCESS;

  // The second way in: no PrologFlags, or only an inner `srun --reveal`. The extern step sees no option, not even
  // --reveal=off; where it exists, the prolog ran before it.
  // https://slurm.schedmd.com/slurm.conf.html#OPT_PrologFlags
  static const uint32_t kExternStep = 0xfffffffc;  // SLURM_EXTERN_CONT since 20.02
  uint32_t id = kExternStep;
  char** step = NULL;
  if (spank_get_item(spank, S_JOB_STEPID, &id) != ESPANK_SUCCESS || id == kExternStep) return ESPANK_SUCCESS;
  if (spank_get_item(spank, S_JOB_ENV, &step) != ESPANK_SUCCESS || step == NULL) return ESPANK_SUCCESS;
  const struct Settings settings = read_arguments(argc, argv, be_silent);
  // `reveal watch` on another machine: its step reads the traces, and is no work to profile.
  if (find_variable(step, "REVEAL_WATCH_STEP") != NULL) {
    spank_setenv(spank, "REVEAL_SPOOL", settings.spool, 1);
    return ESPANK_SUCCESS;
  }
  start(spank, &settings, request.given, request.text, step);
  return ESPANK_SUCCESS;
}

int slurm_spank_job_epilog(spank_t spank, int argc, char* argv[]) {
  open_standard_descriptors();
  const struct Settings settings = read_arguments(argc, argv, be_silent);
  char node[kLongestNode];
  struct Start job = {.node = node, .request = "", .orphan = true};
  if (spank_get_item(spank, S_JOB_ID, &job.job) != ESPANK_SUCCESS || !name_node(node)) return ESPANK_SUCCESS;
  const int lock = stop_collector(&settings, job.job, node);
  if (lock < 0) return ESPANK_SUCCESS;
  // It crashed or was killed: its recording still belongs to the user.
  char* text = NULL;
  if (spank_option_getopt(spank, &option, &text) == ESPANK_SUCCESS) job.request = plain(text);
  if (access(settings.disable, F_OK) != 0 && identify(spank, &job)) start_with(spank, &settings, &job, NULL, lock);
  close(lock);
  return ESPANK_SUCCESS;
}

/// In srun only, once it has its job.
int slurm_spank_local_user_init(spank_t spank, int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  uint32_t id = 0;
  if (srun_job.id != 0 || spank_get_item(spank, S_JOB_ID, &id) != ESPANK_SUCCESS) return ESPANK_SUCCESS;
  srun_job.id = id;
  srun_job.begin = seconds_now();
  return ESPANK_SUCCESS;
}

int slurm_spank_exit(spank_t spank, int argc, char* argv[]) {
  (void)spank;
  if (spank_context() != S_CTX_LOCAL) return ESPANK_SUCCESS;
  const struct Settings settings = read_arguments(argc, argv, be_silent);
  if (access(settings.disable, F_OK) != 0) point_to_report();
  return ESPANK_SUCCESS;
}
