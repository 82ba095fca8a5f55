#include "postproc/json/record.h"

#include <gtest/gtest.h>

namespace reveal::tests::record_test {
namespace {

TEST(Record, OfAnotherVersionHasTheSameSchemaWithAnotherNumber) {
  EXPECT_TRUE(is_of_another_version(R"({"schema": "reveal.mail/2", "audience": 7})", "reveal.mail/1"));
  for (const char* text : {"", "{", "[]", "7", "{}", R"({"schema": 2})", R"({"schema": "reveal.mail/1"})",
                           R"({"schema": "reveal.mailer/2"})", R"({"schema": "reveal.report/2"})"}) {
    EXPECT_FALSE(is_of_another_version(text, "reveal.mail/1")) << text;
  }
}

}  // namespace
}  // namespace reveal::tests::record_test
