#include "postproc/compare/script_patch.h"

#include <gtest/gtest.h>

namespace reveal::tests::script_patch_test {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kScript =
    "#!/bin/bash\n"
    "#SBATCH -N 1\n"
    "# ./train is run below\n"
    "module load gcc\n"
    "srun ./train --epochs 30\n"
    "echo done\n";

TEST(ScriptPatch, PutsAProgramBeforeTheCommand) {
  const TriedLine line = parse_tried_line("numactl --membind=0", "");
  const ScriptPatch patch = script_patch("job.sh", kScript, line, Words{"./train", "--epochs", "1"});
  EXPECT_EQ(patch.why_not, "");
  EXPECT_EQ(patch.diff,
            "--- job.sh\n"
            "+++ job.sh\n"
            "@@ -2,5 +2,5 @@\n"
            " #SBATCH -N 1\n"
            " # ./train is run below\n"
            " module load gcc\n"
            "-srun ./train --epochs 30\n"
            "+srun numactl --membind=0 ./train --epochs 30\n"
            " echo done\n");
}

TEST(ScriptPatch, PutsOptionsBehindTheLauncher) {
  const TriedLine line = parse_tried_line("torchrun --numa-binding=node ...", "torchrun");
  const ScriptPatch patch =
      script_patch("job.sh", "srun torchrun train.py --epochs 30\n", line, Words{"torchrun", "train.py"});
  EXPECT_EQ(patch.diff,
            "--- job.sh\n+++ job.sh\n@@ -1,1 +1,1 @@\n-srun torchrun train.py --epochs 30\n"
            "+srun torchrun --numa-binding=node train.py --epochs 30\n");
}

TEST(ScriptPatch, PutsVariablesOnLinesOfTheirOwn) {
  const TriedLine line = parse_tried_line("A='1 2' B= taskset -c 0", "");
  const ScriptPatch patch =
      script_patch("job.sh", "if true; then\n\tmpirun -n 2 \\\n\t  ./train\nfi", line, Words{"./train"});
  EXPECT_EQ(patch.diff,
            "--- job.sh\n"
            "+++ job.sh\n"
            "@@ -1,4 +1,6 @@\n"
            " if true; then\n"
            "+\texport A='1 2'\n"
            "+\texport B=\n"
            " \tmpirun -n 2 \\\n"
            "-\t  ./train\n"
            "+\t  taskset -c 0 ./train\n"
            " fi\n"
            "\\ No newline at end of file\n");
}

TEST(ScriptPatch, KeepsAnOpenLastLineOpen) {
  const ScriptPatch patch = script_patch("job.sh", "./train", parse_tried_line("nice A=1", ""), Words{"./train"});
  EXPECT_EQ(patch.diff,
            "--- job.sh\n+++ job.sh\n@@ -1,1 +1,1 @@\n-./train\n\\ No newline at end of file\n+nice A=1 ./train\n"
            "\\ No newline at end of file\n");
}

TEST(ScriptPatch, TakesThePlaceWithMostWordsOfTheCommand) {
  const std::string script = "python prepare.py\npython train.py --epochs 30\n";
  const TriedLine line = parse_tried_line("unset A", "");
  EXPECT_EQ(script_patch("job.sh", script, line, Words{"python", "train.py", "--epochs", "1"}).diff,
            "--- job.sh\n+++ job.sh\n@@ -1,2 +1,3 @@\n python prepare.py\n+unset A\n python train.py --epochs 30\n");
}

TEST(ScriptPatch, LeavesAloneWhatIsNotRun) {
  const TriedLine line = parse_tried_line("nice -n 5", "");
  const auto why_not = [&](const char* script) {
    return script_patch("job.sh", script, line, Words{"./slow"}).why_not;
  };
  for (const char* script :
       {"echo \"now starting ./slow on $(hostname)\"\n", "cp ./slow /tmp\n", "echo done # ./slow\n"}) {
    EXPECT_EQ(why_not(script), "no line of job.sh runs ./slow") << script;
  }
  for (const char* script : {"case $1 in\n  a) ./slow ;;\nesac\n", "cat <<EOF\n./slow\nEOF\n"}) {
    EXPECT_NE(why_not(script).find("case statements or here-documents"), std::string::npos) << script;
  }
  EXPECT_EQ(why_not("cd /tmp && A=1 ./slow\n"), "");
  EXPECT_EQ(why_not("srun -n 4 ./slow\n"), "");
}

TEST(ScriptPatch, SaysWhyThereIsNone) {
  const TriedLine line = parse_tried_line("A=1", "");
  EXPECT_EQ(script_patch("job.sh", kScript, line, Words{"./solver"}).why_not, "no line of job.sh runs ./solver");
  EXPECT_EQ(script_patch("job.sh", "./train\n./train\n", line, Words{"./train"}).why_not,
            "job.sh runs ./train in more than one place: lines 1 and 2");
  EXPECT_EQ(script_patch("job.sh", "", line, Words{"./train"}).diff, "");
}

}  // namespace
}  // namespace reveal::tests::script_patch_test
