#include "postproc/analysis/slurm_job_record.h"

#include <nlohmann/json.hpp>

#include "postproc/json/shallow_json.h"
#include "postproc/json/whole_number.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

constexpr std::size_t kLargestFacts = 64 << 10;

}  // namespace

void read_slurm_job_record(const std::filesystem::path& directory, ReportJob& job) {
  try {
    const auto json = nlohmann::json::parse(shallow(read_text_file(directory / kSlurmJobRecordFile, kLargestFacts)));
    const auto word = [&json](const char* key) { return json.value(key, std::string()); };
    job.id = word("id");
    if (!word("array_job").empty()) job.array = word("array_job") + "_" + word("array_task");
    if (!word("het_job").empty()) job.het = word("het_job");
    if (!word("name").empty()) job.name = word("name");
    if (!word("cluster").empty()) job.cluster = word("cluster");
    if (!word("state").empty()) job.state = word("state");
    if (job.run_key.empty()) job.run_key = word("run_key");
    job.restart = json.contains("restart") ? whole_number<int>(json["restart"]) : 0;
    if (json.contains("exit_code") && !json["exit_code"].is_null())
      job.exit_code = whole_number<int>(json["exit_code"]);
  } catch (const std::exception&) {
    return;  // none, or not ours: the traces have the rest
  }
}

}  // namespace reveal
