#include "postproc/mail/outbox.h"

#include <spdlog/fmt/fmt.h>
#include <sys/wait.h>

#include <cstdlib>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/run_program.h"
#include "hdf5schema/basics/text.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

/// The variables that a mail program may need, without LD_* and the like of the caller.
std::vector<std::string> environment_of_mail() {
  std::vector<std::string> environment{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"};
  for (const char* name : {"HOME", "USER", "LOGNAME"}) {
    if (const char* value = std::getenv(name); value != nullptr) environment.push_back(std::string(name) + "=" + value);
  }
  return environment;
}

std::string first_line(std::string_view text) {
  std::string_view line;
  while (next_line(text, line)) {
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return printable(line, 200);
  }
  return {};
}

}  // namespace

void send_mail(std::span<const std::string> program, std::string_view mail, std::chrono::milliseconds limit) {
  if (program.empty()) throw Error("no mail program is configured");
  const std::string& name = program.front();
  const ProgramEnd end = run_program({.command = {program.begin(), program.end()},
                                      .environment = environment_of_mail(),
                                      .input = mail,
                                      .listen = ProgramRun::Listen::errors,
                                      .limit = limit});
  if (end.start_error != 0) throw system_error(name, end.start_error);
  if (!end.status) {
    const double seconds = std::chrono::duration<double>(limit).count();
    throw Error(fmt::format("{} did not finish within {:.3g} s", name, seconds));
  }
  const std::string output = first_line(end.output);
  const std::string words = output.empty() ? "" : ": " + output;
  if (WIFSIGNALED(*end.status)) {
    throw Error(fmt::format("{} was ended by signal {}{}", name, WTERMSIG(*end.status), words));
  }
  if (WEXITSTATUS(*end.status) != 0) {
    throw Error(fmt::format("{} failed with status {}{}", name, WEXITSTATUS(*end.status), words));
  }
  if (!end.input_taken) throw Error(fmt::format("{} did not take the whole mail{}", name, words));
}

}  // namespace reveal
