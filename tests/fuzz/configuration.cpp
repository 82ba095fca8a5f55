// Configuration files, what a user writes behind --reveal=, and patterns of file names.
#include "hdf5schema/basics/config_file.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/request.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/mail/mail_settings.h"
#include "target.h"

namespace reveal::fuzz {
namespace {

void run(std::string_view input) {
  try {
    static_cast<void>(parse_config(input, "reveal.conf"));
  } catch (const Error&) {
  }
  try {
    AnalysisSettings settings;
    apply_analysis_config(settings, input, "reveal.conf");
  } catch (const Error&) {
  }
  try {
    std::vector<std::string> problems;
    static_cast<void>(parse_mail_settings(input, "reveal.conf", problems));
  } catch (const Error&) {
  }
  static_cast<void>(requested(input, "output"));
  const std::string part = file_name_part(input);
  require(part.find('/') == std::string::npos && part.find('\0') == std::string::npos && part != "..",
          "a part of a file name stays in its directory");
  try {
    static_cast<void>(expand_pattern(input, [](const char*) { return std::string("../x"); }));
  } catch (const Error&) {
  }
}

const RegisteredTarget kTarget{{"configuration", run}};

}  // namespace
}  // namespace reveal::fuzz
