#include "postproc/words/remedy_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
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
  const std::set<std::string_view> shows{"amd-smi",     "cat",     "df",     "find",      "for",       "grep",
                                         "ibstat",      "iostat",  "ip",     "lsblk",     "nfsiostat", "nstat",
                                         "nvidia-smi",  "ps",      "reveal", "sacct",     "squeue",    "tc",
                                         "timedatectl", "timeout", "top",    "tracepath", "xpu-smi",   "{python}"};
  for (const RuleSpec* rule : rules()) {
    for (const RemedyLine& line : rule->user_remedy) {
      const std::string_view word = line.text.substr(0, line.text.find(' '));
      EXPECT_EQ(form_of(line.text) == LineForm::look, shows.contains(word)) << rule->id << ": " << line.text;
    }
  }
}

/// A reader at night wants to know what to look for, and is asked nothing.
TEST(RemedyLines, AskNoQuestion) {
  for (const RuleSpec* rule : rules()) {
    for (const auto* lines : {&rule->user_remedy, &rule->advice, &rule->admin_remedy}) {
      for (const RemedyLine& line : *lines) {
        const std::string text(line.text);
        const std::string read = form_of(text) == LineForm::prose ? text : typed_line(text).comment;
        EXPECT_EQ(read.find('?'), std::string::npos) << rule->id << ": " << text;
        EXPECT_EQ(read.find("Ask the administrators what"), std::string::npos) << rule->id << ": " << text;
      }
    }
  }
}

/// HaveAKnownFirstWord lists what a user may run; a tool in a loop may need a setting, which the comment has to name.
TEST(RemedyLines, OfUsersTellWhatTheToolNeeds) {
  for (const RuleSpec* rule : rules()) {
    for (const RemedyLine& line : rule->user_remedy) {
      const TypedLine typed = typed_line(line.text);
      for (const char* root : {"sudo ", "dmesg", "journalctl", "sysctl ", "lctl ", "iotop", "smartctl", "systemctl "}) {
        EXPECT_EQ(typed.command.find(root), std::string::npos) << rule->id << ": " << line.text;
      }
      const bool attaches =
          typed.command.find("py-spy") != std::string::npos || typed.command.find("eu-stack") != std::string::npos;
      EXPECT_EQ(attaches, typed.comment.find("ptrace_scope=0") != std::string::npos) << rule->id << ": " << line.text;
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

TEST(RemedyLines, AreNumberedWhereTheyAreSteps) {
  RemedyTexts remedy{.user = {"export A=1", "export B=1", "cat a   # on n3", "cat b"},
                     .advice = {"Use less.", "Write less."},
                     .admin = {"cat c", "Reseat the card."}};
  EXPECT_EQ(remedy_as_text(remedy, 15, 80),
            "  job script   export A=1\n"
            "               export B=1\n"
            "  to change  1 Use less.\n"
            "             2 Write less.\n"
            "  look       1 cat a   # on n3\n"
            "             2 cat b\n"
            "  for admins 1 cat c\n"
            "             2 Reseat the card.\n");
  remedy.possible = true;
  EXPECT_NE(remedy_as_text(remedy, 15, 80).find("  for admins   cat c\n               Reseat the card.\n"),
            std::string::npos);
}

TEST(RemedyLines, AreToldFromAlternatives) {
  constexpr StepKind kOther = StepKind::alternative;
  const RemedyTexts remedy{.user = {"export A=1", {"export B=1", kOther}, {"srun --exact", kOther}},
                           .advice = {{"Use less.", kOther}, {"Ask for more.", kOther}},
                           .admin = {"cat c", "Reseat the card.", {"Replace the card.", kOther}, "Tell us."}};
  EXPECT_EQ(remedy_as_text(remedy, 15, 80),
            "  job script   export A=1\n"
            "            or export B=1\n"
            "  or start     srun --exact\n"
            "  or change    Use less.\n"
            "            or Ask for more.\n"
            "  for admins 1 cat c\n"
            "             2 Reseat the card.\n"
            "            or Replace the card.\n"
            "             3 Tell us.\n");
}

TEST(RemedyLines, ForAdministratorsChangeSomethingOrOnlyShowIt) {
  EXPECT_TRUE(is_change("sysctl vm.swappiness=1   # changes n3 until its next boot"));
  EXPECT_TRUE(is_change("cgroup.conf: ConstrainCores=yes"));
  EXPECT_TRUE(is_change("Reseat the card."));
  EXPECT_FALSE(is_change("sysctl vm.swappiness   # it changes nothing"));
  EXPECT_FALSE(is_change("Check the switch port of n3."));
  EXPECT_FALSE(is_change("cat /proc/net/softnet_stat"));
  std::vector<std::string> lines{"Reseat the card.", "cat a", "reboot   # changes the node", "Find the slow receiver."};
  looks_first(lines);
  EXPECT_EQ(lines, (std::vector<std::string>{"cat a", "Find the slow receiver.", "Reseat the card.",
                                             "reboot   # changes the node"}));
}

/// A new command in the rule table that changes a node must say so.
TEST(RemedyLines, ForAdministratorsSayIfTheyChangeTheNode) {
  constexpr std::string_view kShow[] = {"amd-smi bad-pages ",
                                        "amd-smi metric ",
                                        "cat /",
                                        "dcb pfc show ",
                                        "chronyc tracking ",
                                        "diff <(",
                                        "dmesg ",
                                        "dmidecode ",
                                        "ethtool -S ",
                                        "find ",
                                        "for vm in $(virsh list ",
                                        "grep ",
                                        "ibqueryerrors ",
                                        "iotop ",
                                        "ip link show ",
                                        "ipmitool dcmi power get_limit ",
                                        "ipmitool sdr ",
                                        "ipmitool sel list ",
                                        "journalctl ",
                                        "lctl get_param ",
                                        "lsblk ",
                                        "lspci ",
                                        "mlnx_qos -i {interface}   #",
                                        "mlxlink ",
                                        "nfsiostat ",
                                        "nvidia-smi -i {gpu} -q ",
                                        "nvidia-smi -q -d ",
                                        "nvidia-smi nvlink -e ",
                                        "nvidia-smi topo ",
                                        "perfquery -C ",
                                        "ps ",
                                        "reveal check ",
                                        "smartctl -a ",
                                        "systemctl list-timers ",
                                        "systemctl status ",
                                        "systemd-cgtop ",
                                        "tc -d qdisc show ",
                                        "tc -s qdisc show ",
                                        "turbostat ",
                                        "xpu-smi stats "};
  for (const RuleSpec* rule : rules()) {
    for (const RemedyLine& line : rule->admin_remedy) {
      if (form_of(line.text) == LineForm::prose || is_change(line.text)) continue;
      const std::string command = typed_line(line.text).command;
      const bool only_shows = std::any_of(std::begin(kShow), std::end(kShow), [&](std::string_view begin) {
        return (std::string(line.text) + ' ').starts_with(begin);
      });
      EXPECT_TRUE(only_shows && (command.find(" > ") == std::string::npos)) << rule->id << ": " << line.text;
    }
  }
}

/// Texts have no relation of their own, and lines are shown by form.
TEST(RemedyLines, OfTheTableHaveTheirRelationAsData) {
  for (const RuleSpec* rule : rules()) {
    for (const auto* lines : {&rule->user_remedy, &rule->advice, &rule->admin_remedy}) {
      for (std::size_t i = 0; i < lines->size(); ++i) {
        const RemedyLine& line = (*lines)[i];
        const std::string text(line.text);
        const std::string comment = typed_line(text).comment;
        EXPECT_FALSE(text.starts_with("Or ") || comment.starts_with("or ") || comment.find("; or") != text.npos)
            << rule->id << ": " << text;
        const bool conditional = text.starts_with("If ");
        EXPECT_TRUE(!conditional || line.kind == StepKind::condition) << rule->id << ": " << text;
        const bool has_condition = conditional || comment.find("if ") != std::string::npos;
        EXPECT_TRUE(line.kind != StepKind::condition || has_condition) << rule->id << ": " << text;
        if (line.kind != StepKind::alternative || i == 0) continue;
        const bool in_order = form_of((*lines)[i - 1].text) <= form_of(text) || lines != &rule->user_remedy;
        EXPECT_TRUE(in_order) << rule->id << ": shown before its line: " << text;
        EXPECT_EQ(is_change((*lines)[i - 1].text), is_change(text)) << rule->id << ": " << text;
      }
    }
  }
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
