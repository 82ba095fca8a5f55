#include "postproc/compare/tried_line.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/remedy.h"
#include "postproc/diagnose/rule.h"

namespace reveal::tests::tried_line_test {
namespace {

using Words = std::vector<std::string>;
using Set = std::vector<std::pair<std::string, std::string>>;

std::string refusal(std::string_view line) {
  try {
    static_cast<void>(parse_tried_line(line, "./train"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TriedLine, SplitsAsAShellDoes) {
  EXPECT_EQ(shell_words("numactl  --membind=0\t-C 0-3"), (Words{"numactl", "--membind=0", "-C", "0-3"}));
  EXPECT_EQ(shell_words(R"(A='x y' B="q \"r\""X)"), (Words{"A=x y", "B=q \"r\"X"}));
  EXPECT_EQ(shell_words("a\\ b '' # a comment"), (Words{"a b", ""}));
  EXPECT_EQ(shell_words("A=b#c"), Words{"A=b#c"}) << "a comment begins a word";
  EXPECT_TRUE(shell_words("  # only a comment").empty());
}

TEST(TriedLine, IsVariablesAndWordsBeforeTheCommand) {
  EXPECT_EQ(parse_tried_line("export A=1 B='2 3'   # try both", "./train").set, (Set{{"A", "1"}, {"B", "2 3"}}));
  EXPECT_EQ(parse_tried_line("unset A B", "./train").unset, (Words{"A", "B"}));
  const TriedLine line = parse_tried_line("A= taskset -c 0 ./train --epochs 3", "./train");
  EXPECT_EQ(line.set, (Set{{"A", ""}}));
  EXPECT_EQ(line.prefix, (Words{"taskset", "-c", "0"}));
  EXPECT_EQ(parse_tried_line("srun --cpu-freq=performance train ...", "./train").prefix,
            (Words{"srun", "--cpu-freq=performance", "train"}));
  EXPECT_EQ(parse_tried_line("nice -n 5 COMMAND", "./train").prefix, (Words{"nice", "-n", "5"}));
}

TEST(TriedLine, RefusesWhatOnlyAShellCanDo) {
  for (const std::string line :
       {"a | b", "a; rm b", "a && b", "echo > x", "A=$B", "A=\"$(id)\"", "a `id`", "~/x", "cat *", "taskset -c {0,1}",
        "a\nb", "(a)", "a < b", "a & b", "A=~/x", "A=/x:~/y", "A='x\ny'", "A=x\\\ny"}) {
    EXPECT_NE(refusal(line).find("needs a shell"), std::string::npos) << line;
  }
  EXPECT_EQ(parse_tried_line("OMP_PLACES='{0:4}'", "x").set, (Set{{"OMP_PLACES", "{0:4}"}})) << "quoted, it is itself";
  EXPECT_EQ(parse_tried_line("A='~/x' B=x~", "x").set, (Set{{"A", "~/x"}, {"B", "x~"}}));
}

TEST(TriedLine, RefusesWhatIsNoLineToTry) {
  EXPECT_NE(refusal("#SBATCH --mem=10G").find("submit two jobs"), std::string::npos);
  EXPECT_NE(refusal("A='open").find("not closed"), std::string::npos);
  EXPECT_NE(refusal("export 1A=2").find("no NAME=VALUE"), std::string::npos);
  EXPECT_NE(refusal("unset A=1").find("no name of a variable"), std::string::npos);
  EXPECT_NE(refusal("# nothing").find("empty"), std::string::npos);
  EXPECT_NE(refusal("./train").find("changes nothing"), std::string::npos);
}

TEST(TriedLine, ChangesTheEnvironment) {
  TriedLine line = parse_tried_line("A=2 C=3 x", "");
  line.unset = {"B"};
  line.set.emplace_back("C", "4");
  const Words environment{"A=1", "B=1", "BB=1", "D=1"};
  EXPECT_EQ(environment_with(line, environment), (Words{"BB=1", "D=1", "A=2", "C=4"})) << "the later one holds";
}

TEST(TriedLine, IsTypedSoThatAShellTakesItBack) {
  TriedLine line = parse_tried_line("A='x y' B= numactl --membind=0 '--odd word'", "");
  EXPECT_EQ(as_typed(line), "A='x y' B= numactl --membind=0 '--odd word'");
  EXPECT_EQ(parse_tried_line(as_typed(line), ""), line);
  line = parse_tried_line("unset A", "");
  EXPECT_EQ(as_typed(line), "env -u A");
  EXPECT_EQ(as_typed(joined({parse_tried_line("taskset -c 0", ""), parse_tried_line("A=1 nice", "")})),
            "A=1 taskset -c 0 nice");
}

TEST(RemedyLine, IsKnownAgainWhenFilled) {
  const std::vector<RemedyLine> rows{{"srun --cpu-freq=performance {command} ..."}, {"export A={a} B={a}"}};
  EXPECT_TRUE(is_one_of("srun --cpu-freq=performance train.sh ...", rows));
  EXPECT_TRUE(is_one_of("export A=4 B=4", rows));
  EXPECT_FALSE(is_one_of("srun --cpu-freq=performance sh -c evil ...", rows)) << "a value is one word";
  EXPECT_FALSE(is_one_of("export A=4;id B=4", rows));
  EXPECT_FALSE(is_one_of("export A= B=", rows)) << "a value is not empty";
  EXPECT_FALSE(is_one_of("evil", rows));
}

Finding oversubscribed(const std::string& line) {
  Finding finding;
  finding.id = "cpu.oversubscribed";
  finding.remedy.user = {line};
  return finding;
}

TEST(TriedLine, OfAReportIsARowOfTheRuleTable) {
  ASSERT_NE(find_rule("cpu.oversubscribed"), nullptr);
  const std::string line = "export OMP_NUM_THREADS=2 MKL_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2";
  EXPECT_EQ(line_to_try(oversubscribed(line), "./train"), line);
  for (const std::string other : {"export LD_PRELOAD=/tmp/evil.so", "rm -rf /", ""}) {
    EXPECT_THROW(static_cast<void>(line_to_try(oversubscribed(other), "./train")), Error) << other;
  }
  Finding unknown = oversubscribed(line);
  unknown.id = "no.such_rule";
  EXPECT_THROW(static_cast<void>(line_to_try(unknown, "./train")), Error);
}

TEST(TriedLine, OfAReportIsNoProgramThatTakesNoCommand) {
  Finding finding;
  finding.id = "cpu.outsider";
  finding.remedy = remedy_for(*find_rule("cpu.outsider"), {{"node", "n1"}, {"job", "4711"}, {"command", "train"}});
  ASSERT_FALSE(finding.remedy.user.empty());
  EXPECT_THROW(static_cast<void>(line_to_try(finding, "./train")), Error) << "ps and scontrol wrap no command";
}

TEST(TriedLine, AddsOptionsToTheLauncherThatTheCommandBeginsWith) {
  const TriedLine line =
      parse_tried_line("A=1 torchrun --numa-binding=node --nproc_per_node=4 ...", "/opt/bin/torchrun");
  EXPECT_EQ(line.options, (Words{"--numa-binding=node", "--nproc_per_node=4"}));
  EXPECT_TRUE(line.prefix.empty());
  const Words command{"torchrun", "train.py", "--epochs", "1"};
  EXPECT_EQ(command_with(line, command),
            (Words{"torchrun", "--numa-binding=node", "--nproc_per_node=4", "train.py", "--epochs", "1"}));
  EXPECT_EQ(as_typed(line, command), "A=1 torchrun --numa-binding=node --nproc_per_node=4 train.py --epochs 1");
  EXPECT_EQ(as_typed(line), "A=1 ... --numa-binding=node --nproc_per_node=4");
  EXPECT_EQ(parse_tried_line("srun --cpu-bind=cores train ...", "srun").options, Words{"--cpu-bind=cores"})
      << "the report's name of the program";
  EXPECT_THROW(static_cast<void>(parse_tried_line("srun -n 4 train ...", "srun")), Error);
  EXPECT_EQ(parse_tried_line("torchrun --numa-binding=node ...", "train.py").prefix,
            (Words{"torchrun", "--numa-binding=node"}));
  EXPECT_EQ(joined({line, parse_tried_line("torchrun --standalone", "torchrun")}).options.size(), 3U);
}

TEST(TriedLine, OfAReportRunsScriptsByTorchrunAndNoInterpreter) {
  Finding finding;
  finding.id = "numa.mem_remote";
  finding.remedy.user = {"torchrun --numa-binding=node   # with a recent PyTorch",
                         "numactl --interleave=all   # for a process larger than a node: spreads its memory"};
  EXPECT_EQ(line_to_try(finding, "./train.py"), finding.remedy.user[0]);
  EXPECT_EQ(line_to_try(finding, "torchrun"), finding.remedy.user[0]);
  EXPECT_EQ(line_to_try(finding, "python"), finding.remedy.user[1]);
}

TEST(TriedLine, OfAReportMayBeOneThatUnsetsAVariable) {
  const std::pair<const char*, JobValues> kCases[] = {
      {"nccl.debug_env_left", {{"NCCL_DEBUG", "TRACE"}}},
      {"nccl.socket_fallback", {{"NCCL_IB_DISABLE", "1"}, {"command", "train"}}},
      {"cpu.affinity_too_narrow", {{"binds_threads", "yes"}}}};
  for (const auto& [rule, values] : kCases) {
    Finding finding;
    finding.id = rule;
    finding.remedy = remedy_for(*find_rule(rule), values);
    const std::string line = line_to_try(finding, "./train");
    EXPECT_TRUE(line.starts_with("unset ")) << rule << ": " << line;
    finding.remedy.user = {"unset LD_PRELOAD"};
    EXPECT_THROW(static_cast<void>(line_to_try(finding, "./train")), Error) << rule;
  }
}

}  // namespace
}  // namespace reveal::tests::tried_line_test
