// The page of a watch on a terminal.
#include "postproc/live/watch_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "hdf5schema/basics/descriptor.h"

namespace reveal::tests::watch_output_test {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// A terminal without a window.
class Terminal {
 public:
  Terminal() : outside_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    std::array<char, 64> name{};
    if (!outside_ || ::grantpt(outside_.get()) != 0 || ::unlockpt(outside_.get()) != 0) return;
    if (::ptsname_r(outside_.get(), name.data(), name.size()) != 0) return;
    const int inside = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (inside >= 0) file_.reset(::fdopen(inside, "w"));
  }

  [[nodiscard]] std::FILE* file() const { return file_.get(); }

  void resize(unsigned short columns, unsigned short rows) const {
    const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(::fileno(file_.get()), TIOCSWINSZ, &size), 0);
  }

  /// All that was written up to these words; the limit is for a test that fails.
  [[nodiscard]] std::string text_until(std::string_view words) const {
    constexpr int kLimit = 30'000;  // milliseconds
    std::string text;
    std::array<char, 4096> part{};
    pollfd readable{outside_.get(), POLLIN, 0};
    while (text.find(words) == std::string::npos && ::poll(&readable, 1, kLimit) == 1) {
      const ssize_t got = ::read(outside_.get(), part.data(), part.size());
      if (got <= 0) break;
      text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  Descriptor outside_;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

/// What a watch writes that draws its page on a terminal of 100 columns, and again on one of so many.
std::string drawn_twice(const Terminal& terminal, unsigned short columns) {
  const WatchOptions options{.directory = "reveal-4711", .form = WatchForm::page};
  const WatchedJob job{.title = "reveal-4711", .nodes = {}};
  terminal.resize(100, 30);
  WatchOutput output(options, terminal.file());
  output.begin_page();
  output.draw(job);
  terminal.resize(columns, 30);
  output.say_end(job, "the watch is over");
  return terminal.text_until("the watch is over");
}

TEST(WatchOutput, LetsNoLineOfThePageWrap) {
  constexpr std::string_view kNoWrap = "\x1b[?7l", kWrap = "\x1b[?7h", kPage = "reveal watch reveal-4711";
  const Terminal terminal;
  if (terminal.file() == nullptr) GTEST_SKIP() << "no pseudo terminals here";
  const std::string text = drawn_twice(terminal, 100);
  const std::size_t first = text.find(kPage);
  const std::size_t last = text.rfind(kPage);
  ASSERT_NE(first, std::string::npos) << text;
  ASSERT_NE(first, last) << "the page is drawn twice";
  for (const std::size_t page : {first, last}) {
    EXPECT_NE(text.rfind(kNoWrap, page), std::string::npos) << text;
    EXPECT_GT(text.find(kWrap, page), page);
  }
  EXPECT_NE(text.rfind(kWrap), std::string::npos);
  EXPECT_GT(text.rfind(kWrap), text.rfind(kNoWrap)) << "the lines below the page wrap again";
}

TEST(WatchOutput, ClearsATerminalThatWasResized) {
  constexpr std::string_view kClear = "\x1b[2J\x1b[H";
  constexpr std::string_view kSixLinesUp = "\x1b[6A\r";
  const Terminal terminal;
  if (terminal.file() == nullptr) GTEST_SKIP() << "no pseudo terminals here";
  const std::string same = drawn_twice(terminal, 100);
  EXPECT_EQ(same.find(kClear), std::string::npos) << same;
  EXPECT_NE(same.find(kSixLinesUp), std::string::npos) << same;
  const std::string narrower = drawn_twice(terminal, 50);
  EXPECT_NE(narrower.find(kClear), std::string::npos) << narrower;
  EXPECT_EQ(narrower.find(kSixLinesUp), std::string::npos) << narrower;
}

}  // namespace
}  // namespace reveal::tests::watch_output_test
