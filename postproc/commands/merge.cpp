#include <spdlog/fmt/fmt.h>

#include <filesystem>

#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/json/json_fields.h"
#include "postproc/telemetry/job_file.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

class Merge final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    add_job_directory(app, directory_);
    app.add_flag("--pack", pack_, "copy the traces into the file");
  }

  int run(const CommonOptions& common) override {
    directory_ = directory_of_number(directory_);
    need_directory(directory_);
    need_own_directory(directory_);
    const MergedJob job = merge_job_directory(directory_, pack_ ? MergeForm::self_contained : MergeForm::links);
    for (const std::string& problem : job.problems) complain(problem);
    if (common.json) {
      const Json json{
          {"schema", "reveal.merge/1"}, {"file", job.path.string()}, {"nodes", job.nodes}, {"problems", job.problems}};
      print(json_text(json, 2) + "\n");
    } else {
      std::error_code error;
      const auto bytes = static_cast<double>(std::filesystem::file_size(job.path, error));
      print(fmt::format("{}: {}, {}{}\n", job.path.string(), counted(static_cast<double>(job.nodes.size()), "node"),
                        error ? "size not known" : quantity(bytes, "bytes"),
                        pack_ ? "" : "; it links to the traces in its directory, which must stay there"));
    }
    return 0;
  }

 private:
  std::string directory_;
  bool pack_ = false;
};

const RegisteredCommand kMergeCommand{
    {.order = 30,
     .name = "merge",
     .help = "Write job.h5, one file for the traces of all nodes, for your own analysis",
     .examples = "  reveal merge reveal-4711           external links: small, stays in the directory\n"
                 "  reveal merge reveal-4711 --pack    one self-contained file",
     .make = make_command<Merge>}};

}  // namespace
}  // namespace reveal
