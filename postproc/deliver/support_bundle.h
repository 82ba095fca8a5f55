// `reveal doctor --bundle`: the facts that support needs about an installation, without names. Values that can hold a
// name are left out where their form shows it, and replaced where a text contains them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hdf5schema/basics/config.h"
#include "postproc/deliver/tar_file.h"
#include "postproc/json/json_fields.h"
#include "postproc/words/redaction.h"

namespace reveal {

/// The names that this process knows: its user, this host, and the values of its environment ("NAME=value").
void add_own_names(Redaction& redaction, const std::vector<std::string>& environment);

struct SupportSources {
  Json doctor;  // as `reveal doctor --json` prints it
  const Config& config;
  std::filesystem::path job;  // a job directory of this user, whose collectors' notes are included; may be empty
};

/// doctor.json, settings.json, versions.txt and, with a job, collector.txt: coverage, damages and the last events of
/// its traces, without those that name processes and programs. Throws Error where the job has no traces.
[[nodiscard]] std::vector<ArchivedFile> support_files(const SupportSources& sources, Redaction& redaction);

/// Makes the file, mode 0600. Throws Error where a file or link of this name is there.
void write_new_file(const std::filesystem::path& path, std::string_view content);

}  // namespace reveal
