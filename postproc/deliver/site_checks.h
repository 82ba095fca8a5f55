// Checks the set-up around the probes on this node, the first question of support. Reads files and the output of
// Slurm's own commands; needs no privilege and changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hdf5schema/basics/user_memory.h"

namespace reveal {

struct SiteCheck {
  enum class Result : std::uint8_t { ok, problem, unused };  // unused: not set up here, which is no fault
  std::string name;
  Result result = Result::ok;
  std::string message;
  std::string remedy;  // remedy of a problem
};
[[nodiscard]] std::string_view name_of(SiteCheck::Result) noexcept;
void fields(auto& v, const SiteCheck& check) {
  v("name", check.name);
  v("result", std::string(name_of(check.result)));
  v("message", check.message);
  v("remedy", check.remedy);
}

/// Where things are; another root in tests.
struct SitePlaces {
  std::filesystem::path root = "/";
  std::filesystem::path programs;  // the directory of `reveal`
  std::filesystem::path history;   // history of this user; empty with the reason beside it
  std::string why_no_history;
  std::vector<std::string> config_problem;       // problems of loading reveal.conf
  bool query_slurm = true;                       // run scontrol where it is
  std::uint64_t memory = user_memory_of_node();  // for a report
};

/// Each of them, in the order in which they are printed.
[[nodiscard]] std::vector<SiteCheck> check_site(const SitePlaces& places);

}  // namespace reveal
