// Rows of the rule table for differences from earlier runs. Their findings are made in history_findings.cpp.
#include "postproc/diagnose/rule.h"

namespace reveal {
namespace {

/// Adds the fields that these rules share.
RuleSpec rule_of_history(RuleSpec spec) {
  spec.kind = FindingKind::history;
  spec.states = Stated::difference;
  spec.subsystem = Subsystem::process;
  spec.order = 500;
  spec.look_alikes = "another input or version of the program";
  spec.user_remedy = {"reveal compare EARLIER_RUN THIS_RUN   # the run time, and the findings that are new"};
  spec.advice = {
      "Check the changes since the earlier runs: program, input, modules and nodes. The HTML report and report.json "
      "(history) list the settings and channels that differ."};
  spec.verify = {.expected = "with the same input"};
  spec.sources = {"https://arxiv.org/abs/2510.26008"};
  return spec;
}

const RegisteredRule kSlower{rule_of_history({
    .id = "history.slower",
    .title = "This run took longer than earlier runs",
    .looks_for = "A run time above that of earlier runs of the same program and shape, beyond their spread.",
    .proof = Proof::test_double,
    .thresholds = {{"min_percent", 10, "percent", "least difference of the run time from the median of earlier runs"},
                   {"min_seconds", 2, "s", "least difference in seconds"},
                   {"warning_percent", 20, "percent", "difference from which this is a warning; below it, a notice"},
                   {"warning_seconds", 10, "s",
                    "difference in seconds from which this is a warning; below it, a notice"}},
})};

const RegisteredRule kDrift{rule_of_history({
    .id = "history.drift",
    .title = "This job takes longer than its first runs",
    .looks_for = "A run time above that of the oldest known runs, but not above that of the last ones.",
    .proof = Proof::test_double,
    .thresholds = {{"min_percent", 20, "percent", "least difference of the run time from the oldest known runs"}},
})};

const RegisteredRule kChanged{rule_of_history({
    .id = "history.changed",
    .title = "This run behaved differently from earlier runs",
    .looks_for =
        "Channels whose level differs from that of earlier runs, while the earlier runs agree with each other.",
    .proof = Proof::test_double,
    .thresholds = {{"min_percent", 25, "percent", "least change of a channel"},
                   {"min_channels", 3, "channels", "least number of channels with such a change"},
                   {"min_runs", 5, "runs", "earlier runs that must agree"}},
})};

}  // namespace
}  // namespace reveal
