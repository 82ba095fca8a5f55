#include "postproc/deliver/site_checks.h"

#include <dlfcn.h>
#include <glob.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/delivery_times.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/run_program.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/version.h"
#include "postproc/deliver/deliver.h"
#include "postproc/history/run_index.h"
#include "postproc/mail/mail_settings.h"
#include "postproc/mail/mail_spool.h"
#include "postproc/telemetry/publish.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using Result = SiteCheck::Result;

constexpr std::size_t kLargestFile = 1 << 20;
constexpr std::size_t kMostIncluded = 64;
constexpr auto kPatience = std::chrono::seconds(5);

/// The plugin's line in plugstack.conf.
struct PluginLine {
  fs::path file;
  std::string need;  // "optional"
  fs::path plugin;
  std::string spool = "/var/spool/reveal";
  std::string disable = "/etc/reveal/disable";
};

/// Lines of `scontrol show config`: "PrologFlags            = Alloc,Contain".
/// https://slurm.schedmd.com/slurm.conf.html#OPT_PrologFlags
std::string setting(std::string_view config, std::string_view key) {
  for (std::string_view line; next_line(config, line);) {
    if (next_word(line) == key && next_word(line) == "=") return std::string(next_word(line));
  }
  return {};
}

std::string answer_of(std::vector<std::string> command) {
  const ProgramEnd end = run_program({.command = std::move(command),
                                      .listen = ProgramRun::Listen::output,
                                      .output_limit = kLargestFile,
                                      .limit = kPatience});
  return end.start_error == 0 && end.status && exit_status(*end.status) == 0 ? end.output : "";
}

/// "22.05.8", "slurm-wlm 22.05.8" -> "22.5"
std::string release_of(std::string_view version) {
  const std::size_t digit = version.find_first_of("0123456789");
  if (digit == std::string_view::npos) return {};
  version.remove_prefix(digit);
  const std::size_t dot = version.find('.');
  if (dot == std::string_view::npos) return {};
  const auto major = parse_int(version.substr(0, dot));
  const auto minor = parse_int(version.substr(dot + 1, version.find_first_not_of("0123456789", dot + 1) - dot - 1));
  return major && minor ? fmt::format("{}.{}", *major, *minor) : "";
}

/// The release that the plugin was built for; empty when that cannot be read.
std::string built_for(const fs::path& plugin) {
  void* handle = ::dlopen(plugin.c_str(), RTLD_LAZY | RTLD_LOCAL);  // its calls into Slurm stay open
  if (handle == nullptr) return {};
  const auto* version = static_cast<const unsigned int*>(::dlsym(handle, "plugin_version"));
  const std::string release = version == nullptr ? "" : fmt::format("{}.{}", *version >> 16U, *version >> 8U & 0xffU);
  ::dlclose(handle);
  return release;
}

class SiteChecks {
 public:
  explicit SiteChecks(const SitePlaces& places) : places_(places) {}

  std::vector<SiteCheck> run() {
    const bool slurm = places_.query_slurm && !find_in_path("scontrol").empty();
    if (slurm) config_ = answer_of({"/bin/sh", "-c", "exec scontrol show config 2>/dev/null"});
    line_ = plugin_line();
    programs();
    configuration();
    history();
    plugin();
    controller(slurm);
    spool();
    reports();
    switches();
    mail();
    return std::move(checks_);
  }

 private:
  void add(std::string name, Result result, std::string message, std::string remedy = "") {
    checks_.push_back({std::move(name), result, std::move(message), std::move(remedy)});
  }
  [[nodiscard]] fs::path at(const fs::path& path) const { return places_.root / path.relative_path(); }

  void programs() {
    std::string same;
    for (const char* name : {"reveal-run", "reveal-collect"}) {
      const fs::path program = places_.programs / name;
      if (::access(program.c_str(), X_OK) != 0) {
        return add("programs", Result::problem, program.string() + " is missing", "install the whole package");
      }
      const std::string version = answer_of({program.string(), "--version"});
      if (version.find(REVEAL_VERSION) == std::string::npos) {
        return add("programs", Result::problem,
                   fmt::format("{} is of another version than reveal {}", program.string(), REVEAL_VERSION),
                   "install the programs of one package");
      }
      same += std::string(same.empty() ? "" : ", ") + name;
    }
    add("programs", Result::ok, fmt::format("reveal, {}: all {}", same, REVEAL_VERSION));
  }

  void configuration() {
    if (places_.config_problem.empty()) return add("reveal.conf", Result::ok, "can be read");
    for (const std::string& problem : places_.config_problem) {
      add("reveal.conf", Result::problem, problem, "correct that line; the rest of the file applies");
    }
  }

  void history() {
    if (places_.history.empty()) return add("history", Result::unused, places_.why_no_history);
    const std::string there = unwritable_part(places_.history);
    if (there.empty()) return add("history", Result::ok, places_.history.string());
    add("history", Result::problem, there + " cannot be written: runs are not compared with earlier ones",
        "chmod u+rwx " + there + ", or set XDG_STATE_HOME");
  }

  void read_plugstack(const fs::path& file, std::size_t& read, std::optional<PluginLine>& found) const {
    std::error_code error;
    if (++read > kMostIncluded || !fs::is_regular_file(file, error)) return;
    const std::string text = read_text_file(file, kLargestFile);
    std::string_view rest = text;
    for (std::string_view line; next_line(rest, line);) {
      const std::string_view first = next_word(line);
      std::string_view words = line;
      const fs::path second(next_word(words));
      if (first == "include") {
        glob_t matches{};
        const fs::path pattern = second.is_absolute() ? at(second) : file.parent_path() / second;
        if (::glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
          for (std::size_t i = 0; i < matches.gl_pathc; ++i) read_plugstack(matches.gl_pathv[i], read, found);
        }
        ::globfree(&matches);
      } else if ((first == "optional" || first == "required") && second.filename() == "spank_reveal.so") {
        found = PluginLine{.file = file, .need = std::string(first), .plugin = second};
        for (std::string_view word = next_word(words); !word.empty(); word = next_word(words)) {
          if (word.starts_with("spool=")) found->spool = word.substr(6);
          if (word.starts_with("disable=")) found->disable = word.substr(8);
        }
      }
    }
  }

  [[nodiscard]] std::optional<PluginLine> plugin_line() const {
    const std::string configured = setting(config_, "PlugStackConfig");
    std::optional<PluginLine> found;
    std::size_t read = 0;
    try {
      read_plugstack(at(configured.empty() ? "/etc/slurm/plugstack.conf" : configured), read, found);
    } catch (const Error&) {  // not for us to read: as if it were not there
    }
    return found;
  }

  void plugin() {
    if (!line_) {
      return add("Slurm plugin", Result::unused,
                 "plugstack.conf has no line for spank_reveal.so: srun --reveal is not set up");
    }
    fs::path plugin = line_->plugin;
    if (plugin.is_relative()) plugin = fs::path(setting(config_, "PluginDir")) / plugin;
    const fs::path file = at(plugin);
    if (::access(file.c_str(), R_OK) != 0) {
      return add("Slurm plugin", Result::problem,
                 fmt::format("{} names {}, which does not exist", line_->file.string(), plugin.string()),
                 "install the package, or remove the line");
    }
    if (line_->need != "optional") {
      return add("Slurm plugin", Result::problem,
                 fmt::format("{} has \"{}\": a failure of reveal would prevent jobs from running", line_->file.string(),
                             line_->need),
                 "write \"optional\"");
    }
    const std::string built = built_for(file);
    const std::string running = release_of(setting(config_, "SLURM_VERSION"));
    if (!built.empty() && !running.empty() && built != running) {
      return add("Slurm plugin", Result::problem,
                 fmt::format("{} was built for Slurm {}, this is {}", plugin.string(), built, running),
                 "build and install the package for this release");
    }
    add("Slurm plugin", Result::ok,
        plugin.string() + (built.empty() ? "" : fmt::format(", built for Slurm {}", built)));
  }

  void controller(bool slurm) {
    if (!slurm) return add("Slurm", Result::unused, "not installed here (no scontrol in PATH)");
    if (config_.empty()) {
      // Its commands alone are no cluster.
      return add("Slurm", line_ ? Result::problem : Result::unused,
                 "no controller answers: `scontrol show config` failed",
                 line_ ? "check that slurmctld runs and that this node can reach it" : "");
    }
    const std::string flags = setting(config_, "PrologFlags");
    const bool starts = flags.find("Alloc") != std::string::npos || flags.find("Contain") != std::string::npos;
    if (line_ && !starts) {
      return add("Slurm", Result::problem,
                 "PrologFlags has neither Alloc nor Contain: nodes are profiled only from their first srun on",
                 "slurm.conf: PrologFlags=Contain, then scontrol reconfigure");
    }
    add("Slurm", Result::ok, fmt::format("{}, PrologFlags={}", setting(config_, "SLURM_VERSION"), flags));
  }

  void spool() {
    const fs::path spool = line_ ? line_->spool : PluginLine{}.spool;
    struct stat status {};
    if (::lstat(at(spool).c_str(), &status) != 0) {
      return add("spool", line_ ? Result::ok : Result::unused,
                 spool.string() +
                     (line_ ? " will be created by the first job" : " does not exist: no Slurm job was profiled"));
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      return add("spool", Result::problem, spool.string() + " is not a directory that only root can write",
                 fmt::format("chown root {0} && chmod 711 {0}", spool.string()));
    }
    const fs::path marker = at(spool) / "run/breaker";
    if (::access(marker.parent_path().c_str(), X_OK) != 0 && ::geteuid() != 0) {
      return add("spool", Result::ok, spool.string() + "; only root can check the circuit breaker");
    }
    if (::access(marker.c_str(), F_OK) == 0) {
      return add(
          "spool", Result::problem,
          "the circuit breaker is open: three collectors crashed within a day, so no collector starts on this node",
          fmt::format("read slurmd's log, then run {} --reset-breaker {}", REVEAL_JANITOR, spool.string()));
    }
    add("spool", Result::ok, spool.string() + "; the circuit breaker is closed");
  }

  void reports() {
    if (::geteuid() != 0) return add("reports", Result::ok, "only root can read the times of earlier deliveries");
    const fs::path spool = line_ ? line_->spool : PluginLine{}.spool;
    const DeliveryTimes times = DeliveryTimes::in_spool(at(spool), utc_now_ns() / kSecond);
    constexpr unsigned kAnyUser = ~0U;
    const DeliveryPaces paces = times.paces_of(kAnyUser);
    const EpilogLimits limits = epilog_limits(paces, static_cast<double>(places_.memory));
    const std::string known =
        times.deliveries() == 0
            ? "no delivery of more than half a second was measured here"
            : fmt::format(
                  "analyses take {:.2g} and reports {:.2g} times the expected processor time here (measured in "
                  "{} of {})",
                  paces.analysis, paces.merge, counted(static_cast<double>(times.deliveries()), "job"),
                  counted(static_cast<double>(times.owners()), "user"));
    add("reports", Result::ok,
        fmt::format("{}; a report job is submitted for more than {}, or traces of more than {}", known,
                    counted(static_cast<double>(limits.nodes), "node"), quantity(limits.trace_bytes, "bytes")));
  }

  void switches() {
    const std::string file = line_ ? line_->disable : PluginLine{}.disable;
    if (::access(at(file).c_str(), F_OK) != 0)
      return add("disable file", Result::ok, fmt::format("Slurm jobs may be profiled ({} is absent)", file));
    add("disable file", Result::problem, file + " is there: no Slurm job is profiled", "rm " + file);
  }

  void mail() {
    const fs::path file = at(kSiteConfig);
    Config config;
    config.read_file(file, ConfigOwner::site);
    std::vector<std::string> problems = config.problems_of({"mail"});
    const MailSettings settings = mail_settings(config, problems);
    if (!problems.empty()) return add("mail", Result::problem, problems.front(), "correct [mail] in " + file.string());
    if (!settings.enabled) return add("mail", Result::unused, "off: [mail] enabled = false in reveal.conf");
    const bool sends = settings.mailer_spool.empty();  // otherwise the mail program is that of another host
    if (sends && (settings.sendmail.empty() || ::access(at(settings.sendmail.front()).c_str(), X_OK) != 0)) {
      return add("mail", Result::problem,
                 (settings.sendmail.empty() ? "no sendmail" : settings.sendmail.front()) + " cannot be run",
                 "install a mail server's sendmail, or set [mail] sendmail");
    }
    if (::access(at(settings.disable).c_str(), F_OK) == 0) {
      return add("mail", Result::problem, settings.disable + " is there: no mail is sent", "rm " + settings.disable);
    }
    if (!sends) return mail_spool(settings.mailer_spool);
    add("mail", Result::ok, settings.sendmail.front());
  }

  void mail_spool(const std::string& spool) {
    try {
      require_mail_spool(at(spool).string());
      add("mail", Result::ok, "left for the site's mailer in " + spool);
    } catch (const Error& error) {
      // Users could take the names of the mailer's own files.
      add("mail", Result::problem, error.what(),
          fmt::format("install -d -o ACCOUNT -g ACCOUNT -m 700 {0} {0}/state && install -o ACCOUNT -g ACCOUNT -m 600 "
                      "/dev/null {0}/.lock && chmod 3733 {0}, with the account of reveal-mailer.service",
                      spool));
    }
  }

  const SitePlaces& places_;
  std::string config_;  // Slurm's configuration
  std::optional<PluginLine> line_;
  std::vector<SiteCheck> checks_;
};

}  // namespace

std::string_view name_of(SiteCheck::Result result) noexcept {
  constexpr std::string_view kNames[] = {"ok", "problem", "unused"};
  return kNames[static_cast<std::size_t>(result)];
}

std::vector<SiteCheck> check_site(const SitePlaces& places) {
  return SiteChecks(places).run();
}

}  // namespace reveal
