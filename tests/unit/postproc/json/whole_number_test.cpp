// Numbers of a JSON file from another user.
#include "postproc/json/whole_number.h"

#include <gtest/gtest.h>

#include "postproc/analysis/node_summary.h"

namespace reveal::tests::whole_number_test {
namespace {

using Json = nlohmann::ordered_json;

TEST(WholeNumber, IsTakenWhereItFits) {
  EXPECT_EQ(whole_number<std::uint64_t>(Json::parse("18446744073709551615")), UINT64_MAX);
  EXPECT_EQ(whole_number<std::int64_t>(Json::parse("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(whole_number<int>(Json::parse("-7")), -7);
}

TEST(WholeNumber, IsRefusedWhereACastWouldInventAnother) {
  for (const char* text : {"-1", "1.5", "1e300", "18446744073709551616", "\"7\"", "null", "true"}) {
    EXPECT_THROW(static_cast<void>(whole_number<std::uint64_t>(Json::parse(text))), Error) << text;
  }
  for (const char* text : {"9223372036854775808", "-1e300", "0.5"}) {
    EXPECT_THROW(static_cast<void>(whole_number<std::int64_t>(Json::parse(text))), Error) << text;
  }
  EXPECT_THROW(static_cast<void>(whole_number<int>(Json::parse("2147483648"))), Error);
}

TEST(WholeNumber, OfASummaryIsNotCutOff) {
  NodeSummary summary;
  summary.node = "n01";
  Json good = Json::parse(render_summary(summary));
  good.erase("profile");  // this summary belongs to no job
  EXPECT_EQ(parse_summary(good.dump()).trace_bytes, 0U);
  for (const char* key : {"bytes", "mtime_ns"}) {
    for (const char* wrong : {"1e300", "1.5"}) {
      Json json = good;
      json["trace"][key] = Json::parse(wrong);
      EXPECT_THROW(static_cast<void>(parse_summary(json.dump())), Error) << key << " " << wrong;
    }
  }
}

}  // namespace
}  // namespace reveal::tests::whole_number_test
