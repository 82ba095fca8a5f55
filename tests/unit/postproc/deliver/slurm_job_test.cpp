#include "postproc/deliver/slurm_job.h"

#include <gtest/gtest.h>

#include <fstream>

#include "postproc/analysis/slurm_job_record.h"
#include "postproc/report/verdict.h"
#include "postproc/telemetry/job_files.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::slurm_job_test {
namespace {

TEST(SlurmJobRecord, ComesFromTheEnvironmentAndThenFromTheController) {
  SlurmJob job = slurm_job_of_environment("7", [](const char* name) -> std::string {
    const std::string_view asked = name;
    return asked == "SLURM_JOB_USER" ? "anna" : asked == "SLURM_NODELIST" ? "n[1-3]" : "";
  });
  EXPECT_EQ(job.place.nodes, (std::vector<std::string>{"n1", "n2", "n3"}));
  add_controller_answer(job.names, "name my job\nstate TIMEOUT\nwait_status 2304\nnodes n[1-9]\nnonsense\n");
  EXPECT_EQ(place_of_one_node(job.place, job.names).nodes.size(), 3U);  // the nodes that are watched
  EXPECT_EQ(job.names.name, "my job");
  EXPECT_EQ(job.names.state, "TIMEOUT");
  EXPECT_EQ(job.names.exit_code, 9);
  EXPECT_EQ(job.place.user, "anna");
  add_controller_answer(job.names, "wait_status 9\n");
  EXPECT_EQ(job.names.exit_code, 137);
}

TEST(SlurmJobRecord, HasNeitherStateNorExitStatusOfALaterRun) {
  const std::string waits = "name train\nstate PENDING\nrestarts 1\n";
  const std::string ended = "name train\nstate COMPLETED\nwait_status 0\nnodes n7\nrestarts 1\n";
  JobNames names;
  add_controller_answer(names, waits, 0);
  EXPECT_EQ(names.name, "train");
  EXPECT_EQ(names.state, "REQUEUED");
  add_controller_answer(names, ended, 0);
  EXPECT_EQ(names.state, "");
  EXPECT_EQ(names.exit_code, std::nullopt);
  EXPECT_TRUE(names.nodes.empty());
  add_controller_answer(names, ended, 1);
  EXPECT_EQ(names.state, "COMPLETED");
  EXPECT_EQ(names.exit_code, 0);
  EXPECT_EQ(names.nodes, std::vector<std::string>{"n7"});
}

TEST(SlurmJobRecord, NamesTheComponentOfAHeterogeneousJob) {
  const TemporaryDirectory directory;
  SlurmJob job = slurm_job_of_environment("4712", [](const char*) { return std::string(); });
  add_controller_answer(job.names, "het_job 4711\nhet_offset 1\n");
  std::ofstream(directory.path() / kSlurmJobRecordFile) << render_slurm_job_record(record_of(job));
  ReportJob reported;
  apply(read_slurm_job_record(directory.path()).value(), reported);
  EXPECT_EQ(reported.het, "4711+1");
}

TEST(SlurmJobRecord, HasNoExitStatusWhereSlurmHasNone) {
  SlurmJob job;
  add_controller_answer(job.names, "state OUT_OF_MEMORY\nwait_status 125\n");
  EXPECT_EQ(job.names.state, "OUT_OF_MEMORY");
  EXPECT_EQ(job.names.exit_code, std::nullopt);
}

TEST(SlurmJobRecord, TellsAReportThatMemoryRanOutAlthoughSlurmNamesNoSignal) {
  const TemporaryDirectory directory;
  SlurmJob job;
  job.place.id = "7";
  add_controller_answer(job.names, "state OUT_OF_MEMORY\nwait_status 125\n");  // 0:125
  std::ofstream(directory.path() / kSlurmJobRecordFile) << render_slurm_job_record(record_of(job));
  Report report;
  report.job.nodes = {"n01"};
  apply(read_slurm_job_record(directory.path()).value(), report.job);
  EXPECT_EQ(report.job.exit_code, std::nullopt);
  judge(report, {});
  EXPECT_TRUE(report.verdict.job_failed);
  EXPECT_TRUE(report.verdict.sentence.starts_with("The job was ended because it ran out of memory"))
      << report.verdict.sentence;
  for (const char* wrong : {"1.5", "1e300", "4294967296"}) {
    std::ofstream(directory.path() / kSlurmJobRecordFile) << R"({"id": "7", "exit_code": )" << wrong << "}";
    EXPECT_FALSE(read_slurm_job_record(directory.path()).has_value()) << wrong;
  }
}

TEST(SlurmJob, IsTheSameRunOnlyWhenItsCommandAndItsNameAre) {
  const auto key = [](const char* command, const char* name) {
    SlurmJob job;
    add_controller_answer(job.names, std::string("command ") + command + "\nname " + name + "\n");
    return run_key_of(job.names);
  };
  const std::string train = key("/home/ada/train.sh --lr 3", "train.sh");
  EXPECT_FALSE(train.empty());
  EXPECT_EQ(key("/home/ada/train.sh --lr 3", "train.sh"), train);
  EXPECT_NE(key("/home/ada/train.sh --lr 4", "train.sh"), train);
  EXPECT_NE(key("/home/ada/old/train.sh --lr 3", "train.sh"), train);
  EXPECT_NE(key("/home/ada/train.sh --lr 3", "named"), train);
  EXPECT_EQ(key("python3", "python3"), "") << "nobody knows which script";
  EXPECT_EQ(key("/bin/bash -l", "interactive"), "") << "somebody types into it";
  EXPECT_EQ(run_key_of({}), "");
}

TEST(SlurmJob, IsCalledByItsProgramWhereNobodyNamedIt) {
  const auto name = [](const char* slurms, const char* command) {
    SlurmJob job;
    add_controller_answer(job.names, std::string("command ") + command + "\nname " + slurms + "\n");
    TemporaryDirectory directory;
    std::ofstream(directory.path() / kSlurmJobRecordFile) << render_slurm_job_record(record_of(job));
    return read_slurm_job_record(directory.path()).value().name;
  };
  EXPECT_EQ(name("python3", "/usr/bin/python3 -u /home/ada/train.py --epochs 3"), "train.py");
  EXPECT_EQ(name("resnet", "/usr/bin/python3 /home/ada/train.py"), "resnet");
  EXPECT_EQ(name("bash", "bash -c secret/code"), "bash");
  EXPECT_EQ(name("wrap", ""), "wrap");
}

TEST(SlurmJob, KeepsAHashOfItsCommandAndNotTheCommand) {
  SlurmJob job;
  add_controller_answer(job.names, "command /home/ada/train.sh --password secret\n");
  const std::string text = render_slurm_job_record(record_of(job));
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  EXPECT_NE(text.find(run_key_of(job.names)), std::string::npos) << text;
}

}  // namespace
}  // namespace reveal::tests::slurm_job_test
