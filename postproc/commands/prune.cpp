#include <spdlog/fmt/fmt.h>

#include <filesystem>

#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/detect/paper/prune_jobs.h"
#include "postproc/json/json_fields.h"

namespace reveal {
namespace {

class Prune final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    app.add_option("dirs", options_.directories,
                   "job directories; a metric is kept if at least one of these jobs needs it")
        ->required()
        ->type_name("DIR");
    app.add_option("--out", options_.out, "file to write, for reveal-collect --metrics")->required()->type_name("FILE");
    app.add_option("--threshold", options_.threshold, "mean |r| above which one channel of a group is enough")
        ->check(CLI::Range(0.0, 1.0) & finite())
        ->capture_default_str();
    app.add_flag("--only-moving", only_moving_,
                 "also omit channels that never changed: a smaller list, but errors that have not occurred yet are not "
                 "recorded");
  }

  int run(const CommonOptions& common) override {
    options_.directories = directories();
    for (const std::filesystem::path& directory : options_.directories) need_directory(directory.string());
    if (only_moving_) options_.unmoved = RetainedMetrics::Unmoved::dropped;
    const PruneResult result = prune_jobs(options_);
    const RetainedMetrics::Count& channels = result.channels;
    if (common.json) {
      const Json json{{"schema", "reveal.prune/1"},
                      {"out", options_.out.string()},
                      {"lines", result.lines},
                      {"channels_moved", channels.moved},
                      {"channels_retained", channels.retained},
                      {"channels_unmoved", channels.unmoved}};
      print(json_text(json, 2) + "\n");
    } else {
      const double saved =
          channels.moved == 0 ? 0 : 1 - static_cast<double>(channels.retained) / static_cast<double>(channels.moved);
      print(fmt::format("{}: kept {} of {} channels that changed, {:.0f} % fewer; {} never changed and are {}\n",
                        options_.out.string(), channels.retained, channels.moved, 100 * saved, channels.unmoved,
                        only_moving_ ? "left out" : "kept: they need almost no space until they change"));
    }
    return 0;
  }

  [[nodiscard]] Inputs inputs() const override { return {.paths = directories(), .outputs = {options_.out}}; }

 private:
  [[nodiscard]] std::vector<std::filesystem::path> directories() const {
    std::vector<std::filesystem::path> found;
    for (const std::filesystem::path& given : options_.directories) {
      found.emplace_back(directory_of_number(given.string()));
    }
    return found;
  }

  PruneOptions options_;
  bool only_moving_ = false;
};

const RegisteredCommand kPruneCommand{
    {.order = 60,
     .name = "prune",
     .help = "Write a list of metrics for reveal-run --metrics, without those that change as others do",
     .examples = "  reveal prune reveal-4711 reveal-4712 --out selected.metrics\n"
                 "  reveal-collect --metrics selected.metrics --output n03.h5",
     .make = make_command<Prune>}};

}  // namespace
}  // namespace reveal
