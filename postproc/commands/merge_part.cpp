#include "postproc/analysis/merge_part.h"

#include <spdlog/fmt/fmt.h>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/file_pattern.h"
#include "postproc/analysis/job_summaries.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/json/json_fields.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

std::string known_part(const std::string& text) {
  return part_number(text) ? "" : fmt::format("{}: no part like 3/8, of at most {}", text, kMostParts);
}

class MergePart final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    add_job_directory(app, directory_);
    app.add_option("--part", part_,
                   "3/8: the third of eight (default: the rank of this process "
                   "under srun or mpirun)")
        ->type_name("N/COUNT")
        ->check(known_part);
    app.add_option("--threads", threads_, "summaries read in parallel (default: one per cpu, at most 3)")
        ->type_name("N");
  }

  int run(const CommonOptions& common) override {
    const std::string directory = job_directory(directory_);
    need_directory(directory);
    need_own_directory(directory);
    const PartNumber part = part_.empty() ? part_of_environment(process_environment) : *part_number(part_);
    std::vector<InputProblem> problems;
    ReportOptions options;
    options.settings = common.settings();
    options.now_utc_ns = utc_now_ns();
    options.threads = threads_;
    const std::size_t nodes = write_merge_part(directory, part, options, problems);
    for (const InputProblem& problem : problems) complain(problem.text);
    if (common.json) {
      const Json json{
          {"schema", "reveal.merge_part/1"}, {"part", part.number}, {"parts", part.count}, {"nodes", nodes}};
      print(json_text(json, 2) + "\n");
    } else {
      print(fmt::format("part {} of {}: {}\n", part.number, part.count, counted(static_cast<double>(nodes), "node")));
    }
    return 0;
  }

  [[nodiscard]] Inputs inputs() const override { return {.paths = {job_directory(directory_)}}; }

 private:
  std::string directory_;
  std::string part_;
  std::size_t threads_ = 0;
};

constexpr const char* kExamples =
    "  srun -n8 reveal merge-part reveal-4711 && reveal report reveal-4711\n"
    "  mpirun -n 2 reveal merge-part reveal-4711\n"
    "  reveal merge-part reveal-4711 --part 1/2";

const RegisteredCommand kMergePartCommand{
    {.order = 31,
     .name = "merge-part",
     .help = "Read a part of the nodes of a job of thousands, so that `reveal report` takes less time",
     .examples = kExamples,
     .make = make_command<MergePart>}};

}  // namespace
}  // namespace reveal
