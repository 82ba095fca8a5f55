#include "postproc/words/remedy_lines.h"

#include <gtest/gtest.h>

#include <set>

#include "postproc/diagnose/rule.h"

namespace reveal::tests::remedy_lines_test {
namespace {

TEST(RemedyLines, AreToldApartByTheirFirstWord) {
  EXPECT_EQ(form_of("#SBATCH --exclude=n03"), LineForm::job_script);
  EXPECT_EQ(form_of("export NCCL_NSOCKS_PERTHREAD=4"), LineForm::job_script);
  EXPECT_EQ(form_of("srun --cpu-bind=cores ./train"), LineForm::before_program);
  EXPECT_EQ(form_of("NCCL_DEBUG=INFO ./train 2>&1 | grep NET"), LineForm::before_program);
  EXPECT_EQ(form_of("nsys profile -t cuda,nvtx -d 30   # the gaps between kernels"), LineForm::run_under);
  EXPECT_EQ(form_of("grep 'locked memory' /proc/self/limits   # in the job"), LineForm::look);
  EXPECT_EQ(form_of("nstat -az | grep Retrans  # on n03"), LineForm::look);
  EXPECT_EQ(form_of("scontrol update nodename=n03 state=drain reason=heat"), LineForm::look);
  EXPECT_EQ(form_of("Reseat the cable of mlx5_0"), LineForm::prose);
  EXPECT_EQ(form_of("cgroup.conf: ConstrainCores=yes"), LineForm::prose);
  EXPECT_EQ(form_of("check n03: clock limits"), LineForm::prose);
}

TEST(RemedyLines, OfUsersAreAllTyped) {
  for (const RuleSpec* rule : rules()) {
    for (const RemedyLine& line : rule->user_remedy) {
      EXPECT_NE(form_of(line.text), LineForm::prose) << rule->id << ": " << line.text;
    }
  }
}

/// A new program in the rule table needs a form: a program that is not in remedy_lines.cpp only shows something.
TEST(RemedyLines, HaveAKnownFirstWord) {
  const std::set<std::string_view> shows{"amd-smi",    "cat",       "df",       "du",     "for",       "grep",
                                         "ibstat",     "iostat",    "ip",       "lctl",   "nfsiostat", "nstat",
                                         "nvidia-smi", "ps",        "scontrol", "squeue", "tc",        "timedatectl",
                                         "timeout",    "tracepath", "{python}"};
  for (const RuleSpec* rule : rules()) {
    for (const RemedyLine& line : rule->user_remedy) {
      const std::string_view word = line.text.substr(0, line.text.find(' '));
      EXPECT_EQ(form_of(line.text) == LineForm::look, shows.contains(word)) << rule->id << ": " << line.text;
    }
  }
}

TEST(RemedyLines, OfToolsFollowTheAdvice) {
  const RemedyTexts remedy{
      .user = {"nsys profile -d 30", "export A=1"}, .advice = {"Use larger batches."}, .admin = {}};
  EXPECT_EQ(remedy_as_text(remedy, 15, 80),
            "  job script   export A=1\n"
            "  to change    Use larger batches.\n"
            "  run under    nsys profile -d 30\n");
}

TEST(RemedyLines, KeepTheirOrderWithinAForm) {
  EXPECT_EQ(lines_with_form({"cat a", "export B=1", "cat c", "unset D"}, LineForm::job_script),
            (std::vector<std::string>{"export B=1", "unset D"}));
}

TEST(RemedyLines, HaveACommandAndAComment) {
  EXPECT_EQ(typed_line("nstat -az   # on n03, in the next run").command, "nstat -az");
  EXPECT_EQ(typed_line("nstat -az   # on n03, in the next run").comment, "on n03, in the next run");
  EXPECT_EQ(typed_line("#SBATCH --mem=2G").command, "#SBATCH --mem=2G");
  EXPECT_EQ(typed_line("#SBATCH --mem=2G").comment, "");
}

}  // namespace
}  // namespace reveal::tests::remedy_lines_test
