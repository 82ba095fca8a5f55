// The lists of metrics are printed from the tables.
#include "core/listing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/sampler/probe.h"
#include "tests/unit/core/test_host.h"

namespace reveal::tests::listing_test {
namespace {

TEST(Listing, SaysUnitKindScopeSourceAndPrivilegeOfEveryMetric) {
  const auto list = nlohmann::json::parse(list_probes(Form::json));
  ASSERT_EQ(list.size(), probes().size());
  std::size_t metrics = 0;
  for (const auto& probe : list) {
    EXPECT_TRUE(probe.contains("privilege") && probe.contains("period_seconds")) << probe;
    for (const auto& metric : probe.at("metrics")) {
      ++metrics;
      for (const char* key : {"name", "unit", "kind", "scope", "source", "help"}) {
        EXPECT_FALSE(metric.at(key).get<std::string>().empty()) << metric;
      }
    }
  }
  std::size_t rows = 0;
  for (const ProbeSpec& spec : probes()) {
    for (const FamilyTable& table : spec.families) rows += table.metrics.size();
  }
  EXPECT_EQ(metrics, rows);
}

TEST(Listing, AsMarkdownHasOneRowForEveryMetric) {
  const std::string text = list_probes(Form::markdown);
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = text.find("\n| ", at)) != std::string::npos; ++at) ++rows;
  std::size_t expected = 0;
  for (const ProbeSpec& spec : probes()) {
    ++expected;  // the head of its table
    for (const FamilyTable& table : spec.families) expected += table.metrics.size();
  }
  EXPECT_EQ(rows, expected);
  EXPECT_NE(text.find("| cpu.user | ns | counter | cpu | /proc/stat | "), std::string::npos);
  EXPECT_NE(text.find("mem.\\<key>"), std::string::npos) << "a reader would take <key> for a tag";
}

TEST(Listing, GivesFactsAsAnObject) {
  const Snapshot facts{{"cpu.model", "a \"b\""}, {"kernel.release", "6.1"}};
  EXPECT_EQ(nlohmann::json::parse(list_facts(facts, Form::json)),
            (nlohmann::json{{"cpu.model", "a \"b\""}, {"kernel.release", "6.1"}}));
  EXPECT_EQ(list_facts(facts, Form::text), "cpu.model = a \"b\"\nkernel.release = 6.1\n");
}

TEST(Listing, NamesTheAbsenceOfEachProbeThatIsMissing) {
  const CheckedProbe checked[] = {{{.probe = "cpu"}, Absence::obtainable},
                                  {{"job", Coverage::State::absent, "no job was named"}, Absence::needs_job},
                                  {{"energy", Coverage::State::failed, "odd"}, Absence::hardware}};
  const auto list = nlohmann::json::parse(list_coverage(checked, Form::json));
  EXPECT_FALSE(list.at(0).contains("absence"));
  EXPECT_EQ(list.at(1).at("absence"), "needs_job");
  EXPECT_EQ(list.at(2).at("absence"), "hardware");
  EXPECT_EQ(list_coverage(std::span(checked).first(2), Form::text),
            "cpu                  ok      \n"
            "job                  absent  no job was named\n"
            "                             to enable it: run the command under reveal-run or srun --reveal\n");
}

TEST(Listing, ProbesThatAreMissingHaveTheAbsenceOfTheirRowOrOfTheirReason) {
  TestHost host;
  KernelTree fs(host.root());
  TraceSink sink;
  const std::vector<std::string> names{"energy", "hugepages", "job", "outsiders", "pressure", "site"};
  const Sampler sampler(fs, sink, {.interval = std::chrono::milliseconds(100), .probes = names}, TickTime{});
  std::string absences;
  for (const auto& [coverage, absence] : sampler.checked()) {
    absences += coverage.probe + ": " + std::string(name_of(absence)) + '\n';
  }
  EXPECT_EQ(absences,
            "energy: hardware\n"
            "hugepages: not_here\n"
            "job: needs_job\n"
            "outsiders: needs_job\n"
            "pressure: obtainable\n"
            "site: off\n");
}

TEST(Listing, ThatSomethingCostsMoreOnLargeHostsIsSaid) {
  const auto list = nlohmann::json::parse(list_probes(Form::json));
  for (const auto& probe : list) {
    if (probe.at("name") != "interrupts") continue;
    EXPECT_EQ(probe.at("period_seconds"), 0.1);
    EXPECT_GT(probe.at("period_seconds_on_1152_cpus"), 1.0);
    return;
  }
  FAIL() << "no probe is named interrupts";
}

}  // namespace
}  // namespace reveal::tests::listing_test
