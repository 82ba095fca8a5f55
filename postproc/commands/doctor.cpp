#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <fstream>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/shell_word.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/deliver/site_checks.h"
#include "postproc/deliver/support_bundle.h"
#include "postproc/diagnose/collector_query.h"
#include "postproc/diagnose/locality_map.h"
#include "postproc/history/run_index.h"
#include "postproc/report/deflated.h"
#include "postproc/report/fields.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kName = 22;

bool on_virtual_machine() {
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);) {
    if (line.starts_with("flags")) return line.find(" hypervisor") != std::string::npos;
  }
  return false;
}

std::string names_of(const std::vector<ProbeCheck::Missing>& probes) {
  std::string text;
  for (const ProbeCheck::Missing& probe : probes) text += (text.empty() ? "" : ", ") + probe.name;
  return text;
}

std::string summary_of(const ProbeCheck& probes, std::size_t problems) {
  std::string text = problems == 0
                         ? std::string("reveal works on this node: ")
                         : fmt::format("{} to fix (below): ", counted(static_cast<double>(problems), "problem"));
  text += fmt::format("{} of {} probes measure; {} more inside a job", probes.working.size(), probes.all(),
                      probes.needs_job.size());
  if (!probes.off.empty()) text += fmt::format("; {} off by default ({})", probes.off.size(), names_of(probes.off));
  if (!probes.obtainable.empty()) {
    text += fmt::format("; {} can be enabled ({})", probes.obtainable.size(), names_of(probes.obtainable));
  }
  if (!probes.not_here.empty()) text += fmt::format("; {} not available on this node", probes.not_here.size());
  return text + '.';
}

/// Without an answer of the collector, no probe is listed, and that is one of the problems.
ProbeCheck probes_of_node(std::vector<SiteCheck>& checks) {
  try {
    return sorted_check(query_collector({"--check", "--json"}), on_virtual_machine());
  } catch (const Error& error) {
    checks.push_back({.name = "probes", .result = SiteCheck::Result::problem, .message = error.what(), .remedy = ""});
    return {};
  }
}

/// Returns the map of a live node without a job: it has no processes.
LocalityMap map_of_node() {
  try {
    return locality_map(facts_of_node(query_collector({"--facts", "--json"})), {});
  } catch (const Error& error) {
    LocalityMap map;
    map.note = std::string("not known: ") + error.what();
    return map;
  }
}

std::string drawn(const LocalityMap& map, std::size_t width) {
  std::string text = "\nNUMA topology\n";
  if (map.places.empty()) return text + folded("", map.note, 2, width);
  for (const LocalityPlace& place : map.places) {
    const std::string name = place.numa ? fmt::format("  NUMA node {}", *place.numa) : "  place not known";
    text += place.cpus.empty() ? name + '\n' : folded(name, "cpus " + place.cpus, kName, width);
    const std::pair<const char*, const std::vector<std::string>&> lists[] = {
        {"GPUs", place.gpus}, {"network", place.networks}, {"interrupts", place.interrupts}};
    for (const auto& [label, words] : lists) {
      for (std::size_t i = 0; i < words.size(); ++i) {
        const bool last = i + 1 == words.size();
        text += folded(i == 0 ? fmt::format("    |- {}", label) : "    |", printable(words[i]) + (last ? "" : ","),
                       kName, width);
      }
    }
  }
  return text;
}

std::string as_text(const std::vector<SiteCheck>& checks, const ProbeCheck& probes, const LocalityMap& map,
                    std::size_t problems, std::size_t width) {
  std::string text = folded("", summary_of(probes, problems), 0, width) + "\n";
  for (const SiteCheck& check : checks) {
    text += folded(fmt::format("{:<13}{}", check.name, name_of(check.result)), check.message, kName, width);
    if (!check.remedy.empty()) text += folded(fmt::format("{:<{}}to fix:", "", kName), check.remedy, kName + 8, width);
  }
  std::string working;
  for (const std::string& name : probes.working) working += name + " ";
  text += "\n" + folded("probes that work", working, kName, width);
  if (!probes.needs_job.empty()) {
    text += folded("inside a job", names_of(probes.needs_job), kName, width);
    text += folded(fmt::format("{:<{}}to enable it:", "", kName), "run the command under reveal-run or srun --reveal",
                   kName + 14, width);
  }
  const std::pair<const char*, const std::vector<ProbeCheck::Missing>&> lists[] = {
      {"off by default", probes.off}, {"can be enabled", probes.obtainable}};
  for (const auto& [heading, missing] : lists) {
    if (!missing.empty()) text += fmt::format("\n{}\n", heading);
    for (const ProbeCheck::Missing& probe : missing) {
      text += folded("  " + probe.name, probe.reason, kName, width);
      if (!probe.remedy.empty()) {
        text += folded(fmt::format("{:<{}}to enable it:", "", kName), probe.remedy, kName + 14, width);
      }
    }
  }
  if (!probes.not_here.empty()) text += "\nnot available on this node\n";
  for (const ProbeCheck::Missing& probe : probes.not_here) {
    text += folded("  " + probe.name, probe.reason + (probe.remedy.empty() ? "" : "; " + probe.remedy), kName, width);
  }
  return text + drawn(map, width);
}

Json as_json(const std::vector<SiteCheck>& checks, const ProbeCheck& probes, const LocalityMap& map,
             std::size_t problems) {
  Json json = {{"schema", "reveal.doctor/1"}, {"summary", summary_of(probes, problems)}};
  JsonWriter writer(json);
  writer("problems", problems);
  writer("checks", checks);
  writer("probes", probes);
  writer("locality", map);
  return json;
}

std::vector<std::string> process_environment_entries() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

class Doctor final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    CLI::Option* bundle = app.add_option("--bundle", bundle_,
                                         "also write an archive for support, without names, addresses and secrets; the "
                                         "file must not exist")
                              ->type_name("FILE.tar.gz");
    app.add_option("--job", job_, "add the collector's notes in this job directory of yours to the archive")
        ->type_name("DIR")
        ->needs(bundle);
  }

  int run(const CommonOptions& common) override {
    if (!job_.empty()) need_own_job();
    SitePlaces places{.programs = own_path().parent_path()};
    const StatePlace history = state_place();
    places.history = history.directory;
    places.why_no_history = history.why_not;
    const Config config = common.configuration();
    for (const ConfigProblem& problem : config.problems()) places.config_problem.push_back(problem.text);
    std::vector<SiteCheck> checks = check_site(places);
    const ProbeCheck probes = probes_of_node(checks);
    std::size_t problems = 0;
    for (const SiteCheck& check : checks) problems += check.result == SiteCheck::Result::problem ? 1 : 0;
    const LocalityMap map = map_of_node();
    const Json json = as_json(checks, probes, map, problems);
    print(common.json ? json_text(json, 2) + "\n"
                      : as_text(checks, probes, map, problems, static_cast<std::size_t>(common.style().width)));
    if (!bundle_.empty()) write_bundle(json, config, common.json);
    return problems == 0 ? 0 : kFailure;
  }

 private:
  /// HDF5 was not written for hostile files, and this process may be root's.
  void need_own_job() {
    job_ = directory_of_number(job_);
    need_directory(job_);
    const auto foreign = foreign_part({job_});
    if (foreign) throw Error(foreign->path.string() + " belongs to " + foreign->owner + ": run this as that user");
  }

  void write_bundle(const Json& json, const Config& config, bool quiet) const {
    Redaction redaction;
    add_own_names(redaction, process_environment_entries());
    std::vector<ArchivedFile> files = support_files({.doctor = json, .config = config, .job = job_}, redaction);
    std::string list;
    for (ArchivedFile& file : files) {
      list += fmt::format("  {:<15}{:>7} bytes\n", file.name, file.text.size());
      file.name = "reveal-support/" + file.name;
    }
    write_new_file(bundle_, gzip_file(tar_file(files, utc_now_ns() / kSecond)));
    const std::string note = fmt::format("\n{}, readable only by you:\n{}replaced by placeholders: {}\n", bundle_, list,
                                         redaction.replaced());
    if (!quiet) print(note + "Look through it before you send it: tar -xzf " + shell_word(bundle_) + "\n");
  }

  std::string bundle_, job_;
};

const RegisteredCommand kDoctorCommand{
    {.order = 100,
     .name = "doctor",
     .help = "Check whether reveal works on this node; list working and missing probes and the topology",
     .examples =
         "  reveal doctor\n  reveal doctor --json\n  reveal doctor --bundle support.tar.gz --job reveal-4711\n"
         "Exit status: 0 no problem, 1 at least one. The archive contains the output of this command as JSON, the "
         "settings that\nare not defaults, versions and, with --job, the coverage and the last events of the "
         "traces. Users, hosts, paths,\naddresses and values of the environment are placeholders in it (user1, "
         "host1); it contains no measured values.",
     .make = make_command<Doctor>}};

}  // namespace
}  // namespace reveal
