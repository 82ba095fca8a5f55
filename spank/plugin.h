// The interfaces between the parts of the SPANK plugin. They run inside srun, slurmd's prolog and slurmstepd, as root
// on the nodes: every error here is logged in one line and changes nothing for the job.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// --- arguments.c: the words behind the plugin's name in plugstack.conf

struct Settings {
  const char* collector;
  const char* spool;
  const char* disable;  // while this file exists, nothing is started
  const char* config;   // the site's reveal.conf, for the collector
  bool always;          // without --reveal too
  int epilog_seconds;
  // The selected jobs: every given condition must hold; NULL and 100 select all.
  const char* partitions;
  const char* accounts;
  int percent;
};

enum Complaints { complain, be_silent };

/// Invalid arguments are ignored. The strings are those of `words` or live forever.
struct Settings read_arguments(int count, char* words[], enum Complaints complaints);

/// True if `list`, for example "debug,long", names `word`.
bool in_list(const char* list, const char* word);

/// The key at the smallest edit distance if it is near enough to be a typing error, else NULL. Rows begin with a
/// `const char*`, their key.
const char* nearest_key(const char* word, size_t length, const void* rows, size_t row_size, size_t row_count);

// --- request.c: the user's text behind --reveal=

bool request_is_off(const char* request);

/// Copies the value of `output=`; false if there is none, or no space for it.
bool request_output(const char* request, char* directory, size_t size);

/// Writes one line about the first thing that is wrong into `message`; false if nothing is.
bool request_problem(const char* request, char* message, size_t size);

// --- run_lock.c: SPOOL/run, one locked file for each collector that runs here

enum Entrance {
  first_or_again,  // the prolog: a job that was requeued may have left the file of a collector that crashed
  first_only,      // a step: an existing file there belongs to a collector of the same job
};

/// The locked file SPOOL/run/JOB.NODE, to be inherited by the collector; -1 after at most one line in the log. Creates
/// the spool. Refuses when the node's breaker is open.
int take_run_lock(const struct Settings* settings, uint32_t job, const char* node, enum Entrance entrance);

/// Gives it back when there is no collector after all: that is no crash. The job's steps will not try again.
void drop_run_lock(const struct Settings* settings, uint32_t job, const char* node, int lock);

/// Ends the job's collector and waits for it, at most settings->epilog_seconds. Removes the job's files here, except
/// the file of a collector that crashed: that one is returned, locked; -1 otherwise.
int stop_collector(const struct Settings* settings, uint32_t job, const char* node);

// --- collector.c: the process

enum { kMostEntries = 32, kEnvironmentText = 131072 };

/// Everything the collector inherits of the environment: names are an exact list, because a variable of the user must
/// not decide how a program runs as root.
struct Environment {
  size_t count;
  size_t used;
  char* entries[kMostEntries + 1];
  char text[kEnvironmentText];
};

/// The value of NAME in "NAME=value" entries that end with NULL; NULL if it is not there.
const char* find_variable(char** environment, const char* name);

/// Left out if it does not fit, or if there is one of this name.
void add_variable(struct Environment* environment, const char* name, const char* value);

struct Start {
  uint32_t job;
  uid_t uid;
  gid_t gid;
  const char* node;
  const char* request;
  bool orphan;  // only to deliver the files of a crashed collector
};

/// Starts the collector as a process of its own, with `lock` as descriptor 3, and returns within two seconds: 0, or the
/// errno that kept it from running.
int start_collector(const struct Settings* settings, const struct Start* start, struct Environment* environment,
                    int lock);
