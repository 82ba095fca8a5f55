#include "postproc/diagnose/interpreters.h"

#include <algorithm>
#include <iterator>

namespace reveal {
namespace {

constexpr std::string_view kInterpreters[] = {
    "ash",     "awk",     "bash",        "busybox",    "csh",       "dash",       "deno",    "env",
    "fish",    "gawk",    "ipython",     "java",       "julia",     "ksh",        "lua",     "make",
    "matlab",  "mpiexec", "mpirun",      "ninja",      "node",      "nohup",      "numactl", "octave",
    "orterun", "perl",    "php",         "prterun",    "pypy",      "python",     "r",       "rscript",
    "ruby",    "sh",      "singularity", "apptainer",  "srun",      "stdbuf",     "taskset", "tclsh",
    "time",    "timeout", "torchrun",    "accelerate", "deepspeed", "horovodrun", "xargs",   "zsh"};

}  // namespace

bool is_interpreter(std::string_view program) noexcept {
  // python3.11 is python.
  program = program.substr(0, std::min(program.find_last_not_of("0123456789.") + 1, program.size()));
  constexpr auto kSame = [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + ('a' - 'A') : b); };
  return std::any_of(std::begin(kInterpreters), std::end(kInterpreters), [&](std::string_view known) {
    return std::equal(known.begin(), known.end(), program.begin(), program.end(), kSame);
  });
}

}  // namespace reveal
