#include "postproc/mail/mailer_state.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::mailer_state_test {
namespace {

NodeFault fault_on(const std::string& node, const std::string& owner) {
  NodeFault fault;
  fault.rule = "mem.ecc_host";
  fault.node = node;
  fault.owner = owner;
  return fault;
}

constexpr std::int64_t kNow = 1'763'640'000'000'000'000;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kDay = 24 * 60 * kMinute;

TEST(MailerStates, ComeBackAsTheyWere) {
  MailerState state;
  state.counters.user_mails = 12;
  state.counters.held_back = 3;
  state.jobs_of_rules["mem.ecc_host"] = 500;
  state.hour = 490'000;
  state.sent_in_hour[1000] = 7;
  state.waiting["mail-1"] = {.tries = 2, .first_utc_ns = kNow, .next_utc_ns = kNow + kMinute};
  state.waiting["mail-2"] = {};
  state.told[{"mem.ecc_host", "n17"}] = {.utc_ns = kNow, .owner = "ada"};
  state.untold_since_utc_ns = kNow + 1;
  state.steps[{"mem.ecc_host", "n17"}] = {"one", "two"};
  const MailerState again = parse_mailer_state(render_mailer_state(state));
  EXPECT_EQ(render_mailer_state(again), render_mailer_state(state));
  EXPECT_EQ(again.counters.user_mails, 12U);
  EXPECT_EQ(again.waiting.at("mail-1").tries, 2);
  EXPECT_EQ(again.waiting.at("mail-1").next_utc_ns, kNow + kMinute);
  EXPECT_EQ(again.told.at({"mem.ecc_host", "n17"}).utc_ns, kNow);
  EXPECT_EQ(again.told.at({"mem.ecc_host", "n17"}).owner, "ada");
  EXPECT_EQ(again.steps, state.steps);
  EXPECT_THROW(static_cast<void>(parse_mailer_state("{}")), Error);
  EXPECT_THROW(static_cast<void>(parse_mailer_state("[[[")), Error);
}

TEST(MailerStates, TryAMailLaterEachTimeAndGiveItUpAfterThreeDays) {
  WaitingMail mail;
  EXPECT_TRUE(put_off(mail, kNow));
  EXPECT_EQ(mail.next_utc_ns, kNow + 5 * kMinute);
  EXPECT_FALSE(is_due(mail, kNow));
  EXPECT_TRUE(is_due(mail, kNow + 5 * kMinute));
  EXPECT_TRUE(put_off(mail, kNow + 5 * kMinute));
  EXPECT_EQ(mail.next_utc_ns, kNow + 15 * kMinute);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(put_off(mail, kNow + kDay));
  EXPECT_EQ(mail.next_utc_ns, kNow + kDay + 360 * kMinute);
  EXPECT_TRUE(put_off(mail, kNow + 3 * kDay));
  EXPECT_FALSE(put_off(mail, kNow + 3 * kDay + kMinute));
}

TEST(MailerStates, GiveNoMailUpBecauseTheClockWasSet) {
  WaitingMail mail;
  EXPECT_TRUE(put_off(mail, kNow));
  EXPECT_TRUE(put_off(mail, kNow + 3650 * kDay)) << "ten years in one step";
  EXPECT_TRUE(is_due(mail, kNow)) << "and back";
  EXPECT_TRUE(put_off(mail, kNow));
  EXPECT_EQ(mail.next_utc_ns, kNow + 20 * kMinute);
}

TEST(MailerStates, CountTheMailsOfAnHourForEachOwner) {
  MailerState state;
  EXPECT_FALSE(state.is_hour_full(1000, 2, kNow));
  state.sent_in_hour[1000] = 2;
  EXPECT_TRUE(state.is_hour_full(1000, 2, kNow));
  EXPECT_FALSE(state.is_hour_full(1001, 2, kNow));
  EXPECT_FALSE(state.is_hour_full(1000, 2, kNow + 60 * kMinute));
  EXPECT_TRUE(state.is_hour_full(1000, 0, kNow));
}

TEST(MailerStates, ForgetAfterADayThatAdministratorsWereTold) {
  MailerState state;
  state.tell(fault_on("n17", "ada"), kNow);
  EXPECT_TRUE(state.is_told(fault_on("n17", "ada"), kNow));
  EXPECT_FALSE(state.is_told(fault_on("n18", "ada"), kNow));
  EXPECT_FALSE(state.is_told(fault_on("n17", "ada"), kNow + kDay));
  EXPECT_FALSE(state.is_told(fault_on("n17", "ada"), kNow - 1)) << "the clock was put back";
  state.waiting["mail-1"] = {};
  state.waiting["mail-2"] = {};
  state.forget_old({"mail-2"}, kNow + kDay);
  EXPECT_TRUE(state.told.empty());
  EXPECT_EQ(state.waiting.size(), 1U);
}

TEST(MailerStates, LetNoUserHideTheFaultOfAnother) {
  MailerState state;
  state.tell(fault_on("n17", "mallory"), kNow);
  EXPECT_TRUE(state.is_told(fault_on("n17", "mallory"), kNow + kMinute));
  EXPECT_FALSE(state.is_told(fault_on("n17", "ada"), kNow + kMinute));
  EXPECT_FALSE(state.is_told(fault_on("n17", ""), kNow + kMinute)) << "jobs of both had it";
  state.tell(fault_on("n17", "ada"), kNow + kMinute);
  for (const char* owner : {"mallory", "ada", "eve", ""}) {
    EXPECT_TRUE(state.is_told(fault_on("n17", owner), kNow + kDay)) << "one more mail a day, no mail for each user";
  }
  EXPECT_FALSE(state.is_told(fault_on("n17", "ada"), kNow + kMinute + kDay));
}

TEST(MailerStates, KeepNoStepsThatNoRuleHas) {
  MailerState state;
  state.keep_steps({{{"cpu.outsider", "n01"},
                     {"rm -rf /", "systemctl list-timers   # on n01: timers that start at that time of day"}},
                    {{"cpu.outsider", std::string(254, 'n')},
                     {"systemctl list-timers   # on n01: timers that start at that time of day"}},
                    {{"cpu.outsider", "n02"}, {"rm -rf /"}},
                    {{"no.such_rule", "n01"}, {"systemctl list-timers"}}});
  EXPECT_EQ(state.steps.at({"cpu.outsider", "n01"}),
            std::vector<std::string>{"systemctl list-timers   # on n01: timers that start at that time of day"});
  EXPECT_EQ(state.steps.size(), 1U) << "rules and nodes are names out of a user's file";
}

TEST(MailerStates, AreMetricsForPrometheus) {
  MailerState state;
  state.counters.user_mails = 12;
  state.counters.digests = 1;
  state.jobs_of_rules["mem.ecc_host"] = 500;
  const std::string metrics = mailer_metrics(state, 4, kNow);
  for (const char* line :
       {"# TYPE reveal_mailer_mails_total counter\n"
        "reveal_mailer_mails_total{audience=\"user\"} 12\nreveal_mailer_mails_total{audience=\"admins\"} 1\n",
        "reveal_mailer_jobs_with_finding_total{rule=\"mem.ecc_host\"} 500\n", "# TYPE reveal_mailer_waiting gauge\n",
        "reveal_mailer_waiting 4\n", "reveal_mailer_failed_total 0\n"}) {
    EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
  }
}

}  // namespace
}  // namespace reveal::tests::mailer_state_test
