// The one dialect in which structs become JSON, on a struct of every kind of member.
#include "postproc/json/json_fields.h"

#include <gtest/gtest.h>

#include "postproc/detect/episode.h"

namespace reveal::tests::json_fields_test {
namespace {

struct Leaf {
  std::string text;
  double number = 1;
  bool flag = false;
  Subsystem subsystem = Subsystem::cpu;
  bool operator==(const Leaf&) const = default;
};

void fields(auto& v, Visited<decltype(v), Leaf>& leaf) {
  v("text", leaf.text);
  v("number", leaf.number);
  v("flag", leaf.flag);
  v.name("subsystem", leaf.subsystem, subsystem_of);
}

struct Tree {
  std::string text = "default", word;
  std::int64_t time = 0;
  int whole = 7;
  std::optional<double> unknown;
  double rounded = 0;
  std::vector<Leaf> leaves, rows;
  std::vector<double> series;
};

void fields(auto& v, Visited<decltype(v), Tree>& tree) {
  v("text", tree.text);
  v.word("word", tree.word);
  v.time("time", tree.time);
  v("whole", tree.whole);
  v("unknown", tree.unknown, "nobody looked");
  v.rounded("rounded", tree.rounded);
  v("leaves", tree.leaves);
  v.table("columns", "rows", tree.rows);
  v("series", tree.series);
}

Tree read(const std::string& text) {
  const Json json = parse_json(text, "tree");
  JsonReader reader(json, "tree");
  Tree tree;
  fields(reader, tree);
  return tree;
}

TEST(JsonFields, WriteUnknownAsNullWithAReason) {
  Tree tree;
  tree.rounded = 3.14159265;
  tree.leaves = {{"a", 0.5, true, Subsystem::gpu}};
  tree.rows = {{"b", std::numeric_limits<double>::quiet_NaN(), true, Subsystem::memory}};
  tree.series = {1.0, 2.123456789, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(json_text(JsonWriter::whole(tree)),
            R"({"text":"default","word":null,"time":null,"time_reason":"not recorded","whole":7,"unknown":null,)"
            R"("unknown_reason":"nobody looked","rounded":3.142,)"
            R"("leaves":[{"text":"a","number":0.5,"flag":true,"subsystem":"gpu"}],)"
            R"("columns":["text","number","flag","subsystem"],"rows":[["b",null,1,"memory"]],)"
            R"("series":[1,2.12346,null]})");
}

TEST(JsonFields, ReadBackWhatWasWritten) {
  Tree written;
  written.time = 1'763'634'725'100'000'001;
  written.rows = {{"b", 2.5, true, Subsystem::memory}, {"", -1, false, Subsystem::cpu}};
  const Tree tree = read(json_text(JsonWriter::whole(written)));
  EXPECT_EQ(tree.time, written.time);
  EXPECT_EQ(tree.rows, written.rows);
}

TEST(JsonFields, TellMissingFromNull) {
  EXPECT_EQ(read("{}").text, "default");
  EXPECT_EQ(read(R"({"text": null})").text, "");
  EXPECT_EQ(read(R"({"leaves": [{"subsystem": "cpu"}]})").leaves[0].number, 1);
  EXPECT_TRUE(std::isnan(read(R"({"leaves": [{"number": null, "subsystem": "cpu"}]})").leaves[0].number));
}

TEST(JsonFields, SkipRowsOfALaterVersionAndRefuseShortOnes) {
  EXPECT_EQ(read(R"({"rows": [["a", 1, 0, "quantum"], ["b", 2, 1, "gpu", "later"]]})").rows,
            (std::vector<Leaf>{{"b", 2, true, Subsystem::gpu}}));
  EXPECT_THROW(read(R"({"rows": [["a", 1]]})"), Error);
}

TEST(JsonFields, RefuseOtherTypesInOneLine) {
  for (const char* text : {R"({"text": 1})", R"({"time": "noon"})", R"({"whole": 1.5})", R"({"whole": 1e300})",
                           R"({"whole": "7"})", R"({"unknown": "5"})", R"({"leaves": {}})",
                           R"({"leaves": [{"subsystem": "quantum"}]})", R"({"leaves": [["a", 1, 0, "cpu"]]})",
                           R"({"rows": [{}]})", R"({"leaves": [{"flag": 1, "subsystem": "cpu"}]})"}) {
    try {
      static_cast<void>(read(text));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("tree: ")) << error.what();
    }
  }
}

}  // namespace
}  // namespace reveal::tests::json_fields_test
