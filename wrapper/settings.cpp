#include "wrapper/settings.h"

namespace reveal {
namespace {

constexpr RunOption kRunOptions[] = {
    {config_key("run", "output"), "--output", "DIR"},
    {config_key("run", "node"), "--node", "NAME"},
    {config_key("run", "interval"), "--interval", "TIME"},
    {config_key("run", "mail"), "--mail", "ADDR"},
    {config_key("run", "probes"), "--probes", "A,B"},
    {config_key("run", "metrics"), "--metrics", "FILE"},
    {config_key("run", "retain"), "--retain", "FORM"},
    {config_key("run", "name"), "--name", "TEXT"},
    {config_key("run", "tag"), "--tag", "KEY=VALUE"},
    {config_key("run", "stack"), "--stack", "", OptionForm::turns_on},
    {config_key("run", "stack_budget"), "--stack-budget", "PERCENT"},
    {config_key("run", "stack_without"), "--stack-without", "A,B"},
    {config_key("run", "intervene"), "--no-intervene", "", OptionForm::turns_off,
     "Change nothing in the running job, also where the site allows it"},
    {config_key("run", "faster_reading"), "--no-faster-reading", "", OptionForm::turns_off,
     "Read no probe more often while something is unusual"},
    {config_key("run", "report"), "--no-report", "", OptionForm::turns_off, "Record only, analyse later"},
    {config_key("run", "report_limit"), "--report-limit", "TIME"},
    {config_key("run", "quiet"), "--quiet", "", OptionForm::turns_on},
};

}  // namespace

std::span<const RunOption> run_options() noexcept {
  return kRunOptions;
}

std::string help_of(const RunOption& option) {
  std::string help(option.help.empty() ? option.key.help : option.help);
  const bool shown = option.form == OptionForm::value && !option.key.fallback.empty();
  return shown ? help + " (default " + std::string(option.key.fallback) + ")" : help;
}

RunSettings settings_of(const Config& config) {
  RunSettings settings;
  settings.output = config.text(config_key("run", "output"));
  settings.node = config.text(config_key("run", "node"));
  settings.interval = config.text(config_key("run", "interval"));
  settings.mail = config.text(config_key("run", "mail"));
  settings.name = config.text(config_key("run", "name"));
  settings.probes = config.text(config_key("run", "probes"));
  settings.metrics = config.text(config_key("run", "metrics"));
  settings.gpu_library = config.text(config_key("gpu", "library"));
  settings.retain = config.text(config_key("run", "retain"));
  if (settings.retain == config_key("run", "retain").fallback) settings.retain.clear();
  settings.report_limit =
      std::chrono::duration_cast<std::chrono::milliseconds>(config.time(config_key("run", "report_limit")));
  for (const std::string& tag : config.list(config_key("run", "tag"))) {
    const std::size_t equals = tag.find('=');
    settings.tags.emplace_back(tag.substr(0, equals), tag.substr(equals + 1));
  }
  settings.stack = config.truth(config_key("run", "stack"));
  settings.stack_budget = config.text(config_key("run", "stack_budget"));
  if (settings.stack_budget == config_key("run", "stack_budget").fallback) settings.stack_budget.clear();
  settings.stack_without = config.text(config_key("run", "stack_without"));
  if (config.truth(config_key("run", "intervene")))
    settings.interventions = config.text(config_key("intervention", "rules"));
  settings.faster_reading = config.truth(config_key("run", "faster_reading"));
  settings.report = config.truth(config_key("run", "report"));
  settings.quiet = config.truth(config_key("run", "quiet"));
  return settings;
}

}  // namespace reveal
