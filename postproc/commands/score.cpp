#include "postproc/score/score.h"

#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/json/json_fields.h"

namespace reveal {
namespace {

class Score final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    app.add_option("file", options_.input, "file with the series, as described below")
        ->required()
        ->type_name("FILE.h5");
    app.add_option("--window", options_.window, "samples per window")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--stride", options_.stride, "samples between windows")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--out", options_.windows_csv, "one line per window")->required()->type_name("CSV");
    app.add_option("--episodes", options_.episodes_csv, "one line per episode")->type_name("CSV");
    app.add_option("--pipeline", options_.pipeline, "detectors: reveal or paper")
        ->capture_default_str()
        ->type_name("NAME")
        ->check(known_pipeline);
    app.add_option("--seed", options_.seed, "seed of the random numbers")->capture_default_str();
  }

  int run(const CommonOptions& common) override {
    const ScoreResult result = run_score(options_);
    if (!common.json) {
      print(as_line(result) + "\n");
      return 0;
    }
    Json json{{"schema", "reveal.score/1"},
              {"samples", result.samples},
              {"channels", result.channels},
              {"interval_seconds", result.interval_seconds},
              {"insufficient", result.insufficient},
              {"windows", result.windows},
              {"strong", result.strong},
              {"weak", result.weak},
              {"out", options_.windows_csv.string()}};
    if (!options_.episodes_csv.empty()) json["episodes"] = options_.episodes_csv.string();
    print(json_text(json, 2) + "\n");
    return 0;
  }

  [[nodiscard]] Inputs inputs() const override {
    return {.paths = {options_.input}, .outputs = {options_.windows_csv, options_.episodes_csv}};
  }

 private:
  ScoreOptions options_;
};

const RegisteredCommand kScoreCommand{
    {.order = 50,
     .name = "score",
     .help = "Run the detectors on a multivariate series of your own (HDF5)",
     .examples =
         "  reveal score series.h5 --out scores.csv --episodes episodes.csv\n"
         "  reveal score series.h5 --out scores.csv --pipeline paper --window 30 --stride 10\n"
         "FILE.h5 holds:\n"
         "  values            dataset of numbers [time, channel], NaN where missing\n"
         "  channels          dataset of one text per channel; \"cpu.user/cpu1\" and \"cpu.user/cpu2\" are peers\n"
         "  interval_seconds  attribute of the file: seconds from one sample to the next\n"
         "  kind, subsystem   datasets of one text per channel, may be left out: gauge (default), counter (values\n"
         "                    are increments), event, state; cpu (default), memory, network, storage, gpu, process\n"
         "At least 30 windows are needed (320 samples with the defaults), and 20 s. With an interval of up to 1 s the\n"
         "series is treated as a job: its first 5 s and last 2.5 s, and intervals shorter than 3 s, are not judged.",
     .make = make_command<Score>}};

}  // namespace
}  // namespace reveal
