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

TEST(ScriptPatch, PutsNothingBetweenTheLinesOfOneCommand) {
  const TriedLine line = parse_tried_line("export A=1", "");
  for (const char* begin : {"module load gcc &&", "cat input |", "make || \\", "./other |&  "}) {
    const ScriptPatch patch =
        script_patch("job.sh", std::string(begin) + "\n# then\n./train\n", line, Words{"./train"});
    EXPECT_EQ(patch.diff,
              std::string("--- job.sh\n+++ job.sh\n@@ -1,3 +1,4 @@\n+export A=1\n ") + begin + "\n # then\n ./train\n");
  }
  // Between a condition and `then`, it would be part of the condition.
  const ScriptPatch inside = script_patch("job.sh", "if [ -f x ]\nthen cd x; ./train\nfi\n", line, Words{"./train"});
  EXPECT_EQ(inside.why_not, "no line of job.sh was found that runs ./train");
  EXPECT_EQ(script_patch("job.sh", "./train &\nwait\n", line, Words{"./train"}).diff,
            "--- job.sh\n+++ job.sh\n@@ -1,2 +1,3 @@\n+export A=1\n ./train &\n wait\n");
}

TEST(ScriptPatch, PutsNothingIntoATextOfSeveralLines) {
  const TriedLine line = parse_tried_line("A='1 2'", "");
  EXPECT_EQ(script_patch("job.sh", "bash -c '\n./train\n'\n", line, Words{"./train"}).why_not,
            "no line of job.sh was found that runs ./train");
  EXPECT_EQ(
      script_patch("job.sh", "CMD=(\n  ./train\n  $(date)\n)\nsrun \"${CMD[@]}\"\n", line, Words{"./train"}).why_not,
      "no line of job.sh was found that runs ./train");
  const ScriptPatch behind = script_patch("job.sh", "echo \"it's\nhere\" # don't\n./train\n", line, Words{"./train"});
  EXPECT_EQ(behind.diff,
            "--- job.sh\n+++ job.sh\n@@ -1,3 +1,4 @@\n echo \"it's\n here\" # don't\n+export A='1 2'\n ./train\n");
}

TEST(ScriptPatch, TakesNoOtherProgramOfTheInterpreter) {
  const TriedLine line = parse_tried_line("export A=1", "");
  const Words command{"python", "train.py", "--epochs", "1"};
  for (const char* script : {"python prepare.py\n", "python $SCRIPT\n", "srun python -m evaluate.train\n"}) {
    EXPECT_EQ(script_patch("job.sh", script, line, command).why_not, "no line of job.sh was found that runs python")
        << script;
  }
  const ScriptPatch several =
      script_patch("job.sh", "python prepare.py\ntorchrun \\\n  --nproc-per-node=8 \\\n  train.py --epochs 30\n", line,
                   Words{"torchrun", "train.py"});
  EXPECT_EQ(several.why_not, "");
  EXPECT_NE(several.diff.find("+export A=1\n torchrun \\\n"), std::string::npos) << several.diff;
}

TEST(ScriptPatch, ExportsNothingThatTheCommandSetsItself) {
  const TriedLine line = parse_tried_line("export OMP_NUM_THREADS=4", "");
  const auto why_not = [&](const char* script) {
    return script_patch("job.sh", script, line, Words{"./train"}).why_not;
  };
  for (const char* script : {"OMP_NUM_THREADS=1 ./train\n", "mpirun -x OMP_NUM_THREADS=1 ./train\n",
                             "srun --export=ALL,OMP_NUM_THREADS=1 ./train\n", "OMP_NUM_THREADS=1 \\\n  ./train\n"}) {
    EXPECT_NE(why_not(script).find("sets OMP_NUM_THREADS itself"), std::string::npos) << script;
  }
  EXPECT_EQ(why_not("srun --export=PATH ./train\n"), "line 1 of job.sh passes only some variables on: --export=PATH");
  for (const char* script : {"MY_OMP_NUM_THREADS=1 ./train\n", "srun --export=ALL ./train\n"}) {
    EXPECT_EQ(why_not(script), "") << script;
  }
  const ScriptPatch program =
      script_patch("job.sh", "A=1 ./train\n", parse_tried_line("taskset -c 0", ""), Words{"./train"});
  EXPECT_EQ(program.why_not, "");
}

TEST(ScriptPatch, EndsANameWithABlankInATab) {
  const ScriptPatch patch = script_patch("my job.sh", "./train\n", parse_tried_line("A=1", ""), Words{"./train"});
  EXPECT_TRUE(patch.diff.starts_with("--- my job.sh\t\n+++ my job.sh\t\n@@ -1,1 +1,2 @@\n")) << patch.diff;
}

TEST(ScriptPatch, LeavesAloneWhatIsNotRun) {
  const TriedLine line = parse_tried_line("nice -n 5", "");
  const auto why_not = [&](const char* script) {
    return script_patch("job.sh", script, line, Words{"./slow"}).why_not;
  };
  for (const char* script :
       {"echo \"now starting ./slow on $(hostname)\"\n", "cp ./slow /tmp\n", "echo done # ./slow\n",
        "TMPDIR=/scratch cp ./slow /scratch\n", "srun --ntasks-per-node=1 cp ./slow /tmp\n",
        "echo 'usage:\n./slow FILE\n'\n", "echo now \\\n  ./slow\n", "for f in \\\n  ./slow ./b; do\n", "A=() ./slow\n",
        "srun hostname > ./slow\n"}) {
    EXPECT_EQ(why_not(script), "no line of job.sh was found that runs ./slow") << script;
  }
  for (const char* script : {"case $1 in\n  a) ./slow ;;\nesac\n", "cat <<EOF\n./slow\nEOF\n"}) {
    EXPECT_NE(why_not(script).find("case statements or here-documents"), std::string::npos) << script;
  }
  EXPECT_EQ(why_not("cd /tmp && A=1 ./slow\n"), "");
  EXPECT_EQ(why_not("srun -n 4 ./slow\n"), "");
  EXPECT_EQ(why_not("hostname > nodes && ./slow\n"), "");
  EXPECT_EQ(why_not("srun --comment=\"a b\" \\\n  -n 4 \\\n  ./slow\n"), "");
  EXPECT_EQ(why_not("CMD=(./slow)\n# see above \\\n./slow --all\n"),
            "job.sh runs ./slow in more than one place: lines 1 and 3");
}

TEST(ScriptPatch, SaysWhyThereIsNone) {
  const TriedLine line = parse_tried_line("A=1", "");
  EXPECT_EQ(script_patch("job.sh", kScript, line, Words{"./solver"}).why_not,
            "no line of job.sh was found that runs ./solver");
  EXPECT_EQ(script_patch("job.sh", "./train\n./train\n", line, Words{"./train"}).why_not,
            "job.sh runs ./train in more than one place: lines 1 and 2");
  EXPECT_EQ(script_patch("job.sh", "", line, Words{"./train"}).diff, "");
}

}  // namespace
}  // namespace reveal::tests::script_patch_test
