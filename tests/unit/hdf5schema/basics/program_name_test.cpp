#include "hdf5schema/basics/program_name.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/unit/temporary_directory.h"

namespace reveal::tests::program_name_test {
namespace {

using Command = std::vector<std::string>;

class ProgramName : public testing::Test {
 protected:
  ProgramName() {
    std::filesystem::current_path(directory_.path());
    for (const char* file : {"train.py", "hosts", "case.dat", "solver", "image.sif"}) std::ofstream(file) << "x";
    std::filesystem::permissions("solver", std::filesystem::perms::owner_all);
  }
  ~ProgramName() override { std::filesystem::current_path("/"); }
  [[nodiscard]] static std::string of(const Command& command) { return program_name(command, words_of_this_node()); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(ProgramName, IsTheScriptOfAnInterpreter) {
  EXPECT_EQ(of({"python3", "train.py", "--data", "case.dat"}), "train.py");
  EXPECT_EQ(of({"/usr/bin/python3.11", "-u", "-X", "dev", "./train.py"}), "train.py");
  EXPECT_EQ(of({"python3", "-m", "pkg.train", "case.dat"}), "pkg.train");
  EXPECT_EQ(of({"python3", "-m", "torch.distributed.run", "--nproc-per-node", "4", "train.py"}), "train.py");
  EXPECT_EQ(of({"torchrun", "--nproc-per-node=4", "train.py"}), "train.py");
}

TEST_F(ProgramName, IsTheProgramBehindALauncher) {
  EXPECT_EQ(of({"taskset", "-c", "0-1", "python3", "train.py"}), "train.py");
  EXPECT_EQ(of({"mpirun", "-n", "4", "--hostfile", "hosts", "./solver", "case.dat"}), "solver");
  EXPECT_EQ(of({"env", "OMP_NUM_THREADS=4", "numactl", "--localalloc", "./solver"}), "solver");
  EXPECT_EQ(of({"timeout", "10", "sleep", "20"}), "sleep");
  EXPECT_EQ(of({"apptainer", "exec", "image.sif", "python3", "train.py"}), "train.py");
  EXPECT_EQ(of({"apptainer", "run", "./image.sif", "/inside/of/it"}), "image.sif");
}

TEST_F(ProgramName, IsTheCommandItselfElse) {
  EXPECT_EQ(of({"./solver", "train.py"}), "solver");
  EXPECT_EQ(of({"sleep", "20"}), "sleep");
}

TEST_F(ProgramName, IsNeverCodeNorAnArgument) {
  EXPECT_EQ(of({"bash", "-c", "train.py", "train.py"}), "");
  EXPECT_EQ(of({"bash", "-lc", "exec ./solver --password secret"}), "");
  EXPECT_EQ(of({"python3", "-c", "import train", "case.dat"}), "");
  EXPECT_EQ(of({"srun", "-J", "test", "secret"}), "");
  EXPECT_EQ(of({"make", "train.py"}), "");
  EXPECT_EQ(of({"python3"}), "");
  EXPECT_EQ(of({}), "");
}

TEST_F(ProgramName, IsToldByItsLooksWhereItsFilesAreNot) {
  const auto seen = [](const Command& command) { return program_name(command, words_by_their_looks()); };
  EXPECT_EQ(seen({"python3", "-X", "dev", "/home/ada/other.py", "x.py"}), "other.py");
  EXPECT_EQ(seen({"mpirun", "-n", "4", "/opt/app/solve", "0.5"}), "solve");
  EXPECT_EQ(seen({"python3", "-u", "0.5", "secret"}), "");
}

TEST(JobName, IsThatOfTheProgramOnlyWhereTheGivenOneIdentifiesNothing) {
  const auto name = [](const char* given, const Command& command) {
    return job_name(given, command, words_by_their_looks());
  };
  EXPECT_EQ(name("resnet", {"python3", "train.py"}), "resnet");
  EXPECT_EQ(name("wrap", {"python3", "train.py"}), "train.py");
  EXPECT_EQ(name("", {"./solver"}), "solver");
  EXPECT_EQ(name("bash", {"bash", "-c", "secret"}), "bash");
  EXPECT_EQ(name("", {}), "");
}

TEST(Interpreter, IsKnownWithItsVersion) {
  for (const char* program : {"python3", "python3.11", "bash", "sh", "mpirun", "srun", "Rscript", "perl", "torchrun"}) {
    EXPECT_TRUE(is_interpreter(program)) << program;
    EXPECT_FALSE(identifies(program)) << program;
  }
  for (const char* program : {"pythonic", "a.out", ""}) EXPECT_FALSE(is_interpreter(program)) << program;
  EXPECT_TRUE(runs_scripts("lua5.4"));
  EXPECT_FALSE(runs_scripts("mpirun"));
  EXPECT_TRUE(identifies("resnet"));
  EXPECT_FALSE(identifies("wrap"));
}

}  // namespace
}  // namespace reveal::tests::program_name_test
