#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "config_of.h"
#include "hdf5schema/basics/file_text.h"

namespace reveal::tests::config_template_test {
namespace {

constexpr const char* kSiteFile = TEST_DATA "/../../site-config/reveal.conf";

TEST(ConfigTemplate, IsTheFileInSiteConfig) {
  if (std::getenv("REVEAL_ACCEPT") != nullptr) std::ofstream(kSiteFile) << config_template();
  EXPECT_EQ(file_text(kSiteFile), config_template()) << "REVEAL_ACCEPT=1 writes it anew";
}

TEST(ConfigTemplate, ChangesNothingWhenItIsInstalled) {
  const Config config = config_of(config_template());
  EXPECT_TRUE(config.problems().empty());
  for (const ConfigKey* key : all_config_keys()) EXPECT_EQ(config.place(*key), "") << key->key;
}

TEST(ConfigTemplate, IsReadWithoutMistakesWhenEveryKeyIsUncommented) {
  std::string text = config_template();
  for (std::size_t at = 0; (at = text.find("\n# ", at)) != std::string::npos; ++at) {
    const std::size_t end = text.find('\n', at + 1);
    const std::string line = text.substr(at + 3, end - at - 3);
    const std::size_t equals = line.find(" = ");
    const bool key = equals != std::string::npos && line.find(' ') == equals && line.find("total") == std::string::npos;
    if (key || line.starts_with("[rule.")) text.erase(at + 1, 2);
  }
  const Config config = config_of(text);
  for (const ConfigProblem& problem : config.problems()) ADD_FAILURE() << problem.text;
  EXPECT_EQ(config.place(config_key("slurm", "keep_days")).substr(0, 12), "reveal.conf:");
  EXPECT_NE(config.place(find_config_key("rule.cpu.outsider.min_cpu")), "");
}

TEST(ConfigOfRules, HasARowForEveryThreshold) {
  for (const RuleSpec* rule : rules()) {
    const std::string name = "rule." + std::string(rule->id) + ".";
    EXPECT_TRUE(Config().truth(find_config_key(name + "enabled"))) << name;
    for (const Threshold& threshold : rule->thresholds) {
      const ConfigKey& key = find_config_key(name + std::string(threshold.name));
      EXPECT_EQ(Config().number(key), threshold.value) << name << threshold.name;
    }
  }
}

}  // namespace
}  // namespace reveal::tests::config_template_test
