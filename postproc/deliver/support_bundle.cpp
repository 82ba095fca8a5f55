#include "postproc/deliver/support_bundle.h"

#include <fcntl.h>
#include <pwd.h>
#include <spdlog/fmt/fmt.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/host_name.h"
#include "hdf5schema/basics/run_program.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/version.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/job.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using NameKind = Redaction::Kind;

constexpr std::size_t kMostBundledNodes = 16;
constexpr std::size_t kMostEvents = 200;   // the last ones of a node
constexpr std::size_t kShortestValue = 8;  // shorter ones are words such as "yes"
constexpr std::size_t kShortestSecret = 3;
constexpr std::size_t kLargestProgramAnswer = 1 << 16;
constexpr auto kVersionLimit = std::chrono::seconds(5);

/// Parts of the names of variables whose values are removed even if they are short.
constexpr std::string_view kSecretNames[] = {"token",      "secret", "pass",    "key",
                                             "credential", "auth",   "account", "project"};
constexpr std::string_view kSystemNames[] = {"_", "SHELL", "TERM"};
constexpr std::string_view kUserNames[] = {"USER", "LOGNAME", "SUDO_USER", "SLURM_JOB_USER"};
constexpr std::string_view kHostNames[] = {"HOSTNAME", "HOST", "SLURMD_NODENAME", "SLURM_CLUSTER_NAME"};

/// Events whose texts are written by the collector alone.
constexpr std::string_view kCollectorEvents[] = {"begin",         "end",
                                                 "clock_step",    "gap",
                                                 "ticks_late",    "ticks_missed",
                                                 "rows_lost",     "channels_refused",
                                                 "counter_reset", "probe_lost",
                                                 "slow_call",     "answering",
                                                 "not_answering", "job_look_failed",
                                                 "cpus_online",   "probe_restarted"};

/// Forms of settings that hold no name.
constexpr ConfigForm kPlainForms[] = {ConfigForm::names, ConfigForm::truth, ConfigForm::whole,  ConfigForm::number,
                                      ConfigForm::time,  ConfigForm::size,  ConfigForm::choice, ConfigForm::retention};

template <typename List, typename Value>
bool is_among(const List& list, const Value& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

bool is_secret(std::string_view variable) {
  const std::string name = in_lower_case(variable);
  return std::any_of(std::begin(kSecretNames), std::end(kSecretNames),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

void add_host(Redaction& redaction, std::string_view name) {
  redaction.add(NameKind::host, name);
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return;
  redaction.add(NameKind::host, name.substr(0, dot));
  redaction.add(NameKind::host, name.substr(dot + 1));
}

void add_variable(Redaction& redaction, std::string_view name, std::string_view value) {
  if (is_among(kSystemNames, name)) return;
  if (is_among(kUserNames, name)) return redaction.add(NameKind::user, value);
  if (is_among(kHostNames, name)) return add_host(redaction, value);
  if (name == "HOME" || name == "PWD" || name == "OLDPWD") return redaction.add(NameKind::path, value);
  if (value.size() >= (is_secret(name) ? kShortestSecret : kShortestValue)) redaction.add(NameKind::value, value);
}

std::string answer_of_shell(const std::string& command) {
  const ProgramEnd end = run_program({.command = {"/bin/sh", "-c", command},
                                      .listen = ProgramRun::Listen::output,
                                      .output_limit = kLargestProgramAnswer,
                                      .limit = kVersionLimit});
  return end.start_error == 0 && end.status ? end.output : "";
}

struct VersionQuestion {
  std::string_view subject;
  std::string_view command;  // prints nothing where the program is not there
};

constexpr VersionQuestion kVersionQuestions[] = {
    {"os", ". /etc/os-release 2>/dev/null && echo \"$PRETTY_NAME\""},
    {"libc", "getconf GNU_LIBC_VERSION 2>/dev/null"},
    {"slurm", "srun --version 2>/dev/null"},
    {"package",
     "for p in reveal reveal-collector reveal-slurm slurmd slurm-client slurm; do "
     "dpkg-query -W -f '${Package} ${Version}\\n' $p 2>/dev/null || "
     "rpm -q --qf '%{NAME} %{VERSION}-%{RELEASE}\\n' $p 2>/dev/null | grep -v 'not installed'; done"},
};

void add_names(Redaction& redaction, const TraceHeader& header) {
  redaction.add(NameKind::user, header.user);
  add_host(redaction, header.node);
  redaction.add(NameKind::host, header.cluster);
  for (const std::string& text : {header.job_name, header.command, header.run_key})
    redaction.add(NameKind::value, text);
  for (const auto& [key, value] : header.tags) redaction.add(NameKind::value, value);
}

std::string notes_of_events(const std::vector<Event>& events) {
  std::string text;
  std::map<std::string, std::size_t> others;
  std::vector<const Event*> shown;
  for (const Event& event : events) {
    if (is_among(kCollectorEvents, event.code)) {
      shown.push_back(&event);
    } else {
      ++others[event.code];
    }
  }
  for (const auto& [code, count] : others) text += fmt::format("  {} times {}\n", count, printable(code));
  const std::size_t first = shown.size() > kMostEvents ? shown.size() - kMostEvents : 0;
  for (std::size_t i = first; i < shown.size(); ++i) {
    const Event& event = *shown[i];
    text += fmt::format("  {:.1f} s  {}  {}  {}\n", static_cast<double>(event.time_ns) * 1e-9, printable(event.object),
                        event.code, printable(event.text));
  }
  return text;
}

std::string notes_of_trace(const TraceReader& trace) {
  const TraceHeader& header = trace.header();
  std::string text = fmt::format("{}: recorded by reveal {} at intervals of {:g} s, {}\n", printable(header.node),
                                 printable(header.tool_version), static_cast<double>(header.interval.count()) * 1e-9,
                                 trace.complete() ? "closed" : "not closed");
  for (const TraceReader::Damage& damage : trace.damages()) text += "  damaged: " + printable(damage.text()) + "\n";
  for (const Coverage& probe : trace.coverage()) {
    text += fmt::format("  probe {}: {}{}{}\n", printable(probe.probe), name_of(probe.state),
                        probe.reason.empty() ? "" : ", ", printable(probe.reason));
  }
  return text + notes_of_events(trace.events());
}

std::string notes_of_job(const fs::path& directory, Redaction& redaction) {
  std::error_code error;
  redaction.add(NameKind::path, fs::absolute(directory, error).lexically_normal().string());
  redaction.add(NameKind::path, fs::canonical(directory, error).string());
  std::string text;
  std::size_t nodes = 0;
  for (const ListedTrace& listed : list_traces(directory)) {
    add_host(redaction, listed.node);
    if (++nodes > kMostBundledNodes) continue;
    try {
      const TraceReader trace(listed.path, TraceReader::Check::names);
      add_names(redaction, trace.header());
      text += notes_of_trace(trace);
    } catch (const Error& problem) {
      text += printable(listed.node + ": " + problem.what()) + "\n";
    }
  }
  if (nodes > kMostBundledNodes) text += fmt::format("{} more traces were not read\n", nodes - kMostBundledNodes);
  return text;
}

Json redacted(const Json& json, Redaction& redaction) {
  if (json.is_string()) return redaction.redacted(json.get_ref<const std::string&>());
  if (!json.is_structured()) return json;
  Json copy = json.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : json.items()) {
    if (json.is_array()) {
      copy.push_back(redacted(value, redaction));
    } else {
      copy[key] = redacted(value, redaction);
    }
  }
  return copy;
}

bool holds_no_name(const ConfigKey& key) {
  return is_among(kPlainForms, key.form);
}

/// Messages about reveal.conf quote it.
void add_quoted(Redaction& redaction, std::string_view message) {
  const auto is_key = [](std::string_view word) {
    return std::any_of(std::begin(kConfigKeys), std::end(kConfigKeys),
                       [&](const ConfigKey& key) { return key.key == word; });
  };
  for (std::size_t open = message.find('"'); open != std::string_view::npos; open = message.find('"')) {
    message.remove_prefix(open + 1);
    const std::string_view quoted = message.substr(0, message.find('"'));
    if (!is_key(quoted)) redaction.add(NameKind::value, quoted);
    message.remove_prefix(std::min(quoted.size() + 1, message.size()));
  }
}

void add_settings(Redaction& redaction, const Config& config) {
  for (const ConfigKey* key : all_config_keys()) {
    if (holds_no_name(*key) || config.place(*key).empty()) continue;
    for (const std::string& value : config.list(*key)) redaction.add(NameKind::value, value);
  }
  for (const ConfigProblem& problem : config.problems()) add_quoted(redaction, problem.text);
}

/// The settings that are not defaults; a text of the site's is left out.
Json settings_of(const Config& config) {
  Json settings = Json::object();
  for (const ConfigKey* key : all_config_keys()) {
    if (config.place(*key).empty()) continue;
    settings[fmt::format("{}.{}", key->section, key->key)] = holds_no_name(*key) ? config.text(*key) : "(set)";
  }
  return {{"schema", "reveal.bundle-settings/1"}, {"other_than_the_default", std::move(settings)}};
}

std::string versions() {
  std::string text = fmt::format("reveal: {}\n", REVEAL_VERSION);
  utsname kernel{};
  if (::uname(&kernel) == 0) {
    text += fmt::format("kernel: {} {} {} {}\n", kernel.sysname, kernel.release, kernel.version, kernel.machine);
  }
  for (const auto& [subject, command] : kVersionQuestions) {
    const std::string answer = answer_of_shell(std::string(command));
    std::string_view rest = answer;
    for (std::string_view line; next_line(rest, line);) text += fmt::format("{}: {}\n", subject, line);
  }
  return text;
}

}  // namespace

void add_own_names(Redaction& redaction, const std::vector<std::string>& environment) {
  for (const uid_t id : {::geteuid(), ::getuid()}) {
    const passwd* user = ::getpwuid(id);
    if (user == nullptr) continue;
    redaction.add(NameKind::user, user->pw_name);
    redaction.add(NameKind::path, user->pw_dir);
  }
  add_host(redaction, host_name());
  for (const std::string_view entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos) add_variable(redaction, entry.substr(0, equals), entry.substr(equals + 1));
  }
}

std::vector<ArchivedFile> support_files(const SupportSources& sources, Redaction& redaction) {
  // All names have to be known before anything is redacted.
  add_settings(redaction, sources.config);
  const std::string notes = sources.job.empty() ? "" : notes_of_job(sources.job, redaction);
  const std::string doctor = json_text(redacted(sources.doctor, redaction), 2) + "\n";
  const std::string settings = json_text(redacted(settings_of(sources.config), redaction), 2) + "\n";
  std::vector<ArchivedFile> files = {
      {"doctor.json", doctor}, {"settings.json", settings}, {"versions.txt", redaction.redacted(versions())}};
  if (!sources.job.empty()) files.push_back({"collector.txt", redaction.redacted(notes)});
  return files;
}

void write_new_file(const fs::path& path, std::string_view content) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) throw system_error(path.string(), errno);
  if (write_all(file.get(), content)) return;
  const int failure = errno;
  ::unlink(path.c_str());
  throw system_error(path.string(), failure);
}

}  // namespace reveal
