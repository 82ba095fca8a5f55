// No member of a type that we write and read may be forgotten: fields() of each type is compared with the type itself.
#include "postproc/report/fields.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <typeindex>

#include "postproc/analysis/packed_fields.h"
#include "postproc/analysis/summary_fields.h"
#include "postproc/history/run_fields.h"
#include "postproc/ledger/ledger_fields.h"
#include "postproc/live/watch_fields.h"
#include "report_samples.h"
#include "tests/unit/document_words.h"

namespace reveal::tests::fields_test {
namespace {

/// Becomes whatever a member is initialised with.
struct Anything {
  template <class T>
  requires(!std::same_as<T, std::nullopt_t> && !std::same_as<T, std::in_place_t>) operator T()
      const {      // NOLINT(google-explicit-constructor): that is the point
    std::abort();  // named in a requires clause only
  }
};

template <class T, class... Members>
constexpr std::size_t count_members() {
  if constexpr (requires { T{Members{}..., Anything{}}; }) {
    return count_members<T, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

/// Gives every member that fields() names a value of its own, and keeps which ones they are.
class Filler {
 public:
  static constexpr bool kReads = true;

  template <class T>
  void operator()(std::string_view key, T& value, std::string_view /*reason*/ = {}) {
    visit(value);
    fill(key, value);
  }
  void word(std::string_view key, std::string& text) { (*this)(key, text); }
  void time(std::string_view /*key*/, std::int64_t& utc_ns) {
    visit(utc_ns);
    utc_ns = 1'700'000'000'000'000'000 + next();
  }
  void rounded(std::string_view key, double& value) { (*this)(key, value); }
  template <class Enum, class Find>
  void name(std::string_view /*key*/, Enum& value, Find /*of_name*/) {
    visit(value);
    value = static_cast<Enum>(1 + next() % 2);
  }
  template <class Enum>
  void names(std::string_view /*key*/, std::vector<Enum>& values, auto /*of_name*/) {
    visit(values);
    values = {static_cast<Enum>(next() % 2), static_cast<Enum>(1)};
  }
  template <class T>
  void known(std::string_view key, std::vector<T>& values) {
    (*this)(key, values);
  }
  void explained(std::string_view key, std::optional<double>& value, std::string& reason) {
    (*this)(key, reason);
    visit(value);  // unknown, because a reason is kept with an unknown number only
  }
  void noted(std::string_view key, std::optional<double>& value, std::map<std::string, std::string>& notes) {
    (*this)(key, value);
    visit(notes);
    fill(key, notes[std::string(key)]);
  }
  void pairs(std::string_view key, Pairs& values, std::string_view /*first*/, std::string_view /*second*/) {
    dictionary(key, values);
  }
  void dictionary(std::string_view key, Pairs& values) {
    visit(values);
    values = {{std::string(key), std::to_string(next())}};
  }
  void dictionary(std::string_view key, SharedPairs& values) {
    visit(values);
    values = {{std::string(key), std::to_string(next())}};
  }
  void dictionary(std::string_view key, std::map<std::string, double>& values) {
    visit(values);
    values[std::string(key)] = next();
  }
  template <class T>
  void table(std::string_view /*columns*/, std::string_view key, std::vector<T>& rows) {
    (*this)(key, rows);
  }
  template <class Fill>
  void object(std::string_view /*key*/, Fill fill) {
    fill(*this);
  }
  template <class T>
  void inlined(T& thing) {
    (*this)("", thing);
  }
  template <class T>
  void required(std::string_view key, T& thing) {
    (*this)(key, thing);
  }
  template <class T>
  void maybe(std::string_view key, T& thing, bool /*present*/) {
    (*this)(key, thing);
  }
  template <class T>
  void maybe(std::string_view key, T& thing, bool /*present*/, std::string& /*reason*/) {
    (*this)(key, thing);
  }
  void constant(std::string_view /*key*/, const Json& /*value*/) {}
  void schema(std::string_view /*key*/, const Json& /*value*/, const Json& /*earlier*/ = nullptr) {}

  template <class T>
  void whole(T& thing) {
    const std::byte* const outer = std::exchange(begin_, reinterpret_cast<const std::byte*>(&thing));
    const std::type_index outer_type = std::exchange(type_, std::type_index(typeid(T)));
    members_[type_] = count_members<T>();
    fields(*this, thing);
    begin_ = outer;
    type_ = outer_type;
  }

  /// Types with as many members as fields() should have named, and those that it named.
  [[nodiscard]] const std::map<std::type_index, std::size_t>& members() const { return members_; }
  [[nodiscard]] std::size_t visited(std::type_index type) const { return visited_.at(type).size(); }

 private:
  int next() { return ++number_; }
  template <class T>
  void visit(const T& member) {
    visited_[type_].insert(reinterpret_cast<const std::byte*>(&member) - begin_);
  }
  template <class T>
  void fill(std::string_view key, T& value) {
    if constexpr (std::same_as<T, bool>) {
      value = !T{};
    } else if constexpr (kIsText<T>) {
      value = std::string(key) + std::to_string(next());
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = static_cast<T>(next() % 1000 + 1);
    } else if constexpr (IsList<T>::value) {
      for (int i = 0; i < 2; ++i) fill(key, value.emplace_back());
    } else if constexpr (requires { value.has_value(); }) {
      fill(key, value.emplace());
    } else {
      whole(value);
    }
  }

  int number_ = 0;
  const std::byte* begin_ = nullptr;
  std::type_index type_{typeid(void)};
  std::map<std::type_index, std::size_t> members_;
  std::map<std::type_index, std::set<std::ptrdiff_t>> visited_;
};

/// Both are read and written with nothing but fields(), so they come back member by member.
NodeSummary full_summary(Filler& filler) {
  NodeSummary summary;
  filler.whole(summary);
  summary.profile.node = summary.node;  // written once
  return summary;
}

TEST(Fields, NameEveryMember) {
  Filler filler;
  static_cast<void>(full_summary(filler));
  RunRecord record;
  filler.whole(record);
  AlertNotice alert;
  filler.whole(alert);
  WatchSummary watch;
  filler.whole(watch);
  std::set<std::type_index> seen;
  for (const auto& [type, members] : filler.members()) {
    // The node of a profile is that of the summary.
    const std::size_t of_its_place = type == typeid(NodeProfile) ? 1 : 0;
    EXPECT_EQ(filler.visited(type) + of_its_place, members) << type.name();
    seen.insert(type);
  }
  EXPECT_GT(seen.size(), 27U);
  EXPECT_TRUE(seen.contains(typeid(ReportEpisode::Contribution)));
}

TEST(Fields, KeepEveryMemberOfASummary) {
  Filler filler;
  const NodeSummary before = full_summary(filler);
  const NodeSummary after = parse_summary(render_summary(before));
  EXPECT_EQ(after.part.findings, before.part.findings);
  EXPECT_EQ(after.part.comparison, before.part.comparison);
  EXPECT_EQ(after.part.history, before.part.history);
  EXPECT_EQ(after.part, before.part);
  EXPECT_EQ(after.profile, before.profile);
  EXPECT_EQ(after, before);
}

TEST(Fields, KeepEveryMemberOfASummaryAsBytes) {
  Filler filler;
  NodeSummary before = full_summary(filler);
  before.profile.channels.front().blocks = {0.1F, -3e30F, std::numeric_limits<float>::quiet_NaN()};
  PackedWriter writer;
  writer.put(before);
  const std::string bytes = writer.take();
  const std::string kept = writer.texts();
  PackedTexts texts(kept);
  PackedReader reader(bytes, texts, 1'000'000);
  NodeSummary after;
  reader.get(after);
  EXPECT_EQ(reader.left(), 0U);
  after.profile.node = after.node;
  EXPECT_TRUE(std::isnan(after.profile.channels.front().blocks.at(2)));
  after.profile.channels.front().blocks.at(2) = before.profile.channels.front().blocks.at(2) = 0;
  EXPECT_EQ(after.part, before.part);
  EXPECT_EQ(after.profile, before.profile);
  EXPECT_EQ(after, before);
}

TEST(Fields, AreRefusedWhereBytesAreMissing) {
  Filler filler;
  PackedWriter writer;
  writer.put(full_summary(filler));
  const std::string bytes = writer.take();
  const std::string kept = writer.texts();
  PackedTexts texts(kept);
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    PackedReader reader(std::string_view(bytes).substr(0, size), texts, 1'000'000);
    NodeSummary after;
    EXPECT_THROW(reader.get(after), Error) << size;
  }
  PackedReader small(bytes, texts, 1000);
  NodeSummary after;
  EXPECT_THROW(small.get(after), Error) << "more memory than it may take";
  EXPECT_THROW(PackedTexts(std::string_view(kept).substr(0, kept.size() - 1)), Error);
}

TEST(PackedFields, CountTheMemoryOfTrends) {
  constexpr std::size_t kChannels = 1000;
  NodeProfile profile;
  profile.end_utc_ns = profile.block_ns = profile.sparkline_step_ns = 1;
  profile.channels.resize(kChannels);
  for (std::size_t i = 0; i < kChannels; ++i) {
    profile.channels[i].name = std::to_string(kChannels + i);
    profile.channels[i].trend = ProfileTrend{.high = 1};
  }
  PackedWriter writer;
  writer.put(profile);
  const std::string bytes = writer.take();
  const std::string kept = writer.texts();
  PackedTexts texts(kept);
  constexpr std::size_t kEach = sizeof(ProfileChannel) + sizeof(ProfileTrend);
  NodeProfile after;
  PackedReader enough(bytes, texts, (kChannels + 1) * kEach);
  EXPECT_NO_THROW(enough.get(after));
  EXPECT_EQ(after, profile);
  PackedReader small(bytes, texts, (kChannels - 1) * kEach);
  EXPECT_THROW(small.get(after), Error);
}

/// Keys of texts and objects: one that does not exist is null without more ado.
void find_words(const Json& json, std::set<std::string>& words) {
  for (const auto& [key, value] : json.items()) {
    const bool time = value.is_string() && parse_iso_time(value.get<std::string>());
    if (json.is_object() && ((value.is_string() && !time) || value.is_object())) words.insert(key);
    if (value.is_structured()) find_words(value, words);
  }
}

void expect_reasons(const Json& json, const std::set<std::string>& words) {
  for (const auto& [key, value] : json.items()) {
    if (json.is_object() && value.is_null() && !words.contains(key)) {
      EXPECT_TRUE(json.contains(key + "_reason")) << key << " in " << json.dump().substr(0, 200);
    }
    if (value.is_structured() && key != "timeline") expect_reasons(value, words);
  }
}

TEST(Fields, SayWhyANumberOrATimeIsUnknown) {
  Filler filler;
  std::set<std::string> words;
  Json full = JsonWriter::whole(full_summary(filler).part);
  full.erase("units");  // texts by the keys of numbers
  find_words(full, words);
  EXPECT_TRUE(words.contains("primary"));
  for (const char* number : {"observed", "seconds", "begin", "exit_code"}) EXPECT_FALSE(words.contains(number));
  for (const samples::Sample& sample : samples::all()) {
    const Json json = JsonWriter::whole(sample.report);
    for (const char* object : {"comparison", "history"}) {
      EXPECT_EQ(json.at(object).is_null(), json.contains(std::string(object) + "_reason")) << sample.name;
    }
    expect_reasons(json, words);
  }
}

/// The result of another program that reads a line of `reveal watch --json`.
template <class T>
T read_line(const std::string& line) {
  const Json json = parse_json(line, "a line");
  T thing;
  JsonReader reader(json, "a line");
  fields(reader, thing);
  return thing;
}

TEST(Fields, KeepEveryMemberOfALineOfTheWatch) {
  Filler filler;
  AlertNotice alert;
  filler.whole(alert);
  EXPECT_EQ(read_line<AlertNotice>(alert_json(alert)), alert);
  WatchSummary end;
  filler.whole(end);
  EXPECT_EQ(read_line<WatchSummary>(end_json(end)), end);
  EXPECT_EQ(read_line<WatchNotice>(watch_json(end.notice)), end.notice);
}

TEST(Fields, KeepEveryMemberOfARun) {
  Filler filler;
  RunRecord before;
  filler.whole(before);
  EXPECT_EQ(parse_run(render_run(before)), before);
}

/// Keys of `things` that a document does not explain.
std::set<std::string> unexplained(const std::string& document, const auto&... things) {
  std::set<std::string> keys;
  (insert_keys(JsonWriter::whole(things), keys), ...);
  for (const std::string& word : words_in_code(document)) keys.erase(word);
  return keys;
}

template <class T>
T filled(Filler& filler) {
  T thing;
  filler.whole(thing);
  return thing;
}

TEST(PackedFields, RefuseMoreTextsThanAReaderTakes) {
  PackedWriter writer;
  for (int i = 0; i < 1 << 21; ++i) writer.put(std::to_string(i));
  EXPECT_NO_THROW(writer.put(std::string("1")));
  EXPECT_THROW(writer.put(std::string("one more")), Error);
}

TEST(Fields, AreExplainedInTheDocumentOfTheirFormat) {
  using Words = std::set<std::string>;
  Filler filler;
  RunRecord run = filled<RunRecord>(filler);
  run.facts.clear();  // by keys of the nodes
  EXPECT_EQ(unexplained("postproc/history/run.md", run, run.channels.front()), Words());
  EXPECT_EQ(unexplained("postproc/live/alerts.md", filled<AlertNotice>(filler), filled<EarlierNotice>(filler),
                        filled<WatchSummary>(filler)),
            Words());
  EXPECT_EQ(unexplained("postproc/ledger/ledger.md", filled<LedgerLine>(filler), filled<NodeRanking>(filler)), Words());
  EXPECT_EQ(unexplained("postproc/ledger/ledger.md", filled<RunChannel>(filler)),
            (Words{"channel", "kind", "subsystem", "unit", "value"}));
}

}  // namespace
}  // namespace reveal::tests::fields_test
