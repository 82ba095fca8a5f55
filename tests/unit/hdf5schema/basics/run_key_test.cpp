#include "hdf5schema/basics/run_key.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/unit/temporary_directory.h"

namespace reveal::tests::run_key_test {
namespace {

using Command = std::vector<std::string>;

class RunKey : public testing::Test {
 protected:
  RunKey() {
    for (const char* project : {"/one", "/two"}) {
      std::filesystem::create_directory(path_ + project);
      std::ofstream(path_ + project + "/train.py") << "x";
      const std::string script = path_ + project + "/run.sh";
      std::ofstream(script) << "#!/bin/sh\n";
      std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    }
  }
  ~RunKey() override { std::filesystem::current_path("/"); }
  [[nodiscard]] std::string key_in(const char* project, const Command& command) const {
    std::filesystem::current_path(path_ + project);
    return run_key(command);
  }

 private:
  TemporaryDirectory directory_of_test_;

 protected:
  const std::string path_ = directory_of_test_.path().string();
};

TEST_F(RunKey, IsTheFnvHashOf128Bits) {
  // FNV-1a of "a" and a zero byte, worked out by hand with the published offset and prime.
  EXPECT_EQ(run_key(Command{"a"}), "0880954519ab1be95aa0733055b70e0c");
  EXPECT_EQ(run_key(Command{"/usr/bin/a"}), run_key(Command{"a"}));
}

TEST_F(RunKey, TellsTwoScriptsOfOneInterpreterApart) {
  EXPECT_NE(run_key(Command{"python3", "small.py"}), run_key(Command{"python3", "other.py"}));
  EXPECT_NE(run_key(Command{"bash", "-c", "A"}), run_key(Command{"bash", "-c", "B"}));
  EXPECT_NE(run_key(Command{"a", "b c"}), run_key(Command{"a", "b", "c"}));
}

TEST_F(RunKey, AScriptCountsByItsAbsolutePath) {
  const Command command{"python3.11", "-u", "train.py"};
  EXPECT_NE(key_in("/one", command), key_in("/two", command));
  EXPECT_EQ(key_in("/one", command), key_in("/two", {"python3.11", "-u", "../one/./train.py"}));
  EXPECT_NE(key_in("/one", {"mpirun", "-n", "8", "python", "train.py"}),
            key_in("/two", {"mpirun", "-n", "8", "python", "train.py"}));
}

TEST_F(RunKey, AScriptThatIsStartedByItselfCountsByItsAbsolutePath) {
  const Command command{"./run.sh", "4"};
  EXPECT_NE(key_in("/one", command), key_in("/two", command));
  EXPECT_EQ(key_in("/one", command), key_in("/two", {"../one/run.sh", "4"}));
  const Command launched{"mpirun", "-n", "8", "./run.sh"};
  EXPECT_NE(key_in("/one", launched), key_in("/two", launched));
  EXPECT_EQ(key_in("/one", {"./solver", "./run.sh"}), key_in("/two", {"./solver", "./run.sh"})) << "an input file";
  EXPECT_EQ(key_in("/one", {"./run.sh", "./run.sh"}), key_in("/one", {"../one/run.sh", "./run.sh"}));
}

TEST_F(RunKey, IsNotKnownOfAShellThatIsTypedInto) {
  for (const Command& command : {Command{"bash"}, Command{"/bin/bash", "-l"}, Command{"srun", "--pty", "bash", "-i"},
                                 Command{"python3"}, Command{"env", "python3.11"}}) {
    EXPECT_EQ(run_key(command), "") << command.front();
  }
  EXPECT_NE(run_key(Command{"bash", "-c", "A"}), "");
  EXPECT_NE(run_key(Command{"solver", "-i"}), "");
  EXPECT_NE(run_key(Command{"mpirun", "solver"}), "");
}

TEST_F(RunKey, AnInputFileCountsByItsName) {
  EXPECT_EQ(key_in("/one", {"./solver", "train.py"}), key_in("/two", {"./solver", "train.py"}));
}

}  // namespace
}  // namespace reveal::tests::run_key_test
