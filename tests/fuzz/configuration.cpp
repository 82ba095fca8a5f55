// Configuration files, a user's text behind --reveal=, and patterns of file names.
#include "hdf5schema/basics/config.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/request.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/mail/mail_settings.h"
#include "target.h"

namespace reveal::fuzz::configuration {
namespace {

void run(std::string_view input) {
  for (const ConfigOwner owner : {ConfigOwner::site, ConfigOwner::user}) {
    Config config;
    config.read(input, "reveal.conf", owner);
    std::vector<std::string> problems;
    static_cast<void>(analysis_settings(config));
    const MailSettings mail = mail_settings(config, problems);
    require(owner == ConfigOwner::site || !mail.enabled, "a user's file switches no mail on");
    for (const ConfigKey* key : all_config_keys()) {
      require(!config.place(*key).empty() || config.list(*key) == Config().list(*key),
              "what nobody set is the default");
    }
    require(config.size(config_key("slurm", "spool_max")) > 0, "no mistake lifts a limit");
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
}  // namespace reveal::fuzz::configuration
