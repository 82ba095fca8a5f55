#include "postproc/mail/outbox.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::outbox_test {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

/// A directory of its own with a program that does what `script` says.
class MailOutbox : public ::testing::Test {
 protected:
  std::string program(const std::string& script) {
    const std::string path = directory_ + "/sendmail";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  std::string content(const std::string& name) {
    std::ifstream file(directory_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::string failure(const Words& program, std::string_view mail, std::chrono::milliseconds limit = 10s) {
    try {
      send_mail(program, mail, limit);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryDirectory directory_of_test_;
  const std::string directory_ = directory_of_test_.path().string();
};

TEST_F(MailOutbox, GivesTheMailAndTheArgumentsAsTheyAre) {
  const std::string path =
      program("cat > " + directory_ + "/mail; for a in \"$@\"; do echo \"[$a]\"; done > " + directory_ + "/arguments");
  std::string mail = "Subject: x\n\n";
  for (int i = 0; i < 50'000; ++i) mail += "line " + std::to_string(i) + "\n";  // more than a pipe holds
  EXPECT_EQ(failure({path, "-t", "a b; id", "$HOME"}, mail), "");
  EXPECT_EQ(content("mail"), mail);
  EXPECT_EQ(content("arguments"), "[-t]\n[a b; id]\n[$HOME]\n");
}

TEST_F(MailOutbox, SaysWhatTheProgramSaid) {
  const std::string path = program("cat > /dev/null; echo; echo 'no such host' >&2; echo more >&2; exit 69");
  EXPECT_EQ(failure({path, "-t"}, "x\n"), path + " failed with status 69: no such host");
  const std::string escaping = program("printf '\\033[31mred\\r\\n' >&2; cat >/dev/null; exit 1");
  EXPECT_EQ(failure({escaping}, "x\n"), escaping + " failed with status 1: red ");
}

TEST_F(MailOutbox, NamesAProgramThatIsNotThere) {
  EXPECT_EQ(failure({directory_ + "/nothing"}, "x"), directory_ + "/nothing: No such file or directory");
  EXPECT_NE(failure({}, "x"), "");
}

TEST_F(MailOutbox, SurvivesAProgramThatDoesNotRead) {
  const std::string large(1 << 20, 'x');
  const std::string path = program("exit 0");
  EXPECT_EQ(failure({path}, large), path + " did not take the whole mail");
  EXPECT_EQ(failure({program("kill -9 $$")}, large), path + " was ended by signal 9");
}

TEST_F(MailOutbox, DoesNotWaitForOneThatHangsNorForItsChildren) {
  const std::string path = program("sleep 600 & echo $! > " + directory_ + "/child; sleep 600");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(failure({path}, std::string(1 << 20, 'x'), 500ms), path + " did not finish within 0.5 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  // Killed with its group; gone or a zombie of somebody else's.
  const std::string child = content("child");
  ASSERT_FALSE(child.empty());
  const auto gone = [&] {
    std::ifstream state("/proc/" + child.substr(0, child.find('\n')) + "/stat");
    std::string line;
    std::getline(state, line);
    return line.empty() || line.find(") Z ") != std::string::npos;
  };
  while (!gone() && std::chrono::steady_clock::now() - begin < 60s) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(gone()) << child;
}

TEST_F(MailOutbox, DoesNotWaitForADaemonThatKeepsItsErrors) {
  const std::string path = program("cat > /dev/null; sleep 3 >/dev/null & exit 0");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(failure({path}, "x"), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
}

TEST_F(MailOutbox, PassesAlmostNoEnvironment) {
  ::setenv("LD_PRELOAD_OF_REVEAL", "x", 1);
  ::setenv("REVEAL_MAIL", "victim@other.net", 1);
  EXPECT_EQ(failure({program("cat >/dev/null; env > " + directory_ + "/env")}, "x"), "");
  ::unsetenv("LD_PRELOAD_OF_REVEAL");
  ::unsetenv("REVEAL_MAIL");
  EXPECT_EQ(content("env").find("REVEAL"), std::string::npos);
  EXPECT_NE(content("env").find("PATH=/usr/sbin:/usr/bin:/sbin:/bin"), std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::outbox_test
