#include "postproc/live/alert_forwarding.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "hdf5schema/basics/error.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::alert_forwarding_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
constexpr std::int64_t kNow = 1'763'640'000'123'000'000;

class ForwardedAlerts : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path path(const std::string& name) const { return directory_.path() / name; }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] Words names(const std::string& folder) const {
    Words all;
    for (const auto& entry : fs::directory_iterator(path(folder))) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  [[nodiscard]] ForwardOptions command(const std::string& script) const {
    std::ofstream(path("command")) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path("command"), fs::perms::owner_all);
    return {.append = {}, .spool = {}, .command = {path("command").string(), "two words"}};
  }
  [[nodiscard]] static std::string refusal(const ForwardOptions& options) {
    try {
      const AlertForwarding forwarding(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(ForwardedAlerts, AreLinesBehindThoseOfTheFile) {
  std::ofstream(path("file")) << "before\n";
  AlertForwarding forwarding({.append = path("file")});
  forwarding.forward({kNow, "n01-1-opened", R"({"number":1})"});
  forwarding.forward({kNow, "n01-1-closed", R"({"number":2})"});
  EXPECT_EQ(text("file"), "before\n{\"number\":1}\n{\"number\":2}\n");
  EXPECT_TRUE(forwarding.take_problems().empty());
}

TEST_F(ForwardedAlerts, GoIntoTheFileOfTheNameAfterARotation) {
  AlertForwarding forwarding({.append = path("file")});
  forwarding.forward({kNow, "n01-1-opened", "{1}"});
  fs::rename(path("file"), path("file.1"));
  forwarding.forward({kNow, "n01-1-closed", "{2}"});
  EXPECT_EQ(text("file.1"), "{1}\n");
  EXPECT_EQ(text("file"), "{2}\n");
  fs::resize_file(path("file"), 0);  // copytruncate
  forwarding.forward({kNow, "n01-2-opened", "{3}"});
  EXPECT_EQ(text("file"), "{3}\n");
  fs::rename(path("file"), path("file.2"));
  fs::create_symlink(path("file.1"), path("file"));
  forwarding.forward({kNow, "n01-2-closed", "{4}"});
  EXPECT_EQ(text("file.1"), "{1}\n");
  ASSERT_EQ(forwarding.take_problems().size(), 1U);
}

TEST_F(ForwardedAlerts, BeginALineOfTheirOwnBehindOneThatDidNotFit) {
  AlertForwarding forwarding({.append = path("file")});
  forwarding.forward({kNow, "n01-1-opened", R"({"number":1})"});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur = 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  forwarding.forward({kNow, "n01-1-closed", R"({"number":2})"});  // a part of it
  forwarding.forward({kNow, "n01-2-opened", R"({"number":3})"});  // nothing
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  forwarding.forward({kNow, "n01-2-closed", R"({"number":4})"});
  forwarding.forward({kNow, "n01-3-opened", R"({"number":5})"});
  EXPECT_EQ(text("file"), "{\"number\":1}\n{\"numbe\n{\"number\":4}\n{\"number\":5}\n");
  EXPECT_EQ(forwarding.take_problems().size(), 1U);
}

TEST_F(ForwardedAlerts, StopAtTheLimitOfTheFileUntilItIsRotated) {
  ForwardOptions options{.append = path("file"), .spool = {}, .command = {}, .most_bytes = 10};
  AlertForwarding forwarding(options);
  for (int i = 0; i < 5; ++i) forwarding.forward({kNow, "n01-1-opened", "{1}"});
  EXPECT_EQ(text("file"), "{1}\n{1}\n");
  EXPECT_EQ(forwarding.take_problems(),
            Words{path("file").string() + " is full: no alert is appended until it is rotated or truncated; this is "
                                          "reported once"});
  fs::rename(path("file"), path("file.1"));
  forwarding.forward({kNow, "n01-1-closed", "{2}"});
  EXPECT_EQ(text("file"), "{2}\n");
  EXPECT_TRUE(forwarding.take_problems().empty());
}

TEST_F(ForwardedAlerts, AreWaitedForOnceAtTheEnd) {
  ForwardOptions slow = command("echo >>" + path("started").string() + "; exec sleep 1000");
  slow.limit = std::chrono::milliseconds(500);
  AlertForwarding forwarding(slow);
  for (int i = 0; i < 4; ++i) forwarding.forward({kNow, "n01-1-opened", "{}"});
  while (!fs::exists(path("started"))) std::this_thread::yield();
  forwarding.finish();
  const Words problems = forwarding.take_problems();
  ASSERT_EQ(problems.size(), 2U);
  // The first one ran when the end began; the time of the others is that of one command.
  EXPECT_TRUE(problems[0] == path("command").string() + " did not get 2 alerts: the watch waited 0.5 s for it" ||
              problems[0] == path("command").string() + " did not get 3 alerts: the watch waited 0.5 s for it")
      << problems[0];
  EXPECT_NE(problems[1].find(" s and was ended; this is reported once"), std::string::npos) << problems[1];
}

TEST_F(ForwardedAlerts, AreReadableByTheirOwnerOnly) {
  const mode_t former = ::umask(0);
  const AlertForwarding forwarding({.append = path("file"), .spool = path("spool")});
  ::umask(former);
  struct stat status {};
  ASSERT_EQ(::stat(path("file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat(path("spool").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST_F(ForwardedAlerts, GoThroughNoLinkAndIntoNoPlaceOfOthers) {
  std::ofstream(path("precious")) << "x";
  fs::create_symlink(path("precious"), path("link"));
  EXPECT_NE(refusal({.append = path("link")}).find("link is a link"), std::string::npos);
  EXPECT_EQ(text("precious"), "x");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_NE(refusal({.append = path("fifo")}), "");
  EXPECT_NE(refusal({.append = path("missing/file")}).find("No such file"), std::string::npos);
  fs::create_directory(path("real"));
  fs::create_directory_symlink(path("real"), path("folder"));
  EXPECT_NE(refusal({.append = {}, .spool = path("folder/")}).find("or a link to one"), std::string::npos);
  fs::permissions(path("real"), fs::perms::all);
  EXPECT_NE(refusal({.append = {}, .spool = path("real")}).find("can be written by others"), std::string::npos);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(path("precious").c_str(), 65534, 65534), 0);
  EXPECT_NE(refusal({.append = path("precious")}).find("belongs to another user"), std::string::npos);
}

TEST_F(ForwardedAlerts, AreFilesOfWhichTheNewestAreKept) {
  ForwardOptions options{.append = {}, .spool = path("spool"), .command = {}, .most_files = 2};
  AlertForwarding forwarding(options);
  std::ofstream(path("spool/note")) << "not ours";
  for (int i = 1; i <= 3; ++i) {
    forwarding.forward({kNow + i * 1'000'000, "../n01-" + std::to_string(i) + "-opened", "{}"});
  }
  EXPECT_EQ(names("spool"),
            (Words{"alert-1763640000125-_.._n01-2-opened.json", "alert-1763640000126-_.._n01-3-opened.json", "note"}));
  EXPECT_EQ(text("spool/" + names("spool").front()), "{}\n");
}

TEST_F(ForwardedAlerts, AreTheInputOfACommandOneAfterTheOther) {
  AlertForwarding forwarding(command("echo \"begin $1\" >>" + path("log").string() + "; cat >>" + path("log").string() +
                                     "; echo end >>" + path("log").string()));
  forwarding.forward({kNow, "n01-1-opened", "{1}"});
  forwarding.forward({kNow, "n01-1-closed", "{2}"});
  forwarding.finish();
  EXPECT_EQ(text("log"), "begin two words\n{1}\nend\nbegin two words\n{2}\nend\n");
  EXPECT_TRUE(forwarding.take_problems().empty());
}

TEST_F(ForwardedAlerts, NameACommandThatFailsOnce) {
  AlertForwarding forwarding(command("exit 3"));
  forwarding.forward({kNow, "n01-1-opened", "{1}"});
  forwarding.forward({kNow, "n01-1-closed", "{2}"});
  forwarding.finish();
  EXPECT_EQ(forwarding.take_problems(),
            Words{path("command").string() + " failed with status 3; this is reported once"});
  EXPECT_TRUE(forwarding.take_problems().empty());
}

TEST_F(ForwardedAlerts, EndACommandThatDoesNotEnd) {
  ForwardOptions slow = command("echo >" + path("started").string() + "; exec sleep 1000");
  slow.limit = std::chrono::milliseconds(300);
  AlertForwarding forwarding(slow);
  forwarding.forward({kNow, "n01-1-opened", "{}"});
  while (!fs::exists(path("started"))) std::this_thread::yield();
  forwarding.finish();
  EXPECT_EQ(forwarding.take_problems(),
            Words{path("command").string() + " did not finish within 0.3 s and was ended; this is reported once"});
}

TEST_F(ForwardedAlerts, WaitForASlowCommandInASmallNumber) {
  ForwardOptions slow = command("exec sleep 1000");
  slow.limit = std::chrono::milliseconds(200);
  slow.most_waiting = 2;
  AlertForwarding forwarding(slow);
  for (int i = 0; i < 10; ++i) forwarding.forward({kNow, "n01-1-opened", "{}"});
  EXPECT_EQ(forwarding.take_problems(),
            Words{path("command").string() + " is slower than the alerts come: some are left out; this is reported "
                                             "once"});
}

TEST_F(ForwardedAlerts, NameAProgramThatIsMissing) {
  AlertForwarding forwarding({.append = {}, .spool = {}, .command = {path("missing").string()}});
  forwarding.forward({kNow, "n01-1-opened", "{}"});
  forwarding.finish();
  EXPECT_EQ(forwarding.take_problems(),
            Words{path("missing").string() + ": No such file or directory; this is reported once"});
}

TEST_F(ForwardedAlerts, NameADirectoryThatIsGone) {
  AlertForwarding forwarding({.append = {}, .spool = path("spool")});
  fs::remove(path("spool"));
  forwarding.forward({kNow, "n01-1-opened", "{}"});
  forwarding.forward({kNow, "n01-1-closed", "{}"});
  ASSERT_EQ(forwarding.take_problems().size(), 1U);
}

}  // namespace
}  // namespace reveal::tests::alert_forwarding_test
