#include "hdf5schema/basics/program_name.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "hdf5schema/basics/own_program.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

enum class Runs : std::uint8_t {
  script,   // its first argument that is a file
  program,  // the command behind its own options
  unknown,  // its program is in a file, or is code
};

struct Interpreter {
  std::string_view name;  // without the version: python3.11, lua5.4
  Runs runs = Runs::script;
  std::string_view code;    // the options with code as their argument: -c, -e
  std::string_view module;  // the option with a module as its argument: -m
};

constexpr Interpreter kInterpreters[] = {
    {"python", Runs::script, "c", "m"},
    {"pypy", Runs::script, "c", "m"},
    {"ipython", Runs::script, "c", "m"},
    {"sh", Runs::script, "c", ""},
    {"ash", Runs::script, "c", ""},
    {"bash", Runs::script, "c", ""},
    {"csh", Runs::script, "c", ""},
    {"dash", Runs::script, "c", ""},
    {"fish", Runs::script, "c", ""},
    {"ksh", Runs::script, "c", ""},
    {"tcsh", Runs::script, "c", ""},
    {"zsh", Runs::script, "c", ""},
    {"deno", Runs::script, "", ""},
    {"gnuplot", Runs::script, "e", ""},
    {"java", Runs::script, "", ""},
    {"julia", Runs::script, "eE", ""},
    {"lua", Runs::script, "e", ""},
    {"node", Runs::script, "ep", ""},
    {"octave", Runs::script, "", ""},
    {"perl", Runs::script, "eE", ""},
    {"php", Runs::script, "r", ""},
    {"r", Runs::script, "e", ""},
    {"rscript", Runs::script, "e", ""},
    {"ruby", Runs::script, "e", ""},
    {"tclsh", Runs::script, "", ""},
    // These run Python scripts, on many processes.
    {"accelerate", Runs::script, "", "m"},
    {"deepspeed", Runs::script, "", "m"},
    {"torchrun", Runs::script, "", "m"},
    {"apptainer", Runs::program, "", ""},
    {"busybox", Runs::program, "", ""},
    {"chrt", Runs::program, "", ""},
    {"env", Runs::program, "", ""},
    {"horovodrun", Runs::program, "", ""},
    {"ionice", Runs::program, "", ""},
    {"mpiexec", Runs::program, "", ""},
    {"mpirun", Runs::program, "", ""},
    {"nice", Runs::program, "", ""},
    {"nohup", Runs::program, "", ""},
    {"numactl", Runs::program, "", ""},
    {"orterun", Runs::program, "", ""},
    {"prterun", Runs::program, "", ""},
    {"singularity", Runs::program, "", ""},
    {"srun", Runs::program, "", ""},
    {"stdbuf", Runs::program, "", ""},
    {"taskset", Runs::program, "", ""},
    {"time", Runs::program, "", ""},
    {"timeout", Runs::program, "", ""},
    {"awk", Runs::unknown, "", ""},
    {"gawk", Runs::unknown, "", ""},
    {"make", Runs::unknown, "", ""},
    {"matlab", Runs::unknown, "", ""},
    {"ninja", Runs::unknown, "", ""},
    {"xargs", Runs::unknown, "", ""},
};

/// Modules of Python that run a script themselves: `python3 -m torch.distributed.run train.py`.
constexpr std::string_view kLaunchingModules[] = {"accelerate.commands.launch", "cProfile",
                                                  "deepspeed.launcher.runner",  "mpi4py",
                                                  "torch.distributed.launch",   "torch.distributed.run"};

/// The names that Slurm gives a job without a name.
constexpr std::string_view kNoNames[] = {"wrap", "interactive", "sbatch", "salloc"};

std::string_view base_name(std::string_view word) {
  return word.substr(word.rfind('/') + 1);  // npos + 1 is 0
}

const Interpreter* interpreter_of(std::string_view program) noexcept {
  program = program.substr(0, std::min(program.find_last_not_of("0123456789.") + 1, program.size()));
  constexpr auto kSame = [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + ('a' - 'A') : b); };
  const auto* const found =
      std::find_if(std::begin(kInterpreters), std::end(kInterpreters), [&](const Interpreter& known) {
        return std::equal(known.name.begin(), known.name.end(), program.begin(), program.end(), kSame);
      });
  return found == std::end(kInterpreters) ? nullptr : found;
}

bool is_file_here(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_program_here(const std::string& word) {
  return word.find('/') != std::string::npos ? is_executable(word) : !find_in_path(word).empty();
}

/// "train.py", "./solver"; not "4", "0.5" or "gpu".
bool looks_like_a_file(const std::string& word) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const std::size_t dot = word.rfind('.');
  return word.find('/') != std::string::npos ||
         (dot != std::string::npos && dot > 0 && dot + 1 < word.size() && is_letter(word[dot + 1]));
}

/// "-c", "-lc" for "c".
bool ends_in_option(const std::string& word, std::string_view letters) {
  return word.size() > 1 && word[0] == '-' && word[1] != '-' && letters.find(word.back()) != std::string_view::npos;
}

}  // namespace

bool is_interpreter(std::string_view program) noexcept {
  return interpreter_of(program) != nullptr;
}

bool runs_scripts(std::string_view program) noexcept {
  const Interpreter* known = interpreter_of(program);
  return known != nullptr && known->runs == Runs::script;
}

bool identifies(std::string_view name) noexcept {
  return !name.empty() && !is_interpreter(name) &&
         std::find(std::begin(kNoNames), std::end(kNoNames), name) == std::end(kNoNames);
}

const CommandWords& words_of_this_node() {
  static const CommandWords words{is_file_here, is_program_here};
  return words;
}

const CommandWords& words_by_their_looks() {
  static const CommandWords words{looks_like_a_file, looks_like_a_file};
  return words;
}

std::string program_name(std::span<const std::string> command, const CommandWords& words) {
  if (command.empty()) return "";
  const Interpreter* by = interpreter_of(base_name(command.front()));
  if (by == nullptr) return std::string(base_name(command.front()));
  std::string image;  // image of a container: its name is better than none
  bool behind_option = false;
  for (std::size_t i = 1; i < command.size() && by->runs != Runs::unknown; ++i) {
    const std::string& word = command[i];
    if (word.starts_with("-")) {
      if (ends_in_option(word, by->code)) return "";
      const bool module = ends_in_option(word, by->module) && i + 1 < command.size();
      if (module) {
        const std::string& name = command[++i];
        const bool launches =
            std::find(std::begin(kLaunchingModules), std::end(kLaunchingModules), name) != std::end(kLaunchingModules);
        if (!launches) return std::string(base_name(name));
      }
      behind_option = !module && word != "--" && word.find('=') == std::string::npos;
      continue;
    }
    const std::string name(base_name(word));
    // A word after an option may be its value and look like a program: `srun -J test ./solver`.
    const bool may_be_value = behind_option && word.find('/') == std::string::npos;
    behind_option = false;
    if (by->runs == Runs::script) {
      if (words.is_script(word)) return name;
    } else if (const Interpreter* next = interpreter_of(name); next != nullptr) {
      by = next;
    } else if (name.ends_with(".sif")) {
      image = name;
    } else if (!may_be_value && words.is_program(word)) {
      return name;
    }
  }
  return image;
}

std::string job_name(std::string_view given, std::span<const std::string> command, const CommandWords& words) {
  if (identifies(given)) return std::string(given);
  std::string program = program_name(command, words);
  return program.empty() ? std::string(given) : program;
}

}  // namespace reveal
