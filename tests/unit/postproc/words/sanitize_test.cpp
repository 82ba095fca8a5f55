// Names from the job, before they are shown.
#include "postproc/words/sanitize.h"

#include <gtest/gtest.h>

namespace reveal::tests::sanitize_test {
namespace {

TEST(Untrusted, ReplacesBrokenBytesAndDropsEscapes) {
  EXPECT_EQ(printable("a\x1b[31;1mb\x1b[0mc"), "abc");
  EXPECT_EQ(printable("a\x1b]0;title\x07z"), "az");
  EXPECT_EQ(printable("a\x1b]0;never ended"), "a");
  EXPECT_EQ(printable("end\x1b"), "end");
  EXPECT_EQ(printable("a\r\nb\tc\x7f"), "a  b c ");
  EXPECT_EQ(printable("\xff"), "\xEF\xBF\xBD");
  EXPECT_EQ(printable("\xc3\xa4"), "\xc3\xa4");
  EXPECT_EQ(printable("\xc0\xaf"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // an overlong '/'
  EXPECT_EQ(printable("\xe4\xb8"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // cut off
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            " 31m");  // the one-byte CSI
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "ab");
  EXPECT_EQ(printable(""), "");
}

TEST(Untrusted, HidesNothing) {
  constexpr std::string_view kSoftHyphen = "\xc2\xad", kArabicMark = "\xd8\x9c", kTag = "\xf3\xa0\x81\x81";
  for (const std::string_view invisible : {kSoftHyphen, kArabicMark, kTag}) {
    EXPECT_EQ(printable("a" + std::string(invisible) + "b"), "ab");
  }
  EXPECT_EQ(without_controls("a" + std::string(kTag)), "a\\ue0041");
  EXPECT_EQ(printable("\xc2\xae\xf0\x9f\x98\x80"), "\xc2\xae\xf0\x9f\x98\x80") << "visible ones stay";
}

TEST(Untrusted, CutsLongTextAtTheLimit) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abc...");
  EXPECT_EQ(printable("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 4), "\xc3\xa4...");
}

TEST(Untrusted, EscapesMarkup) {
  EXPECT_EQ(html("<a href='x' b=\"y\">&"), "&lt;a href=&#39;x&#39; b=&quot;y&quot;&gt;&amp;");
}

}  // namespace
}  // namespace reveal::tests::sanitize_test
