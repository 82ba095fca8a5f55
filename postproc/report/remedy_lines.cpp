#include "postproc/report/remedy_lines.h"

#include <algorithm>
#include <iterator>

namespace reveal {
namespace {

struct FirstWord {
  std::string_view word;
  LineForm form;
};
constexpr FirstWord kFirstWords[] = {
    {"#SBATCH", LineForm::job_script},
    {"export", LineForm::job_script},
    {"unset", LineForm::job_script},
    {"module", LineForm::job_script},
    {"ulimit", LineForm::job_script},
    {"srun", LineForm::before_program},
    {"mpirun", LineForm::before_program},
    {"mpiexec", LineForm::before_program},
    {"torchrun", LineForm::before_program},
    {"taskset", LineForm::before_program},
    {"numactl", LineForm::before_program},
    {"check", LineForm::prose},
    {"look", LineForm::prose},
};

bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}

}  // namespace

LineForm form_of(std::string_view line) {
  const std::string_view word = line.substr(0, line.find(' '));
  const auto* known = std::find_if(std::begin(kFirstWords), std::end(kFirstWords),
                                   [word](const FirstWord& one) { return one.word == word; });
  if (known != std::end(kFirstWords)) return known->form;
  if (word.find('=') != std::string_view::npos && is_capital(word.front()))
    return LineForm::before_program;  // NAME=value
  // A sentence, or a file and what belongs into it.
  const bool sentence = word.size() > 2 && is_capital(word[0]) && word.find_first_of("/-_=(") == std::string_view::npos;
  return sentence || word.ends_with(':') || line.ends_with('.') ? LineForm::prose : LineForm::look;
}

std::string_view label_of(LineForm form) {
  switch (form) {
    case LineForm::job_script:
      return "job script";
    case LineForm::before_program:
      return "start with";
    case LineForm::look:
      return "look";
    case LineForm::prose:
      break;
  }
  return "to change";
}

std::vector<std::string> lines_with_form(const std::vector<std::string>& lines, LineForm form) {
  std::vector<std::string> chosen;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(chosen),
               [form](const std::string& line) { return form_of(line) == form; });
  return chosen;
}

TypedLine typed_line(std::string_view line) {
  const std::size_t sign = line.find("  # ");
  const std::size_t other = sign == std::string_view::npos ? line.find(" # ") : sign;
  if (other == std::string_view::npos) return {std::string(line), ""};
  const std::string_view command = line.substr(0, other);
  const std::string_view comment = line.substr(line.find('#', other) + 1);
  return {std::string(command.substr(0, command.find_last_not_of(' ') + 1)),
          std::string(comment.substr(std::min(comment.find_first_not_of(' '), comment.size())))};
}

}  // namespace reveal
