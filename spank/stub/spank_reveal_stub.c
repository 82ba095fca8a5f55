// spank_reveal_stub.so: accepts --reveal while spank_reveal.so is away, for example between an upgrade of Slurm and
// that of reveal: SPANK refuses a command line with an unknown option. Profiles nothing; does nothing beside the plugin
// itself. One file without dependencies, for the Slurm release at hand:
//   cc -shared -fPIC -o spank_reveal_stub.so spank_reveal_stub.c
#define _GNU_SOURCE
#include <link.h>
#include <slurm/spank.h>
#include <stdlib.h>
#include <string.h>

// The plugin's name, so that a stub on a login node passes the option on to the plugin on compute nodes.
SPANK_PLUGIN(reveal, 1)

enum { kOptionalValue = 2 };

static int is_plugin(struct dl_phdr_info* object, size_t size, void* found) {
  const char* const slash = strrchr(object->dlpi_name, '/');
  (void)size;
  if (slash != NULL && strcmp(slash + 1, "spank_reveal.so") == 0) *(int*)found = 1;
  return 0;
}

/// Once for each submission: a job's own sruns inherit the option.
static int accept_option(int value, const char* text, int remote) {
  (void)value;
  if (!remote && getenv("SLURM_JOB_ID") == NULL && (text == NULL || strcmp(text, "off") != 0)) {
    slurm_spank_log("reveal: not installed on this cluster at the moment: --reveal has no effect");
  }
  return ESPANK_SUCCESS;
}

/// All plugins are loaded before the first one is called. Two that register the same option are an error.
int slurm_spank_init(spank_t spank, int count, char** arguments) {
  static struct spank_option option = {.name = "reveal",
                                       .arginfo = "[key=value,...]",
                                       .usage = "[reveal] not installed on this cluster at the moment: no effect",
                                       .has_arg = kOptionalValue,
                                       .cb = accept_option};
  int found = 0;
  (void)count;
  (void)arguments;
  dl_iterate_phdr(is_plugin, &found);
  if (!found) spank_option_register(spank, &option);
  return ESPANK_SUCCESS;
}
