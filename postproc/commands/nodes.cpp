#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/host_name.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/basics/text.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/ledger/node_ranking.h"
#include "postproc/ledger/owner_key.h"
#include "postproc/mail/node_digest.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArchivedReport = "report.json";
constexpr std::string_view kStandardInput = "-";
constexpr std::size_t kLargestUntold = std::size_t{64} << 20;
constexpr std::int64_t kFirstDigest = std::int64_t{24} * 3600 * 1'000'000'000;      // it tells of so long
constexpr std::int64_t kMostBehind = std::int64_t{90} * 24 * 3600 * 1'000'000'000;  // that a clock is behind

bool has_report(const fs::path& directory) {
  struct stat status {};
  return ::lstat((directory / kArchivedReport).c_str(), &status) == 0 || errno == EACCES;
}

/// Job directories: those given, and those in a given folder. Names only; nothing in them is opened.
std::vector<fs::path> job_directories(const std::vector<std::string>& given, std::vector<UnreadDirectory>& unread) {
  std::vector<fs::path> directories;
  for (const std::string& path : given) {
    need_directory(path);
    if (has_report(path)) {
      directories.emplace_back(path);
      continue;
    }
    const std::size_t before = directories.size();
    std::error_code error;
    for (fs::directory_iterator entries(path, error), none; !error && entries != none; entries.increment(error)) {
      std::error_code ignored;
      if (entries->symlink_status(ignored).type() != fs::file_type::directory) continue;
      if (has_report(entries->path())) {
        directories.push_back(entries->path());
      } else {
        unread.push_back({entries->path().string(), entries->path().string() + ": no " + kArchivedReport});
      }
    }
    if (error) unread.push_back({path, path + ": " + error.message()});
    if (directories.size() == before && !error) {
      unread.push_back({path, path + ": no " + kArchivedReport + ", here and in the directories below"});
    }
  }
  std::sort(directories.begin(), directories.end());
  directories.erase(std::unique(directories.begin(), directories.end()), directories.end());
  return directories;
}

/// The lines of one job. All of the parsing is done where nothing else can be reached; the answer is parsed once more.
std::vector<LedgerLine> lines_in(const fs::path& directory, const OwnerKey& owners, std::int64_t now_utc_ns) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) throw system_error(directory.string(), errno);
  const std::string answer = query_confined(directory, {}, [&directory] {
    const std::string json = read_text_file(directory / kArchivedReport, kLargestReport);
    try {
      return render_ledger(ledger_lines(json));
    } catch (const Error& error) {
      throw Error(directory.string() + ": " + error.what());
    }
  });
  ParsedLedger parsed = parse_ledger(answer, now_utc_ns);
  if (parsed.refused > 0) throw Error(directory.string() + ": its report has impossible times or names");
  for (LedgerLine& line : parsed.lines) line.owner = owners.pseudonym(status.st_uid);
  return std::move(parsed.lines);
}

/// Calls `use` with lines of standard input, about a megabyte at a time. A line of more than that comes in parts, each
/// of which is refused. Throws Error if it cannot be read to its end: the rest of a ledger is not healthy nodes.
void read_standard_input(const std::function<void(std::string_view lines)>& use) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::string text;
  char part[65536];
  for (std::size_t got = 1; got > 0;) {
    got = std::fread(part, 1, sizeof part, stdin);
    text.append(part, got);
    if (text.size() < kPiece) continue;
    const std::size_t end = std::min(text.rfind('\n'), text.size() - 1) + 1;
    use(std::string_view(text).substr(0, end));
    text.erase(0, end);
  }
  if (std::ferror(stdin) != 0) throw system_error("standard input", errno);
  use(text);
}

/// The lock of a ledger, until this process ends. LocalLedger takes the same one.
Descriptor turn_of(const fs::path& ledger) {
  const std::string name = ledger.string() + ".lock";
  Descriptor turn(::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!turn || ::flock(turn.get(), LOCK_EX) != 0) throw system_error(name, errno);
  return turn;
}

std::int64_t option_ns(const std::string& text) {
  return parse_duration(text).value_or(std::chrono::nanoseconds(0)).count();
}

std::string no_duration(const std::string& text) {
  return parse_duration(text) ? "" : "\"" + text + "\" is no time; write 24h or 30d";
}

class Nodes final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    app.add_option("dirs", given_,
                   "job directories, or folders with job directories in them; \"-\": read the lines of nodes' ledgers "
                   "from standard input")
        ->type_name("DIR");
    app.add_option(
           "--ledger", ledger_,
           "read this file as well, and add the results from the directories: a line for each node and job, without "
           "names of users, jobs and commands; \"-\": read the lines from standard input")
        ->type_name("FILE");
    app.add_flag("--untold", untold_,
                 "with --ledger FILE: keep a second file, FILE.untold, with the lines that FILE did not have, or that "
                 "have changed, first with those of the last 24 h; from then on it is kept without this option, too");
    app.add_option("--since", since_, "only jobs that ended in this time: 24h, 30d")
        ->check(no_duration)
        ->type_name("TIME");
    app.add_option("--keep", keep_, "drop jobs from the ledger that ended longer ago (default 90d)")
        ->check(no_duration)
        ->type_name("TIME");
    app.add_option("--agree", ranking_.agree,
                   "number of different jobs that must find the same hardware fault of a node before a drain is "
                   "suggested (default 3)")
        ->check(CLI::Range(2, 1000))
        ->type_name("N");
    CLI::Option* mail =
        app.add_flag("--mail", mail_, "send the result to the administrators ([mail] admins), if a node has findings");
    app.add_flag("--dry-run", digest_.dry_run, "with --mail: send nothing; print recipients and subject")->needs(mail);
    app.add_option("--config", common.config, "with --mail: read this reveal.conf instead of the site's")
        ->type_name("FILE");
    app.add_option("--limit", limit_, "print at most this many nodes (default 20)")
        ->check(CLI::Range(1, 100000))
        ->type_name("N");
  }

  int run(const CommonOptions& common) override {
    if (given_.empty() && ledger_.empty()) {
      complain("give job directories, or --ledger FILE; see reveal nodes --help");
      return kUsage;
    }
    collected_ = std::erase(given_, kStandardInput) > 0;
    if (ledger_ == kStandardInput && (collected_ || !given_.empty())) {
      complain("--ledger - only reads: it cannot store results from directories");
      return kUsage;
    }
    if (untold_ && (ledger_.empty() || ledger_ == kStandardInput)) {
      complain("--untold needs --ledger FILE");
      return kUsage;
    }
    if (mail_ && !digest_.dry_run && ::geteuid() == 0) {
      throw Error(
          "reveal does not send mail as root; as a mailer account: reveal nodes --ledger - --mail, with the ledger as "
          "standard input");
    }
    const std::int64_t now = utc_now_ns();
    NodeRanking ranking;
    NodeLedger ledger;
    const Descriptor turn = writes() ? turn_of(ledger_) : Descriptor();
    const OwnerKey owners = owner_key();
    const bool known = read_ledger(now, owners, ledger, ranking.lines_refused);
    const NodeLedger before = keeps_untold() ? ledger : NodeLedger();
    std::size_t read = add_directories(now, owners, ledger, ranking.unread);
    if (collected_) read += add_lines_of_nodes(now, owners, ledger, ranking.lines_refused);
    if (writes() && read > 0) write_ledger(now, ledger, before);
    if (!since_.empty()) ledger.keep_since(now - option_ns(since_));
    ranking_.own = owners.pseudonym(::geteuid());
    NodeRanking made = rank_nodes(ledger.lines(), ranking_);
    made.lines_refused = ranking.lines_refused;
    made.unread = std::move(ranking.unread);
    if (mail_) return send(made, now, common);
    print(common.json ? ranking_as_json(made) : ranking_as_text(made, limit_, common.style()));
    return read > 0 || known ? 0 : kFailure;
  }

 private:
  [[nodiscard]] bool adds() const { return collected_ || !given_.empty(); }
  [[nodiscard]] bool writes() const { return adds() && !ledger_.empty() && ledger_ != kStandardInput; }
  [[nodiscard]] fs::path untold_file() const { return ledger_ + ".untold"; }
  [[nodiscard]] bool keeps_untold() const {
    std::error_code error;
    return writes() && (untold_ || fs::exists(untold_file(), error));
  }

  /// That of the ledger, unless there is none, or it comes from elsewhere.
  [[nodiscard]] OwnerKey owner_key() const {
    std::error_code error;
    const bool stored = !ledger_.empty() && ledger_ != kStandardInput;
    return writes() || (stored && fs::exists(ledger_ + ".key", error)) ? OwnerKey::beside(ledger_) : OwnerKey();
  }

  /// Whether there is one.
  bool read_ledger(std::int64_t now, const OwnerKey& owners, NodeLedger& ledger, std::size_t& refused) const {
    std::error_code error;
    if (ledger_.empty() || (adds() && !fs::exists(ledger_, error))) return false;
    // A ledger that is kept was checked line by line before. It is written anew without what is refused here: a clock
    // that is behind today must not cost the lines of the last days.
    const std::int64_t latest = ledger_ == kStandardInput ? now : now + std::min(option_ns(keep_), kMostBehind);
    const auto add = [&](std::string_view lines) {
      ParsedLedger parsed = parse_ledger(lines, latest);
      refused += parsed.refused;
      for (LedgerLine& line : parsed.lines) {
        if (owners.is_new() && !line.owner.empty()) line.owner = owners.pseudonym_of_hash(line.owner);
        ledger.add(std::move(line));
      }
    };
    if (ledger_ == kStandardInput) {
      read_standard_input(add);
    } else {
      const std::string text = read_text_file(ledger_, kLargestLedger, FileOf::ours);
      add(text);
      if (text.size() + kLongestLedgerLine > kLargestLedger) ledger.begin_here();  // the last call has cut it
    }
    return true;
  }

  /// The number of lines that were read. They name owners by a hash, which is the same on all nodes.
  static std::size_t add_lines_of_nodes(std::int64_t now, const OwnerKey& owners, NodeLedger& ledger,
                                        std::size_t& refused) {
    std::size_t read = 0;
    read_standard_input([&](std::string_view lines) {
      ParsedLedger parsed = parse_ledger(lines, now);
      refused += parsed.refused;
      read += parsed.lines.size();
      for (LedgerLine& line : parsed.lines) {
        if (!line.owner.empty()) line.owner = owners.pseudonym_of_hash(line.owner);
        ledger.add(std::move(line));
      }
    });
    return read;
  }

  /// The number of directories that were read.
  std::size_t add_directories(std::int64_t now, const OwnerKey& owners, NodeLedger& ledger,
                              std::vector<UnreadDirectory>& unread) const {
    std::size_t read = 0;
    for (const fs::path& directory : job_directories(given_, unread)) {
      try {
        for (LedgerLine& line : lines_in(directory, owners, now)) ledger.replace(std::move(line));
        ++read;
      } catch (const Error& error) {
        unread.push_back({directory.string(), error.what()});
      }
    }
    return read;
  }

  /// The untold lines first: after a crash in between they are untold once more, and not lost.
  void write_ledger(std::int64_t now, NodeLedger ledger, const NodeLedger& before) const {
    ledger.keep_since(now - option_ns(keep_));
    if (keeps_untold()) write_untold(now, ledger, before);
    write(ledger_, render_ledger(ledger.lines(), kLargestLedger));
  }

  void write_untold(std::int64_t now, const NodeLedger& ledger, const NodeLedger& before) const {
    std::error_code error;
    if (!fs::exists(untold_file(), error)) {
      NodeLedger first = ledger;
      first.keep_since(now - kFirstDigest);
      return write(untold_file(), render_ledger(first.lines(), kLargestUntold));
    }
    const std::vector<LedgerLine> more = ledger.lines_since(before);
    if (more.empty()) return;
    std::string text =
        read_text_file(untold_file(), kLargestUntold, FileOf::ours) + render_ledger(more, kLargestUntold);
    if (text.size() > kLargestUntold) {
      text.erase(0, text.find('\n', text.size() - kLargestUntold - 1) + 1);
      complain(untold_file().string() + ": the first lines are left out, because no digest was sent for long");
    }
    write(untold_file(), text);
  }

  static void write(const fs::path& file, const std::string& text) {
    publish_file(file.has_parent_path() ? file.parent_path() : ".", file.filename(), text, Synced::yes);
  }

  int send(const NodeRanking& ranking, std::int64_t now, const CommonOptions& common) {
    const Config config = common.configuration(ConfigOwner::site);
    std::vector<std::string> problems = config.problems_of({"mail"});
    const MailSettings settings = mail_settings(config, problems);
    for (const std::string& problem : problems) complain(problem);
    digest_.host = host_name();
    digest_.now_utc_ns = now;
    const MailOutcome outcome = mail_nodes(ranking, digest_, settings);
    print(common.json ? outcome_as_json(outcome)
                      : outcome_as_text(outcome, digest_.dry_run ? MailText::shown : MailText::left_out));
    if (const std::string failure = failure_line(outcome); !failure.empty()) complain(failure);
    return outcome.failed ? kFailure : 0;
  }

  std::vector<std::string> given_;
  bool collected_ = false;  // lines of nodes' ledgers come from standard input
  bool mail_ = false;
  NodeDigest digest_;
  bool untold_ = false;
  std::string ledger_, since_, keep_ = "90d";
  RankingOptions ranking_;
  std::size_t limit_ = 20;
};

const RegisteredCommand kNodesCommand{
    {.order = 72,
     .name = "nodes",
     .help = "List the nodes that slowed different jobs down, from archived job directories (for administrators)",
     .examples =
         "  reveal nodes reveal-4711 reveal-4712\n"
         "  reveal nodes . --json\n"
         "  reveal nodes . --ledger nodes.jsonl --since 30d    also keep a line for each node and job\n"
         "  reveal nodes . --ledger nodes.jsonl --untold       and its new lines in nodes.jsonl.untold\n"
         "  reveal nodes --ledger nodes.jsonl --since 24h      without the directories\n"
         "  reveal nodes --ledger - --since 24h --mail --dry-run < nodes.jsonl\n"
         "  clush -a -N cat /var/spool/reveal/nodes.jsonl | reveal nodes - --ledger nodes.jsonl\n"
         "A finding counts for a node if it is a fault of the node's hardware, or if it is about the node and\n"
         "names some nodes of a job and not all, or the only one; programs of users are not blamed on nodes.\n"
         "Reports are written by users: a drain is only suggested if jobs of different users agree, and nothing\n"
         "is drained. Root reads each directory as its owner. FILE.key beside a ledger makes its pseudonyms of\n"
         "owners; keep it with the ledger. Exit status 1 with --mail: the mail was due and was not sent.",
     .make = make_command<Nodes>}};

}  // namespace
}  // namespace reveal
