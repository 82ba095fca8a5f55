// Equal runs, and runs with only the same interpreter.
#include "postproc/history/run_identity.h"

#include <gtest/gtest.h>

namespace reveal::tests::run_identity_test {
namespace {

TEST(RunIdentity, IsWhatRanWhereTheTraceTellsIt) {
  EXPECT_NE(identity_of("a", "", "python3").text, identity_of("b", "", "python3").text);
  EXPECT_EQ(identity_of("a", "", "python3").text, identity_of("a", "other", "python3.11").text);
  EXPECT_NE(identity_of("name:a", "", "").text, identity_of("", "a", "").text) << "a name is no key";
}

TEST(RunIdentity, IsANameOrAProgramInTracesWithoutAKey) {
  EXPECT_FALSE(identity_of("", "resnet", "python3").text.empty());
  EXPECT_FALSE(identity_of("", "", "solver").text.empty());
  EXPECT_NE(identity_of("", "resnet", "").text, identity_of("", "", "resnet").text);
}

TEST(RunIdentity, IsNeverAnInterpreterAlone) {
  for (const char* program : {"python3", "python3.11", "bash", "sh", "mpirun", "srun", "Rscript", "perl", "torchrun"}) {
    EXPECT_EQ(identity_of("", "", program).text, "") << program;
    EXPECT_EQ(identity_of("", program, program).text, "") << program;
  }
  EXPECT_EQ(identity_of("", "wrap", "bash").why_not, "it is not known which program bash ran");
  EXPECT_EQ(identity_of("", "", "").why_not, "the command is not known");
}

}  // namespace
}  // namespace reveal::tests::run_identity_test
