// Stands for slurmstepd in the prolog and the epilog of job 4711: calls the plugin as Slurm does, and ends.
//   spank_host PLUGIN prolog|epilog ARGUMENT...
#include <dlfcn.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef int (*Callback)(spank_t, int, char**);

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...) {
  va_list arguments;
  (void)spank;
  if (item != S_JOB_ID && item != S_JOB_UID && item != S_JOB_GID) return ESPANK_NOT_AVAIL;
  va_start(arguments, item);
  *va_arg(arguments, uint32_t*) = item == S_JOB_ID ? 4711 : 54321;
  va_end(arguments);
  return ESPANK_SUCCESS;
}

spank_err_t spank_option_getopt(spank_t spank, struct spank_option* option, char** text) {
  (void)spank;
  (void)option;
  *text = getenv("HOST_REQUEST");
  return *text != NULL ? ESPANK_SUCCESS : ESPANK_ERROR;
}

spank_context_t spank_context(void) {
  return S_CTX_JOB_SCRIPT;
}
spank_err_t spank_option_register(spank_t spank, struct spank_option* option) {
  (void)spank;
  (void)option;
  return ESPANK_SUCCESS;
}
spank_err_t spank_setenv(spank_t spank, const char* name, const char* value, int overwrite) {
  (void)spank;
  (void)name;
  (void)value;
  (void)overwrite;
  return ESPANK_SUCCESS;
}
spank_err_t spank_job_control_setenv(spank_t spank, const char* name, const char* value, int overwrite) {
  return spank_setenv(spank, name, value, overwrite);
}
void slurm_info(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}
void slurm_spank_log(const char* format, ...) {
  (void)format;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  void* const plugin = dlopen(argv[1], RTLD_NOW);
  char name[64];
  snprintf(name, sizeof name, "slurm_spank_job_%s", argv[2]);
  const Callback callback = plugin != NULL ? (Callback)dlsym(plugin, name) : NULL;
  if (callback == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  return callback(NULL, argc - 3, argv + 3);
}
