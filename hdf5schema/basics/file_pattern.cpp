#include "hdf5schema/basics/file_pattern.h"

#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

std::string user_name(const Environment& environment) {
  for (const char* name : {"SLURM_JOB_USER", "USER", "LOGNAME"}) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return std::to_string(::geteuid());
}

}  // namespace

std::string process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<std::string> names_of_process_environment() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

std::string file_name_part(std::string_view text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+=@-";
  constexpr std::size_t kLongest = 100;
  std::string part(text.substr(0, kLongest));
  for (char& letter : part) {
    if (kAllowed.find(letter) == std::string_view::npos) letter = '_';
  }
  if (part.empty() || part.front() == '.') part.insert(part.begin(), '_');
  return part;
}

bool is_file_name(std::string_view name) noexcept {
  constexpr std::string_view kNever("/\0", 2);
  return !name.empty() && name != "." && name != ".." && name.find_first_of(kNever) == std::string_view::npos;
}

std::string expand_pattern(std::string_view pattern, const Environment& environment) {
  const auto first_set = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (std::string value = environment(name); !value.empty()) return file_name_part(value);
    }
    // No job: two runs of the same command line must still not meet.
    return std::to_string(::getpid());
  };
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
      continue;
    }
    const char letter = ++i < pattern.size() ? pattern[i] : '\0';
    switch (letter) {
      case '%':
        path += '%';
        break;
      case 'j':
        path += first_set({"SLURM_JOB_ID"});
        break;
      case 'A':
        path += first_set({"SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID"});
        break;
      case 'a':
        path += environment("SLURM_ARRAY_TASK_ID").empty() ? "0" : first_set({"SLURM_ARRAY_TASK_ID"});
        break;
      case 'x':
        path += first_set({"SLURM_JOB_NAME", "SLURM_JOB_ID"});
        break;
      case 'u':
        path += file_name_part(user_name(environment));
        break;
      default:
        throw Error("unknown pattern \"%" + std::string(1, letter != '\0' ? letter : ' ') +
                    "\"; known are %j %x %u %A %a");
    }
  }
  return path;
}

}  // namespace reveal
