#include "postproc/analysis/slurm_job_record.h"

#include "postproc/json/json_fields.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

constexpr std::size_t kLargestRecord = 64 << 10;

}  // namespace

void fields(auto& v, Visited<decltype(v), SlurmJobRecord>& record) {
  v("id", record.id);
  v("restart", record.restart);
  v("array_job", record.array_job);
  v("array_task", record.array_task);
  v("het_job", record.het_job);
  v("het_offset", record.het_offset);
  v("name", record.name);
  v("account", record.account);
  v("partition", record.partition);
  v("cluster", record.cluster);
  v("state", record.state);
  v("run_key", record.run_key);
  v("exit_code", record.exit_code);
}

std::string render_slurm_job_record(const SlurmJobRecord& record) {
  return json_text(JsonWriter::whole(record), 2) + "\n";
}

std::optional<SlurmJobRecord> read_slurm_job_record(const std::filesystem::path& directory) {
  try {
    SlurmJobRecord record;
    const Json json = parse_json(read_text_file(directory / kSlurmJobRecordFile, kLargestRecord), kSlurmJobRecordFile);
    JsonReader reader(json, kSlurmJobRecordFile);
    fields(reader, record);
    return record;
  } catch (const std::exception&) {
    return std::nullopt;  // the traces have the rest
  }
}

void apply(const SlurmJobRecord& record, ReportJob& job) {
  job.id = record.id;
  if (!record.array_job.empty()) job.array = record.array_job + "_" + record.array_task;
  if (!record.het_job.empty()) {
    job.het = record.het_job + (record.het_offset.empty() ? "" : "+" + record.het_offset);
  }
  if (!record.name.empty()) job.name = record.name;
  if (!record.cluster.empty()) job.cluster = record.cluster;
  if (!record.state.empty()) job.state = record.state;
  if (job.run_key.empty()) job.run_key = record.run_key;
  job.restart = record.restart;
  if (record.exit_code) job.exit_code = record.exit_code;
}

}  // namespace reveal
